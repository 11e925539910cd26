"""Renyi divergences of Bernoulli pairs, and the level that forces (epsilon, delta), in 300-bit balls.

Independent of sharpdp: bisection on the sign of the derivative of the objective of asoodeh2020 (16).
"""

from __future__ import annotations

from flint import arb, ctx

BITS = 300
HALVINGS = 260


def bernoulli_divergence(order: float, p: float, q: float) -> float:
    """D_order(Bernoulli(p) || Bernoulli(q)) of two doubles, to the nearest double."""
    return float(_divergence(arb(order), arb(p), arb(q)).mid())


def _divergence(a: arb, p: arb, q: arb) -> arb:
    with ctx.workprec(BITS):
        total = _power(p, a) * _power(q, 1 - a) + _power(1 - p, a) * _power(1 - q, 1 - a)
        return total.log() / (a - 1)


def _power(base: arb, exponent: arb) -> arb:
    return (exponent * base.log()).exp() if base > 0 else arb(0)


def forcing_level(order: float, epsilon: float, delta: float) -> float:
    """The largest divergence that forces (epsilon, delta), order * delta < 1, to the nearest double."""
    with ctx.workprec(BITS):
        a, d, e = arb(order), arb(delta), arb(epsilon).exp()

        def objective(p: arb) -> arb:
            return _power(p, a) * _power(p - d, 1 - a) + _power(1 - p, a) * _power(e - p + d, 1 - a)

        def slope(p: arb) -> arb:
            u, v = p / (p - d), (1 - p) / (e - p + d)
            first = a * _power(u, a - 1) - (a - 1) * _power(u, a)
            return first - a * _power(v, a - 1) + (a - 1) * _power(v, a)

        low, high = a * d, arb(1)
        for _ in range(HALVINGS):
            middle = ((low + high) / 2).mid()
            if slope(middle) < 0:
                low = middle
            else:
                high = middle
        least = objective(((low + high) / 2).mid())
        return float((arb(epsilon) + least.log() / (a - 1)).mid())
