"""Positive parts of sums of many equal, independent variables with few values, at a cost free of n.

S is the sum of n copies of a variable that is g_a with probability p_a. With a Gaussian v Z added,
M_v(z) = M(z)^n e^{v^2 z^2 / 2} and z = theta + i t, theta > 0,

    E[(S + v Z)_+] = (1/2 pi) int M_v(z) / z^2 dt.

The trapezoid rule with step 2 pi / W gives exactly sum_k e^{-theta k W} E[(S + v Z + k W)_+]. All
terms are positive, so the sum over all frequencies is an upper bound on E[S_+] whatever the step;
k = 0 is the value itself and the other terms have Chernoff bounds for the lower side. Frequencies
beyond T are at most M_v(theta) e^{-v^2 T^2 / 2} / (pi T). The smoothing raises the value by at most
v^2 times the density of S + v Z at zero, since the density of s Z is nowhere more than v / s times that
of v Z if s < v:

    E[(S + v Z)_+] - E[S_+] = (1/2) int_0^{v^2} f_s(0) d(s^2) <= v^2 f_v(0).

n log M is a sum of n small numbers, kept to about sqrt(n) units by log1p and expm1.

Sources: alghamdi2023 (the contour), abate1992 (image sums), trefethen2014 (the trapezoid rule).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.contour import (
    MANY_POINTS,
    beyond_each_last,
    beyond_last,
    exponential,
    gridded_transform,
    log_power,
    phase_moves,
    phase_sums,
    trapezoid_sums,
)
from sharpdp.numerics.matrix_product import matrix_product
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray

# Halvings of the tilt's logarithmic range; the result needs no accuracy, only to be near the best.
_HALVINGS = 14
_SMALLEST_TILT, _LARGEST_EXPONENT, _OVERFLOW = 1e-3, 600.0, 700.0
# A tilt whose largest exponent is beyond this is as large as was allowed.
_NO_TILT = 599.0
# Exponents below minus this are as good as minus infinity, and finite.
_NOTHING_LEFT = 1e6
# The smoothing in units of the tilted standard deviation and of the tilt's inverse, and how often it
# is made so many times smaller where the two sides are still so far apart.
_SMOOTHING, _SMOOTHING_TILT = 0.005, 0.2
_ATTEMPTS, _SHRINK, _FAR_APART, _FAR_FROM_ONE = 4, 4.0, 1e-3, 2e-4
# What smoothing adds is convex in its width and vanishes with it: at most a third of what an attempt took
# off is left. An upper end that moved by at most this part of the distance above has settled.
_SETTLED = 0.1
# What aliases and cut frequencies may contribute, in nats below the value.
_NATS, _LEAST_NATS = 14.0, 4.0
_NARROWEST_WINDOW = 7.0
# The least standard deviation that is planned for, in units of the tilt's inverse.
_NARROWEST_SPREAD = 0.1
_MOST_FREQUENCIES = 1 << 16
# With so many pairs of frequencies and values nothing is tried again.
_MOST_TERMS = 1 << 19
# Tilts of the Chernoff bounds on the images, in units of the contour's.
IMAGE_TILTS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.15, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0])
# For heavy tails: tilts in units of the best one, the lower one where the best one times the largest
# value is below this; and how the window and the smoothing are changed from one attempt to the next.
_LOW_TILT, _HIGH_TILT, _RARE_JUMPS = 0.7, 0.9, 8.0
_SHARE, _WIDENED, _MOST_SHRINK = 0.2, 1.25 ** np.arange(14.0), 8.0
# Logarithms of tilts that shifted sums share are so far apart.
_LADDER = 0.1
# So many times the value may be smaller than that of a normal sum.
_HEAVY = 20.0
# Rounding of their other terms; psi is taken for this at least, which keeps its logarithm finite.
_CHERNOFF_SLACK, _LEAST_PSI = 1e-6, -1.0 + 1e-9
# Frequencies whose power is below this are left out. n times the error of psi may be this large before
# it is summed again.
_NEGLIGIBLE_LOG, _HARMLESS = -50.0, 1e-8
# Frequencies are looked at in blocks of this size, and those in groups; so many exponentials, and so many
# blocks of frequencies, are held at the same time: they fit into a cache.
_BLOCK, _GROUP, _TABLE, _BLOCKS = 32, 16, 1 << 16, 512
# As good as zero.
_TINY = 1e-290
# sin, cos, exp and the rounded weights: so many units for each term, besides one for each summand.
_UNITS = 64.0


@dataclass(frozen=True)
class Sums:
    """n copies of a variable with the given weights, for many sets of values (one row each) at once.

    The weights are rounded ones of a law with sum one, off by a few units each; the values are known
    to within `value_error` (an array of the same shape).
    """

    weights: Array
    values: Array
    value_error: Array
    count: float

    def tilts(self) -> Array:
        """About the tilt of each row at which theta^-2 M(theta)^n is smallest."""
        spread = np.sqrt(self.count * (self.values**2 @ self.weights))
        largest = np.max(self.values, axis=1, initial=0.0)
        with np.errstate(divide="ignore"):
            low = np.log(_SMALLEST_TILT / np.maximum(spread, largest))  # below high
            high = np.log(np.minimum(_LARGEST_EXPONENT / largest, 1.0 / _TINY))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            theta = np.exp(middle)
            with np.errstate(over="ignore", invalid="ignore"):  # any tilt will do
                grown = self.weights * np.exp(np.minimum(theta[:, None] * self.values, _OVERFLOW))
                total = np.sum(grown, axis=1)
                rising = self.count * theta * np.sum(grown * self.values, axis=1) > 2.0 * total
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        return np.asarray(np.exp(high))

    def log_ceilings(self, thetas: Array) -> Array:
        """Upper bounds on log E[S_+] from x_+ <= e^{theta x} / (e theta)."""
        column = thetas[:, None]
        with np.errstate(over="ignore"):
            exponents, errors = column * self.values, column * self.value_error
        log_m = log_moments_up(self.weights, exponents, errors, self.count)
        return log_m - 1.0 - np.log(thetas)

    def log_value(self, place: int, theta: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E[S_+] of one row; either may be infinite."""
        low, high = self.log_values(np.array([place]), np.array([theta]))
        return float(low[0]), float(high[0])

    def log_uppers(self, places: NDArray[np.intp], thetas: Array) -> Array:
        """The upper ends of `log_values`, whatever their distance from the lower ones."""
        return self.log_values(places, thetas, only_upper=True)[1]

    def log_values(
        self, places: NDArray[np.intp], thetas: Array, *, only_upper: bool = False
    ) -> tuple[Array, Array]:
        """`log_value` of many rows, each with its tilt: all lower and all upper ends."""
        low, high = np.full(places.size, -np.inf), np.full(places.size, np.inf)
        largest = np.max(self.values[places], axis=1)
        reach = np.max(self.values[places] + self.value_error[places], axis=1, initial=0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            is_likely = (largest * thetas > 0.0) & (largest * thetas < _NO_TILT)
        rare = np.flatnonzero(~is_likely)
        high[rare] = rare_moments_up(
            self.weights, self.values[places[rare]], self.value_error[places[rare]], self.count
        )
        high[reach <= 0.0] = -np.inf
        left, shrink = np.flatnonzero(is_likely & (reach > 0.0)), 1.0
        for _ in range(_ATTEMPTS):
            if not left.size:
                break
            many = _Contours.of(self, places[left], thetas[left], shrink)
            new_low, new_high = many.log_values()
            before = high[left]
            low[left], high[left] = np.maximum(low[left], new_low), np.minimum(high[left], new_high)
            near = _FAR_APART + _FAR_FROM_ONE * np.abs(high[left])
            far = high[left] - low[left] > near
            if only_upper:
                with np.errstate(invalid="ignore"):  # infinite before and after
                    far &= ~(before - high[left] <= _SETTLED * near)
            left = left[far & ~many.exhausted]
            shrink *= _SHRINK
        return low, high


class ShiftedSum:
    """E[(S + a)_+] from above, for one sum S and many a: a contour serves all a that want its tilt.

    The arguments are those of `Sums` with a single row.

    >>> law = ShiftedSum(np.array([0.5, 0.5]), np.array([-1.0, 1.0]), np.zeros(2), 4.0)
    >>> value, _ = law.log_sharp_upper(-1.0, 1e-3)  # (4 + 3) / 16
    >>> bool(0.0 <= value - np.log(7 / 16) < 1e-3)
    True
    """

    def __init__(self, weights: Array, values: Array, value_error: Array, count: float) -> None:
        self._row = _Row(weights, values, value_error, count)
        largest = float(np.max(values))
        low = _SMALLEST_TILT / max(float(np.sqrt(count * (values**2 @ weights))), largest)
        rungs = np.arange(np.log(low), np.log(_LARGEST_EXPONENT / largest), _LADDER)
        self._tilts = np.exp(rungs)
        column = self._tilts[:, None]
        self._log_moments = log_moments_up(weights, column * values, column * value_error, count)
        self._contours: dict[int, _Contour] = {}

    def log_sharp_upper(self, shift: float, tolerance: float) -> tuple[float, float]:
        """An upper bound on log E[(S + shift)_+], and about its best tilt.

        It is within the tolerance if work can do it. For heavy tails a tilt below the best one makes
        images on the left rare, and the window grows until the images are small relative to the value.
        """
        heights = self._log_moments + self._tilts * shift
        slack = 4.0 * UNIT_ROUNDOFF * np.abs(self._tilts * shift)
        ceiling = float(np.min(heights - 1.0 - np.log(self._tilts) + slack))
        rung = int(np.argmin(heights - 2.0 * np.log(self._tilts)))
        theta, row = float(self._tilts[rung]), self._row
        if not np.isfinite(heights[rung]) or row.too_rare(theta):
            return ceiling, theta
        if rung not in self._contours:
            contour = row.contour(row.lower_tilt(theta), 1.0)
            self._contours[rung] = contour.planned(tolerance, shift)
        high, contour = self._contours[rung].log_sharp_upper(tolerance, shift)
        self._contours[rung] = contour
        return min(high, ceiling), theta


@dataclass(frozen=True)
class _Row:
    """One set of values."""

    weights: Array
    values: Array
    value_error: Array
    count: float

    def log_moment(self, theta: float) -> tuple[float, float]:
        """n log M(theta) and a bound on its error; infinite where it overflows."""
        exponents, errors = theta * self.values[None], theta * self.value_error[None]
        log_m, error = log_moments(self.weights, exponents, errors, self.count)
        return float(log_m[0]), float(error[0])

    def too_rare(self, theta: float) -> bool:
        """Whether no tilt within doubles brings positive sums to the center, if there are any."""
        largest = float(np.max(self.values))
        return not 0.0 < largest * theta < _NO_TILT

    def lower_tilt(self, theta: float) -> float:
        """A tilt below the best one, which makes images on the left rare."""
        largest = float(np.max(self.values))
        return theta * (_LOW_TILT if theta * largest < _RARE_JUMPS else _HIGH_TILT)

    def contour(self, theta: float, shrink: float) -> _Contour:
        """Choose smoothing, window and frequencies for one tilt; everything is certified afterwards."""
        tilted = self.weights * np.exp(theta * self.values)
        tilted = tilted / np.sum(tilted)
        mean = float(tilted @ self.values)
        spread = float(np.sqrt(self.count * (tilted @ (self.values - mean) ** 2)))
        spread = max(spread, _NARROWEST_SPREAD / theta)
        smoothing = min(_SMOOTHING * spread, _SMOOTHING_TILT / theta) / shrink
        log_m, error = self.log_moment(theta)
        # the value is about e^{log_m} / (theta max(1, theta spread)), the images less than e^{-theta W} W
        log_share = np.log(1.0 + (theta * spread) ** 2) - log_m
        window = max((_NATS + max(log_share, 0.0)) / theta, _NARROWEST_WINDOW * spread)
        return _Contour(self, tilted, theta, spread, smoothing, window, log_m, error)


@dataclass(frozen=True)
class _Contour:
    """One trapezoid sum with everything that is known about its errors."""

    row: _Row
    tilted: Array
    theta: float
    spread: float
    smoothing: float
    window: float
    log_m: float
    log_m_error: float

    @cached_property
    def size(self) -> int:
        """The number of frequencies."""
        nats = max(_NATS + np.log(self.smoothing * self.spread * self.theta**2), _LEAST_NATS)
        last = np.sqrt(2.0 * nats) / self.smoothing
        return min(int(np.ceil(last * self.window / (2.0 * np.pi))) + 2, _MOST_FREQUENCIES)

    @property
    def exhausted(self) -> bool:
        """Whether there are no more frequencies to be had, or they take too long."""
        terms = self.size * self.row.values.size
        return self.size >= _MOST_FREQUENCIES or terms >= _MOST_TERMS

    @property
    def _lead(self) -> float:
        return self.log_m + 0.5 * (self.smoothing * self.theta) ** 2

    def read(self, shift: float = 0.0) -> _Reading:
        """E[(S + shift)_+], with everything that is known about its errors."""
        lead = self._lead + self.theta * shift
        slack = 4.0 * UNIT_ROUNDOFF * (abs(self._lead) + abs(self.theta * shift) + abs(lead))
        value, error, density = self._sums(shift)
        images = float(self._images(np.array([self.window]), shift)[0])
        rise = self.smoothing**2 * density
        return _Reading(lead, self.log_m_error + slack, value, error, images, rise)

    def log_sharp_upper(self, tolerance: float, shift: float) -> tuple[float, _Contour]:
        """An upper bound on log E[(S + shift)_+], and the contour that was sharp enough in the end."""
        contour, high = self, np.inf
        for _ in range(_ATTEMPTS):
            reading = contour.read(shift)
            high = min(high, reading.log_value[1])
            if reading.excess <= tolerance or contour.exhausted:
                break
            contour = contour.sharper(tolerance, shift, reading)
        return high, contour

    def planned(self, tolerance: float, shift: float) -> _Contour:
        """The same in a window that is likely to be wide enough for the tolerance.

        With heavy tails the value is up to 50 times smaller than if sums were normal; images fall quickly
        as the window grows.
        """
        value = 1.0 / (self.theta * (1.0 + np.sqrt(2.0 * np.pi) * self.theta * self.spread))
        return replace(self, window=self._wide_enough(_SHARE * tolerance * value / _HEAVY, shift))

    def _wide_enough(self, allowed: float, shift: float) -> float:
        """A window whose images are no more than this, if that is not far from the present one."""
        windows = self.window * _WIDENED
        enough = self._images(windows, shift) <= allowed
        return float(windows[np.argmax(enough)] if enough.any() else windows[-1])

    def sharper(self, tolerance: float, shift: float, reading: _Reading) -> _Contour:
        """A contour whose images and smoothing add less than a part of the tolerance, as far as known."""
        allowed = _SHARE * tolerance * max(reading.value, _TINY)
        window, smoothing = self._wide_enough(allowed, shift), self.smoothing
        if reading.rise > allowed:
            smoothing /= min(max(np.sqrt(reading.rise / allowed), 1.5), _MOST_SHRINK)
        return replace(self, window=window, smoothing=smoothing)

    def _rough(self) -> tuple[Array, ComplexArray, Array]:
        """Frequencies that matter, psi there, and its errors.

        psi = M(z) / M(theta) - 1. It is found with an error of some units, which says where the power
        matters. There it is kept if n times that error does not; otherwise psi is summed again.
        """
        row, q = self.row, self.tilted
        units = 2.0 * (_UNITS + row.values.size) * UNIT_ROUNDOFF
        size = float(q @ (np.abs(row.values) * (1.0 + self.theta * np.abs(row.values))))
        known = units * size + float(q @ row.value_error)
        step, places = 2.0 * np.pi / self.window, np.arange(self.size)
        if q.size >= MANY_POINTS:
            phi, gridding = gridded_transform(row.values, q, step, self.size)
        else:
            phi, gridding = phase_sums(row.values, q, step, places), np.zeros(self.size)
        rounding = gridding + units
        alive = self._alive(np.abs(phi), step * known * places + rounding)
        t, phi, rounding = np.asarray(step * places[alive]), phi[alive], rounding[alive]
        moved = np.asarray(t * known)
        if row.count * float(np.max(rounding)) < _HARMLESS:
            return t, phi - 1.0, moved + rounding
        return t, phase_moves(row.values, q, t), moved

    def _alive(self, modulus: Array, error: Array) -> NDArray[np.bool_]:
        """Where the n-th power of a modulus that is known up to an error is not negligible."""
        with np.errstate(divide="ignore"):
            return self.row.count * np.log(np.minimum(modulus, 1.0) + error) > _NEGLIGIBLE_LOG

    @cached_property
    def _spins(self) -> tuple[Array, ComplexArray, Array, ComplexArray]:
        """Frequencies, the powers there with the noise, bounds on their errors, and the kernel."""
        theta, v = self.theta, self.smoothing
        t, psi, psi_error = self._rough()
        powers, bound = exponential(*log_power(psi, psi_error, self.row.count))
        damp = np.exp(-0.5 * (v * t) ** 2)
        spin = powers * damp * np.exp(1j * v * v * theta * t)
        turn = UNIT_ROUNDOFF * (_UNITS + 4.0 * (v * v * theta) * t)
        errors = bound * damp + np.abs(spin) * turn
        return t, spin, errors, np.asarray((theta + 1j * t) ** -2, dtype=complex)

    def _sums(self, shift: float) -> tuple[float, float, float]:
        """The trapezoid value, its error, and an upper bound on the density at zero; all e^-lead."""
        theta, window = self.theta, self.window
        t, spin, errors, kernel = self._spins
        if shift != 0.0:
            spin = spin * np.exp(1j * t * shift)
            errors = errors + np.abs(spin) * UNIT_ROUNDOFF * (_UNITS + 4.0 * t * abs(shift))
        value, error, density, blur = trapezoid_sums(t, spin, errors, kernel, window).tolist()
        # frequencies that were left out, and those beyond the last: |M(z)| <= M(theta)
        dead = 2.0 * float(np.exp(_NEGLIGIBLE_LOG)) * self.size / window
        step = 2.0 * np.pi / window
        more, more_density = beyond_last(self.smoothing, step * (self.size - 1), step)
        density = max(density + blur + dead + more_density, 0.0)
        return value, error + dead / theta**2 + more, density

    def _images(self, windows: Array, shift: float) -> Array:
        """Bounds on the images in such windows on both sides, times e^-lead.

        From x_+ <= e^{s x} / (e s): M_v(s) / (e s (e^{|s - theta| W} - 1)), s > theta for those to the
        left, s < theta for those to the right.
        """
        away = np.multiply.outer(windows, np.abs(IMAGE_TILTS - 1.0) * self.theta)
        # both the moments and e^lead have the shift
        moved = (IMAGE_TILTS - 1.0) * self.theta * shift
        log_bound = self._log_image_moments + moved - away - np.log(-np.expm1(-away))
        left = IMAGE_TILTS > 1.0
        ends = np.min(log_bound[:, left], axis=1), np.min(log_bound[:, ~left], axis=1)
        with np.errstate(over="ignore"):
            return np.asarray(sum(np.exp(logs + _CHERNOFF_SLACK - self._lead) for logs in ends))

    @cached_property
    def _log_image_moments(self) -> Array:
        """log of M_v(s) / (e s) at all tilts of the images."""
        row, tilts = self.row, IMAGE_TILTS * self.theta
        column = tilts[:, None]
        log_moment = log_moments_up(
            row.weights, column * row.values, column * row.value_error, row.count
        )
        log_moment = log_moment + 0.5 * (self.smoothing * tilts) ** 2
        return np.asarray(log_moment - 1.0 - np.log(tilts))


@dataclass(frozen=True)
class _Reading:
    """A trapezoid sum at one shift: its lead, and in units of e^lead its value and what may be wrong."""

    lead: float
    slack: float
    value: float
    error: float
    images: float
    rise: float

    @property
    def log_value(self) -> tuple[float, float]:
        """Certified (lower, upper) for log E[(S + shift)_+]."""
        # bounds that overflow are infinite, which leaves one side open
        high = self.value + self.error
        low = self.value - self.error - self.images - self.rise
        log_high = self.lead + np.log(high) + self.slack if high > 0.0 else np.inf
        log_low = self.lead + np.log(low) - self.slack if low > 0.0 else -np.inf
        return float(log_low), float(log_high)

    @property
    def excess(self) -> float:
        """A bound on what images, smoothing and errors add, relative to the sum."""
        added = self.images + self.rise + 2.0 * self.error
        return added / self.value if self.value > 0.0 else np.inf


@dataclass(frozen=True)
class _Contours:
    """`_Contour` for many rows at once, planned and evaluated in the same way."""

    weights: Array
    values: Array
    count: float
    tilted: Array
    theta: Array
    spread: Array
    smoothing: Array
    window: Array
    log_m: Array
    log_m_error: Array
    moves: Array
    """What a summand is moved by, so that a sum is moved by v^2 theta: the smoothing turns powers so."""
    known: Array
    """How well the derivative of M(z) / M(theta) is known."""
    value_error: Array

    @classmethod
    def of(cls, sums: Sums, places: NDArray[np.intp], thetas: Array, shrink: float) -> _Contours:
        """Choose smoothing and window of each row."""
        weights, values, errors = sums.weights, sums.values[places], sums.value_error[places]
        exponents = thetas[:, None] * values
        grown = weights * np.exp(exponents)
        tilted = grown / np.sum(grown, axis=1)[:, None]
        mean = np.sum(tilted * values, axis=1)
        spread = np.sqrt(sums.count * np.sum(tilted * (values - mean[:, None]) ** 2, axis=1))
        log_m, log_m_error = log_moments(weights, exponents, thetas[:, None] * errors, sums.count)
        spread, smoothing, window = narrow_window(thetas, spread, log_m)
        smoothing = smoothing / shrink
        size = np.sum(tilted * np.abs(values) * (1.0 + np.abs(exponents)), axis=1)
        units = 2.0 * (_UNITS + weights.size) * UNIT_ROUNDOFF
        moves = smoothing**2 * thetas / sums.count
        known = units * (size + moves) + np.sum(tilted * errors, axis=1)
        return cls(
            weights, values, sums.count, tilted, thetas, spread, smoothing, window, log_m,
            log_m_error, moves, known, errors,
        )  # fmt: skip

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """The numbers of frequencies."""
        return frequencies(self.theta, self.spread, self.smoothing, self.window)

    @property
    def exhausted(self) -> NDArray[np.bool_]:
        """Of which rows there are no more frequencies to be had, or they take too long."""
        is_large = self.sizes * self.weights.size >= _MOST_TERMS
        return np.asarray((self.sizes >= _MOST_FREQUENCIES) | is_large)

    def log_values(self) -> tuple[Array, Array]:
        """Certified (lower, upper) for log E[S_+] of each row."""
        lead = self.log_m + 0.5 * (self.smoothing * self.theta) ** 2
        slack = self.log_m_error + 4.0 * UNIT_ROUNDOFF * np.abs(lead)
        value, error, density = self._sums()
        high = value + error
        low = value - error - self._images(lead) - self.smoothing**2 * density
        with np.errstate(divide="ignore", invalid="ignore"):
            log_high = np.where(high > 0.0, lead + np.log(high) + slack, np.inf)
            log_low = np.where(low > 0.0, lead + np.log(low) - slack, -np.inf)
        return log_low, log_high

    def _sums(self) -> Array:
        """Trapezoid values, their errors, and upper bounds on the densities at zero, all e^-lead."""
        result = np.empty((3, self.theta.size))
        order = np.argsort(self.sizes, kind="stable")
        start = 0
        while start < order.size:
            # neighbors in size share a table
            largest = int(self.sizes[order[min(start + 63, order.size - 1)]])
            tabled = _BLOCK + _GROUP + largest // (_BLOCK * _GROUP) + 1
            rows = order[start : start + max(_TABLE // (tabled * self.weights.size), 1)]
            result[:, rows] = self._sums_of(rows)
            start += rows.size
        return result

    def _sums_of(self, rows: NDArray[np.intp]) -> Array:
        """`_sums` of some rows together."""
        sizes, window = self.sizes[rows], self.window[rows]
        step, theta, v = 2.0 * np.pi / window, self.theta[rows], self.smoothing[rows]
        turn = UNIT_ROUNDOFF * (_UNITS + sizes)  # each sum may round once for each of its terms
        totals = np.zeros((4, rows.size))
        for row, block, psi in self._transforms(rows):
            place = _BLOCK * block[:, None] + np.arange(_BLOCK)
            t = step[row][:, None] * place
            powers, errors = self._powers(rows[row], t, psi)
            # frequencies t and -t are conjugate; those beyond the last one have no weight
            scale = np.exp(-0.5 * np.square(v[row][:, None] * t)) * (2.0 / window[row])[:, None]
            scale[:, 0][block == 0] *= 0.5
            scale[place >= sizes[row][:, None]] = 0.0
            errors += np.abs(powers) * turn[row][:, None]
            errors *= scale
            real, imaginary = powers.real * scale, powers.imag * scale
            # (theta + i t)^-2 = (theta^2 - t^2 - 2 i theta t) / (theta^2 + t^2)^2
            tilt, square = theta[row][:, None], t * t
            kernel = 1.0 / (tilt * tilt + square)
            value = real * (tilt * tilt - square)
            value += imaginary * t * (2.0 * tilt)
            value *= kernel * kernel
            sums = np.stack(
                [np.sum(terms, axis=1) for terms in (value, errors * kernel, real, errors)]
            )
            starts = np.flatnonzero(np.append(True, np.diff(row) != 0))
            totals[:, row[starts]] += np.add.reduceat(sums, starts, axis=1)
        value, error, density, blur = totals
        dead = 2.0 * float(np.exp(_NEGLIGIBLE_LOG)) * sizes / window
        last = step * (sizes - 1)
        more, more_density = beyond_each_last(v, last, step)
        density = np.maximum(density + blur + dead + more_density, 0.0)
        return np.stack([value, error + dead / theta**2 + more, density])

    def _transforms(
        self, rows: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], ComplexArray]]:
        """psi = M(z) / M(theta) - 1 in blocks of frequencies where the power may matter, some at a time.

        As positions in `rows`, the blocks, and a row of values for each. The values of the sum are
        moved by what the smoothing turns a summand by. With a, b and c the exponentials up to a group
        of blocks, from there to a block, and within it, all in the same direction,

            a b c - 1 = (a - 1) + a (b - 1) + a b (c - 1),

        so that every term is known to a few units of its phase.
        """
        step, tilted = 2.0 * np.pi / self.window[rows], self.tilted[rows][:, None, :]
        turns = step[:, None] * (self.values[rows] + self.moves[rows][:, None])
        groups = np.arange(1 + int(self.sizes[rows].max() - 1) // (_BLOCK * _GROUP))
        far = _moved_phases((_BLOCK * _GROUP) * turns[:, None, :] * groups[:, None])
        near, fine = _phase_table(turns, _BLOCK, _GROUP), _phase_table(turns, 1, _BLOCK)
        weighted, turned = tilted * (1.0 + far), 1.0 + near
        start = np.sum(tilted * far, axis=2)[:, :, None] + np.matmul(weighted, near)
        half = turned * fine[:, :, _BLOCK // 2, None]
        modulus = np.abs(1.0 + start + np.matmul(weighted, half)).reshape(rows.size, -1)
        row, block = np.nonzero(self._alive_blocks(rows, modulus))
        for begin in range(0, row.size, _BLOCKS):
            part = slice(begin, begin + _BLOCKS)
            some, blocks = row[part], block[part]
            group, number = np.divmod(blocks, _GROUP)
            psi: ComplexArray = np.empty((some.size, _BLOCK), dtype=complex)
            ends = np.flatnonzero(np.append(np.diff(some, prepend=-1) != 0, True)).tolist()
            for first, end in itertools.pairwise(ends):
                one = some[first]
                table = weighted[one, group[first:end]] * turned[one, :, number[first:end]]
                psi[first:end] = matrix_product(table, fine[one])
            psi += start[some, group, number][:, None]
            yield some, blocks, psi

    def _alive_blocks(self, rows: NDArray[np.intp], modulus: Array) -> NDArray[np.bool_]:
        """Where in a table of blocks the power of M(z) / M(theta) may not be negligible.

        Its modulus, given in the middle of each block, moves no faster with t than the mean distance of
        the values from any center.
        """
        step, values, tilted = 2.0 * np.pi / self.window[rows], self.values[rows], self.tilted[rows]
        starts = _BLOCK * np.arange(modulus.shape[1])
        mean = np.sum(tilted * values, axis=1)[:, None]
        distance = np.sum(tilted * np.abs(values - mean), axis=1) + self.known[rows]
        margin = (_BLOCK // 2) * step * distance * (1.0 + 1e-9)
        error = (step * self.known[rows])[:, None] * (starts + 2 * _BLOCK) + self.units
        alive = self._alive(modulus + margin[:, None], error)
        return np.asarray(alive & (starts < self.sizes[rows][:, None]))

    @property
    def units(self) -> float:
        """What rounding of exponentials, weights and sums may add to M(z) / M(theta)."""
        return 2.0 * (_UNITS + self.weights.size) * UNIT_ROUNDOFF

    def _powers(
        self, index: NDArray[np.intp], t: Array, psi: ComplexArray
    ) -> tuple[ComplexArray, Array]:
        """The powers of 1 + psi, turned by the smoothing, and bounds on their errors.

        By products, which round by less than four units for each copy, or by logarithms of very many.
        """
        error = t * self.known[index][:, None]
        rounding = 8.0 * UNIT_ROUNDOFF
        if self.count * rounding >= _HARMLESS:
            return exponential(*log_power(psi, error, self.count))
        phi = 1.0 + psi
        modulus, powers = np.abs(phi), _whole_power(phi, int(self.count))
        error += rounding
        with np.errstate(divide="ignore", over="ignore"):
            log_error = self.count * error / np.maximum(modulus - error, _TINY)
        errors = np.abs(powers) * (1.06 * log_error)  # e^x - 1 <= 1.06 x up to 0.1
        large = ~(log_error < 0.1)
        if large.any():
            log_bound = self.count * np.log(np.minimum(modulus[large] + error[large], 1.0))
            errors[large] = np.abs(powers[large]) + np.exp(log_bound)
        return powers, errors

    def _alive(self, modulus: Array, error: Array) -> NDArray[np.bool_]:
        """Where the n-th power of a modulus that is known up to an error is not negligible."""
        with np.errstate(divide="ignore"):
            return np.asarray(
                self.count * np.log(np.minimum(modulus, 1.0) + error) > _NEGLIGIBLE_LOG
            )

    def _images(self, lead: Array) -> Array:
        """`_Contour._images` of each row, in units of e^lead."""
        tilts = np.multiply.outer(self.theta, IMAGE_TILTS)
        shape = (tilts.size, self.weights.size)
        exponents, errors = (
            (tilts[:, :, None] * values[:, None, :]).reshape(shape)
            for values in (self.values, self.value_error)
        )
        log_moment = log_moments_up(self.weights, exponents, errors, self.count)
        log_moment = log_moment.reshape(tilts.shape) + 0.5 * (self.smoothing[:, None] * tilts) ** 2
        away = np.abs(IMAGE_TILTS - 1.0) * (self.theta * self.window)[:, None]
        log_bound = log_moment - 1.0 - np.log(tilts) - away - np.log(-np.expm1(-away))
        left = IMAGE_TILTS > 1.0
        with np.errstate(over="ignore"):
            return np.asarray(
                sum(
                    np.exp(np.min(log_bound[:, side], axis=1) + _CHERNOFF_SLACK - lead)
                    for side in (left, ~left)
                )
            )


def _moved_phases(phase: Array) -> ComplexArray:
    """e^{i phase} - 1, to a few units of the phase."""
    half = 0.5 * phase
    sine = np.sin(half)
    moved = np.empty(phase.shape, dtype=complex)
    moved.real = -2.0 * sine * sine
    moved.imag = 2.0 * sine * np.cos(half)
    return moved


def _phase_table(turns: Array, step: int, count: int) -> ComplexArray:
    """e^{i turn k} - 1 for so many k = 0, step, ... along a new axis, to a few units of each phase.

    From few by (a - 1)(b - 1) + (a - 1) + (b - 1) = a b - 1.

    >>> table = _phase_table(np.array([1e-9]), 2, 8)
    >>> bool(np.allclose(table.imag, 1e-9 * np.arange(0, 16, 2), rtol=1e-15, atol=0.0))
    True
    """
    starts = _moved_phases(turns[..., None] * (4 * step * np.arange(count // 4)))[..., :, None]
    more = _moved_phases(turns[..., None] * (step * np.arange(4)))[..., None, :]
    products: ComplexArray = starts * more
    products += starts
    products += more
    return products.reshape(*turns.shape, count)


def _whole_power(base: ComplexArray, exponent: int) -> ComplexArray:
    """The power by squares and products; for an exponent of at least one.

    >>> _whole_power(np.array([1.0 + 1.0j]), 5)
    array([-4.-4.j])
    """
    square: ComplexArray = base.copy()
    power: ComplexArray | None = None
    while True:
        if exponent % 2:
            power = square.copy() if power is None else np.multiply(power, square, out=power)
        exponent //= 2
        if not exponent:
            assert power is not None
            return power
        np.multiply(square, square, out=square)


def log_moments(
    weights: Array, exponents: Array, exponent_errors: Array, count: float | Array
) -> tuple[Array, Array]:
    """n log M of each row of exponents, and bounds on its error; infinite where it overflows.

    Weights and counts may be those of each row.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        growth, mass = np.expm1(exponents), weights * np.exp(exponents)
        units = (_UNITS + exponents.shape[1]) * UNIT_ROUNDOFF
        error = units * np.sum(mass * np.abs(exponents), axis=1)
        error += np.sum(mass * exponent_errors, axis=1)
        psi = np.sum(weights * growth, axis=1)
        plain = np.sum(mass, axis=1)
        is_near = psi > -0.5
        error += units * np.where(is_near, np.sum(weights * np.abs(growth), axis=1), plain)
        moment = np.where(is_near, 1.0 + psi, plain)
        log_m = count * np.where(is_near, np.log1p(np.maximum(psi, -0.5)), np.log(plain))
        bound = count * error / np.maximum(moment - error, _TINY)
        bound += 4.0 * UNIT_ROUNDOFF * np.abs(log_m)
    is_large = np.max(exponents, axis=1) > _OVERFLOW
    return np.where(is_large, np.inf, log_m), np.where(is_large, 0.0, bound)


def log_moments_up(weights: Array, exponents: Array, errors: Array, count: float | Array) -> Array:
    """Upper bounds on n log M, one for each row of exponents; infinite where they overflow."""
    large = np.max(exponents, axis=1) > _OVERFLOW
    exponents = np.clip(exponents, -_NOTHING_LEFT, _OVERFLOW)
    growth = np.expm1(exponents)
    units = (_UNITS + exponents.shape[1]) * UNIT_ROUNDOFF
    mass = 1.0 + growth
    with np.errstate(over="ignore", invalid="ignore"):  # what is not known is infinite
        error = mass * (units * np.abs(exponents) + errors) + units * np.abs(growth)
        error, psi = _weighted(error, weights), _weighted(growth, weights)
        psi = psi + error
        log_m = count * np.log1p(np.maximum(psi, _LEAST_PSI))
        log_m += 4.0 * UNIT_ROUNDOFF * np.abs(log_m)
    return np.where(large | np.isnan(log_m), np.inf, log_m)


def _weighted(rows: Array, weights: Array) -> Array:
    """The sum of each row with the weights, or with those of the row."""
    return rows @ weights if weights.ndim == 1 else np.einsum("ij,ij->i", rows, weights)


def rare_moments_up(
    weights: Array, values: Array, value_error: Array, counts: float | Array
) -> Array:
    """Not below log E[S_+] of each row, from S_+ <= sum of g_+: sharp if any positive value is rare."""
    with np.errstate(divide="ignore"):
        terms = np.log(np.maximum(values + value_error, 0.0)) + np.log(weights)
        total = np.logaddexp.reduce(terms, axis=1) + np.log(counts)
    size = np.where(np.isfinite(total), 1.0 + np.abs(total), 0.0)
    return np.asarray(total + (_UNITS + values.shape[1]) * UNIT_ROUNDOFF * size)


def narrow_window(theta: Array, spread: Array, log_m: Array) -> tuple[Array, Array, Array]:
    """The least spread to plan for, smoothing, and window of contours whose sums spread so far.

    The value is about e^{log_m} / (theta max(1, theta spread)), the images less than e^{-theta W} W.
    """
    spread = np.maximum(spread, _NARROWEST_SPREAD / theta)
    smoothing = np.minimum(_SMOOTHING * spread, _SMOOTHING_TILT / theta)
    log_share = np.log(1.0 + (theta * spread) ** 2) - log_m
    window = np.maximum((_NATS + np.maximum(log_share, 0.0)) / theta, _NARROWEST_WINDOW * spread)
    return spread, smoothing, window


def frequencies(theta: Array, spread: Array, smoothing: Array, window: Array) -> NDArray[np.intp]:
    """How many frequencies contours have: the smoothing damps away those beyond."""
    nats = np.maximum(_NATS + np.log(smoothing * spread * theta**2), _LEAST_NATS)
    sizes = np.ceil(np.sqrt(2.0 * nats) / smoothing * window / (2.0 * np.pi)) + 2.0
    return np.asarray(np.minimum(sizes, _MOST_FREQUENCIES), dtype=np.intp)
