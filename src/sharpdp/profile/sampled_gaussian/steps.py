"""Poisson-sampled Gaussian steps as rows of columns: rate, shift, direction and repetitions of each kind.

The rows may belong to one composition or to many, so that plans and moments of a whole sweep are one
table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.special import Array, log_mixture
from sharpdp.pairs.pair import GaussianPair, ReversedPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.engine import Declined, Steps

NO_OVERFLOW = 700.0
"""Exponentials of larger numbers are not formed."""

_STRIPS = np.pi * np.array([0.05, 0.1, 0.18, 0.28, 0.4, 0.55, 0.7, 0.85])
"""Half-widths of strips to choose from, at mu = 1."""


class StepKind(NamedTuple):
    """One kind of step: rate q, shift mu, repetitions; sign +1 if the record is there under P."""

    rate: float
    mu: float
    sign: int
    repetitions: float


@dataclass(frozen=True, eq=False)
class StepRows:
    """Several kinds of steps, as columns: one row for each, with the composition that it belongs to."""

    rate: Array
    mu: Array
    sign: Array
    count: Array
    owner: NDArray[np.intp]

    @classmethod
    def of(cls, kinds: Sequence[StepKind], owners: Sequence[int] | None = None) -> StepRows:
        """The columns of some steps; they belong to one composition unless told otherwise."""
        owner = np.zeros(len(kinds), dtype=np.intp) if owners is None else np.array(owners)
        rate, mu, sign, count = np.array(kinds).T[:, :, None]
        return cls(rate, mu, sign, count, owner)

    def at(self, rows: NDArray[np.intp]) -> StepRows:
        """Some of the rows."""
        rate, mu, sign, count = (x[rows] for x in (self.rate, self.mu, self.sign, self.count))
        return StepRows(rate, mu, sign, count, self.owner[rows])

    def add_to(self, totals: Array, values: Array) -> None:
        """Add each row's values to those of its composition."""
        np.add.at(totals, self.owner, values)

    def exponent(self, z: ArrayLike) -> Array:
        """s with M(z) = A(s), a row for each kind of step."""
        return np.where(self.sign > 0, np.asarray(z) + 1.0, -np.asarray(z))

    def log_ratio(self, y: Array) -> Array:
        """log w(y)."""
        return log_mixture(self.rate, self.mu * y - 0.5 * self.mu**2)

    @cached_property
    def strips(self) -> Array:
        """Half-widths of strips to choose from, a row for each kind of step.

        Fractions of the distance pi/mu to the nearest zero of w, capped.
        """
        return np.minimum(_STRIPS / self.mu, 9.0)


def kinds_of(steps: Steps) -> list[StepKind]:
    """The kinds of the steps; declines unless all are Poisson-sampled Gaussians, often repeated."""
    kinds, repetitions = [], 0
    for pair, count in steps:
        sign = 1
        if isinstance(pair, ReversedPair):
            pair, sign = pair.base, -1
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            raise Declined("not all steps are Poisson-sampled Gaussians")
        kinds.append(StepKind(pair.rate, pair.base.mu, sign, float(count)))
        repetitions += count
    if repetitions < 32:
        raise Declined("too few repetitions")
    return kinds


def typical_loss(kinds: Sequence[StepKind]) -> float:
    """About the size of a typical total loss; large ones do not count, however much they vary."""
    squares = (kind.repetitions * kind.rate**2 * math.expm1(min(kind.mu**2, 1.0)) for kind in kinds)
    return math.sqrt(sum(squares))


def batches_of(compositions: Sequence[Sequence[StepKind]]) -> list[StepRows]:
    """All steps in batches of similar ones, which need about as many nodes."""
    kinds = [(kind, owner) for owner, own in enumerate(compositions) for kind in own]
    if len(kinds) > 1:
        kinds.sort(key=lambda row: row[0].mu)
    # 64 rows together are enough to be quick, and few enough to stay small
    return [
        StepRows.of(*zip(*kinds[row : row + 64], strict=True)) for row in range(0, len(kinds), 64)
    ]
