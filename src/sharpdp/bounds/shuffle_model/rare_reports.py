"""Reports of a large local epsilon: few of them reveal anything, so results are listed by how many do.

Of n reports i have the likelihood ratios (E, 1), j have (1, E), each with probability a, and with users
who are drawn at rate g

    h(x) = E[((1 - g)(1 - x) + (g/n) ((E - 1) (i - x j) + (1 - x) c))_+],   x >= 1.

- From above, as in `bounds.shuffle_model.blanket`: c - i - j of the other reports have the ratios (1, 1),
  each with probability (1 - a (E + 1))/(1 - 2 a), and the rest (0, 0).
- From below, as in `blanket_others_lower`: c = n - (1 - 1/E) k, where k of the other reports have the
  ratios (1/E, 1/E), each with probability a E/(1 - 2 a), and the rest (1, 1).

If a is about 1/E, i and j are a few and c is some thousands, and their terms are so far apart that
transforms lose digits. The positive part falls with c: what is counted among the others is rounded down
to the end of a block, which makes the positive part larger above and smaller below. Results with more
than T of i + j are left out below; above they have together at most the P-mass P[Bin(n, 2 a) >= T], and
no larger ratio than one report has.
"""

from __future__ import annotations

import math

import numpy as np

from sharpdp.bounds.shuffle_model.clone_pair import log_block_weights
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import log_falling, log_tail
from sharpdp.bracket import Side
from sharpdp.numerics.special import Array, gammaln, log_sum
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import CallSide, pair_from_halves

_MOST_REVEALING, _TAIL = 100, -150.0
"""So many i + j are listed at most; more must be less likely than e to this."""

_BLOCKS = ((-25.0, 200), (-80.0, 40), (-math.inf, 1))
"""Into how many blocks the other reports are put, where a result of i and j is at least so likely."""

_REACH = 12.0
"""Ends of blocks lie within so many deviations of the mean."""

_MARGIN = 1e-11
"""Masses are off by less than this part of themselves, losses by a thousandth of it."""


def rare_reports(
    odds: float, share: float, users: int, rate: float, side: Side
) -> AtomicPair | None:
    """A pair, the same in both directions, on one side of these reports; None if many reveal something.

    Below, a (E + 2) <= 1.

    >>> pair = rare_reports(8e3, 1e-4, users=2, rate=1.0, side=Side.UPPER)
    >>> round(math.exp(pair.losses[-1]))  # both reports reveal the same
    8000
    """
    is_upper, rare = side is Side.UPPER, 2.0 * share
    tails = [log_tail(users, most, rare) for most in range(1, min(users, _MOST_REVEALING) + 1)]
    most = next((most for most, tail in enumerate(tails, 1) if tail <= _TAIL), users)
    if most > _MOST_REVEALING:
        return None
    i, j = np.indices((most + 1, most + 1), dtype=float).reshape(2, -1)
    i, j = (each[(i > j) & (i + j <= most)] for each in (i, j))
    log_nu = log_falling(users, most)[(i + j).astype(int)] - gammaln(i + 1.0) - gammaln(j + 1.0)
    log_nu += (i + j) * math.log(share) + (users - i - j) * math.log1p(-rare)
    counted = max(1.0 - share * (odds + 1.0), 0.0) if is_upper else share * odds
    losses, log_q = [], []
    left = np.ones(i.shape, dtype=bool)
    for likely, blocks in _BLOCKS:
        chosen = left & (log_nu >= likely)
        left &= ~chosen
        for total in np.unique(i[chosen] + j[chosen]).tolist():
            here = chosen & (i + j == total)
            others = users - int(total)
            ends, log_weight = _blocks(others, counted / (1.0 - rare), blocks)
            common = ends if is_upper else others - ends * (1.0 - 1.0 / odds)
            more = rate * (odds - 1.0) / users * (i - j)[here, None]
            y = 1.0 - rate + rate / users * ((i + odds * j)[here, None] + common)
            losses.append(np.log1p(more / y).ravel())
            log_q.append((log_nu[here, None] + log_weight + np.log(y)).ravel())
    if is_upper and most < users:
        largest = math.log1p(rate * (odds - 1.0))
        losses.append(np.array([largest]))
        log_q.append(np.array([tails[most - 1] - largest]))
    every, log_mass = np.concatenate(losses), np.concatenate(log_q) + side.sign * _MARGIN
    order = np.argsort(every, kind="stable")
    every, log_mass = every[order] * (1.0 + side.sign * 1e-3 * _MARGIN), log_mass[order]
    calls = CallSide(every, log_mass, float(log_sum(log_mass + np.log(np.expm1(every)))))
    return pair_from_halves(calls, calls, side=side)


def _blocks(trials: int, rate: float, count: int) -> tuple[Array, Array]:
    """Ends of blocks into which Bin(trials, rate) is rounded down, and log probabilities of these."""
    if trials == 0 or rate <= 0.0:
        return np.zeros(1), np.zeros(1)
    reach = np.linspace(-_REACH, _REACH, count) if count > 1 else np.array([-_REACH])
    left = np.floor(trials * rate + reach * math.sqrt(trials * rate * max(1.0 - rate, 0.0)))
    left = np.unique(np.append(0.0, np.clip(left, 0.0, trials)))
    return left, log_block_weights(left, trials, rate)
