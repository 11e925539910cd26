"""Trade-off functions: exact polylines, and curves that enclose what is known."""

from sharpdp.curves.tradeoff.curve import TradeoffCurve
from sharpdp.curves.tradeoff.polyline import Polyline

__all__ = ["Polyline", "TradeoffCurve"]
