"""Gaussian noise for released sums, from a secret key and the number of the step.

A step that is run again after a crash gets the noise that it had before: the same release twice is one
release. The noise of one step must therefore never be added to two different sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sharpdp._validate import count, scale
from sharpdp.batches.source import Source
from sharpdp.errors import InvalidArgument
from sharpdp.numerics.library import ndtri

__all__ = ["StepNoise", "standard_normal"]

_WORD_BITS = 63
_GRID = 2.0**-30
"""Released values are multiples of this share of the noise's standard deviation."""


def standard_normal(source: Source, size: int) -> NDArray[np.float64]:
    """Independent standard normal numbers: quantiles of words of 63 random bits.

    One bit is the sign and the others choose the probability of the tail, so that the law is within
    2^-63 of a normal one in total variation, but for the rounding of each number to a double.

    >>> numbers = standard_normal(Source(b"k" * 32), 100_000)
    >>> bool(abs(numbers.mean()) < 0.02 and abs(numbers.std() - 1.0) < 0.02)
    True
    """
    words = source.below(1 << _WORD_BITS, size)
    tail = ((words >> 1) + 0.5) * 2.0**-_WORD_BITS
    return np.asarray((1 - 2 * (words & 1)) * ndtri(tail))


class StepNoise:
    """Adds noise of standard deviation noise_multiplier * clip to one sum of each step, once.

    Released values are rounded to a grid that is much coarser than the doubles that the noise is made
    of, so that their last digits tell nothing about the sum without noise.

    >>> noise = StepNoise(noise_multiplier=1.0, clip=2.0, key=b"k" * 32)
    >>> released = noise.added({"weight": torch.zeros(3, dtype=torch.float64)}, step=0)
    >>> noise.added({"weight": torch.ones(3, dtype=torch.float64)}, step=0)
    Traceback (most recent call last):
    sharpdp.errors.InvalidArgument: step must be 1 or more; got 0. Its noise was used before, and two
        sums with the same noise would reveal their difference.
    """

    def __init__(self, *, noise_multiplier: float, clip: float, key: bytes, start: int = 0) -> None:
        """Noise for the steps from `start` on."""
        self.deviation = scale(noise_multiplier=noise_multiplier) * scale(clip=clip)
        self._source = Source(key).derive("noise")
        self._next = count(least=0, start=start)

    def added(self, total: Mapping[str, Tensor], step: int) -> dict[str, Tensor]:
        """The sums with noise, in double precision."""
        if step < self._next:
            raise InvalidArgument(
                f"step must be {self._next} or more; got {step}. Its noise was used before, and two "
                "sums with the same noise would reveal their difference."
            )
        self._next = step + 1
        source = self._source.derive(step)
        released = {}
        for name, value in total.items():
            normal = standard_normal(source, value.numel())
            noise = torch.from_numpy(normal).view(value.shape).to(value.device)
            noisy = value.to(torch.float64) + self.deviation * noise
            step_size = self.deviation * _GRID
            released[name] = torch.round(noisy / step_size) * step_size
        return released
