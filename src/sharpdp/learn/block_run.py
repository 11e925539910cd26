"""Shuffled noisy SGD: every epoch goes through all blocks of records in a fresh random order.

`BlockSGD` is the plan, frozen data. `BlockRun` runs it, and is accounted by the epochs it began: an epoch
that was cut short may have been seen, so it counts, and is not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import (
    HintedKeywords,
    count,
    invalid,
    positive,
    positive_scale,
    real,
    short_repr,
)
from sharpdp.budget import Budget, Ledger
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.gradient_function import Gradients
from sharpdp.learn.randomizers import LatticeLaplace, clipped
from sharpdp.learn.randomizers.validation import vector_of
from sharpdp.learn.round_loop import RoundLoop
from sharpdp.mechanisms import ShuffledBlocks
from sharpdp.randomness.system_stream import Floats, Randomness

__all__ = ["BlockRun", "BlockSGD"]


@dataclass(frozen=True, kw_only=True)
class BlockSGD(HintedKeywords):
    """The plan: ``epochs`` passes over ``blocks`` blocks of ``records`` records with Laplace noise.

        sum over a block of gradients clipped to l1 norm ``clip``, plus Laplace noise on a lattice;
        parameters <- parameters - learning_rate (noisy sum) / block_size

    The noise makes a step local_epsilon-DP between any two *blocks*: its scale is 2 block_size clip /
    local_epsilon, block_size times that of chen2024, whose noise hides one record of a block only as
    long as no other block looks different.

    Holds when: the split into blocks (consecutive records) does not depend on the records. Source:
    chen2024 Algorithm 1, with this noise.

    Args:
        records: Number of records, at least 1.
        blocks: Blocks, which are the steps of an epoch, from 1 to records and at most 10^12.
        epochs: Passes over the data, at least 1.
        local_epsilon: Budget of a step between any two blocks, at most 30, and at least 1e-6, times
            block_size if unit is "record".
        clip: Largest l1 norm of a record's gradient, greater than 0.
        dimension: Number of parameters, from 1 to 10^8.
        learning_rate: Step size, greater than 0.
        unit: What is protected: "record" or "block", see `ShuffledBlocks`.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> plan = BlockSGD(records=600, blocks=100, epochs=5, local_epsilon=2.0, clip=1.0, dimension=3)
    >>> plan.block_size, plan.randomizer.radius
    (6, 6.0)
    """

    records: int
    blocks: int
    epochs: int
    local_epsilon: float
    clip: float
    dimension: int
    learning_rate: float = 0.05
    unit: str = "record"

    def __post_init__(self) -> None:
        """Check all fields."""
        records = count(records=self.records, hint="It counts records.")
        object.__setattr__(self, "records", records)
        if count(blocks=self.blocks, hint="It counts the steps of an epoch.") > records:
            raise invalid("blocks", f"at most records = {records}", self.blocks, "Swapped?")
        rate = positive(learning_rate=self.learning_rate)
        object.__setattr__(self, "learning_rate", rate)
        accounted, noise = self.mechanism, self.randomizer
        object.__setattr__(self, "blocks", accounted.blocks)
        object.__setattr__(self, "epochs", accounted.epochs)
        object.__setattr__(self, "local_epsilon", accounted.local_epsilon)
        object.__setattr__(self, "dimension", noise.dimension)

    @property
    def block_size(self) -> int:
        """Records of the largest block."""
        return -(-self.records // self.blocks)

    @property
    def randomizer(self) -> LatticeLaplace:
        """The randomizer of a block's sum."""
        radius = positive_scale(clip=self.clip, hint="It is the largest l1 norm.") * self.block_size
        return LatticeLaplace(
            dimension=self.dimension, local_epsilon=self.local_epsilon, radius=radius
        )

    @property
    def mechanism(self) -> ShuffledBlocks:
        """The mechanism of all epochs."""
        return self.begun(self.epochs)

    def begun(self, epochs: int) -> ShuffledBlocks:
        """The mechanism of the first ``epochs`` epochs.

        Args:
            epochs: How many, at least 1.

        Returns:
            The mechanism, to be accounted.

        Raises:
            InvalidArgument: epochs is out of range.
            WrongType: epochs is no number.
        """
        blocks = count(blocks=self.blocks, hint="It counts the steps of an epoch.")
        return ShuffledBlocks(
            blocks=blocks,
            local_epsilon=self.local_epsilon,
            block_size=self.block_size,
            epochs=epochs,
            unit=self.unit,
        )

    def published_renyi(self, order: float) -> float:
        """The Renyi divergence that the paper's formula claims; an approximation, not a guarantee.

            2 epochs e^local_epsilon order / (blocks - 1)

        It is no bound for large local_epsilon, nor for any if a block has more than one record and the
        noise is the paper's. Source: chen2024 Theorem 3.

        Args:
            order: Order of the divergence, greater than 1.

        Returns:
            The claimed divergence.

        Raises:
            InvalidArgument: order is out of range, or there is one block only.
            WrongType: order is no number.

        >>> plan = BlockSGD(records=9, blocks=9, epochs=1, local_epsilon=1.0, clip=1.0, dimension=3)
        >>> round(plan.published_renyi(2.0), 6)  # e / 2
        1.359141
        """
        clean = real(order=order)
        if not clean > 1.0:
            raise invalid("order", "greater than 1", order)
        if self.blocks < 2:
            raise InvalidArgument(f"blocks must be at least 2 for this formula; got {self.blocks}.")
        grown = float(np.exp(self.local_epsilon))
        return 2.0 * self.epochs * grown * clean / (self.blocks - 1)

    def describe(self) -> str:
        """Description of what a resumed run must share.

        Returns:
            One line, without the number of epochs.
        """
        return f"{self.blocks} blocks of {self.records} records through {self.randomizer!r}"


class BlockRun(RoundLoop[ShuffledBlocks]):
    """One run of a plan: ``epoch`` runs one epoch, ``run`` all that are left; ``mechanism`` is what ran.

    All randomness comes afresh from the operating system unless a generator is passed. With a ``path``
    the run can be resumed after a crash: an epoch counts from the moment before its first step, and one
    that was begun but not finished is given up, never repeated. While this object exists, other processes
    are refused at the same path (see `close`).

    A record whose gradient is not finite counts as zero. With ``strict=True`` it stops the run instead,
    which tells whoever learns of it that such a record was there: no privacy guarantee covers that. An
    error that ``gradients`` raises itself stops the run in any case, so it must not depend on records.

    Args:
        plan: What to run.
        gradients: Function of the parameters and an array of record numbers that returns one gradient per
            record, a row each. It must not fail because of what a record holds.
        parameters: Start of a new run, ``dimension`` finite numbers; None to resume the run at path.
        path: File for resuming after a crash; its folder must exist. None keeps the run in memory only.
        rng: None for the operating system's randomness, which privacy needs; a numpy Generator or a seed
            in tests, which `guarantee` then names among its conditions.
        strict: True to stop at a gradient that is not finite, instead of taking it for zero.

    Raises:
        InvalidArgument: parameters have the wrong shape or are not finite, the path is taken, or there is
            no run of this plan to resume.
        WrongType: An argument has the wrong type, or both parameters and path are None.

    >>> plan = BlockSGD(records=40, blocks=10, epochs=2, local_epsilon=1.0, clip=1.0, dimension=2)
    >>> targets = np.ones((40, 2))
    >>> run = BlockRun(plan, lambda theta, records: theta - targets[records], np.zeros(2))
    >>> run.run(1)
    <BlockRun: 1 of 2 epochs of 10 blocks of 40 records through
    LatticeLaplace(dimension=2, local_epsilon=1.0, radius=4.0)>
    >>> run.run().mechanism.epochs
    2
    """

    plan: BlockSGD
    _unit, _work = "epochs", "epochs of blocks"

    def __init__(
        self,
        plan: BlockSGD,
        gradients: Gradients,
        parameters: ArrayLike | None = None,
        *,
        path: str | PathLike[str] | None = None,
        rng: Randomness = None,
        strict: bool = False,
    ) -> None:
        """A new run with these parameters, or the one at ``path`` as it was left if there are none."""
        if not isinstance(plan, BlockSGD):
            raise WrongType(f"plan must be a BlockSGD; got {short_repr(plan)}.")
        if parameters is None and path is None:
            raise WrongType("parameters must be given for a new run without a path; got None.")
        start = None if parameters is None else vector_of(parameters, plan.dimension)
        sizes = plan.epochs, plan.dimension
        self._set(plan, *sizes, gradients, start, path=path, rng=rng, strict=strict)

    def epoch(self) -> Floats:
        """Run one pass over all blocks in a random order.

        Each step is released before the next gradients are asked for. If an error stops the epoch, it was
        begun and counts as a whole.

        Returns:
            The parameters.

        Raises:
            BudgetExceeded: The budget of `run` allows no more epochs.
            InvalidArgument: All epochs were begun, or gradients have the wrong shape or, if strict, are
                not finite.
            WrongType: gradients returns no array of numbers.
        """
        with self._turn:  # of several threads
            self._check_left()
            plan = self.plan
            blocks = np.array_split(np.arange(plan.records), plan.blocks)
            self._journal.begin()
            for index in self._source.order(len(blocks)):
                self.parameters = self.parameters - plan.learning_rate * self._noisy(blocks[index])
            self._finish()
            return self.parameters

    def _noisy(self, records: NDArray[np.int64]) -> Floats:
        """The noisy sum of clipped gradients of one block over the block size."""
        plan = self.plan
        rows = self._rows(records, "records")
        total = clipped(rows, radius=plan.clip, norm=1.0).sum(axis=0)
        report: Floats = plan.randomizer.reports(total[None, :], rng=self._source.generator)[0]
        return report / plan.block_size

    def run(
        self,
        epochs: int | None = None,
        *,
        budget: Budget | Ledger | None = None,
        budget_key: str | None = None,
    ) -> BlockRun:
        """Run some epochs, or all that are left, or as many as a budget allows.

        Args:
            epochs: How many, at least 0, but no more than are left; None for all that are left.
            budget: As for `ClientRun.run`, where it counts rounds.
            budget_key: As for `ClientRun.run`.

        Returns:
            The run itself.

        Raises:
            InvalidArgument: epochs is out of range, or an epoch fails, see `epoch`.
            WrongType: epochs is no number, or an epoch fails.
            BudgetExceeded: The budget does not allow a single epoch; none was run.
        """
        self._run(self.epoch, epochs, budget, budget_key)
        return self
