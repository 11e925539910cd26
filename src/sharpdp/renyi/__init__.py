"""Renyi curves as mechanisms: alone, and in a sequence with others."""

from sharpdp.renyi.curve import RenyiCurve, compare_conversions

__all__ = ["RenyiCurve", "compare_conversions"]
