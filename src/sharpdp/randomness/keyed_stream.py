"""Random bits from a key: any batch of a run from the key and the number of its step alone.

A `KeyedStream` is 32 bytes. From it are derived further sources, one for each label, and random words:
SHAKE-256 of the 32 bytes and the label, or of the 32 bytes and a counter. Nobody who lacks the key can
tell these words from coin flips as long as SHAKE-256 holds, and equal keys give equal words on every
machine: only integers are computed, and no generator of numpy is used.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST_KEY_BYTES", "KEY_BYTES", "KeyedStream"]

KEY_BYTES = 32
"""Bytes of a source, and of a fresh key: more than anyone can try."""

FEWEST_KEY_BYTES = 16
"""Shorter keys could be guessed."""


class KeyedStream:
    """An endless row of random words that belongs to a key and some labels.

    >>> KeyedStream(b"k" * 32).derive("epoch", 3).below(10, 5).tolist()
    [1, 1, 0, 4, 7]
    """

    def __init__(self, secret: bytes) -> None:
        """Start at the first word; a secret of any length is hashed to 32 bytes."""
        self._state = hashlib.shake_256(secret).digest(KEY_BYTES)
        self._turn = 0

    def derive(self, *labels: str | int) -> KeyedStream:
        """The source of these labels: as good as independent of those of all other labels."""
        return KeyedStream(self._hashed(b"derive", repr(labels).encode(), KEY_BYTES))

    def integer(self, bits: int) -> int:
        """A whole number of so many random bits."""
        size = -(-bits // 8)
        return int.from_bytes(self._next(size), "little") >> (8 * size - bits)

    def words(self, size: int) -> NDArray[np.uint64]:
        """``size`` independent words of 64 random bits."""
        return np.frombuffer(self._next(8 * size), dtype="<u8").astype(np.uint64)

    def below(self, bound: int, size: int) -> NDArray[np.int64]:
        """``size`` independent whole numbers, each uniform on 0, ..., bound - 1.

        Words of just enough bits are drawn, and those that reach the bound are left out, so that the
        law is exactly uniform. The bound is at most 2^63.
        """
        bits = (bound - 1).bit_length()
        if bits == 0:
            return np.zeros(size, dtype=np.int64)
        # in the byte order of no machine in particular
        kind = np.dtype("<u4") if bits <= 32 else np.dtype("<u8")
        parts: list[NDArray[np.int64]] = []
        missing = size
        while missing > 0:
            count = ((missing << bits) // bound) + 16  # so that most often one go is enough
            words = np.frombuffer(self._next(count * kind.itemsize), dtype=kind).astype(np.uint64)
            small = (words >> (8 * kind.itemsize - bits)).astype(np.int64)
            parts.append(small[small < bound][:missing])
            missing -= parts[-1].size
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    def subset(self, total: int, size: int) -> NDArray[np.int64]:
        """``size`` of the numbers 0, ..., total - 1, ascending; every such subset is equally likely.

        Numbers are drawn until so many different ones have come: by symmetry all sets of them are
        equally likely. Of more than half of all numbers, those left out are drawn.

        >>> KeyedStream(b"k" * 32).subset(5, 5).tolist()
        [0, 1, 2, 3, 4]
        """
        if 2 * size > total:
            inside = np.ones(total, dtype=np.bool_)
            inside[self.subset(total, total - size)] = False
            return np.flatnonzero(inside).astype(np.int64)
        chosen = np.zeros(0, dtype=np.int64)
        while chosen.size < size:
            more = self.below(total, size - chosen.size)
            chosen = np.sort(np.concatenate([chosen, more]))
            chosen = chosen[np.append(np.diff(chosen) > 0, True)]  # numpy's unique is slower
        return chosen

    def _next(self, size: int) -> bytes:
        self._turn += 1
        return self._hashed(b"output", str(self._turn).encode(), size)

    def _hashed(self, purpose: bytes, label: bytes, size: int) -> bytes:
        return hashlib.shake_256(self._state + purpose + label).digest(size)
