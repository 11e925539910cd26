"""Laplace noise on a lattice: whole numbers of steps, drawn exactly, so that no last bit tells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import positive_scale
from sharpdp.learn.randomizers.coin_thresholds import thresholds
from sharpdp.learn.randomizers.report import VectorRandomizer
from sharpdp.learn.randomizers.report_codes import LatticeCode
from sharpdp.learn.randomizers.validation import (
    blocks,
    checked_norms,
    dimensions,
    local_budget,
    rows_of,
)
from sharpdp.randomness.system_stream import (
    WORDS,
    Floats,
    Randomness,
    SystemStream,
    Words,
    system_stream_for,
)

__all__ = ["LatticeLaplace", "Steps", "halvings", "steps_of"]

Whole = NDArray[np.int64]

FINENESS = 1024
"""Steps over which a probability halves: noise is finer than 1/1400 of its own scale."""

_SLACK = 2.0**-40
"""Allowance for the rounding of norms and quotients, which is below 1e-13 of the radius."""


@dataclass(frozen=True)
class Steps:
    """An even distribution of whole numbers, at most (1 + growth) times as likely one step nearer to 0.

        |K| = FINENESS G + R,   Pr[G = g] = 2^-(g+1),   Pr[R = i] = masses[i] / 2^64

    and a fair sign, where -0 is drawn again. ``cumulative`` holds the sums of masses, ``growth`` the
    largest ratio of neighbors less one, exactly, and ``square`` = E K^2.
    """

    cumulative: Words
    growth: Fraction
    square: float

    def drawn(self, count: int, source: SystemStream) -> Whole:
        """Independent draws; two words each, and more for the one in 3000 that was -0."""
        words = source.words(count)
        index = np.searchsorted(self.cumulative, words, side="right")
        tails = source.words(count)
        size = index + FINENESS * halvings(tails, source)
        minus = (tails >> np.uint64(63)) == 1
        again = np.flatnonzero(minus & (size == 0))
        steps: Whole = np.where(minus, -size, size)
        if again.size:
            steps[again] = self.drawn(again.size, source)
        return steps


def halvings(words: Words, source: SystemStream) -> Whole:
    """Zeros before the lowest one of the lower 63 bits, and of more bits if there is none.

    >>> halvings(np.array([1, 8], dtype=np.uint64), system_stream_for(1)).tolist()
    [0, 3]
    """
    # the other 63 bits: how many of them are zero before the first one counts halvings
    words = words & np.uint64(2**63 - 1)
    lowest = words & (~words + np.uint64(1))
    zeros: Whole = (np.frexp(lowest.astype(np.float64))[1] - 1).astype(np.int64)
    empty = np.flatnonzero(words == 0)
    if empty.size:
        zeros[empty] = 63 + halvings(source.words(empty.size), source)
    return zeros


@lru_cache(maxsize=1)
def steps_of() -> Steps:
    """The distribution with masses 2 (1 - s) s^i, s = 2^(-1 / FINENESS), as whole numbers of 2^-64.

    >>> float(steps_of().growth) < 2 ** (1 / FINENESS) - 1 + 1e-12
    True
    """
    ratio = 2.0 ** (-1.0 / FINENESS)
    masses = [int(WORDS * 2.0 * (1.0 - ratio) * ratio**i) for i in range(FINENESS)]
    # what rounding lost or added is spread evenly, the odd rest over the first ones
    share, rest = divmod(WORDS - sum(masses), FINENESS)
    masses = [mass + share + (index < rest) for index, mass in enumerate(masses)]
    nearer = [Fraction(a, b) for a, b in pairwise(masses)]
    nearer.append(Fraction(2 * masses[-1], masses[0]))  # the next block has half the masses
    growth = max(max(ratio, 1 / ratio) for ratio in nearer) - 1
    mean = sum(i * mass for i, mass in enumerate(masses)) / WORDS
    square = sum(i * i * mass for i, mass in enumerate(masses)) / WORDS
    # E G = 1 and E G^2 = 3 for G fair coins until the first head; -0 is drawn again
    total = 3.0 * FINENESS**2 + 2.0 * FINENESS * mean + square
    again = masses[0] / (2 * 2 * WORDS)  # G = 0, R = 0, minus
    cumulative = np.cumsum(np.array(masses[:-1], dtype=np.uint64))
    return Steps(cumulative, growth, total / (1.0 - again))


@dataclass(frozen=True, kw_only=True)
class LatticeLaplace(VectorRandomizer):
    """Vectors x with l1 norm at most C = radius, rounded at random to a lattice, plus Laplace noise.

        y = x / step;   n = floor(y_i), plus one with probability f_i = y_i - floor(y_i)
        report = step (n + K)

    for each coordinate, with K from `steps_of`: probabilities of neighbors differ by at most 1 + g.
    Seen as a function of y_i, the probability of a report is linear between whole numbers, so its
    logarithm changes by at most g |dy_i|; two records differ by at most 2 C / step in l1 norm:

        local_epsilon = 2 C g / step,   variance d step^2 E K^2 + step^2 sum_i f_i (1 - f_i)
                                        = 8 d C^2 (1 + g) / local_epsilon^2 and at most d step^2 / 4 more

    The dimension does not enter the budget. Noise is a whole number made of random bits, and the report
    a function of the whole number n + K: the attack of mironov2012 on last bits has nothing to read.

    Holds when: rows have l1 norm at most C; use `clipped`. Numerics: g is the exact ratio of the stored
    masses; rounding of x / step, of norms and of 64-bit coins is paid for by a step 1e-12 longer. The
    mean is exact up to the rounding of x / step to a double.

    Source: dwork2006 for the mechanism, ghosh2012 for the lattice; the budget is proved above.

    Args:
        dimension: Number d of coordinates, from 1 to 10^8.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        radius: Largest l1 norm C of a record, from 1e-30 to 1e30.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> noise = LatticeLaplace(dimension=4, local_epsilon=1.0)
    >>> round(noise.largest_variance / (8 * 4), 3)
    1.001
    """

    dimension: int
    local_epsilon: float
    radius: float = 1.0

    norm = 1.0

    def __post_init__(self) -> None:
        """Check all fields."""
        hint = "It is the largest l1 norm; vectors are clipped to it."
        object.__setattr__(self, "dimension", dimensions(self.dimension))
        object.__setattr__(self, "local_epsilon", local_budget(self.local_epsilon))
        object.__setattr__(self, "radius", positive_scale(radius=self.radius, hint=hint))

    @cached_property
    def step(self) -> float:
        """The distance of the lattice: 2 C g / local_epsilon, longer by what is rounded elsewhere.

        Coins are off by up to 2^-64 steps in each coordinate, for either record.
        """
        growth = float(steps_of().growth) * (1.0 + _SLACK)
        coins = 2.0 * growth * self.dimension / WORDS
        return 2.0 * self.radius * growth * (1.0 + _SLACK) / (self.local_epsilon - coins)

    @property
    def code(self) -> LatticeCode:
        """The whole numbers n + K, whose E||.||^2 is at most (C / step)^2 + d (E K^2 + 1/4)."""
        square = (self.radius / self.step) ** 2 + self.dimension * (steps_of().square + 0.25)
        return LatticeCode(self.dimension, self.step, square)

    @property
    def blanket(self) -> float:
        """e^(-local_epsilon / 2), not above it: a record is at most C from 0, and two are 2 C apart."""
        return math.exp(-0.5 * self.local_epsilon) * (1.0 - _SLACK)

    @property
    def largest_variance(self) -> float:
        """d step^2 (E K^2 + 1/4), an upper bound: a vector in the middle of its cell has as much."""
        return self.dimension * self.step**2 * (steps_of().square + 0.25)

    def variance(self, records: ArrayLike) -> Floats:
        """step^2 (d E K^2 + sum_i f_i (1 - f_i)) for each vector."""
        rows = rows_of(records, self.dimension)
        checked_norms(rows, self.radius, self.norm)
        variances = np.empty(len(rows))
        for block in blocks(*rows.shape):
            shares = np.abs(rows[block]) / self.step % 1.0
            variances[block] = (shares * (1.0 - shares)).sum(axis=1)
        return self.step**2 * (self.dimension * steps_of().square + variances)

    def reports(self, records: ArrayLike, rng: Randomness = None) -> Floats:
        """Reports: one vector of whole steps per row, unbiased for it."""
        rows = rows_of(records, self.dimension)
        sizes = checked_norms(rows, self.radius, self.norm)
        source, out = system_stream_for(rng), np.empty_like(rows)
        for block in blocks(*rows.shape):
            # norms above the radius by rounding are scaled back
            excess = np.maximum(sizes[block] / self.radius, 1.0)
            scaled = np.abs(rows[block]) / (self.step * excess)[:, None]
            whole = np.floor(scaled)
            whole += source.coins(thresholds(scaled - whole))
            np.copysign(whole, rows[block], out=whole)
            noise = steps_of().drawn(whole.size, source).reshape(whole.shape)
            np.multiply(whole + noise, self.step, out=out[block])
        return out
