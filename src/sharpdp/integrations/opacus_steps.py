"""What goes into the steps of an optimizer of Opacus, and who else moves its parameters."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from opacus.grad_sample import GradSampleModuleExpandedWeights
from opacus.optimizers import DPOptimizerFastGradientClipping
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from sharpdp.errors import InvalidArgument
from sharpdp.learn.written_state import WrittenState

__all__ = ["WatchedSteps"]

_WATCHED: weakref.WeakSet[Optimizer] = weakref.WeakSet()
"""Optimizers inside of those of Opacus that are watched."""


class WatchedSteps:
    """The steps of one optimizer of Opacus: how many examples went into each, and that it steps alone.

    Steps of the optimizer inside of it that do not follow a noisy sum, each by one, are refused, and so
    are those of any other optimizer along gradients of the same parameters. With a module, so is what its
    forward passes write.

    Args:
        optimizer: The optimizer, before its first step.
        module: What Opacus made of the model; None if its state is not watched.
    """

    def __init__(self, optimizer: Any, module: Any = None) -> None:
        """Watch every step from here on."""
        self.optimizer, self.examples = optimizer, 0
        self._state = None if module is None else WrittenState(_called(module))
        self._is_noisy = False
        self._noisy_sum, optimizer.pre_step = optimizer.pre_step, self._pre_step
        inside = optimizer.original_optimizer
        inside.register_step_pre_hook(self._before_step)
        _WATCHED.add(inside)
        others = register_optimizer_step_pre_hook(_refuse_others(weakref.ref(self)))
        weakref.finalize(self, others.remove)

    @classmethod
    def from_first_step(cls, optimizer: Any) -> WatchedSteps:
        """Those of an optimizer that is in the middle of its first step.

        Args:
            optimizer: The optimizer.

        Returns:
            Its steps, this one included.

        Raises:
            InvalidArgument: The step sums up pieces of which only the last one is known.
        """
        if optimizer._is_last_step_skipped:
            raise InvalidArgument(
                "the optimizer must be known before the first piece of a batch; got a first step that "
                "sums up pieces. Call accountant.watch(loader, module=module, optimizer=optimizer) with "
                "what make_private of Opacus returned, or use that of sharpdp."
            )
        steps = cls(optimizer)
        steps.examples, steps._is_noisy = _examples(optimizer), True
        return steps

    @property
    def is_state_watched(self) -> bool:
        """Whether a forward pass that writes parameters or buffers would be seen."""
        return self._state is not None

    @property
    def signaled(self) -> int:
        """For how many calls to come it was said whether they sum up a piece or end a batch."""
        return len(self.optimizer._step_skip_queue)

    def check_nothing_written(self) -> None:
        """Refuse a model into which a forward pass wrote.

        Raises:
            InvalidArgument: It did.
        """
        if self._state is not None and self._state.written:
            self._state.check()

    def _pre_step(self, *arguments: Any) -> Any:
        if self._state is not None:
            self._state.check()
        pieces = self.examples if self.optimizer._is_last_step_skipped else 0
        self.examples = pieces + _examples(self.optimizer)
        self._is_noisy = bool(self._noisy_sum(*arguments))
        if self._is_noisy and self._state is not None:
            self._state.settle()
        return self._is_noisy

    def _before_step(self, *_: Any) -> None:
        if not self._is_noisy:
            raise InvalidArgument(
                "optimizer must be the one that make_private returned; got a step of the one inside of "
                "it, along gradients that are not clipped and have no noise."
            )
        self._is_noisy = False


def _called(module: Any) -> Any:
    """The module whose calls have the parameters of the model: expanded weights exchange them inside."""
    return module if isinstance(module, GradSampleModuleExpandedWeights) else module._module


def _examples(optimizer: Any) -> int:
    """How many examples have a gradient of their own, the same for every parameter; 0 without any."""
    is_ghost = isinstance(optimizer, DPOptimizerFastGradientClipping)
    name = "_norm_sample" if is_ghost else "grad_sample"
    counts = set()
    for parameter in optimizer.params:
        found = getattr(parameter, name, None)
        if found is None:  # Opacus says what is missing
            return 0
        counts.add(sum(map(len, found)) if isinstance(found, list) else len(found))
    if len(counts) > 1:
        raise InvalidArgument(
            "every parameter must have one gradient for each example; got "
            f"{' and '.join(map(str, sorted(counts)))} of them for different parameters."
        )
    return max(counts, default=0)


def _refuse_others(steps: weakref.ref[WatchedSteps]) -> Callable[..., None]:
    """A hook on the steps of all optimizers; it does not keep the watched one alive."""

    def hook(other: Optimizer, *_: Any) -> None:
        watched = steps()
        if watched is None or other in _WATCHED:
            return
        mine = set(map(id, watched.optimizer.params))
        theirs = (one for group in other.param_groups for one in group["params"])
        if any(one.grad is not None and id(one) in mine for one in theirs):
            raise InvalidArgument(
                f"parameters must be moved by the optimizer that make_private returned; got a step of "
                f"another {type(other).__name__} along their gradients, which are not clipped and have "
                "no noise. To go on with public data, train copy.deepcopy of the model."
            )

    return hook
