"""The Gaussian mechanism whose trade-off curve just stays below a given one: one number mu.

A point (a, b) of error rates on the curve f asks for mu >= z(a) + z(b), z the upper quantile of the
normal; the largest such number over all points with both rates at least r is wanted. With the profile
delta(k) known at some thresholds k >= 0:

    from above: the lines 1 - delta(k) - e^k a lie below f. Their maximum is a polygon, and a convex curve
        that is below it at its vertices is below it between them: the vertices' numbers suffice.
    from below: at the point where f has slope -e^k, f + e^k a is 1 - delta(k), so that every mu with
        delta_mu(k) < delta(k) is too small, if the point has both rates at least r. At a = r itself
        concavity of 1 - delta - x a in x bounds f from above.

One direction, thresholds k >= 0; the other half of the curve is that of the reversed pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.numerics.hull import concave_maximum, lower_hull
from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_normal_call, ndtri
from sharpdp.pairs.pair import GaussianPair
from sharpdp.profile.enclosed import EnclosedProfile
from sharpdp.profile.planning import reaches

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

_ROUNDING = 1e-15
"""Allowance for the error of 1 - delta - x a."""

_OUTWARDS, _CANCELED = 1e-9, 1e-13
"""Allowance for quantiles and bisection: relative, and absolute where two quantiles cancel."""


def mu_between(
    composition: Composition, smallest_rate: float, relative_width: float
) -> tuple[float, float]:
    """Certified (lower, upper) for the mu that one half of the trade-off curve asks for.

    Compared where both error rates are at least smallest_rate. Thresholds are added where the upper
    end is decided, until the two are within relative_width, there are many, or three rounds leave nine
    tenths of the width.
    """
    if isinstance(composition.single_pair, GaussianPair):
        mu = min(composition.single_pair.mu, 2.0 * float(-ndtri(smallest_rate)))
        return mu * (1.0 - _OUTWARDS), mu * (1.0 + _OUTWARDS)
    # with total variation v the curve is above 1 - a - v, and z moves by at most v over its density
    density = float(np.exp(-0.5 * ndtri(smallest_rate) ** 2)) / float(np.sqrt(2.0 * np.pi))
    apart = float(np.exp(composition.log_total_variation_upper)) / density
    if apart <= _CANCELED:
        return 0.0, 2.0 * _CANCELED
    profile = ProfileSamples(composition, smallest_rate, 0.25 * relative_width)
    profile.descend()
    low, widths = 0.0, []
    for _ in range(16):
        wanted, cells = profile.upper()
        high = float(np.max(wanted))
        low = max(low, profile.lower(low, high))
        widths.append(high - low)
        if len(widths) > 3 and widths[-1] > 0.9 * widths[-4]:
            break
        decisive = np.flatnonzero(wanted > low + 0.2 * relative_width * high)
        if not decisive.size or not profile.refine(cells[decisive], wanted[decisive]):
            break
    low = max(low * (1.0 - _OUTWARDS) - _CANCELED, 0.0)
    return low, max(low, high * (1.0 + _OUTWARDS) + _CANCELED)


@dataclass(frozen=True)
class ProfileSamples:
    """A profile at some thresholds: H there, between two bounds."""

    composition: Composition
    rate: float
    tolerance: float
    known: dict[float, tuple[float, float]] = field(default_factory=dict)
    seen: dict[float, float] = field(default_factory=dict)

    def look_at(self, thresholds: list[float], tolerance: float) -> None:
        """H at each e^threshold, anew if it was known less well; relative to H and to 1 - H."""
        new = [k for k in dict.fromkeys(thresholds) if self.seen.get(k, np.inf) > tolerance]
        if not new:
            return
        self._ask(new, tolerance)
        wide = [k for k in new if self.known[k][1] - self.known[k][0] > tolerance * self._rest(k)]
        if wide:
            self._ask(wide, max(tolerance * min(map(self._rest, wide)), 1e-8))
        self.seen.update(dict.fromkeys(new, tolerance))

    def _rest(self, threshold: float) -> float:
        """1 - H at a threshold that is known."""
        return 1.0 - self.known[threshold][0]

    def _ask(self, thresholds: list[float], tolerance: float) -> None:
        """(lower, upper) of H at each e^threshold."""
        profile = EnclosedProfile(self.composition, tolerance)
        below, above = profile.heights(np.array(thresholds))
        self.known.update(
            zip(thresholds, zip(below.tolist(), above.tolist(), strict=True), strict=True)
        )

    def descend(self) -> None:
        """Thresholds from just below zero to where the curve's false-positive rate is below the rate.

        A rate a belongs to thresholds of at most log 1/a.
        """
        log_rate = float(np.log(self.rate))
        farthest = min(-log_rate, self.composition.largest_loss)
        last = min(reaches([(self.composition, log_rate)])[0], farthest)
        for _ in range(16):
            grid = last / 32.0 * np.arange(-4.0, 34.0)
            self.look_at(grid.tolist(), self.tolerance)
            if self._beside(np.ones(1), np.array([self.known[0.0][0]])) <= self.rate:
                return  # both rates are below the smallest one somewhere: none asks for more
            high, low = self.known[float(grid[-2])][1], self.known[float(grid[-1])][0]
            steepest = (high - low) / (np.exp(grid[-1]) - np.exp(grid[-2]))
            if last >= farthest or steepest <= self.rate or high <= 0.0:
                break
            last = min(1.5 * last, farthest)

    def ends(self, first: float = -np.inf) -> tuple[Array, Array, Array]:
        """Thresholds from `first` on, in order, with the bounds there.

        Of those whose exponentials are not told apart, one: zero, or the first.
        """
        kept: list[float] = []
        for threshold in sorted(threshold for threshold in self.known if threshold >= first):
            if kept and math.expm1(threshold - kept[-1]) <= 4.0 * _ROUNDING:
                if threshold != 0.0:
                    continue
                kept.pop()
            kept.append(threshold)
        values = np.array([self.known[threshold] for threshold in kept])
        return np.array(kept), values[:, 0], values[:, 1]

    def lower(self, low: float, high: float) -> float:
        """A mu that is needed, between one that is and one that suffices."""
        k, delta_low, delta_high = self.ends()
        x = np.exp(k)
        # the false-positive rate at each threshold, from the chords on both sides, and the other rate
        shortest, longest = _widths(x)
        least_rate = (delta_low[1:-1] - delta_high[2:]) / longest[1:]
        most_rate = (delta_high[:-2] - delta_low[1:-1]) / shortest[:-1]
        other = (
            1.0 - delta_high[1:-1] - x[1:-1] * most_rate - _ROUNDING * (1.0 + x[1:-1] * most_rate)
        )
        inside = (k[1:-1] >= 0.0) & (delta_low[1:-1] > 0.0)
        inside &= (least_rate >= self.rate) & (other >= self.rate)
        by_slope = _largest_mu(k[1:-1][inside], np.log(delta_low[1:-1][inside]), low, high)
        rounding = _ROUNDING * (1.0 + x * self.rate)
        bottom = 1.0 - delta_high - x * self.rate - rounding
        corner = concave_maximum(x, bottom, 1.0 - delta_low - x * self.rate + rounding)
        corner = min(corner, self._beside(x, delta_low))
        # next to one a unit of rounding is much for a quantile
        corner = min(max(corner, self.rate), 1.0 - self.rate) * (1.0 + 8.0 * UNIT_ROUNDOFF)
        return max(by_slope, float(_asked(self.rate, corner)))

    def _beside(self, x: Array, delta_low: Array) -> float:
        """An upper bound on f at the rate itself: 1 - H_x for each x at which that is at most x times it.

        A point where f has slope -x has f + x a = 1 - H_x, so that a is at most the rate.
        """
        whole = 1.0 - delta_low + _ROUNDING
        return float(np.min(whole[whole <= x * self.rate * (1.0 - _ROUNDING)], initial=1.0))

    def upper(self) -> tuple[Array, Array]:
        """The mu that each vertex of the polygon asks for, and the thresholds around it.

        Where the polygon falls below the rate it is cut off there.
        """
        k, _, high = self.ends(0.0)
        x = np.exp(k)
        hull = lower_hull(list(zip(x.tolist(), high.tolist(), strict=True)))
        k, x, high = k[hull], x[hull], high[hull]
        a = -np.diff(high) / np.diff(x)
        b = 1.0 - high[:-1] - x[:-1] * a
        first = int(np.argmax(1.0 - high - x * self.rate))
        start = 1.0 - high[first] - x[first] * self.rate
        inside = np.flatnonzero(a > self.rate)
        cells = np.stack([k[:-1], k[1:]], axis=1)[inside]
        around = [k[max(first - 1, 0)], k[min(first + 1, k.size - 1)]]
        rates, others = np.append(a[inside], self.rate), np.append(b[inside], start)
        others -= _ROUNDING * (2.0 + rates * x[-1])
        cells = np.concatenate([cells, [around]])
        # vertices come with falling a; the polygon reaches the rate between the first two around it
        under = np.flatnonzero(others < self.rate)
        if under.size and under[-1] + 1 < rates.size:
            j = int(under[-1])
            share = (others[j + 1] - self.rate) / (others[j + 1] - others[j])
            rates[j] = rates[j + 1] + share * (rates[j] - rates[j + 1])
        visible = slice(int(under[-1]) if under.size else 0, None)
        return _asked(rates[visible], np.maximum(others[visible], self.rate)), cells[visible]

    def refine(self, cells: Array, wanted: Array) -> bool:
        """Look closer at the worst of these cells; whether anything new could be seen."""
        before = len(self.known), sum(self.seen.values())
        closer: list[float] = []
        for left, right in cells[np.argsort(wanted)[::-1][:128]].tolist():
            between = sorted(threshold for threshold in self.known if left <= threshold <= right)
            rough = [threshold for threshold in between if self.seen[threshold] > self.tolerance]
            closer += rough
            if len(self.known) < 1024 and (not rough or len(between) == 2):
                closer += [0.5 * (low + high) for low, high in pairwise(between)]
        self.look_at(closer, self.tolerance)
        return before != (len(self.known), sum(self.seen.values()))


def _asked(a: Array | float, b: Array | float) -> Array:
    """z(a) + z(b), at least zero."""
    return np.maximum(-ndtri(a) - ndtri(b), 0.0)


def _widths(x: Array) -> tuple[Array, Array]:
    """(lower, upper) of the distances of neighboring numbers that are right to a few units."""
    width, blur = np.diff(x), _ROUNDING * x[1:]
    return np.maximum(width - blur, np.finfo(float).tiny), width + blur


def _largest_mu(k: Array, log_delta: Array, low: float, high: float) -> float:
    """About the largest mu whose delta is at or below a given one at some threshold, not above it.

    Looked for between two numbers; the first one is returned if none above it was seen to be one. The
    error of log_normal_call is below 1e-11.
    """
    if not k.size:
        return low
    return last_true(
        lambda mu: bool(np.any(log_normal_call(mu, k) + 1e-11 <= log_delta)),
        low,
        high,
        halvings=60,
        relative_width=1e-8,
    )[0]
