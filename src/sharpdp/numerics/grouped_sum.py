"""Sums over a hidden count, at many thresholds at once, in log space.

A term is the probability of a block of counts times a kernel at the block's left end. For each
threshold only the blocks that matter are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.numerics.special import Array

__all__ = ["Kernel", "log_block_sum"]

_COARSE = 48
"""Blocks at which a threshold is looked at first, to see which others matter."""

_NEGLIGIBLE = 42.0
"""Blocks this many nats below the largest are taken together: they add less than e^-36 of the sum."""

_AT_ONCE = 1 << 20
"""Terms that are held in memory at the same time."""

_LOG_NOTHING = -1e300
"""Stands for the logarithm of zero where differences are taken."""

Kernel = Callable[[Array, Array], Array]
"""logs of some values at (count, threshold), stacked; the last one decides which counts matter."""


def log_block_sum(
    threshold: Array, left: Array, log_weight: Array, kernel: Kernel, side: Side
) -> Array:
    """log of the sums over blocks of e^log_weight times the kernel's values at their left ends.

    Holds when: on the upper side the kernel falls with the count, so that blocks that hardly matter
    may be taken together at the left end of a run of them; on the lower side they are left out.

    >>> ones = lambda count, threshold: np.zeros((1, *np.broadcast(count, threshold).shape))
    >>> weights = np.log(np.array([0.5, 0.5]))
    >>> float(log_block_sum(np.zeros(1), np.array([0.0, 1.0]), weights, ones, Side.UPPER)[0, 0])
    0.0
    """
    if threshold.size == 0 or left.size <= 2 * _COARSE:
        return _log_sums(kernel(left[None, :], threshold[:, None]) + log_weight)
    return _pruned(threshold, left, log_weight, kernel, side)


def _log_sums(terms: Array) -> Array:
    """log of the sum of exponentials along the last axis."""
    if terms.size == 0:
        return np.zeros(terms.shape[:-1])
    peak = np.maximum(terms.max(axis=-1), _LOG_NOTHING)
    with np.errstate(divide="ignore"):
        return np.asarray(peak + np.log(np.sum(np.exp(terms - peak[..., None]), axis=-1)))


def _pruned(k: Array, left: Array, log_weight: Array, kernel: Kernel, side: Side) -> Array:
    """log sums over blocks, those that hardly matter taken together or left out."""
    starts = np.unique(np.linspace(0, left.size - 1, _COARSE).astype(np.int64))
    runs = np.logaddexp.reduceat(log_weight, starts)
    coarse = kernel(left[None, starts], k[:, None])
    peak = np.maximum((coarse[-1] + log_weight[starts]).max(axis=1), _LOG_NOTHING)
    matters = coarse[-1] + runs >= peak[:, None] - _NEGLIGIBLE
    # one run more on each side, since a run may matter although its left end does not
    first = np.maximum(np.argmax(matters, axis=1) - 1, 0)
    last = np.minimum(starts.size - np.argmax(matters[:, ::-1], axis=1), starts.size - 1)
    ends = np.append(starts, left.size)
    begin, stop = starts[first], ends[last + 1]
    inner = _ragged(k, begin, stop - begin, left, log_weight, kernel)
    if side is Side.LOWER:
        return inner
    place = np.arange(starts.size)
    aside = (place < first[:, None]) | (place > last[:, None])
    rest = _log_sums(np.where(aside, coarse + runs, -np.inf))
    return np.asarray(np.logaddexp(rest, inner))


def _ragged(
    k: Array,
    begin: NDArray[np.int64],
    size: NDArray[np.int64],
    left: Array,
    log_weight: Array,
    kernel: Kernel,
) -> Array:
    """log sums over `size` blocks from `begin` on, a different range for each threshold."""
    at_once = max(1, _AT_ONCE // int(size.max(initial=1)))
    values = []
    for start in range(0, k.size, at_once):
        part = slice(start, start + at_once)
        sizes, ends = size[part], np.cumsum(size[part])
        firsts = ends - sizes
        block = np.arange(ends[-1]) + np.repeat(begin[part] - firsts, sizes)
        terms = kernel(left[block], np.repeat(k[part], sizes)) + log_weight[block]
        peak = np.maximum(np.maximum.reduceat(terms, firsts, axis=-1), _LOG_NOTHING)
        grown = np.exp(terms - np.repeat(peak, sizes, axis=-1))
        with np.errstate(divide="ignore"):
            values.append(peak + np.log(np.add.reduceat(grown, firsts, axis=-1)))
    return np.concatenate(values, axis=-1)
