"""PrivUnit: unit vectors, or vectors in a ball, by a uniform point in or outside a cap of the sphere.

`vector_randomizer` chooses between it and the randomizers of signs by the norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import half_open_probability, positive_scale
from sharpdp.errors import InvalidArgument
from sharpdp.learn.randomizers.coin_thresholds import thresholds
from sharpdp.learn.randomizers.lattice_rounding import (
    SPREAD,
    directions,
    dithered,
    normal_vectors,
    step_of,
)
from sharpdp.learn.randomizers.privunit_cap import Cap, best_cap, cap_of
from sharpdp.learn.randomizers.report import VectorRandomizer
from sharpdp.learn.randomizers.report_codes import LatticeCode
from sharpdp.learn.randomizers.sign_reports import CoordinateSigns, HadamardSigns
from sharpdp.learn.randomizers.validation import (
    CACHED,
    TOLERANCE,
    blocks,
    checked_norm,
    checked_norms,
    dimensions,
    local_budget,
    norms_of,
    products,
    rows_of,
)
from sharpdp.randomness.normal_rectangles import Workspace
from sharpdp.randomness.system_stream import Floats, Randomness, SystemStream, system_stream_for

__all__ = ["PrivUnit", "PrivUnitBall", "vector_randomizer"]

Whole = NDArray[np.int64]


class Space(Workspace):
    """Memory for the vectors of some clients."""

    def __init__(self, rows: int, dimension: int) -> None:
        """Ask for the memory."""
        super().__init__(rows * dimension)
        self.units, self.points = np.empty((2, rows, dimension))


@dataclass(frozen=True, kw_only=True)
class PrivUnit(VectorRandomizer):
    """Unit vectors u: V / m, V uniform on the cap {<v, u> >= height} with probability p, else outside it.

        ratio of densities: p (1 - q) / ((1 - p) q) <= e^local_epsilon,   q the cap's share of the sphere
        E[V / m] = u,   ||V / m|| = 1 / m but for rounding to the lattice,   variance 1 / m^2 - 1

    V is drawn as a point of the cap with probability beta, of the whole sphere otherwise (see `Cap`), and
    put on a public lattice by random rounding (see `dithered`), which adds less than a share of 3 10^-4
    to E ||V||^2 in up to 10^6 dimensions.

    Holds when: rows have norm 1, and the operating system's randomness is used. Numerics: the budget
    holds for the whole numbers that are reported, with the rounding of all doubles in between counted
    (docs/topics/randomizers.md has the proof).

    Source: bhowmick2018; girgis2021 Algorithm 1 calls it R_2.

    Args:
        dimension: Number d of coordinates, from 2 to 10^8.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        height: Cosine at the rim of the cap, in [0, 1); 0 is the half sphere. None for the best one,
            which solves c = m(c).

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

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
        dimension = dimensions(
            self.dimension,
            least=2,
            hint="On a line there are two directions only: use CoordinateSigns.",
        )
        epsilon = local_budget(self.local_epsilon)
        height: float | None = self.height
        if height is None:
            cap = best_cap(dimension, epsilon)
        else:
            hint = "It is the cosine at the rim of the cap."
            cap = cap_of(dimension, epsilon, half_open_probability(height=height, hint=hint))
        object.__setattr__(self, "dimension", dimension)
        object.__setattr__(self, "local_epsilon", epsilon)
        object.__setattr__(self, "height", cap.height)

    @property
    def cap(self) -> Cap:
        """The constants, as stored."""
        return cap_of(self.dimension, self.local_epsilon, self.height)

    @property
    def blanket(self) -> float:
        """(1 - p) / (1 - q) = 1 - beta, not above it."""
        return self.cap.blanket

    @property
    def step(self) -> float:
        """The step of the lattice on which V lies; reports are whole multiples of step / m."""
        return step_of(self.dimension)

    def code_of(self, length: float) -> LatticeCode:
        """How length V / m is sent: the whole numbers of V, and nothing else.

        Args:
            length: The length of the vectors whose directions are reported.

        Returns:
            The code.
        """
        spacing = length * self.step / self.cap.mean
        return LatticeCode(self.dimension, spacing, self.largest_square / self.step**2)

    @property
    def code(self) -> LatticeCode:
        """The whole numbers of V."""
        return self.code_of(1.0)

    @property
    def largest_square(self) -> float:
        """E ||V||^2, at most: 1, and what random rounding adds."""
        return 1.0 + SPREAD * self.dimension * self.step**2

    @property
    def largest_variance(self) -> float:
        """1 / m^2 - 1 and what random rounding adds, at most, for every unit vector."""
        return (self.largest_square - self.cap.mean**2) / self.cap.mean**2

    def variance(self, records: ArrayLike) -> Floats:
        """Variance of the estimate, the same for every unit vector."""
        return np.full(len(rows_of(records, self.dimension)), self.largest_variance)

    def reports(self, records: ArrayLike, rng: Randomness = None) -> Floats:
        """Reports: one vector per unit vector, unbiased for it, in whole steps of step / m.

        Numerics: rows are divided by their norm, which must be 1 within 1e-9.
        """
        rows = rows_of(records, self.dimension)
        sizes = checked_norms(rows, self.radius, self.norm)
        short = np.count_nonzero(sizes < 1.0 - TOLERANCE)
        if short:
            hint = "Use PrivUnitBall for vectors inside the ball, or divide each by its norm."
            raise InvalidArgument(
                f"records must have norm 1; got {short} rows that are shorter. {hint}"
            )
        return self.drawn(rows, 1.0 / sizes, 1.0, system_stream_for(rng))

    def drawn(self, rows: Floats, inverses: Floats, length: float, source: SystemStream) -> Floats:
        """length V / m of each unit vector u = row inverse, or of a random one where the inverse is 0.

        A negative inverse stands for the opposite unit vector. Nothing is checked: see `reports`.

        Args:
            rows: The vectors, one per row.
            inverses: For each row, one over its length, with a sign; 0 for a random direction.
            length: The length of the vectors whose directions are reported.
            source: Random bits.

        Returns:
            One report per row.
        """
        out = np.empty_like(rows)
        inside = source.coins(np.full(len(rows), self.cap.coin, dtype=np.uint64))
        space = Space(min(max(CACHED // self.dimension, 1), len(rows)), self.dimension)
        outside, chosen = np.flatnonzero(~inside), np.flatnonzero(inside)
        for block in blocks(outside.size, self.dimension):
            some = outside[block]
            points = directions(some.size, self.dimension, source, space)
            out[some] = self._reported(points, length, source, space)
        heights = self._heights(chosen.size, source) if self._is_high else None
        for block in blocks(chosen.size, self.dimension):
            some = chosen[block]
            units = self._units(rows, inverses, some, source, space)
            if heights is None:
                points = self._in_low_cap(units, source, space)
            else:
                points = self._in_high_cap(units, heights[:, block], source, space)
            out[some] = self._reported(points, length, source, space)
        return out

    @property
    def _is_high(self) -> bool:
        """Whether the cap is small: lower ones hold every third point of the sphere or more."""
        return self.height**2 * self.dimension >= 0.25

    def _reported(
        self, points: Floats, length: float, source: SystemStream, space: Space
    ) -> Floats:
        """Points V as reports, length V / m on the lattice, in the place of the points."""
        points *= 1.0 / self.step
        whole = dithered(points, source, space)
        whole *= self.code_of(length).spacing
        return whole

    def _units(
        self, rows: Floats, inverses: Floats, some: Whole, source: SystemStream, space: Space
    ) -> Floats:
        """The unit vectors of some clients, and random ones for those without a direction."""
        units = np.take(rows, some, axis=0, out=space.units[: some.size], mode="clip")
        units *= inverses[some, None]
        unsure = np.flatnonzero(
            ~((np.abs(inverses[some]) > 0.0) & (np.abs(inverses[some]) < 1e100))
        )
        if unsure.size:  # zero, or so short that squares may have been lost
            again = units[unsure]
            sizes = np.sqrt(products(again, again))
            lost = np.flatnonzero(~((sizes > 0.5) & (sizes < 2.0)))
            sizes[lost] = 1.0
            again /= sizes[:, None]
            again[lost] = directions(lost.size, self.dimension, source)
            units[unsure] = again
        return units

    def _in_low_cap(
        self, units: Floats, source: SystemStream, space: Space | None = None
    ) -> Floats:
        """Uniform points of the sphere, or their opposites, until one is in the cap."""
        points = directions(len(units), self.dimension, source, space)
        heights = products(points, units)
        points *= np.where(heights < 0.0, -1.0, 1.0)[:, None]
        again = np.flatnonzero(np.abs(heights) < self.height)
        if again.size:
            points[again] = self._in_low_cap(units[again], source)
        return points

    def _in_high_cap(
        self, units: Floats, heights: Floats, source: SystemStream, space: Space
    ) -> Floats:
        """Points of these heights, in a random direction at right angles to the unit vectors.

        ``heights`` are those of `_heights`, and the unit vectors are overwritten. The reflection
        H = I - w w^T / (1 + |u_1|), w = u + sign(u_1) e_1, takes e_1 to -sign(u_1) u.
        """
        along, across = heights
        points, mirrors = space.points[: len(units)], units
        signs = np.where(units[:, 0] < 0.0, -1.0, 1.0)
        points[:, 0] = -signs * along
        sides, sizes = normal_vectors(len(units), self.dimension - 1, source, space)
        np.multiply(sides, (across / sizes)[:, None], out=points[:, 1:])
        mirrors[:, 0] += signs
        mirrors *= (products(mirrors, points) / np.abs(mirrors[:, 0]))[:, None]
        points -= mirrors
        return points

    def _heights(self, clients: int, source: SystemStream) -> Floats:
        """t = <V, u> and sqrt(1 - t^2) of uniform points of the cap: two rows.

        w = 1 - t^2 has density w^((d-3)/2) / t there: w = (1 - height^2) U^(2/(d-1)) for a uniform U,
        accepted with probability height / t.
        """
        c = self.height
        widest = (1.0 - c) * (1.0 + c)
        logs = np.log(source.fractions(clients)) * (2.0 / (self.dimension - 1))
        along = np.sqrt(c * c - widest * np.expm1(logs))
        heights = np.stack([along, np.sqrt(widest * np.exp(logs))])
        again = np.flatnonzero(~source.coins(thresholds(c / along)))
        if again.size:
            heights[:, again] = self._heights(again.size, source)
        return heights


@dataclass(frozen=True, kw_only=True)
class PrivUnitBall(VectorRandomizer):
    """Vectors x in a ball: C PrivUnit(+-x/||x||), plus with probability (1 + ||x||/C)/2.

        E[report] = x,   ||report|| = C / m but for rounding,   variance C^2 / m^2 - ||x||^2

    with the Euclidean norm of x, at most C. Vectors have l_norm norm at most ``radius``; for the
    Euclidean norm C = radius, otherwise C = radius max(1, d^(1/2 - 1/norm)) holds all of them. A zero
    vector reports on a random direction. The sign is drawn before PrivUnit, so the report
    is a mixture of reports of PrivUnit, and its budget is the same.

    Holds when: rows have l_norm norm at most the radius; use `clipped`. Numerics: see `PrivUnit`; vectors
    shorter than 1e-100 C count as zero.

    Source: bhowmick2018; girgis2021 Algorithm 1 calls it R_2.

    Args:
        dimension: Number d of coordinates, from 2 to 10^8.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        radius: Largest l_norm norm of a record, from 1e-30 to 1e30.
        norm: Order of that norm, from 1 to math.inf.
        height: Cosine at the rim of the cap, in [0, 1); 0 is the half sphere. None for the best one,
            which solves c = m(c).

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> ball = PrivUnitBall(dimension=784, radius=0.005, local_epsilon=2)
    >>> report = ball.reports(np.zeros((1, 784)))
    >>> bool(abs(np.linalg.norm(report) * ball.unit.cap.mean / 0.005 - 1) < 1e-3)
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
        object.__setattr__(self, "radius", positive_scale(radius=self.radius, hint=hint))
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
        """The blanket of the direction."""
        return self.unit.blanket

    @property
    def code(self) -> LatticeCode:
        """The whole numbers of the direction's report."""
        return self.unit.code_of(self.reach)

    @property
    def reach(self) -> float:
        """C: the largest Euclidean norm."""
        stretch: float = self.dimension ** (0.5 - 1.0 / self.norm)
        return self.radius * max(1.0, stretch)

    @property
    def largest_variance(self) -> float:
        """C^2 / m^2 and what random rounding adds, at most, for the zero vector."""
        return self.unit.largest_square * (self.reach / self.unit.cap.mean) ** 2

    def variance(self, records: ArrayLike) -> Floats:
        """C^2 / m^2 - ||x||^2 and what random rounding adds, at most, for each vector x."""
        rows = rows_of(records, self.dimension)
        return self.largest_variance - self._sizes(rows) ** 2

    def reports(self, records: ArrayLike, rng: Randomness = None) -> Floats:
        """Reports: one vector per row, unbiased for it, in whole steps of C step / m."""
        rows = rows_of(records, self.dimension)
        sizes = self._sizes(rows)
        source = system_stream_for(rng)
        # vectors shorter than this share of the radius have no direction that doubles can hold
        sizes[sizes < 1e-100 * self.reach] = 0.0
        plus = source.coins(thresholds(0.5 + 0.5 * (sizes / self.reach)))
        inverses = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
        return self.unit.drawn(rows, np.where(plus, inverses, -inverses), self.reach, source)

    def _sizes(self, rows: Floats) -> Floats:
        """The Euclidean norms of rows that are within the radius."""
        sizes = checked_norms(rows, self.radius, self.norm)
        return sizes if self.norm == 2.0 else norms_of(rows, 2.0)


def vector_randomizer(
    *, dimension: int, local_epsilon: float, radius: float = 1.0, norm: float = 2
) -> VectorRandomizer:
    """R_p: the randomizer of vectors with l_p norm at most the radius, p = ``norm``.

    Signs of Hadamard rows for p = 1, signs of coordinates for p = infinity, and otherwise PrivUnit in the
    Euclidean ball around the l_p ball. The first two send one number. PrivUnit sends a vector, and has
    the smaller variance from a local epsilon of about 1.8 on: ``PrivUnitBall(norm=...)`` takes any norm.

    Source: girgis2021 Algorithm 1.

    Args:
        dimension: Number d of coordinates, from 1 to 10^8; at least 2 unless norm is 1 or infinity.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        radius: Largest l_norm norm of a record, from 1e-30 to 1e30.
        norm: Order p of the norm, from 1 to math.inf.

    Returns:
        `HadamardSigns` for norm 1, `CoordinateSigns` for infinity, `PrivUnitBall` otherwise.

    Raises:
        InvalidArgument: An argument is out of range.
        WrongType: An argument has the wrong type.

    >>> vector_randomizer(dimension=10, local_epsilon=1.0, norm=math.inf)
    CoordinateSigns(dimension=10, local_epsilon=1.0, radius=1.0)
    """
    order = checked_norm(norm)
    if order == 1.0:
        return HadamardSigns(dimension=dimension, local_epsilon=local_epsilon, radius=radius)
    if order == math.inf:
        return CoordinateSigns(dimension=dimension, local_epsilon=local_epsilon, radius=radius)
    return PrivUnitBall(dimension=dimension, local_epsilon=local_epsilon, radius=radius, norm=order)
