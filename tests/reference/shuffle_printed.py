"""Formulas about the shuffle model as their papers print them, in fractions, for few users.

They are here to be checked (tests/pitfalls/test_shuffle_errata.py) or reproduced; the exact pairs are
in `shuffle_small` and `shuffle`. `odds` is e^local_epsilon, `x` is e^epsilon, w = 1 / (odds + 1).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from math import comb, floor

Point = tuple[Fraction, Fraction]


def clones_law(users: int, rate: Fraction) -> list[Fraction]:
    """P[C = i], i = 0 .. users - 1."""
    return [comb(users - 1, i) * rate**i * (1 - rate) ** (users - 1 - i) for i in range(users)]


def coins(i: int, k: int) -> Fraction:
    """P[Bin(i, 1/2) = k]."""
    return Fraction(comb(i, k), 2**i) if 0 <= k <= i else Fraction(0)


def coins_at_most(i: int, k: int) -> Fraction:
    """P[Bin(i, 1/2) <= k]."""
    return sum((coins(i, j) for j in range(min(i, k) + 1)), Fraction(0))


def ratios(users: int) -> list[Fraction]:
    """Every finite likelihood ratio a / b of the bare pair, ascending, from 0."""
    return sorted({Fraction(a, c + 1 - a) for c in range(users) for a in range(c + 1)})


def bare_errors(users: int, rate: Fraction, t: Fraction) -> Point:
    """wang2023 Proposition 4.1: (alpha(t), beta(t)) of the bare pair.

    Floors change nothing: F_i is constant between whole numbers.
    """
    alpha = beta = Fraction(0)
    for i, weight in enumerate(clones_law(users, rate)):
        s = floor(i - Fraction(i + 1) / (t + 1))
        alpha += weight * coins_at_most(i, s)
        beta += weight * (1 - coins_at_most(i, s + 1))
    return alpha, beta


Slope = Callable[[int, Fraction, Fraction], Fraction | None]


def slope(users: int, rate: Fraction, t: Fraction) -> Fraction | None:
    """wang2023 Corollary 4.3: l(t). p_i is a probability mass function, 0 between whole numbers.

    None where it is not a number: 0 / 0 between knots.
    """
    above = below = Fraction(0)
    for i, weight in enumerate(clones_law(users, rate)):
        last = i - Fraction(i + 1) / (t + 1)
        if last.denominator == 1:
            above += weight * coins(i, int(last) + 1)
            below += weight * coins(i, int(last))
    return None if below == 0 else -above / below


def slope_of_the_proof(users: int, rate: Fraction, t: Fraction) -> Fraction | None:
    """wang2023 Appendix C.2: l(t) with floors around the arguments, which the corollary does not have."""
    above = below = Fraction(0)
    for i, weight in enumerate(clones_law(users, rate)):
        above += weight * coins(i, floor(i + 1 - Fraction(i + 1) / (t + 1)))
        below += weight * coins(i, floor(i - Fraction(i + 1) / (t + 1)))
    return None if below == 0 else -above / below


def corollary_delta(users: int, odds: Fraction, x: Fraction, t: Fraction) -> Fraction:
    """wang2023 Corollary 4.3: delta with the threshold t in place of t_epsilon."""
    w = 1 / (odds + 1)
    alpha, beta = bare_errors(users, 2 * w, t)
    return (2 * w - x) * alpha + (1 - 2 * w) * (1 - beta)


def threshold(odds: Fraction, x: Fraction) -> Fraction:
    """wang2023 Corollary 4.3: t_epsilon = inf{t : -2w + (1 - 2w) l(t) >= -x} with l(t) = -1/t."""
    w = 1 / (odds + 1)
    return (1 - 2 * w) / (x - 2 * w)


def threshold_among_knots(
    users: int, odds: Fraction, x: Fraction, steepness: Slope = slope
) -> Fraction:
    """The same infimum over the knots alone, at which l(t) is a number."""
    w = 1 / (odds + 1)
    for t in ratios(users):
        steep = steepness(users, 2 * w, t)
        if steep is not None and -2 * w + (1 - 2 * w) * steep >= -x:
            return t
    raise AssertionError("the slope never gets that flat")


def interpolated(knots: list[Point], alpha: Fraction) -> Fraction:
    """The value of a piecewise linear curve; 0 to the right of its last knot."""
    if alpha <= knots[0][0]:
        return knots[0][1]
    for (a, fa), (b, fb) in itertools.pairwise(knots):
        if alpha <= b:
            return fa + (fb - fa) * (alpha - a) / (b - a)
    return knots[-1][1]


def mixed(bare: list[Point], odds: Fraction, alpha: Fraction) -> Fraction:
    """wang2023 Theorem 4.2 before symmetrization: 2w (1 - alpha) + (1 - 2w) T0(alpha)."""
    w = 1 / (odds + 1)
    return 2 * w * (1 - alpha) + (1 - 2 * w) * interpolated(bare, alpha)


def symmetrized(bare: list[Point], odds: Fraction, alpha: Fraction, sign: int = 1) -> Fraction:
    """wang2023 Theorem 4.2 by equation (3), whose middle piece is bar + f(bar) - x.

    Printed is bar - f(bar) - x: that is `sign` -1. bar is where the curve stops to fall faster than
    -1; it is that of the bare curve, of which the mixed one is an average with slope -1.
    """
    bar = turning(bare)
    top = mixed(bare, odds, bar)
    if alpha <= bar:
        return mixed(bare, odds, alpha)
    if alpha <= top:
        return bar + sign * top - alpha
    return inverse(bare, odds, alpha)


def hull(knots: list[Point]) -> list[Point]:
    """min{f, f^-1}**: the lower convex hull of a falling curve and its mirror image."""
    found: list[Point] = []
    for point in sorted({*knots, *((b, a) for a, b in knots)}):
        while len(found) > 1 and not _turns_up(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    return found


def _turns_up(a: Point, b: Point, c: Point) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])


def turning(bare: list[Point]) -> Fraction:
    """The first point from which on the mixed curve falls no faster than -1."""
    for (a, fa), (b, fb) in itertools.pairwise(bare):
        if (fa - fb) <= b - a:
            return a
    return bare[-1][0]


def inverse(bare: list[Point], odds: Fraction, beta: Fraction) -> Fraction:
    """The first point at which the mixed curve has fallen to beta."""
    w = 1 / (odds + 1)
    knots = [(a, mixed(bare, odds, a)) for a, _ in bare]
    if beta >= knots[0][1]:
        return Fraction(0)
    for (a, fa), (b, fb) in itertools.pairwise(knots):
        if fb <= beta:
            return a + (fa - beta) * (b - a) / (fa - fb)
    return 1 - beta / (2 * w)
