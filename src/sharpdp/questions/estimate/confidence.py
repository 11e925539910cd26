"""How sure a mean is after some draws: intervals with a stated confidence, from sums alone.

Owns the Clopper-Pearson interval for counts, and for weights in [0, 1] an interval by betting: for a
fixed bet b the product of (1 + b x) / (1 + b m) over independent draws x of mean m has mean 1, so it
exceeds 1/a with probability at most a, whatever the law of x. The logarithms are summed while drawing;
nothing else is kept. What the draws are is left to others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, betainc, betaincc, log_sum

__all__ = ["Bets", "best_bets", "counted", "mean_lower", "mean_upper"]

HALVINGS = 50
"""Enough to reach neighboring doubles from ends that are not tiny."""

SUM_ERROR = 160.0 * UNIT_ROUNDOFF
"""Relative error of a sum of logarithms of one sign: within 64 units over blocks of some thousand, and
up to 73 for the rounded argument of log(1 - b x), b and x next to 1."""


@dataclass(frozen=True)
class Bets:
    """Bets and the part of the stake on each, for the lower or the upper end of a mean."""

    amounts: tuple[float, ...]
    stakes: tuple[float, ...]


def counted(successes: int, draws: int, log_risk: float) -> tuple[float, float]:
    """(lower, upper) of a probability, each end wrong with probability at most e^log_risk.

    The interval of Clopper and Pearson: the lower end is the p at which this many successes or more
    have probability risk, the upper end the p at which this many or fewer have it.

    Numerics: the incomplete beta function decides with a margin of 1e-9 of the risk; the ends come
    from a bisection on the safe side.

    Source: clopper1934.

    >>> lower, upper = counted(0, 10, np.log(0.05))
    >>> lower, abs(upper - (1 - 0.05**0.1)) < 1e-9
    (0.0, True)
    """
    risk = float(np.exp(log_risk)) * (1.0 - 1e-9)  # what the incomplete beta function is trusted to
    lower, upper = 0.0, 1.0
    share = successes / draws
    if successes > 0:

        def too_many(p: float) -> bool:
            return float(betainc(successes, draws - successes + 1, p)) <= risk

        lower = last_true(too_many, 0.0, share, halvings=HALVINGS)[0]
    if successes < draws:

        def enough(p: float) -> bool:
            return float(betaincc(successes + 1, draws - successes, p)) > risk

        upper = last_true(enough, share, 1.0, halvings=HALVINGS)[1]
    return lower, upper


def mean_upper(log_sums: Array, bets: Bets, draws: int, log_risk: float) -> float:
    """The upper end of the mean of draws in [0, 1], wrong with probability at most e^log_risk.

    log_sums[j] is the sum of log(1 - b_j x). The mean m is refused if the average over j, by stakes,
    of prod (1 - b_j x) / (1 - b_j m) is at least 1 / risk; that grows with m.

    Holds when: the bets were settled before the draws.

    Source: waudbysmith2024 Section 4.

    >>> bets = Bets((0.5,), (1.0,))
    >>> value = mean_upper(np.array([0.0]), bets, 100, np.log(0.05))  # nothing but zeros
    >>> abs(value - 2.0 * (1.0 - 0.05**0.01)) < 1e-9
    True
    """
    amounts = np.array(bets.amounts)
    # sums are at most 0; a smaller one is safe
    safe = np.asarray(log_sums) * (1.0 + SUM_ERROR) + np.log(bets.stakes)

    def possible(mean: float) -> bool:
        with np.errstate(divide="ignore"):
            grown = -draws * np.log1p(-amounts * mean) * (1.0 - SUM_ERROR)
        return not float(log_sum(safe + grown)) >= -log_risk + SUM_ERROR

    return 1.0 if possible(1.0) else last_true(possible, 0.0, 1.0, halvings=HALVINGS)[1]


def mean_lower(log_sums: Array, bets: Bets, draws: int, log_risk: float) -> float:
    """The lower end of the mean of draws x >= 0, wrong with probability at most e^log_risk.

    log_sums[j] is the sum of log(1 + b_j x). The draws need no upper bound.

    Holds when: the bets were settled before the draws.

    Source: waudbysmith2024 Section 4.

    >>> bets = Bets((1.0,), (1.0,))
    >>> value = mean_lower(
    ...     np.array([100 * np.log(2.0)]), bets, 100, np.log(0.05)
    ... )  # nothing but ones
    >>> abs(value - (2.0 * 0.05**0.01 - 1.0)) < 1e-9
    True
    """
    amounts = np.array(bets.amounts)
    safe = np.asarray(log_sums) * (1.0 - SUM_ERROR) + np.log(bets.stakes)

    def refused(mean: float) -> bool:
        lost = -draws * np.log1p(amounts * mean) * (1.0 + SUM_ERROR)
        return float(log_sum(safe + lost)) >= -log_risk + SUM_ERROR

    if not refused(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refused(high):
        low, high = high, 2.0 * high
    return last_true(refused, low, high, halvings=HALVINGS)[0]


def best_bets(pilot: Array, draws: int, log_risk: float) -> tuple[Bets, Bets]:
    """Bets for the lower and the upper end that would have served the pilot draws best.

    Half of the stake is on the best one, the rest is spread over powers of two.
    """
    scaled, smallest, tried = draws / len(pilot), 1e-4, 120
    # a bet of 1 could lose everything at once
    downward = np.geomspace(smallest, 0.999, tried)
    logs = np.sum(np.log1p(-downward[:, None] * np.minimum(pilot, 1.0)), axis=1)
    tops = -np.expm1((scaled * logs + log_risk) / draws) / downward
    mean = float(np.mean(pilot))
    largest = 1.0 / (smallest * max(mean, UNIT_ROUNDOFF))
    upward = np.geomspace(smallest / max(mean, 1.0), largest, tried)
    logs = np.sum(np.log1p(upward[:, None] * pilot), axis=1)
    bottoms = np.expm1((scaled * logs + log_risk) / draws) / upward
    upper = float(downward[np.argmin(tops)])
    lower = float(upward[np.argmax(bottoms)])
    # which a poor pilot may fall back on
    spread = np.exp2(-np.arange(1.0, 13.0))
    around = np.asarray(lower * np.exp2(np.arange(-6, 6)))
    return _staked(lower, around), _staked(upper, spread)


def _staked(best: float, others: Array) -> Bets:
    share = 0.5 / len(others)
    return Bets((best, *others.tolist()), (0.5, *(share,) * len(others)))
