"""Standard normal numbers in single precision, each within a known distance of a real one.

By the method of Box and Muller: a radius sqrt(-2 log u) and an angle, each from the bits of a word. Bits
that follow a word are not drawn; where they would matter, next to u = 0 and u = 1, they are, and the
radius is computed in double precision. So a number here is a real normal number, known up to `ERROR`.

    u from 2^-8 to 1 - 2^-6:  2^-22.4 relative, then 2^-22 of log u; the radius is off by 2^-19.7 at most
    angle:                    pi 2^-22.4 for the word, and 2^-22 for cosine and sine, times the radius

which together is below 2^-16.4 for radii up to 10.8, the largest that there are.

Holds when: numpy's logarithm, cosine and sine of single-precision numbers are right to four units in the
last place of the largest result; the tests compare them with double precision.

Source: box1958.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["ERROR", "Singles", "single_normals"]

Singles = NDArray[np.float32]

ERROR = 2.0**-16
"""How far a number may be from the real one."""

_FIRST, _LAST = np.uint32(2**23), np.uint32(2**31 - 2**25)
"""Words of 31 bits from the first to the last are good enough as they are."""


def single_normals(rng: np.random.Generator, size: int) -> Singles:
    """Independent normal numbers, two from each 64-bit word of the generator.

    >>> single_normals(np.random.default_rng(1), 3).dtype
    dtype('float32')
    """
    pairs = -(-size // 2)
    raw = np.asarray(rng.bit_generator.random_raw(pairs), dtype=np.uint64).view(np.uint32)
    words = raw[:pairs] >> np.uint32(1)
    radii = words.view(np.int32).astype(np.float32)
    radii += np.float32(0.5)
    radii *= np.float32(2.0**-31)
    np.log(radii, out=radii)
    radii *= np.float32(-2.0)
    np.sqrt(radii, out=radii)
    extreme = np.flatnonzero(words - _FIRST > _LAST - _FIRST)
    radii[extreme] = _radii(rng, words[extreme])
    angles = raw[pairs:].view(np.int32).astype(np.float32)
    angles *= np.float32(math.pi * 2.0**-31)
    numbers = np.empty(2 * pairs, dtype=np.float32)
    np.multiply(np.cos(angles, out=numbers[:pairs]), radii, out=numbers[:pairs])
    np.multiply(np.sin(angles, out=numbers[pairs:]), radii, out=numbers[pairs:])
    return numbers[:size]


def _radii(rng: np.random.Generator, words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """sqrt(-2 log u) with further bits of u, and without cancellation next to u = 1."""
    upper = words >= np.uint32(2**30)
    cells = np.where(upper, np.uint32(2**31 - 1) - words, words)
    shares = (cells + (1.0 - rng.random(words.size))) * 2.0**-31
    return np.sqrt(-2.0 * np.where(upper, np.log1p(-shares), np.log(shares)))
