"""The sums of columns of a record's bin, their Gram matrix, and exchangeable ones on both sides of it.

With bins that are kept, a record of bin j moves C x by m_j = c_j + c_{j+b} + ..., and the pair is a
mixture of normal laws around the m_j against one around 0. It depends on the Gram matrix G of the m_j
alone, and is monotone in it: if G' - G is copositive, G' reveals at least as much. The pair of
an exchangeable G' = a I + rho 1 1^T is the product of a Gaussian pair and one of balls-and-bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.bounds.correlated_noise.columns import Columns, columns_of
from sharpdp.bracket import Side
from sharpdp.mechanisms import CorrelatedNoise, Strategy
from sharpdp.numerics.tolerances import FORMULA_ERROR

__all__ = [
    "BinGram",
    "Exchangeable",
    "bin_gram",
    "common_parts",
    "exchangeable",
    "log_moments",
    "lower_family",
    "served",
    "upper_family",
]

Floats = NDArray[np.float64]

MOST_BINS = 2048
"""Bins of which all inner products are computed."""

MOST_PRODUCTS = 1 << 31
"""Products of entries that this may take."""

MOST_ERROR = 1e-6
"""Relative error of an inner product that is worth a bound."""

PLANNED_DELTA, MOST_ORDERS = 1e-6, 40
"""What the choice of an exchangeable matrix is for; answers are safe at every delta."""


@dataclass(frozen=True)
class Exchangeable:
    """G' = own I + common 1 1^T of so many bins."""

    own: float
    common: float
    bins: int


@dataclass(frozen=True, eq=False)
class BinGram:
    """Inner products of the m_j, how far off they may be, and whether later bins have smaller ones."""

    gram: Floats
    error: float
    falling: bool

    def upper(self) -> Floats:
        """Entrywise upper ends."""
        return self.gram * (1.0 + self.error)

    def lower(self) -> Floats:
        """Entrywise lower ends."""
        return self.gram * (1.0 - self.error)


def served(mechanism: CorrelatedNoise, cycle: int) -> bool:
    """Whether the strategy has no negative entry, and the Gram matrix is small enough."""
    steps = mechanism.batches.steps
    return (
        1 < cycle <= MOST_BINS
        and cycle * steps <= MOST_PRODUCTS
        and (mechanism.strategy.toeplitz or steps * steps <= MOST_PRODUCTS)
        and columns_of(mechanism.strategy, steps).nonnegative
        and bin_gram(mechanism, cycle).error <= MOST_ERROR
    )


def bin_gram(mechanism: CorrelatedNoise, cycle: int) -> BinGram:
    """Inner products of the sums of columns over all bins."""
    return _gram(mechanism.strategy, mechanism.batches.steps, cycle)


@lru_cache(maxsize=8)
def _gram(strategy: Strategy, steps: int, cycle: int) -> BinGram:
    columns = columns_of(strategy, steps)
    error = 4.0 * columns.rounding
    if columns.error > 0.0:  # relative to the size of terms that may cancel each other
        with np.errstate(divide="ignore"):
            error *= float(np.max(columns.size / columns.entries)) ** 2
    if columns.first is None:
        sums = np.column_stack([_bin(columns, start, cycle) for start in range(cycle)])
        return BinGram(sums.T @ sums, error, falling=False)
    first = _bin(columns, 0, cycle)  # the others are shifted copies, their ends cut off
    gram = np.empty((cycle, cycle))
    for lag in range(cycle):
        products = np.cumsum(first[: steps - lag] * first[lag:])
        later = np.arange(lag, cycle)
        gram[later - lag, later] = gram[later, later - lag] = products[steps - later - 1]
    return BinGram(gram, error, falling=True)


def _bin(columns: Columns, start: int, cycle: int) -> Floats:
    pattern = np.arange(start, columns.steps, cycle, dtype=np.int64)
    return columns.combined(pattern, np.ones(pattern.size))


def exchangeable(bins: BinGram, common: float, side: Side) -> Exchangeable:
    """The best ``own`` for a common part, such that G' - G (upper) or G - G' (lower) is copositive.

    Upper: with D the positive part of G - common, x^T (G - common) x <= x^T D x for x >= 0, and D's
    largest eigenvalue is at most max_i (D v)_i / v_i for any v > 0 (Collatz and Wielandt). Lower: with D
    of G's diagonal and the negative part of the rest, x^T (G - common) x >= (D's smallest eigenvalue)
    |x|^2, and that is at least min_i (D v)_i / v_i, since D has no positive entry off its diagonal. A
    negative one means that there is none.
    """
    if side is Side.UPPER:
        excess = np.maximum(bins.upper() - common, 0.0)
        vector = _perron(excess)
        ratio = float(np.max((excess @ vector) / vector))
        return Exchangeable(ratio * (1.0 + FORMULA_ERROR), common, len(excess))
    lack = np.minimum(bins.lower() - common, 0.0)
    diagonal = np.diag(bins.lower()) - common
    np.fill_diagonal(lack, 0.0)
    # the shift makes the eigenvector of the smallest eigenvalue that of the largest one
    shift = float(np.max(np.abs(diagonal)))
    vector = _perron(np.diag(shift - diagonal) - lack)
    size = (np.abs(diagonal) * vector - lack @ vector) / vector
    ratio = float(np.min((diagonal * vector + lack @ vector) / vector - FORMULA_ERROR * size))
    return Exchangeable(ratio * (1.0 - FORMULA_ERROR), common, len(lack))


def _perron(matrix: Floats) -> Floats:
    """About the eigenvector of the largest eigenvalue of a symmetric matrix without negative entries."""
    vector = np.ones(len(matrix))
    for _ in range(200):
        following = matrix @ vector
        top = float(following.max())
        if top <= 0.0:
            break
        # some of each entry is kept, so that none becomes zero
        following = following / top + 1e-9
        if float(np.max(np.abs(following - vector))) < 1e-9:
            break
        vector = following
    return vector


def upper_family(bins: BinGram, variance: float) -> Exchangeable:
    """About the best exchangeable matrix above, among those of every w-th bin with any common part.

    To tell the record's bin modulo w can only help, and bins that are w apart have less in common.
    """
    size = len(bins.gram)
    found = []
    for apart in _spacings(size):
        starts = range(1 if bins.falling else apart)
        classes = [replace(bins, gram=bins.gram[start::apart, start::apart]) for start in starts]
        fewest = size // apart
        off = np.concatenate([_off_diagonal(one.upper()) for one in classes])
        for common in _levels(off):
            own = max(exchangeable(one, common, Side.UPPER).own for one in classes)
            found.append(Exchangeable(own, common, fewest))
    return min(found, key=lambda family: _about_epsilon(family, variance))


def lower_family(bins: BinGram, variance: float) -> Exchangeable:
    """About the best exchangeable matrix below, among those of blocks of w bins with any common part.

    Every inner product within a block, and all between blocks, are replaced by smaller ones. Bins
    of one block are then the same.
    """
    size = len(bins.gram)
    found = []
    for width in (width for width in _spacings(size) if size % width == 0):
        shape = (size // width, width, size // width, width)
        blocks = replace(bins, gram=bins.gram.reshape(shape).min(axis=(1, 3)))
        for common in _levels(_off_diagonal(blocks.lower())):
            own = exchangeable(blocks, common, Side.LOWER).own
            if own >= 0.0:
                found.append(Exchangeable(own, common, len(blocks.gram)))
    return max(found, key=lambda family: _about_epsilon(family, variance))


def _spacings(size: int) -> tuple[int, ...]:
    """Numbers from 1 to the size, about a quarter apart, and the divisors of the size."""
    steps = {max(1, round(1.25**power)) for power in range(1 + math.ceil(math.log(size, 1.25)))}
    return tuple(sorted({step for step in steps if step <= size} | _divisors(size)))


def _divisors(size: int) -> set[int]:
    small = {step for step in range(1, math.isqrt(size) + 1) if size % step == 0}
    return small | {size // step for step in small}


def _off_diagonal(matrix: Floats) -> Floats:
    return np.asarray(matrix[~np.eye(len(matrix), dtype=bool)])


def common_parts(bins: BinGram) -> list[float]:
    """Common parts that are worth a try for all bins."""
    return _levels(_off_diagonal(bins.upper()))


def _levels(off: Floats) -> list[float]:
    """Common parts to try: some quantiles of the inner products of two bins."""
    if off.size == 0:
        return [0.0]
    return sorted({0.0, *np.quantile(off, (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)).tolist()})


def _about_epsilon(family: Exchangeable, variance: float) -> float:
    """About epsilon at the planned delta, from Renyi divergences of whole orders; not certified."""
    logs = log_moments(family.own / variance, family.bins, MOST_ORDERS)
    orders = np.arange(2, MOST_ORDERS + 1)
    divergence = logs[2:] + 0.5 * family.common / variance * orders * (orders - 1)
    shift = orders * np.log1p(-1.0 / orders) - np.log(orders - 1.0)
    return float(
        np.min((divergence - math.log(PLANNED_DELTA)) / (orders - 1) + shift / (orders - 1))
    )


def log_moments(own: float, bins: int, most: int) -> Floats:
    """log E_Q[L^k] for k from 0 to ``most``, L of balls-and-bins with variance ``own``; to rounding.

    It is k! / bins^k times the coefficient of z^k in (sum over i of e^{own i (i - 1) / 2} z^i / i!)^bins.

    >>> round(math.exp(log_moments(1.0, 2, 2)[2]), 9) == round((math.e + 1) / 2, 9)
    True
    """
    counts = np.arange(most + 1)
    log_factorials = np.array([math.lgamma(k + 1.0) for k in range(most + 1)])
    base = 0.5 * own * counts * (counts - 1) - log_factorials
    power = np.full(most + 1, -np.inf)
    power[0] = 0.0
    left = bins
    while left:
        if left & 1:
            power = _log_convolved(power, base)
        base, left = _log_convolved(base, base), left >> 1
    return np.asarray(power + log_factorials - counts * math.log(bins))


def _log_convolved(first: Floats, second: Floats) -> Floats:
    """Logarithms of the coefficients of a product of two polynomials, up to the same degree."""
    size = first.size
    index = np.arange(size)[:, None] - np.arange(size)[None, :]
    terms = np.where(index >= 0, second[np.maximum(index, 0)], -np.inf) + first[None, :]
    top = np.max(terms, axis=1)
    with np.errstate(invalid="ignore"):
        sums = top + np.log(np.sum(np.exp(terms - top[:, None]), axis=1))
    return np.where(np.isneginf(top), -np.inf, sums)
