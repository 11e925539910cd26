"""Caps of the sphere in ball arithmetic: shares, means and ratios of densities of PrivUnit."""

from __future__ import annotations

from fractions import Fraction

from flint import arb, ctx

PRECISION = 300


def exactly(value: Fraction) -> arb:
    """The fraction as a ball with far more digits than a double."""
    ctx.prec = PRECISION
    return arb(value.numerator) / arb(value.denominator)


def share(dimension: int, height: float) -> arb:
    """The cap's share of the sphere: 1/2 I_{1 - c^2}((d-1)/2, 1/2)."""
    ctx.prec = PRECISION
    x = 1 - arb(height) ** 2
    return arb.beta_lower(x, arb(dimension - 1) / 2, arb(0.5), regularized=True) / 2


def moment(dimension: int, height: float) -> arb:
    """E[t; t >= c]: the integral of C_d t (1 - t^2)^((d-3)/2), a primitive of which is elementary."""
    ctx.prec = PRECISION
    constant = (arb(dimension) / 2).lgamma() - (arb(dimension - 1) / 2).lgamma()
    log_edge = arb(dimension - 1) / 2 * (1 - arb(height) ** 2).log()
    return (constant + log_edge).exp() / (arb.pi().sqrt() * (dimension - 1))


def log_ratio(dimension: int, height: float, inside: arb) -> arb:
    """log of the density in the cap over that outside, for the probability of the inside."""
    q = share(dimension, height)
    return (inside * (1 - q) / ((1 - inside) * q)).log()


def mean(dimension: int, height: float, inside: arb) -> arb:
    """E<V, u> if the cap is chosen with this probability."""
    q, part = share(dimension, height), moment(dimension, height)
    return inside * part / q - (1 - inside) * part / (1 - q)


def best_mean(dimension: int, height: float, local_epsilon: float) -> arb:
    """E<V, u> of the largest probability of the cap that the budget allows."""
    q, odds = share(dimension, height), arb(local_epsilon).exp()
    return mean(dimension, height, q * odds / (1 + q * (odds - 1)))
