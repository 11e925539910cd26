"""The Gaussian mechanism: N(0,1) against N(mu,1), and its T-fold composition mu sqrt(T)."""

from __future__ import annotations

from flint import arb

from tests.reference.balls import (
    LOG2_10,
    Number,
    ball,
    certified,
    inverse_of_decreasing,
    normal_quantile,
    normal_upper,
    precision,
)


def composed_mu(noise_multiplier: float, steps: int) -> arb:
    """mu = sqrt(steps) / noise_multiplier, at the current precision."""
    return ball(steps).sqrt() / ball(noise_multiplier)


def delta_of_mu(mu: arb, epsilon: arb) -> arb:
    """delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), at the current precision."""
    return normal_upper(epsilon / mu - mu / 2) - epsilon.exp() * normal_upper(epsilon / mu + mu / 2)


def delta(noise_multiplier: float, steps: int, epsilon: Number, digits: int = 40) -> arb:
    """delta(epsilon) of `steps` Gaussian mechanisms, to that many relative digits."""
    return certified(
        lambda: delta_of_mu(composed_mu(noise_multiplier, steps), ball(epsilon)), digits
    )


def epsilon(noise_multiplier: float, steps: int, target: Number, digits: int = 30) -> arb:
    """epsilon(delta) of `steps` Gaussian mechanisms; zero if delta(0) is already below."""
    if not delta(noise_multiplier, steps, 0) > ball(target):
        return arb(0)
    upper = arb(1)
    while not delta(noise_multiplier, steps, upper, 5) < ball(target):
        upper *= 2
    with precision(int((digits + 10) * LOG2_10) + 32):
        return inverse_of_decreasing(
            lambda e: delta(noise_multiplier, steps, e, digits + 10),
            ball(target),
            arb(0),
            upper,
            digits,
        )


def tradeoff(noise_multiplier: float, steps: int, fpr: Number, bits: int = 256) -> arb:
    """The smallest false-negative rate at that false-positive rate, Phi(z(fpr) - mu)."""
    with precision(bits):
        mu = composed_mu(noise_multiplier, steps)
        return normal_upper(mu - normal_quantile(ball(fpr)))


def renyi(noise_multiplier: float, steps: int, order: Number, bits: int = 256) -> arb:
    """D_order = steps * order / (2 noise_multiplier^2)."""
    with precision(bits):
        return ball(steps) * ball(order) / (2 * ball(noise_multiplier) ** 2)
