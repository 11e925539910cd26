"""A sampled record with two values that contribute the opposite of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    log1mexp,
    log_expm1,
    log_ndtr,
    log_normal_call,
)
from sharpdp.pairs.pair import ACCURACY, GaussianPair, Hints, Pair

_STEEPEST = 40.0
"""Logarithms of values down to e^-800 fall by less than this for each deviation."""

_LARGEST = 300.0
"""Beyond this logarithm asinh(y) is log(2 y)."""


__all__ = ["OpposedPair", "opposed"]


def opposed(mu: float, rate: float) -> Pair:
    """A sampled record that moves the sum by +mu or by -mu; a Gaussian pair if it is always there.

    >>> opposed(0.5, 1.0)
    GaussianPair(mu=1.0)
    """
    return GaussianPair(2.0 * mu) if rate == 1.0 else OpposedPair(mu, rate)


@dataclass(frozen=True)
class OpposedPair(Pair):
    """(1 - r) N(0, 1) + r N(mu, 1) against (1 - r) N(0, 1) + r N(-mu, 1), r = rate < 1.

    The ratio rises with the result z, and is e^k at mu z = k/2 + asinh(sinh(k/2) e^{mu^2/2} (1 - r)/r).
    There the densities in H_x = r N(mu) - x r N(-mu) - (x - 1)(1 - r) N(0) beyond z cancel, so that with
    h_m the profile of N(m, 1) against N(0, 1)

        H_x = x r e^{-a} h_2mu(e^a) + (x - 1)(1 - r) e^{-b} h_mu(e^b),   a = 2 mu z, b = mu z - mu^2/2:

    a sum of positive terms, for x = e^k >= 1. The pair is its own mirror image.

    >>> pair = OpposedPair(1.0, 0.5)
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([0.0]))[0])), 8)  # 0.5 (Phi(1) - Phi(-1))
    0.34134475
    """

    mu: float
    rate: float

    @property
    def accuracy(self) -> float:
        odds = abs(float(np.log(self.rate))) + abs(float(np.log1p(-self.rate)))
        parts = 1.0 + odds + 0.5 * self.mu**2
        place = 16.0 * UNIT_ROUNDOFF * parts * (1.0 + _STEEPEST / self.mu)
        return 4.0 * ACCURACY + GaussianPair(2.0 * self.mu).accuracy + place

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def hints(self) -> Hints:
        # sampled always: the divergences are convex in the pair
        always = GaussianPair(2.0 * self.mu)
        return Hints(no_less=lambda: always, tail_rate=self._tail_rate, unbounded=(True, True))

    def _tail_rate(self, loss: float) -> float:
        # the rate is 1 / (E_Q[e^{L - loss} | L > loss] - 1). L rises by at most 2 mu for each deviation,
        # and Q beyond z lies below N(0) beyond z: no slower than N(2 mu) against N(0) at the same z
        threshold = 2.0 * float(self._place(np.array([loss]))[0]) - 2.0 * self.mu**2
        return GaussianPair(2.0 * self.mu).hints.tail_rate(threshold) if threshold > 0.0 else 0.0

    def _place(self, loss: Array) -> Array:
        """mu z at thresholds from zero on, in logarithms so that nothing overflows."""
        half = 0.5 * np.asarray(loss, dtype=float)
        with np.errstate(divide="ignore"):
            log_sinh = half + log1mexp(-2.0 * half) - np.log(2.0)
        log_y = log_sinh + 0.5 * self.mu**2 + np.log1p(-self.rate) - np.log(self.rate)
        near = np.arcsinh(np.exp(np.minimum(log_y, _LARGEST)))
        return np.asarray(half + np.where(log_y > _LARGEST, log_y + np.log(2.0), near))

    def log_hockey_stick(self, loss: Array) -> Array:
        k, mu = np.abs(np.asarray(loss, dtype=float)), self.mu
        place = self._place(k)
        opposite = k + np.log(self.rate) - 2.0 * place + log_normal_call(2.0 * mu, 2.0 * place)
        near = place - 0.5 * mu * mu
        size = np.abs(near)
        with np.errstate(divide="ignore"):
            weight = log_expm1(k) + np.log1p(-self.rate)
            call = log_normal_call(mu, size) + np.minimum(near, 0.0)
            # in the money by 1 - e^near if that is below one
            call = np.where(near < 0.0, np.logaddexp(call, log1mexp(-size)), call)
        return np.asarray(np.logaddexp(opposite, weight - near + call) + np.minimum(loss, 0.0))

    def log_tail_q(self, loss: Array) -> Array:
        return self._beyond(loss, np.where(np.asarray(loss) < 0.0, self.mu, -self.mu))

    def log_tail_p(self, loss: Array) -> Array:
        return self._beyond(loss, np.where(np.asarray(loss) < 0.0, -self.mu, self.mu))

    def _beyond(self, loss: Array, mean: Array) -> Array:
        """log of (1 - r) N(0) + r N(mean) beyond z, both mirrored for losses below zero."""
        z = self._place(np.abs(np.asarray(loss, dtype=float))) / self.mu
        without = np.log1p(-self.rate) + log_ndtr(-z)
        return np.asarray(np.logaddexp(without, np.log(self.rate) + log_ndtr(mean - z)))
