"""Steps that seldom lose anything: delta by the one step that does.

Let step i have a loss other than zero with probability w_i (under P; under Q it is the same, since a loss
of zero means equal densities), and m = sum n_i w_i. With delta_i the profile of one step, for k >= 0

    (1 - m) sum n_i delta_i(k)  <=  delta(k)  <=  sum n_i delta_i(k) + m^2 / 2.

Split delta(k) = E_P[(1 - e^{k - L})_+] by the set of steps whose loss is not zero. No such step: nothing.
One: delta_i(k) times the probability that all others lose nothing, which is between 1 - m and 1. Two or
more: at least 0, and at most the probability of that, which is at most m^2 / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, log1p

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.roots import certified_crossing
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.pairs.pair import Pair
from sharpdp.pairs.privacy_profile import log_delta_of

# With more losses than this on average the bounds are far apart.
_OFTEN = 0.1


@dataclass(frozen=True)
class Seldom:
    """Steps with how often each is repeated, and about how many of them lose something (not less)."""

    steps: tuple[tuple[Pair, int], ...]
    mean: float

    @classmethod
    def of(cls, steps: tuple[tuple[Pair, int], ...]) -> Seldom | None:
        """None unless losses are as seldom as that."""
        mean = sum(count * pair.chance_of_loss for pair, count in steps)
        mean *= 1.0 + 4.0 * UNIT_ROUNDOFF * (1.0 + len(steps))
        return cls(steps, mean) if 0.0 < mean < _OFTEN else None

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) for log delta at epsilon >= 0."""
        ends = [(*log_delta_of(pair, epsilon), log(count)) for pair, count in self.steps]
        low = float(np.logaddexp.reduce([one[0] + one[2] for one in ends])) + log1p(-self.mean)
        high = float(np.logaddexp.reduce([one[1] + one[2] for one in ends]))
        high = float(np.logaddexp(high, 2.0 * log(self.mean) - log(2.0)))
        slack = 16.0 * UNIT_ROUNDOFF * (1.0 + len(ends))
        low -= slack * (1.0 + abs(low)) if low > -inf else 0.0
        return low, min(high + slack * (1.0 + abs(high)), 0.0)

    def epsilon(self, log_delta: float, start: float) -> tuple[float, float]:
        """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

        The search begins at `start`, where every step alone gives its part.
        """
        rounding = 4.0 * UNIT_ROUNDOFF * abs(log_delta)
        slope = max(self._slope(start), 1e-6)

        def crossing(side: Side, sign: float) -> float:
            end = 0 if side is Side.LOWER else 1

            def excess(epsilon: float) -> float:
                return self.log_delta(epsilon)[end] - log_delta + sign * rounding

            return certified_crossing(excess, start, slope, sign)

        return crossing(Side.LOWER, -1.0), crossing(Side.UPPER, 1.0)

    def _slope(self, epsilon: float) -> float:
        """About how fast log delta falls (not certified)."""
        step = 1e-4 * max(epsilon, 1e-4)
        before, after = (self.log_delta(one)[0] for one in (epsilon, epsilon + step))
        fall = (before - after) / step
        return fall if np.isfinite(fall) else 1.0
