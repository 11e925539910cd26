"""The loop of steps under every run of DP-SGD: which step comes next, its noise, its count, its budget.

A step is one release. It is counted before its release leaves the loop, and its noise is a function of
the key, the step, the sum, and everything else that makes the release what it is. `StepLoop` is under
runs that add noise here; `CountedSteps` alone is under those whose noise a framework adds.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor

from sharpdp._validate import (
    HintedKeywords,
    count,
    elementwise,
    invalid,
    open_probability,
    short_repr,
)
from sharpdp.bracket import Bracket
from sharpdp.budget import Budget, Ledger, counted_rounds
from sharpdp.budget.spending import begins_anew
from sharpdp.errors import InvalidArgument, SharpDPError, WrongType
from sharpdp.learn.budget import check_left
from sharpdp.learn.checkpoint import fingerprint
from sharpdp.learn.correlated_step_noise import CorrelatedStepNoise, NoiseMemory
from sharpdp.learn.gaussian_noise import StepNoise, secret
from sharpdp.learn.gradients import ClippedGradients
from sharpdp.learn.ranks import Ranks
from sharpdp.mechanisms import DPSGD, Adjacency, Mechanism
from sharpdp.mechanisms.correlated_noise import CorrelatedNoise
from sharpdp.mechanisms.training import BatchQueries, check_trains
from sharpdp.questions.account import Guarantee, account

__all__ = ["AccountedRun", "CountedSteps", "StepLoop", "checked_begun", "checked_plan"]

Plan = TypeVar("Plan", bound=BatchQueries[Any])


class AccountedRun(ABC):
    """A run whose privacy so far is known."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The privacy of what was run so far."""

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket for epsilon of what was run so far, the number of steps being fixed in advance.

        If results decide when to stop, see `guarantee`.

        Args:
            delta: Delta, in (0, 1); one number or an array.

        Returns:
            The bracket.

        Raises:
            InvalidArgument: delta is out of range, or no step was taken yet.
            WrongType: delta is no number or array of numbers.
        """
        elementwise(open_probability, delta=delta)
        return self.guarantee.epsilon(delta=delta)


class CountedSteps(AccountedRun, Generic[Plan]):
    """A run of a plan whose steps are counted, and may be counted in a budget before they are taken."""

    adjacency: Adjacency = Adjacency.ZERO_OUT
    _note = "training run"
    _counted: int | None = None
    _counted_as: int | None = None
    """The release as which a ledger had counted this run before it was made; None if none had."""
    _ledgers: frozenset[Path] = frozenset()
    """The files of the ledgers in which this run was counted since it was made."""
    _is_resumed = False

    @abstractmethod
    def _planned(self) -> Plan:
        """The whole plan."""

    @abstractmethod
    def _told(self) -> tuple[bytes, bytes | None, int]:
        """What a ledger knows the run by, the key of its batches, and how many steps were taken."""

    @abstractmethod
    def _accounted(self) -> Mechanism:
        """What was run so far: at least one step, or an error."""

    @abstractmethod
    def _conditions(self) -> Iterable[str]:
        """What must be true of the run, besides the conditions of theorems."""

    def _stop(self) -> None:
        """End batches where the budget ends."""

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of the steps that were begun so far, at least one.

        Its `holds_when` says what cannot be seen from here. It holds for a number of steps that was fixed
        in advance, a budget included. If results decide when to stop, take that of the whole plan, or
        `sharpdp.budget.ex_post_epsilon`.
        """
        answer = account(self._accounted(), adjacency=self.adjacency)
        return answer.provided(*self._conditions())

    def count_in(
        self, budget: Budget | Ledger, *, key: str | None = None, group_size: int | None = None
    ) -> int:
        """Count as many steps of the plan as a budget allows, and stop there.

        Batches that sharpdp draws then end after these steps. If others draw them, the step after the
        last one raises `BudgetExceeded` before the model moves. Of several budgets, the one that allows
        the fewest steps decides.

        Args:
            budget: A `Budget` or `Ledger` that several runs share; the steps are counted in it now.
            key: Name of this run in a ledger, so that a resumed run is not counted twice. Load what was
                saved of the run first.
            group_size: How many records one protected unit, such as a user, has in the data; None for
                that of the budget.

        Returns:
            The number of steps that were counted.

        Raises:
            BudgetExceeded: The budget does not allow a single step.
            InvalidArgument: Steps were taken before without a key, or the plan does not say the noise.
            WrongType: budget is neither of these.
        """
        plan = self._planned()
        run, batches, done = self._told()
        file = budget.path.resolve() if isinstance(budget, Ledger) else None

        def counted() -> tuple[int, int | None]:
            before = None
            # another ledger may have counted this run before it was made, whatever was counted since
            if isinstance(budget, Ledger) and not self._is_resumed and file not in self._ledgers:
                before = budget.counted(key=key, run=run, by_name=done > 0)
            rounds = counted_rounds(
                budget,
                plan.stopped_after,
                plan.batches.steps,
                note=self._note,
                key=key,
                run=run,
                batches=batches,
                group_size=group_size,
                done=done,
            )
            return rounds, None if before is None else before.number

        rounds, before = Ranks.of_process().from_first(counted)
        self._counted = rounds if self._counted is None else min(rounds, self._counted)
        self._counted_as = self._counted_as if before is None else before
        self._ledgers |= set() if file is None else {file}
        self._stop()
        return rounds

    def _check_resumed(self) -> None:
        """Refuse a run that a ledger had counted, and that begins again from the start."""
        if self._counted_as is not None and not self._is_resumed:
            raise InvalidArgument(f"{begins_anew(self._counted_as)} Nothing was released.")


class StepLoop(HintedKeywords, CountedSteps[Plan]):
    """A run that adds the noise itself, alone or as one of several ranks with the same key and sums."""

    ranks: Ranks
    key: bytes
    step: int
    gradients: ClippedGradients
    _most: int
    """Number of steps of the plan."""
    _noise: StepNoise | CorrelatedStepNoise
    _begun = 0

    def __repr__(self) -> str:
        """Number of steps run and the plan; nothing of the key, the data or the model."""
        steps = f"{self.step} of {self._most} steps"
        return f"<{type(self).__name__}: {steps} of {self._planned().describe()}>"

    @property
    def begun(self) -> int:
        """Number of steps that may have been released, which is what is accounted.

        These are the steps that were run. They are more after the process that ran them was killed: all
        that it may have run since it was last saved; and if a step failed here after other ranks may
        have finished it.
        """
        return max(self.step, self._begun)

    @property
    def taken(self) -> Plan:
        """The plan up to the steps that were begun, at least one."""
        if self.begun == 0:
            raise InvalidArgument("no step was taken yet, so nothing about the data was released.")
        return self._planned().stopped_after(self.begun)

    @property
    def last(self) -> int:
        """Number of steps after which the run ends: those of the plan, or those that a budget allows."""
        return self._most if self._counted is None else min(self._counted, self._most)

    def _accounted(self) -> Mechanism:
        return self.taken

    def _take_key(self, key: bytes | None) -> None:
        """The key that was given, or a fresh one, the same on all ranks."""
        self.key = self.ranks.fresh_key() if key is None else secret(key)

    def _check_same(self, **given: str) -> None:
        """An error unless all ranks have the same key, parameters, and whatever else is given."""
        key, parameters = hashlib.blake2b(self.key).hexdigest(), self._parameters_seen
        self.ranks.check_same(key=key, **given, parameters=parameters)

    @property
    def _parameters_seen(self) -> str:
        """Hash of the parameters, to compare with other ranks; empty if there are none."""
        if self.ranks.size == 1:
            return ""
        # noise is drawn for the name of each of them
        named = self.gradients.parameters
        return fingerprint(repr(list(named)), *named.values())

    def _stand_at(self, step: int, memory: NoiseMemory | None = None) -> None:
        """Go on from this step, with noise for it and later ones; the memory is a checkpoint's."""
        plan = self._planned()
        self.step, self._most = step, plan.batches.steps
        settings: dict[str, Any] = {
            "noise_multiplier": plan.noise_multiplier,
            "clip": self.gradients.clip,
            "key": self.key,
            "start": step,
            "purpose": repr(plan),
        }
        if isinstance(plan, CorrelatedNoise):
            if memory is None and step > 0:
                assert isinstance(self._noise, CorrelatedStepNoise)
                memory = self._noise.memory_before(step)
            settings |= {"strategy": plan.strategy, "steps": self._most, "memory": memory}
            self._noise = CorrelatedStepNoise(**settings)
        else:
            self._noise = StepNoise(**settings)

    def _check_next(self) -> None:
        """Refuse a step that the plan or the budget does not have, or that this process may not take."""
        if self.step >= self.last:
            check_left(self.step, self._most, self._counted, "steps")
        if self._counted_as is not None:
            self._check_resumed()
        self.ranks.check_unchanged(f"a {self._note}")

    def _book(self) -> None:
        """Have the next step counted on disk, where that is kept."""

    def _release(
        self, examples: int, make: Callable[[], dict[str, Tensor]], like: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The noisy sum of the next step over all ranks.

        It is counted on disk before anything of it is computed, and in memory before this returns.

        Args:
            examples: How many examples are in the part of this rank.
            make: Makes the sum over that part.
            like: Tensors of the names and shapes of the sum.

        Returns:
            What is released.
        """

        def booked() -> dict[str, Tensor]:
            self._book()
            return make()

        try:
            total = self.ranks.summed(examples, booked, like)
            released = self._noise.added(total, self.step)
            self.step += 1
        except BaseException as fault:
            if self.ranks.size > 1 and not isinstance(fault, SharpDPError):
                # another rank may have the sum already, and go on: the step counts
                self._begun = max(self._begun, self.step + 1)
            raise
        return released


def checked_plan(plan: object) -> DPSGD[Any]:
    """The plan, if it is DP-SGD with noise, steps and records."""
    if not isinstance(plan, DPSGD):
        hint = "Try DPSGD(scheme, noise_multiplier=...)."
        raise WrongType(f"plan must be a DPSGD; got {short_repr(plan)}. {hint}")
    check_trains(plan=plan)
    return plan


def checked_begun(begun: object, *, step: int, most: int) -> int:
    """The number of steps begun that a saved state tells, if it fits the steps taken and the plan.

    >>> checked_begun(5, step=3, most=4)
    Traceback (most recent call last):
    sharpdp.errors.InvalidArgument: begun must be at most steps = 4; got 5.
    """
    number = count(least=step, begun=begun)
    if number > most:
        raise invalid("begun", f"at most steps = {most}", number)
    return number
