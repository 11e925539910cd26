"""Binary randomized response in every crowd: the other users may hold any number of zeros and ones.

Let f be the masses of S, the number of ones that n - 1 others report, w = 1/(E + 1) and l >= 1. If one
user holds 1 against 0, the number of all ones is more likely to be large, and

    H_l = max_s (1 - w - l w) f(s - 1) - (l - 1) P[S >= s]:

S is a sum of independent coins, so f is log-concave and the best test rejects from some s on. One user
more in the crowd can only hide better, since whoever sees the others may add a report. So all crowds with
k to k + d zeros are dominated by the one with k zeros and as many ones as each of them has. With the
symbols exchanged a crowd is its mirror image, and the victim's two records change places.
"""

from __future__ import annotations

import numpy as np

from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, thresholds
from sharpdp.bracket import Side
from sharpdp.numerics.counts import log_mass
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves

MOST_USERS = 20_000
"""With more users the laws of the crowds take too long."""


def worst_binary_dataset(users: int, local_epsilon: float) -> AtomicPair:
    """A pair that dominates shuffled binary randomized response, whatever the others hold.

    >>> alone = worst_binary_dataset(1, float(np.log(3.0)))
    >>> round(float(np.exp(alone.log_hockey_stick(np.array([0.0]))[0])), 6)  # 3/4 - 1/4
    0.5
    """
    lie = float(np.exp(-np.logaddexp(0.0, local_epsilon)))
    rows = [[1.0 - lie, lie], [lie, 1.0 - lie]]
    losses = thresholds([Reports.others_hold(rows, 0, 1, 0, users)], Side.UPPER)
    value = np.zeros(losses.shape)
    for zeros, ones in _groups(users):
        # whoever holds 1 reports it without a lie: counted by lies, whose rate is not rounded
        masses = _kept(np.convolve(_coins(zeros, lie), _coins(ones, lie)[::-1]))
        for law in (masses, masses[::-1]):
            value = np.maximum(value, _best_tests(law, local_epsilon, losses))
    with np.errstate(divide="ignore"):
        # more than all masses that are left out: for a smaller delta other bounds answer
        log_high = np.logaddexp(np.log(value), -115.0)
    largest = local_epsilon * (1.0 + 8.0 * UNIT_ROUNDOFF)
    calls = calls_above(losses, np.minimum(log_high, 0.0), largest)
    return pair_from_halves(calls, calls, side=Side.UPPER)


def _groups(users: int) -> list[tuple[int, int]]:
    """The least numbers of zeros and ones in each group of data sets; not more zeros than ones in all."""
    groups, zeros = [], 0
    while zeros <= (users - 1) // 2:
        # how wide groups are, relative to the number of the rarer symbol
        width = max(int(0.05 * zeros), 1)
        groups.append((zeros, max(users - zeros - width, 0)))
        zeros += width
    return groups


def _coins(count: int, rate: float) -> Array:
    """Masses of the number of ones among so many coins."""
    ones = np.arange(count + 1.0)
    return _kept(np.exp(log_mass(np.full(ones.shape, float(count)), ones, rate)))


def _kept(masses: Array) -> Array:
    """Without what is left out at both ends; a shift of the number of ones changes nothing."""
    inside = np.flatnonzero(masses > 1e-60)
    return masses[inside[0] : inside[-1] + 1]


def _best_tests(masses: Array, local_epsilon: float, losses: Array) -> Array:
    """Not less than H_l at each loss, for a crowd with these masses of the number of ones.

    The two terms cancel where few ones are expected, so each is rounded on its own.
    """
    truth = 1.0 / (1.0 + np.exp(-local_epsilon))
    # 1 - w - l w = (1 - w)(1 - l / E): near the largest loss from its distance to that
    gain = truth * -np.expm1(losses - local_epsilon)
    beyond = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    ratio = np.append(masses[:-1] / masses[1:], np.inf)
    with np.errstate(divide="ignore"):
        first = np.searchsorted(np.maximum.accumulate(ratio), 1.0 + np.expm1(losses) / gain)
    value = np.zeros(losses.shape)
    for near in (-1, 0, 1):
        # the neighbors too, since ratios are rounded
        index = np.clip(first + near, 0, masses.size - 1)
        more, less = gain * masses[index], np.expm1(losses) * beyond[index + 1]
        # twice MASS_ERROR, and two units for each user of a sum
        value = np.maximum(value, more - less + 2e-11 * (more + less))
    return value
