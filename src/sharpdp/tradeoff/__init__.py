"""Trade-off functions: exact polylines, and curves that enclose what is known."""

from sharpdp.tradeoff.curve import TradeoffCurve
from sharpdp.tradeoff.polyline import Polyline

__all__ = ["Polyline", "TradeoffCurve"]
