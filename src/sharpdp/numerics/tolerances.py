"""What rounding may take or add, as far as several places share it: errors, never factors."""

from __future__ import annotations

__all__ = ["FORMULA_ERROR", "POINT_ERROR", "PROFILE_ERROR", "QUOTIENT_ERROR"]

QUOTIENT_ERROR = 2.0**-50
"""Relative, of a few products, quotients and square roots: eight units, of which each takes one."""

POINT_ERROR = 2e-15
"""Relative, of points that tables and hulls are given: 18 units, of which one operation takes one."""

FORMULA_ERROR = 1e-12
"""Relative, of a handful of exponentials and logarithms, each within ten units of 1e-16, or of a sum of a
few thousand positive numbers."""

PROFILE_ERROR = 1e-9
"""Of the logarithm of a profile, or relative of masses: far beyond what normal tails and sums of cells
lose, whose logarithms of some hundreds have errors of 1e-12."""
