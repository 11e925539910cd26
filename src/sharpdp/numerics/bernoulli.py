"""Two-point distributions: the smallest Renyi divergence at which one event gains a given excess.

For Bernoulli distributions with success probabilities p and q = (p - excess) e^{-threshold}, the excess
is p - e^threshold q. The divergence of order a = 1 + s is log(1 + S) / s with

    S = p gap(s, log(p/q)) + (1 - p) gap(s, log((1 - p)/(1 - q)))
    gap(s, x) = e^{s x} - 1 + s (e^{-x} - 1) >= 0,

a sum of nonnegative terms, so that small divergences keep their digits. S is convex in p. With
u = p / (p - excess) and v = (1 - p) / (e^threshold - p + excess) it is least where k(u) = k(v),
k(w) = a w^s - s w^a. Knows nothing of privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, exact_product, log_convexity_gap

__all__ = ["Least", "least_divergence"]

# log k(w) = log(1 - small) where s |log w| is below this; a sum of larger logarithms elsewhere.
_NEARLY_ONE = 0.5
_FARTHEST = 720.0
_STEPS = 80
_SETTLED = 1e-9
# The minimizer is proved to be this close to the one that was found, in the logit.
_NEAR = 1e-6
# Units of rounding in a gap, and in the difference whose sign is looked for, relative to their terms.
_GAP_UNITS, _SIGN_UNITS = 128.0, 64.0


@dataclass(frozen=True)
class Least:
    """The least divergence: a certified lower bound on it, and how fast it rises (not certified)."""

    lower: Array
    by_threshold: Array
    by_log_excess: Array
    place: Array
    """Where the minimum was found, as a logit; a good place to start the next search from."""
    success: Array
    """The p of the pair that attains it."""


@dataclass(frozen=True)
class _Setting:
    """Order, threshold and excess, and what follows from them alone."""

    s: Array
    threshold: Array
    excess: Array
    room: Array
    """1 - order excess."""
    log_step: Array
    """log of (e^threshold - 1 + excess)."""

    @classmethod
    def of(cls, order: Array, threshold: Array, excess: Array) -> _Setting:
        share = -np.expm1(-threshold) + excess * np.exp(-threshold)
        product, rest = exact_product(order, excess)
        room = (1.0 - product) - rest
        return cls(order - 1.0, threshold, excess, room, threshold + np.log(share))


@dataclass(frozen=True)
class _Point:
    """Everything at one p for each setting; p = order excess + (1 - order excess) sigmoid(z)."""

    p: Array
    log_rest: Array
    """log(1 - p)."""
    log_u: Array
    log_v: Array
    log_k_u: Array
    log_k_v: Array
    slope: Array
    """The derivative of log k(u) - log k(v) in z."""
    log_speed: Array
    """log dp/dz."""

    @classmethod
    def at(cls, one: _Setting, z: Array) -> _Point:
        s, d = one.s, one.excess
        a = s + 1.0
        room = one.room
        log_sig, log_cosig = -np.logaddexp(0.0, -z), -np.logaddexp(0.0, z)
        sig, cosig = np.exp(log_sig), np.exp(log_cosig)
        below = s * d + room * sig  # p - excess
        log_rest = np.log(room) + log_cosig
        log_w = one.log_step - log_rest
        log_v = -np.logaddexp(0.0, log_w)
        log_u = np.log1p(d / below)
        v = np.exp(log_v)
        p = below + d
        log_k_u = s * log_u + np.log(room) + log_sig - np.log(below)
        log_k_v = s * log_v + np.log(a - s * v)
        small = np.maximum(1.0, s) * np.maximum(log_u, -log_v) < _NEARLY_ONE
        if small.any():
            log_k_u[small] = _log_k(s[small], log_u[small])
            log_k_v[small] = _log_k(s[small], log_v[small])
        gain = sig * np.exp(2.0 * (log_w + log_v)) / (a - s * v)
        slope = a * s * (cosig * (d / below) * (d / p) + gain)
        return cls(
            p, log_rest, log_u, log_v, log_k_u, log_k_v, slope, np.log(room) + log_sig + log_cosig
        )

    @property
    def force(self) -> Array:
        """log k(u) - log k(v): the sign of the derivative of S."""
        return self.log_k_u - self.log_k_v


def least_divergence(
    order: Array, threshold: Array, excess: Array, start: Array | None = None
) -> Least:
    """A certified lower bound on the least divergence over p, with the slopes at the minimum.

    Holds when: order > 1 finite, threshold >= 0, 0 < order excess < 1; arrays of one shape.

    Numerics: a convex function is at least its tangent, and the minimizer is proved to be within 1e-6
    (in the logit) of where the tangent is taken, so that the loss is of second order; S is moved down
    by 128 units of rounding and 8 for each unit of its logarithm and exponents. Relative error below
    1e-13 in usual settings; where the sign cannot be decided the bound is 0.

    >>> one = least_divergence(np.array([2.0]), np.array([0.5]), np.array([0.01]))
    >>> round(float(one.lower[0]), 10)
    0.0260076995
    """
    setting = _Setting.of(order, threshold, excess)
    with np.errstate(all="ignore"):
        z = _minimizer(setting, _first_guess(setting) if start is None else start)
        return _measured(setting, z)


def _first_guess(one: _Setting) -> Array:
    """The logit for a p next to order excess, where log k(u) is a line in it and k(v) a constant."""
    s, d = one.s, one.excess
    a = s + 1.0
    log_room = np.log(one.room)
    log_v = -np.logaddexp(0.0, one.log_step - log_room)
    log_k_v = s * log_v + np.log(a - s * np.exp(log_v))
    line = np.log(s) + np.log(d) - log_room - s * np.log1p(1.0 / s) + log_k_v
    return np.asarray(np.clip(line, -_FARTHEST, 0.0))


def _minimizer(one: _Setting, z: Array) -> Array:
    """About the logit at which the derivative vanishes: Newton's method inside a shrinking bracket."""
    low, high = np.full_like(z, -_FARTHEST), np.full_like(z, _FARTHEST)
    z = np.clip(z, -_FARTHEST, _FARTHEST)
    for _ in range(_STEPS):
        point = _Point.at(one, z)
        force = point.force
        low, high = np.where(force < 0.0, z, low), np.where(force < 0.0, high, z)
        step = force / point.slope
        new = z - step
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        settled = np.abs(new - z) <= _SETTLED * (1.0 + np.abs(z))
        z = new
        if settled.all():
            break
    return z


def _measured(one: _Setting, z: Array) -> Least:
    """The certified value and the slopes at an approximate minimizer."""
    point = _Point.at(one, z)
    s, eps = one.s, one.threshold
    log_ratio = eps + point.log_u  # log(p / q)
    log_other = point.log_v + eps  # log((1 - p) / (1 - q)), up to cancellation
    tiny = np.abs(log_other) < _NEARLY_ONE
    p, rest = point.p, np.exp(point.log_rest)
    exact = -np.log1p((p * -np.expm1(-eps) + one.excess * np.exp(-eps)) / rest)
    log_other = np.where(tiny, exact, log_other)
    log_gain, log_loss = log_convexity_gap(s, log_ratio), log_convexity_gap(s, log_other)
    log_s = np.logaddexp(np.log(p) + log_gain, point.log_rest + log_loss)
    logarithms = np.abs(log_s) + np.abs(np.log(p)) + np.abs(point.log_rest)
    units = _GAP_UNITS + 8.0 * (s * log_ratio + np.abs(log_other) + logarithms)
    lost = units * UNIT_ROUNDOFF + np.exp(_log_loss(one, point, z) - log_s)
    kept = np.log(np.maximum(1.0 - lost, 0.0))
    lower = np.logaddexp(0.0, log_s + kept) / s * (1.0 - 8.0 * UNIT_ROUNDOFF)
    log_h = np.logaddexp(0.0, log_s) - s * eps
    a = s + 1.0
    by_threshold = -np.expm1(a * point.log_v + eps - log_h)
    gain = np.exp(a * point.log_u - log_h) - np.exp(a * point.log_v - log_h)
    return Least(np.where(np.isnan(lower), 0.0, lower), by_threshold, one.excess * gain, z, point.p)


def _log_loss(one: _Setting, point: _Point, z: Array) -> Array:
    """log of what S at this point may exceed its minimum by: the slope times the distance.

    The minimum lies between order excess and one; where the signs beside the point are certain, it
    lies between the neighbors.
    """
    log_rest = point.log_rest + z  # log(p - order excess)
    log_reach = np.full_like(z, -np.inf)
    noise = np.zeros_like(z)
    for side, bound in ((-1.0, log_rest), (1.0, point.log_rest)):
        beside = _Point.at(one, z + side * _NEAR)
        size = one.s * np.maximum(beside.log_u, -beside.log_v)
        scale = np.where(
            np.maximum(size, beside.log_u - beside.log_v) < _NEARLY_ONE,
            np.abs(beside.log_k_u) + np.abs(beside.log_k_v),
            1.0 + size + np.abs(z),
        )
        noise = np.maximum(noise, _SIGN_UNITS * UNIT_ROUNDOFF * scale)
        near = np.log(2.0 * _NEAR) + point.log_speed
        log_reach = np.maximum(log_reach, np.where(side * beside.force > noise, near, bound))
    share = np.minimum(np.abs(point.force) + noise, 1.0)
    log_slope = one.s * one.threshold + np.maximum(point.log_k_u, point.log_k_v) + np.log(share)
    return np.asarray(log_slope + log_reach)


def _log_k(s: Array, log_w: Array) -> Array:
    """log k(w) for w near one, from 1 - k(w) = w^s gap(s, -log w)."""
    return np.asarray(np.log1p(-np.exp(s * log_w + log_convexity_gap(s, -log_w))))
