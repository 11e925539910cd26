"""Trade-off functions: exact polylines, and curves that enclose what is known."""

from sharpdp.tradeoffs.curve import TradeoffCurve
from sharpdp.tradeoffs.polyline import Polyline
from sharpdp.tradeoffs.side_by_side import MixtureComparison, compare_mixture

__all__ = ["MixtureComparison", "Polyline", "TradeoffCurve", "compare_mixture"]
