"""Caps of the unit sphere: their share of the surface and their mean height, with 60 digits.

For V uniform on the sphere in R^d, t = <V, u> has the density C_d (1 - t^2)^((d-3)/2) on [-1, 1],
C_d = Gamma(d/2) / (sqrt(pi) Gamma((d-1)/2)). All series below have positive terms, so they lose nothing,
and are summed until what is left is too small to matter; what is left is added as a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache

from sharpdp._validate import invalid
from sharpdp.learn.randomizers.coin_thresholds import DIGITS, odds_down, whole_down
from sharpdp.learn.randomizers.lattice_rounding import allowance
from sharpdp.randomness.system_stream import WORDS

__all__ = ["Cap", "best_cap", "cap_of"]

SMALLEST_CAP = 1e-18
"""Caps that are hit less often are not told apart from nothing by a 64-bit coin."""

_HALF = Decimal("0.5")


@dataclass(frozen=True)
class Cap:
    """The cap {v : <v, u> >= height}, the coin that decides for it, and what follows from both.

        a point of the cap with probability beta = ``coin`` / 2^64, else of the whole sphere
        ratio of densities, inside to outside:  1 + beta / ((1 - beta) q) <= e^local_epsilon
        m = E <V, u> = beta A / q,    A = E[t; t >= height]

    with q = ``share`` of the sphere. ``share``, ``inside`` = beta + (1 - beta) q and ``mean`` are the
    doubles nearest to q, to the probability p of the cap and to m. ``blanket`` is 1 - beta, rounded down:
    so much of a report does not depend on u. beta was rounded down against a lower bound on q, which is
    lower by the share that rounding to doubles may cost (`allowance`).

    >>> cap = cap_of(3, 1.0, 0.5)  # slices of a ball in space: by height alone
    >>> cap.share
    0.25
    """

    height: float
    share: float
    coin: int
    inside: float
    mean: float
    blanket: float


@lru_cache(maxsize=256)
def best_cap(dimension: int, local_epsilon: float) -> Cap:
    """The cap with the largest mean, thus the smallest variance: the one with height c = m(c).

    Since m'(c) = density(c) (m(c) - c) (E - 1) / (1 + q (E - 1)), c <- m(c) rises to the maximum and
    doubles the correct digits at each step.

    Source: bhowmick2018 for the mechanism.

    >>> cap = best_cap(3, 2.0)
    >>> abs(cap.height - math.tanh(0.5)) < 1e-15
    True
    """
    height = 0.0
    for _ in range(200):  # far more than are needed, which double the correct digits
        mean = _cap(dimension, local_epsilon, height, Decimal(0)).mean
        if mean <= height:
            break
        height = mean
    return cap_of(dimension, local_epsilon, height)


@lru_cache(maxsize=256)
def cap_of(dimension: int, local_epsilon: float, height: float) -> Cap:
    """The cap at this height, with the largest coin that the budget allows.

    Numerics: 1 + beta e^kappa / ((1 - beta) q) <= e^local_epsilon for the height and the coin as stored,
    kappa the `allowance` for points in doubles. ``mean`` is that of the stored coin.

    Source: bhowmick2018, whose constants these are, written so that nothing overflows.

    >>> cap = cap_of(2, math.log(3.0), 0.0)  # half of a circle
    >>> cap.share, round(cap.inside, 6)
    (0.5, 0.75)
    """
    return _cap(dimension, local_epsilon, height, Decimal(allowance(dimension)))


def _cap(dimension: int, local_epsilon: float, height: float, kappa: Decimal) -> Cap:
    with localcontext() as context:
        context.prec = DIGITS
        c, square = Decimal(height), Decimal(height) ** 2
        if 0.5 * (dimension - 1) * math.log1p(-height * height) < math.log(SMALLEST_CAP):
            raise _too_small(dimension, height)
        # C_d (1 - c^2)^((d-1)/2)
        edge = _density_constant(dimension) * (Decimal(dimension - 1) / 2 * (1 - square).ln()).exp()
        q = _share(dimension, c, square, edge)
        if q < SMALLEST_CAP:
            raise _too_small(dimension, height)
        # 1 + beta e^kappa / ((1 - beta) q) <= e^local_epsilon
        # the relative error of a cap of at least 1e-18 found with 60 digits, generously
        sure = 1 - Decimal(10) ** -25
        excess = q * sure * (1 - kappa) * (odds_down(local_epsilon) - 1)
        coin = whole_down(excess / (1 + excess))
        if coin <= 0:
            raise _too_small(dimension, height)
        beta = Decimal(coin) / WORDS
        mean = beta / q * edge / (dimension - 1)
        return Cap(
            height=height,
            share=float(q),
            coin=coin,
            inside=float(beta + (1 - beta) * q),
            mean=float(mean),
            blanket=math.nextafter(float(1 - beta), 0.0),
        )


def _too_small(dimension: int, height: float) -> Exception:
    hint = f"A cap in {dimension} dimensions must be hit once in 10^18 draws. Leave it out for the best."
    return invalid("height", "small enough for its cap to be hit", height, hint)


def _share(dimension: int, c: Decimal, square: Decimal, edge: Decimal) -> Decimal:
    """Share of the sphere in the cap: 1/2 I_{1-c^2}((d-1)/2, 1/2).

    High caps:  edge c / (d - 1) sum_n (d/2)_n / ((d+1)/2)_n (1 - c^2)^n
    low caps:   1/2 - edge c sum_n (d/2)_n / (3/2)_n c^(2n)
    """
    half = Decimal(dimension) / 2
    if square > _HALF:
        return edge * c / (dimension - 1) * _series(half, half + _HALF, 1 - square)
    return _HALF - edge * c * _series(half, 1 + _HALF, square)


def _series(top: Decimal, bottom: Decimal, x: Decimal) -> Decimal:
    """sum_n (top)_n / (bottom)_n x^n for x <= 1/2 and top, bottom > 0.

    Once the ratio of terms, which falls or rises to x, stays below 3/4, what is left out is at most
    three times the last term; that is below the digits kept.
    """
    total = term = Decimal(1)
    n = 0
    while True:
        ratio = (top + n) / (bottom + n) * x
        term *= ratio
        total += term
        n += 1
        if ratio < Decimal("0.75") and term < Decimal(10) ** -58 * total:
            return total


@lru_cache(maxsize=256)
def _density_constant(dimension: int) -> Decimal:
    """Gamma(d/2) / (sqrt(pi) Gamma((d-1)/2)), by Stirling's series far out and the recurrence back."""
    z = Decimal(dimension - 1) / 2
    back = Decimal(1)
    while z < 60:  # from there on, Stirling's series with 50 terms is exact to 70 digits
        back *= z / (z + _HALF)
        z += 1
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628621")
    return back * (_log_gamma(z + _HALF) - _log_gamma(z)).exp() / pi.sqrt()


def _log_gamma(z: Decimal) -> Decimal:
    """log Gamma(z) - log(2 pi)/2 for z >= 60; the error is below the first term left out, 1e-70."""
    total = (z - _HALF) * z.ln() - z
    for k, number in enumerate(_bernoulli(50), start=1):
        total += number / (2 * k * (2 * k - 1)) / z ** (2 * k - 1)
    return total


@cache
def _bernoulli(count: int) -> tuple[Decimal, ...]:
    """The Bernoulli numbers B_2, B_4, ..., so many of them."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        numbers.append(-sum(math.comb(n + 1, j) * numbers[j] for j in range(n)) / Fraction(n + 1))
    return tuple(Decimal(b.numerator) / Decimal(b.denominator) for b in numbers[2::2])
