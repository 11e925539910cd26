"""A sequence with a part that is known by its Renyi divergences only: every answer goes through orders.

The divergences of all parts add up, those of the other parts taken from their own pairs; the sum is
converted to delta, and everything else follows from that. Upper side only: both ends of an answer are
the upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.composition.composition import Composition, extremes_allowed
from sharpdp.composition.many_questions import Ends
from sharpdp.numerics.special import Array, ndtri
from sharpdp.renyi.curve import OUTWARDS, RenyiCurve

__all__ = ["ByOrders"]

THRESHOLDS = np.concatenate([[0.0], np.geomspace(1e-2, 64.0, 32)])
"""Epsilons whose deltas hold the trade-off curve up.

Each of them gives a bound on its own, whatever the losses beyond the last one are: more of them would
only sharpen rates.
"""

SLACK = 1e-12
"""Absolute allowance for rounding in rates and in mu."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class ByOrders:
    """Curves, each so many times, and a composition of pairs, run one after the other."""

    curves: tuple[tuple[RenyiCurve, int], ...]
    others: Composition
    symmetric = True
    """A curve bounds both directions, and of the others the worse one is taken."""

    repeated_pair = None
    """Its answers do not come from a pair."""

    def reverse(self) -> ByOrders:
        """The other direction, which is the same."""
        return self

    def fresh(self) -> ByOrders:
        """The same sequence without the work that earlier questions left."""
        return ByOrders(self.curves, self.others.fresh())

    @cached_property
    def _known(self) -> dict[float, float]:
        """The divergences of the other parts at the orders that were asked for."""
        return {}

    def at(self, orders: Array) -> Array:
        """Upper bounds on the divergences of the whole sequence."""
        alone = RenyiCurve.summed(self.curves).at(orders)
        if not self.others.steps:
            return np.asarray(alone)
        rest = np.array([self._rest(float(order)) for order in np.ravel(orders)])
        return np.asarray((alone + rest.reshape(np.shape(orders))) * (1.0 + OUTWARDS))

    def _rest(self, order: float) -> float:
        if order not in self._known:
            both = (self.others, self.others.reverse())
            uppers = [composition.renyi(order, 1e-3)[1] for composition in both]
            self._known[order] = float("inf") if np.isnan(uppers).any() else max(uppers)
        return self._known[order]

    def _first_orders(self) -> Array:
        """Orders to begin with, at most 40: those that the curves list, thinned out, or a fixed set."""
        listed = sorted({order for curve, _ in self.curves for order in curve.orders})
        if not listed or any(curve.function is not None for curve, _ in self.curves):
            return 1.0 + np.geomspace(0.05, 1e5, 40)
        few = np.linspace(0, len(listed) - 1, min(len(listed), 40)).round().astype(int)
        return np.asarray(np.array(listed)[few], dtype=float)

    @cached_property
    def _whole(self) -> RenyiCurve:
        return self._curve(self._first_orders())

    def _curve(self, orders: Array) -> RenyiCurve:
        """The sum as a curve; a value bounds the divergences of all smaller orders too."""
        values = np.minimum.accumulate(self.at(orders)[::-1])[::-1]
        return RenyiCurve(orders=tuple(orders.tolist()), values=tuple(values.tolist()))

    def best(self, quantity: str, given: float) -> float:
        """The smallest epsilon or delta: over a few orders, then over more around the best one."""
        if not self.others.steps:
            return RenyiCurve.summed(self.curves).best(quantity, given, "optimal")[0]
        value, order = self._whole.best(quantity, given, "optimal")
        finite = np.array([order for order in self._whole.orders if order < np.inf])
        if finite.size < 2 or not 0.0 < value < np.inf or np.isinf(order):
            return value
        index = int(np.clip(np.searchsorted(finite, order), 1, finite.size - 1))
        low, high = finite[max(index - 2, 0)], finite[min(index + 1, finite.size - 1)]
        closer = 1.0 + np.geomspace(low - 1.0, high - 1.0, 20)
        return min(value, self._curve(closer).best(quantity, given, "optimal")[0])

    def epsilons(self, log_deltas: Array, relative_width: float, deltas: Array) -> Ends:
        """The upper bounds on epsilon, twice; the width is not up to this side."""
        with extremes_allowed():
            values = np.array([self.best("epsilon", float(delta)) for delta in deltas])
        return values, values

    def pure_epsilon(self, relative_width: float) -> Interval:
        """The upper bound on epsilon at delta = 0, twice: finite if the infinite order is known."""
        with extremes_allowed():
            value = self.best("epsilon", 0.0)
        return value, value

    def log_deltas(self, epsilons: Array, relative_width: float) -> Ends:
        """The upper bounds on log delta, twice."""
        with extremes_allowed():
            deltas = np.array([self.best("delta", float(epsilon)) for epsilon in epsilons])
            values = np.where(deltas > 0.0, np.log(deltas) * (1.0 - OUTWARDS), -np.inf)
        return values, values

    def final_log_deltas(self, epsilons: Array, relative_width: float) -> Ends:
        """The same: each of them is an answer by itself."""
        return self.log_deltas(epsilons, relative_width)

    def renyi_divergences(self, orders: Array, relative_width: float) -> Ends:
        """The upper bounds on the divergences, twice."""
        values = self.at(orders)
        return values, values

    @cached_property
    def _deltas(self) -> Array:
        """Upper bounds on delta at the thresholds."""
        curve = self._whole if self.others.steps else RenyiCurve.summed(self.curves)
        return np.array(
            [curve.best("delta", float(epsilon), "optimal")[0] for epsilon in THRESHOLDS]
        )

    @cached_property
    def _lines(self) -> tuple[Array, Array]:
        """Heights and slopes of lines below the trade-off curve.

        fnr >= 1 - delta - e^epsilon fpr, and >= e^-epsilon (1 - delta - fpr) by the other direction.
        """
        deltas, factors = self._deltas, np.exp(-THRESHOLDS)
        heights = np.concatenate([1.0 - deltas, factors * (1.0 - deltas)]) - SLACK
        return heights, np.concatenate([1.0 / factors, factors])

    def _least_rate(self, fpr: Array) -> Array:
        heights, slopes = self._lines
        lines = heights - slopes * np.atleast_1d(fpr)[:, None]
        return np.asarray(np.maximum(np.max(lines, axis=1), 0.0))

    def false_negative_rates(self, fprs: Array, relative_width: float) -> Ends:
        """The lower bounds on false-negative rates, twice."""
        values = self._least_rate(fprs)
        return values, values

    def true_positive_rates(self, fprs: Array, relative_width: float) -> Ends:
        """The upper bounds on true-positive rates, twice: the smallest delta + e^epsilon fpr.

        Where some divergence is finite, no result reveals the record for certain.
        """
        deltas, factors, rates = self._deltas, np.exp(-THRESHOLDS), fprs[:, None]
        ahead = deltas + rates / factors
        behind = -np.expm1(-THRESHOLDS) + factors * (deltas + rates)
        values = np.minimum(np.minimum(ahead, behind).min(axis=1) * (1.0 + SLACK), 1.0)
        values = np.where(fprs == 0.0, 0.0 if deltas[-1] < 1.0 else 1.0, values)
        return values, values

    def mu(self, smallest_fpr: float, relative_width: float) -> Interval:
        """The upper bound on mu, twice.

        The curve is held up by lines and Gaussian curves are convex, so that the corners decide; all
        points where two lines meet, or one leaves the range, are looked at.
        """
        heights, slopes = self._lines
        with np.errstate(divide="ignore", invalid="ignore"):
            met = (heights[:, None] - heights) / (slopes[:, None] - slopes)
            left = (heights - smallest_fpr) / slopes
        fpr = np.concatenate([[smallest_fpr], met[np.isfinite(met)], left])
        fpr = np.unique(fpr[(fpr >= smallest_fpr) & (fpr < 1.0)])
        fnr = self._least_rate(fpr)
        seen = fnr >= smallest_fpr * (1.0 - SLACK)
        if not seen[0]:
            return np.inf, np.inf
        mus = -ndtri(fpr[seen]) - ndtri(np.maximum(fnr[seen] - SLACK, 0.0))
        value = float(np.max(mus, initial=0.0)) + SLACK
        return value, value
