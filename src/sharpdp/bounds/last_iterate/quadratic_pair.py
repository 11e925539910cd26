"""Linear losses with a penalty, used at random steps: a mixture of normal laws that is attained.

The last iterate is N(W, V) with the record and N(0, V) without, W the sum of r^q over the uses, q steps
before the end. A smaller W is harder to detect, term by term: for W' <= W the pair of W dominates that of
W'. So the law of W may be rounded down to a lattice, and mass may be moved to zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from sharpdp.batches import ShuffledBatches
from sharpdp.bounds.last_iterate.shift_schedule import log_power_sum
from sharpdp.numerics.special import Array
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.normal_cells import binned_normals

__all__ = ["bernoulli_uses", "quadratic_pair", "shuffled_uses"]

Uses = tuple[tuple[tuple[float, float], ...], ...]
"""Independent terms of W, the newest first: each by the chances of its values, zero left out."""

_LATTICE = 1200
"""Points of the lattice on which W lives."""

_MOST_TERMS = 3000
"""Newest terms that are counted."""

_SMALLEST_TERM = 1e-5
"""Terms below this share of the newest one are left out."""

_AT_ZERO = 1e-9
"""Chance that is moved to W = 0, so that no cell's ratio underflows."""


def bernoulli_uses(rate: float, steps: int, r: float) -> Uses:
    """Every step uses the record with the same chance.

    >>> bernoulli_uses(0.25, 2, 0.5)
    (((0.25, 1.0),), ((0.25, 0.5),))
    """
    return tuple(((rate, size),) for size in _powers(r, min(steps, _MOST_TERMS)))


def shuffled_uses(scheme: ShuffledBatches, log_r: float) -> Uses:
    """One use in each epoch, at a random place; all at the same place if the order is kept.

    >>> plan = ShuffledBatches(dataset_size=4, batch_size=2, epochs=2)
    >>> shuffled_uses(plan, math.log(0.5))
    (((0.5, 1.0), (0.5, 0.5)), ((0.5, 0.25), (0.5, 0.125)))
    """
    period, size, r = scheme.steps_per_epoch, scheme.dataset_size, math.exp(log_r)
    rest = size - (period - 1) * scheme.batch_size
    chances = [(rest if place == 0 else scheme.batch_size) / size for place in range(period)]
    if scheme.order == "kept":
        again = math.exp(log_power_sum(period * log_r, scheme.epochs)) * (1.0 - 1e-12)
        return (tuple(zip(chances, (again * one for one in _powers(r, period)), strict=False)),)
    terms = []
    for epoch in range(min(scheme.epochs, _MOST_TERMS)):
        start = r ** (epoch * period)
        if start < _SMALLEST_TERM:
            break
        sizes = (start * one for one in _powers(r, period))
        terms.append(tuple(zip(chances, sizes, strict=False)))
    return tuple(terms)


def _powers(r: float, most: int) -> Iterator[float]:
    """1, r, r^2 and so on, as long as they matter."""
    size = 1.0
    for _ in range(most):
        if size < _SMALLEST_TERM:
            return
        yield size
        size *= r


@lru_cache(maxsize=32)
def quadratic_pair(uses: Uses, move: float) -> AtomicPair:
    """Which cell of the line the last iterate lies in; from below.

    Args:
        uses: The terms of W.
        move: What a use in the last step moves the iterate by, in deviations of all its noise.

    Returns:
        The pair of the cell, with the record against without.

    >>> pair = quadratic_pair((((0.5, 1.0),),), 1.0)
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 3)  # (2 Phi(1/2) - 1) / 2
    0.191
    """
    whole = sum(max(value for _, value in term) for term in uses)
    mean = sum(chance * value for term in uses for chance, value in term)
    squares = sum(chance * value * value for term in uses for chance, value in term)
    reach = min(whole, mean + 12.0 * math.sqrt(squares) + 12.0 * max(v for t in uses for _, v in t))
    spacing = reach / (_LATTICE - 1)
    law = np.zeros(_LATTICE)
    law[0] = 1.0
    for term in uses:
        law = _with(law, term, spacing)
    law *= 1.0 - _AT_ZERO
    law[0] += _AT_ZERO
    held = law > 1e-290
    # powers and products are off by far less
    unit = move * spacing * (1.0 - 1e-9)
    means: Array = unit * np.flatnonzero(held).astype(np.float64)
    pair = binned_normals(law[held], means, np.zeros(means.size))
    # a sum of three roundings for each term
    error = 1e-12 + 4e-16 * sum(len(term) + 2 for term in uses)
    return replace(pair, loss_error=pair.loss_error + error, mass_error=pair.mass_error + error)


def _with(law: Array, term: tuple[tuple[float, float], ...], spacing: float) -> Array:
    """The law of a sum with one more term, rounded down to the lattice and to its end."""
    added = law * max(1.0 - sum(chance for chance, _ in term), 0.0)
    for chance, value in term:
        cells = math.floor(value / spacing * (1.0 - 1e-12))
        moved = law[: law.size - cells]
        added[cells:] += chance * moved
        added[-1] += chance * float(np.sum(law[law.size - cells :])) if cells else 0.0
    return added
