"""Gaussian noise for released sums, from a secret key and the number of the step.

Noise is a function of the key, the number of the step, the sum that it is added to, its deviation, the
clip, the grid, and the mechanism: a step that is run again after a crash, bit for bit, is the same
release, and the same release twice is one release. Whatever else is released gets noise of its own, be it
another sum or the same sum with noise of another size, so that no two releases together show a sum.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sharpdp._validate import count, kind_of, positive_scale
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.randomness.keyed_stream import FEWEST_KEY_BYTES, KEY_BYTES, KeyedStream
from sharpdp.randomness.normals import rounded

__all__ = ["StepNoise", "secret"]


def _digest(*totals: Mapping[str, Tensor]) -> str:
    """A hash of all numbers that noise is to be added to."""
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for total in totals:
        for name, value in total.items():
            digest.update(name.encode())
            digest.update(value.detach().to("cpu", torch.float64).contiguous().numpy().tobytes())
    return digest.hexdigest()


class StepNoise:
    """Adds noise of standard deviation noise_multiplier * clip to one sum of each step, once.

    What is released is round((sum + deviation Z) / grid) for real normal numbers Z, a whole number, times
    the ``grid``: rounding is decided as if Z had endlessly many digits (`sharpdp.randomness.normals`),
    except
    with probability 2^-180 a number. So a release is a function of what the Gaussian mechanism releases,
    and its last digits tell nothing else. ``deviation`` is longer than planned by one part in a million,
    which pays for the rounding of the sum itself.

    Args:
        noise_multiplier: Standard deviation in units of the clip, as planned.
        clip: Largest l2 norm of an example's gradient.
        key: Secret of at least 16 bytes.
        start: Number of steps that are done.
        purpose: Whatever else makes the release what it is, such as the mechanism with its strategy, in
            words: noise for another purpose is independent.

    >>> noise = StepNoise(noise_multiplier=1.0, clip=2.0, key=b"k" * 32)
    >>> released = noise.added({"weight": torch.zeros(3, dtype=torch.float64)}, step=0)
    >>> noise.added({"weight": torch.ones(3, dtype=torch.float64)}, step=0)
    Traceback (most recent call last):
    sharpdp.errors.InvalidArgument: step must be 1 or more; got 0. It was released before, and is
        accounted for once.
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        clip: float,
        key: bytes,
        start: int = 0,
        purpose: str = "",
    ) -> None:
        """Noise for the steps from `start` on."""
        longest = positive_scale(clip=clip)
        planned = positive_scale(noise_multiplier=noise_multiplier) * longest
        # longer than planned by what pays for the rounding of sums of up to 60,000 records
        self.deviation = planned * (1.0 + 2.0**-20)
        _, exponent = math.frexp(self.deviation)
        # released values are whole multiples of 2^-25 to 2^-24 of the standard deviation
        self._exponent = exponent - 1 - 24
        scales = (self.deviation.hex(), longest.hex(), self._exponent)
        self._source = KeyedStream(secret(key)).derive("noise", *scales, purpose)
        self._next = count(least=0, start=start)
        self._turn = threading.Lock()

    @property
    def grid(self) -> float:
        """The distance of released values, a power of two."""
        return math.ldexp(1.0, self._exponent)

    def added(
        self,
        total: Mapping[str, Tensor],
        step: int,
        *,
        lower: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """The sums with noise, in double precision; a step whose sums are refused was not released.

        ``lower`` are further digits of the sums, where a double does not hold them: their second doubles.
        """
        number = count(least=0, step=step)
        with self._turn:
            if number < self._next:
                raise InvalidArgument(
                    f"step must be {self._next} or more; got {number}. It was released before, and is "
                    "accounted for once."
                )
            check_sums(total)
            steps = {name: self._in_steps(name, value) for name, value in total.items()}
            digits = {} if lower is None else _matching(lower, total)
            rest = {name: self._in_steps(name, digits[name]) for name in digits} if digits else {}
            source = self._source.derive(number, _digest(total, digits))
            self._next = number + 1
        return {
            name: self._noisy(steps[name], rest.get(name), source.derive(name))
            .view(value.shape)
            .to(value.device)
            for name, value in total.items()
        }

    def _in_steps(self, name: str, value: Tensor) -> NDArray[np.float64]:
        """A sum in units of the grid, exactly, since the grid is a power of two."""
        exact = value.detach().to("cpu", torch.float64).contiguous().numpy().reshape(-1)
        with np.errstate(over="ignore"):
            steps: NDArray[np.float64] = np.ldexp(exact, -self._exponent)
        if not np.isfinite(steps).all():
            raise InvalidArgument(
                f"total[{name!r}] must be below 2^999 times its noise; got more. Nothing was released."
            )
        return steps

    def _noisy(
        self, steps: NDArray[np.float64], rest: NDArray[np.float64] | None, source: KeyedStream
    ) -> Tensor:
        """The nearest whole number of steps to each sum with its noise, as a sum again.

        With sum = (n + f) steps, n the nearest whole number, this is n + round(f + noise): f has no
        error, and adding doubles is a function of the exact sum of two whole numbers, also beyond 2^53.
        Adding 0.0 drops the sign of a zero, which only sums between -1/2 and 0 steps could have. Further
        digits belong to f, which they leave within 2^-53 of a step; whole steps of theirs to the noise.
        """
        whole = np.rint(steps)
        parts = steps - whole
        further_steps: NDArray[np.float64] | float = 0.0
        if rest is not None:
            parts = parts + rest
            further_steps = np.rint(parts)
            parts = parts - further_steps
        words = source.words(steps.size)
        further = source.derive("further bits")
        noise = rounded(
            words,
            parts,
            math.ldexp(self.deviation, -self._exponent),
            lambda index: partial(further.derive(index).integer, 64),
        )
        return torch.from_numpy(np.ldexp(whole + (further_steps + noise) + 0.0, self._exponent))


def secret(key: object) -> bytes:
    """The key, if it is long enough not to be guessed.

    >>> len(secret(b"k" * 32))
    32
    """
    if not isinstance(key, bytes):
        raise WrongType(
            f"key must be bytes; got {kind_of(key)}. Try secrets.token_bytes({KEY_BYTES})."
        )
    if len(key) < FEWEST_KEY_BYTES:
        raise InvalidArgument(f"key must have at least {FEWEST_KEY_BYTES} bytes; got {len(key)}.")
    return key


def _matching(lower: object, total: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Further digits, if they are those of these sums."""
    check_sums(lower, "lower")
    assert isinstance(lower, Mapping)
    shapes = [{name: value.shape for name, value in sums.items()} for sums in (lower, total)]
    if shapes[0] != shapes[1]:
        raise InvalidArgument("lower must have the names and shapes of total; got others.")
    return dict(lower)


def check_sums(total: object, argument: str = "total") -> None:
    """An error unless these are finite real sums by name."""
    if not isinstance(total, Mapping) or not total:
        raise WrongType(
            f"{argument} must map names to tensors, at least one; got {kind_of(total)}."
        )
    for name, value in total.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise WrongType(
                f"{argument}[{name!r}] must be a tensor under a name; got {kind_of(value)}."
            )
        if value.layout != torch.strided or value.is_complex():
            raise WrongType(f"{argument}[{name!r}] must be dense and real; got {value.dtype}.")
        if not bool(torch.isfinite(value).all()):
            raise InvalidArgument(
                f"{argument}[{name!r}] must be finite; got entries that are not. Nothing was released."
            )
