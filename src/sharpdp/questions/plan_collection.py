"""Plans of a collection of vectors: `plan_collection` finds who reports, how often, and through what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sharpdp._validate import count, invalid, open_probability, positive, positive_scale
from sharpdp.bracket import Bracket
from sharpdp.display.outward_digits import ROUND_CEILING, ROUND_FLOOR, in_digits
from sharpdp.display.progress import progress
from sharpdp.display.tabular import NotedTable, Rows
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms import Gaussian, ShuffledReports
from sharpdp.mechanisms.shuffle import MOST_USERS
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import account
from sharpdp.questions.calibrate import calibrate

__all__ = ["CollectionPlan", "PlanRow", "plan_collection"]

if TYPE_CHECKING:
    from sharpdp.learn import VectorRandomizer

    Kind = type[VectorRandomizer]

SHARES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""One of this many clients reports in a round."""

MOST_ROWS = 4
"""So many of the most promising ways to report are certified, and the best one of each randomizer."""

LARGEST_TRIED = 16.0
"""Local epsilons beyond this are not where a search begins; it may end there."""


@dataclass(frozen=True)
class PlanRow:
    """One way to collect vectors that meets the target, for certain.

    Args:
        users: Clients that report in a round.
        rounds: Number of rounds.
        randomizer: What each of them runs, with its local epsilon.
        mechanism: What is accounted.
        epsilon: Epsilon of all rounds at the delta of the plan, for one client's data.
        round_error: Root mean squared error of a round's mean that the randomizer and the choice of
            clients add, at most.
        error: What the plan makes small: that of the mean for one round, otherwise the bound on the loss
            of `Convergence`.
    """

    users: int
    rounds: int
    randomizer: VectorRandomizer = field(repr=False)
    mechanism: ShuffledReports = field(repr=False)
    epsilon: Bracket
    round_error: float
    error: float

    @property
    def local_epsilon(self) -> float:
        """Budget of one report."""
        return self.randomizer.local_epsilon

    @property
    def bits(self) -> float:
        """Bits of a report."""
        return self.randomizer.bits

    @property
    def reports_per_client(self) -> float:
        """How many reports a client sends on average."""
        population = self.mechanism.population or self.users
        return self.users / population * self.rounds

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data, every digit of it.

        Returns:
            Names and numbers; both ends of epsilon.
        """
        return {
            "randomizer": type(self.randomizer).__name__,
            "local_epsilon": self.local_epsilon,
            "users": self.users,
            "rounds": self.rounds,
            "epsilon_lower": float(self.epsilon.lower),
            "epsilon_upper": float(self.epsilon.upper),
            "round_error": self.round_error,
            "error": self.error,
            "bits": self.bits,
            "reports_per_client": self.reports_per_client,
            "rigor": str(self.epsilon.rigor),
        }


@dataclass(frozen=True)
class CollectionPlan(Rows[PlanRow], NotedTable):
    """Ways to collect vectors within a budget, the best one first; made by `plan_collection`.

    Args:
        epsilon: Target epsilon.
        delta: Delta of the target.
        clients: Number of clients.
        dimension: Number of coordinates of a vector.
        radius: Largest norm of a vector.
        norm: Order of that norm.
        diameter: Diameter of the set in which parameters stay; None if one mean is asked for.
        rows: The ways, by their error.
    """

    epsilon: float
    delta: float
    clients: int
    dimension: int
    radius: float
    norm: float
    diameter: float | None
    rows: tuple[PlanRow, ...] = field(repr=False)

    _texts = 1

    @property
    def best(self) -> PlanRow:
        """The row with the least error."""
        return self.rows[0]

    def describe(self) -> str:
        """The collection, in one line.

        Returns:
            The numbers of clients and coordinates, and the target.
        """
        ball = f"l{'-infinity' if self.norm == math.inf else f'{self.norm:g}'} norm"
        return (
            f"{self.clients:,} clients, vectors of {self.dimension:,} numbers with {ball} at most "
            f"{self.radius:g}; epsilon at most {self.epsilon:g} at delta={self.delta:g}, replace-one"
        )

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the table."""
        errors = ("error",) if self.diameter is None else ("round error", "loss")
        return (
            *("randomizer", "local epsilon", "users", "rounds", "epsilon"),
            *(*errors, "bits", "reports each"),
        )

    def cells(self) -> list[tuple[str, ...]]:
        """The rows in few digits, rounded outwards.

        Returns:
            For each row a text per heading.
        """
        return [
            (
                type(row.randomizer).__name__,
                # typed again, a budget that was rounded up would exceed the target
                in_digits(row.local_epsilon, ROUND_FLOOR, 4),
                f"{row.users:,}",
                f"{row.rounds:,}",
                in_digits(float(row.epsilon), ROUND_CEILING),
                *(in_digits(error, ROUND_CEILING, 3) for error in self._errors(row)),
                f"{math.ceil(row.bits):,}",
                in_digits(row.reports_per_client, ROUND_CEILING, 3),
            )
            for row in self.rows
        ]

    def _errors(self, row: PlanRow) -> tuple[float, ...]:
        """The errors to show: that of one round before that of all."""
        return (row.error,) if self.diameter is None else (row.round_error, row.error)

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Meanings of the columns, and conditions: a label and a sentence each."""
        mean = "root mean squared error (l2 norm) of the estimated mean of all clients"
        errors = (
            (("error", f"{mean}, at most."),)
            if self.diameter is None
            else (
                ("round error", f"{mean} in one round, at most."),
                (
                    "loss",
                    "expected loss of CLDP-SGD after all rounds above the least one, at most, for convex "
                    f"losses in a set of diameter {self.diameter:g} and the learning rates of "
                    "`Convergence`. It says which plan is better; what is reached is mostly less.",
                ),
            )
        )
        return (
            (
                "epsilon",
                "certified upper bounds for replacing all data of one client, all rounds counted.",
            ),
            *errors,
            ("bits", "of one report, as `encoded` sends it."),
            (
                "you must ensure",
                "users of a round are drawn at random and only the shuffler knows whom, every report "
                "uses fresh randomness, and nothing but the shuffled reports is seen.",
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data.

        Returns:
            What was asked, and the rows with every digit.
        """
        norm: float | str = "inf" if self.norm == math.inf else self.norm
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "clients": self.clients,
            "dimension": self.dimension,
            "radius": self.radius,
            "norm": norm,
            "diameter": self.diameter,
            "rows": [row.to_dict() for row in self.rows],
        }

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The rows as dictionaries.

        Args:
            **asked: Nothing more is asked.

        Returns:
            For each row its randomizer, users, rounds, both ends of epsilon, errors and bits.
        """
        return [row.to_dict() for row in self.rows]


@dataclass(frozen=True)
class Task:
    """A collection to be planned: all arguments but the target."""

    clients: int
    dimension: int
    radius: float
    norm: float
    rounds: int
    reports_per_client: float
    diameter: float | None
    bits: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The randomizers of such vectors."""
        from sharpdp.learn import (
            CompressedPrivUnit,
            CoordinateSigns,
            HadamardSigns,
            LatticeLaplace,
            PrivUnitBall,
        )

        if self.dimension == 1:
            return (CoordinateSigns,)
        if self.norm == 1.0:
            return (PrivUnitBall, HadamardSigns, LatticeLaplace)
        if self.norm == math.inf:
            return (PrivUnitBall, CoordinateSigns)
        return (PrivUnitBall, CompressedPrivUnit) if self.norm == 2.0 else (PrivUnitBall,)

    def randomizer(self, kind: Kind, local_epsilon: float) -> VectorRandomizer:
        """The randomizer of this kind at this budget."""
        from sharpdp.learn import PrivUnitBall

        also: dict[str, Any] = {"norm": self.norm} if kind is PrivUnitBall else {}
        return kind(
            dimension=self.dimension, local_epsilon=local_epsilon, radius=self.radius, **also
        )

    def turns(self) -> Iterator[tuple[int, int]]:
        """Users of a round, and rounds, with no more reports per client than allowed."""
        for rounds in _steps_up_to(self.rounds):
            for users in sorted({max(self.clients // share, 1) for share in SHARES}, reverse=True):
                if users * rounds <= self.reports_per_client * self.clients * (1.0 + 1e-12):
                    yield users, rounds

    def mechanism(self, randomizer: VectorRandomizer, users: int, rounds: int) -> ShuffledReports:
        """The reports of all rounds; of more than one as `CLDPSGD` accounts them."""
        everybody = users == self.clients and self.diameter is None
        population = None if everybody else self.clients
        return randomizer.shuffled(users=users, population=population, rounds=rounds)

    def round_error(self, randomizer: VectorRandomizer, users: int) -> float:
        """Root mean squared error of the mean over the clients, from the reports of some of them.

        V / k + C^2 (n - k) / (k (n - 1)): the second term is the variance of the mean of k of n vectors,
        drawn without replacement, of which none is longer than C.
        """
        others = max(self.clients - 1, 1)
        drawn = self.reach**2 * (self.clients - users) / (users * others)
        return math.sqrt(randomizer.largest_variance / users + drawn)

    @property
    def reach(self) -> float:
        """The largest l2 norm of a vector."""
        stretch: float = self.dimension ** max(0.0, 0.5 - 1.0 / self.norm)
        return self.radius * stretch

    def error(self, randomizer: VectorRandomizer, users: int, rounds: int) -> float:
        """The error that the plan makes small."""
        if self.diameter is None:
            return self.round_error(randomizer, users)
        from sharpdp.learn import CLDPSGD

        run = CLDPSGD(randomizer=randomizer, users=users, population=self.clients, rounds=rounds)
        return run.convergence(diameter=self.diameter).excess_loss


@underflow_is_zero
def plan_collection(
    *,
    epsilon: float,
    delta: float,
    clients: int,
    dimension: int,
    radius: float = 1.0,
    norm: float = 2.0,
    rounds: int = 1,
    reports_per_client: float | None = None,
    diameter: float | None = None,
    bits: float | None = None,
) -> CollectionPlan:
    """Who reports, how often, and through which randomizer: the least error within a central budget.

    With one round the mean of the clients' vectors is asked for, and its error is what counts. With
    more, the vectors are gradients of CLDP-SGD, and the bound on its loss counts (`Convergence`), in
    which noise, number of clients and rounds meet.

    Ways to report (one of 1, 2, 5, ... clients in a round; 1, 2, 5, ... rounds) are compared by a
    limit formula. For the best ones the largest local epsilon is found that certainly meets the target,
    and these are the rows. So every row is certified; that no other way is better is not.

    Args:
        epsilon: Target: epsilon of all rounds for replacing one client's data, greater than 0.
        delta: Delta of the target, in (0, 1).
        clients: Number of clients, at least 2.
        dimension: Number of coordinates of a vector, from 1 to 10^8.
        radius: Largest norm of a vector.
        norm: Order of that norm, from 1 to math.inf.
        rounds: The most rounds; 1 for one mean.
        reports_per_client: The most reports that a client may send on average, greater than 0; None for
            no limit but the rounds.
        diameter: Diameter of the set in which the parameters stay, for more than one round; None for 1.
        bits: The most bits that a report may take; None for no limit.

    Returns:
        The plan: print it, take its `best` row, or read its `rows`.

    Raises:
        InvalidArgument: An argument is out of range, or no way is left that meets the target.
        WrongType: An argument is no number.
        NotCertified: Double precision is not enough for a bound.

    >>> plan = plan_collection(epsilon=1.0, delta=1e-6, clients=10_000, dimension=100)
    >>> best = plan.best
    >>> type(best.randomizer).__name__, best.users, round(best.local_epsilon, 2)
    ('PrivUnitBall', 10000, 5.65)
    >>> print(f"error at most {best.error:.3f}, {best.bits:.0f} bits")
    error at most 0.049, 1400 bits
    """
    task = _task(clients, dimension, radius, norm, rounds, reports_per_client, diameter, bits)
    goal, limit = positive(epsilon=epsilon), open_probability(delta=delta)
    chosen = _promising(task, goal, limit)
    rows = []
    with progress("planning the collection", parts=len(chosen)) as shown:
        for kind, users, turns in chosen:
            row = _certified(task, kind, users, turns, epsilon=goal, delta=limit)
            if row is not None and row.bits <= task.bits:
                rows.append(row)
            shown.advance()
    if not rows:
        raise InvalidArgument(
            f"epsilon must be one that some local epsilon from 1e-06 to 30 just meets; got {epsilon}. "
            "Raise it, or delta, or ask more clients; if it is very large, no randomizer is needed."
        )
    return CollectionPlan(
        *(goal, limit, task.clients, task.dimension, task.radius, task.norm, task.diameter),
        tuple(sorted(rows, key=lambda row: row.error)),
    )


def _task(
    clients: object,
    dimension: object,
    radius: object,
    norm: object,
    rounds: object,
    reports_per_client: object,
    diameter: object,
    bits: object,
) -> Task:
    """The checked arguments."""
    from sharpdp.learn.randomizers.validation import checked_norm, dimensions

    number = count(clients=clients, least=2, hint="It counts the clients that may report.")
    if number > MOST_USERS:
        raise invalid("clients", "at most 10^12", number)
    turns = count(rounds=rounds, hint="It is the largest number of rounds.")
    if turns == 1 and diameter is not None:
        hint = "One round estimates one mean; the diameter is that of a model's parameters."
        raise invalid("diameter", "None for one round", diameter, hint)
    width = 1.0 if turns > 1 and diameter is None else diameter
    each = float(turns) if reports_per_client is None else reports_per_client
    most = math.inf if bits is None else positive(bits=bits)
    task = Task(
        number,
        dimensions(dimension),
        positive_scale(radius=radius, hint="It is the largest norm; vectors are clipped to it."),
        checked_norm(norm),
        turns,
        positive(reports_per_client=each, hint="It is an average over the clients."),
        None if width is None else positive(diameter=width),
        most,
    )
    if not any(True for _ in task.turns()):
        fewest = max(number // SHARES[-1], 1) / number
        hint = f"One of {SHARES[-1]} clients in one round is the least."
        raise invalid("reports_per_client", f"at least {fewest:g}", each, hint)
    return task


def _promising(task: Task, epsilon: float, delta: float) -> list[tuple[Kind, int, int]]:
    """The ways to report that are worth a certificate: the best few, and one for each randomizer.

    A formula for many users stands for the accounting: n^2 mu^2 = 2 (E - 1)^2 k T / (E + 1), mu that of
    the Gaussian mechanism with the same target. It decides what is tried, and nothing else.
    """
    mu = 1.0 / calibrate(lambda z: Gaussian(noise_multiplier=z), epsilon=epsilon, delta=delta)
    ranked: list[tuple[float, int, Kind, int, int]] = []
    for users, rounds in task.turns():
        half = 0.5 * (mu * task.clients) ** 2 / (users * rounds)
        odds = 0.5 * (half + math.sqrt(half * half + 8.0 * half))
        guess = min(max(math.log1p(odds), 1e-6), LARGEST_TRIED)
        for kind in task.kinds:
            randomizer = task.randomizer(kind, guess)
            if randomizer.bits <= task.bits:
                error = task.error(randomizer, users, rounds)
                ranked.append((error, len(ranked), kind, users, rounds))
    if not ranked:
        least = min(task.randomizer(kind, 1.0).bits for kind in task.kinds)
        raise invalid(
            "bits",
            f"at least {math.ceil(least)} for such vectors",
            task.bits,
            "It counts them all.",
        )
    ways = [(kind, users, rounds) for _, _, kind, users, rounds in sorted(ranked)]
    best = [way for way in ways if way[0] is ways[0][0]][:MOST_ROWS]
    others = {kind: way for way in reversed(ways) if (kind := way[0]) is not ways[0][0]}
    return [*best, *others.values()]


def _certified(
    task: Task, kind: Kind, users: int, rounds: int, *, epsilon: float, delta: float
) -> PlanRow | None:
    """The row with the largest local epsilon that meets the target; None if none just meets it."""

    def mechanism(local_epsilon: float) -> ShuffledReports:
        return task.mechanism(task.randomizer(kind, local_epsilon), users, rounds)

    try:
        budget = calibrate(
            mechanism, epsilon=epsilon, delta=delta, relative_error=1e-3, whole=False
        )
    except InvalidArgument:  # every local epsilon meets the target, or none
        return None
    randomizer = task.randomizer(kind, float(budget))
    run = task.mechanism(randomizer, users, rounds)
    answer = account(run).epsilon(delta=delta)
    if not answer.upper <= epsilon:
        return None
    round_error, error = task.round_error(randomizer, users), task.error(randomizer, users, rounds)
    return PlanRow(users, rounds, randomizer, run, answer, round_error, error)


def _steps_up_to(most: int) -> list[int]:
    """1, 2, 5, 10, ... and the most itself.

    >>> _steps_up_to(30)
    [1, 2, 5, 10, 20, 30]
    """
    steps = [digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5)]
    return [*(step for step in steps if step < most), most]
