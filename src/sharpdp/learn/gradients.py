"""Sums of clipped per-example gradients, in physical pieces of a batch.

A gradient is a mapping from the names of the model's trainable parameters to tensors.

Clipping in the arithmetic that runs. Let the clip be c 2^e with 1 <= c < 2. Every clipped gradient is
held as whole multiples of the grid 2^(e - 30), and the number of grid steps of an entry g is

    round(fl(g s)),    s = fl(2^(30 - e) min(1, clip / norm) shrink)

for a gradient of d entries in single or double precision. Four roundings can lengthen it, and
shrink = 1 - 2^-20 - sqrt(d) 2^-31 - d 2^-53 pays for all of them:

- the norm: squares and their sum in any order, in double precision, are off by at most a relative
  (d + 1) 2^-53, the root by half of that; the root itself, and the quotient and the products in s, add
  a few times 2^-53. An entry of a double-precision gradient whose square underflows is below 2^-510,
  nothing beside a clip of at least 1e-30;
- s as a number of the gradient's precision: a relative 2^-24. It is never subnormal: the norm is at most
  sqrt(d) 2^128, so that s >= 2^30 shrink / (sqrt(d) 2^128) > 2^-126 for d < 2^52. Where 2^(30 - e) would
  overflow in single precision, the product is taken in double precision;
- the product g s: a relative 2^-24, and one that underflows is rounded to 0 below;
- the grid: half a step for each entry, in l2 norm sqrt(d) / 2 steps, at most sqrt(d) 2^-31 of the clip.

The first three multiply to less than 1 + 2^-22 + d 2^-53, so that all together stay below 1. Grid steps
of an entry are at most 2^31, so that the sum of up to 2^22 examples is a whole number of at most 2^53: it
is exact in double precision, in any order and in any pieces. One example therefore moves the sum by its
own clipped gradient and by nothing else, provided that it does not move the gradients of others.

It does not, by one rule: *every other row is computed bit for bit the same*. Torch may round a row in
another way at another place, or in a tensor of another shape, and where rounding decides (a ReLU at 0) a
gradient then changes by its full length. So nothing is ever computed in another shape or at another place
because of what a record holds. Where model or loss raise an error, the records to blame are looked for in
pieces of the same shape, records of zeros stand in their places when the piece is computed again, with
the same random numbers, and their rows count as zero. Which way a gradient is computed (`layers_of`, or
vmap) is settled by a record of zeros. Torch is told to use deterministic algorithms meanwhile.
docs/proofs/sensitivity.md has the proof, and says what it assumes of torch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sharpdp._validate import (
    HintedKeywords,
    count,
    flag,
    invalid,
    kind_of,
    positive_scale,
    short_repr,
)
from sharpdp.errors import InvalidArgument, SharpDPError, WrongType
from sharpdp.learn.layer_gradients import Layers, layer_gradients, layers_of
from sharpdp.learn.randomizers.validation import not_finite
from sharpdp.learn.written_state import WrittenWeights, check_layers, unchanged

__all__ = [
    "LARGEST_BATCH",
    "SAME_BITS",
    "ClippedGradients",
    "Loss",
    "check_examples",
    "cuda_devices",
    "seed_generators",
    "seeded_generators",
]

Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of one example: the model's output and the target, both with a first axis of length one."""

_GRID_BITS = 30
"""A clip has between 2^30 and 2^31 grid steps."""

_CACHED = 2**18
"""Numbers that are copied at once: two megabytes in double precision."""

_STATELESS = 1e-3
"""Relative difference of two gradients of one example that rounding on any device explains."""

SAME_BITS = (
    "torch computes the gradient of an example bit for bit the same, whatever the examples hold that are "
    "computed with it"
)
"""The condition under which one example moves a sum by its own gradient alone."""

LARGEST_BATCH = 2 ** (53 - _GRID_BITS - 1)
"""So many clipped gradients have a sum that is exact in double precision."""


@dataclass(frozen=True)
class ClippedGradients(HintedKeywords):
    """Per-example gradients of a loss, clipped to l2 norm at most `clip` and summed.

    The model may not mix the examples of a batch: a layer such as BatchNorm would give no gradient of one
    example. Nor may it write to its parameters or buffers.

    A record without a usable gradient counts as zero: one whose gradient, or the norm of it, is not
    finite, and one on which the model or the loss raises an error though they accept a record of zeros.
    The gradients of all others are bit for bit what they are with any other record in its place, so that
    nothing about the run depends on a record but through its clipped gradient. With `strict=True`
    such a record stops the run, and the error shows what went wrong, values of the record included.
    That the run stopped tells whoever learns of it that such a record was in the batch, which no privacy
    guarantee covers: it is for data that may be looked at.

    Args:
        model: The model.
        loss: Function of an output and a target.
        clip: Largest l2 norm of an example's gradient, from 1e-30 to 1e30.
        physical_batch_size: Examples that are computed at a time, at least 1. Gradients may depend on it
            in their last bits.
        strict: True to stop at a record without a usable gradient.

    Raises:
        InvalidArgument: A number is out of range, the model mixes examples or writes to its weights, or
            it has no trainable real parameters of known shape.
        WrongType: A field has the wrong type.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(model.weight, 0.0)
    >>> take = ClippedGradients(model, nn.MSELoss(), clip=1.0)
    >>> total = take.sum(torch.tensor([[3.0], [0.125]]), torch.tensor([[1.0], [-1.0]]))
    >>> round(float(total["weight"]), 5)  # gradients -6 and 1/4, clipped to -1 and 1/4
    -0.75
    """

    model: nn.Module
    loss: Loss
    clip: float
    physical_batch_size: int = 256
    strict: bool = False
    _by_layers: dict[object, bool] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Check the numbers and that the model treats examples one by one."""
        _check_model(self.model)
        if isinstance(self.loss, type) or not callable(self.loss):
            raise WrongType(
                f"loss must be a function of an output and a target; got {short_repr(self.loss)}. "
                "Try torch.nn.CrossEntropyLoss()."
            )
        hint = "It is the largest l2 norm of one example's gradient."
        object.__setattr__(self, "clip", positive_scale(clip=self.clip, hint=hint))
        pieces = count(physical_batch_size=self.physical_batch_size, hint="It counts examples.")
        object.__setattr__(self, "physical_batch_size", pieces)
        flag(strict=self.strict)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trainable parameters by name, detached."""
        named = self.model.named_parameters()
        return {name: value.detach() for name, value in named if value.requires_grad}

    def sum(
        self, inputs: Tensor, targets: Tensor, *, counted: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The sum over the examples, in double precision; zero for an empty batch.

        Holds when: the loss of an example depends on that example and the parameters alone, and torch
        computes a row bit for bit the same whatever stands in the other rows of a piece of the same
        shape. Then one example in place of another (or of one that counts as zero) moves the sum by its
        own clipped gradient alone, an l2 norm of at most `clip`, rounding included. If examples were to
        move up, as with add/remove, only a physical_batch_size of 1 rules out that others' gradients
        change.

        Args:
            inputs: Examples, one per row.
            targets: Their targets.
            counted: Which rows count, a Boolean each; the others are computed, and count as zero. None
                for all.
        """
        _check_pair(inputs, targets)
        if len(inputs) > LARGEST_BATCH:
            hint = "Sum parts of the batch, and add up the sums."
            raise invalid("inputs", f"at most {LARGEST_BATCH} examples", len(inputs), hint)
        _check_counted(counted, len(inputs))
        parameters = self.parameters
        total = {name: torch.zeros_like(v, dtype=torch.float64) for name, v in parameters.items()}
        with unchanged(self.model), _deterministic():
            for start in range(0, inputs.shape[0], self.physical_batch_size):
                piece = slice(start, start + self.physical_batch_size)
                mine = None if counted is None else counted[piece]
                # a copy starts at an address that is aligned alike wherever the piece begins
                gradients, usable = self._usable(inputs[piece].clone(), targets[piece].clone())
                for name, steps in self._grid_steps(gradients, _both(usable, mine)):
                    total[name] += steps
        return {name: value * self._grid for name, value in total.items()}

    def each(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradient of every example before it is clipped, stacked along the first axis.

        In single precision at least: half precision would lengthen what was clipped. What the model or
        the loss says of a record that they cannot take is withheld unless `strict`.
        """
        _check_pair(inputs, targets)
        return self._stacked(inputs, targets, explain=self.strict)

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """An error if the model and the loss cannot take a record of zeros shaped like these.

        Or if they write to parameters or buffers. No record is looked at, so that the error may say
        everything. Random numbers that the model draws are put back.
        """
        _check_pair(inputs, targets)
        with torch.random.fork_rng(devices=cuda_devices()), unchanged(self.model):
            self._stacked(*_zeros_like_one(inputs, targets), explain=True)

    def check_stateless(self, inputs: Tensor, targets: Tensor) -> None:
        """An error if model or loss keep something of an example that changes the gradient of the next.

        The gradients of a record of zeros and of the first of these are taken twice, in turns. What the
        error says does not depend on the record; one that has no gradient is not used. A state that takes
        more than two examples to show is not found.
        """
        if layers_of(self.model) is not None or not len(inputs):  # layers that keep nothing
            return
        zeros, first = _zeros_like_one(inputs, targets), (inputs[:1], targets[:1])
        try:
            with unchanged(self.model):
                before, after = (
                    [_vector(self._repeatable(*one)) for one in (zeros, first)] for _ in range(2)
                )
        except WrittenWeights:
            raise
        except SharpDPError:
            return
        for once, again in zip(before, after, strict=True):
            far = _STATELESS * float(torch.maximum(once.norm(), again.norm()))
            if float((once - again).norm()) > far:  # False for what is not finite
                raise InvalidArgument(
                    "model and loss must treat every example on its own; got a gradient that changed "
                    "after another example was seen. Keep no state, such as hidden values of a recurrent "
                    "layer, from one call to the next."
                )

    def _repeatable(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Gradients with random numbers that are the same in every call; generators are put back."""
        with seeded_generators() as seed:
            seed(0)
            return self._stacked(inputs, targets, explain=False)

    def _usable(self, inputs: Tensor, targets: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """Gradients of single examples, and which of them count; None for all.

        A record on which model or loss raise an error does not: a record of zeros takes its place.
        """
        is_plain = type(self.loss).__module__ == nn.modules.loss.__name__
        plain = is_plain and self._layers(inputs, targets) is not None
        drawn = _Generators(also_python=not plain)
        try:
            return self.each(inputs, targets), None
        except SharpDPError:
            if self.strict:
                raise
        zeros = torch.zeros_like(inputs), torch.zeros_like(targets)
        # an error that no record is to blame for is raised here
        self._stacked(*zeros, explain=True)

        def raises(rows: Tensor) -> bool:
            """Whether these rows among zeros, each in its place, raise an error."""
            drawn.put_back()
            try:
                self._stacked(*_in_place(rows, inputs, targets), explain=False)
            except SharpDPError:
                return True
            return False

        counted = torch.ones(len(inputs), dtype=torch.bool)
        counted[_culprits(raises, torch.arange(len(inputs)))] = False
        drawn.put_back()
        rest = _in_place(counted.nonzero()[:, 0], inputs, targets)
        return self._stacked(*rest, explain=False), counted

    def _stacked(self, inputs: Tensor, targets: Tensor, *, explain: bool) -> dict[str, Tensor]:
        """Gradients of single examples in single precision at least, or why there are none."""
        try:
            gradients = self._each(inputs, targets)
        except SharpDPError:
            raise
        except Exception as failure:  # torch has many kinds, and the model and the loss their own
            kind, reason = type(failure).__name__, str(failure).partition("\n")[0]
            cause = failure if explain else None
        else:
            return {name: _fine(value) for name, value in gradients.items()}
        words = f"{kind}: {reason}" if explain and reason else kind
        withheld = "What it says may hold values of a record: strict=True shows it. "
        # raised outside of the except clause: the error that may hold a record is not attached
        raise InvalidArgument(
            "model and loss must give a number for one example, of inputs "
            f"{tuple(inputs.shape[1:])} ({inputs.dtype}) and targets {tuple(targets.shape[1:])} "
            f"({targets.dtype}); got {words}. {'' if explain else withheld}Nothing was released."
        ) from cause

    def _each(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        layers = self._layers(inputs, targets)
        if layers is not None:
            found = layer_gradients(layers, self._loss_of_output, inputs.detach(), targets.detach())
            return {name: found[name] for name in self.parameters}
        named = self.model.named_parameters()
        fixed = {name: value.detach() for name, value in named if not value.requires_grad}
        buffers = dict(self.model.named_buffers())

        def loss_of_one(some: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            output = functional_call(self.model, {**some, **fixed, **buffers}, (x.unsqueeze(0),))
            return self._loss(output, y.unsqueeze(0))

        gradients: dict[str, Tensor] = vmap(
            grad(loss_of_one), in_dims=(None, 0, 0), randomness="different"
        )(self.parameters, inputs.detach(), targets.detach())
        return gradients

    def _layers(self, inputs: Tensor, targets: Tensor) -> Layers | None:
        """The layers by which gradients are computed; None if they are taken by vmap.

        A record of zeros decides, once for records of one shape and type: what records hold must not.
        """
        layers = layers_of(self.model)
        if layers is None:
            return None
        form = tuple((rows.shape[1:], rows.dtype, rows.device) for rows in (inputs, targets))
        if form not in self._by_layers:
            with torch.random.fork_rng(devices=cuda_devices()):
                zeros = _zeros_like_one(inputs, targets)
                try:
                    layer_gradients(layers, self._loss_of_output, *zeros)
                except Exception:  # of whatever kind: what is wrong, if anything, vmap says
                    self._by_layers[form] = False
                else:
                    self._by_layers[form] = True
        return layers if self._by_layers[form] else None

    def _loss_of_output(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of one example from its output, neither with a first axis."""
        return self._loss(output.unsqueeze(0), target.unsqueeze(0))

    def _loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of one example, a tensor without axes."""
        value: object = self.loss(output, target)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            got = value.dtype if isinstance(value, Tensor) else kind_of(value)
            raise WrongType(f"loss must return a tensor of real numbers; got {got}.")
        return value.sum()

    @property
    def _grid(self) -> float:
        """Clipped gradients are multiples of this power of two."""
        return math.ldexp(1.0, math.frexp(self.clip)[1] - 1 - _GRID_BITS)

    def _grid_steps(
        self, each: Mapping[str, Tensor], counted: Tensor | None
    ) -> list[tuple[str, Tensor]]:
        """The sum of the clipped gradients that count in steps of the grid, for each parameter."""
        flat = {name: gradient.flatten(1) for name, gradient in each.items()}
        norms = _norms(flat)
        finite = torch.isfinite(norms)
        usable = finite if counted is None else finite & counted.to(finite.device)
        if not bool(usable.all()):
            bad = int((~finite).sum())
            if self.strict and bad:
                raise not_finite("gradients", bad)
            flat = {name: value.masked_fill(~usable[:, None], 0.0) for name, value in flat.items()}
            norms = norms.masked_fill(~usable, 0.0)
        entries = sum(value.shape[1] for value in flat.values())
        shrink = 1.0 - 2.0**-20 - math.sqrt(entries) * 2.0**-31 - entries * 2.0**-53
        factors = (self.clip / norms.clamp_min(self.clip)) * (shrink / self._grid)
        sums = []
        for name, value in flat.items():
            # larger factors are applied in double precision: in single precision they could
            # overflow
            kind = value.dtype if 1.0 / self._grid <= 2.0**120 else torch.float64
            scale, blocks = factors[:, None].to(kind), _row_blocks(value)
            shape = (blocks[0].stop, value.shape[1])
            scaled, exact = (value.new_empty(shape, dtype=t) for t in (kind, torch.float64))
            total = torch.zeros_like(exact[0])
            for block in blocks:
                rows = value[block]
                whole = torch.mul(rows, scale[block], out=scaled[: len(rows)]).round_()
                total += exact[: len(rows)].copy_(whole).sum(0)
            sums.append((name, total.view(each[name].shape[1:])))
        return sums


def _zeros_like_one(*tensors: Tensor) -> list[Tensor]:
    """A record of zeros with the shapes of these."""
    return [tensor.new_zeros((1, *tensor.shape[1:])) for tensor in tensors]


def _in_place(rows: Tensor, *tensors: Tensor) -> list[Tensor]:
    """Tensors of the same shapes with these rows in their places, and zeros in all others.

    >>> _in_place(torch.tensor([1]), torch.tensor([3, 4, 5]))
    [tensor([0, 4, 0])]
    """
    placed = [torch.zeros_like(tensor) for tensor in tensors]
    for filled, tensor in zip(placed, tensors, strict=True):
        filled[rows] = tensor[rows]
    return placed


def _culprits(raises: Callable[[Tensor], bool], rows: Tensor) -> list[int]:
    """Those of some rows that raise an error by themselves, found by halving.

    >>> _culprits(lambda rows: bool((rows % 5 == 3).any()), torch.arange(10))
    [3, 8]
    """
    if not raises(rows):
        return []
    if len(rows) == 1:
        return rows.tolist()
    middle = len(rows) // 2
    found = [*_culprits(raises, rows[:middle]), *_culprits(raises, rows[middle:])]
    if not found:
        raise InvalidArgument(
            "model and loss must treat every example on its own; got an error that several raise "
            "together and none alone. Nothing was released."
        )
    return found


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Rows that count by both of two, each of which may be None for all."""
    if one is None or other is None:
        return one if other is None else other
    return one & other


class _Generators:
    """The generators that a model may draw from, in the state in which they were noted.

    Those of Python and numpy take longer to note than a small step; torch's own layers use neither.
    """

    def __init__(self, *, also_python: bool = True) -> None:
        self._torch = torch.random.get_rng_state()
        self._cuda = [(device, torch.cuda.get_rng_state(device)) for device in cuda_devices()]
        self._others = (
            (random.getstate(), np.random.get_state())  # noqa: NPY002
            if also_python
            else None
        )

    def put_back(self) -> None:
        """Have them draw once more what they drew since."""
        torch.random.set_rng_state(self._torch)
        for device, state in self._cuda:
            torch.cuda.set_rng_state(state, device)
        if self._others is not None:
            random.setstate(self._others[0])
            np.random.set_state(self._others[1])  # noqa: NPY002


@contextmanager
def _deterministic() -> Iterator[None]:
    """Torch's algorithms that add in a fixed order, as far as it has them; it warns where it has none."""
    options: Any = torch.utils.deterministic
    before, filled = torch.get_deterministic_debug_mode(), options.fill_uninitialized_memory
    torch.set_deterministic_debug_mode(max(before, 1))
    options.fill_uninitialized_memory = False  # which takes time, and changes no sum
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        options.fill_uninitialized_memory = filled


def _vector(gradients: Mapping[str, Tensor]) -> Tensor:
    """All entries of a gradient in one row."""
    return torch.cat([value.reshape(-1).double() for value in gradients.values()])


def _fine(value: Tensor) -> Tensor:
    """In single precision at least."""
    return value if value.dtype in (torch.float32, torch.float64) else value.float()


def _norms(flat: Mapping[str, Tensor]) -> Tensor:
    """The l2 norm of every example's gradient, in double precision."""
    parts = []
    for value in flat.values():
        blocks = _row_blocks(value)
        # one copy of a block, used again: fresh memory for each would take most of the time
        copy = value.new_empty((blocks[0].stop, value.shape[1]), dtype=torch.float64)
        norms = [
            torch.linalg.vector_norm(copy[: len(rows)].copy_(rows), dim=1)
            for rows in (value[block] for block in blocks)
        ]
        parts.append(torch.cat(norms))
    norms_of_all: Tensor = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    return norms_of_all


def _row_blocks(rows: Tensor) -> list[slice]:
    """Rows in blocks whose copies in double precision stay in a processor's cache; at least one block."""
    size = max(_CACHED // max(rows.shape[1], 1), 1) if rows.device.type == "cpu" else len(rows)
    size = max(min(size, len(rows)), 1)
    return [slice(start, start + size) for start in range(0, max(len(rows), 1), size)]


def cuda_devices() -> list[int]:
    """The devices whose random numbers a model may draw, besides the processor."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []


def seed_generators(seed: int) -> None:
    """Seed the generators that a model may draw from."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:  # torch notes the stack for each device that may come up later: longer than a small step
        torch.default_generator.manual_seed(seed)


@contextmanager
def seeded_generators() -> Iterator[Callable[[int], None]]:
    """A function that seeds all generators a model may draw from, which are put back afterwards."""

    def seed(number: int) -> None:
        seed_generators(number)
        random.seed(number)
        np.random.seed(number % 2**32)  # noqa: NPY002

    drawn = _Generators()
    try:
        yield seed
    finally:
        drawn.put_back()


def _check_model(model: object) -> None:
    """An error unless gradients of single examples with real parameters make sense."""
    if not isinstance(model, nn.Module):
        raise WrongType(f"model must be a torch.nn.Module; got {short_repr(model)}.")
    _refuse_wrapped(model)
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and (
            isinstance(layer, nn.modules.batchnorm._BatchNorm) or layer.track_running_stats
        ):
            raise InvalidArgument(
                f"model must treat every example on its own; got {type(layer).__name__}, which mixes a "
                "batch. Use GroupNorm or LayerNorm."
            )
    check_layers(model)
    trainable = [
        (name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad
    ]
    if not trainable:
        raise InvalidArgument("model must have trainable parameters; got none.")
    for name, parameter in trainable:
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise InvalidArgument(
                f"model must have parameters with shapes; got {name!r}, which waits for its first "
                "input. Call the model once."
            )
        if not parameter.is_floating_point():
            raise InvalidArgument(
                f"model must have real parameters; got {name!r} of {parameter.dtype}."
            )


def _refuse_wrapped(model: nn.Module) -> None:
    """An error if the model, or a part of it, is spread over devices or processes.

    Such a wrapper averages gradients over workers, or holds a share of the parameters only, before
    anything could be clipped.
    """
    wrappers: dict[str, tuple[type, ...]] = {
        "DataParallel": (nn.DataParallel,),
        "DistributedDataParallel": (nn.parallel.DistributedDataParallel,),
    }
    if torch.distributed.is_available():
        from torch.distributed import fsdp

        kinds = (getattr(fsdp, name, None) for name in ("FullyShardedDataParallel", "FSDPModule"))
        wrappers["fully sharded data parallel"] = tuple(kind for kind in kinds if kind is not None)
    for layer in model.modules():
        for name, kinds_of_it in wrappers.items():
            if isinstance(layer, kinds_of_it):
                raise InvalidArgument(
                    f"model must not be wrapped for distributed training; got {name}, which averages "
                    "gradients before they are clipped. Pass the plain module, model.module: Training "
                    "shares out the batches by itself (torchrun)."
                )


def check_examples(inputs: object, targets: object) -> None:
    """An error unless both are dense tensors, one row an example."""
    for name, value in {"inputs": inputs, "targets": targets}.items():
        if not isinstance(value, Tensor) or value.dim() == 0 or value.layout != torch.strided:
            raise WrongType(
                f"{name} must be a dense torch tensor, one row an example; got {kind_of(value)}."
            )


def _check_pair(inputs: Tensor, targets: Tensor) -> None:
    check_examples(inputs, targets)
    if len(inputs) != len(targets):
        raise InvalidArgument(
            f"targets must be as many as inputs, {len(inputs)}; got {len(targets)}."
        )


def _check_counted(counted: object, size: int) -> None:
    """An error unless this is a Boolean for each row, or None for all."""
    if counted is not None and not (
        isinstance(counted, Tensor) and counted.dtype == torch.bool and counted.shape == (size,)
    ):
        raise WrongType(
            f"counted must be a torch tensor of {size} Booleans, or None; got {short_repr(counted)}."
        )
