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
from sharpdp.learn.randomizers.lattice_laplace import halvings
from sharpdp.learn.randomizers.validation import products
from sharpdp.randomness.normal_rectangles import DENSITY_ERROR, ERROR, Workspace
from sharpdp.randomness.system_stream import Floats, SystemStream

__all__ = ["SPREAD", "allowance", "directions", "dithered", "normal_vectors", "shortest", "step_of"]

SPREAD = 4.25
"""Largest variance of a dithered number, in squared steps: E K^2 = 4, and 1/4 of the coin."""

_SHORT = 2.0**-24
"""Normal vectors are drawn again if they are as short as is seldom seen: so seldom."""

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
    """Total rounding error of a point of a cap and a point of the sphere (docs/topics/randomizers.md)."""
    return _error(dimension) + 5.0 * _error(dimension - 1) + 24.0 * _SUMS


@lru_cache(maxsize=256)
def allowance(dimension: int) -> float:
    """kappa: no report is more than e^kappa / q times as likely from a cap as from the whole sphere.

    q is the cap's share. The l1 distance is at most sqrt(d) times the distance; the density of 2 d normal
    numbers, short vectors and the rounding of the coin that accepts a height add the rest.
    """
    moved = math.sqrt(dimension) * _displacement(dimension) / step_of(dimension)
    return 1.01 * (moved + 2.0 * dimension * DENSITY_ERROR) + 8.0 * _SHORT


def normal_vectors(
    rows: int, columns: int, source: SystemStream, space: Workspace | None = None
) -> tuple[Floats, Floats]:
    """Vectors of independent normal numbers, and their lengths; short ones are drawn again."""
    vectors = source.normals(rows, columns, space)
    sizes = np.sqrt(products(vectors, vectors))
    short = np.flatnonzero(sizes <= shortest(columns))
    if short.size:
        vectors[short], sizes[short] = normal_vectors(short.size, columns, source)
    return vectors, sizes


def directions(
    rows: int, columns: int, source: SystemStream, space: Workspace | None = None
) -> Floats:
    """Points of the unit sphere, uniform: normal vectors, divided by their length."""
    points, sizes = normal_vectors(rows, columns, source, space)
    points *= (1.0 / sizes)[:, None]
    return points


def dithered(numbers: Floats, source: SystemStream, space: Workspace | None = None) -> Floats:
    """Whole numbers with these means, in the place of the numbers; each is possible for every number.

    A coin of 16 bits decides whether a number is rounded up or down, or further bits do: exactly with
    probability a - floor(a) for a double a that rounding has moved by less than a relative 2^-52.
    """
    size = numbers.size
    space = Workspace(size) if space is None else space
    words, places = space.words[: -(-size // 2)], space.places[:size]
    source.fill(words)
    coins, slots = words.view(np.uint16)[:size], words.view(np.uint16)[size : 2 * size]
    whole, rest = numbers.reshape(-1), places.view(np.float64)
    np.multiply(coins, 2.0**-16, out=rest)
    rest += whole
    np.floor(rest, out=whole)
    rest -= whole
    undecided = np.flatnonzero(rest >= 1.0 - 2.0**-16)
    if undecided.size:
        chances = (rest[undecided] - (1.0 - 2.0**-16)) * 2.0**16
        whole[undecided] += source.coins(thresholds(chances))
    places[:] = slots
    whole += np.take(_slots(), places, mode="clip")
    left = np.flatnonzero(slots >= _slots_taken())
    if left.size:
        whole[left] += _steps_left(left.size, source)
    return whole.reshape(numbers.shape)


_LAST_SLOT_STEP = 16
"""Steps K of a larger size have no slot of their own, and 2/3 of one together."""


@cache
def _slots_taken() -> np.uint16:
    """How many of the 2^16 slots are those of one step; 17 are left."""
    sizes = (abs(step) for step in range(-_LAST_SLOT_STEP, _LAST_SLOT_STEP + 1))
    taken: np.uint16 = np.uint16(sum(2 ** (16 - size) // 3 for size in sizes))
    return taken


@cache
def _slots() -> NDArray[np.int8]:
    """The step K of each slot, of which it has floor(2^16 Pr[K = k]); 0 in those that are left."""
    steps = np.arange(-_LAST_SLOT_STEP, _LAST_SLOT_STEP + 1, dtype=np.int8)
    taken = np.repeat(steps, 2 ** (16 - np.abs(steps.astype(np.int64))) // 3)
    return np.concatenate([taken, np.zeros(2**16 - taken.size, dtype=np.int8)])


@cache
def _thirds() -> NDArray[np.int64]:
    """The steps of what is left: 2^16 Pr[K = k] has a third or two over, and all beyond 16 has two."""
    steps = [
        step
        for step in range(-_LAST_SLOT_STEP, _LAST_SLOT_STEP + 1)
        for _ in range(2 ** (16 - abs(step)) % 3)
    ]
    return np.array([*steps, _LAST_SLOT_STEP + 1, -_LAST_SLOT_STEP - 1])


def _steps_left(count: int, source: SystemStream) -> NDArray[np.int64]:
    """Steps with the probabilities that have no slots: a third of a slot each, and fair coins beyond."""
    steps = _thirds()[source.below(_thirds().size, count)]
    far = np.flatnonzero(np.abs(steps) > _LAST_SLOT_STEP)
    if far.size:
        steps[far] += np.sign(steps[far]) * halvings(source.words(far.size), source)
    return steps
