"""CLDP-SGD: in each round some of all clients report their clipped gradients through a randomizer.

`CLDPSGD` is the plan, frozen data. `ClientRun` runs it, and is accounted by the rounds it began: the
reports of a round that was cut short may have been seen, so the round counts, and is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import HintedKeywords, positive, short_repr
from sharpdp.batches import FixedSizeBatches
from sharpdp.budget import Budget, Ledger
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.budget import affordable
from sharpdp.learn.convergence import ROUNDING, Convergence
from sharpdp.learn.gradient_function import Gradients
from sharpdp.learn.randomizers import PrivUnit, VectorRandomizer, clipped
from sharpdp.learn.randomizers.validation import blocks, vector_of
from sharpdp.learn.round_loop import RoundLoop
from sharpdp.mechanisms import ShuffledReports
from sharpdp.randomness.system_stream import Floats, Randomness, SystemStream
from sharpdp.storage.run_lock import path_of

__all__ = ["CLDPSGD", "ClientRun"]

Schedule: TypeAlias = Callable[[int], float]
"""The learning rate of a round, as a function of its number from 0 on."""

Projection: TypeAlias = Callable[[Floats], ArrayLike]
"""The nearest point of the set in which the parameters are to stay."""


@dataclass(frozen=True, kw_only=True)
class CLDPSGD(HintedKeywords):
    """The plan: ``users`` of ``population`` clients in each of ``rounds`` rounds, through one randomizer.

        gradients are clipped to the randomizer's norm and radius, randomized by each client, shuffled,
        averaged:   parameters <- projection(parameters - learning_rate(round) mean of estimates)

    A client is protected as a whole: neighbors differ in one client's data. Source: girgis2021
    Algorithm 1.

    Args:
        randomizer: Randomizer of vectors that each client uses; any but `PrivUnit`, which takes unit
            vectors only.
        users: Clients that report in a round, from 1 to population.
        population: Number of clients.
        rounds: Rounds, at least 1.
        learning_rate: Step size, greater than 0, or a function of the round's number, from 0 on.
        projection: Function that returns the nearest point of the set in which the parameters are to
            stay; None for no such set.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> from sharpdp.learn import PrivUnitBall
    >>> ball = PrivUnitBall(dimension=10, local_epsilon=2.0, radius=0.01)
    >>> plan = CLDPSGD(randomizer=ball, users=20, population=600, rounds=300)
    >>> plan.mechanism == ball.shuffled(users=20, population=600, rounds=300)
    True
    """

    randomizer: VectorRandomizer
    users: int
    population: int
    rounds: int
    learning_rate: float | Schedule = 0.1
    projection: Projection | None = None

    def __post_init__(self) -> None:
        """Check all fields."""
        if not isinstance(self.randomizer, VectorRandomizer):
            raise WrongType(
                f"randomizer must be one of vectors; got {short_repr(self.randomizer)}. "
                "Try PrivUnitBall(dimension=..., local_epsilon=..., radius=...)."
            )
        if isinstance(self.randomizer, PrivUnit):
            raise InvalidArgument(
                "randomizer must take vectors of any length up to its radius; got PrivUnit, which takes "
                "unit vectors only. Use PrivUnitBall."
            )
        accounted = self.mechanism
        object.__setattr__(self, "users", accounted.users)
        object.__setattr__(self, "population", accounted.population)
        object.__setattr__(self, "rounds", accounted.rounds)
        if not callable(self.learning_rate):
            rate = positive(
                learning_rate=self.learning_rate, hint="It may be a function of the round."
            )
            object.__setattr__(self, "learning_rate", rate)
        if self.projection is not None and not callable(self.projection):
            raise WrongType(
                f"projection must be a function or None; got {short_repr(self.projection)}."
            )

    @property
    def mechanism(self) -> ShuffledReports:
        """The mechanism of all rounds."""
        return self.begun(self.rounds)

    def begun(self, rounds: int) -> ShuffledReports:
        """The mechanism of the first ``rounds`` rounds.

        Args:
            rounds: How many, at least 1.

        Returns:
            The mechanism, to be accounted.

        Raises:
            InvalidArgument: rounds is out of range.
            WrongType: rounds is no number.
        """
        return self.randomizer.shuffled(users=self.users, population=self.population, rounds=rounds)

    def affordable(self, *, epsilon: float, delta: float) -> int:
        """The most rounds after which the run is certainly (epsilon, delta)-DP, at most all of them.

        Args:
            epsilon: Budget, at least 0.
            delta: Delta of the budget, in (0, 1).

        Returns:
            A number of rounds, 0 if not even one is within the budget.

        Raises:
            InvalidArgument: An argument is out of range.
            WrongType: An argument is no number.
            NotCertified: Double precision is not enough for a bound.
        """
        return affordable(self.begun, self.rounds, epsilon=epsilon, delta=delta)

    def convergence(self, *, diameter: float) -> Convergence:
        """How near the loss comes to the best one, and the learning rates with which it does.

        Holds for convex losses with gradients that are not clipped, and a projection onto a convex set:
        `Convergence` has all conditions.

        Args:
            diameter: Largest distance of two points of the set onto which ``projection`` maps, greater
                than 0.

        Returns:
            The second moment of a round, the learning rates, and the bound on the loss after all rounds.

        Raises:
            InvalidArgument: diameter is out of range.
            WrongType: diameter is no number.

        >>> from sharpdp.learn import HadamardSigns
        >>> signs = HadamardSigns(dimension=16, local_epsilon=2.0, radius=0.1)
        >>> plan = CLDPSGD(randomizer=signs, users=2000, population=60_000, rounds=1500)
        >>> reached = plan.convergence(diameter=2.0)
        >>> print(f"G = {reached.second_moment**0.5:.4f}, loss within {reached.excess_loss:.3f}")
        G = 0.1007, loss within 0.097
        """
        randomizer = self.randomizer
        # the l2 norm of a vector is at most this often its l_p norm
        longer = randomizer.dimension ** max(0.0, 0.5 - 1.0 / randomizer.norm)
        square = (longer * randomizer.radius) ** 2 + randomizer.largest_variance / self.users
        return Convergence(
            second_moment=square * (1.0 + ROUNDING), diameter=diameter, rounds=self.rounds
        )

    def rate(self, step: int) -> float:
        """The learning rate of a round, a finite positive number.

        Args:
            step: Number of the round, from 0 on.

        Returns:
            The learning rate.

        Raises:
            InvalidArgument: The function that was given returns a number that is not positive and finite.
            WrongType: It returns no number.
        """
        rate = self.learning_rate
        return positive(learning_rate=rate(step)) if callable(rate) else rate

    def describe(self) -> str:
        """Description of what a resumed run must share: who reports, and how.

        Returns:
            One line, without the number of rounds.
        """
        return f"{self.users} of {self.population} clients through {self.randomizer!r}"


class ClientRun(RoundLoop[ShuffledReports]):
    """One run of a plan: ``step`` runs a round, ``run`` all that are left; ``mechanism`` is what was run.

    All randomness (who reports, the reports, their order) comes afresh from the operating system unless
    a generator is passed. With a ``path`` the run can be resumed after a crash at any moment: a round
    counts from the moment before its first report is drawn, and a round that was begun but not finished
    is given up, never repeated. So a resumed run costs what an uninterrupted one costs. Parameters are
    kept after every ``every`` rounds; the rounds since then are given up as well.

    While this object exists, other processes are refused at the same path (see `close`). A round is
    refused, before a report is drawn, if the files are not as this object left them. A copy of the files
    that is resumed too is a run of its own, and must be added.

    A client whose gradient is not finite counts as zero. With ``strict=True`` it stops the run instead,
    which tells whoever learns of it that such a client took part: no privacy guarantee covers that. An
    error that ``gradients`` raises itself stops the run in any case, so it must not depend on what
    clients hold.

    Args:
        plan: What to run.
        gradients: Function of the parameters and an array of client numbers that returns one gradient per
            client, a row each. It must not fail because of what clients hold.
        parameters: Start, one finite number per coordinate of the randomizer.
        path: File for resuming after a crash, not taken by another run; its folder must exist. None keeps
            the run in memory only.
        every: Rounds after which parameters are kept, at least 1.
        rng: None for the operating system's randomness, which privacy needs; a numpy Generator or a seed
            in tests, which `guarantee` then names among its conditions.
        strict: True to stop at a gradient that is not finite, instead of taking it for zero.

    Raises:
        InvalidArgument: parameters have the wrong shape or are not finite, every is out of range, or the
            path is taken.
        WrongType: An argument has the wrong type.

    >>> from sharpdp.learn import PrivUnitBall
    >>> ball = PrivUnitBall(dimension=2, local_epsilon=1.0)
    >>> plan = CLDPSGD(randomizer=ball, users=5, population=50, rounds=3)
    >>> targets = np.ones((50, 2))
    >>> run = ClientRun(plan, lambda theta, clients: theta - targets[clients], np.zeros(2))
    >>> run.run(1)  # doctest: +ELLIPSIS
    <ClientRun: 1 of 3 rounds of 5 of 50 clients through PrivUnitBall(...)>
    >>> run.run().mechanism.rounds
    3
    """

    plan: CLDPSGD
    _unit, _work = "rounds", "rounds of clients"

    def __init__(
        self,
        plan: CLDPSGD,
        gradients: Gradients,
        parameters: ArrayLike,
        *,
        path: str | PathLike[str] | None = None,
        every: int = 1,
        rng: Randomness = None,
        strict: bool = False,
    ) -> None:
        """Check that everything fits together; no client is asked yet."""
        sizes = _checked(plan).rounds, plan.randomizer.dimension
        start = vector_of(parameters, sizes[1])
        self._set(plan, *sizes, gradients, start, path=path, every=every, rng=rng, strict=strict)

    @classmethod
    def resumed(
        cls,
        plan: CLDPSGD,
        gradients: Gradients,
        *,
        path: str | PathLike[str],
        every: int = 1,
        rng: Randomness = None,
        strict: bool = False,
    ) -> ClientRun:
        """The run at this path as it was left.

        Args:
            plan: The plan of that run, maybe with more rounds.
            gradients: Function of the parameters and an array of client numbers that returns one gradient
                per client, a row each. It must not fail because of what clients hold.
            path: File of the run.
            every: Rounds after which parameters are kept, at least 1.
            rng: None for the operating system's randomness, which privacy needs; a numpy Generator or a
                seed in tests.
            strict: True to stop at a gradient that is not finite, instead of taking it for zero.

        Returns:
            The run, with the parameters that were kept last.

        Raises:
            InvalidArgument: There is no run of this plan at the path, another process has it, or every is
                out of range.
            WrongType: An argument has the wrong type.
        """
        run, path = cls.__new__(cls), path_of(path=path)
        sizes = _checked(plan).rounds, plan.randomizer.dimension
        run._set(plan, *sizes, gradients, None, path=path, every=every, rng=rng, strict=strict)
        return run

    def step(self) -> NDArray[Any]:
        """Run one round.

        Gradients are asked for before the round begins: if that fails, no report is drawn and nothing is
        counted.

        Returns:
            The shuffled reports, which is all that the server sees of the clients.

        Raises:
            BudgetExceeded: The budget of `run` allows no more rounds.
            InvalidArgument: All rounds were begun, the files are not as this object left them, or
                gradients have the wrong shape or, if strict, are not finite.
            WrongType: gradients returns no array of numbers.
        """
        seen: list[NDArray[Any]] = []
        self._round(seen.append)
        return np.concatenate(seen)

    def _round(self, seen: Callable[[NDArray[Any]], object]) -> None:
        """Run one round; ``seen`` is called with the reports of some clients after the others'."""
        with self._turn:  # of several threads
            self._check_left()
            randomizer = self.plan.randomizer
            users = reporting(self.plan, self._source)
            rows = self._rows(users, "clients")
            rate = self.plan.rate(self.begun)
            self._journal.begin()
            total = np.zeros(randomizer.dimension)
            # all at once may not fit into memory
            for block in blocks(len(rows), rows.shape[1], 2**21):
                held = clipped(rows[block], radius=randomizer.radius, norm=randomizer.norm)
                reports = randomizer.reports(held, rng=self._source.generator)
                seen(reports)
                total += randomizer.estimates(reports).sum(axis=0)
            moved = self.parameters - rate / len(users) * total
            self.parameters = projected(self.plan, moved)
            self._finish()

    def run(
        self,
        rounds: int | None = None,
        *,
        budget: Budget | Ledger | None = None,
        budget_key: str | None = None,
    ) -> ClientRun:
        """Run some rounds, or all that are left, or as many as a budget allows.

        Args:
            rounds: How many, at least 0, but no more than are left; None for all that are left.
            budget: A `Budget` or `Ledger` that several runs share. As many rounds as it allows are
                counted in it before the first one is run, and no more are run, now or later; None for
                none.
            budget_key: Name of this run in a ledger; one resumed from its file is then not counted twice,
                and a new one is refused under this name.

        Returns:
            The run itself.

        Raises:
            InvalidArgument: rounds is out of range, or a round fails, see `step`.
            WrongType: rounds is no number, or a round fails.
            BudgetExceeded: The budget does not allow a single round; none was run.
        """
        self._run(partial(self._round, _unseen), rounds, budget, budget_key)
        return self


def _unseen(reports: NDArray[Any]) -> None:
    """What nobody asked to see."""


def _checked(plan: object) -> CLDPSGD:
    if isinstance(plan, CLDPSGD):
        return plan
    raise WrongType(f"plan must be a CLDPSGD; got {short_repr(plan)}.")


def reporting(plan: CLDPSGD, source: SystemStream) -> NDArray[np.int64]:
    """The clients of one round in a random order: reports that are drawn in it are mixed reports.

    Rounds are drawn independently of each other, with a fresh key each.
    """
    scheme = FixedSizeBatches(dataset_size=plan.population, batch_size=plan.users, steps=1)
    drawn = next(scheme.batches(source.generator))
    return drawn[source.order(len(drawn))]


def projected(plan: CLDPSGD, moved: Floats) -> Floats:
    """The parameters after a round: the nearest point of the plan's set, if it has one."""
    project = plan.projection
    return vector_of(moved if project is None else project(moved), plan.randomizer.dimension)
