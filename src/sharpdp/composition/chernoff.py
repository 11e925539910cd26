"""Chernoff's bounds on a composition: certified, quick for every question, and never sharp.

For s > 0, with M_T the generating function of the total loss on the upper side, all finite losses

    delta(k) <= P[L = inf] + c(s) M_T(s) e^{-s k},      c(s) = s^s / (1 + s)^{1 + s}.

These bounds settle the questions whose answer is astronomically small, and stand where no engine has an
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.bracket import Side
from sharpdp.composition.discretize import exact, first_look, upper
from sharpdp.numerics.contour import log_call_constant
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_any, log_diff
from sharpdp.numerics.transform import Atoms
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import Pair

SMALLEST_LOG_DELTA = -745.2
"""Below this the exponential is zero in double precision."""

# Tilts of all sizes, and how often and how finely the neighborhood of the best one is looked at.
_TILTS = np.geomspace(1e-10, 1e24, 69)
_ZOOMS, _ZOOM = 3, 7
# Losses are left out whose probability adds up to this many nats less than the smallest delta.
_NATS_BELOW = 10.0
# Repetitions from which plain sums are not good enough even for a choice.
_MANY = 1e13
# Delta falls with epsilon, and this times a tilt is still a double.
_LARGEST_EPSILON = 1e200
# Rounding of the Gaussian part, relative to it.
_ROUNDING = 16.0 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class ChernoffBounds:
    """Upper atoms of every step, the variance of the Gaussian ones, and the log of what is infinite."""

    parts: tuple[tuple[Atoms, float], ...]
    gaussian: float
    log_infinite: float

    @classmethod
    def of(cls, steps: Sequence[tuple[Pair, int]], gaussian: float) -> ChernoffBounds:
        """Look at all losses that matter for any delta that is a double."""
        total = max(float(sum(count for _, count in steps)), 1.0)
        floor = SMALLEST_LOG_DELTA - float(np.log(total)) - _NATS_BELOW
        tables = [
            exact(pair, Side.UPPER)
            if isinstance(pair, AtomicPair)
            else upper(first_look(pair, floor))
            for pair, _ in steps
        ]
        counts = [float(count) for _, count in steps]
        parts = tuple((table.atoms, n) for table, n in zip(tables, counts, strict=True))
        infinite = log_any([table.log_infinite_p for table in tables], counts)
        if np.isfinite(infinite):
            # the sum of logarithms is off by a few units of the largest of them
            infinite += _ROUNDING * (1.0 + len(parts)) * (1.0 + abs(infinite) + np.log(total))
        return cls(parts, gaussian, min(infinite, 0.0))

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """An upper bound on log delta, and the tilt that gives it."""
        epsilon = min(epsilon, _LARGEST_EPSILON)
        # of all tilts that show it to be below all doubles, the smallest
        least = SMALLEST_LOG_DELTA - _NATS_BELOW
        s = self._best(lambda tilts, leads: np.maximum(leads - tilts * epsilon, least))
        lead = self._certified(s)
        bound = lead - s * epsilon + 4.0 * UNIT_ROUNDOFF * (abs(lead) + s * epsilon)
        total = float(np.logaddexp(bound, self.log_infinite))
        total += 4.0 * UNIT_ROUNDOFF * abs(total)
        return (min(total, 0.0) if total == total else 0.0), s

    def epsilon(self, log_delta: float) -> float:
        """An upper bound on the smallest epsilon with delta(epsilon) <= e^log_delta."""
        if self.log_infinite >= log_delta:
            return np.inf
        rest = float(log_diff(log_delta, self.log_infinite))
        rest -= (
            8.0 * UNIT_ROUNDOFF * (1.0 + abs(log_delta)) / -np.expm1(self.log_infinite - log_delta)
        )
        s = self._best(lambda tilts, leads: (leads - rest) / tilts)
        lead = self._certified(s)
        bound = (lead - rest + 4.0 * UNIT_ROUNDOFF * (abs(lead) + abs(rest))) / s
        return max(bound * (1.0 + 4.0 * UNIT_ROUNDOFF), 0.0) if bound == bound else np.inf

    @cached_property
    def _table(self) -> Array:
        """log of c(s) M_T(s) at tilts of all sizes (not certified)."""
        return self._leads(_TILTS)

    def _leads(self, tilts: Array) -> Array:
        total = log_call_constant(tilts) + 0.5 * self.gaussian * tilts * (tilts + 1.0)
        for atoms, count in self.parts:
            total = total + count * atoms.log_moments(tilts, exactly=count > _MANY)
        return np.asarray(total)

    def _best(self, objective: Callable[[Array, Array], Array]) -> float:
        """About the tilt at which the objective of tilts and leads is least."""
        tilts, leads = _TILTS, self._table
        for turn in range(_ZOOMS + 1):
            values = objective(tilts, leads)
            best = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
            if turn == _ZOOMS:
                break
            around = tilts[max(best - 1, 0)], tilts[min(best + 1, tilts.size - 1)]
            tilts = np.geomspace(*around, _ZOOM)
            leads = self._leads(tilts)
        return float(tilts[best])

    def _certified(self, s: float) -> float:
        """Not below log of c(s) M_T(s)."""
        known = 0.5 * self.gaussian * s * (s + 1.0)
        constant = float(log_call_constant(np.array(s)))
        total, size = known + constant, known + s * np.log1p(1.0 / s) + np.log1p(s)
        for atoms, count in self.parts:
            tilted = atoms.tilted(s)
            total += count * (tilted.log_moment + tilted.log_moment_error)
            size += count * abs(tilted.log_moment)
        return float(total + _ROUNDING * (1.0 + len(self.parts) / 16.0) * size)
