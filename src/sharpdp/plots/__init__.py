"""Pictures: one answer as a band, several trade-off curves, or all known bounds side by side.

Needs the extra `plots` (matplotlib). A band is true between the points at which the answer was
asked, not only at them.
"""

from sharpdp.plots.answers import profile, save, tradeoff
from sharpdp.plots.attack_risk import risk
from sharpdp.plots.bounds import comparison, save_comparison, theorems
from sharpdp.plots.curves import save_tradeoffs, tradeoffs
from sharpdp.plots.many_answers import renyi, sweep
from sharpdp.plots.mixture_comparison import mixture, save_mixture
from sharpdp.plots.sampler_curves import samplers, save_samplers
from sharpdp.plots.style import paper

__all__ = [
    "comparison",
    "mixture",
    "paper",
    "profile",
    "renyi",
    "risk",
    "samplers",
    "save",
    "save_comparison",
    "save_mixture",
    "save_samplers",
    "save_tradeoffs",
    "sweep",
    "theorems",
    "tradeoff",
    "tradeoffs",
]
