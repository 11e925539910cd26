"""Correlated noise for released sums, as DP-FTRL adds it, drawn as exactly as independent noise is.

With x_t the sum of step t and C the strategy, the analysis is about

    y_t = (C x)_t + deviation Z_t,    Z_t independent standard normal vectors,

and x + C^-1 (deviation Z) = C^-1 y is a function of y alone. The steps here follow that sentence. Step t
computes (C x)_t from the sums themselves, releases y_t by `StepNoise` (rounded as if Z had endlessly many
digits), and solves C h = y for h_t with the y and h of earlier steps. However that is rounded, h_t is a
function of y_1, ..., y_t, which already may be known: last bits of h tell nothing else.

What is left to rounding is (C x)_t. It is held as two doubles (`sharpdp.numerics.two_doubles`), with an
error of at most `_rounding` times the largest sum, 2^22 clipped gradients. Over all steps and both of two
neighbors that lengthens the difference between them by less than one part in 2^21, for which the
deviation of `StepNoise` has room; strategies for which that is not so are refused.

The memory, sums of earlier steps and what was released for them, is as secret as the data: with it, the
noise of a release can be removed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sharpdp.errors import InvalidArgument
from sharpdp.learn.gaussian_noise import StepNoise, check_sums
from sharpdp.learn.gradients import LARGEST_BATCH
from sharpdp.mechanisms.strategies import BufferedLinearToeplitz, Strategy
from sharpdp.numerics.two_doubles import add_exactly, add_multiple, multiply_exactly

__all__ = ["CorrelatedStepNoise", "NoiseMemory"]

Floats = NDArray[np.float64]
Sums = dict[str, Tensor]

ROOM = 2.0**-21
"""Half of what the deviation of `StepNoise` is longer than planned."""


@dataclass(frozen=True)
class NoiseMemory:
    """What the noise of later steps depends on: secret, and part of every checkpoint.

    Attributes:
        sums: Vectors from the sums of earlier steps, for (C x)_t.
        released: Vectors from the releases of earlier steps, for h_t.
    """

    sums: tuple[Floats, ...] = ()
    released: tuple[Floats, ...] = ()

    def state(self) -> dict[str, list[Tensor]]:
        """Plain data for a checkpoint."""
        return {
            "sums": [torch.from_numpy(vector.copy()) for vector in self.sums],
            "released": [torch.from_numpy(vector.copy()) for vector in self.released],
        }

    @classmethod
    def of_state(cls, state: object, like: NoiseMemory) -> NoiseMemory:
        """The memory of a checkpoint, if it has as many vectors of the same lengths as another one."""
        try:
            read = dict(state)  # type: ignore[call-overload]
            found = cls(
                *(
                    tuple(vector.detach().double().numpy().copy() for vector in read[name])
                    for name in ("sums", "released")
                )
            )
        except Exception as fault:  # of whatever kind: it is no such state
            raise InvalidArgument(LOST) from fault
        shapes = [
            [vector.shape for vector in (*memory.sums, *memory.released)]
            for memory in (found, like)
        ]
        if shapes[0] != shapes[1] or not all(
            np.isfinite(vector).all() for vector in (*found.sums, *found.released)
        ):
            raise InvalidArgument(LOST)
        return found


LOST = (
    "path must be a checkpoint with the memory of the noise; got one without it, or with that of another "
    "run. Later noise has to cancel earlier noise: without the memory it would not be what was accounted."
)


class CorrelatedStepNoise:
    """Adds noise to one sum of each step, correlated over steps by a strategy.

    Args:
        strategy: The matrix C.
        steps: How many steps the run has.
        noise_multiplier: Deviation of the independent noise in units of clip.
        clip: Largest l2 norm of an example's gradient.
        key: Secret of at least 16 bytes.
        start: Number of steps that are done.
        purpose: Whatever else makes the release what it is; see `StepNoise`.
        memory: The memory after those steps.

    >>> from sharpdp.mechanisms.strategies import BandedStrategy
    >>> noise = CorrelatedStepNoise(
    ...     strategy=BandedStrategy(coefficients=(1.0, 0.5)),
    ...     steps=10,
    ...     noise_multiplier=1.0,
    ...     clip=2.0,
    ...     key=b"k" * 32,
    ... )
    >>> released = noise.added({"weight": torch.zeros(3, dtype=torch.float64)}, step=0)
    >>> len(noise.memory_before(1).sums)
    1
    """

    def __init__(
        self,
        *,
        strategy: Strategy,
        steps: int,
        noise_multiplier: float,
        clip: float,
        key: bytes,
        start: int = 0,
        purpose: str = "",
        memory: NoiseMemory | None = None,
    ) -> None:
        """Noise for the steps from `start` on."""
        self._fresh = StepNoise(
            noise_multiplier=noise_multiplier,
            clip=clip,
            key=key,
            start=start,
            purpose=f"{strategy!r} over {steps} steps; {purpose}",
        )
        self._strategy, self._steps = strategy, steps
        self._sums = _sums_of(strategy, steps)
        self._memories = {start: NoiseMemory() if memory is None else memory}
        # that of (C x)_t, and of its fraction of a step of the grid, in up to 2^40 entries
        in_sums = self._sums.rounding() * LARGEST_BATCH
        in_steps = 2.0**-76 * 2.0**20 * noise_multiplier / float(strategy.column(0, 1)[0])
        if 2.0 * math.sqrt(steps) * (in_sums + in_steps) > ROOM:
            raise InvalidArgument(
                "mechanism must have fewer bands, fewer steps or less noise for rounding not to matter; "
                f"got {strategy.describe()} over {steps:,} steps at noise multiplier "
                f"{noise_multiplier:g}."
            )

    @property
    def deviation(self) -> float:
        """Standard deviation of the independent noise."""
        return self._fresh.deviation

    def memory_before(self, step: int) -> NoiseMemory:
        """The memory with which a step begins: the next one, or the one that was released last."""
        return self._memories[step]

    def memory_like(self, step: int, size: int) -> NoiseMemory:
        """A memory of the form that it has when a step begins, for so many parameters."""
        zeros, vectors = np.zeros(size), 0
        memory: tuple[float, ...] = ()
        for _ in range(step):
            _, memory = self._strategy.correlated(0.0, memory)
            if len(memory) == vectors:  # so many are kept from here on
                break
            vectors = len(memory)
        return NoiseMemory(self._sums.zeros(step, zeros), (zeros,) * vectors)

    def added(self, total: Mapping[str, Tensor], step: int) -> Sums:
        """The sums with correlated noise, in double precision."""
        check_sums(total)
        memory = self._memories.get(step)
        if memory is None:
            raise InvalidArgument(
                f"step must be {max(self._memories)}, the next one; got {step}. Noise is correlated with "
                "that of the steps before."
            )
        flat = np.concatenate(
            [
                value.detach().to("cpu", torch.float64).numpy().reshape(-1)
                for value in total.values()
            ]
        )
        upper, lower, sums = self._sums.applied(flat, step, memory.sums)
        further = _like(total, lower) if lower.any() else None
        noisy = self._fresh.added(_like(total, upper), step, lower=further)
        joined = np.concatenate([value.cpu().numpy().reshape(-1) for value in noisy.values()])
        solved, released = self._strategy.correlated(joined, memory.released)
        # the step before stays: if it turns out not to be counted, it comes again
        self._memories = {step: memory, step + 1: NoiseMemory(sums, tuple(released))}
        return {name: value.to(total[name].device) for name, value in _like(total, solved).items()}


class _Window:
    """(C x)_t from the latest sums themselves, as many as there are bands less one."""

    def __init__(self, strategy: Strategy, steps: int) -> None:
        self._strategy, self._steps = strategy, steps
        self._bands = strategy.bands(steps)
        self._column = strategy.column(0, steps) if strategy.toeplitz else None

    def rounding(self) -> float:
        """Bound on the error of an entry over the largest sum and the largest entry of C."""
        return 2.0 * self._bands**3 * 2.0**-106

    def zeros(self, step: int, zeros: Floats) -> tuple[Floats, ...]:
        return (zeros,) * min(step, self._bands - 1)

    def applied(
        self, total: Floats, step: int, earlier: tuple[Floats, ...]
    ) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        """(C x)_t as two doubles, and the sums for the next step, the latest first."""
        upper, lower = np.zeros_like(total), np.zeros_like(total)
        latest = (total, *earlier)[: self._bands]
        for lag, numbers in enumerate(latest):
            add_multiple(upper, lower, self._entry(step, lag), numbers)
        return (*add_exactly(upper, lower), latest[: self._bands - 1])

    def _entry(self, step: int, lag: int) -> float:
        if self._column is not None:
            return float(self._column[lag])
        return float(self._strategy.column(step - lag, self._steps)[lag])


class _Buffers:
    """(C x)_t from one decaying sum for each buffer, held as two doubles."""

    def __init__(self, strategy: BufferedLinearToeplitz, steps: int) -> None:
        self._scales, self._decays, self._steps = strategy.scales, strategy.decays, steps

    def rounding(self) -> float:
        """Bound on the error of an entry over the largest sum; the largest entry of C is at least 1."""
        # a buffer adds up at most as many sums as there are steps, with an error of 2^-102 in each step
        each = self._steps * self._steps * 2.0**-102
        return (1.0 + len(self._scales)) * (1.0 + sum(map(abs, self._scales))) * each

    def zeros(self, step: int, zeros: Floats) -> tuple[Floats, ...]:
        return (zeros,) * (2 * len(self._decays) if step else 0)

    def applied(
        self, total: Floats, step: int, earlier: tuple[Floats, ...]
    ) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        """(C x)_t as two doubles, and the buffers for the next step."""
        upper, lower = total.copy(), np.zeros_like(total)
        if not earlier:
            kept = [vector for _ in self._decays for vector in (total, np.zeros_like(total))]
            return upper, lower, tuple(kept)
        kept = []
        pairs = zip(self._scales, self._decays, earlier[::2], earlier[1::2], strict=True)
        for scale, decay, buffer, rest in pairs:
            add_multiple(upper, lower, scale, buffer)
            lower += scale * rest
            product, missing = multiply_exactly(decay, buffer)
            grown, lost = add_exactly(product, total)
            kept += add_exactly(grown, missing + lost + decay * rest)
        return (*add_exactly(upper, lower), tuple(kept))


def _sums_of(strategy: Strategy, steps: int) -> _Window | _Buffers:
    if isinstance(strategy, BufferedLinearToeplitz):
        return _Buffers(strategy, steps)
    return _Window(strategy, steps)


def _like(total: Mapping[str, Tensor], flat: Floats) -> Sums:
    """A vector as tensors by name, of the shapes of others."""
    parts = np.split(flat, np.cumsum([value.numel() for value in total.values()])[:-1])
    pairs = zip(total.items(), parts, strict=True)
    return {
        name: torch.from_numpy(np.ascontiguousarray(part)).view(value.shape)
        for (name, value), part in pairs
    }
