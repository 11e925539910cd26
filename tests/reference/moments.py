"""Rigorous integrals of powers of the likelihood ratio of the Poisson-sampled Gaussian.

With Q = N(0, s^2), P = (1-q) Q + q N(1, s^2):  w(x) = dP/dQ = 1 - q + q exp((2x-1)/(2 s^2)).
Everything needed is an integral over the real line of

    F(u) = phi_s(u) * prod_m w(u + i b_m)^(z_m),         phi_s the density of Q,

analytic for |Im u + b| < pi s^2; all points used stay within pi s^2 / 2, where Re w >= 1 - q > 0.
The line is cut into panels. On a panel Gauss-Legendre with n nodes errs by at most
(64/15) r B rho^(-2n) / (1 - rho^-2), r the half length and B a bound of |F| on the Bernstein
ellipse of parameter rho; a panel on which |F| is small is dropped and its bound kept; the two ends
are bounded by explicit normal tails. |F| is bounded through the monotonicity of log |w| and arg w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from flint import acb, arb, ctx

from tests.reference.balls import ball, normal_upper, precision

Factor = tuple[arb, acb]  # (imaginary shift b, exponent z): one factor w(u + i b)^z

BOUND_BITS = 64  # working precision of the bounds; any value is rigorous
ELLIPSES = ("1.5", "2.5", "4", "6", "9")  # rho to try
PANEL_LIMIT = 20_000


@dataclass(frozen=True)
class Sampled:
    """One Poisson-sampled Gaussian step, `rate` in (0, 1)."""

    rate: float
    noise_multiplier: float

    @property
    def q(self) -> arb:
        return ball(self.rate)

    @property
    def s(self) -> arb:
        return ball(self.noise_multiplier)


@dataclass(frozen=True)
class Quadrature:
    """Nodes and weights (phi_s included), and the error that belongs to them."""

    nodes: tuple[arb, ...]
    weights: tuple[arb, ...]
    radius: arb


def log_ratio(step: Sampled, u: acb) -> acb:
    """log w(u), principal branch; right for |Im u| <= pi s^2 / 2."""
    q, s = step.q, step.s
    exponent = (2 * u - 1) / (2 * s * s)
    if exponent.real > 0:  # factor the exponential out: no overflow, no cancellation
        return exponent + (q + (1 - q) * (-exponent).exp()).log()
    return (q * exponent.expm1()).log1p()


def log_bound(
    step: Sampled, factors: Sequence[Factor], left: arb, right: arb, height: arb
) -> arb | None:
    """A bound of log |F| on left <= Re u <= right, |Im u| <= height; None beyond the strip.

    log |w(x + iy)| grows with x and falls with |y|; |arg w(x + iy)| grows with x and with |y|.
    """
    s = step.s
    nearest = arb(0) if not (left > 0 or right < 0) else left.max(-right)
    total = (height**2 - nearest**2) / (2 * s * s) - (s * (2 * arb.pi()).sqrt()).log()
    for b, z in factors:
        far, near = abs(b) + height, (abs(b) - height).max(arb(0))
        if not far <= arb.pi() * s * s / 2:
            return None
        corner = acb(right, near) if z.real >= 0 else acb(left, far)
        total += z.real * log_ratio(step, corner).real
        if z.imag * b > 0:  # falls as long as Im u + b keeps its sign
            total -= abs(z.imag) * log_ratio(step, acb(left, near)).imag
            over = (height - abs(b)).max(arb(0))
        else:
            over = far
        total += abs(z.imag) * log_ratio(step, acb(right, over)).imag
    return total


def tail_bound(step: Sampled, factors: Sequence[Factor], lower: arb, upper: arb) -> arb:
    """A bound of the integral of |F| over x < lower and x > upper.

    Owes: lower <= 0, upper >= max(1/2, the sum of positive real exponents), exponents of one sign,
    Im z * b >= 0. With a = (2x-1)/(2 s^2): |w| <= max(1, e^a), |w| >= (1-q), and >= cos(b/2 s^2)
    for x >= 1/2.
    """
    q, s = step.q, step.s
    if not all(z.imag * b >= 0 for b, z in factors):
        raise ValueError("a factor that grows")
    power = sum((z.real for _, z in factors), arb(0))
    if power >= 0:
        shifted = (power * (power - 1) / (2 * s * s)).exp()
        return normal_upper(-lower / s) + shifted * normal_upper((upper - power) / s)
    steepest = arb(max(float(abs(b).upper()) for b, _ in factors) * (1 + 1e-12))
    right = (power * ((steepest / (2 * s * s)).cos().max(1 - q)).log()).exp()
    everywhere = (power * (-q).log1p()).exp()
    return everywhere * normal_upper(-lower / s) + right * normal_upper(upper / s)


def ends(step: Sampled, factors: Sequence[Factor], log_goal: float) -> tuple[arb, arb]:
    """A range beyond which the tails are below exp(log_goal)."""
    s = step.s
    power = sum((z.real for _, z in factors), arb(0))
    goal = arb(log_goal).exp()
    lower, upper = -s, arb(1) / 2 + s + power.max(arb(0))
    middle = arb(0)
    while not tail_bound(step, factors, lower, upper) <= goal:
        lower = lower * arb("1.1")
        upper = upper + (upper - power.max(middle)) / 10
    return lower.mid(), upper.mid()


def panel_error(
    step: Sampled, factors: Sequence[Factor], left: arb, right: arb, order: int
) -> arb | None:
    """The smallest Gauss-Legendre error bound over some ellipses."""
    middle, half = (left + right) / 2, (right - left) / 2
    best = None
    for text in ELLIPSES:
        rho = arb(text)
        across, up = half * (rho + 1 / rho) / 2, half * (rho - 1 / rho) / 2
        size = log_bound(step, factors, middle - across, middle + across, up)
        if size is None:
            break
        value = size.exp() * half * rho ** (-2 * order) / (1 - rho**-2) * 64 / 15
        if best is None or value < best:
            best = value
    return best


@lru_cache(maxsize=64)
def legendre(order: int, bits: int) -> tuple[tuple[arb, arb], ...]:
    """Nodes and weights of Gauss-Legendre on [-1, 1] as balls."""
    with precision(bits):
        return tuple(arb.legendre_p_root(order, k, weight=True) for k in range(order))


def quadrature(
    step: Sampled, factors: Sequence[Factor], log_size: float, log_relative: float
) -> Quadrature:
    """Panels for F with a total error near exp(log_size + log_relative).

    log_size is a guess of the size of the integral; `radius` is the proved error. It covers
    every F with the same real exponents and smaller |Im z| where b = 0.
    """
    log_goal = log_size + log_relative
    bits, order = ctx.prec, min(60, max(12, ceil(-log_relative / 3)))
    with precision(BOUND_BITS):
        lower, upper = ends(step, factors, log_goal - 2)
        radius = tail_bound(step, factors, lower, upper)
        goal = (arb(log_goal) - 6).exp()
        waiting, panels = [(lower, upper)], []
        while waiting:
            left, right = waiting.pop()
            size = log_bound(step, factors, left, right, arb(0))
            flat = size.exp() * (right - left)
            bound = flat if flat <= goal else panel_error(step, factors, left, right, order)
            if bound is not None and bound <= goal:
                radius += bound
                if bound is not flat:
                    panels.append((left, right))
            else:
                middle = ((left + right) / 2).mid()
                waiting += [(left, middle), (middle, right)]
            if len(panels) + len(waiting) > PANEL_LIMIT:
                raise ArithmeticError("too many panels")
    return _fill(step, panels, legendre(order, bits), radius.upper())


def _fill(
    step: Sampled,
    panels: Sequence[tuple[arb, arb]],
    rule: Sequence[tuple[arb, arb]],
    radius: arb,
) -> Quadrature:
    """Nodes and weights of all panels at the working precision."""
    nodes, weights = [], []
    scale = 1 / (step.s * (2 * arb.pi()).sqrt())
    for left, right in panels:
        middle, half = (left + right) / 2, (right - left) / 2
        for node, weight in rule:
            x = middle + half * node
            nodes.append(x)
            weights.append(weight * half * scale * (-x * x / (2 * step.s**2)).exp())
    return Quadrature(tuple(nodes), tuple(weights), radius)


def integral(step: Sampled, factors: Sequence[Factor], log_size: float, log_relative: float) -> acb:
    """The integral of F over the real line, radius near exp(log_size + log_relative)."""
    rule = quadrature(step, factors, log_size, log_relative)
    total = acb(0)
    for x, weight in zip(rule.nodes, rule.weights, strict=True):
        exponent = acb(0)
        for b, z in factors:
            exponent += z * log_ratio(step, acb(x, b))
        total += weight * exponent.exp()
    error = arb(0, rule.radius)
    return total + acb(error, error)
