"""PrivUnit: unit vectors, or vectors in a ball, by a uniform point in or outside a cap of the sphere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import fault, mass, scale
from sharpdp.learn.randomizers.cap import Cap, best_cap, cap_of
from sharpdp.learn.randomizers.inputs import (
    TOLERANCE,
    blocks,
    checked_norm,
    checked_norms,
    dimensions,
    local_budget,
    norms_of,
    rows_of,
)
from sharpdp.learn.randomizers.odds import thresholds
from sharpdp.learn.randomizers.randomness import Floats, Randomness, Source, source_of
from sharpdp.learn.randomizers.report import VectorRandomizer
from sharpdp.numerics.library import betainccinv, betaincinv

__all__ = ["PrivUnit", "PrivUnitBall"]

AT_LEAST_TWO = "On a line there are two directions only: use CoordinateSigns."

_NOTHING = 1e-100
"""Vectors shorter than this share of the radius have no direction that doubles can hold."""

_FEW = 64
"""In fewer dimensions little may be left of a normal vector without u, and it is freed of u twice."""


@dataclass(frozen=True, kw_only=True)
class PrivUnit(VectorRandomizer):
    """Unit vectors u: V / m, V uniform on the cap {<v, u> >= height} with probability p, else outside it.

        ratio of densities: p (1 - q) / ((1 - p) q) <= e^local_epsilon,   q the cap's share of the sphere
        E[V / m] = u,   ||V / m|| = 1 / m always,   variance 1 / m^2 - 1

    Without a ``height`` the best one is taken, which solves c = m(c); height 0 is the half sphere.

    Holds when: rows have norm 1. Numerics: the budget holds exactly for the height and the coin as
    stored (see `Cap`); that V is held in doubles is not counted: its last bits, unlike its value, are
    not proved to hide u.

    Source: bhowmick2018; girgis2021 Algorithm 1 calls it R_2.

    >>> unit = PrivUnit(dimension=3, local_epsilon=2)
    >>> round(unit.height, 12) == round(float(np.tanh(0.5)), 12)
    True
    >>> unit.reports([[1.0, 0.0, 0.0]]).shape
    (1, 3)
    """

    dimension: int
    local_epsilon: float
    # None stands for the best height, which is there from the start
    height: float = None  # type: ignore[assignment]

    radius = 1.0
    norm = 2.0

    def __post_init__(self) -> None:
        """Check all fields, and find the cap."""
        dimension = dimensions(self.dimension, least=2, hint=AT_LEAST_TWO)
        epsilon = local_budget(self.local_epsilon)
        given: float | None = self.height
        if given is None:
            cap = best_cap(dimension, epsilon)
        else:
            hint = "It is the cosine at the rim of the cap."
            cap = cap_of(dimension, epsilon, mass(height=given, hint=hint))
        object.__setattr__(self, "dimension", dimension)
        object.__setattr__(self, "local_epsilon", epsilon)
        object.__setattr__(self, "height", cap.height)

    @property
    def cap(self) -> Cap:
        """The constants, as stored."""
        return cap_of(self.dimension, self.local_epsilon, self.height)

    @property
    def blanket(self) -> float:
        """(1 - p) / (1 - q), not above it."""
        return self.cap.blanket

    @property
    def largest_variance(self) -> float:
        """1 / m^2 - 1, for every unit vector."""
        return (1.0 - self.cap.mean) * (1.0 + self.cap.mean) / self.cap.mean**2

    def variance(self, records: ArrayLike) -> Floats:
        """The same for every unit vector."""
        return np.full(len(rows_of(records, self.dimension)), self.largest_variance)

    def reports(self, records: ArrayLike, rng: Randomness = None) -> Floats:
        """One vector of norm 1 / m per unit vector, unbiased for it.

        Numerics: rows are divided by their norm, which must be 1 within 1e-9.
        """
        rows = rows_of(records, self.dimension)
        sizes = checked_norms(rows, self.radius, self.norm)
        short = np.flatnonzero(sizes < 1.0 - TOLERANCE)
        if short.size:
            hint = "Use PrivUnitBall for vectors inside the ball, or divide each by its norm."
            where = f"records[{short[0]}]"
            raise fault(where, "a vector of norm 1", f"norm {sizes[short[0]]:.12g}", hint)
        return self.tilted(rows, 1.0 / sizes, np.ones(len(rows)), source_of(rng))

    def tilted(self, rows: Floats, inverses: Floats, factors: Floats, source: Source) -> Floats:
        """factor V / m of each unit vector u = row inverse, the first axis where the inverse is 0.

        A negative factor stands for the opposite unit vector. Nothing is checked: see `reports`.
        """
        out = np.empty_like(rows)
        along, across = self._heights(len(rows), source)
        along *= factors / self.cap.mean
        across *= np.abs(factors) / self.cap.mean
        for block in blocks(*rows.shape):
            units = rows[block] * inverses[block, None]
            units[inverses[block] == 0.0, 0] = 1.0
            sideways = _sideways(units, source)
            sideways *= across[block, None]
            units *= along[block, None]
            np.add(units, sideways, out=out[block])
        return out

    def _heights(self, clients: int, source: Source) -> tuple[Floats, Floats]:
        """<V, u> and sqrt(1 - <V, u>^2) of each client.

        With F the distribution of the squared height, Beta(1/2, (d-1)/2): inside 1 - F is uniform below
        2q; outside the height is spread over the rest, negative with probability (1/2) / (1 - q).
        """
        cap, freedom = self.cap, 0.5 * (self.dimension - 1)
        inside = source.coins(np.full(clients, cap.coin, dtype=np.uint64))
        spots = source.uniforms(clients)
        spots *= np.where(inside, cap.share, 1.0 - cap.share)
        tails = 2.0 * np.minimum(spots, 1.0 - spots)
        heights = np.sqrt(betainccinv(0.5, freedom, tails))
        across = np.sqrt(betaincinv(freedom, 0.5, tails))
        heights = np.where(inside | (spots > 0.5), heights, -heights)
        bounded = np.where(inside, np.maximum(heights, cap.height), np.minimum(heights, cap.height))
        return bounded, across


@dataclass(frozen=True, kw_only=True)
class PrivUnitBall(VectorRandomizer):
    """Vectors x in a ball: C PrivUnit(+-x/||x||), plus with probability (1 + ||x||/C)/2.

        E[report] = x,   ||report|| = C / m always,   variance C^2 / m^2 - ||x||^2

    with the Euclidean norm of x, at most C. Vectors have l_norm norm at most ``radius``; for the
    Euclidean norm C = radius, otherwise C = radius max(1, d^(1/2 - 1/norm)) holds all of them. A zero
    vector reports on a fixed direction with a fair sign. The sign is drawn before PrivUnit, so the report
    is a mixture of reports of PrivUnit, and its budget is the same.

    Holds when: rows have l_norm norm at most the radius; use `clipped`. Numerics: see `PrivUnit`; vectors
    shorter than 1e-100 C count as zero.

    Source: bhowmick2018; girgis2021 Algorithm 1 calls it R_2.

    >>> ball = PrivUnitBall(dimension=784, radius=0.005, local_epsilon=2)
    >>> report = ball.reports(np.zeros((1, 784)))
    >>> bool(abs(np.linalg.norm(report) * ball.unit.cap.mean / 0.005 - 1) < 1e-12)
    True
    """

    dimension: int
    local_epsilon: float
    radius: float = 1.0
    norm: float = 2.0
    # None stands for the best height, which is there from the start
    height: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Check all fields."""
        hint = "It is the largest norm; gradients are clipped to it."
        object.__setattr__(self, "radius", scale(radius=self.radius, hint=hint))
        object.__setattr__(self, "norm", checked_norm(self.norm))
        for name in ("dimension", "local_epsilon", "height"):
            object.__setattr__(self, name, getattr(self.unit, name))

    @cached_property
    def unit(self) -> PrivUnit:
        """The randomizer of the direction."""
        return PrivUnit(
            dimension=self.dimension, local_epsilon=self.local_epsilon, height=self.height
        )

    @property
    def blanket(self) -> float:
        """That of the direction."""
        return self.unit.blanket

    @property
    def reach(self) -> float:
        """C: the largest Euclidean norm."""
        stretch: float = self.dimension ** (0.5 - 1.0 / self.norm)
        return self.radius * max(1.0, stretch)

    @property
    def largest_variance(self) -> float:
        """C^2 / m^2, for the zero vector."""
        return (self.reach / self.unit.cap.mean) ** 2

    def variance(self, records: ArrayLike) -> Floats:
        """C^2 / m^2 - ||x||^2 for each vector x."""
        rows = rows_of(records, self.dimension)
        return self.largest_variance - self._sizes(rows) ** 2

    def reports(self, records: ArrayLike, rng: Randomness = None) -> Floats:
        """One vector of norm C / m per row, unbiased for it."""
        rows = rows_of(records, self.dimension)
        sizes = self._sizes(rows)
        source = source_of(rng)
        sizes[sizes < _NOTHING * self.reach] = 0.0
        plus = source.coins(thresholds(0.5 + 0.5 * (sizes / self.reach)))
        inverses = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
        factors = np.where(plus, self.reach, -self.reach)
        return self.unit.tilted(rows, inverses, factors, source)

    def _sizes(self, rows: Floats) -> Floats:
        """The Euclidean norms of rows that are within the radius."""
        sizes = checked_norms(rows, self.radius, self.norm)
        return sizes if self.norm == 2.0 else norms_of(rows, 2.0)


def _sideways(units: Floats, source: Source) -> Floats:
    """For each unit vector one at right angles to it, uniform among those."""
    others = source.normals(*units.shape)
    for _ in range(2 if units.shape[1] < _FEW else 1):
        others -= np.einsum("ij,ij->i", others, units)[:, None] * units
    sizes = np.sqrt(np.einsum("ij,ij->i", others, others))
    if not np.all(sizes > 0.0):  # about once in 2^53 draws in two dimensions
        return _sideways(units, source)
    others /= sizes[:, None]
    return others
