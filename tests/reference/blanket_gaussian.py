"""Reports y = s x + Z with probability 1 - b, y = Z otherwise, shuffled: an upper bound on epsilon.

|x| <= 1 and Z is normal in any dimension. Seen from b phi, the common part, the worst two records have

    X = 1 + k e^{s u - s^2/2},   Y = 1 + k e^{-s u - s^2/2},   k = (1 - b)/b,   u normal

(docs/topics/randomizers.md). (X - 1, Y - 1) lies on a hyperbola. A piece of it lies in the triangle of
its ends and the point where their tangents meet, so spreading it onto these three points, with its
mean kept, makes the mean of every convex function larger. Weights follow from three masses of the
normal law.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from sharpdp.bounds.shuffle_model.gaussian_reports import pair_above
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, thresholds
from sharpdp.bracket import Side
from sharpdp.profile.composition import Composition

CELL = 0.25
"""Width of a piece, in deviations of u."""

COARSENESS = 8.0

REACHES = (2.0, 3.0, 4.0, 5.0, 6.0)


def reports(
    blanket: float, scale: float, users: int, rate: float = 1.0, reach: float = 6.0
) -> tuple[Reports, float]:
    """Likelihood ratios of one report under the common part, spread onto points; and what is cut off.

    X is cut so many deviations beyond its own mean, and Y likewise. E(S)_+ is below that of cut ratios
    and n E(X - cut)_+: the second result is the last term over n, of a user drawn at this rate.
    """
    pieces = 2 * math.ceil((reach + scale) / CELL)
    edges = (np.arange(pieces + 1) - pieces // 2) * CELL

    def masses(shift: float) -> np.ndarray:
        left, right = ndtr(edges - shift), ndtr(shift - edges)
        return np.where(edges[:-1] < shift, left[1:] - left[:-1], right[:-1] - right[1:])

    means = np.array([masses(0.0), masses(scale), masses(-scale)])
    first = np.exp(scale * edges - 0.5 * scale**2)
    product, odds = math.exp(-(scale**2)), (1.0 - blanket) / blanket
    points: list[tuple[float, float, float]] = []
    for low, high, mean in zip(first[:-1], first[1:], means.T, strict=True):
        ends = np.array([low, high, 2.0 * low * high / (low + high)])
        others = np.array([product / low, product / high, 2.0 * product / (low + high)])
        size = np.array([1.0, high, product / low])
        table = np.array([np.ones(3), ends, others])
        weights = np.maximum(np.linalg.solve(table / size[:, None], mean / size), 0.0)
        points += zip(weights.tolist(), ends.tolist(), others.tolist(), strict=True)
    # beyond the cut one ratio is that of the cut, the other is spread from zero to that of the cut
    cut, high = float(edges[-1]), float(first[-1])
    beyond, rest = float(ndtr(-cut)), float(ndtr(-cut - scale)) * high / product
    for x, y, weight in ((high, product / high, rest), (high, 0.0, beyond - rest)):
        points += [(weight, x, y), (weight, y, x)]
    excess = float(ndtr(scale - cut)) - beyond * high
    table = np.array(sorted(points, key=lambda point: point[1])).T
    law = (
        [*(blanket * table[0]).tolist(), 1.0 - blanket],
        [*(1.0 + odds * table[1]).tolist(), 0.0],
        [*(1.0 + odds * table[2]).tolist(), 0.0],
    )
    return Reports(*map(tuple, law), users, rate), rate * (1.0 - blanket) * excess


def epsilon(
    blanket: float, scale: float, *, users: int, rate: float, rounds: int, delta: float
) -> float:
    """An upper bound on epsilon of all rounds, but for rounding in the last digits of weights.

    Each threshold has the cut that is best there: heavy tails make the bound on a sum loose.
    """
    laws = [reports(blanket, scale, users, rate, reach) for reach in REACHES]
    losses = thresholds([laws[-1][0]], Side.UPPER, COARSENESS)
    log_high = np.zeros(losses.size)
    for law, lost in laws:
        values = law.log_uppers(losses) - math.log(users)
        log_high = np.minimum(log_high, np.logaddexp(values, math.log(lost)))
    composed = Composition(((pair_above(losses, log_high), rounds),))
    upper: float = composed.epsilon(math.log(delta), 1e-3)[1]
    return upper
