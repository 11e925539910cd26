"""Random rounding of points to a public lattice, so smooth that an error of the point hardly shows.

A number a, in units of the lattice's step, becomes the whole number

    floor(a) + [coin with probability a - floor(a)] + K,     Pr[K = k] = 2^-|k| / 3

whose mean is a. As a function of a, the probability of each whole number is linear between whole numbers,
where it changes by a factor of 2 at most, so its logarithm has a slope of at most 1: *whatever* is
reported, its probability at a point is within e^(l1 distance / step) of that at a point nearby. What
doubles get wrong in a point therefore costs so small a share of each probability, without exception, and
every report is possible for every point.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.learn.randomizers.coin_thresholds import thresholds
from sharpdp.learn.randomizers.lattice import halvings
from sharpdp.learn.randomizers.validation import totals
from sharpdp.randomness.normals import ERROR
from sharpdp.randomness.system_stream import Floats, SystemStream

__all__ = ["SPREAD", "allowance", "directions", "dithered", "dots", "shortest", "step_of"]

SPREAD = 4.25
"""Largest variance of a dithered number, in squared steps: E K^2 = 4, and 1/4 of the coin."""

_SHORT = 2.0**-24
"""Normal vectors are drawn again if they are as short as is seldom seen: so seldom."""

_HEADLESS = 127
"""In a table of steps: one of the two bytes shows no head, and further coins decide."""

_SUMS = 2.0**-44
"""Relative error of sums of products of up to 10^8 numbers, by blocks of 64: at most 5 times 64 units."""


def shortest(columns: int) -> float:
    """The length below which a vector of so many normal numbers is drawn again.

    Pr[chi^2_n <= s n] <= (s e)^(n/2), which is 2^-24 for s = 2^(-48/n) / e. In one dimension the
    direction is a sign, which has no error, whatever the length.
    """
    if columns == 1:
        return 0.0
    return math.sqrt(columns / math.e) * math.exp(math.log(_SHORT) / columns)


def _error(columns: int) -> float:
    """Bound on the distance of a computed direction from the true one of the same random bits.

    Normal numbers are off by E max(1, |z|), a vector by E (sqrt(n) + length), its direction by twice that
    divided by the length; then the rounding of the length and of the division.
    """
    if columns == 1:
        return _SUMS
    return 2.01 * ERROR * (math.sqrt(columns) / shortest(columns) + 1.0) + _SUMS


@lru_cache(maxsize=256)
def step_of(dimension: int) -> float:
    """The step of the lattice for points of the unit sphere, a power of two or that over sqrt(d).

    sigma / sqrt(d), where sigma^3 is about the error of a point times d: then neither the variance that
    dithering adds, a share of 4.25 sigma^2, nor the allowance, that error times d over sigma, is large.
    """
    sigma = 2.0 ** math.floor(math.log2(dimension * _displacement(dimension)) / 3.0)
    return sigma / math.sqrt(dimension)


def _displacement(dimension: int) -> float:
    """Total rounding error of a point of a cap and a point of the sphere (docs/randomizers.md)."""
    return _error(dimension) + 5.0 * _error(dimension - 1) + 24.0 * _SUMS


@lru_cache(maxsize=256)
def allowance(dimension: int) -> float:
    """kappa: no report is more than e^kappa / q times as likely from a cap as from the whole sphere.

    q is the cap's share. The l1 distance is at most sqrt(d) times the distance; short vectors and the
    rounding of the coin that accepts a height add the rest.
    """
    moved = math.sqrt(dimension) * _displacement(dimension) / step_of(dimension)
    return 1.01 * moved + 8.0 * _SHORT


def dots(first: Floats, second: Floats) -> Floats:
    """The scalar product of each pair of rows, added up block by block.

    >>> dots(np.array([[3.0, 4.0]]), np.array([[1.0, 2.0]])).tolist()
    [11.0]
    """
    return totals(first * second)


def directions(rows: int, columns: int, source: SystemStream) -> Floats:
    """Points of the unit sphere, uniform: normal vectors, divided by their length."""
    points = source.normals(rows, columns)
    sizes = np.sqrt(dots(points, points))
    short = np.flatnonzero(sizes <= shortest(columns))
    sizes[short] = 1.0
    points /= sizes[:, None]
    if short.size:
        points[short] = directions(short.size, columns, source)
    return points


def dithered(numbers: Floats, source: SystemStream) -> Floats:
    """Whole numbers with these means; each is possible for every number."""
    flat = numbers.reshape(-1)
    halves = source.words(-(-flat.size // 2)).view(np.uint16)
    coins, bits = halves[: flat.size], halves[flat.size : 2 * flat.size]
    whole: Floats = np.floor(flat)
    scaled = flat - whole
    scaled *= 2**16
    leading = np.floor(scaled)
    whole += coins < leading
    undecided = np.flatnonzero(coins == leading)
    if undecided.size:  # further bits decide
        rest = scaled[undecided] - leading[undecided]
        whole[undecided] += source.coins(thresholds(rest))
    # K: fair coins before the first head, in the lower byte less those in the upper one
    steps = np.take(_differences(), bits)
    endless = np.flatnonzero(steps == _HEADLESS)
    for byte, shift, sign in ((0x00FF, 0, 1), (0xFF00, 8, -1)):
        heads = (bits[endless] & np.uint16(byte)) >> np.uint16(shift)
        zeros = _zeros()[heads].astype(np.float64)
        headless = np.flatnonzero(heads == 0)
        zeros[headless] += halvings(source.words(headless.size), source)
        whole[endless] += sign * zeros
    steps[endless] = 0
    whole += steps
    return whole.reshape(numbers.shape)


@cache
def _zeros() -> NDArray[np.int8]:
    """Zeros before the lowest one of a byte; 8 if there is none."""
    return np.array([8, *((n & -n).bit_length() - 1 for n in range(1, 256))], dtype=np.int8)


@cache
def _differences() -> NDArray[np.int8]:
    """Zeros before the lowest one of the lower byte less those of the upper, if both have a one."""
    bits = np.arange(2**16)
    low, high = bits & 0xFF, bits >> 8
    differences: NDArray[np.int8] = _zeros()[low] - _zeros()[high]
    differences[(low == 0) | (high == 0)] = _HEADLESS
    return differences
