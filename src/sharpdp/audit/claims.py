"""Claims that an audit tests: every attack stays below some lines, tpr <= delta + e^epsilon fpr.

A `Claim` is a list of points (epsilon, delta) at which a mechanism is said to be (epsilon, delta)-DP, for
both orders of the neighbors. Those of a guarantee are taken from the upper side of its certified curve,
so that whatever contradicts them contradicts the guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp._validate import short_repr
from sharpdp.curves.tradeoff.curve import TradeoffCurve
from sharpdp.errors import WrongType
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.pair import GaussianPair
from sharpdp.questions.account import Guarantee

__all__ = ["Claim", "checked_guarantee"]

LINES = 97
"""Lines that stand for a curve. Between two of them an attack is held to a little less than the curve."""

SMALLEST_DELTA = 1e-9
"""Lines with a smaller delta say nothing that an audit of less than a billion runs could see."""

CURVE_ERROR = 1e-9
"""Relative allowance for the rounding of the Gaussian curve, which is off by 1e-12."""

LARGEST_SLOPE = 500.0
"""The largest epsilon of a line: e^epsilon stays far from overflow."""


@dataclass(frozen=True, eq=False)
class Claim:
    """Lines that attacks are held to: tpr <= delta + e^epsilon fpr, and the same for tnr and fnr.

    Args:
        epsilons: The epsilons of the lines, from 0 to 500.
        deltas: The delta of each line, in [0, 1].
    """

    epsilons: Array
    deltas: Array

    @classmethod
    @lru_cache(maxsize=16)
    def of_guarantee(cls, guarantee: Guarantee | TradeoffCurve) -> Claim:
        """The lines that a certified curve proves, at evenly spaced epsilons.

        >>> from sharpdp.questions.account import account
        >>> from sharpdp.mechanisms import Gaussian
        >>> claim = Claim.of_guarantee(account(Gaussian(noise_multiplier=1.0)))
        >>> round(float(claim.least_fpr(np.array([0.5]))[0]), 4)  # Phi(-1) is 0.1587
        0.1586
        """
        ends = np.asarray(guarantee.epsilon(delta=[SMALLEST_DELTA, 1e-6, 1e-3, 0.1]).upper)
        finite = ends[np.isfinite(ends)]
        last = float(np.minimum(np.max(finite, initial=0.0), LARGEST_SLOPE))
        epsilons = np.linspace(0.0, last, LINES) if last > 0.0 else np.zeros(1)
        deltas = np.asarray(guarantee.delta(epsilon=epsilons).upper, dtype=np.float64)
        return cls(epsilons, np.minimum(deltas, 1.0))

    @classmethod
    def of_point(cls, epsilon: float, delta: float) -> Claim:
        """The claim of (epsilon, delta)-DP."""
        return cls(np.array([min(epsilon, LARGEST_SLOPE)]), np.array([delta]))

    @classmethod
    @lru_cache(maxsize=256)
    def gaussian(cls, mu: float) -> Claim:
        """The claim of mu-GDP: the lines of Gaussian noise with noise multiplier 1 / mu."""
        last = min(0.5 * mu * mu + 6.0 * mu, LARGEST_SLOPE)
        epsilons = np.linspace(0.0, last, LINES)
        log_deltas = GaussianPair(mu).log_hockey_stick(epsilons)
        return cls(epsilons, np.minimum(np.exp(log_deltas) * (1.0 + CURVE_ERROR), 1.0))

    def lines(self) -> tuple[Array, Array]:
        """Slope and offset of every line, tpr <= offset + slope fpr, in both orders."""
        slopes = np.exp(self.epsilons)
        offsets = (self.deltas, 1.0 - (1.0 - self.deltas) / slopes)
        return np.concatenate([slopes, 1.0 / slopes]), np.concatenate(offsets)

    def least_fpr(self, tpr: Array) -> Array:
        """The smallest false-positive rate at which this true-positive rate is allowed, never too large.

        max over lines of e^-epsilon (tpr - delta) and 1 - delta - e^epsilon (1 - tpr), and 0
        """
        rates = np.asarray(tpr, dtype=np.float64)[..., None]
        slopes = np.exp(self.epsilons)
        steep = (rates * (1.0 - 4.0 * UNIT_ROUNDOFF) - self.deltas) / slopes
        flat = (1.0 - self.deltas) - slopes * (1.0 - rates) * (1.0 + 8.0 * UNIT_ROUNDOFF)
        best = np.maximum(np.max(steep, axis=-1), np.max(flat, axis=-1) - 8.0 * UNIT_ROUNDOFF)
        return np.asarray(np.maximum(best, 0.0) * (1.0 - 8.0 * UNIT_ROUNDOFF))

    def most_tpr(self, fpr: Array) -> Array:
        """The largest true-positive rate that is allowed at this false-positive rate, never too small.

        min over lines of delta + e^epsilon fpr and 1 - e^-epsilon (1 - delta - fpr), and 1
        """
        rates = np.asarray(fpr, dtype=np.float64)[..., None]
        slopes = np.exp(self.epsilons)
        steep = (self.deltas + slopes * rates) * (1.0 + 8.0 * UNIT_ROUNDOFF)
        flat = 1.0 - (1.0 - self.deltas - rates) / slopes + 8.0 * UNIT_ROUNDOFF
        best = np.minimum(np.min(steep, axis=-1), np.min(flat, axis=-1))
        return np.asarray(np.clip(best, 0.0, 1.0))


def checked_guarantee(guarantee: object) -> Guarantee | TradeoffCurve:
    """The argument, if it is something that can be audited."""
    if isinstance(guarantee, Guarantee | TradeoffCurve):
        return guarantee
    raise WrongType(
        f"guarantee must be a Guarantee or a TradeoffCurve; got {short_repr(guarantee)}. "
        "Try guarantee=account(mechanism)."
    )
