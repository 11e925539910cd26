"""Moments of a lognormal variable up to a cap, at complex arguments, by a rule with certified error.

U = exp(mu y - mu^2 / 2) with y standard normal, and values are sign (U - base). E[e^{z value}; U <= cap]
is an integral over y, cut into cells with a Gauss rule on each. On the ellipse around a cell (half axes
`_LONG` and `_SHORT` times half its width h, middle m) the integrand is at most e^{Re z value(m)} phi(m)
times

    exp(|z| U(m) (e^{_LONG mu h} - 1) + _LONG |m| h + (_SHORT h)^2 / 2),

which bounds the error of the rule for all z of one real part up to a modulus, the reach.

Source: trefethen2014 (Gauss rules for analytic functions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.numerics.contour import Tilted
from sharpdp.numerics.matrix_product import weighted_sums
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gauss_nodes, log_ndtr, safe_log

# A Gauss rule with so many points is off by (64/15) B r^(-2 points) / (1 - r^-2) for a function that is
# at most B on the ellipse of parameter r.
_POINTS, _ELLIPSE = 16, 6.0
_LONG, _SHORT = 0.5 * (_ELLIPSE + 1.0 / _ELLIPSE), 0.5 * (_ELLIPSE - 1.0 / _ELLIPSE)
LOG_GAUSS_ERROR = math.log(64.0 / 15.0 / (1.0 - _ELLIPSE**-2.0)) - 2.0 * _POINTS * math.log(
    _ELLIPSE
)
"""The logarithm of what the rule makes of a function that is at most one on the ellipse."""

# Of the nats that integrands may grow on the ellipse, those by the density.
_DENSITY_GROWTH = 4.0
# Multiples of the tilt that Chernoff bounds need moments for.
_CALL_TILTS, _PUT_TILTS = np.array([1.0, 1.3]), np.array([1.0, 2.0, 3.5])
# The least y: what is below counts as if it were there, which is added to the errors.
_LOWEST = -12.5
# Moments are known if the rule is off by less than this.
_KNOWN = 1e-6
# Rounding of a sum of exponentials whose arguments are moderate.
_SUM_UNITS = 256.0 * UNIT_ROUNDOFF
# Moments that are farther from one than this are summed as they are.
_FEW = 0.4
# Exponents below this have their convexity gap from a series.
_SMALL = 0.05


@dataclass(frozen=True)
class CappedLognormal:
    """sign (U - base) with U <= cap, base 0 or 1; cells are made for one tilt, a reach, and a room.

    The cap is given by its y, `top`. With sign 1 what is beyond the cap is left out; with sign -1
    e^{tilt value} falls there, and what is left out is a part of the error. `room` is how many nats
    integrands may grow from the middle of a cell that has all the weight.
    """

    mu: float
    base: float
    sign: float
    top: float
    theta: float
    reach: float
    room: float

    def _size(self, y: Array | float) -> Array:
        """U at some y."""
        return np.asarray(np.exp(self.mu * np.asarray(y) - 0.5 * self.mu**2))

    @property
    def cap(self) -> float:
        """The largest U."""
        return float(self._size(self.top))

    @cached_property
    def _cells(self) -> tuple[Array, Array]:
        """Middles and half-widths of cells of y; cells that weigh less may be wider."""
        y = np.linspace(_LOWEST, self.top, 400)
        size = self._size(y)
        # how many nats less weight than the heaviest a place has, under the tilt and under larger ones
        tilts = self.theta * (_CALL_TILTS if self.sign > 0.0 else _PUT_TILTS)
        weights = np.multiply.outer(tilts, self.sign * (size - self.base)) - 0.5 * y * y
        light = np.min(np.max(weights, axis=1)[:, None] - weights, axis=0)
        growth = np.maximum(self.room - _DENSITY_GROWTH, 1.0) + 0.5 * light
        by_size = np.log1p(growth / np.maximum(self.reach * size, 1e-300)) / (_LONG * self.mu)
        room = _DENSITY_GROWTH + 0.5 * light
        by_density = room / (_LONG * (np.abs(y) + np.sqrt(room)))
        density = 0.5 / np.minimum(by_size, by_density)
        count = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(y)))
        pieces = int(np.ceil(1.1 * count[-1])) + 1
        edges = np.interp(np.linspace(0.0, count[-1], pieces + 1), count, y)
        edges[0], edges[-1] = _LOWEST, self.top
        half = 0.5 * np.diff(edges)
        return edges[:-1] + half, half

    @cached_property
    def nodes(self) -> tuple[Array, Array, Array]:
        """y at all nodes, the values there, and their weights; the first is all that is below."""
        middle, half = self._cells
        move, weight = gauss_nodes(middle, half, _POINTS)
        scale = half * np.exp(-0.5 * middle**2) / math.sqrt(2.0 * math.pi)
        y = np.append(_LOWEST, (middle[:, None] + move).ravel())
        below = float(np.exp(log_ndtr(np.array(_LOWEST))))
        weights = np.append(below, (weight * scale[:, None]).ravel())
        exponent = self.mu * y - 0.5 * self.mu**2
        values = np.expm1(exponent) if self.base == 1.0 else np.exp(exponent)
        return y, self.sign * values, weights

    @cached_property
    def _log_errors(self) -> tuple[Array, Array]:
        """Of each cell: the logarithm of the rule's error at Re z = 0, and the value in its middle."""
        middle, half = self._cells
        size = self._size(middle)
        growth = self.reach * size * np.expm1(_LONG * self.mu * half)
        growth = growth + _LONG * np.abs(middle) * half + 0.5 * (_SHORT * half) ** 2
        logs = LOG_GAUSS_ERROR + growth + np.log(half) - 0.5 * middle**2
        return logs - 0.5 * math.log(2.0 * math.pi), self.sign * (size - self.base)

    def quadrature_errors(self, tilts: Array, log_units: Array) -> Array:
        """Bounds on the error of the integral for all z of each real part, over e^log_unit."""
        log_errors, values = self._log_errors
        with np.errstate(over="ignore", invalid="ignore"):
            logs = np.concatenate(
                [
                    log_errors + np.multiply.outer(tilts, values),
                    self._log_lowest(tilts)[:, None],
                ],
                axis=1,
            )
            if self.sign < 0.0:
                logs = np.append(logs, self._log_beyond(tilts)[:, None], axis=1)
            return np.asarray(np.sum(np.exp(logs - log_units[:, None]), axis=1))

    def _log_lowest(self, tilts: Array) -> Array:
        """log of a bound on the error of counting all y below the lowest as if they were there.

        There e^{tilt value} = e^{g (base - U)}, g = -sign tilt, is largest at the lowest y if g <= 0.
        Otherwise it is at most e^{g base}, and for base 1 at most e^{g (mu^2/2 - mu y)}.
        """
        size, growth = float(self._size(_LOWEST)), -self.sign * tilts
        log_chance = float(log_ndtr(np.array(_LOWEST)))
        rising = growth * self.base + log_chance
        if self.base == 1.0:
            shift = np.maximum(growth, 0.0) * self.mu
            rising = np.minimum(rising, 0.5 * shift * (self.mu + shift) + log_ndtr(_LOWEST + shift))
        falling = growth * (self.base - size) + log_chance
        return np.asarray(np.where(growth > 0.0, rising, falling) + np.log(self.reach * size))

    def _log_beyond(self, tilts: Array) -> Array:
        """log of a bound on E[e^{tilt value}; U > cap] for values that fall."""
        return np.asarray(tilts * (self.base - self.cap) + safe_log(self.beyond[0]))

    @cached_property
    def beyond(self) -> tuple[float, float]:
        """The probability of U > cap, and the mean of U there."""
        tails = np.exp(log_ndtr(np.array([-self.top, self.mu - self.top])))
        return float(tails[0]), float(tails[1])

    @property
    def mean(self) -> float:
        """The mean of the values over U <= cap."""
        chance, size = self.beyond
        return self.sign * ((1.0 - self.base) - (size - self.base * chance))

    def log_moments(self, tilts: Array, *, exactly: bool) -> Array:
        """log E[e^{tilt value}] at real tilts, not below; infinite where it overflows, or is not known.

        Tilts are positive with sign -1, and no larger than the reach. Unless wanted exactly they are
        plain sums, off by 1e-13 at most.
        """
        _, values, weights = self.nodes
        if exactly:
            logs = log_moments(tilts, values, weights, self.mean, self.beyond[0])
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                total = weighted_sums(np.exp(np.multiply.outer(tilts, values)), weights)
            logs = np.log(np.where(np.isnan(total), np.inf, total) + np.finfo(float).tiny)
        errors = self.quadrature_errors(tilts, logs)
        with np.errstate(invalid="ignore"):
            return np.where(errors < _KNOWN, logs + errors, np.inf)

    def tilted(self) -> Tilted:
        """The law of the values under the tilt, ready to be transformed."""
        y, values, weights = self.nodes
        theta = np.array([self.theta])
        logs = log_moments(theta, values, weights, self.mean, self.beyond[0])
        log_moment, exponent = float(logs[0]), self.theta * values
        shares = weights * np.exp(exponent - log_moment)
        shares = shares / np.sum(shares)
        center = float(weighted_sums(shares, values))
        # a weight's exponent carries a rounding error proportional to the numbers it was added from
        inflation = 1.0 + (0.5 * y * y + np.abs(exponent)) / 16.0
        # the exponent of U is known to some units of its two terms, and the value to some of itself
        moved = self._size(y) * (np.abs(self.mu * y) + 0.5 * self.mu**2) + np.abs(values)
        return Tilted(
            theta=self.theta,
            log_moment=log_moment,
            center=center,
            offsets=values - center,
            weights=shares,
            mean_spread=float(weighted_sums(shares, np.abs(values - center) * inflation)),
            slope_noise=0.0,
            point_error=8.0 * UNIT_ROUNDOFF * float(weighted_sums(shares, moved)),
            structured=0.0,
            quadrature=float(self.quadrature_errors(theta, logs)[0]) + self._rounding(log_moment),
        )

    def _rounding(self, log_moment: float) -> float:
        """What rounding moves the moment at the tilt by, relative to it."""
        _, values, weights = self.nodes
        exponent = self.theta * values
        inflation = 1.0 + np.abs(exponent) / 16.0
        gaps = np.abs(np.expm1(exponent) - exponent) + np.minimum(exponent * exponent, 1.0)
        if float(weighted_sums(gaps, weights)) >= _FEW or log_moment <= math.log1p(-_FEW):
            return _SUM_UNITS * float(
                weighted_sums(weights * np.exp(exponent - log_moment), inflation)
            )
        known = self.beyond[0] + self.theta * (self.beyond[1] + abs(1.0 - self.base))
        summed = float(weighted_sums(gaps, weights * inflation))
        return _SUM_UNITS * (summed + 16.0 * known) * math.exp(-log_moment)


def log_moments(tilts: Array, values: Array, weights: Array, mean: float, lost: float) -> Array:
    """log of the sum of all weights times e^{tilt value}; their mass is 1 - lost, their mean known.

    Mass and mean are not summed again, so that little is lost where the result is close to zero.
    """
    exponent = np.multiply.outer(tilts, values)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        small = np.abs(exponent) < _SMALL
        gap = np.where(
            small, _gap_series(np.where(small, exponent, 0.0)), np.expm1(exponent) - exponent
        )
        gaps = weighted_sums(gap, weights)
        total = gaps + tilts * mean - lost
        plain = np.log(weighted_sums(np.exp(exponent), weights) + np.finfo(float).tiny)
        close = (gaps < _FEW) & (total > -_FEW)
        logs = np.where(close, np.log1p(np.where(close, total, 0.0)), plain)
    return np.where(np.isnan(logs), np.inf, logs)


def _gap_series(x: Array) -> Array:
    """e^x - 1 - x for small x.

    >>> bool(abs(_gap_series(np.array([0.04]))[0] / 0.0008107741923882268 - 1.0) < 1e-15)
    True
    """
    total = np.zeros_like(x)
    for power in range(9, 2, -1):
        total = (1.0 + total) * x / power
    return np.asarray(0.5 * x * x * (1.0 + total))
