"""Functions of numbers with a stated error: special ones, and elementary ones rounded to one side.

Special functions, mostly logarithms of tails and option-like integrals, are free of cancellation. They
are vectorized, take and return float64 arrays, and state their relative error; none of them knows about
privacy. Those of scipy are imported when one is first called: importing `scipy.special` takes as long as
importing numpy and all of sharpdp, and describing a plan or refusing a wrong one needs none of it.

Elementary operations on single numbers have their direction in the name. Each result is the nearest
double moved outwards by enough units to be safe against the rounding of the operation itself: one unit
for + and *, four for exp, which the platform's library has to within one.

>>> float(ndtr(0.0)), float(betainc(1.0, 1.0, 0.25))
(0.5, 0.25)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

UNIT_ROUNDOFF = 2.0**-53
CLOSED_FORM_ERROR = 1e-12
"""Relative allowance for the rounding of a closed form of some twenty operations without cancellation,
off by less than a hundred units of 1.1e-16; its conditions are checked with the same allowance."""
LOG_SQRT_2_PI = 0.5 * np.log(2.0 * np.pi)

_SQRT_2 = np.sqrt(2.0)
_LOG_HALF = np.log(0.5)
# Exponentials of larger numbers are not formed.
_NO_OVERFLOW = 600.0


def _lazy(name: str) -> Callable[..., Array]:
    """The function of scipy.special that has this name."""

    def function(*arguments: ArrayLike) -> Array:
        import scipy.special

        return np.asarray(getattr(scipy.special, name)(*arguments))

    return function


betainc, betaincc = _lazy("betainc"), _lazy("betaincc")
betaincinv, betainccinv = _lazy("betaincinv"), _lazy("betainccinv")
gammaln, i0e = _lazy("gammaln"), _lazy("i0e")
expit, logit = _lazy("expit"), _lazy("logit")
ndtri, ndtri_exp = _lazy("ndtri"), _lazy("ndtri_exp")
_long_erfcx, _long_ndtr, _long_log_ndtr = _lazy("erfcx"), _lazy("ndtr"), _lazy("log_ndtr")

_FEW = 256
"""Normal tails at so few points are computed here: importing scipy.special would take far longer."""

_TAIL_COEFFICIENTS = np.array(
    [
        1.17756257419656,
        0.005353904539615676,
        -0.09377550342284209,
        0.05436652555744322,
        -0.018976596707845208,
        0.004453426061462712,
        -0.0006335531710553147,
        1.7661719523171593e-05,
        1.2841532864056671e-05,
        -2.0072285659059913e-06,
        -1.807522790414837e-07,
        7.549828343825093e-08,
        1.885668523838603e-09,
        -2.699519049798364e-09,
        -1.460079119939105e-11,
        1.0361607445969489e-10,
        1.475715976623473e-12,
        -4.277340064396911e-12,
        -2.07922492859799e-13,
        1.8134502003176963e-13,
        1.973425574544739e-14,
        -7.287943737592673e-15,
        -1.5169878690228116e-15,
        2.3514112258781403e-16,
        1.0006111691821667e-16,
        -2.0572528169538546e-18,
        -5.608608218863183e-18,
    ]
)
"""Chebyshev coefficients of (1 + 2 x) erfcx(x) in t = (x - 3) / (x + 3); the others add up to 2e-18."""

_TAIL_DEGREES = np.arange(float(_TAIL_COEFFICIENTS.size))


def _short_erfcx(x: Array) -> Array:
    """erfcx at x >= 0: sum of c_k cos(k phi) / (1 + 2 x), with t = cos phi, tan(phi/2)^2 = 3 / x."""
    with np.errstate(divide="ignore", over="ignore"):
        angle = 2.0 * np.arctan(np.sqrt(3.0 / x))
    series = np.cos(np.multiply.outer(angle, _TAIL_DEGREES)) @ _TAIL_COEFFICIENTS
    return np.asarray(series / (1.0 + 2.0 * x))


def erfcx(x: ArrayLike) -> Array:
    """e^{x^2} erfc(x), relative error below 16 units (checked against balls) at x >= 0.

    Below zero it is 2 e^{x^2} - erfcx(-x), with the error of the exponential: 2 x^2 units more.

    >>> round(float(erfcx(1.0)), 12)
    0.427583576156
    """
    x = np.asarray(x, dtype=float)
    if x.size > _FEW:
        return _long_erfcx(x)
    value = _short_erfcx(np.abs(x))
    if (x < 0.0).any():
        with np.errstate(over="ignore"):
            value = np.where(x < 0.0, 2.0 * np.exp(x * x) - value, value)
    return value


def _half_square_exponential(x: Array) -> Array:
    """e^{-x^2/2} to a few units, however large x: what rounding cuts off the square is put back."""
    x = np.minimum(np.abs(x), 50.0)
    square, rest = exact_product(x, x)
    return np.asarray(np.exp(-0.5 * square) * (1.0 - 0.5 * rest))


def ndtr(x: ArrayLike) -> Array:
    """The normal distribution function; relative error below 24 units (checked against balls).

    >>> float(ndtr(0.0)), round(float(ndtr(-2.0)), 12)
    (0.5, 0.022750131948)
    """
    x = np.asarray(x, dtype=float)
    if x.size > _FEW:
        return _long_ndtr(x)
    tail = 0.5 * _half_square_exponential(x) * _short_erfcx(np.abs(x) / _SQRT_2)
    return np.where(x < 0.0, tail, 1.0 - tail)


def log_ndtr(x: ArrayLike) -> Array:
    """log of the normal distribution function; relative error below 24 units (checked against balls).

    >>> round(float(log_ndtr(-40.0)), 9), round(float(np.exp(log_ndtr(1.0))), 12)
    (-804.608442014, 0.841344746069)
    """
    x = np.asarray(x, dtype=float)
    if x.size > _FEW:
        return _long_log_ndtr(x)
    scaled = 0.5 * _short_erfcx(np.abs(x) / _SQRT_2)
    with np.errstate(over="ignore", divide="ignore"):
        below = np.log(scaled) - 0.5 * x * x
    return np.where(x < 0.0, below, np.log1p(-_half_square_exponential(x) * scaled))


@cache
def gauss_rule(points: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss' quadrature on [-1, 1].

    >>> round(sum(gauss_rule(3)[1].tolist()), 12)
    2.0
    """
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights


def safe_log(x: float) -> float:
    """log x, -inf at zero."""
    return float(np.log(x)) if x > 0.0 else -np.inf


def log1mexp(x: ArrayLike) -> Array:
    """log(1 - e^x) for x <= 0, relative error a few units in the last place; -inf at 0.

    >>> float(log1mexp(-np.log(4.0)))  # log(3/4)
    -0.2876820724517809
    """
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > _LOG_HALF, np.log(-np.expm1(x)), np.log1p(-np.exp(x))))


def log_expm1(x: ArrayLike) -> Array:
    """log(e^x - 1) for x >= 0, relative error a few units in the last place; -inf at 0.

    >>> float(log_expm1(1000.0))
    1000.0
    """
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(
            np.where(x > _NO_OVERFLOW, x, np.log(np.expm1(np.minimum(x, _NO_OVERFLOW))))
        )


def log_sum(log_terms: Array, axis: int = -1) -> Array:
    """log of the sum of exponentials along an axis; -inf for an empty sum.

    Terms add up before they are rounded as logarithms, so that many small ones are not lost.
    """
    peak = np.max(log_terms, axis=axis, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(log_terms - safe), axis=axis))
    return np.asarray(total + np.squeeze(safe, axis=axis))


def log_any(log_probabilities: ArrayLike, counts: ArrayLike) -> float:
    """log(1 - prod (1 - p)^n): some of the independent events happens; p may be below all doubles.

    Where the expected number is below e^-40 it is the answer, too large by less than 1e-17 of itself.

    >>> bool(log_any([-1000.0], [2.0]) == -1000.0 + np.log(2.0))
    True
    >>> round(float(np.exp(log_any([np.log(0.5)], [2.0]))), 12)
    0.75
    """
    logs, times = np.asarray(log_probabilities, dtype=float), np.asarray(counts, dtype=float)
    with np.errstate(divide="ignore"):
        expected = float(np.logaddexp.reduce(logs + np.log(times), initial=-np.inf))
        if expected < -40.0:
            return expected
        return float(log1mexp(np.sum(times * np.log1p(-np.exp(logs)))))


def log_diff(log_large: ArrayLike, log_small: ArrayLike) -> Array:
    """log(e^a - e^b) for a >= b; -inf when they are equal (also when both are -inf).

    >>> round(float(np.exp(log_diff(np.log(5.0), np.log(3.0)))), 12)
    2.0
    """
    a, b = np.asarray(log_large, dtype=float), np.asarray(log_small, dtype=float)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(b), -np.inf, np.minimum(b - a, 0.0))
    return np.asarray(a + log1mexp(gap))


def _mills_slope(y: Array) -> Array:
    """sqrt(2/pi) - y erfcx(y / sqrt 2), the derivative of -erfcx(y / sqrt 2), for y > -1.

    Equal to sqrt(2/pi) (1 - y R(y)) with Mills' ratio R. Beyond y = 6 the difference is replaced by
    R(y) C(y), C = 1/(y + 2/(y + 3/(y + ...))), which has no cancellation; 24 steps reach 1e-16 there.
    """
    scaled = erfcx(y / _SQRT_2)
    near = np.sqrt(2.0 / np.pi) - y * scaled
    far = y > 6.0
    if far.any():
        z = y[far]
        tail = z.copy()
        for k in range(24, 1, -1):
            tail = z + k / tail
        near[far] = scaled[far] / tail
    return np.asarray(near)


def log_normal_call(mean_shift: float, threshold: ArrayLike) -> Array:
    """log of E[(1 - e^{k - L})_+] for L ~ N(m^2/2, m^2), k = threshold >= 0, m = mean_shift > 0.

    With a = k/m - m/2 and b = a + m this is log(Phi(-a) - e^k Phi(-b)), the hockey-stick divergence of
    two unit normals at distance m. Written as e^{-a^2/2} (erfcx(a/sqrt2) - erfcx(b/sqrt2)) / 2; for
    m < 1/2 the difference is integrated by a 7-point Gauss rule.

    Numerics: the relative error of the exponential is below 1e-14 (1 + |result| / 10), checked
    against 200-bit balls in tests.

    >>> round(float(np.exp(log_normal_call(1.0, 1.0))), 10)
    0.1269367375
    """
    m = float(mean_shift)
    k = np.atleast_1d(np.asarray(threshold, dtype=float))
    a = k / m - 0.5 * m
    result = _narrow_call(a, m) if m < 0.5 else _wide_call(a, m)
    return np.asarray(result).reshape(np.shape(threshold))


def log_normal_calls(mean_shifts: Array, thresholds: Array) -> Array:
    """`log_normal_call` entry by entry, for two arrays of equal shape; the same accuracy.

    >>> same = log_normal_calls(np.array([0.25, 1.0]), np.array([0.0, 1.0]))
    >>> bool(same[0] == log_normal_call(0.25, 0.0) and same[1] == log_normal_call(1.0, 1.0))
    True
    """
    a = thresholds / mean_shifts - 0.5 * mean_shifts
    narrow = mean_shifts < 0.5
    result = np.empty_like(a)
    result[narrow] = _narrow_call(a[narrow], mean_shifts[narrow])
    result[~narrow] = _wide_call(a[~narrow], mean_shifts[~narrow])
    return result


def _narrow_call(a: Array, m: float | Array) -> Array:
    """The difference integrated, for m < 1/2: itself it would lose more than a few digits."""
    nodes, weights = gauss_rule(7)
    if a.size <= _FEW // 7:
        moves = 0.5 * np.asarray(m)[..., None] * (1.0 + nodes)
        total = (weights * _mills_slope(a[..., None] + moves)).sum(axis=-1)
    else:
        total = np.zeros_like(a)
        for node, weight in zip(nodes, weights, strict=True):
            total += weight * _mills_slope(a + 0.5 * m * (1.0 + node))
    log_difference = np.log(0.5 * m * total)
    return np.asarray(_LOG_HALF - 0.5 * a * a + log_difference)


def _wide_call(a: Array, m: float | Array) -> Array:
    """The difference itself, for m >= 1/2."""
    inside = np.maximum(a, 0.0)
    scaled = erfcx(np.stack([inside, inside + m]) / _SQRT_2)
    difference = scaled[0] - scaled[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        result = _LOG_HALF - 0.5 * a * a + np.log(difference)
        if (a < 0.0).any():
            far = 0.5 * np.exp(-0.5 * a * a) * erfcx((a + m) / _SQRT_2)  # e^k Phi(-b)
            result = np.where(a >= 0.0, result, np.log(ndtr(-a) - far))
    return np.asarray(result)


def log_convexity_gap(exponent: ArrayLike, x: ArrayLike) -> Array:
    """log |e^{s x} - 1 + s (e^{-x} - 1)|, s = exponent; the bracket has the sign of s (s + 1).

    This is the part of E[e^{s X}] that is left after the two normalizations E[1] = E[e^{-X}] = 1 are
    taken out; summing it instead of e^{s X} keeps relative accuracy when all x are tiny. The exponent is
    one number, or one for each x.

    Numerics: a Taylor series where |x| max(1, |s|) < 0.05 (ten terms reach 1e-17 there), a difference
    of exponentials elsewhere, in log space where they would overflow; relative error below 64 units, and
    one more for each unit of the larger exponent, times 1/|s + 1| next to s = -1.

    >>> float(np.exp(log_convexity_gap(1.0, np.log(2.0))))  # 2 - 1 + 1/2 - 1
    0.5
    """
    s, x = np.asarray(exponent, dtype=float), np.asarray(x, dtype=float)

    small = np.abs(x) * np.maximum(1.0, np.abs(s)) < 0.05
    with np.errstate(all="ignore"):
        result = np.expm1(np.minimum(s * x, _NO_OVERFLOW))
        result = np.asarray(np.log(np.abs(result + s * np.expm1(np.minimum(-x, _NO_OVERFLOW)))))
        series = _gap_series(s if s.ndim == 0 else s[small], x[small])
        result[small] = np.log(np.abs(series))
        huge = np.maximum(s * x, -x) >= _NO_OVERFLOW
        if huge.any():
            t, u = s if s.ndim == 0 else s[huge], x[huge]
            first, second = t * u, np.log(np.abs(t)) - u
            total = np.logaddexp(first, np.where(u < 0, second, -np.inf))
            gap = log_diff(np.maximum(first, second), np.minimum(first, second))
            result[huge] = np.where(t > 0, total, gap)
    return result


def _gap_series(s: Array, x: Array) -> Array:
    """Sum over k >= 2 of (s^k + (-1)^k s) x^k / k!, enough terms for |x| max(1, |s|) < 0.05.

    Powers of s alone would overflow; those of s x do not.
    """
    total = np.zeros_like(x)
    scaled = s * x
    of_both, of_one = scaled * scaled / 2.0, scaled * x / 2.0
    for k in range(2, 12):
        total += of_both + of_one
        of_both, of_one = of_both * scaled / (k + 1.0), -of_one * x / (k + 1.0)
    return total


def exact_product(x: Array, y: ArrayLike) -> tuple[Array, Array]:
    """x y and what rounding cut off it, exactly (Dekker), for products well inside the doubles.

    >>> product, rest = exact_product(np.array([1.0 + 2.0**-30]), 1.0 + 2.0**-30)
    >>> float(rest[0]) == 2.0**-60
    True
    """
    y = np.asarray(y, dtype=float)
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    product = x * y
    rest = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, rest


def _halves(x: Array) -> tuple[Array, Array]:
    """Two numbers of half the digits each that add up to x."""
    scaled = (2.0**27 + 1.0) * x
    high = scaled - (scaled - x)
    return high, x - high


def log_mixture(rate: ArrayLike, x: ArrayLike) -> Array:
    """log(1 - rate + rate e^x), relative error a few units also where it is close to zero.

    log1p of rate (e^x - 1) unless that is below -1/2, where its rounding would show; only a rate above
    1/2 takes it there.

    >>> round(float(np.exp(log_mixture(0.25, np.log(5.0)))), 12)
    2.0
    """
    rate, x = np.asarray(rate, dtype=float), np.asarray(x, dtype=float)
    if x.size and rate.max() <= 0.5 and x.max() < _NO_OVERFLOW:  # false for NaN
        return np.asarray(np.log1p(rate * np.expm1(x)))
    bounded = np.minimum(x, _NO_OVERFLOW)
    move = rate * np.expm1(bounded)
    moderate = np.log1p(np.maximum(move, -0.5))
    if np.any(rate > 0.5):
        with np.errstate(divide="ignore"):
            direct = np.log((1.0 - rate) + rate * np.exp(bounded))
        moderate = np.where(move < -0.5, direct, moderate)
    return np.asarray(np.where(x < _NO_OVERFLOW, moderate, x + np.log(rate)))


def complex_log1p(z: ComplexArray) -> ComplexArray:
    """log(1 + z) for complex z, accurate for small z (numpy's own loses the real part)."""
    x, y = z.real, z.imag
    return np.asarray(0.5 * np.log1p(x * (2.0 + x) + y * y) + 1j * np.arctan2(y, 1.0 + x))


def cell_masses(edges: Array, mean: float | Array) -> Array:
    """N(mean, 1) of each cell, as a difference of the smaller tails; several rows of edges may be given.

    >>> cell_masses(np.array([-np.inf, 0.0, np.inf]), 0.0).tolist()
    [0.5, 0.5]
    """
    left, right = edges[..., :-1] - mean, edges[..., 1:] - mean
    above = ndtr(-left) - ndtr(-right)
    return np.where(left > 0.0, above, ndtr(right) - ndtr(left))


def gauss_nodes(middle: Array, half: Array, points: int) -> tuple[Array, Array]:
    """Nodes of a Gauss rule in each cell, as moves from its middle, and their weights under N(0, 1).

    The weights are those over half the cell's width times the density at its middle; a last axis counts
    the nodes.
    """
    nodes, weights = gauss_rule(points)
    moves = half[..., None] * nodes
    return moves, weights * np.exp(-moves * (middle[..., None] + 0.5 * moves))


def normal_nodes(edges: Array, points: int) -> tuple[Array, Array]:
    """Nodes of a Gauss rule in each of equally wide cells, and their weights under N(0, 1).

    >>> z, weights = normal_nodes(np.array([-1.0, 0.0, 1.0]), 12)
    >>> round(float(np.sum(weights)), 10), round(float(np.sum(weights * z * z)), 10)
    (0.6826894921, 0.1987480431)
    """
    nodes, weights = gauss_rule(points)
    half = 0.5 * (edges[1] - edges[0])
    z = edges[:-1, None] + half * (nodes + 1.0)
    return z, np.exp(-0.5 * z * z) * (weights * half / np.sqrt(2.0 * np.pi))


def log_cell_masses(middle: Array, half: Array, weights: Array) -> Array:
    """log N(0, 1) of each cell from the weights of its nodes: no difference of distribution functions.

    >>> middle, half = np.array([-0.5, 0.5]), np.array([0.5, 0.5])
    >>> _, weights = gauss_nodes(middle, half, 12)
    >>> round(float(np.sum(np.exp(log_cell_masses(middle, half, weights)))), 10)  # one deviation
    0.6826894921
    """
    log_total = np.log(np.sum(weights, axis=-1) * half)
    return np.asarray(-0.5 * middle * middle + log_total - LOG_SQRT_2_PI)


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


def one_minus_up(x: float) -> float:
    """1 - x for x in [0, 1], not below the exact difference.

    >>> one_minus_up(1e-30), one_minus_up(0.75)
    (1.0, 0.25)
    """
    rest = 1.0 - x
    return _moved(rest, math.inf, 1) if 1.0 - rest > x else rest


def one_minus_down(x: float) -> float:
    """1 - x for x in [0, 1], not above the exact difference.

    >>> one_minus_down(1e-30) < 1.0, one_minus_down(0.75)
    (True, 0.25)
    """
    rest = 1.0 - x
    return _moved(rest, -math.inf, 1) if 1.0 - rest < x else rest


def widened(x: float, relative: float) -> tuple[float, float]:
    """(lower, upper) around a probability known to within a relative error; itself if that is 0.

    >>> widened(0.25, 0.0), widened(0.0, 1e-3)
    ((0.25, 0.25), (0.0, 0.0))
    """
    if relative == 0.0 or x == 0.0:
        return x, x
    low = _moved(x * (1.0 - relative), -math.inf, 2)
    return max(low, 0.0), min(_moved(x * (1.0 + relative), math.inf, 2), 1.0)


def at_least_once(chances: Iterable[tuple[tuple[float, float], int]]) -> tuple[float, float]:
    """(lower, upper) of 1 - prod (1 - chance)^count, each chance given as (lower, upper) in [0, 1].

    Numerics: every term of the sum of logarithms has the same sign, so that relative errors do not
    grow: two units for a term, one for each addition, and log1p and expm1 within a few units.

    >>> at_least_once([((0.25, 0.25), 1), ((0.0, 0.0), 10)])
    (0.25, 0.25)
    >>> low, high = at_least_once([((1e-5, 1e-5), 3)])
    >>> low <= 2.9999700001e-05 < high < low * (1.0 + 1e-14)
    True
    """
    some = [(interval, count) for interval, count in chances if interval[1] > 0.0 and count > 0]
    if sum(count for _, count in some) <= 1:
        return some[0][0] if some else (0.0, 0.0)
    if any(interval[0] >= 1.0 for interval, _ in some):
        return 1.0, 1.0
    units = (16 + 2 * len(some)) * UNIT_ROUNDOFF
    low, high = (_any_of([(interval[k], count) for interval, count in some]) for k in (0, 1))
    return widened(low, units)[0], widened(high, units)[1]


def _any_of(chances: list[tuple[float, int]]) -> float:
    """1 - prod (1 - chance)^count, about."""
    if any(chance >= 1.0 for chance, _ in chances):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-chance) for chance, count in chances))


def down(value: Fraction) -> float:
    """The largest double that is not above the value.

    >>> down(Fraction(1, 3)) < Fraction(1, 3) < up(Fraction(1, 3))
    True
    """
    return 0.0 - up(-value)  # no negative zero


def up(value: Fraction) -> float:
    """The smallest double that is not below the value."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return math.nextafter(nearest, math.inf) if nearest < value else nearest


def exp_up(x: float) -> float:
    """e^x, not below the exact value; the smallest positive double for x = -745 and below."""
    if x in (0.0, -math.inf):
        return float(x == 0.0)
    return _moved(math.exp(x), math.inf, 4)


def exp_down(x: float) -> float:
    """e^x, not above the exact value, at least 0."""
    if x in (0.0, -math.inf):
        return float(x == 0.0)
    return max(_moved(math.exp(x), -math.inf, 4), 0.0)


def probability_ends(log_low: Array, log_high: Array) -> tuple[Array, Array]:
    """`exp_down` of all lower ends, and `exp_up` of all upper ends or 1 if that is less.

    >>> probability_ends(np.array([0.0, -np.inf]), np.array([0.5, -np.inf]))
    (array([1., 0.]), array([1., 0.]))
    """
    log_high = np.minimum(log_high, 0.0)
    low, high = np.exp(log_low), np.exp(log_high)
    for _ in range(4):
        low, high = np.nextafter(low, -math.inf), np.nextafter(high, math.inf)
    low = np.where(log_low == 0.0, 1.0, np.maximum(low, 0.0))
    high = np.where(log_high == -math.inf, 0.0, np.minimum(high, 1.0))
    return low, high


def one_minus_ends(low: Array, high: Array) -> tuple[Array, Array]:
    """`one_minus_down` of all upper ends, and `one_minus_up` of all lower ends.

    >>> one_minus_ends(np.array([0.25]), np.array([0.75]))
    (array([0.25]), array([0.75]))
    """
    below, above = 1.0 - high, 1.0 - low
    return (
        np.where(1.0 - below < high, np.nextafter(below, -math.inf), below),
        np.where(1.0 - above > low, np.nextafter(above, math.inf), above),
    )
