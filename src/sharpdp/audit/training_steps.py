"""Steps that `replay` takes, made of a `Training` of sharpdp or of a loop with Opacus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

from sharpdp._validate import count, short_repr
from sharpdp.audit.adversarial import at_kinks, check_tensors, counts_as_zero, spoiled
from sharpdp.audit.recording import Release
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import Adjacency

__all__ = ["TrainingStep", "opacus_step", "training_step", "zeroed"]


def training_step(make: Callable[[Any], Any], *, steps: int = 1) -> TrainingStep:
    """A step for `replay` that advances a `sharpdp.learn.Training`, built anew for every data set.

    The noise that the training draws is recorded where it is added. Published are the parameters and
    buffers after every step, the number of steps, and the constant that sums are divided by.

    If noise is correlated by a strategy C, the independent noise behind it is what is recorded: C times
    what was added in all steps so far. It has the planned law only if C is the strategy that is told, and
    if nothing of earlier steps was forgotten.

    Args:
        make: A function of the data that returns a `Training` which has run no step; the key, the model's
            initial parameters and everything else must not depend on the data.
        steps: How many steps to advance, at least 1.

    Returns:
        The function of data and `release`.

    Raises:
        InvalidArgument: steps is out of range.
        WrongType: make is no function.
    """
    often = count(steps=steps)
    _check_function(make)
    return TrainingStep(make, often)


@dataclass(frozen=True)
class TrainingStep:
    """A function of data and `release` that advances a training; see `training_step`.

    Attributes:
        make: A function of the data that returns a `Training` which has run no step.
        steps: How many steps to advance.
    """

    make: Callable[[Any], Any]
    steps: int

    def adversarial(self, data: Any) -> tuple[Any, list[Any]]:
        """Data whose gradients rounding decides, and neighbors of them with a spoiled record.

        Args:
            data: Inputs and targets, tensors with one row per record.

        Returns:
            Inputs and targets, many of them moved to kinks of the loss, and a list of such pairs. Where
            the training claims add/remove, some of them have one record less.

        Raises:
            WrongType: data are no such tensors.
        """
        training = self.make(check_tensors(data))
        inputs, targets = at_kinks(training.gradients.each, data)
        chosen = range(0, len(inputs), max(len(inputs) // 8, 1))
        others = [
            other
            for index in chosen
            for _, other in spoiled((inputs, targets), index)
            if counts_as_zero(training.gradients.sum, other, index)
        ]
        if training.adjacency is Adjacency.ADD_REMOVE:
            for index in chosen:
                indices = [number for number in range(len(inputs)) if number != index]
                others.append((inputs[indices], targets[indices]))
        return (inputs, targets), others

    def __call__(self, data: Any, release: Release) -> dict[str, Any]:
        """Advance a training over these data, with noise that goes through `release`."""
        training = self.make(data)
        noise = training._noise
        added = noise.added
        strategy = getattr(training.mechanism, "strategy", None)
        so_far: list[dict[str, Any]] = []

        def recorded(total: Any, number: int) -> Any:
            noisy = added(total, number)
            if strategy is None:
                used = release(total, float(noise.deviation), noisy)
                return {name: _like(used[name], total[name]) for name in total}
            so_far.append({name: noisy[name] - total[name] for name in total})
            fresh = _fresh(strategy, so_far, training.mechanism.batches.steps)
            found = {name: total[name] + fresh[name] for name in total}
            found |= {f"released {name}": noisy[name] for name in total}
            used = release(total, float(noise.deviation), found)
            return {name: _like(used[f"released {name}"], total[name]) for name in total}

        published: dict[str, Any] = {}
        with mock.patch.object(noise, "added", recorded):
            for number in range(self.steps):
                training.advance()
                published[f"after step {number}"] = _state(training.model)
        published["steps"] = training.step
        published["divisor"] = training.expected_batch_size
        return published


def opacus_step(run: Callable[[Any], Any]) -> Callable[[Any, Release], Any]:
    """A step for `replay` that runs any training code with Opacus' optimizers.

    While it runs, Opacus' `add_noise` is recorded: the sums of clipped gradients before it, and the noisy
    ones after it. What the code returns is what it publishes; return the model, or its parameters.

    Args:
        run: A function of the data that trains with Opacus and returns what is published. Models, seeds
            and batches must not depend on the data but through the records.

    Returns:
        The function of data and `release`.

    Raises:
        WrongType: run is no function.
    """
    _check_function(run)

    def step(data: Any, release: Release) -> Any:
        from opacus.optimizers import DPOptimizer

        original = DPOptimizer.add_noise

        def recorded(optimizer: Any) -> None:
            sums = {f"parameter {i}": p.summed_grad.clone() for i, p in enumerate(optimizer.params)}
            original(optimizer)
            noisy = {f"parameter {i}": p.grad.clone() for i, p in enumerate(optimizer.params)}
            deviation = float(optimizer.noise_multiplier * optimizer.max_grad_norm)
            used = release(sums, deviation, noisy)
            for i, parameter in enumerate(optimizer.params):
                parameter.grad = _like(used[f"parameter {i}"], parameter).view_as(parameter)

        with mock.patch.object(DPOptimizer, "add_noise", recorded):
            published = run(data)
        return _state(published) if hasattr(published, "state_dict") else published

    return step


def zeroed(data: tuple[Any, Any], index: int) -> tuple[Any, Any]:
    """The data with one record made a null record, which adds nothing: a neighbor under zero-out.

    Its inputs become NaN, and `Training` takes a record without a usable gradient for zero.

    Args:
        data: Inputs and targets, tensors with one row per record; inputs are real numbers.
        index: The record.

    Returns:
        Inputs and targets of the neighbor.

    Raises:
        InvalidArgument: index is no record.
        WrongType: inputs are no real numbers.
    """
    inputs, targets = data
    if not inputs.is_floating_point():
        raise WrongType(f"inputs must be real numbers to be made null; got {inputs.dtype}.")
    position = count(index=index, least=0)
    if position >= len(inputs):
        raise InvalidArgument(f"index must be below the {len(inputs)} records; got {position}.")
    neighbor = inputs.clone()
    neighbor[position] = float("nan")
    return neighbor, targets


def _fresh(strategy: Any, added: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    """The last entry of C times what was added in all steps so far."""
    last = len(added) - 1
    total = {name: 0.0 * value for name, value in added[last].items()}
    for step in range(max(0, len(added) - strategy.bands(steps)), len(added)):
        column = strategy.column(step, steps)
        if last - step < len(column):
            for name in total:
                total[name] = total[name] + float(column[last - step]) * added[step][name]
    return total


def _check_function(function: object) -> None:
    if isinstance(function, type) or not callable(function):
        raise WrongType(f"a function of the data is needed; got {short_repr(function)}.")


def _like(value: Any, tensor: Any) -> Any:
    """The value as a tensor of the kind of another."""
    import torch

    # a copy: what was recorded must stay as it is
    return torch.as_tensor(value).to(dtype=tensor.dtype, device=tensor.device).clone()


def _state(model: Any) -> dict[str, Any]:
    """All parameters and buffers of a model, as they are now."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
