"""Standard normal numbers from random bits, by rectangles under the density.

The line from -4 to 4 is cut into cells of width 1/64. A word of 64 random bits picks one of 2^16 slots
by its first 16 bits, and a place in the slot's cell by the others. A cell has as many slots as fit below
the density phi on all of it, so the slots together have the density

    c(x) = slots of the cell / (2^16 width) <= phi(x),     and 99% of the mass.

The other words draw from what is left, (phi - c) / its mass: a cell and a place again, accepted with a
probability in proportion to phi(x) - c(x). Beyond 4 the numbers are quantiles.

Numerics: the numbers are within `ERROR` max(1, |z|) of real ones (words stand for their first bits)
whose density is phi(x) e^(+-`DENSITY_ERROR`), and exactly even. Slots are counted in whole numbers, and
the place in a cell is exact. What is left is off by the rounding of phi alone: by 2^-47 of phi if exp is
right to 2^-48, and by 2^-47 over its share of 1% where its mass is made one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import ndtri
from sharpdp.randomness.normals import ERROR, tails

__all__ = ["DENSITY_ERROR", "ERROR", "Workspace", "normals"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Whole = NDArray[np.int64]

DENSITY_ERROR = 2.0**-38
"""Bound on |log(density / normal density)| of the real numbers for which doubles stand."""

_CELLS = 256
"""Cells on either side of zero."""

_WIDTH = 1.0 / 64.0

_SLOTS = 2**16

_PLACES = 48
"""Bits that say where in a cell a number is: it is a whole multiple of 2^-54."""

_DOWN = 1.0 - 2.0**-40
"""Factor that pays for the rounding of a density where a bound on it is wanted."""


@dataclass(frozen=True)
class _Tables:
    """``starts``: the left end of each slot's cell in units of 2^-54, less the slot's own bits.

    Slots from ``first_left`` on lead to what is left: ``left_starts`` are those of its slots, and
    (e^(-x^2/2) - ``covered``) ``accepted`` is the probability with which a number x of a cell is taken.
    """

    starts: Whole
    first_left: np.uint64
    left_starts: Whole
    covered: Floats
    accepted: Floats


@cache
def _tables() -> _Tables:
    # e^(-x^2/2) stands for the density, and areas are larger by as much
    edges = _WIDTH * np.arange(_CELLS + 1)
    density = np.exp(-0.5 * edges * edges)
    slot = math.sqrt(2.0 * math.pi) / (_SLOTS * _WIDTH)
    counts = np.floor(density[1:] * _DOWN / slot).astype(np.int64)
    covered: Floats = counts.astype(np.float64) * slot
    cells = np.arange(_CELLS) << _PLACES
    plus = np.repeat(cells, counts)
    minus = -plus - (2**_PLACES - 1)  # so that the numbers are those of plus, negated
    # what is left is below a step function, which is cut into slots again; the last cell is all beyond
    steps = np.append(density[:-1] / _DOWN - covered, _beyond() * slot * _SLOTS)
    unit = float(steps.sum()) / (_SLOTS - _CELLS - 2)
    slots = np.ceil(steps / unit).astype(np.int64)
    slots[0] += _SLOTS - int(slots.sum())
    accepted: Floats = 1.0 / (unit * slots.astype(np.float64))
    # there x does not matter: 2^50 exceeds all densities
    covered = np.concatenate([covered, np.array([-(2.0**50)])])
    accepted[-1] *= steps[-1] * 2.0**-50
    return _Tables(
        starts=_less_the_slot(np.concatenate([minus[::-1], plus])),
        first_left=np.uint64((2 * plus.size) << _PLACES),
        left_starts=_less_the_slot(np.repeat(np.append(cells, _CELLS << _PLACES), slots)),
        covered=covered,
        accepted=accepted,
    )


def _less_the_slot(starts: Whole) -> Whole:
    """The starts less each slot's number as the first bits of a word, modulo 2^64."""
    slots = np.arange(_SLOTS, dtype=np.uint64) << np.uint64(_PLACES)
    padded = np.append(starts, np.zeros(_SLOTS - starts.size, dtype=np.int64))
    less: Whole = (padded.view(np.uint64) - slots).view(np.int64)
    return less


def _beyond() -> float:
    """The probability of a normal number above 4."""
    return 0.5 * math.erfc(_CELLS * _WIDTH / math.sqrt(2.0))


class Workspace:
    """Memory for so many numbers, used again and again: the system's fresh pages cost more than they.

    ``words`` are filled before each draw, ``numbers`` hold its result, ``places`` are in between.
    """

    def __init__(self, size: int) -> None:
        """Ask for the memory."""
        self.words = np.empty(size, dtype=np.uint64)
        self.places = np.empty(size, dtype=np.int64)
        self.numbers = np.empty(size)


def normals(space: Workspace, count: int, more: Callable[[int], Words]) -> Floats:
    """Independent standard normal numbers of the first words of a workspace.

    ``more`` draws so many further words. The numbers are overwritten when the workspace is used again.

    >>> space = Workspace(3)
    >>> space.words[:] = [2**61, 2**62, 2**63]
    >>> normals(space, 3, lambda count: np.zeros(0)).tolist()
    [-1.140625, -0.671875, 0.0]
    """
    tables, words, places = _tables(), space.words[:count], space.places[:count]
    numbers = space.numbers[:count]
    slots = numbers.view(np.int64)  # in this memory until the numbers are there
    np.right_shift(words, np.uint64(_PLACES), out=slots.view(np.uint64))
    np.take(tables.starts, slots, out=places, mode="clip")
    places += words.view(np.int64)  # the slot's own bits cancel, modulo 2^64
    numbers[:] = places
    numbers *= _WIDTH * 2.0**-_PLACES
    left = np.flatnonzero(words >= tables.first_left)
    if left.size:
        numbers[left] = _from_what_is_left(left.size, more)
    return numbers


def _from_what_is_left(count: int, more: Callable[[int], Words]) -> Floats:
    """So many numbers with the density in proportion to phi - c; half of what is tried is taken."""
    tables, tried = _tables(), 2 * count + 32
    words, coins = more(2 * tried).reshape(2, tried)
    places: Whole = np.take(tables.left_starts, (words >> np.uint64(_PLACES)).view(np.int64))
    places += words.view(np.int64)
    sizes: Floats = places.astype(np.float64)
    sizes *= _WIDTH * 2.0**-_PLACES
    cells = places >> _PLACES
    chances = np.exp(-0.5 * sizes * sizes)
    chances -= tables.covered[cells]
    chances *= tables.accepted[cells]
    # 53 bits of a coin decide, and its last bit is the sign
    taken = np.flatnonzero((coins >> np.uint64(11)) * 2.0**-53 < chances)[:count]
    numbers: Floats = sizes[taken]
    far = np.flatnonzero(numbers >= _CELLS * _WIDTH)
    if far.size:
        numbers[far] = -ndtri(2.0 * _beyond() * tails(more(far.size), more)[1])
    signs = numbers.view(np.uint64)
    signs |= coins[taken] << np.uint64(63)
    if taken.size < count:
        return np.concatenate([numbers, _from_what_is_left(count - taken.size, more)])
    return numbers
