"""Elementary operations rounded to a stated side: direction in the name.

Each result is the nearest double moved outwards by enough units to be safe against the rounding of
the operation itself (one unit for + and *, a few for library functions).
"""

from __future__ import annotations

import math

# exp and log of the platform's library are within one unit in the last place; four are moved.
_LIBRARY_UNITS = 4


def _moved(x: float, toward: float, units: int) -> float:
    for _ in range(units):
        x = math.nextafter(x, toward)
    return x


def add_up(x: float, y: float) -> float:
    """x + y, not below the exact sum.

    >>> add_up(1.0, 1e-30) > 1.0
    True
    """
    return _moved(x + y, math.inf, 1)


def mul_up(x: float, y: float) -> float:
    """x * y, not below the exact product."""
    return _moved(x * y, math.inf, 1)


def exp_up(x: float) -> float:
    """e^x, not below the exact value; the smallest positive double for x = -745 and below."""
    return _moved(math.exp(x), math.inf, _LIBRARY_UNITS) if x > -math.inf else 0.0


def exp_down(x: float) -> float:
    """e^x, not above the exact value, at least 0."""
    return max(_moved(math.exp(x), -math.inf, _LIBRARY_UNITS), 0.0) if x > -math.inf else 0.0
