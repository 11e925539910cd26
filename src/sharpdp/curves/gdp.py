"""The Gaussian mechanism whose trade-off curve just stays below a given one: one number mu.

G_mu(alpha) <= f(alpha) wherever both error rates are at least r holds if delta(k) <= delta_mu(k) at all
thresholds k at which G_mu is optimal there: 0 <= k <= mu z - mu^2/2 with z the upper r-quantile of the
normal, in both directions. Conversely any point (alpha, f(alpha)) asks for a mu.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sharpdp.numerics.library import ndtri
from sharpdp.numerics.special import Array, log_normal_call

_THRESHOLDS, _MOST_THRESHOLDS = 64, 400
# Each round reaches for the thresholds that a mu this much larger than the last one would need.
_GROWTH = 1.003
# Between two thresholds the profile is bounded by its chord, on so many pieces.
_PIECES = 100
_BISECTIONS = 60
_ROUNDS = 12
# Allowance for the error of log_normal_call, of the quantiles and of the bisection.
_ACCURACY = 1e-11
_OUTWARDS = 1e-9


def mu_from_points(alpha: Array, beta: Array) -> float:
    """The largest mu that some point (alpha, beta) on or above the curve asks for: a lower bound."""
    inside = beta > 0.0
    needed = -ndtri(alpha[inside]) - ndtri(beta[inside])
    return max(0.0, float(np.max(needed, initial=0.0)) * (1.0 - _OUTWARDS) - _OUTWARDS)


def mu_from_advantage(advantage: float) -> float:
    """The mu whose Gaussian has this advantage, 2 Phi(mu/2) - 1, rounded down: another lower bound."""
    return max(0.0, 2.0 * float(ndtri(0.5 + 0.5 * min(advantage, 1.0 - 1e-16))) * (1.0 - _OUTWARDS))


def mu_upper(
    log_delta: Callable[[float], tuple[float, float]], smallest_rate: float, start: float
) -> float:
    """A mu whose Gaussian is nowhere more private, where both error rates are at least smallest_rate.

    Thresholds reach as far as the resulting mu needs; the profile between them is bounded by chords in
    e^epsilon, and on a piece [a, b] of a chord delta_mu(b) >= chord(a) suffices: both decrease.
    """
    quantile = float(-ndtri(smallest_rate))
    known: dict[float, float] = {}

    def upper_end(k: float) -> float:
        if k not in known:
            known[k] = log_delta(k)[1]
        return known[k]

    mu = min(start, quantile)
    spacing = max(mu * quantile - 0.5 * mu * mu, 1e-9) / _THRESHOLDS
    for _ in range(_ROUNDS):
        tried = min(_GROWTH * mu, quantile)
        farthest = tried * quantile - 0.5 * tried * tried
        epsilon = spacing * np.arange(min(np.ceil(farthest / spacing) + 1, _MOST_THRESHOLDS))
        mu = _needed(epsilon, np.array([upper_end(float(k)) for k in epsilon]))
        if epsilon[-1] >= farthest and (mu <= tried or tried == quantile):
            return mu
        if epsilon[-1] < farthest:
            spacing *= 2.0
    return np.inf


def _needed(epsilon: Array, log_upper: Array) -> float:
    """The smallest mu with delta_mu at least the chords of delta, up to bisection from above."""
    x = np.exp(epsilon)
    share = np.arange(_PIECES + 1) / _PIECES
    cuts = x[:-1, None] + np.diff(x)[:, None] * share
    chord = np.interp(cuts[:, :-1].ravel(), x, np.exp(log_upper))
    ends = np.log(cuts[:, 1:].ravel())
    with np.errstate(divide="ignore"):
        wanted = np.log(chord) + _ACCURACY

    def enough(mu: float) -> bool:
        return bool(np.all(log_normal_call(mu, ends) >= wanted))

    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
        if high - low <= 1e-10 * high:
            break
    return high * (1.0 + _OUTWARDS)
