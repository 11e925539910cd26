"""Noisy gradients of the batches of a plan, for the training loop of any framework.

    run = PrivateGradients(plan, model, loss, dataset, clip=1.0)
    run.guard(optimizer)                 # which then moves along released gradients only
    for batch in run.loader():           # one pass is one epoch
        run.backward(batch)              # in place of loss.backward()
        optimizer.step()
    run.epsilon(delta=1e-5)

A framework decides when batches are loaded and when the optimizer moves. What is released is one noisy
sum for each step, and it is made here: the gradient of every example is computed alone, clipped and
summed, exact Gaussian noise is added once, and the step is counted before anything else sees it. Whatever
the optimizer does afterwards is post-processing. Batches come with the numbers of their examples, and one
that is not the next of the plan is refused before anything is released, so that a framework that skips,
repeats, mixes or shares out batches stops instead of training on others than those accounted for.

Needs `pip install torch`. On several processes of torch.distributed every rank makes the same object, and
each of them loads its part of every batch.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sharpdp._validate.extras import optional_packages

with optional_packages("learn", "torch"):
    import torch
    from torch import Tensor, nn
    from torch.func import functional_call
    from torch.utils import _pytree as pytree

from sharpdp._validate import (
    count,
    flag,
    kind_of,
    short_repr,
)
from sharpdp.budget import Budget, Ledger
from sharpdp.errors import InvalidArgument, SharpDPError, WrongType
from sharpdp.integrations.torch import (
    BatchSampler,
    batches_per_pass,
    check_records,
    hash_of_some,
    loader,
)
from sharpdp.learn.correlated_step_noise import NoiseMemory
from sharpdp.learn.gradients import (
    SAME_BITS,
    ClippedGradients,
    seeded_generators,
)
from sharpdp.learn.ranks import Ranks, unwrapped
from sharpdp.learn.step_loop import StepLoop, checked_begun, checked_plan
from sharpdp.learn.written_state import WrittenWeights
from sharpdp.mechanisms import DPSGD
from sharpdp.randomness.given_secret import conditions_on

__all__ = ["PlannedBatch", "PrivateGradients"]

Loss = Callable[[Any, Any], Tensor]
"""The loss of a batch, from the model and the collated examples; it sees one example at a time."""

ALIGNED = 16
"""Bytes to whose multiples packed tensors are filled up, so that every type of torch can start there."""


UNSEEN_CHANGES = (
    "whatever changes examples between the loader and backward treats every example by itself"
)
"""The condition of loops of one's own: what reaches backward is not compared with what was loaded."""

FIRST_RECORD = "shapes and types of the first record may be known"
"""The condition of a run without an example whose shapes and types are those of all."""

PREFIX = "model."
"""What `_Packed` puts before the names of the model's parameters, from which noise is drawn."""


class PlannedBatch(NamedTuple):
    """Examples, and their numbers in the data set."""

    numbers: Tensor
    """The numbers, one for each example."""
    examples: Any
    """What the collate function made of them, a row each; zeros for an example that does not fit."""
    counted: Tensor | None = None
    """Which rows count; None for all."""
    others: tuple[tuple[int, Any], ...] = ()
    """Examples of another shape or type, by the place of their row: each is computed by itself."""


class PrivateGradients(StepLoop[DPSGD]):
    """The noisy gradients of one DP-SGD run, one for each batch of its plan.

    `backward` takes the place of ``loss.backward()``: it sets the gradients of the model's trainable
    parameters to the sum of clipped per-example gradients plus noise, over the batch size that the plan
    expects. Each call is one step, and is counted.

    Examples are collated and the loss is computed for one of them at a time, as a batch of one. So a loss
    that is averaged over the tokens of a batch, or a collate function that fills examples up to the
    longest or mixes them, cannot make one example depend on another. Where torch can, many examples are
    computed at once (``vmap``); otherwise one after the other. Buffers of the model that change with the
    examples are left as they were; a model that writes to its parameters is refused.

    No record moves the gradients of others, not by a bit. Shapes and types of a row are settled when the
    run is made, by ``example`` or by the first record. A record with others has zeros in its place, and
    is computed by itself; so examples of many shapes take longer. A record that cannot be read, collated
    or computed, or whose gradient is not finite, counts as zero.

    The neighbors are those of zero-out: gradients are divided by a number that follows from the size of
    the data set.

    Ranks share out pieces of ``physical_batch_size`` examples, or single ones where they are computed one
    after the other, so that sums are the same, bit for bit, for any number of ranks on equal machines.
    The model is not that of `Training` with the same key: gradients that are computed in another way
    differ in their last bits, and any other sum has noise of its own.

    Steps that are taken again after a crash use the same batches, and the same noise if the sum is the
    same, bit for bit. If both outcomes of a step were seen, account for noise_multiplier / sqrt(2).

    Args:
        plan: The scheme, with a dataset_size, and the noise multiplier.
        model: The model, whose trainable parameters get the gradients.
        loss: Function of the model and the collated examples, such as
            ``lambda model, batch: cross_entropy(model(batch[0]), batch[1])``.
        dataset: A data set, or tensors that have a length, of the plan's dataset_size examples.
        clip: Largest l2 norm of an example's gradient, from 1e-30 to 1e30.
        key: Secret of at least 16 bytes from which batches and noise are drawn; None for a fresh one.
            Keep it to resume a run, apart from checkpoints: whoever has it can take the noise off.
        collate: Function from a list of one example to tensors, or mappings, lists and tuples of them,
            with a row for it; None for torch's default.
        physical_batch_size: Examples whose gradients are computed at once, at least 1.
        example: An example, made up or public, whose shapes and types are those of all; None for those of
            the first record, which then count as known.
        strict: True to stop the run at a record that would count as zero, which no privacy guarantee
            covers, see `sharpdp.learn.gradients.ClippedGradients`.
        budget: A `Budget` or `Ledger` that several runs share. As many steps as it allows are counted in
            it now, and loaders end after them; None for none.
        budget_key: Name of this run in a ledger, so that a run resumed with its key is not counted twice.
        group_size: How many records one protected unit, such as a user, has in the data; None for that of
            the budget.

    Attributes:
        step: Number of steps that were released here.

    Raises:
        BudgetExceeded: The budget does not allow a single step.
        InvalidArgument: An argument is out of range, the data are not of the plan's size, the model keeps
            a state from one example to the next, or ranks were given different things.
        WrongType: An argument has the wrong type.
        Unsupported: A record of the data set is at two indices.

    >>> from sharpdp.batches import PoissonBatches
    >>> plan = DPSGD(PoissonBatches(dataset_size=40, batch_size=10, epochs=1), noise_multiplier=2.0)
    >>> data = torch.utils.data.TensorDataset(torch.randn(40, 3), torch.randn(40, 1))
    >>> model = nn.Linear(3, 1)
    >>> run = PrivateGradients(
    ...     plan,
    ...     model,
    ...     lambda model, rows: nn.functional.mse_loss(model(rows[0]), rows[1]),
    ...     data,
    ...     clip=1.0,
    ...     key=b"k" * 32,
    ... )
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> for batch in run.loader():
    ...     run.backward(batch)
    ...     optimizer.step()
    >>> run
    <PrivateGradients: 4 of 4 steps of DP-SGD (noise multiplier 2, Poisson batches: 4 steps at sample
    rate 0.25 of 40 examples)>
    >>> print(run.epsilon(delta=1e-5))
    1.36473 <= epsilon <= 1.36525 at delta=1e-05 | Poisson batches, zero-out, certified
    """

    def __init__(
        self,
        plan: DPSGD,
        model: nn.Module,
        loss: Loss,
        dataset: Any,
        *,
        clip: float,
        key: bytes | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        physical_batch_size: int = 256,
        example: Any = None,
        strict: bool = False,
        budget: Budget | Ledger | None = None,
        budget_key: str | None = None,
        group_size: int | None = None,
    ) -> None:
        """Check that everything fits together, and count the steps in the budget."""
        checked_plan(plan)
        if isinstance(loss, type) or not callable(loss):
            raise WrongType(
                "loss must be a function of the model and the collated examples; got "
                f"{short_repr(loss)}."
            )
        self.ranks = Ranks.of_process()
        self.plan, self.model, self.step = plan, unwrapped(model), 0
        self._take_key(key)
        check_records(dataset)
        self.sampler = _Sampler(self)
        self._held = [UNSEEN_CHANGES, *conditions_on(key)]
        if example is None:
            self._held.append(FIRST_RECORD)
        numbered = _Numbered(dataset, strict=flag(strict=strict))
        self._loader = partial(loader, numbered, self.sampler, collate=collate)
        self._loader()  # checks the data
        self._packed = _Packed(self.model, loss)
        first = dataset[0] if example is None else example
        self._collate = _NumberedCollate(collate, first, self._packed, strict=strict)
        row = self._packed.rows(self._collate([(0, first)]).examples, 1)
        self.gradients = self._gradients(row, clip, physical_batch_size, strict=strict)
        if self.piece > 1:
            self._held.append(SAME_BITS)
        if self.ranks.size > 1:
            data = hash_of_some(self.loader(), self.key)
            self._check_same(plan=repr((plan, clip, self.piece)), data=data)
        size = plan.batches.expected_batch_size
        assert size is not None  # every scheme that can be drawn has one
        self._divisor = size
        self._turn = threading.Lock()
        self._released: list[tuple[Tensor, Tensor, int]] = []
        self._stand_at(0)
        if budget is not None:
            self.count_in(budget, key=budget_key, group_size=group_size)

    def _planned(self) -> DPSGD:
        return self.plan

    def _told(self) -> tuple[bytes, bytes | None, int]:
        return self.key, self.key, self.step

    def _conditions(self) -> list[str]:
        return self._held

    def _stop(self) -> None:
        self.sampler.stop_after(self.last)

    @property
    def piece(self) -> int:
        """How many examples are computed at once, and shared out among ranks together."""
        return 1 if isinstance(self.gradients, _OneByOne) else self.gradients.physical_batch_size

    def loader(self, **options: Any) -> Any:
        """A torch DataLoader of `PlannedBatch`, one pass an epoch; a pass goes on where the run stands.

        Args:
            **options: Options of torch's DataLoader, such as ``num_workers``; none that selects examples.

        Returns:
            The DataLoader. Its length is that of a whole pass, also if less is left.

        Raises:
            InvalidArgument: An option would draw other batches, or torch's DataLoader refuses it.
        """
        return self.loader_over(_Passes(self.sampler), **options)

    def loader_over(self, passes: Any, **options: Any) -> Any:
        """The loader of a framework that wants passes of its own; `backward` takes no other batches."""
        dataset = self._loader(**options).dataset
        return torch.utils.data.DataLoader(
            dataset, batch_sampler=passes, collate_fn=self._collate, **options
        )

    def backward(self, batch: PlannedBatch) -> None:
        """Release the noisy gradient of the next batch of the plan, and set it as the gradient.

        The step counts from the moment at which its noise is drawn.

        Args:
            batch: The batch, as a `loader` of this run gave it; on several ranks, the part of this one.

        Raises:
            BudgetExceeded: The budget allows no more steps. Nothing was released.
            InvalidArgument: It is not the next batch of the plan, the plan has no more steps, or its
                examples were not collated one by one. Nothing was released.
            WrongType: It is no `PlannedBatch`.
        """
        with self._turn:  # of several threads
            self._check_next()
            if self.step == self._first:
                self.ranks.check_same(parameters=self._parameters_seen)
            rows = len(getattr(batch, "numbers", ()))
            like = _unpacked(self.gradients.parameters)
            released = self._release(rows, lambda: _unpacked(self._part(batch)), like)
            self.sampler.drawn.popleft()
            self._released = []
            for name, parameter in self.model.named_parameters():
                if name in released:
                    mean = released[name] / self._divisor
                    parameter.grad = mean.to(dtype=parameter.dtype, device=parameter.device)
                    self._released.append((parameter, parameter.grad, parameter.grad._version))

    def check_gradients(self, parameters: Iterable[Tensor] = (), *, changes: int = 0) -> None:
        """An error unless gradients are those that `backward` set last, unchanged.

        For frameworks that call the optimizer themselves: gradients of a loss that was not clipped may
        not reach it.

        Args:
            parameters: Further parameters to look at, such as all of an optimizer; those of the model are
                looked at in any case.
            changes: How often a gradient may have been changed in place, say by clipping it again.

        Raises:
            InvalidArgument: Something else set or changed the gradient of a trainable parameter.
        """
        ours = {
            id(parameter)
            for parameter, gradient, version in self._released
            if parameter.grad is gradient and gradient._version - version <= changes
        }
        named = {id(parameter): repr(name) for name, parameter in self.model.named_parameters()}
        for parameter in (*self.model.parameters(), *parameters):
            if parameter.requires_grad and parameter.grad is not None and id(parameter) not in ours:
                name = named.get(id(parameter), "a parameter outside of the model of this run")
                raise InvalidArgument(
                    f"gradients must be those that backward released; got others for {name}. Call "
                    "run.backward(batch) once a step, and no loss.backward()."
                )

    def guard(self, optimizer: torch.optim.Optimizer, *, changes: int = 0) -> Any:
        """Have an optimizer refuse steps along other gradients than those released, from now on.

        Also those that a closure sets while the optimizer steps.

        Args:
            optimizer: A torch optimizer. All of its parameters are looked at.
            changes: How often a gradient may have been changed in place, say by clipping it again.

        Returns:
            A handle; its ``remove()`` ends it.

        Raises:
            WrongType: optimizer is none of torch.

        >>> from sharpdp.batches import PoissonBatches
        >>> plan = DPSGD(
        ...     PoissonBatches(dataset_size=9, batch_size=3, epochs=1), noise_multiplier=1.0
        ... )
        >>> model = nn.Linear(1, 1)
        >>> run = PrivateGradients(plan, model, lambda m, x: m(x).sum(), torch.ones(9, 1), clip=1.0)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> handle = run.guard(optimizer)
        >>> model(torch.ones(9, 1)).sum().backward()
        >>> optimizer.step()
        Traceback (most recent call last):
        sharpdp.errors.InvalidArgument: gradients must be those that backward released; got others for
        'weight'. Call run.backward(batch) once a step, and no loss.backward().
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise WrongType(f"optimizer must be one of torch.optim; got {short_repr(optimizer)}.")

        def check(stepping: Any) -> None:
            moved = [one for group in stepping.param_groups for one in group["params"]]
            self.check_gradients(moved, changes=changes)

        def before(stepping: Any, arguments: Any, options: Any) -> Any:
            check(stepping)
            closure = options.get("closure", arguments[1] if len(arguments) > 1 else None)
            if closure is None:
                return None

            def checked() -> Any:
                value = closure()
                check(stepping)
                return value

            return arguments[:1], {**options, "closure": checked}

        return optimizer.register_step_pre_hook(before)

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands: to be saved with the model, without the key.

        Returns:
            Plain data: the step, how many may have been released, the plan, and a fingerprint of the key.
        """
        told = {"begun": self.begun, "plan": repr(self.plan), "clip": self.gradients.clip}
        return {**self.sampler.state_dict(step=self.step), **told}

    def load_state_dict(self, state: Any) -> None:
        """Go on from a state of the same run, made by a process before this one.

        Args:
            state: What `state_dict` gave.

        Raises:
            InvalidArgument: The state is that of another run, or this run is beyond it.
            WrongType: It is no such state.
        """
        if not isinstance(state, Mapping) or not {"step", "plan", "clip"} <= set(state):
            raise WrongType(f"state must be one of state_dict(); got {short_repr(state)}.")
        for name, ours in (("plan", repr(self.plan)), ("clip", self.gradients.clip)):
            if state[name] != ours:
                raise InvalidArgument(
                    f"state must be that of a run with {name} {ours}; got {short_repr(state[name])}."
                )
        step = count(least=0, step=state["step"])
        begun = checked_begun(state.get("begun", step), step=step, most=self._most)
        if step < self.step:
            raise InvalidArgument(
                f"state must be at step {self.step} or later; got one at step {step}. The steps after it "
                "were released, and taking them again would release them a second time. Start a new "
                "process to resume from a checkpoint, or account for noise_multiplier / sqrt(2)."
            )
        self.sampler.load_state_dict(state)
        self._begun, self._is_resumed = max(self._begun, begun), True
        self._stand_at(step)

    def _stand_at(self, step: int, memory: NoiseMemory | None = None) -> None:
        self._first = step
        super()._stand_at(step, memory)

    def _part(self, batch: PlannedBatch) -> dict[str, Tensor]:
        """The sum over the examples of this rank, if they are the next ones of the plan."""
        if not isinstance(batch, PlannedBatch):
            raise WrongType(f"batch must be one of a loader() of this run; got {kind_of(batch)}.")
        drawn = self.sampler.drawn[0] if self.sampler.drawn else None
        if batch.numbers.tolist() != drawn:
            raise InvalidArgument(
                f"batch must be that of step {self.step} of the plan; got another one, of "
                f"{len(batch.numbers)} examples. Batches that a loader of this run hands out must reach "
                "backward once each and in order: nothing may skip, repeat, mix or share them out again."
            )
        rows = self._packed.rows(batch.examples, len(drawn))
        _check_counted(batch, len(drawn))
        total = self.gradients.sum(rows, rows.new_zeros(len(rows), 0), counted=batch.counted)
        for _, example in batch.others:
            for name, value in self._alone(example).items():
                total[name] += value  # exactly: both are multiples of the grid
        return total

    def _alone(self, example: Any) -> dict[str, Tensor]:
        """The clipped gradient of an example of another shape or type; zero if it has none."""
        try:
            row = self._packed.rows(example, 1)
            return self.gradients.sum(row, row.new_zeros(1, 0))
        except (
            MemoryError,
            WrittenWeights,
        ):  # which no record is to blame for, or may be silent about
            raise
        except Exception:  # of whatever kind: tensors that are no rows of numbers have their own
            if self.gradients.strict:
                raise
            return {}

    def _gradients(
        self, example: Tensor, clip: float, pieces: int, *, strict: bool
    ) -> ClippedGradients:
        """Gradients of many examples at once if torch can, and of one after the other if not."""
        targets = example.new_zeros(1, 0)
        gradients = ClippedGradients(self._packed, _given, clip, pieces, strict)
        try:
            gradients.check(example, targets)
        except InvalidArgument:
            gradients = _OneByOne(self._packed, _given, clip, pieces, strict)
            gradients.check(example, targets)
        gradients.check_stateless(example, targets)
        return gradients


class _Sampler(BatchSampler):
    """The batches of a run, drawn from where the run stands and remembered until it takes them."""

    def __init__(self, run: PrivateGradients) -> None:
        scheme: Any = run.plan.batches
        per_pass = batches_per_pass(scheme)[-1] if scheme.dataset_size else 1
        super().__init__(scheme, run.key, steps_per_pass=min(per_pass, scheme.steps))
        self._run = run
        self.drawn: deque[list[int]] = deque()

    def __iter__(self) -> Iterator[list[int]]:
        """The rest of the pass in which the run stands; what was loaded ahead comes again."""
        self.step = self._run.step
        self.drawn.clear()
        return super().__iter__()

    def _pass(self, length: int) -> Iterator[list[int]]:
        ranks, size = self._run.ranks, self._run.piece
        for batch in super()._pass(length):
            mine = [one for _, piece in ranks.pieces(len(batch), size) for one in batch[piece]]
            self.drawn.append(mine)
            yield mine


class _Passes:
    """A batch sampler whose length is that of a whole pass, wherever the run stands."""

    def __init__(self, sampler: BatchSampler) -> None:
        self.sampler = sampler

    def __len__(self) -> int:
        return self.sampler.steps_per_pass

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.sampler)

    @property
    def drop_last(self) -> bool:
        return self.sampler.drop_last


class _Unreadable(NamedTuple):
    """Stands for a record that the data set cannot read."""


class _Numbered:
    """A data set whose examples come with their numbers."""

    def __init__(self, dataset: Any, *, strict: bool) -> None:
        self.dataset, self._strict = dataset, strict

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> tuple[int, Any]:
        try:
            return number, self.dataset[number]
        except MemoryError:  # which no record is to blame for
            raise
        except Exception:
            if self._strict:
                raise
            return number, _Unreadable()


class _NumberedCollate:
    """Examples in rows of the run's shapes and types, each collated by itself, and their numbers."""

    def __init__(
        self,
        collate: Callable[[list[Any]], Any] | None,
        example: Any,
        packed: _Packed,
        *,
        strict: bool,
    ) -> None:
        self._collate = torch.utils.data.default_collate if collate is None else collate
        self._strict = strict
        # torch's own puts each example into a row of its own: those that are alike may go together
        self._alike = None if collate else example
        made = self._single(example)
        packed.rows(made, 1)  # an error unless it has one row of numbers
        leaves, self._tree = pytree.tree_flatten(made)
        self._leaves = [torch.zeros_like(leaf) for leaf in leaves]

    def __call__(self, numbered: list[tuple[int, Any]]) -> PlannedBatch:
        numbers = torch.tensor([number for number, _ in numbered], dtype=torch.long)
        examples = [example for _, example in numbered]
        like = self._alike
        if like is not None and examples and all(_same_form(one, like) for one in examples):
            # where one of them is refused after all, such as a number beyond 64 bits, each goes alone
            with suppress(ArithmeticError, RuntimeError, TypeError, ValueError):
                return PlannedBatch(numbers, self._collate(examples))
        return self._one_by_one(numbers, examples)

    def _one_by_one(self, numbers: Tensor, examples: list[Any]) -> PlannedBatch:
        rows, counted, others = [], torch.ones(len(examples), dtype=torch.bool), []
        for place, example in enumerate(examples):
            made = self._collated(example)
            leaves, tree = pytree.tree_flatten(made)
            if tree == self._tree and all(map(_alike, leaves, self._leaves)):
                rows.append(leaves)
                continue
            rows.append(self._leaves)
            counted[place] = False
            if made is not None:
                others.append((place, made))
        columns = [torch.cat(column) for column in zip(*rows, strict=True)] or [
            leaf[:0] for leaf in self._leaves
        ]
        together = pytree.tree_unflatten(columns, self._tree)
        return PlannedBatch(numbers, together, None if counted.all() else counted, tuple(others))

    def _collated(self, example: Any) -> Any:
        """The example as a batch of one; None if there is none."""
        if isinstance(example, _Unreadable):
            return None
        try:
            return self._single(example)
        except MemoryError:
            raise
        except Exception:
            if self._strict:
                raise
            return None

    def _single(self, example: Any) -> Any:
        collated = self._collate([example])
        return dict(collated) if isinstance(collated, Mapping) else collated


def _alike(leaf: Any, other: Tensor) -> bool:
    """Whether this is a tensor of the same shape, type and layout, in the same memory."""
    names = ("shape", "dtype", "layout", "device")
    return isinstance(leaf, Tensor) and all(getattr(leaf, n) == getattr(other, n) for n in names)


def _same_form(example: Any, other: Any) -> bool:
    """Whether torch's collate function certainly makes the same shapes and types of two examples."""
    if type(example) is not type(other):
        return False
    if isinstance(example, Tensor | np.ndarray):
        return bool(example.shape == other.shape and example.dtype == other.dtype)
    if isinstance(example, tuple | list):
        return len(example) == len(other) and all(map(_same_form, example, other))
    return isinstance(example, bool | int | float)


def _check_counted(batch: PlannedBatch, size: int) -> None:
    """An error unless every example is in its row, or beside it, once."""
    counted = batch.counted
    places = [place for place, _ in batch.others]
    if counted is None:
        fits = not places
    else:
        fits = counted.dtype == torch.bool and counted.shape == (size,)
        fits = fits and len(set(places)) == len(places) and not counted[places].any()
    if not fits:
        raise InvalidArgument(
            "batch must have every example once; got one that was changed since a loader of this run "
            "handed it out. Nothing was released."
        )


class _Packed(nn.Module):
    """The loss of one example as a module whose input is one row of bytes: the tensors of the example."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self._loss = model, loss
        self._form: Any = None

    def rows(self, examples: Any, size: int) -> Tensor:
        """The collated examples as one row of bytes each, on the device of the model."""
        leaves, tree = pytree.tree_flatten(examples)
        parts, form, device = [], [], next(self.model.parameters()).device
        for leaf in leaves:
            if not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) != size:
                got = (
                    f"a tensor of shape {tuple(leaf.shape)}"
                    if isinstance(leaf, Tensor)
                    else kind_of(leaf)
                )
                raise InvalidArgument(
                    f"collate must return tensors with a row for each of {size} examples; got {got}. "
                    "Examples that are packed together have no gradients of their own, and neither have "
                    "columns that are no numbers."
                )
            plain = leaf.detach().to(device).contiguous()
            data = plain.reshape(size, math.prod(plain.shape[1:]), 1).view(torch.uint8).flatten(1)
            form.append((data.shape[1], plain.shape[1:], plain.dtype))
            parts.append(nn.functional.pad(data, (0, -data.shape[1] % ALIGNED)))
        if not parts:
            raise InvalidArgument("collate must return tensors; got none.")
        self._form = tree, form
        return torch.cat(parts, 1)

    def forward(self, row: Tensor) -> Tensor:
        """The loss of the example in this row."""
        tree, form = self._form
        leaves, start = [], 0
        for size, shape, kind in form:
            leaves.append(row[:, start : start + size].view(kind).view(1, *shape))
            start += size + -size % ALIGNED
        value: object = self._loss(self.model, pytree.tree_unflatten(leaves, tree))
        if not isinstance(value, Tensor) or value.numel() != 1:
            got = tuple(value.shape) if isinstance(value, Tensor) else kind_of(value)
            raise WrongType(f"loss must return one number; got {got}.")
        return value.reshape(1)


class _OneByOne(ClippedGradients):
    """Gradients of one example after the other, for models of which torch cannot compute many at once."""

    def _usable(self, inputs: Tensor, targets: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """As for all at once; each example draws its own random numbers, so that none shifts others'."""
        seeds = torch.randint(2**62, (len(inputs),)).tolist()
        counted, each = torch.ones(len(inputs), dtype=torch.bool), []
        with seeded_generators() as seed:
            for place, own in enumerate(seeds):
                seed(own)
                row, target = inputs[place][None].clone(), targets[place][None].clone()
                try:
                    each.append(self._stacked(row, target, explain=self.strict))
                except SharpDPError:
                    if self.strict:
                        raise
                    zeros = torch.zeros_like(row), torch.zeros_like(target)
                    each.append(self._stacked(*zeros, explain=True))
                    counted[place] = False
        return {name: torch.cat([one[name] for one in each]) for name in each[0]}, counted

    def _each(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        some = {name: value.requires_grad_() for name, value in self.parameters.items()}
        kept = dict(self.model.named_buffers())
        each: list[dict[str, Tensor]] = []
        for row in inputs.detach():
            # what the model writes to its buffers is of this example, and is dropped
            buffers = {name: value.clone() for name, value in kept.items()}
            with torch.enable_grad():
                value = functional_call(self.model, {**some, **buffers}, (row[None],)).sum()
            found = torch.autograd.grad(value, list(some.values()), materialize_grads=True)
            each.append(dict(zip(some, found, strict=True)))
        return {name: torch.stack([gradients[name] for gradients in each]) for name in some}


def _unpacked(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same by the names of the model's own parameters."""
    return {name.removeprefix(PREFIX): value for name, value in values.items()}


def _given(output: Tensor, _: Tensor) -> Tensor:
    """The loss, which the module has computed already."""
    return output
