"""Local randomizers, run by each user: randomized response, noise, or any table of probabilities."""

import math
from dataclasses import dataclass
from operator import itemgetter

from sharpdp._validate import (
    LARGEST_SUM_ERROR,
    UNIT_ROUNDOFF,
    count,
    has_entries,
    nonnegative,
    normalized,
    positive_scale,
    probability,
    short_repr,
    zero_or_scale,
)
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import NO_LESS, NO_NOISE, Adjacency, Mechanism

__all__ = [
    "BlanketRandomizer",
    "DiscreteRandomizer",
    "LocalGaussian",
    "LocalLaplace",
    "RandomizedResponse",
]


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Mechanism):
    """One of k categories, reported truthfully with odds e^local_epsilon against each other one.

        Pr[report = y | record = x] = e^local_epsilon / (e^local_epsilon + k - 1)   if y = x
                                      1 / (e^local_epsilon + k - 1)                 otherwise

    with k = ``categories``. Source: warner1965 (k = 2), kairouz2016 (any k).

    Args:
        local_epsilon: the epsilon of one report; 0, or 1e-30 to 1e30.
        categories: number of possible answers, at least 2 (default).

    Raises:
        InvalidArgument: a value is out of range.
        WrongType: a value is not a number.

    >>> RandomizedResponse(local_epsilon=1).describe()
    'randomized response (local epsilon 1, 2 categories)'
    """

    local_epsilon: float
    categories: int = 2

    adjacencies = (Adjacency.REPLACE_ONE,)

    def __post_init__(self) -> None:
        """Check both parameters."""
        epsilon = zero_or_scale(local_epsilon=self.local_epsilon, hint=NO_LESS)
        hint = "It counts the possible answers."
        object.__setattr__(self, "local_epsilon", epsilon)
        object.__setattr__(
            self, "categories", count(categories=self.categories, least=2, hint=hint)
        )

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "randomized response"

    def describe(self) -> str:
        """The mechanism in one line."""
        numbers = f"local epsilon {self.local_epsilon:.12g}, {self.categories:,} categories"
        return f"randomized response ({numbers})"


@dataclass(frozen=True)
class LocalLaplace(Mechanism):
    """A value between 0 and 1, reported with Laplace noise of scale 1 / local_epsilon.

    Args:
        local_epsilon: the epsilon of one report; 0, or 1e-30 to 1e30.

    Raises:
        InvalidArgument: the local epsilon is out of range.
        WrongType: it is not a number.

    >>> LocalLaplace(local_epsilon=1).describe()
    'Laplace noise on [0, 1] (local epsilon 1)'
    """

    local_epsilon: float

    adjacencies = (Adjacency.REPLACE_ONE,)

    def __post_init__(self) -> None:
        """Check the budget."""
        epsilon = zero_or_scale(local_epsilon=self.local_epsilon, hint=NO_LESS)
        object.__setattr__(self, "local_epsilon", epsilon)

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return "Laplace noise on [0, 1]"

    def describe(self) -> str:
        """The mechanism in one line."""
        return f"Laplace noise on [0, 1] (local epsilon {self.local_epsilon:.12g})"


@dataclass(frozen=True)
class LocalGaussian(Mechanism):
    """A value between 0 and 1, reported with Gaussian noise.

    The local epsilon is infinite, because reports far out in the tails distinguish values. A shuffler
    still hides most reports. For other intervals, the noise is in units of their length; for vectors, see
    `ShuffledReports`.

    Args:
        noise_multiplier: the standard deviation of the noise, for values of an interval of length 1;
            1e-30 to 1e30.

    Raises:
        InvalidArgument: the noise multiplier is out of range.
        WrongType: it is not a number.

    >>> LocalGaussian(noise_multiplier=1).describe()
    'Gaussian noise on [0, 1] (noise multiplier 1)'
    """

    noise_multiplier: float

    adjacencies = (Adjacency.REPLACE_ONE,)

    def __post_init__(self) -> None:
        """Check the noise multiplier."""
        clean = positive_scale(noise_multiplier=self.noise_multiplier, hint=NO_NOISE)
        object.__setattr__(self, "noise_multiplier", clean)

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return "Gaussian noise on [0, 1]"

    def describe(self) -> str:
        """The mechanism in one line."""
        return f"Gaussian noise on [0, 1] (noise multiplier {self.noise_multiplier:.12g})"


@dataclass(frozen=True, kw_only=True)
class BlanketRandomizer(Mechanism):
    """Any local_epsilon-DP randomizer whose reports are with probability ``blanket`` free of the record.

        Pr[report in S | record = x] >= blanket W(S)   for all records x, sets S and one distribution W

    Every local_epsilon-DP randomizer has a blanket of at least e^-local_epsilon. Points on a sphere or
    Laplace noise have more, and are hidden better by a shuffler. A blanket smaller than the true one is
    on the safe side. Source: balle2019 Section 5.

    Args:
        local_epsilon: the epsilon of one report; 0, or 1e-30 to 1e30.
        blanket: the probability of a report that does not depend on the record, in (0, 1].

    Raises:
        InvalidArgument: a value is out of range.
        WrongType: a value is not a number.

    >>> BlanketRandomizer(local_epsilon=1, blanket=0.6).describe()
    'randomizer with blanket 0.6 (local epsilon 1)'
    """

    local_epsilon: float
    blanket: float

    adjacencies = (Adjacency.REPLACE_ONE,)

    def __post_init__(self) -> None:
        """Check both numbers."""
        epsilon = zero_or_scale(local_epsilon=self.local_epsilon, hint=NO_LESS)
        hint = "It is the part of a report's distribution that all records have in common."
        object.__setattr__(self, "local_epsilon", epsilon)
        object.__setattr__(self, "blanket", probability(blanket=self.blanket, hint=hint))

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return "randomizer with a blanket"

    def describe(self) -> str:
        """The mechanism in one line."""
        numbers = f"blanket {self.blanket:.12g} (local epsilon {self.local_epsilon:.12g})"
        return f"randomizer with {numbers}"


@dataclass(frozen=True)
class DiscreteRandomizer(Mechanism):
    """Any randomizer with finitely many records and reports: ``matrix[x][y]`` = Pr[report y | record x].

    Args:
        matrix: one row of probabilities per record, at least two rows of equal length, each with sum 1.
            Rows whose sum is off by at most 1e-9 are divided by it.
        local_epsilon: a bound that the matrix must satisfy; 0, or 1e-30 to 1e30. None (default) for no
            bound. In both cases the field becomes the log of the largest ratio in a column, rounded up.

    Raises:
        InvalidArgument: a row is not a pmf, rows differ in length, a column has both zero and positive
            probabilities, or the matrix violates the bound by more than 1e-9.
        WrongType: ``matrix`` is not a list of rows of numbers, or ``local_epsilon`` is not a number.

    >>> DiscreteRandomizer(matrix=[[0.75, 0.25], [0.25, 0.75]]).describe()
    'randomizer of 2 records with 2 reports (local epsilon 1.09861228867)'
    """

    matrix: tuple[tuple[float, ...], ...]
    # None stands for what the matrix itself says, which is there from the start
    local_epsilon: float = None  # type: ignore[assignment]

    adjacencies = (Adjacency.REPLACE_ONE,)

    def __post_init__(self) -> None:
        """Check the rows, and the promise if there is one."""
        rows = _rows(self.matrix)
        exact = _largest_ratio(rows)
        if self.local_epsilon is not None:
            promised = zero_or_scale(local_epsilon=self.local_epsilon, hint=NO_LESS)
            # how far a matrix may exceed a promised local epsilon before it is no rounding
            if exact[0] > promised + 1e-9:
                raise InvalidArgument(
                    f"matrix must be {promised:.12g}-LDP; got a ratio of e^{exact[0]:.12g}, "
                    f"{exact[0] - promised:.6g} too much in its logarithm, at {exact[1]}."
                )
        object.__setattr__(self, "matrix", rows)
        object.__setattr__(self, "local_epsilon", exact[0])

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "discrete randomizer"

    def describe(self) -> str:
        """The mechanism in one line."""
        size = f"{len(self.matrix):,} records with {len(self.matrix[0]):,} reports"
        return f"randomizer of {size} (local epsilon {self.local_epsilon:.12g})"


def _rows(matrix: object) -> tuple[tuple[float, ...], ...]:
    """The matrix as equally long rows of probabilities with sum one."""
    hint = "Give one row of probabilities per record, such as [[0.75, 0.25], [0.25, 0.75]]."
    if not has_entries(matrix):
        raise WrongType(f"matrix must be a list of rows; got {short_repr(matrix)}. {hint}")
    rows = tuple(_row(index, row, hint) for index, row in enumerate(matrix))
    if len(rows) < 2:
        raise InvalidArgument(f"matrix must have at least two rows; got {len(rows)}. {hint}")
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidArgument(
                f"matrix must have equally long rows; got {len(rows[0])} reports in row 0 "
                f"and {len(row)} in row {index}."
            )
    return rows


def _row(index: int, row: object, hint: str) -> tuple[float, ...]:
    """A row of the matrix, checked; errors name its number and its sum."""
    if not has_entries(row):
        raise WrongType(
            f"matrix must be a list of rows; got {short_repr(row)} as row {index}. {hint}"
        )
    masses = tuple(
        nonnegative(hint="It is a probability.", **{f"matrix[{index}][{column}]": entry})
        for column, entry in enumerate(row)
    )
    total = math.fsum(masses)
    if abs(total - 1.0) > LARGEST_SUM_ERROR:
        raise InvalidArgument(
            f"matrix must have rows with sum 1; got {total:.12g} in row {index}, "
            f"off by {total - 1.0:.6g}."
        )
    return normalized(masses)


def _largest_ratio(rows: tuple[tuple[float, ...], ...]) -> tuple[float, str]:
    """log of the largest ratio within a column, not below it, and where; zero beside non-zero is refused.

    Each row stands for the distribution proportional to it, so ratios change as the sums of rows differ.
    """
    largest, where = 0.0, "no report"
    for index, column in enumerate(zip(*rows, strict=True)):
        small, large = min(column), max(column)
        low, high = column.index(small), column.index(large)
        at = f"report {index} of records {high} and {low}"
        if small == 0.0 < large:
            raise InvalidArgument(
                f"matrix must not tell records apart for certain; got {large:.6g} against 0 at {at}. "
                "Such a report has no local epsilon."
            )
        if large > small:
            # as log1p, so that the error is relative also for ratios next to one
            loss = math.log1p((large - small) / small)
            largest, where = max((largest, where), (loss, at), key=itemgetter(0))
    excess = [math.fsum((*row, -1.0)) for row in rows]
    spread = max(excess) - min(excess) if largest > 0.0 else 0.0
    # rounding of the log of a ratio, computed as log1p of a quotient, in units of itself
    return (largest + spread) * (1.0 + 8.0 * UNIT_ROUNDOFF), where
