"""The loop of rounds under runs of clients and of blocks: begun, counted, kept on disk, within a budget.

A round is counted, on disk too, before it draws what it releases. One that was begun but not finished is
given up, never repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from os import PathLike
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from sharpdp._validate import HintedKeywords, count, flag
from sharpdp.budget import Budget, Ledger, counted_rounds
from sharpdp.display.progress import progress
from sharpdp.errors import InvalidArgument
from sharpdp.learn.budget import check_left
from sharpdp.learn.gradient_function import Gradients, checked_gradients, gradients_for
from sharpdp.learn.journal import Journal
from sharpdp.learn.randomizers.validation import vector_of
from sharpdp.mechanisms import Mechanism
from sharpdp.questions.account import Guarantee, account
from sharpdp.randomness.given_secret import SEEDED
from sharpdp.randomness.system_stream import Floats, Randomness, system_stream_for

__all__ = ["RoundLoop"]

Accounted = TypeVar("Accounted", bound=Mechanism)
Accounts = TypeVar("Accounts", bound=Mechanism, covariant=True)


class RoundPlan(Protocol[Accounts]):
    """A plan whose first rounds are a mechanism."""

    def begun(self, rounds: int, /) -> Accounts:
        """The mechanism of the first rounds."""

    def describe(self) -> str:
        """What a resumed run must share, without the number of rounds."""


class RoundLoop(HintedKeywords, Generic[Accounted]):
    """A run that counts its rounds in a `Journal` and stops where the plan or a budget ends.

    A subclass runs one round between `_check_left` and `_finish`, holding `_turn`, and calls
    ``_journal.begin()`` before it draws what the round releases.
    """

    plan: RoundPlan[Accounted]
    parameters: Floats
    finished: int
    _unit: str
    """What a round is called, and the argument of `run` that counts them."""
    _work: str
    """What is run, in words."""
    _counted: int | None = None

    def _set(
        self,
        plan: RoundPlan[Accounted],
        most: int,
        dimension: int,
        gradients: Gradients,
        start: Floats | None,
        *,
        path: str | PathLike[str] | None,
        every: int = 1,
        rng: Randomness,
        strict: bool,
    ) -> None:
        """A new run from ``start``, or the one at the path as it was left if that is None."""
        self.plan, self._most, self._gradients = plan, most, checked_gradients(gradients)
        self._strict, self._turn = flag(strict=strict), threading.Lock()
        hint = "It counts the rounds between two kept copies of the parameters."
        self._every = count(every=every, hint=hint)
        # one generator for all rounds, so that they draw on and do not repeat each other
        self._source = system_stream_for(rng)
        self._journal = Journal(path, plan.describe(), seeded=rng is not None)
        if start is None:
            self.finished, stored = self._journal.restore()
            self.parameters = vector_of(stored, dimension)
        else:
            self._journal.create(start)
            self.finished, self.parameters = 0, start

    def __repr__(self) -> str:
        """Number of rounds begun and the plan; nothing of the data, the seed or the parameters."""
        begun = f"{self.begun} of {self._most} {self._unit}"
        return f"<{type(self).__name__}: {begun} of {self.plan.describe()}>"

    @property
    def begun(self) -> int:
        """Number of rounds begun, which is what is accounted."""
        return self._journal.begun

    @property
    def left(self) -> int:
        """Number of rounds left, of the plan and of the budget of `run`."""
        allowed = self._most if self._counted is None else self._counted
        return max(allowed - self.begun, 0)

    @property
    def mechanism(self) -> Accounted:
        """The mechanism of the rounds that were begun."""
        if self.begun == 0:
            raise InvalidArgument(
                f"no {self._unit[:-1]} was started yet, so nothing about the data was released."
            )
        return self.plan.begun(self.begun)

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of what was run.

        It holds for a number of rounds that was fixed in advance, a budget included. If results decide
        when to stop, take that of the whole plan, or `sharpdp.budget.ex_post_epsilon` of ``plan.begun``.
        """
        return account(self.mechanism).provided(*([SEEDED] if self._journal.seeded else []))

    def close(self) -> None:
        """Let another process continue the run at its path; a finished run does so automatically."""
        self._journal.close()

    def _check_left(self) -> None:
        """Refuse a round that the budget or the plan does not have."""
        check_left(self.begun, self._most, self._counted, self._unit)

    def _rows(self, numbers: NDArray[Any], what: str) -> NDArray[Any]:
        """The gradients of some clients or records at the parameters as they are, checked."""
        return gradients_for(self._gradients, self.parameters, numbers, what, strict=self._strict)

    def _finish(self) -> None:
        """Keep the parameters after a round; after the last one, let go of the path."""
        self.finished += 1
        if self.finished % self._every == 0 or not self.left:
            self._journal.store(self.finished, self.parameters)
        if not self.left:
            self.close()

    def _run(
        self,
        round_: Callable[[], object],
        asked: int | None,
        budget: Budget | Ledger | None,
        budget_key: str | None,
    ) -> None:
        """Run so many rounds, or all that are left, once a budget has counted what it allows."""
        todo = self.left if asked is None else count(least=0, hint="", **{self._unit: asked})
        if budget is not None:
            allowed = counted_rounds(
                budget,
                self.plan.begun,
                self._most,
                note=self._work,
                key=budget_key,
                run=self._journal.run.encode(),
                done=self.begun,
            )
            # of several budgets, the one that allows the fewest rounds decides
            self._counted = allowed if self._counted is None else min(allowed, self._counted)
        todo = min(todo, self.left)
        with progress(f"running {self._work}") as task:
            for done in range(todo):
                round_()
                task.reach(done + 1, todo)
