"""Sums of many lognormal variables beyond a stretch of thresholds: certified values from one contour.

S is the sum of T independent copies of U = exp(mu y - mu^2 / 2), y standard normal, and
D = S - c (calls) or c - S (puts) for a threshold c. For one stretch of thresholds a cap M splits what
can happen:

- near: no U exceeds M. With a Gaussian v Z added and z = theta + i t,

      E[(D + v Z)_+; near] = (1/2 pi) int E[e^{z D}; near] e^{v^2 z^2 / 2} / z^2 dt.

  A trapezoid rule with step 2 pi / W gives exactly the sum over all integers j of
  e^{-theta j W} E[(D + v Z + j W)_+; near]. For j > 0 a positive part is D + v Z + j W, whose sum is
  known, and what is missing, which has a Chernoff bound; for j < 0 all of it has one. An FFT serves all
  thresholds at once. The smoothing raises the value by at most v^2 times the density of D + v Z at zero
  (`numerics.expected_positive_part`).
- far: some U exceeds M. E[S - c; far] is known in closed form, and it is E[(S - c)_+; far] but for
  E[(c - S)_+; far], which is zero if M >= c and has a Chernoff bound otherwise.

Puts need no cap: e^{-theta U} falls, so that all is near.

Thresholds are kept as gap = sign (c - base T), sign 1 for calls and -1 for puts. The base is 1, so that
nothing cancels where c is close to T, and 0 for thresholds far below T.

Sources: alghamdi2023 (the contour), abate1992 (image sums), trefethen2014 (the trapezoid rule).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.bounds.allocation.capped_lognormal import LOG_GAUSS_ERROR, CappedLognormal
from sharpdp.numerics.contour import Tilted, beyond_last, powers
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_expm1

LARGEST_Y = 13.5
"""Values of y beyond mu by this much are so rare that they count in full (1e-41)."""

LEFT_TILTS = np.array([0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.6, 2.5, 4.0, 7.0])
RIGHT_TILTS = 1.0 + np.array([0.03, 0.06, 0.1, 0.17, 0.3, 0.5, 0.8, 1.3, 2.0, 4.0])
"""Tilts of Chernoff bounds on images, in units of the contour's."""

# The power at the last frequency is so many nats below the tolerance, in the middle of a stretch.
_NATS = 7.0
_MOST_FREQUENCIES = 1 << 19
# Rounding of moments in Chernoff bounds, and of thresholds and losses.
_CHERNOFF_SLACK, _MARGIN = 1e-6, 1e-11
# So many times the rounding of a plain sum, 1e-13, is within that slack.
_MANY_STEPS = 10**6
# The FFT's rounding relative to the sum of all moduli, for each stage.
_STAGE_ERROR = (2.0 + math.sqrt(5.0)) * UNIT_ROUNDOFF


@dataclass(frozen=True)
class Values:
    """Losses from zero on, with certified (lower, upper) logarithms of a profile there."""

    losses: Array
    log_low: Array
    log_high: Array


@dataclass(frozen=True)
class Stretch:
    """One contour, for thresholds from gap to gap + length; every choice of the others is safe."""

    mu: float
    steps: int
    sign: float
    base: float
    top: float
    gap: float
    length: float
    theta: float
    window: float
    smoothing: float
    spacing: float
    tolerance: float

    @property
    def end(self) -> float:
        """The last gap."""
        return self.gap + self.length

    @cached_property
    def _size(self) -> int:
        """The number of frequencies."""
        nats = _NATS + 0.5 * self.theta * self.length - math.log(self.tolerance)
        last = math.sqrt(2.0 * nats) / self.smoothing
        return min(int(last * self.window / (2.0 * math.pi)) + 2, _MOST_FREQUENCIES)

    @cached_property
    def _term(self) -> CappedLognormal:
        last = 2.0 * math.pi / self.window * (self._size - 1)
        reach = 1.001 * math.hypot(last, self.theta) + float(np.max(LEFT_TILTS)) * self.theta
        # the rule may be off by a small part of the tolerance, T times
        room = -LOG_GAUSS_ERROR - math.log(1e3 * self.steps / self.tolerance)
        return CappedLognormal(self.mu, self.base, self.sign, self.top, self.theta, reach, room)

    @cached_property
    def _tilted(self) -> Tilted:
        return self._term.tilted()

    def values(self) -> Values:
        """The profile at equally spaced thresholds from the first gap on, as far as the last."""
        count = max(math.ceil(self.length / self.spacing), 2)
        places, index = self._places(count)
        gaps: Array = self.gap + (self.window / places) * index.astype(float)
        payoff, error, density = self._sums(places)
        log_moment = self.steps * self._tilted.log_moment
        lead = log_moment + 0.5 * (self.smoothing * self.theta) ** 2 - self.theta * gaps
        size = np.abs(self.theta * gaps) + abs(log_moment) + 1.0
        slack = self.steps * self._tilted.log_moment_error + 8.0 * UNIT_ROUNDOFF * size
        images, image_error = self._closed_images(gaps, lead, slack)
        high = payoff[index] + error - images + image_error
        low = payoff[index] - error - images - image_error - self.smoothing**2 * density[index]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            for open_images in self._open_images(gaps):
                low = low - np.exp(open_images - lead)
            log_high = np.where(high > 0.0, lead + np.log(high) + slack, np.inf)
            log_low = np.where(low > 0.0, lead + np.log(low) - slack, -np.inf)
        log_high = np.minimum(log_high, self._chernoff(np.array([self.theta]), gaps)[0])
        return self._profile(gaps, log_low, log_high)

    def _places(self, count: int) -> tuple[int, NDArray[np.int64]]:
        """A lattice of so many places in the window, and the places of about `count` thresholds."""
        from scipy.fft import next_fast_len

        wanted = max(self._size, math.ceil(count * self.window / self.length))
        places = int(next_fast_len(wanted))
        stride = max(int(self.length / count / (self.window / places)), 1)
        last = int(self.length * places / (stride * self.window))
        return places, stride * np.arange(last + 1, dtype=np.int64)

    def _sums(self, places: int) -> tuple[Array, float, Array]:
        """Trapezoid sums at all places of the lattice, their error, and upper bounds on densities.

        All are in units of the moment at the tilt of each threshold.
        """
        from scipy.fft import fft

        theta, v, part = self.theta, self.smoothing, self._tilted
        step = 2.0 * math.pi / self.window
        t: Array = step * np.arange(self._size, dtype=float)
        power, errors = powers([part], [float(self.steps)], t, 0.01 * self.tolerance)
        damp = np.exp(-0.5 * (v * t) ** 2)
        # the turn to the first gap; those to the others are the FFT's
        drift = self.steps * part.center - self.gap + v * v * theta
        spin = power * damp * np.exp(1j * t * drift)
        sizes = self.steps * abs(part.center) + abs(self.gap) + self.length + v * v * theta
        bound = errors * damp + np.abs(spin) * UNIT_ROUNDOFF * (64.0 + 4.0 * t * sizes)
        bound = bound + np.abs(spin) * (math.log2(places) + 4.0) * _STAGE_ERROR
        weight = np.where(t > 0.0, 2.0, 1.0) / self.window
        kernel = np.asarray((theta + 1j * t) ** -2, dtype=complex)
        payoff = np.asarray(fft(weight * spin * kernel, places).real)
        density = np.asarray(fft(weight * spin, places).real)
        # frequencies beyond the last: the moduli are at most those of the Gaussian
        more, more_density = beyond_last(v, float(t[-1]), step)
        error = float((weight * np.abs(kernel)) @ bound) + more
        return payoff, error, np.maximum(density + float(weight @ bound) + more_density, 0.0)

    def _closed_images(self, gaps: Array, lead: Array, slack: Array) -> tuple[Array, Array]:
        """Images for j > 0 as far as they are in closed form, and their rounding error, over e^lead."""
        fade = self.theta * self.window
        mass, mean, size = 1.0, self.steps * (self.base - 1.0) - gaps, 0.0
        if self.sign > 0.0:
            chance, far = self._term.beyond
            log_none = math.log1p(-chance)
            mass = math.exp(self.steps * log_none)
            mean = (
                self.steps * self._term.mean * math.exp((self.steps - 1) * log_none) - gaps * mass
            )
            size = self.steps * (far + chance)
        sizes = size + self.steps * (1.0 - self.base) + np.abs(gaps)
        once = math.exp(-fade) / -math.expm1(-fade)
        twice = math.exp(-fade) / math.expm1(-fade) ** 2
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.exp(-lead)
            total = (mean * once + self.window * mass * twice) * scale
            units = UNIT_ROUNDOFF * (1024.0 + 4.0 * (fade + np.abs(lead))) + np.expm1(slack)
            return total, (sizes * once + self.window * mass * twice) * scale * units

    def _open_images(self, gaps: Array) -> tuple[Array, Array]:
        """Bounds on the logarithm of what is left of the images, on the left and on the right."""
        theta, window = self.theta, self.window
        s, a = theta * RIGHT_TILTS, theta * LEFT_TILTS
        right = self._chernoff(s, gaps) - log_expm1((s - theta) * window)[:, None]
        if self.sign > 0.0:
            left = self._chernoff(-a, gaps) - log_expm1((theta + a) * window)[:, None]
            return np.min(left, axis=0), np.min(right, axis=0)
        # all of E(S - c + v Z)_+ = T - c + E(c - S - v Z)_+, for every j
        above = self.steps * (1.0 - self.base) + gaps
        value = np.exp(np.min(self._chernoff(np.append(theta, s), gaps), axis=0))
        log_left = np.log(np.maximum(above, 0.0) + value) - log_expm1(np.array(theta * window))
        return log_left + _CHERNOFF_SLACK, np.min(right, axis=0)

    def _chernoff(self, tilts: Array, gaps: Array) -> Array:
        """Bounds on log E[(D + v Z)_+; near] by tilts > 0, or on that of -(D + v Z) by tilts < 0.

        From x_+ <= e^{a x} / (e a).
        """
        log_moments = self.steps * self._term.log_moments(tilts, exactly=self.steps > _MANY_STEPS)
        bounds = log_moments + 0.5 * (self.smoothing * tilts) ** 2 - 1.0 - np.log(np.abs(tilts))
        bounds = bounds + _CHERNOFF_SLACK * (1.0 + np.abs(log_moments))
        return np.asarray(bounds[:, None] - np.multiply.outer(tilts, gaps))

    def _profile(self, gaps: Array, log_low: Array, log_high: Array) -> Values:
        """The values, with what is far, as those of the profile at its losses."""
        if self.sign > 0.0:
            losses, log_unit = np.log1p(gaps / self.steps), np.full(gaps.size, math.log(self.steps))
            far = self._far(gaps)
            log_low, log_high = np.logaddexp(log_low, far[0]), np.logaddexp(log_high, far[1])
        elif self.base == 1.0:
            losses, log_unit = -np.log1p(-gaps / self.steps), np.log(self.steps - gaps)
        else:
            losses, log_unit = -np.log(-gaps / self.steps), np.log(-gaps)
        margin = _MARGIN * (1.0 + 1e-3 * self.theta * float(np.max(np.abs(gaps))))
        return Values(losses, log_low - log_unit - margin, log_high - log_unit + margin)

    def _far(self, gaps: Array) -> tuple[Array, Array]:
        """log of (lower, upper) of E[(S - c)_+; some U beyond the cap]."""
        steps, (chance, size) = self.steps, self._term.beyond
        if self.top >= self.mu + LARGEST_Y:
            # E[S; far]: the far ones themselves, and all others beside them
            log_high = math.log(steps * size + float(steps) ** 2 * chance)
            return np.full(gaps.size, -np.inf), np.full(gaps.size, log_high)
        log_none = math.log1p(-chance)
        gain = steps * (size - chance) * math.exp((steps - 1) * log_none)
        give = gaps * -math.expm1(steps * log_none)
        # normal tails, and a difference of two of them
        units = 1e-12 * (4.0 + self.top**2 / 16.0) * (1.0 + 1.0 / (self.mu * max(self.top, 1.0)))
        low, high = (gain * (1.0 + m * units) - give * (1.0 - m * units) for m in (-1.0, 1.0))
        with np.errstate(divide="ignore"):
            log_low: Array = np.log(np.maximum(low, 0.0))
            log_far: Array = np.log(np.maximum(high, 0.0))
        cap = self._term.cap
        log_short = np.where(gaps + steps <= cap, -np.inf, self._log_short(gaps - (cap - 1.0)))
        return log_low, np.logaddexp(log_far, log_short)

    def _log_short(self, distance: Array) -> Array:
        """log of a bound on E[(c - S)_+; far]: one U is at the cap, T - 1 others fall short."""
        tilts = self.theta * LEFT_TILTS
        # those beyond the cap have e^{-tilt (U - 1)} < 1
        exactly = self.steps > _MANY_STEPS
        log_moments = self._term.log_moments(-tilts, exactly=exactly)
        log_moments = np.logaddexp(log_moments, math.log(self._term.beyond[0]))
        total = (self.steps - 1) * log_moments
        total = total + _CHERNOFF_SLACK * (1.0 + np.abs(total)) - 1.0 - np.log(tilts)
        short = np.min(total + np.multiply.outer(distance, tilts), axis=1)
        return np.asarray(short + math.log(self.steps * self._term.beyond[0]))
