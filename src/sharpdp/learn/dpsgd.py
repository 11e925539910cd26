"""DP-SGD and DP-FTRL whose accounting reads the object that drew the batches and set the noise.

`Training` runs one `DPSGD` or `CorrelatedNoise` mechanism on a model: its batches come from the
mechanism's scheme, its noise from the mechanism's noise multiplier and strategy, and `epsilon` accounts
that mechanism as far as it was run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sharpdp._validate.extras import optional_packages

with optional_packages("learn", "torch"):
    import torch
    from torch import Tensor, nn

from sharpdp._validate import (
    count,
    flag,
    nonnegative,
    open_probability,
    positive,
    positive_scale,
    short_repr,
)
from sharpdp.batches import BatchScheme
from sharpdp.batches.scheme import Indices
from sharpdp.budget import Budget, Ledger
from sharpdp.errors import Contradiction, InvalidArgument, SharpDPError, WrongType
from sharpdp.learn.budget import affordable
from sharpdp.learn.checkpoint import CHECKPOINT, fingerprint, load, restored, stored
from sharpdp.learn.correlated_step_noise import CorrelatedStepNoise, NoiseMemory
from sharpdp.learn.gradients import (
    LARGEST_BATCH,
    SAME_BITS,
    ClippedGradients,
    Loss,
    check_examples,
    cuda_devices,
    seed_generators,
)
from sharpdp.learn.ranks import Ranks, unwrapped
from sharpdp.learn.sharded import sharded
from sharpdp.learn.step_loop import StepLoop
from sharpdp.learn.training_progress import TrainingProgress
from sharpdp.mechanisms import DPSGD, Adjacency, BatchQueries
from sharpdp.mechanisms.composed import chosen, notion
from sharpdp.mechanisms.correlated_noise import CorrelatedNoise, MinSeparation
from sharpdp.mechanisms.training import check_trains
from sharpdp.randomness.given_secret import GIVEN_KEY
from sharpdp.randomness.keyed_stream import KeyedStream
from sharpdp.storage.run_lock import free_path_of, path_of
from sharpdp.storage.state_file import StateFile

__all__ = ["Training", "affordable_steps"]


STEPS_BETWEEN_SAVES = 100
"""How often a run with a checkpoint is saved unless told otherwise."""


_TURN = threading.RLock()
"""Held during a step: threads count steps, and seed torch's generators, one after the other."""

Schedule = Callable[[int], float]
"""The learning rate of a step, as a function of its number from 0 on."""


def affordable_steps(
    mechanism: BatchQueries,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str | None = None,
) -> int:
    """The most steps after which the mechanism is certainly (epsilon, delta)-DP, at most all of them.

    Args:
        mechanism: A training run.
        epsilon: Budget, at least 0.
        delta: Delta of the budget, in (0, 1).
        adjacency: Which data sets are neighbors; None for the default of the mechanism.

    Returns:
        A number of steps, 0 if not even one is within the budget.

    Raises:
        InvalidArgument: An argument is out of range.
        WrongType: mechanism is no `DPSGD`, or an argument is no number.
        Unsupported: No theorem covers the run under this adjacency.

    >>> from sharpdp.batches import PoissonBatches
    >>> run = DPSGD(PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    >>> affordable_steps(run, epsilon=5.0, delta=1e-5)  # all take 1.83
    1000
    """
    if not isinstance(mechanism, BatchQueries):
        raise WrongType(f"mechanism must be a DPSGD; got {short_repr(mechanism)}.")
    limit = mechanism.batches.steps
    return affordable(
        mechanism.stopped_after, limit, epsilon=epsilon, delta=delta, adjacency=adjacency
    )


class Training(StepLoop[DPSGD | CorrelatedNoise]):
    """One run of a DP-SGD mechanism on a model, step by step.

    Every step takes the next batch of `mechanism.batches`, sums the gradients of its examples, each
    clipped to l2 norm `clip`, adds Gaussian noise of standard deviation noise_multiplier * clip, divides
    by a constant of the plan, and hands the result to the optimizer; an empty batch is a step as well.

    The constant is `expected_batch_size`, by default that of the scheme. What the guarantee may compare
    depends on it. A scheme with a `dataset_size` makes the number of examples public: it settles the
    divisor, often the sample rate and the steps as well, and other data are refused. Data sets that
    differ in size would then give noise of another scale, or no run at all. So the answer is for
    `adjacency` zero-out, where neighbors have equally many records (or replace-one). Add/remove is
    claimed only if no number that is released depends on the size: for Poisson batches and random
    allocation without a `dataset_size`, and with an `expected_batch_size` that was chosen without looking
    at the data. Such a run takes data of any size.

    One record moves a sum by its own clipped gradient alone: gradients of all others are computed bit for
    bit the same with any record in its place, whatever it holds (docs/proofs/sensitivity.md). If
    records were added or removed, others would move to other places, where torch may round otherwise.
    So add/remove is claimed only if asked for, and records are then computed one at a time, which
    takes longer; for Poisson batches zero-out has the same epsilon.

    Batches, noise and whatever torch draws in a step (dropout, for one) are functions of a secret `key`
    (fresh from the operating system unless given) and of the number of the step. A run that is resumed
    from a checkpoint therefore repeats the very steps that were lost, bit for bit on the same machine,
    and each step is counted once. A step whose sum comes out otherwise (another loss, learning rate,
    physical batch size or machine) has fresh noise, but the same batch. If k resumed copies of a
    checkpoint are released, or both outcomes of such a step (k = 2), account with noise_multiplier /
    sqrt(k), not with two runs.
    With the key, or a checkpoint, the noise can be removed: keep both as secret as the data.

    With a `CorrelatedNoise` mechanism this is DP-FTRL: the noise of a step cancels some of that of
    earlier steps, as the strategy says. What is released is a function of what the matrix mechanism of
    the accounting releases, see `sharpdp.learn.correlated_step_noise`. Such a run keeps two vectors of
    the size of the model, in double precision, for every band of the strategy but the first; its
    checkpoints hold them.

    Args:
        mechanism: Batch scheme and noise multiplier, and for `CorrelatedNoise` the strategy.
        model: The model, whose trainable parameters are moved.
        loss: Function of outputs and targets.
        inputs: Examples, one per row; as many as the scheme's dataset_size, if it has one.
        targets: Their targets, one per row.
        clip: Largest l2 norm of an example's gradient, greater than 0.
        optimizer: A torch optimizer of the trainable parameters, not LBFGS; None for plain SGD.
        learning_rate: Step size, greater than 0, or a function of the step's number, from 0 on. None for
            the optimizer's own, which is 0.1 for plain SGD.
        physical_batch_size: Examples whose gradients are computed at once, at least 1. Several ranks
            share out pieces of this size. A gradient may depend in its last bits on the size of its
            piece, so that a run that goes on should keep it. None for 256, and for 1 under add/remove,
            which takes no more.
        key: Secret of at least 16 bytes; None for a fresh one.
        strict: True to stop the run at a record without a usable gradient, which no privacy guarantee
            covers, see `ClippedGradients`; False to take it for zero.
        expected_batch_size: Constant that sums are divided by; None for that of the scheme, which needs a
            ``dataset_size``.
        adjacency: Which data sets are neighbors; None for zero-out, or for what the scheme allows.

    Raises:
        InvalidArgument: An argument is out of range, two do not fit together, or ranks were given
            different things.
        WrongType: An argument has the wrong type.
        Unsupported: No theorem covers the run under this adjacency.

    >>> from sharpdp.batches import PoissonBatches
    >>> plan = PoissonBatches(dataset_size=100, batch_size=10, epochs=1)
    >>> inputs, targets = torch.randn(100, 3), torch.randn(100, 1)
    >>> training = Training(
    ...     DPSGD(plan, noise_multiplier=1.0),
    ...     nn.Linear(3, 1),
    ...     nn.MSELoss(),
    ...     inputs,
    ...     targets,
    ...     clip=1.0,
    ... )
    >>> training.run(progress=False).epsilon(delta=1e-5).upper < 4.0
    True
    >>> training
    <Training: 10 of 10 steps of DP-SGD (noise multiplier 1, Poisson batches: 10 steps at sample
    rate 0.1 of 100 examples)>
    """

    _batches: Iterator[Indices]

    def __init__(
        self,
        mechanism: DPSGD | CorrelatedNoise,
        model: nn.Module,
        loss: Loss,
        inputs: Tensor,
        targets: Tensor,
        *,
        clip: float,
        optimizer: torch.optim.Optimizer | None = None,
        learning_rate: float | Schedule | None = None,
        physical_batch_size: int | None = None,
        key: bytes | None = None,
        strict: bool = False,
        expected_batch_size: float | None = None,
        adjacency: Adjacency | str | None = None,
    ) -> None:
        """Check that everything fits together; nothing is run yet."""
        self.ranks = Ranks.of_process()
        self.mechanism = _checked(mechanism, inputs, targets)
        self.adjacency = _adjacency(mechanism, adjacency)
        self.expected_batch_size = _divisor(mechanism.batches, expected_batch_size)
        self._sharded = sharded(model, self.ranks.size)
        plain = unwrapped(model) if self._sharded is None else self._sharded.twin
        pieces = _piece_size(self.adjacency, physical_batch_size)
        self.gradients = ClippedGradients(plain, loss, clip, pieces, strict)
        self.inputs, self.targets = inputs.detach(), targets.detach()
        self.schedule = _schedule(learning_rate)
        self.optimizer = _optimizer(self.model, optimizer)
        self.gradients.check(self.inputs, self.targets)
        self.gradients.check_stateless(self.inputs, self.targets)
        self._take_key(key)
        self._key_given = key is not None
        if self.ranks.size > 1:
            pieces = self.gradients.physical_batch_size
            settings = (self.optimizer, self.expected_batch_size, self.adjacency, pieces)
            self._check_same(data=self._fingerprint, settings=repr(settings))
        self._stand_at(0)
        self._file: StateFile | None = None
        self._every, self._goal, self._booked = STEPS_BETWEEN_SAVES, self._most, 0

    @property
    def model(self) -> nn.Module:
        """The model as trained so far."""
        return self.gradients.model if self._sharded is None else self._sharded.model

    def _planned(self) -> DPSGD | CorrelatedNoise:
        return self.mechanism

    def _told(self) -> tuple[bytes, bytes | None, int]:
        return self.key + self._fingerprint.encode(), self.key, self.step

    def _conditions(self) -> list[str]:
        conditions = [SAME_BITS] if self.gradients.physical_batch_size > 1 else []
        return [*conditions, GIVEN_KEY] if self._key_given else conditions

    def advance(self) -> None:
        """Run the next step.

        It counts from the moment at which its noise is drawn: if something fails after that, say the
        optimizer, the step is spent. If something fails before, it comes again, with the same batch.
        Threads take turns, also those of several runs, since torch's generators are the process's.
        """
        with _TURN:
            self._check_next()
            try:
                with _seeded(self.key, self.step, -1):
                    rate = None if self.schedule is None else _rate(self.schedule, self.step)
                    mine, examples = self._pieces(next(self._batches))
                    part = partial(self._part, mine)
                    self._move(self._release(examples, part, self.gradients.parameters), rate)
            except BaseException:
                self._stand_at(self.step)
                raise

    def _pieces(self, batch: Indices) -> tuple[list[tuple[int, Tensor]], int]:
        """This rank's pieces of a batch, each with its number, and how many examples they have."""
        if len(batch) > LARGEST_BATCH:
            raise InvalidArgument(
                f"batches must have at most {LARGEST_BATCH:,} examples for their sums to be exact; got "
                f"{len(batch):,}."
            )
        index, mine, examples = torch.from_numpy(batch), [], 0
        for number, piece in self.ranks.pieces(len(index), self.gradients.physical_batch_size):
            mine.append((number, index[piece]))
            examples += len(index[piece])
        return mine, examples

    def _part(self, pieces: list[tuple[int, Tensor]]) -> dict[str, Tensor]:
        """The sum over this rank's pieces of the batch."""
        parameters = self.gradients.parameters
        total = {name: torch.zeros_like(v, dtype=torch.float64) for name, v in parameters.items()}
        for number, index in pieces:
            with _seeded(self.key, self.step, number):
                part = self.gradients.sum(self.inputs[index], self.targets[index])
            for name, value in part.items():
                total[name] += value  # exactly: both are multiples of the grid
        return total

    def _advance_below(self, last: int) -> bool:
        """Run the next step, unless so many were run already, by this thread or by another."""
        with _TURN:
            if self.step >= last:
                return False
            self.advance()
            return True

    def _move(self, released: Mapping[str, Tensor], rate: float | None) -> None:
        """One step of the optimizer along the noisy mean."""
        means = {}
        for name, parameter in self.gradients.model.named_parameters():
            if parameter.requires_grad:
                mean = released[name] / self.expected_batch_size
                means[name] = mean.to(dtype=parameter.dtype, device=parameter.device)
                if self._sharded is None:
                    parameter.grad = means[name]
        if self._sharded is not None:
            self._sharded.set_gradients(means)
        if rate is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        try:
            self.optimizer.step()
        except Exception as fault:  # of whatever kind an optimizer has
            raise InvalidArgument(
                f"optimizer must take a step along dense gradients; got {type(fault).__name__}: {fault}."
            ) from fault
        if self._sharded is not None:
            self._sharded.gather()
            self._gather_optimizer()

    def run(
        self,
        *,
        steps: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        checkpoint: str | Path | None = None,
        every: int = STEPS_BETWEEN_SAVES,
        progress: bool = True,
        budget: Budget | Ledger | None = None,
        budget_key: str | None = None,
        group_size: int | None = None,
    ) -> Training:
        """Run to the end, for a number of further steps, or until a budget is exhausted.

        With `checkpoint` the run is saved there before its first step, at regular intervals and at the
        end, also if it is interrupted.

        Args:
            steps: Most steps to run now, at least 1; None for no such limit.
            epsilon: Budget of the whole run at delta, at least 0; None for none.
            delta: Delta of the budget and of the progress line, in (0, 1).
            checkpoint: File to save to, which must be free or that of this run; None for none, or for the
                file from which the run was resumed.
            every: Steps between two saves, at least 1.
            progress: False to print no progress.
            budget: A `Budget` or `Ledger` that several runs share. As many steps as it allows are counted
                in it before the first one is run, and no more are run, now or later; None for none.
            budget_key: Name of this run in a ledger; a resumed run is then not counted twice, and a new
                one, with another key, is refused under this name.
            group_size: How many records one protected unit, such as a user, has in the data; None for
                that of the budget.

        Returns:
            The run itself.

        Raises:
            InvalidArgument: An argument is out of range, the path is taken, or a step fails.
            WrongType: An argument has the wrong type.
            Unsupported: No theorem covers the run, and epsilon or a budget is given.
            BudgetExceeded: The budget does not allow a single step; none was run.
        """
        often = count(every=every, hint="It counts steps between checkpoints.")
        flag(progress=progress)
        path = None if checkpoint is None else free_path_of(checkpoint=checkpoint)
        open_probability(delta=delta)
        last = self._most
        if steps is not None:
            last = min(last, self.step + count(steps=steps))
        if epsilon is not None:
            limit = affordable_steps(
                self.mechanism, epsilon=epsilon, delta=delta, adjacency=self.adjacency
            )
            last = min(last, limit)
        if path is not None:
            self._attach(path)
        if budget is not None:
            self.count_in(budget, key=budget_key, group_size=group_size)
            self._check_resumed()
        last = min(last, self.last)
        self._every, self._goal = often, last
        line = TrainingProgress(self.step, last, lambda: self._spent(delta))
        progress = progress and self.ranks.is_first
        try:
            while self._advance_below(last):
                if progress:
                    line.update(self.step)
        finally:
            if progress:
                line.close()
            if self._file is not None:
                self._store(self.step)
        if self.step >= self._most:
            self.close()
        self.ranks.check_same(parameters=self._parameters_seen)
        return self

    def _spent(self, delta: float) -> str:
        """The privacy so far in words; training does not stop because it is not known."""
        try:
            return str(self.epsilon(delta=delta)).partition(" |")[0]
        except Contradiction:
            raise
        except SharpDPError as fault:
            return f"epsilon is not known: {fault}"

    def save(self, path: str | Path) -> None:
        """Write everything needed to continue; the old file stays until the new one is complete.

        The path must be free, or that of this run. Later steps are saved there as well, so that the
        file never counts fewer steps than were released.

        Args:
            path: File to write.

        Raises:
            InvalidArgument: The path is taken, or cannot be written.
            WrongType: path is no path.
        """
        self._attach(free_path_of(path=path))
        if self._file is not None:
            self._store(self.step)

    def resume(self, path: str | Path) -> Training:
        """Go on where a checkpoint of the same run left off; another run is refused.

        Later steps are saved at the same path. Other processes are refused there until `close`, or
        until this object is gone.

        Args:
            path: The checkpoint.

        Returns:
            The run itself.

        Raises:
            InvalidArgument: The file is no checkpoint of this run, or another process has it.
            WrongType: path is no path.
        """
        file = StateFile(path_of(path=path), CHECKPOINT)
        state = self.ranks.from_first(lambda: restored(file, self._fingerprint))
        if state["begun"] > self._most:
            raise InvalidArgument(
                "path must be a checkpoint of this run; got a step beyond its last."
            )
        memory = self._memory_of(state)
        with _TURN:
            if self._sharded is not None:
                whole = state["optimizer"]
                state["optimizer"] = self._sharded.sharded_state(whole, self.optimizer)
                self._is_saved = True
            load(state, self.gradients.model, self.optimizer)
            if self._sharded is not None:
                self._sharded.scatter()
                self._gather_optimizer()
            # what this object released of the run stays released, whatever an older copy tells
            released = self.begun if state["key"] == self.key else 0
            self.key, self._file = state["key"], file if self.ranks.is_first else None
            self._key_given = bool(state.get("key_given", True))
            self._is_resumed = True
            self._begun, self._booked = max(state["begun"], released), state["step"]
            self._stand_at(state["step"], memory)
        return self

    def close(self) -> None:
        """Let another process continue from the checkpoint; a finished run does so automatically."""
        if self._file is not None:
            self._file.close()

    def _attach(self, path: Path) -> None:
        """Save this run at the path from now on; refuse a path at which something else is."""
        self._is_saved = True
        self._gather_optimizer()
        self.ranks.from_first(lambda: self._attach_here(path))

    def _attach_here(self, path: Path) -> None:
        file = StateFile(path, CHECKPOINT)
        if self._file is not None:
            if self._file.path == file.path:
                return
            file.check()
            # the old file cannot know how far the run will go: it counts all of it
            self._store(self._most)
        file.check()
        self._file, self._booked = file, self.step

    def _book(self) -> None:
        """Have the next step counted on disk, with those up to the next save."""
        if self._file is None:
            return
        self._file.check()
        if self.step >= self._booked:
            following = (self.step // self._every + 1) * self._every
            goal = self._goal if self._goal > self.step else self._most
            self._store(min(following, goal))

    def _store(self, booked: int) -> None:
        """Save the run as one of which up to so many steps may have been released."""
        assert self._file is not None
        with _TURN:  # not in the middle of a step of another thread
            state = {
                "run": self._fingerprint,
                "step": self.step,
                "begun": max(booked, self.begun),
                "key": self.key,
                "key_given": self._key_given,
                "model": self.gradients.model.state_dict(),
                "optimizer": self._optimizer_state or self.optimizer.state_dict(),
            }
            if isinstance(self._noise, CorrelatedStepNoise):
                state["noise"] = self._noise.memory_before(self.step).state()
            stored(self._file, state)
            self._booked = booked

    _optimizer_state: dict[str, Any] | None = None
    _is_saved = False

    def _gather_optimizer(self) -> None:
        """Of a sharded model that is saved, the whole state of the optimizer: all ranks take part."""
        if self._sharded is not None and self._is_saved:
            whole = self._sharded.whole_state(self.optimizer)
            self._optimizer_state = whole if self.ranks.is_first else None

    def _memory_of(self, state: Mapping[str, Any]) -> NoiseMemory | None:
        """What a checkpoint tells of earlier noise; None if later noise does not depend on it."""
        if not isinstance(self._noise, CorrelatedStepNoise):
            return None
        size = sum(value.numel() for value in self.gradients.parameters.values())
        return NoiseMemory.of_state(
            state.get("noise"), self._noise.memory_like(state["step"], size)
        )

    def _stand_at(self, step: int, memory: NoiseMemory | None = None) -> None:
        plan: Any = self.mechanism.batches
        if plan.dataset_size is None:  # known to the batches only, not to anything that is released
            plan = replace(plan, dataset_size=len(self.inputs))
        self._batches = plan.batches(self.key, start=step)
        super()._stand_at(step, memory)

    @cached_property
    def _fingerprint(self) -> str:
        """Hash of what the noise of this run may be added to: mechanism, clip, data, parameters.

        Made once: all data are read for it.
        """
        shapes = {name: tuple(value.shape) for name, value in self.gradients.parameters.items()}
        words = f"{self.mechanism!r} {self.gradients.clip!r} {shapes!r}"
        return fingerprint(words, self.inputs, self.targets)


@contextmanager
def _seeded(key: bytes, step: int, piece: int) -> Iterator[None]:
    """Torch's generators in a state that the key, the step and the piece settle; put back afterwards.

    Dropout and the like draw from them. A step that is run again, on any number of ranks, then has the
    same sum, and so the same noise: it is the same release.
    """
    source = KeyedStream(key).derive("model", step)
    # bits of a seed of torch's generators
    seed = (source.derive(piece) if piece else source).integer(63)
    with torch.random.fork_rng(devices=cuda_devices()):
        seed_generators(seed)
        yield


def _optimizer(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> torch.optim.Optimizer:
    """The optimizer that was given, if it moves the model's parameters and no others; else plain SGD."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if optimizer is None:
        return torch.optim.SGD(trainable, lr=0.1)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise WrongType(f"optimizer must be one of torch.optim; got {short_repr(optimizer)}.")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgument(
            "optimizer must take one gradient a step; got LBFGS, which asks for the loss again."
        )
    moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if moved != {id(parameter) for parameter in trainable}:
        raise InvalidArgument(
            "optimizer must move the trainable parameters of the model; got one over others."
        )
    return optimizer


def _schedule(learning_rate: float | Schedule | None) -> Schedule | None:
    """The learning rate as a function of the step; None for that of the optimizer."""
    if learning_rate is None:
        return None
    if callable(learning_rate) and not isinstance(learning_rate, type):
        _rate(learning_rate, 0)
        return learning_rate
    value = positive(learning_rate=learning_rate, hint="It may be a function of the step.")
    return lambda step: value


def _rate(schedule: Schedule, step: int) -> float:
    """The learning rate of a step."""
    hint = "It may be a number, or a function of the number of the step."
    return nonnegative(learning_rate=schedule(step), hint=hint)


def _checked(
    mechanism: DPSGD | CorrelatedNoise, inputs: Tensor, targets: Tensor
) -> DPSGD | CorrelatedNoise:
    """The mechanism, if it is DP-SGD or DP-FTRL on as many examples as there are."""
    if type(mechanism) not in (DPSGD, CorrelatedNoise):
        raise WrongType(
            f"mechanism must be a DPSGD or a CorrelatedNoise; got {short_repr(mechanism)}. "
            "Try DPSGD(PoissonBatches(...), noise_multiplier=1.0)."
        )
    check_trains(mechanism=mechanism)
    if isinstance(mechanism.batches, MinSeparation):
        raise InvalidArgument(
            "mechanism must have batches that Training can draw; got MinSeparation, a property of "
            "batches of somebody else. DeterministicBatches keep it, with separation = steps_per_epoch."
        )
    check_examples(inputs, targets)
    planned = mechanism.batches.dataset_size
    if planned is None and len(targets) != len(inputs):
        raise InvalidArgument(
            f"targets must be as many as inputs, {len(inputs)}; got {len(targets)}."
        )
    sizes = {"inputs": inputs.shape[0], "targets": targets.shape[0]}
    for name, size in sizes.items():
        if planned is not None and size != planned:
            raise InvalidArgument(
                f"{name} must hold the dataset_size = {planned} examples of the batch scheme; got {size}."
            )
    return mechanism


def _adjacency(mechanism: BatchQueries, adjacency: Adjacency | str | None) -> Adjacency:
    """The notion asked for, or the first that fits.

    Add/remove has to be asked for, and is refused if the plan has a dataset_size.
    """
    adjacencies = mechanism.adjacencies
    if adjacency is not None and notion(adjacency) is Adjacency.ADD_REMOVE:
        if mechanism.batches.dataset_size is None:
            return chosen(adjacencies, adjacency, mechanism.describe())
        raise InvalidArgument(
            "adjacency must be zero-out for a batch scheme with a dataset_size; got add/remove. The "
            "divisor of the sums depends on that size, which differs between such neighbors. Leave "
            "dataset_size out, as in PoissonBatches(sample_rate=..., steps=...), and give "
            "expected_batch_size= a constant that was chosen without looking at the data."
        )
    fitting = tuple(choice for choice in adjacencies if choice is not Adjacency.ADD_REMOVE)
    return chosen(fitting, adjacency, mechanism.describe())


def _piece_size(adjacency: Adjacency, physical_batch_size: int | None) -> int:
    """How many examples are computed at once: one under add/remove, where others change places."""
    if adjacency is not Adjacency.ADD_REMOVE:
        return 256 if physical_batch_size is None else physical_batch_size
    if physical_batch_size not in (None, 1):
        raise InvalidArgument(
            f"physical_batch_size must be 1 under add/remove; got {short_repr(physical_batch_size)}. If "
            "a record is added, others move to other places of a piece, where torch may round their "
            "gradients otherwise. Under zero-out, whose epsilon is the same for Poisson batches, it may "
            "be any number."
        )
    return 1


def _divisor(plan: BatchScheme, expected_batch_size: float | None) -> float:
    """The constant that sums are divided by."""
    settled = plan.expected_batch_size if expected_batch_size is None else expected_batch_size
    if settled is None:
        raise InvalidArgument(
            "expected_batch_size must be given to train over a batch scheme without a dataset_size; got "
            "None. It is the constant that sums are divided by: choose it without looking at the data, "
            "or give the scheme a dataset_size, which is then public."
        )
    return positive_scale(expected_batch_size=settled, hint="Sums are divided by it.")
