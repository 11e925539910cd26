"""One and two Poisson-sampled Gaussian steps by other routes than the contour.

One step: the likelihood ratio w is increasing in x, so the best event is a half line and
delta is a combination of four normal tails. Two steps: delta_2(eps) = E_P delta_1(eps - L),
an ordinary integral over x, done by arb's adaptive integrator (its error bound is rigorous).
No moment function and no complex tilt appear here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

from flint import acb, arb

from tests.reference.balls import (
    Number,
    ball,
    certified,
    normal_upper,
    precision,
    relative_radius,
)

REACH = 40  # standard deviations; beyond lies less than 1e-340


def threshold(q: arb, s: arb, x: arb) -> arb:
    """The point where dP/dQ = 1 - q + q exp((2u-1)/(2 s^2)) equals x > 1 - q."""
    return s * s * ((x - 1 + q) / q).log() + arb(1) / 2


def one_step_ball(q: arb, s: arb, direction: str, epsilon: arb) -> arb:
    """delta of one step at any real epsilon, at the current precision."""
    x = epsilon.exp() if direction == "remove" else (-epsilon).exp()
    if x <= 1 - q:
        return 1 - epsilon.exp() if direction == "remove" else arb(0)
    if not x > 1 - q:
        return arb.nan()
    u = threshold(q, s, x)
    if direction == "remove":
        far = normal_upper((u - 1) / s)
        return q * far - (epsilon.exp() - 1 + q) * normal_upper(u / s)
    under_q, under_p = normal_upper(-u / s), normal_upper((1 - u) / s)
    return under_q - epsilon.exp() * ((1 - q) * under_q + q * under_p)


def one_step(
    rate: float, noise_multiplier: float, direction: str, epsilon: Number, digits: int = 30
) -> arb:
    """delta(epsilon) of one step, to that many relative digits (zero where it is zero)."""
    return certified(
        lambda: one_step_ball(ball(rate), ball(noise_multiplier), direction, ball(epsilon)), digits
    )


def two_steps(
    rate: float, noise_multiplier: float, direction: str, epsilon: Number, digits: int = 15
) -> arb:
    """delta(epsilon) of two equal steps, by direct integration."""
    steps = {"remove": _two_removals, "add": _two_additions}[direction]
    for bits in (128, 192, 320, 640):
        with precision(bits):
            value = steps(ball(rate), ball(noise_multiplier), ball(epsilon))
        if value.is_zero() or relative_radius(value) <= 10.0**-digits:
            return value
    raise ArithmeticError(f"only {value}")


def _density(x: acb, mean: int, s: arb) -> acb:
    return (-((x - mean) ** 2) / (2 * s * s)).exp() / (s * (2 * arb.pi()).sqrt())


def _upper(x: acb) -> acb:
    """Normal tail, complex argument."""
    return (x / arb(2).sqrt()).erfc() / 2


class _Inner:
    """The second step as a function of the first: excess = goal / w(x) - (1 - q) > 0."""

    def __init__(self, q: arb, s: arb, goal: arb) -> None:
        self.q, self.s, self.goal = q, s, goal

    def at(self, x: acb, analytic: bool) -> tuple[acb, acb]:
        """(excess, the threshold of the second step)."""
        ratio = 1 - self.q + self.q * ((2 * x - 1) / (2 * self.s**2)).exp()
        excess = self.goal / ratio - (1 - self.q)
        return excess, self.s**2 * (excess / self.q).log(analytic=analytic) + arb(1) / 2

    def call(self, x: acb, analytic: bool) -> acb:
        """E_Q2 (w - X)_+ = q Pr[N(1) > u] - excess Pr[N(0) > u]: delta_1 of a removal."""
        excess, u = self.at(x, analytic)
        return self.q * _upper((u - 1) / self.s) - excess * _upper(u / self.s)

    def put(self, x: acb, analytic: bool) -> acb:
        """E_Q2 (X - w)_+, falls to zero as x rises to the edge."""
        excess, u = self.at(x, analytic)
        return excess * _upper(-u / self.s) - self.q * _upper((1 - u) / self.s)


def _to_edge(
    integrand: Callable[[acb, bool], acb], inner: _Inner, start: arb, edge: arb, scale: arb
) -> arb:
    """The integral of density * put * (at most scale) from `start` to the edge.

    The integrand is smooth but not analytic at the edge, so it is cut into pieces that halve; the
    rest is at most scale * put at the last cut, because put falls.
    """
    length, left, value = edge - start, start, arb(0)
    for k in range(1, 200):
        right = (edge - length / 2**k).mid()
        value += acb.integral(integrand, acb(left), acb(right)).real
        left = right
        rest = (inner.put(acb(right), False).real * scale).abs_upper()
        if rest <= value.abs_lower() * arb(2) ** (-90):
            break
    return value + arb(0, rest)


def _two_removals(q: arb, s: arb, epsilon: arb) -> arb:
    """Call form left of the point where w(x) = e^eps, parity 1 - X + put right of it."""
    goal = epsilon.exp()
    inner = _Inner(q, s, goal)
    split = threshold(q, s, goal).mid() if goal > 1 - q else arb(0)
    edge = threshold(q, s, goal / (1 - q))

    def under_p(x: acb) -> acb:
        return (1 - q) * _density(x, 0, s) + q * _density(x, 1, s)

    lower = (-REACH * s).min(split - REACH * s).mid()
    total = acb.integral(
        lambda x, analytic: under_p(x) * inner.call(x, analytic), acb(lower), acb(split)
    ).real
    total += (1 - q - goal) * normal_upper(split / s) + q * normal_upper((split - 1) / s)
    total += _to_edge(
        lambda x, analytic: under_p(x) * inner.put(x, analytic), inner, split, edge, arb(1)
    )
    return total + arb(0, normal_upper(-lower / s).upper())


def _two_additions(q: arb, s: arb, epsilon: arb) -> arb:
    """E_Q put / X up to the edge, where the total loss reaches its maximum."""
    goal = (-epsilon).exp()
    if goal <= (1 - q) ** 2:
        return arb(0)
    inner = _Inner(q, s, goal)
    edge = threshold(q, s, goal / (1 - q))

    def integrand(x: acb, analytic: bool) -> acb:
        ratio = 1 - q + q * ((2 * x - 1) / (2 * s**2)).exp()
        return _density(x, 0, s) * inner.put(x, analytic) * ratio / goal

    lower = ((-REACH * s).min(edge - REACH * s)).mid()
    total = _to_edge(integrand, inner, lower, edge, 1 / (1 - q))
    return total + arb(0, normal_upper(-lower / s).upper())


def renyi(rate: float, noise_multiplier: float, steps: int, order: int, bits: int = 512) -> arb:
    """D_order(P || Q), remove direction, integer order: the binomial sum.

    T log( sum_k C(o, k) (1-q)^(o-k) q^k exp((k^2 - k) / (2 s^2)) ) / (o - 1).
    """
    with precision(bits):
        q, s = ball(rate), ball(noise_multiplier)
        total = arb(0)
        for k in range(order + 1):
            growth = (arb(k * k - k) / (2 * s * s)).exp()
            total += comb(order, k) * (1 - q) ** (order - k) * q**k * growth
        return steps * total.log() / (order - 1)
