"""Where the randomness of reports comes from: the operating system, or a generator that a test passes.

Every coin of a randomizer is a 64-bit word compared with a whole number, so that its probability is
exactly that number / 2^64 and the budget can be checked from the numbers as stored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.randomness.normal_rectangles import Workspace, normals
from sharpdp.randomness.normals import tails

__all__ = ["Floats", "Randomness", "SystemStream", "WORDS", "Words", "system_stream_for"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

Randomness: TypeAlias = "np.random.Generator | int | None"
"""None for the operating system; a numpy generator, or a seed for one, in tests and simulations."""

WORDS = 2**64
"""How many 64-bit words there are."""

_PIECE = 2**13
"""Words that are drawn at once into an array: 64 kilobytes."""

KEY_BYTES = 32
"""So few random bytes are asked of the operating system itself; a key has as many."""


@dataclass(frozen=True)
class SystemStream:
    """A stream of independent uniform 64-bit words, and what is made of them.

    ``draw`` gives so many words. Those of the operating system are cryptographic, see `_system_bytes`.
    numpy's generators are repeatable, and whoever learns their state knows every coin.

    >>> system_stream_for(7).words(3).dtype
    dtype('uint64')
    """

    draw: Callable[[int], Words]
    generator: np.random.Generator | None = None

    def words(self, count: int) -> Words:
        """Independent words of 64 random bits."""
        return self.draw(count)

    def coins(self, thresholds: Words) -> NDArray[np.bool_]:
        """One coin per threshold, true with probability threshold / 2^64, exactly."""
        return self.draw(thresholds.size).reshape(thresholds.shape) < thresholds

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """Uniform whole numbers from 0 to bound - 1, exactly: words that do not fit are drawn again."""
        last = WORDS - WORDS % bound - 1  # words up to here hold every remainder equally often
        drawn = self.draw(count).copy()
        while np.any(late := drawn > np.uint64(last)):
            drawn[late] = self.draw(int(np.count_nonzero(late)))
        numbers: NDArray[np.int64] = (drawn % np.uint64(bound)).astype(np.int64)
        return numbers

    def order(self, count: int) -> NDArray[np.int64]:
        """A uniformly random order of 0 to count - 1, exactly: that of random words, no two equal."""
        drawn = self.draw(count)
        while np.unique(drawn).size < count:
            drawn = self.draw(count)
        return np.argsort(drawn)

    def fractions(self, count: int) -> Floats:
        """Uniform numbers between 0 and 1 that keep their digits next to 0, however small they are."""
        return 2.0 * tails(self.draw(count), self.draw)[1]

    def fill(self, words: Words) -> None:
        """Draw words into an array, in pieces for which no fresh memory is needed."""
        for start in range(0, words.size, _PIECE):
            piece = words[start : start + _PIECE]
            piece[:] = self.draw(piece.size)

    def normals(self, rows: int, columns: int, space: Workspace | None = None) -> Floats:
        """Independent standard normal numbers, those of `sharpdp.randomness.normal_rectangles`.

        They are overwritten when the workspace, if there is one, is used again.
        """
        count = rows * columns
        space = Workspace(count) if space is None else space
        self.fill(space.words[:count])
        return normals(space, count, self.draw).reshape(rows, columns)


def system_stream_for(rng: Randomness) -> SystemStream:
    """The source to draw from: the operating system for None, else a numpy generator or its seed.

    Holds when: None for every report that protects someone. A numpy generator is not cryptographic,
    and a seed that is known undoes the noise; both are for tests and simulations.

    >>> bool(np.array_equal(system_stream_for(7).words(2), system_stream_for(7).words(2)))
    True
    >>> bool(np.array_equal(system_stream_for(None).words(2), system_stream_for(None).words(2)))
    False
    """
    if rng is None:
        return SystemStream(_system_words)
    generator = _generator(rng)

    def draw(count: int) -> Words:
        return generator.integers(WORDS - 1, size=count, dtype=np.uint64, endpoint=True)

    return SystemStream(draw, generator)


def _generator(rng: object) -> np.random.Generator:
    """The numpy generator that was passed, or one made from the seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    allowed = "rng must be None (the operating system), a numpy Generator or a seed for one"
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise WrongType(
            f"{allowed}; got {short_repr(rng)}. Leave it out for reports that protect someone."
        )
    if rng < 0:
        raise InvalidArgument(f"{allowed}, at least 0; got {short_repr(rng)}. Leave the sign out.")
    return np.random.default_rng(int(rng))


def _system_words(count: int) -> Words:
    """Words of the operating system's cryptographic generator, or of one that it keyed."""
    return np.frombuffer(_system_bytes(8 * count), dtype=np.uint64)


def _system_bytes(size: int) -> bytes:
    """Secret random bytes: of the operating system if they are few, otherwise expanded from its entropy.

    By OpenSSL's generator (AES-256 in counter mode, NIST SP 800-90A, which the system seeds and which a
    forked process does not share), or by SHAKE-128 under a key of 256 bits that is used once where Python
    was built without OpenSSL: eight times as slow.
    """
    if size <= KEY_BYTES:
        return os.urandom(size)
    return _expander()(size)


@cache
def _expander() -> Callable[[int], bytes]:
    try:
        from ssl import RAND_bytes
    except ImportError:
        return lambda size: hashlib.shake_128(os.urandom(KEY_BYTES)).digest(size)
    return RAND_bytes
