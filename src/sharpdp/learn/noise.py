"""Gaussian noise for released sums, from a secret key and the number of the step.

Noise is a function of the key, the number of the step and the sum that it is added to: a step that is
run again after a crash, bit for bit, is the same release, and the same release twice is one release. Any
other sum gets noise of its own, so that the difference of two releases never shows that of their sums.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sharpdp._validate import count, scale, shown
from sharpdp.batches.source import FEWEST_KEY_BYTES, KEY_BYTES, Source
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.numerics.library import ndtri

__all__ = ["StepNoise", "secret", "standard_normal"]

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


def _digest(total: Mapping[str, Tensor]) -> str:
    """A hash of all numbers that noise is to be added to."""
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for name, value in total.items():
        digest.update(name.encode())
        digest.update(value.detach().to("cpu", torch.float64).contiguous().numpy().tobytes())
    return digest.hexdigest()


class StepNoise:
    """Adds noise of standard deviation noise_multiplier * clip to one sum of each step, once.

    Released values are rounded to a grid that is much coarser than the doubles that the noise is made
    of, so that their last digits tell nothing about the sum without noise.

    >>> noise = StepNoise(noise_multiplier=1.0, clip=2.0, key=b"k" * 32)
    >>> released = noise.added({"weight": torch.zeros(3, dtype=torch.float64)}, step=0)
    >>> noise.added({"weight": torch.ones(3, dtype=torch.float64)}, step=0)
    Traceback (most recent call last):
    sharpdp.errors.InvalidArgument: step must be 1 or more; got 0. It was released before, and is
        accounted for once.
    """

    def __init__(self, *, noise_multiplier: float, clip: float, key: bytes, start: int = 0) -> None:
        """Noise for the steps from `start` on."""
        self.deviation = scale(noise_multiplier=noise_multiplier) * scale(clip=clip)
        self._source = Source(secret(key)).derive("noise")
        self._next = count(least=0, start=start)

    def added(self, total: Mapping[str, Tensor], step: int) -> dict[str, Tensor]:
        """The sums with noise, in double precision; a step whose sums are refused was not released."""
        number = count(least=0, step=step)
        if number < self._next:
            raise InvalidArgument(
                f"step must be {self._next} or more; got {number}. It was released before, and is "
                "accounted for once."
            )
        _check_sums(total)
        source = self._source.derive(number, _digest(total))
        self._next = number + 1
        return {name: self._noisy(value, source) for name, value in total.items()}

    def _noisy(self, value: Tensor, source: Source) -> Tensor:
        normal = standard_normal(source, value.numel())
        noise = torch.from_numpy(normal).view(value.shape).to(value.device)
        noisy = value.detach().to(torch.float64) + self.deviation * noise
        step_size = self.deviation * _GRID
        return torch.round(noisy / step_size) * step_size


def secret(key: object) -> bytes:
    """The key, if it is long enough not to be guessed.

    >>> len(secret(b"k" * 32))
    32
    """
    if not isinstance(key, bytes):
        raise WrongType(
            f"key must be bytes; got {_kind(key)}. Try secrets.token_bytes({KEY_BYTES})."
        )
    if len(key) < FEWEST_KEY_BYTES:
        raise InvalidArgument(f"key must have at least {FEWEST_KEY_BYTES} bytes; got {len(key)}.")
    return key


def _kind(key: object) -> str:
    """What a key is instead of bytes, without telling it."""
    return "None" if key is None else f"an object of type {type(key).__name__}"


def _check_sums(total: object) -> None:
    """An error unless these are finite real sums by name."""
    if not isinstance(total, Mapping) or not total:
        raise WrongType(f"total must map names to tensors, at least one; got {shown(total)}.")
    for name, value in total.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise WrongType(f"total[{name!r}] must be a tensor under a name; got {shown(value)}.")
        if value.layout != torch.strided or value.is_complex():
            raise WrongType(f"total[{name!r}] must be dense and real; got {value.dtype}.")
        if not bool(torch.isfinite(value).all()):
            raise InvalidArgument(
                f"total[{name!r}] must be finite; got entries that are not. Nothing was released."
            )
