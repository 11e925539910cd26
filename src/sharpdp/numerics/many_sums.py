"""Positive parts of many sums from above, each with a law and a number of copies of its own.

The formula is that of `expected_positive_part`, the trapezoid sum on a contour, which is an upper bound
on E[S_+] whatever its step. Here all sums are planned, transformed and read together: a sum alone takes
a millisecond, most of it for calls of functions of short arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.contour import (
    beyond_each_last,
    exponential,
    gridded_transforms,
    log_power,
    phase_moves,
)
from sharpdp.numerics.expected_positive_part import (
    IMAGE_TILTS,
    frequencies,
    log_moments,
    log_moments_up,
    narrow_window,
    rare_moments_up,
)
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray

__all__ = ["ManySums"]

_HALVINGS = 14
"""Halvings of the logarithmic range of tilts, which need no accuracy."""

_SMALLEST_TILT, _LARGEST_EXPONENT, _OVERFLOW = 1e-3, 600.0, 700.0

_LOW_TILT, _HIGH_TILT, _RARE_JUMPS = 0.7, 0.9, 8.0
"""A tilt below the best one makes images on the left rare: by the first factor, or by the second where
the largest value decides alone, the best tilt times it being above the last number."""

_ATTEMPTS, _SHARE, _HEAVY, _MOST_SHRINK = 4, 0.2, 20.0, 8.0
"""Contours that are tried; the share of the tolerance that images or smoothing may have; how many times
smaller than that of a normal sum a value may be; and how much less the next one is smoothed, at most."""

_MOST_SMOOTHING, _LIGHT = 0.03, 3.0
"""The most smoothing in deviations of the sum, and up to which tilt times the largest value."""

_WIDENED = 1.25 ** np.arange(14.0)
_TINY = 1e-290

_NEGLIGIBLE, _HARMLESS = 1e-9, 1e-8
"""What all frequencies that are left out may add, as a share of about the value; and n times the error of
psi that is harmless."""

_MOST_TERMS, _AT_ONCE, _UNITS = 1 << 19, 1 << 18, 64.0
"""A contour with more pairs of frequencies and values is not tried again; numbers that are held at the
same time; and units of rounding of each term, besides one for each summand."""


@dataclass(frozen=True)
class ManySums:
    """For each row n copies of a variable that has these values with these weights.

    Weights are rounded ones of a law with sum one, off by a few units each, or zero; values are known to
    within `value_error`. All arrays have a row for each sum, `counts` one number.

    >>> two = np.array([[0.5, 0.5], [0.25, 0.75]])
    >>> values = np.array([[1.0, -1.0], [2.0, -2.0]])
    >>> sums = ManySums(two, values, np.zeros((2, 2)), np.array([2.0, 1.0]))
    >>> np.round(np.exp(sums.log_uppers(sums.tilts(), np.full(2, 1e-4))), 3)  # 2 / 4, 2 / 4
    array([0.5, 0.5])
    """

    weights: Array
    values: Array
    value_error: Array
    counts: Array

    def chosen(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> ManySums:
        """Some of the rows."""
        return ManySums(
            self.weights[rows], self.values[rows], self.value_error[rows], self.counts[rows]
        )

    def tilts(self) -> Array:
        """About the tilt of each row at which theta^-2 M(theta)^n is smallest."""
        spread = np.sqrt(self.counts * np.sum(self.values**2 * self.weights, axis=1))
        largest = self._largest
        with np.errstate(divide="ignore"):
            low = np.log(_SMALLEST_TILT / np.maximum(spread, largest))
            high = np.log(np.minimum(_LARGEST_EXPONENT / largest, 1.0 / _TINY))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            theta = np.exp(middle)
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # any tilt will do
                grown = np.minimum(theta[:, None] * self.values, _OVERFLOW)
                np.exp(grown, out=grown)
                grown *= self.weights
                total = np.sum(grown, axis=1)
                mean = np.einsum("ij,ij->i", grown, self.values)
                rising = self.counts * theta * mean > 2.0 * total
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        return np.asarray(np.exp(high))

    @cached_property
    def _largest(self) -> Array:
        return np.asarray(np.max(self.values, axis=1, initial=0.0))

    def log_ceilings(self, thetas: Array) -> Array:
        """Upper bounds on log E[S_+] from x_+ <= e^{theta x} / (e theta)."""
        return np.asarray(self.log_moments_up(thetas[None])[0] - 1.0 - np.log(thetas))

    def log_estimates(self, thetas: Array) -> Array:
        """About log E[S_+], as if tilted sums were normal: for plans."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            exponents = np.clip(thetas[:, None] * self.values, -_OVERFLOW, _OVERFLOW)
            grown = self.weights * np.exp(exponents)
            total = np.sum(grown, axis=1)
            mean = np.einsum("ij,ij->i", grown, self.values) / total
            square = np.einsum("ij,ij->i", grown, (self.values - mean[:, None]) ** 2) / total
            size = 1.0 + np.sqrt(2.0 * np.pi * self.counts * square) * thetas
            logs = self.counts * np.log(total) - np.log(thetas) - np.log(size)
        return np.where((self._largest > 0.0) & np.isfinite(logs), logs, -np.inf)

    def log_moments_up(self, thetas: Array) -> Array:
        """Upper bounds on n log M at some tilts of each row, one row of tilts for each of them."""
        shape = (thetas.size, self.values.shape[1])
        column = thetas[:, :, None]
        with np.errstate(over="ignore"):
            exponents, errors = (
                (column * part).reshape(shape) for part in (self.values, self.value_error)
            )
        weights, counts = np.tile(self.weights, (len(thetas), 1)), np.tile(self.counts, len(thetas))
        return log_moments_up(weights, exponents, errors, counts).reshape(thetas.shape)

    def log_uppers(self, thetas: Array, tolerances: Array | None = None) -> Array:
        """Upper bounds on log E[S_+], infinite where they overflow, with contours near these tilts.

        They are within the tolerance of the truth, relative to E[S_+], if work can do it; one contour
        each without tolerances.
        """
        if tolerances is None:
            high, likely = self._log_sides(thetas)
            if likely.size:
                high[likely] = _Contours.of(self.chosen(likely), thetas[likely]).log_uppers()
            return high
        return self.log_ends(thetas, tolerances)[1]

    def log_ends(
        self, thetas: Array, tolerances: Array, most: float = np.inf
    ) -> tuple[Array, Array]:
        """Lower and upper bounds on log E[S_+] from the same contours; infinite if unknown.

        Contours with more than so many frequencies are left out.
        """
        high, left = self._log_sides(thetas)
        low = np.full(thetas.size, -np.inf)
        jump = self._largest[left] * thetas[left]
        lower = np.where(jump < _RARE_JUMPS, _LOW_TILT, _HIGH_TILT) * thetas[left]
        tolerance = tolerances[left]
        if not left.size:
            return low, high
        contours = _Contours.of(self.chosen(left), lower).planned(tolerance)
        for _ in range(_ATTEMPTS):
            if most < np.inf:
                short = contours.sizes <= most
                left, tolerance, contours = left[short], tolerance[short], contours.chosen(short)
            if not left.size:
                break
            reading = contours.read()
            high[left] = np.minimum(high[left], reading.log_value)
            low[left] = np.maximum(low[left], reading.log_lower)
            again = (reading.excess > tolerance) & ~contours.exhausted
            left, tolerance = left[again], tolerance[again]
            if not left.size:
                break
            contours = contours.chosen(again).sharper(tolerance, reading.chosen(again))
        return low, high

    def _log_sides(self, thetas: Array) -> tuple[Array, NDArray[np.intp]]:
        """Upper bounds on log E[S_+] without contours, and the rows for which there are some."""
        reach = np.max(self.values + self.value_error, axis=1, initial=0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            jump = self._largest * thetas
        is_likely = (jump > 0.0) & (jump < _LARGEST_EXPONENT - 1.0) & (reach > 0.0)
        high = np.full(thetas.size, np.inf)
        rare = np.flatnonzero(~is_likely & (reach > 0.0))
        high[rare] = rare_moments_up(
            self.weights[rare], self.values[rare], self.value_error[rare], self.counts[rare]
        )
        high[reach <= 0.0] = -np.inf
        return high, np.flatnonzero(is_likely)


@dataclass(frozen=True)
class _Reading:
    """For each row both bounds, and in units of e^lead the trapezoid sum and what may be wrong."""

    log_value: Array
    log_lower: Array
    value: Array
    error: Array
    images: Array
    rise: Array

    @property
    def excess(self) -> Array:
        """Bounds on what images, smoothing and errors add, relative to the sums."""
        added = self.images + self.rise + 2.0 * self.error
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(self.value > 0.0, added / self.value, np.inf)

    def chosen(self, rows: NDArray[np.bool_]) -> _Reading:
        """Some of the rows."""
        return _Reading(
            self.log_value[rows],
            self.log_lower[rows],
            self.value[rows],
            self.error[rows],
            self.images[rows],
            self.rise[rows],
        )


@dataclass(frozen=True)
class _Contours:
    """A trapezoid sum for each row, chosen freely; everything is certified when it is read."""

    sums: ManySums
    tilted: Array
    theta: Array
    spread: Array
    smoothing: Array
    window: Array
    log_m: Array
    log_m_error: Array
    log_image_moments: Array
    """log of M(s) / (e s) at all tilts of the images; empty before they are planned for."""

    @classmethod
    def of(cls, sums: ManySums, theta: Array) -> _Contours:
        """Choose smoothing and window for one tilt of each row."""
        values, column = sums.values, theta[:, None]
        tilted = sums.weights * np.exp(column * values)
        tilted /= np.sum(tilted, axis=1)[:, None]
        mean = np.einsum("ij,ij->i", tilted, values)
        square = np.einsum("ij,ij->i", tilted, (values - mean[:, None]) ** 2)
        log_m, error = log_moments(
            sums.weights, column * values, column * sums.value_error, sums.counts
        )
        spread, smoothing, window = narrow_window(theta, np.sqrt(sums.counts * square), log_m)
        return cls(
            sums, tilted, theta, spread, smoothing, window, log_m, error, np.zeros((theta.size, 0))
        )

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
        )

    def planned(self, tolerance: Array) -> _Contours:
        """The same with smoothing and windows that are likely to be good enough for the tolerance."""
        tilts = np.multiply.outer(IMAGE_TILTS, self.theta)
        at_once = max(_AT_ONCE // self.tilted.size, 1)
        logs = [
            self.sums.log_moments_up(tilts[start : start + at_once])
            for start in range(0, IMAGE_TILTS.size, at_once)
        ]
        moments = (np.concatenate(logs) - 1.0 - np.log(tilts)).T
        # smoothing adds about (v theta)^2 of the value where no single jump decides
        enough = np.minimum(np.sqrt(_SHARE * tolerance) / self.theta, _MOST_SMOOTHING * self.spread)
        is_light = self.theta * self.sums._largest < _LIGHT
        smoothing = np.where(is_light, np.maximum(self.smoothing, enough), self.smoothing)
        ready = replace(self, log_image_moments=moments, smoothing=smoothing)
        size = 1.0 + np.sqrt(2.0 * np.pi) * self.theta * self.spread
        allowed = _SHARE * tolerance / (_HEAVY * self.theta * size)
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
    def _lead(self) -> Array:
        return self.log_m + 0.5 * (self.smoothing * self.theta) ** 2

    def _images(self, windows: Array) -> Array:
        """Bounds on the images in several windows of each row, times e^-lead.

        From x_+ <= e^{s x} / (e s), as in `expected_positive_part`.
        """
        away = np.multiply.outer(windows, np.abs(IMAGE_TILTS - 1.0)) * self.theta[:, None, None]
        damp = 0.5 * (np.multiply.outer(self.smoothing * self.theta, IMAGE_TILTS)) ** 2
        log_bound = (self.log_image_moments + damp)[:, None] - away - np.log(-np.expm1(-away))
        left = IMAGE_TILTS > 1.0
        total = np.zeros(windows.shape)
        with np.errstate(over="ignore"):
            for side in (left, ~left):
                least = np.min(log_bound[:, :, side], axis=2)
                total += np.exp(least + 1e-6 - self._lead[:, None])  # the last digits of moments
        return total

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """The numbers of frequencies."""
        return frequencies(self.theta, self.spread, self.smoothing, self.window)

    @property
    def _log_negligible(self) -> Array:
        """The log of powers times theta^2 |z|^-2 that are left out; at frequency zero that is one."""
        size = 1.0 + np.sqrt(2.0 * np.pi) * self.theta * self.spread
        share = _NEGLIGIBLE * self.theta * self.window / (2.0 * self.sizes * size)
        return np.asarray(np.minimum(np.log(share), -1.0))

    @property
    def exhausted(self) -> NDArray[np.bool_]:
        """Of which rows a contour takes so long that it is not tried again."""
        return np.asarray(self.sizes * self.sums.values.shape[1] >= _MOST_TERMS)

    def read(self) -> _Reading:
        """The trapezoid sums, with everything that is known about their errors."""
        value, error, density = self._all_sums()
        images = self._images(self.window[:, None])[:, 0]
        rise = self.smoothing**2 * density
        log_value, log_lower = (
            self._log_end(end, sign)
            for end, sign in ((value + error, 1.0), (value - error - images - rise, -1.0))
        )
        return _Reading(log_value, log_lower, value, error, images, rise)

    def log_uppers(self) -> Array:
        """The upper bounds alone."""
        value, error, _ = self._all_sums()
        return self._log_end(value + error, 1.0)

    def _log_end(self, end: Array, sign: float) -> Array:
        """The log of an end times e^lead, rounded up (1) or down (-1)."""
        slack = self.log_m_error + 4.0 * UNIT_ROUNDOFF * np.abs(self._lead)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(end > 0.0, self._lead + np.log(end) + sign * slack, sign * np.inf)

    def _all_sums(self) -> Array:
        """`_sums`, of neighbors in size together: they share a grid."""
        found = np.empty((3, self.theta.size))
        order = np.argsort(self.sizes, kind="stable")
        start = 0
        while start < order.size:
            largest = int(self.sizes[order[min(start + 15, order.size - 1)]])
            points = 32 * self.tilted.shape[1] + 4 * largest
            rows = order[start : start + max(_AT_ONCE // points, 1)]
            found[:, rows] = self.chosen(rows)._sums()
            start += rows.size
        return found

    def _sums(self) -> Array:
        """Trapezoid values, their errors, and upper bounds on the densities at zero; all e^-lead."""
        row, place, psi, error = self._rough(2.0 * np.pi / self.window, self.sizes)
        plan = _Trapezoids(
            self.theta, self.smoothing, self.window, self.sizes, self._log_negligible
        )
        return plan.sums(row, place, psi, error, self.sums.counts[row])

    def _rough(
        self, step: Array, sizes: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], ComplexArray, Array]:
        """Rows and numbers of frequencies that matter, psi = M(z) / M(theta) - 1 there, and its errors.

        psi is found with an error of some units, which says where the power matters. There it is kept
        if n times that error does not; otherwise psi is summed again.
        """
        sums, tilted = self.sums, self.tilted
        units = 2.0 * (_UNITS + tilted.shape[1]) * UNIT_ROUNDOFF
        size, column = np.abs(sums.values), self.theta[:, None]
        # weights are off by a share of themselves, and count with |e^{itv} - 1| <= min(t |v|, 2)
        off = tilted * (units * (1.0 + column * size) + column * sums.value_error)
        known, most = np.einsum("ij,ij->i", off, size), 2.0 * np.sum(off, axis=1)
        # phases are off by errors of values and rounding
        turned = np.einsum("ij,ij->i", tilted, sums.value_error + 16.0 * UNIT_ROUNDOFF * size)
        count = int(np.max(sizes))
        phi, gridding = gridded_transforms(sums.values, tilted, step, count)
        places = np.arange(count)
        rounding = gridding + units
        moved = np.multiply.outer(known * step, places)
        np.minimum(moved, most[:, None], out=moved)
        moved += np.multiply.outer(turned * step, places)
        with np.errstate(divide="ignore"):
            log_payoff = np.log(np.minimum(np.abs(phi), 1.0) + moved + rounding)
        log_payoff *= sums.counts[:, None]
        log_payoff -= np.log1p(np.multiply.outer(step / self.theta, places) ** 2)
        alive = log_payoff > self._log_negligible[:, None]
        alive &= places < sizes[:, None]
        row, place = np.nonzero(alive)
        psi, error = phi[row, place] - 1.0, moved[row, place]
        is_harmless = sums.counts * float(np.max(rounding)) < _HARMLESS
        for one in np.flatnonzero(~is_harmless):
            again = row == one
            t = step[one] * place[again]
            psi[again] = phase_moves(sums.values[one], tilted[one], t)
        return row, place, psi, error + np.where(is_harmless[row], rounding[place], 0.0)


@dataclass(frozen=True)
class _Trapezoids:
    """Tilts, smoothing, windows and numbers of frequencies of contours.

    Of the frequencies those may be left out whose power, relative to that at zero and times
    theta^2 |z|^-2, has a logarithm below the last number.
    """

    theta: Array
    smoothing: Array
    window: Array
    sizes: NDArray[np.intp]
    log_left_out: Array

    def sums(
        self,
        row: NDArray[np.intp],
        place: NDArray[np.intp],
        psi: ComplexArray,
        psi_error: Array,
        count: float | Array,
    ) -> Array:
        """Trapezoid values, their errors, and about the densities at zero; all e^-lead.

        From psi = M(z) / M(theta) - 1 at the frequencies with these numbers, in the order of the rows.
        The densities are upper bounds if the powers alone that were left out are as small.
        """
        theta, v, window = self.theta, self.smoothing, self.window
        step = 2.0 * np.pi / window
        t = step[row] * place
        powers, bound = exponential(*log_power(psi, psi_error, count))
        width = v[row]
        damp = np.exp(-0.5 * (width * t) ** 2)
        drift = width * width * theta[row]
        spin = powers * damp * np.exp(1j * drift * t)
        starts = np.searchsorted(row, np.arange(theta.size))
        terms = np.diff(np.append(starts, row.size))
        # each sum may round once for each of its terms
        errors = bound * damp
        errors += np.abs(spin) * UNIT_ROUNDOFF * (_UNITS + terms[row] + 4.0 * drift * t)
        kernel = (theta[row] + 1j * t) ** -2
        weight = np.where(place > 0, 2.0, 1.0) / window[row]
        parts = [(spin * kernel).real, errors * np.abs(kernel), spin.real, errors]
        value, error, density, blur = np.add.reduceat(weight * np.stack(parts), starts, axis=1)
        # frequencies that were left out, and those beyond the last: |M(z)| <= M(theta)
        dead = 2.0 * np.exp(self.log_left_out) * self.sizes / window
        last = step * (self.sizes - 1)
        more, more_density = beyond_each_last(v, last, step)
        density = np.maximum(density + blur + dead + more_density, 0.0)
        return np.stack([value, error + dead / theta**2 + more, density])
