"""Trade-off functions: exact polylines, and curves that enclose what is known."""

from sharpdp.tradeoffs.curve import TradeoffCurve
from sharpdp.tradeoffs.polyline import Polyline

__all__ = ["Polyline", "TradeoffCurve"]
