"""Positive parts of sums of equal, independent variables with few values, at a cost free of their number.

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

Many sums are planned, transformed and read together. Everything chosen in a plan is safe: what is read
has bounds on all errors.

Sources: alghamdi2023 (the contour), abate1992 (image sums), trefethen2014 (the trapezoid rule).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.contour import beyond_each_last, exponential, log_power
from sharpdp.numerics.matrix_product import matrix_product
from sharpdp.numerics.roots import many_last_true
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray

__all__ = ["ShiftedSum", "Sums"]

_SMALLEST_TILT, _LARGEST_EXPONENT, _OVERFLOW = 1e-3, 600.0, 700.0
"""Tilts are looked for from the first over the spread to the second over the largest value; exponentials
beyond the third overflow."""

_LADDER = 0.1
"""Logarithms of tilts that shifted sums share are so far apart."""

_LOW_TILT, _HIGH_TILT, _RARE_JUMPS, _LOWERED = 0.7, 0.9, 8.0, 1.0
"""A tilt is below the best one by the first factor, or by the second where the largest value decides
alone, the best tilt times it being above the third number; by no more than the last over the spread."""

_SMOOTHING = 0.0045
"""The most smoothing, in deviations of the tilted sum."""

_NATS, _NARROWEST_WINDOW = 14.0, 7.0
"""What aliases and cut frequencies may contribute, in nats below the value; windows in deviations."""

_MOST_FREQUENCIES, _MOST_TERMS = 1 << 16, 1 << 19
"""Frequencies of a contour; with more pairs of frequencies and values nothing is tried again."""

_ATTEMPTS, _SHARE, _SMOOTHED, _HEAVY, _MOST_SHRINK = 4, 0.2, 0.6, 20.0, 8.0
"""Contours that are tried; the shares of the tolerance that images and smoothing may have; how many times
smaller than that of a normal sum a value may be; and how much less the next one is smoothed, at most."""

_WIDENED = 1.25 ** np.arange(14.0)
"""How windows may be widened from one contour to the next."""

_TILTS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.15, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0])
"""Tilts of the Chernoff bounds on the images, in units of the contour's."""

_NEGLIGIBLE, _HARMLESS = 1e-9, 1e-8
"""What all frequencies that are left out may add, as a share of about the value; and n times the rounding
of products that is harmless."""

_BLOCK, _GROUP, _TABLE, _BLOCKS = 32, 16, 1 << 16, 512
"""Frequencies are looked at in blocks, and those in groups; so many exponentials, and so many blocks, are
held at the same time: they fit into a cache."""

_AT_ONCE = 1 << 18
"""So many exponents of moments are held at the same time."""

_UNITS = 64.0
"""sin, cos, exp and the rounded weights: so many units for each term, besides one for each summand."""

_TINY = 1e-290


@dataclass(frozen=True)
class Sums:
    """For each row n copies of a variable that has these values with these weights.

    Weights are rounded ones of a law with sum one, off by a few units each, or zero; values are known to
    within `value_error`. All arrays have a row for each sum, `counts` one number.

    >>> two = np.array([[0.5, 0.5], [0.25, 0.75]])
    >>> values = np.array([[1.0, -1.0], [2.0, -2.0]])
    >>> sums = Sums(two, values, np.zeros((2, 2)), np.array([2.0, 1.0]))
    >>> low, high = sums.log_values(sums.tilts(), 1e-4)
    >>> np.round(np.exp(high), 3)  # 2 / 4, 2 / 4
    array([0.5, 0.5])
    """

    weights: Array
    values: Array
    value_error: Array
    counts: Array

    def chosen(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Sums:
        """Some of the rows."""
        return Sums(
            self.weights[rows], self.values[rows], self.value_error[rows], self.counts[rows]
        )

    def tilts(self) -> Array:
        """About the tilt of each row at which theta^-2 M(theta)^n is smallest."""

        def is_falling(log_theta: Array) -> NDArray[np.bool_]:
            theta = np.exp(log_theta)
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # any tilt will do
                grown = np.minimum(theta[:, None] * self.values, _OVERFLOW)
                np.exp(grown, out=grown)
                grown *= self.weights
                total = np.sum(grown, axis=1)
                mean = np.einsum("ij,ij->i", grown, self.values)
                return np.asarray(~(self.counts * theta * mean > 2.0 * total))

        # near the best is enough
        return np.asarray(np.exp(many_last_true(is_falling, *self._tilt_range, 14)[1]))

    @property
    def _tilt_range(self) -> tuple[Array, Array]:
        """The logarithms of the smallest and the largest tilts."""
        spread = np.sqrt(self.counts * np.sum(self.values**2 * self.weights, axis=1))
        with np.errstate(divide="ignore"):
            low = np.log(_SMALLEST_TILT / np.maximum(spread, self._largest))
            return low, np.log(np.minimum(_LARGEST_EXPONENT / self._largest, 1.0 / _TINY))

    @cached_property
    def _largest(self) -> Array:
        return np.asarray(np.max(self.values, axis=1, initial=0.0))

    def log_ceilings(self, thetas: Array) -> Array:
        """Upper bounds on log E[S_+] from x_+ <= e^{theta x} / (e theta)."""
        return np.asarray(self.log_moments_up(thetas[None])[0] - 1.0 - np.log(thetas))

    def log_estimates(self, thetas: Array) -> Array:
        """About log E[S_+], as if tilted sums were normal: for plans."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            _, total, deviation = self._tilted(thetas)
            size = 1.0 + np.sqrt(2.0 * np.pi) * deviation * thetas
            logs = self.counts * np.log(total) - np.log(thetas) - np.log(size)
        return np.where((self._largest > 0.0) & np.isfinite(logs), logs, -np.inf)

    def _tilted(self, thetas: Array) -> tuple[Array, Array, Array]:
        """Tilted weights, M(theta), and the deviation of the tilted sum; for plans."""
        exponents = np.clip(thetas[:, None] * self.values, -_OVERFLOW, _OVERFLOW)
        tilted = self.weights * np.exp(exponents)
        total = np.sum(tilted, axis=1)
        tilted /= total[:, None]
        mean = np.einsum("ij,ij->i", tilted, self.values)
        square = np.einsum("ij,ij->i", tilted, (self.values - mean[:, None]) ** 2)
        return tilted, total, np.sqrt(self.counts * square)

    def _log_moments(self, thetas: Array) -> tuple[Array, Array]:
        """n log M at the tilt of each row, and bounds on its error; infinite where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            exponents, weights = thetas[:, None] * self.values, self.weights
            growth, mass = np.expm1(exponents), weights * np.exp(exponents)
            units = (_UNITS + exponents.shape[1]) * UNIT_ROUNDOFF
            error = np.einsum("ij,ij->i", mass, units * np.abs(exponents))
            error += thetas * np.einsum("ij,ij->i", mass, self.value_error)
            psi = np.sum(weights * growth, axis=1)
            plain = np.sum(mass, axis=1)
            is_near = psi > -0.5
            error += units * np.where(is_near, np.sum(weights * np.abs(growth), axis=1), plain)
            moment = np.where(is_near, 1.0 + psi, plain)
            log_m = np.where(is_near, np.log1p(np.maximum(psi, -0.5)), np.log(plain))
            log_m = log_m * self.counts
            bound = self.counts * error / np.maximum(moment - error, _TINY)
            bound += 4.0 * UNIT_ROUNDOFF * np.abs(log_m)
        is_large = np.max(exponents, axis=1) > _OVERFLOW
        return np.where(is_large, np.inf, log_m), np.where(is_large, 0.0, bound)

    def log_moments_up(self, thetas: Array) -> Array:
        """Upper bounds on n log M at tilts of each row, one row of tilts for each; may be infinite."""
        found = np.empty(thetas.shape)
        at_once = max(_AT_ONCE // self.values.size, 1)
        units = (_UNITS + self.values.shape[1]) * UNIT_ROUNDOFF
        for start in range(0, len(thetas), at_once):
            column = thetas[start : start + at_once, :, None]
            with np.errstate(over="ignore", invalid="ignore"):  # what is not known is infinite
                exponents = column * self.values
                large = np.max(exponents, axis=-1) > _OVERFLOW
                # as good as minus infinity, and finite
                np.clip(exponents, -1e6, _OVERFLOW, out=exponents)
                growth = np.expm1(exponents)
                error = units * np.abs(exponents) + column * self.value_error
                error *= 1.0 + growth
                error += units * np.abs(growth)
                error += growth
                psi = np.einsum("kij,ij->ki", error, self.weights)
                # a logarithm that is finite
                log_m = self.counts * np.log1p(np.maximum(psi, -1.0 + 1e-9))
                log_m += 4.0 * UNIT_ROUNDOFF * np.abs(log_m)
            found[start : start + at_once] = np.where(large | np.isnan(log_m), np.inf, log_m)
        return found

    def log_values(
        self, thetas: Array, tolerances: Array | float, most: float = np.inf
    ) -> tuple[Array, Array]:
        """Certified (lower, upper) for log E[S_+], with contours near these tilts.

        Either may be infinite. They are within the tolerance of the truth, relative to E[S_+], if work
        can do it; contours of more than so many frequencies are left out.
        """
        reach = np.max(self.values + self.value_error, axis=1, initial=0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            jump = self._largest * thetas
        is_likely = (jump > 0.0) & (jump < _LARGEST_EXPONENT - 1.0) & (reach > 0.0)
        low, high = np.full(thetas.size, -np.inf), np.full(thetas.size, np.inf)
        rare = np.flatnonzero(~is_likely & (reach > 0.0))
        high[rare] = self.chosen(rare)._rare_uppers()
        high[reach <= 0.0] = -np.inf
        left = np.flatnonzero(is_likely)
        if not left.size:
            return low, high
        tolerance = np.broadcast_to(tolerances, thetas.shape)[left]
        contours = _Contours.of(self.chosen(left), thetas[left]).planned(tolerance)
        for _ in range(_ATTEMPTS):
            short = contours.sizes <= most
            if not short.all():
                left, tolerance, contours = left[short], tolerance[short], contours.chosen(short)
            if not left.size:
                break
            reading = contours.read()
            new_low, new_high = reading.log_values
            low[left], high[left] = np.maximum(low[left], new_low), np.minimum(high[left], new_high)
            again = (reading.excess > tolerance) & ~contours.exhausted
            left, tolerance = left[again], tolerance[again]
            if not left.size:
                break
            contours = contours.chosen(again).sharper(tolerance, reading.chosen(again))
        return low, high

    def _rare_uppers(self) -> Array:
        """Not below log E[S_+], from S_+ <= sum of g_+: sharp if any positive value is rare."""
        with np.errstate(divide="ignore"):
            terms = np.log(np.maximum(self.values + self.value_error, 0.0)) + np.log(self.weights)
            total = np.logaddexp.reduce(terms, axis=1) + np.log(self.counts)
        size = np.where(np.isfinite(total), 1.0 + np.abs(total), 0.0)
        return np.asarray(total + (_UNITS + self.values.shape[1]) * UNIT_ROUNDOFF * size)


class ShiftedSum:
    """E[(S + a)_+] from above, for one sum S and many a: a contour serves all a that want its tilt.

    >>> one = Sums(
    ...     np.array([[0.5, 0.5]]), np.array([[-1.0, 1.0]]), np.zeros((1, 2)), np.array([4.0])
    ... )
    >>> value, _ = ShiftedSum(one).log_sharp_upper(-1.0, 1e-3)  # (4 + 3) / 16
    >>> bool(0.0 <= value - np.log(7 / 16) < 1e-3)
    True
    """

    def __init__(self, row: Sums) -> None:
        self._row = row
        (low,), (high,) = row._tilt_range
        self._tilts = np.exp(np.arange(low, high, _LADDER))
        self._log_moments = row.log_moments_up(self._tilts[:, None])[:, 0]
        self._contours: dict[int, tuple[_Contours, list[_Terms]]] = {}

    def log_sharp_upper(self, shift: float, tolerance: float) -> tuple[float, float]:
        """An upper bound on log E[(S + shift)_+], and about its best tilt.

        It is within the tolerance if work can do it. For heavy tails a tilt below the best one makes
        images on the left rare, and the window grows until the images are small relative to the value.
        """
        heights = self._log_moments + self._tilts * shift
        slack = 4.0 * UNIT_ROUNDOFF * np.abs(self._tilts * shift)
        ceiling = float(np.min(heights - 1.0 - np.log(self._tilts) + slack))
        rung = int(np.argmin(heights - 2.0 * np.log(self._tilts)))
        theta = self._tilts[rung : rung + 1]
        jump = theta * self._row._largest
        if not np.isfinite(heights[rung]) or not 0.0 < jump[0] < _LARGEST_EXPONENT - 1.0:
            return ceiling, float(theta[0])
        return min(self._read(rung, shift, np.array([tolerance])), ceiling), float(theta[0])

    def _read(self, rung: int, shift: float, tolerance: Array) -> float:
        if rung not in self._contours:
            first = _Contours.of(self._row, self._tilts[rung : rung + 1])
            self._keep(rung, replace(first, shift=shift).planned(tolerance))
        contours, terms = self._contours[rung]
        contours, high = replace(contours, shift=shift), np.inf
        for _ in range(_ATTEMPTS):
            reading = contours.read(terms)
            high = min(high, float(reading.log_values[1][0]))
            if reading.excess[0] <= tolerance[0] or contours.exhausted[0]:
                break
            contours = contours.sharper(tolerance, reading)
            terms = self._keep(rung, contours)
        return high

    def _keep(self, rung: int, contours: _Contours) -> list[_Terms]:
        """The terms of contours that are planned, for all shifts."""
        self._contours[rung] = contours, list(contours.terms())
        return self._contours[rung][1]


@dataclass(frozen=True)
class _Reading:
    """For each row the lead and its error, and in units of e^lead the sum and what may be wrong."""

    lead: Array
    slack: Array
    value: Array
    error: Array
    images: Array
    rise: Array

    @property
    def log_values(self) -> tuple[Array, Array]:
        """Certified (lower, upper) for log E[(S + shift)_+]."""
        high = self.value + self.error
        low = self.value - self.error - self.images - self.rise
        with np.errstate(divide="ignore", invalid="ignore"):
            log_low = np.where(low > 0.0, self.lead + np.log(low) - self.slack, -np.inf)
            return log_low, np.where(high > 0.0, self.lead + np.log(high) + self.slack, np.inf)

    @property
    def excess(self) -> Array:
        """Bounds on what images, smoothing and errors add, relative to the sums."""
        added = self.images + self.rise + 2.0 * self.error
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(self.value > 0.0, added / self.value, np.inf)

    def chosen(self, rows: NDArray[np.bool_]) -> _Reading:
        """Some of the rows."""
        parts = self.lead, self.slack, self.value, self.error, self.images, self.rise
        return _Reading(*(part[rows] for part in parts))


@dataclass(frozen=True)
class _Terms:
    """Frequencies of some rows in blocks: the row of each block, and what is known at each frequency.

    Powers are (M(z) / M(theta))^n turned by the smoothing; with their errors they are damped by it, and
    carry the weights of the trapezoid rule.
    """

    row: NDArray[np.intp]
    t: Array
    powers: ComplexArray
    errors: Array
    """Bounds on the errors of powers."""
    rounding: Array
    """What a sum of powers may round by for each term."""


@dataclass(frozen=True)
class _Contours:
    """A trapezoid sum for each row, chosen freely; everything is certified when it is read."""

    sums: Sums
    tilted: Array
    theta: Array
    spread: Array
    smoothing: Array
    window: Array
    log_m: Array
    log_m_error: Array
    log_image_moments: Array
    """log of M(s) / (e s) at all tilts of the images."""
    shift: float = 0.0

    @classmethod
    def of(cls, sums: Sums, best: Array) -> _Contours:
        """Choose tilt, smoothing and window of each row, whose best tilt is given.

        The value is about e^{log_m} / (theta max(1, theta spread)), images are less than e^{-theta W} W.
        A lower tilt makes images on the left rare, and costs little of the value within about a spread.
        """
        is_rare = best * sums._largest >= _RARE_JUMPS
        lower = np.where(is_rare, _HIGH_TILT, _LOW_TILT) * best
        with np.errstate(divide="ignore"):  # sums that do not spread may have the lower tilt
            theta = np.maximum(lower, best - _LOWERED / sums._tilted(best)[2])
        tilted, _, deviation = sums._tilted(theta)
        # a spread that is planned for is not below a tenth of the tilt's inverse
        spread = np.maximum(deviation, 0.1 / theta)
        smoothing = np.minimum(_SMOOTHING * spread, 0.2 / theta)
        log_m, error = sums._log_moments(theta)
        share = np.maximum(np.log(1.0 + (theta * spread) ** 2) - log_m, 0.0)
        window = np.maximum((_NATS + share) / theta, _NARROWEST_WINDOW * spread)
        tilts = np.multiply.outer(_TILTS, theta)
        moments = (sums.log_moments_up(tilts) - 1.0 - np.log(tilts)).T
        return cls(sums, tilted, theta, spread, smoothing, window, log_m, error, moments)

    def chosen(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> _Contours:
        """Some of the rows."""
        return _Contours(
            self.sums.chosen(rows),
            self.tilted[rows],
            self.theta[rows],
            self.spread[rows],
            self.smoothing[rows],
            self.window[rows],
            self.log_m[rows],
            self.log_m_error[rows],
            self.log_image_moments[rows],
            self.shift,
        )

    def planned(self, tolerance: Array) -> _Contours:
        """The same with smoothing and windows that are likely to be good enough for the tolerance."""
        # smoothing adds about (v theta)^2 of the value where no single jump decides
        enough = np.sqrt(_SMOOTHED * tolerance) / self.theta
        ready = replace(self, smoothing=np.minimum(self.smoothing, enough))
        allowed = _SHARE * tolerance / (_HEAVY * self.theta * self._normal_size)
        return replace(ready, window=ready._wide_enough(allowed))

    def sharper(self, tolerance: Array, reading: _Reading) -> _Contours:
        """Contours whose images and smoothing add less than a part of the tolerance, as far as known."""
        allowed = _SHARE * tolerance * np.maximum(reading.value, _TINY)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            shrink = np.clip(np.sqrt(reading.rise / allowed), 1.5, _MOST_SHRINK)
        smoothing = np.where(reading.rise > allowed, self.smoothing / shrink, self.smoothing)
        return replace(self, window=self._wide_enough(allowed), smoothing=smoothing)

    def _wide_enough(self, allowed: Array) -> Array:
        """Windows whose images are no more than this, if that is not far from the present ones."""
        windows = np.multiply.outer(self.window, _WIDENED)
        enough = self._images(windows) <= allowed[:, None]
        first = np.where(enough.any(axis=1), np.argmax(enough, axis=1), _WIDENED.size - 1)
        return np.asarray(windows[np.arange(first.size), first])

    @property
    def _normal_size(self) -> Array:
        """The moment of a normal sum over the mean of its positive part and the tilt."""
        return np.asarray(1.0 + np.sqrt(2.0 * np.pi) * self.theta * self.spread)

    @property
    def _lead(self) -> Array:
        return self.log_m + 0.5 * (self.smoothing * self.theta) ** 2

    def _images(self, windows: Array) -> Array:
        """Bounds on the images in several windows of each row on both sides, times e^-lead.

        From x_+ <= e^{s x} / (e s): M_v(s) / (e s (e^{|s - theta| W} - 1)), s > theta for those to the
        left, s < theta for those to the right.
        """
        away = np.multiply.outer(windows, np.abs(_TILTS - 1.0)) * self.theta[:, None, None]
        log_moments = self.log_image_moments - self._lead[:, None]
        log_moments += 0.5 * np.multiply.outer(self.smoothing * self.theta, _TILTS) ** 2
        # both the moments and e^lead have the shift
        log_moments += np.multiply.outer(self.theta * self.shift, _TILTS - 1.0)
        log_moments -= np.log(-np.expm1(-np.min(away, initial=np.inf)))
        log_bound = log_moments[:, None] - away
        left = _TILTS > 1.0
        total = np.zeros(windows.shape)
        with np.errstate(over="ignore"):
            for side in (left, ~left):
                # the last digits of moments
                total += np.exp(np.min(log_bound[:, :, side], axis=2) + 1e-6)
        return total

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """The numbers of frequencies: the smoothing damps away those beyond."""
        nats = np.maximum(_NATS + np.log(self.smoothing * self.spread * self.theta**2), 4.0)
        last = np.sqrt(2.0 * nats) / self.smoothing
        sizes = np.ceil(last * self.window / (2.0 * np.pi)) + 2.0
        return np.asarray(np.minimum(sizes, _MOST_FREQUENCIES), dtype=np.intp)

    @property
    def exhausted(self) -> NDArray[np.bool_]:
        """Of which rows there are no more frequencies to be had, or they take too long."""
        is_large = self.sizes * self.tilted.shape[1] >= _MOST_TERMS
        return np.asarray((self.sizes >= _MOST_FREQUENCIES) | is_large)

    @property
    def _step(self) -> Array:
        return 2.0 * np.pi / self.window

    def read(self, terms: Iterable[_Terms] | None = None) -> _Reading:
        """The trapezoid sums, with everything that is known about their errors."""
        value, error, density = self._sums(self.terms() if terms is None else terms)
        images = self._images(self.window[:, None])[:, 0]
        moved = self.theta * self.shift
        lead = self._lead + moved
        size = np.abs(self._lead) + np.abs(moved) + np.abs(lead)
        slack = self.log_m_error + 4.0 * UNIT_ROUNDOFF * size
        return _Reading(lead, slack, value, error, images, self.smoothing**2 * density)

    def _sums(self, every: Iterable[_Terms]) -> Array:
        """Trapezoid values, their errors, and upper bounds on the densities at zero, all e^-lead."""
        totals = np.zeros((4, self.theta.size))
        for terms in every:
            powers, errors = terms.powers, terms.errors + terms.rounding
            if self.shift != 0.0:
                powers = powers * np.exp(1j * self.shift * terms.t)
                turn = 4.0 * np.abs(self.shift) * terms.t
                errors = errors + np.abs(powers) * UNIT_ROUNDOFF * (_UNITS + turn)
            # (theta + i t)^-2 = (theta^2 - t^2 - 2 i theta t) / (theta^2 + t^2)^2
            tilt, square = self.theta[terms.row][:, None], terms.t * terms.t
            kernel = 1.0 / (tilt * tilt + square)
            value = powers.real * (tilt * tilt - square)
            value += powers.imag * terms.t * (2.0 * tilt)
            value *= kernel * kernel
            parts = value, errors * kernel, powers.real, errors
            sums = np.stack([np.sum(part, axis=1) for part in parts])
            starts = np.flatnonzero(np.append(True, np.diff(terms.row) != 0))
            totals[:, terms.row[starts]] += np.add.reduceat(sums, starts, axis=1)
        value, error, density, blur = totals
        # frequencies that were left out, and those beyond the last: |M(z)| <= M(theta)
        dead = 2.0 * np.exp(self._log_negligible) * self.sizes / self.window
        last = self._step * (self.sizes - 1)
        more, more_density = beyond_each_last(self.smoothing, last, self._step)
        density = np.maximum(density + blur + dead + more_density, 0.0)
        return np.stack([value, error + dead / self.theta**2 + more, density])

    @property
    def _log_negligible(self) -> Array:
        """The log of powers that are left out; at frequency zero they are one."""
        share = _NEGLIGIBLE * self.theta * self.window / (2.0 * self.sizes * self._normal_size)
        return np.asarray(np.minimum(np.log(share), -1.0))

    def terms(self) -> Iterator[_Terms]:
        """What is summed, some rows at a time."""
        order = np.argsort(self.sizes, kind="stable")
        start = 0
        while start < order.size:
            # neighbors in size share a table
            largest = int(self.sizes[order[min(start + 63, order.size - 1)]])
            tabled = _BLOCK + _GROUP + largest // (_BLOCK * _GROUP) + 1
            rows = order[start : start + max(_TABLE // (tabled * self.tilted.shape[1]), 1)]
            for terms in self.chosen(rows)._terms():
                yield replace(terms, row=rows[terms.row])
            start += rows.size

    def _terms(self) -> Iterator[_Terms]:
        """`terms` of rows that share a table."""
        for row, block, psi in self._transforms():
            place = _BLOCK * block[:, None] + np.arange(_BLOCK)
            t = self._step[row][:, None] * place
            error = t * self._known[row][:, None]
            powers, errors = _powers(psi, error, self.sums.counts[row][:, None])
            # frequencies t and -t are conjugate; those beyond the last one have no weight
            scale = np.exp(-0.5 * np.square(self.smoothing[row][:, None] * t))
            scale *= (2.0 / self.window[row])[:, None]
            scale[:, 0][block == 0] *= 0.5
            scale[place >= self.sizes[row][:, None]] = 0.0
            powers *= scale
            errors *= scale
            # each sum may round once for each of its terms
            rounding = np.abs(powers) * (UNIT_ROUNDOFF * (_UNITS + self.sizes[row]))[:, None]
            yield _Terms(row, t, powers, errors, rounding)

    @property
    def _moves(self) -> Array:
        """What a summand is moved by, so that a sum is moved by v^2 theta: smoothing turns powers so."""
        return np.asarray(self.smoothing**2 * self.theta / self.sums.counts)

    @cached_property
    def _known(self) -> Array:
        """Bounds on the error of M(z) / M(theta) over t.

        Weights are off by a share of themselves, and count with |e^{itv} - 1| <= t |v|; phases are off by
        errors of values and rounding.
        """
        sums, column = self.sums, self.theta[:, None]
        size, units = np.abs(sums.values), self._units
        off = units * (1.0 + column * size) + column * sums.value_error
        off *= size
        off += sums.value_error + 128.0 * UNIT_ROUNDOFF * size
        return np.asarray(np.einsum("ij,ij->i", self.tilted, off) + units * self._moves)

    @property
    def _units(self) -> float:
        """What rounding of exponentials, weights and sums may add to M(z) / M(theta)."""
        return 2.0 * (_UNITS + float(self.tilted.shape[1])) * UNIT_ROUNDOFF

    def _transforms(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], ComplexArray]]:
        """psi = M(z) / M(theta) - 1 in blocks of frequencies where the power may matter, some at a time.

        The row of each block, its number, and a row of values. The values of the sum are
        moved by what the smoothing turns a summand by. With a, b and c the exponentials up to a group
        of blocks, from there to a block, and within it, all in the same direction,

            a b c - 1 = (a - 1) + a (b - 1) + a b (c - 1),

        so that every term is known to a few units of its phase.
        """
        turns = self._step[:, None] * (self.sums.values + self._moves[:, None])
        fine, moved = _phase_table(_moved_phases(turns), _BLOCK)
        near, moved = _phase_table(moved, _GROUP)
        far, _ = _phase_table(moved, 1 + int(self.sizes.max() - 1) // (_BLOCK * _GROUP))
        weighted, turned = self.tilted * (1.0 + far), 1.0 + near
        groups = weighted.transpose(1, 0, 2)
        start = np.sum(self.tilted * far, axis=2).T[:, :, None]
        start = start + np.matmul(groups, near.transpose(1, 2, 0))
        half = (turned * fine[_BLOCK // 2]).transpose(1, 2, 0)
        modulus = np.abs(1.0 + start + np.matmul(groups, half)).reshape(self.theta.size, -1)
        row, block = np.nonzero(self._alive(modulus))
        for begin in range(0, row.size, _BLOCKS):
            part = slice(begin, begin + _BLOCKS)
            some, blocks = row[part], block[part]
            group, number = np.divmod(blocks, _GROUP)
            psi: ComplexArray = np.empty((some.size, _BLOCK), dtype=complex)
            ends = np.flatnonzero(np.append(np.diff(some, prepend=-1) != 0, True)).tolist()
            for first, end in itertools.pairwise(ends):
                one = some[first]
                table = weighted[group[first:end], one] * turned[number[first:end], one]
                psi[first:end] = matrix_product(table, fine[:, one].T)
            psi += start[some, group, number][:, None]
            yield some, blocks, psi

    def _alive(self, modulus: Array) -> NDArray[np.bool_]:
        """Where in a table of blocks the power of M(z) / M(theta) may not be negligible.

        Its modulus, given in the middle of each block, moves no faster with t than the mean distance of
        the values from any center.
        """
        values = self.sums.values
        starts = _BLOCK * np.arange(modulus.shape[1])
        mean = np.sum(self.tilted * values, axis=1)[:, None]
        distance = np.sum(self.tilted * np.abs(values - mean), axis=1) + self._known
        margin = (_BLOCK // 2) * self._step * distance * (1.0 + 1e-9)
        error = (self._step * self._known)[:, None] * (starts + 2 * _BLOCK) + self._units
        with np.errstate(divide="ignore"):
            log_power_up = np.log(np.minimum(modulus + margin[:, None], 1.0) + error)
        alive = self.sums.counts[:, None] * log_power_up > self._log_negligible[:, None]
        return np.asarray(alive & (starts < self.sizes[:, None]))


def _moved_phases(phase: Array) -> ComplexArray:
    """e^{i phase} - 1, to a few units of the phase."""
    half = 0.5 * phase
    sine = np.sin(half)
    moved = np.empty(phase.shape, dtype=complex)
    moved.real = -2.0 * sine * sine
    moved.imag = 2.0 * sine * np.cos(half)
    return moved


def _phase_table(moved: ComplexArray, count: int) -> tuple[ComplexArray, ComplexArray]:
    """a^k - 1 for k = 0 to count - 1 along a new first axis, and for the next power of two, from a - 1.

    By (a - 1)(b - 1) + (a - 1) + (b - 1) = a b - 1: five units of the phase for each doubling.

    >>> table, last = _phase_table(_moved_phases(np.array([1e-9])), 3)
    >>> bool(np.allclose(table[:, 0].imag, 1e-9 * np.arange(3), rtol=1e-15, atol=0.0)), last.imag
    (True, array([4.e-09]))
    """
    table = np.zeros((count, *moved.shape), dtype=complex)
    size = 1
    while size < count:
        more = table[size : 2 * size]
        np.multiply(table[: len(more)], 1.0 + moved, out=more)
        more += moved
        moved = moved * (moved + 2.0)
        size *= 2
    return table, moved


def _powers(psi: ComplexArray, error: Array, counts: Array) -> tuple[ComplexArray, Array]:
    """The powers of 1 + psi, of modulus at most one, and bounds on their errors.

    By products, which round by less than four units for each copy, or by logarithms of very many.
    """
    rounding = 8.0 * UNIT_ROUNDOFF
    if np.max(counts) * rounding >= _HARMLESS:
        return exponential(*log_power(psi, error, counts))
    phi = 1.0 + psi
    modulus, powers = np.abs(phi), _whole_powers(phi, counts.astype(np.int64))
    error += rounding
    with np.errstate(divide="ignore", over="ignore"):
        log_error = counts * error / np.maximum(modulus - error, _TINY)
    errors = np.abs(powers) * (1.06 * log_error)  # e^x - 1 <= 1.06 x up to 0.1
    large = ~(log_error < 0.1)
    if large.any():
        log_bound = np.broadcast_to(counts, phi.shape)[large]
        log_bound = log_bound * np.log(np.minimum(modulus[large] + error[large], 1.0))
        errors[large] = np.abs(powers[large]) + np.exp(log_bound)
    return powers, errors


def _whole_powers(base: ComplexArray, exponents: NDArray[np.int64]) -> ComplexArray:
    """The powers by squares and products; exponents, of at least one, are those of each row.

    >>> _whole_powers(np.full((2, 1), 1.0 + 1.0j), np.array([[5], [2]]))
    array([[-4.-4.j],
           [ 0.+2.j]])
    """
    power, square = np.ones_like(base), base.copy()
    while True:
        np.multiply(power, square, out=power, where=exponents % 2 == 1)
        exponents = exponents // 2
        if not exponents.any():
            return power
        np.multiply(square, square, out=square)
