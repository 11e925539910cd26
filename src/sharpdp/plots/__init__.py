"""Pictures: one answer as a band, or all known bounds side by side.

Needs the extra `plots` (matplotlib). A band is true between the points at which the answer was
asked, not only at them.
"""

from sharpdp.plots.answers import profile, save, tradeoff
from sharpdp.plots.contest import comparison, save_comparison

__all__ = ["comparison", "profile", "save", "save_comparison", "tradeoff"]
