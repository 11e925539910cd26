"""How many guesses about canaries can be right: upper bounds on a tail, for any mechanism under a claim.

Every canary is included or not by its own coin flip, the mechanism runs once, and an attacker guesses;
levels count right guesses. Moving one canary changes the level by one, and the claim holds the chances of
the two levels together. With p[v] the chance of level v, for every set V of levels and every line of the
claim

    sum over V of (rights[v] p[v] - e^epsilon wrongs[v - 1] p[v - 1]) <= places delta

docs/proofs/audit-proofs.md has the proof. Two bounds on the chance of a level v or above follow:

- by one line: for every x in (0, 1] with x >= e^epsilon wrongs[0] y[1],

      P[level >= v] <= x + places delta max(y)
      y[j] = (1[j >= v] - x + e^epsilon wrongs[j] y[j + 1])_+ / rights[j]

  which without delta is the tail of a binomial law, and exact;
- by the whole curve: if the chance were larger, the levels below would have to hold more than all of it.

Both are evaluated with every rounding on the safe side; the smaller one counts.

Source: mahloujifar2025, steinke2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sharpdp.audit.claims import Claim
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array

__all__ = ["Levels", "tail_at_most", "tail_upper"]

TRIED = 48
"""Values of x, or of the tail itself, that are tried at once."""

ZOOMS = 3
"""How often the search goes on between neighbors of the best value."""

LEAST_TAIL = 1e-12
"""Tails are not told apart below this."""

ROUNDING = 1.0 + 8.0 * UNIT_ROUNDOFF


@dataclass(frozen=True, eq=False)
class Levels:
    """How many canaries could move the count of right guesses, at each level of it.

    Args:
        rights: At each level from 0 on, the number of places whose guess is right; rising from 0.
        wrongs: At each level the number of places whose guess is wrong; falling to 0 at the last level.
        places: Number of places that a coin was tossed for, guessed or not.
    """

    rights: Array
    wrongs: Array
    places: float

    @classmethod
    def of_coins(cls, canaries: int, guesses: int) -> Levels:
        """Canaries with one coin each, some of which are guessed.

        >>> Levels.of_coins(4, 2).wrongs.tolist()
        [2.0, 1.0, 0.0]
        """
        levels = np.arange(guesses + 1, dtype=np.float64)
        return cls(levels, guesses - levels, float(canaries))

    @classmethod
    def of_fixed_size(cls, canaries: int, included: int) -> Levels:
        """Canaries of which exactly `included` are in, and as many are guessed to be.

        A move exchanges one that is in with one that is out. At w wrong guesses of either kind, the pairs
        with two right guesses are (included - w)(canaries - included - w), those with two wrong ones w^2.
        Level v stands for w = last - v, where last is the largest possible w.
        """
        most = min(included, canaries - included)
        wrong = np.arange(most, -1, -1, dtype=np.float64)
        rights = (included - wrong) * (canaries - included - wrong)
        return cls(rights, wrong * wrong, float(included * (canaries - included)))


def tail_upper(levels: Levels, reached: int, claim: Claim) -> float:
    """Upper bound on the chance that the level is `reached` or above, whatever keeps the claim.

    >>> half = Claim.of_point(0.0, 0.0)
    >>> round(tail_upper(Levels.of_coins(10, 10), 10, half) * 1024, 3)  # ten fair coins
    1.0
    """
    if reached <= 0:
        return 1.0
    by_line = _zoomed(lambda tried: _by_lines(levels, reached, claim, tried))
    return min(by_line, _by_curve(levels, reached, claim), 1.0)


def tail_at_most(levels: Levels, reached: int, claim: Claim, risk: float) -> bool:
    """Whether the chance that the level is `reached` or above is surely at most the risk.

    >>> half = Claim.of_point(0.0, 0.0)
    >>> [tail_at_most(Levels.of_coins(10, 10), level, half, 0.01) for level in (8, 10)]
    [False, True]
    """
    if reached <= 0:
        return risk >= 1.0
    has_curve = claim.epsilons.size > 1  # of a single line, the other bound is the best there is
    if has_curve and _least_mass(levels, reached, claim, np.array([risk]))[0] > 1.0:
        return True
    tried = risk * np.append(np.geomspace(0.01, 1.0, TRIED // 2), 1.0 - 1e-12)
    return bool(np.min(_by_lines(levels, reached, claim, tried)) <= risk)


def _zoomed(bound: Callable[[Array], Array]) -> float:
    """The smallest bound over what is tried; every value of it is valid."""
    tried = np.geomspace(LEAST_TAIL, 1.0, TRIED)
    best = 1.0
    for _ in range(ZOOMS):
        values = bound(tried)
        best_index = int(np.argmin(values))
        best = min(best, float(values[best_index]))
        tried = np.geomspace(
            tried[max(best_index - 1, 0)], tried[min(best_index + 1, TRIED - 1)], TRIED
        )
    return best


def _by_lines(levels: Levels, reached: int, claim: Claim, tried: Array) -> Array:
    """For each x that is tried, the best bound by any one line; infinite if no line admits the x."""
    slopes = np.exp(claim.epsilons)[:, None] * ROUNDING
    multiplier = np.zeros((claim.epsilons.size, tried.size))
    largest = np.zeros_like(multiplier)
    with np.errstate(over="ignore", invalid="ignore"):
        for level in range(len(levels.rights) - 1, 0, -1):
            carried = slopes * (float(levels.wrongs[level]) * ROUNDING) * multiplier
            needed = carried - tried + (1.0 if level >= reached else 0.0)
            needed = needed + 8.0 * UNIT_ROUNDOFF * (1.0 + carried)
            multiplier = np.maximum(needed, 0.0) * (ROUNDING / float(levels.rights[level]))
            largest = np.maximum(largest, multiplier)
        admitted = slopes * (float(levels.wrongs[0]) * ROUNDING) * multiplier <= tried
        spread = (levels.places * claim.deltas[:, None]) * largest
        bounds = np.where(admitted, (tried + spread) * ROUNDING, np.inf)
    return np.asarray(np.min(np.where(np.isnan(bounds), np.inf, bounds), axis=0))


def _by_curve(levels: Levels, reached: int, claim: Claim) -> float:
    """The smallest tail that was tried and would need more than all of the probability below it."""
    low, high = LEAST_TAIL, 1.0
    for _ in range(ZOOMS):
        tried = np.geomspace(low, high, TRIED)
        impossible = np.flatnonzero(_least_mass(levels, reached, claim, tried) > 1.0)
        if impossible.size == 0:
            return high
        first = int(impossible[0])
        if first == 0:
            return float(tried[0])
        low, high = float(tried[first - 1]), float(tried[first])
    return high


def _least_mass(levels: Levels, reached: int, claim: Claim, tails: Array) -> Array:
    """Lower bound on the probability of all levels if `reached` and above have these tails.

    It is least if a tail is on the level `reached` alone, and every level below has just what the claim
    asks for: moving probability one level down never breaks the claim about lower levels.
    """
    margin = (16.0 + 8.0 * len(levels.rights)) * UNIT_ROUNDOFF  # for all sums up to here
    mass = tails.copy()
    right = tails * (float(levels.rights[reached]) / levels.places)
    wrong = tails * (float(levels.wrongs[reached]) / levels.places)
    for level in range(reached - 1, -1, -1):
        asked = claim.least_fpr(np.minimum(right * (1.0 - margin), 1.0))
        missing = np.maximum(asked - wrong * (1.0 + margin), 0.0)
        added = missing * (levels.places / float(levels.wrongs[level])) * (1.0 - margin)
        mass = mass + added
        right = right + added * (float(levels.rights[level]) / levels.places)
        wrong = wrong + added * (float(levels.wrongs[level]) / levels.places)
    return np.asarray(mass * (1.0 - margin))
