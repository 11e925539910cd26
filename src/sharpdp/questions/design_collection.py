"""Designs of a data collection: `design_collection` sets privacy against accuracy, by local epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sharpdp._validate import count, half_open_probability, has_entries, invalid, open_probability
from sharpdp.bracket import STANDARD_WIDTH, Bracket
from sharpdp.display.outward_digits import ROUND_CEILING, in_digits
from sharpdp.display.progress import progress
from sharpdp.display.tabular import NotedTable, Plotted, Rows
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms import ShuffledReports
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import account

if TYPE_CHECKING:
    from sharpdp.learn import RandomizedAnswers

__all__ = ["CollectionDesign", "DesignRow", "collect", "design_collection", "reporting"]

LOCAL_EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
"""Local epsilons of a design if none are given."""


@dataclass(frozen=True)
class DesignRow:
    """The row of one local epsilon: its privacy in three cases, and its accuracy in two.

    Args:
        local_epsilon: Budget of one report.
        central: Epsilon of all rounds, if every user reports and the shuffler works.
        central_with_drop_outs: The same with the reports of those users who are left.
        without_shuffler: Epsilon of all reports of one user, if the shuffler fails: each report is known
            to be theirs.
        error: Two standard errors of a share in one round, the largest of any share.
        error_with_drop_outs: The same with the reports of those users who are left.
    """

    local_epsilon: float
    central: Bracket
    central_with_drop_outs: Bracket
    without_shuffler: Bracket
    error: float
    error_with_drop_outs: float

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data, every digit of it.

        Returns:
            Numbers by name; of brackets both ends, infinity by its name.
        """
        columns: dict[str, Any] = {}
        for name in ("central", "central_with_drop_outs", "without_shuffler"):
            bracket: Bracket = getattr(self, name)
            columns[f"{name}_lower"] = float(bracket.lower)
            columns[f"{name}_upper"] = _plain(float(bracket.upper))
        return {
            "local_epsilon": self.local_epsilon,
            **columns,
            "error": self.error,
            "error_with_drop_outs": self.error_with_drop_outs,
            "rigor": str(self.central.rigor),
        }


@dataclass(frozen=True)
class CollectionDesign(Rows[DesignRow], NotedTable, Plotted):
    """A data collection at several local epsilons; made by `design_collection`.

    Args:
        users: Users who are asked in every round.
        rounds: Rounds in which the same users are asked.
        categories: Possible answers.
        delta: Delta at which epsilon is stated.
        drop_outs: Share of users whose reports are missing in the columns "with drop-outs".
        rows: One row per local epsilon, in the order given.
    """

    users: int
    rounds: int
    categories: int
    delta: float
    drop_outs: float
    rows: tuple[DesignRow, ...] = field(repr=False)

    def describe(self) -> str:
        """The collection, in one line.

        Returns:
            The numbers of users, rounds and categories, and delta.
        """
        times = "once" if self.rounds == 1 else f"in {self.rounds:,} rounds"
        return (
            f"{self.users:,} users report one of {self.categories} categories {times}; "
            f"epsilon at delta={self.delta:g}, replace-one"
        )

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the table."""
        return (
            "local epsilon",
            "central epsilon",
            "error",
            "no shuffler",
            f"{100 * self.drop_outs:g}% drop-outs",
            "error",
        )

    def cells(self) -> list[tuple[str, ...]]:
        """The rows in few digits, rounded outwards.

        Returns:
            For each row a text per heading: upper ends of epsilon, and errors in percentage points.
        """
        return [
            (
                f"{row.local_epsilon:g}",
                in_digits(float(row.central), ROUND_CEILING),
                _points(row.error),
                in_digits(float(row.without_shuffler), ROUND_CEILING),
                in_digits(float(row.central_with_drop_outs), ROUND_CEILING),
                _points(row.error_with_drop_outs),
            )
            for row in self.rows
        ]

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Meanings of the columns, and conditions: a label and a sentence each."""
        left = reporting(self.users, self.drop_outs)
        again = (
            ""
            if self.rounds == 1
            else f" Users report in all {self.rounds:,} rounds, and all rounds are counted."
        )
        return (
            (
                "epsilon",
                "certified upper bounds for replacing one user's answers: central, if the shuffler "
                f"fails, and with drop-outs.{again}",
            ),
            (
                "error",
                "two standard errors of a share in one round, in percentage points, for the share with "
                "the largest error, sampling of users included.",
            ),
            (
                "you must ensure",
                f"at least {self.users:,} honest reports are mixed in a round ({left:,} with drop-outs; "
                "who drops out must not depend on the answers), every device uses fresh, independent "
                "randomness, and nothing but the report reaches the shuffler.",
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The design as plain data.

        Returns:
            What was asked, and the rows with every digit.
        """
        return {
            "users": self.users,
            "rounds": self.rounds,
            "categories": self.categories,
            "delta": self.delta,
            "drop_outs": self.drop_outs,
            "rows": [row.to_dict() for row in self.rows],
        }

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The rows as dictionaries: both ends of epsilon in each case, and the errors."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw central epsilon and the error of a share against the local epsilon (extra `plots`).

        The axes of epsilon; the axes of the error share the horizontal one.
        """
        from sharpdp.plots.collections import collection

        return collection(
            [row.local_epsilon for row in self.rows],
            central=[row.central for row in self.rows],
            with_drop_outs=[float(row.central_with_drop_outs) for row in self.rows],
            errors=[row.error for row in self.rows],
            drop_outs=self.drop_outs,
            collected=self.describe(),
            title=title,
            ax=ax,
        )

    def save(self, path: str) -> None:
        """Draw the picture of `plot` into a file.

        Args:
            path: File that ends in .svg, .png or .pdf.

        Raises:
            InvalidArgument: the file has another ending, or cannot be written.
            MissingExtra: matplotlib is not installed.
        """
        from sharpdp.plots.collections import SIZE
        from sharpdp.plots.style import write

        write(path, SIZE, self.plot)


@underflow_is_zero
def design_collection(
    *,
    users: int,
    rounds: int = 1,
    categories: int = 2,
    local_epsilon: float | Iterable[float] = LOCAL_EPSILONS,
    delta: float | None = None,
    drop_outs: float = 0.05,
    relative_width: float = STANDARD_WIDTH,
) -> CollectionDesign:
    """Privacy and accuracy of a survey by randomized response behind a shuffler, by local epsilon.

    Each user reports one of some categories through randomized response, in every round afresh. A
    shuffler mixes the reports of a round. The table says for each local epsilon what the shuffled
    reports of all rounds reveal about a user, how exact the estimated shares are, and what is left if the
    shuffler fails or some users do not report.

    Args:
        users: Users who are asked in every round, at least 2.
        rounds: Rounds in which the same users are asked, at least 1.
        categories: Possible answers, at least 2.
        local_epsilon: Budget of one report, or several to compare, from 1e-6 to 30.
        delta: Delta at which epsilon is stated, in (0, 1); None for the largest power of ten that is at
            most 1e-6 and a tenth of 1 / users.
        drop_outs: Share of users, in [0, 1), who do not report; those who might work with the receiver
            hide nobody either, and count as well.
        relative_width: How wide a bracket may be, as a share of its upper end: from 1e-9 to 0.5.

    Returns:
        The design: print it, draw it with `plot`, or read its `rows`.

    Raises:
        InvalidArgument: an argument is out of range, or no honest user is left.
        WrongType: an argument is no number.
        NotCertified: double precision is not enough for a bound.

    >>> print(
    ...     design_collection(users=5000, categories=6, local_epsilon=[1, 4])
    ... )  # doctest: +ELLIPSIS
    5,000 users report one of 6 categories once; epsilon at delta=1e-06, replace-one
      local epsilon  central epsilon  error  no shuffler  5% drop-outs  error
                  1        0.0423334  +-6.1     0.999998     0.0435188  +-6.3
                  4         0.581584  +-1.6            4      0.598859  +-1.7
    ...
    """
    from sharpdp.learn import RandomizedAnswers

    number = count(users=users, least=2, hint="It counts the people who are asked.")
    share = half_open_probability(drop_outs=drop_outs, hint="It is the share who do not report.")
    left = reporting(number, share)
    times = count(rounds=rounds, hint="It counts how often the users are asked.")
    limit = _usual_delta(number) if delta is None else open_probability(delta=delta)
    listed: list[Any] = list(local_epsilon) if has_entries(local_epsilon) else [local_epsilon]
    if not listed:
        raise invalid("local_epsilon", "one number or several", listed)
    rows = []
    with progress("designing the collection", parts=len(listed)) as task:
        for budget in listed:
            answers = RandomizedAnswers(local_epsilon=budget, categories=categories)
            rows.append(
                collect(
                    answers, number, left, rounds=times, delta=limit, relative_width=relative_width
                )
            )
            task.advance()
    return CollectionDesign(number, times, answers.categories, limit, share, tuple(rows))


def collect(
    answers: RandomizedAnswers,
    users: int,
    left: int,
    *,
    rounds: int,
    delta: float,
    relative_width: float = STANDARD_WIDTH,
) -> DesignRow:
    """The row of one randomizer, for all users and for those left after drop-outs."""

    def central(reports: int) -> Bracket:
        run = ShuffledReports(users=reports, randomizer=answers.mechanism, rounds=rounds)
        return account(run, relative_width=relative_width).epsilon(delta=delta)

    alone = account(answers.mechanism * rounds, relative_width=relative_width)
    everybody = central(users)
    return DesignRow(
        answers.local_epsilon,
        everybody,
        everybody if left == users else central(left),
        alone.epsilon(delta=delta),
        2.0 * answers.standard_error(users=users),
        2.0 * answers.standard_error(users=left),
    )


def reporting(users: int, *missing: float) -> int:
    """How many honest reports are mixed in a round, rounded down, if such shares of users are missing.

    >>> reporting(1000, 0.05), reporting(1000, 0.1, 0.1)
    (950, 810)
    """
    left = math.floor(users * math.prod(1.0 - share for share in missing))
    if left < 1:
        raise InvalidArgument(f"users must leave at least one honest report; got {users}.")
    return left


def _usual_delta(users: int) -> float:
    """The largest power of ten that is at most 1e-6 and a tenth of 1 / users.

    >>> _usual_delta(1000), _usual_delta(200_000), _usual_delta(10**9)
    (1e-06, 1e-07, 1e-10)
    """
    return float(f"1e-{max(6, len(str(users - 1)) + 1)}")


def _points(error: float) -> str:
    """An error in percentage points, in two digits, rounded up.

    >>> _points(0.00243), _points(0.0149)
    ('+-0.25', '+-1.5')
    """
    return f"+-{in_digits(100.0 * error, ROUND_CEILING, 2)}"


def _plain(value: float) -> float | str:
    """A number as JSON can hold it: infinity by its name."""
    return value if math.isfinite(value) else str(value)
