"""Finite pairs by brute force over all outcomes, in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

from flint import arb

from tests.reference.balls import ball, precision

Pmf = Sequence[Fraction]


def joint(pairs: Sequence[tuple[Pmf, Pmf]]) -> list[tuple[Fraction, Fraction]]:
    """(P, Q) of every joint outcome of independent pairs."""
    return [
        (
            prod((p for p, _ in point), start=Fraction(1)),
            prod((q for _, q in point), start=Fraction(1)),
        )
        for point in product(*(list(zip(p, q, strict=True)) for p, q in pairs))
    ]


def delta(pairs: Sequence[tuple[Pmf, Pmf]], exp_epsilon: Fraction) -> Fraction:
    """sum of (P - x Q)_+ over all joint outcomes, x = e^epsilon a fraction."""
    return sum((max(p - exp_epsilon * q, Fraction(0)) for p, q in joint(pairs)), Fraction(0))


def exp_epsilon(pairs: Sequence[tuple[Pmf, Pmf]], target: Fraction) -> Fraction | None:
    """The smallest x >= 1 with delta(x) <= target, exactly; None if there is none.

    delta is piecewise linear in x with corners at the likelihood ratios.
    """
    points = joint(pairs)
    at_infinity = sum((p for p, q in points if q == 0), Fraction(0))
    if at_infinity > target:
        return None
    if delta(pairs, Fraction(1)) <= target:
        return Fraction(1)
    corners = sorted({p / q for p, q in points if q > 0 and p > q}, reverse=True)
    for corner in [*corners, Fraction(1)]:
        if delta(pairs, corner) > target:  # the root lies between this corner and the one above
            above = [(p, q) for p, q in points if p > corner * q]
            return (sum(p for p, _ in above) - target) / sum(q for _, q in above)
    return Fraction(1)


def tradeoff(pairs: Sequence[tuple[Pmf, Pmf]], fpr: Fraction) -> Fraction:
    """The smallest false-negative rate P(accept) with Q(reject) <= fpr, randomized tests allowed.

    Neyman-Pearson: reject in order of P/Q until the budget is spent.
    """
    points = [(p, q) for p, q in joint(pairs) if p > 0]
    points.sort(key=lambda point: (point[1] != 0, -point[0] / point[1] if point[1] else 0))
    budget, missed = Fraction(fpr), Fraction(1)
    for p, q in points:
        if q <= budget:
            budget -= q
            missed -= p
        else:
            return missed - p * budget / q
    return missed


def renyi_sum(pairs: Sequence[tuple[Pmf, Pmf]], order: int) -> Fraction:
    """sum of P^order Q^(1-order), order integer order; the divergence is its log / (order - 1)."""
    return sum((p**order / q ** (order - 1) for p, q in joint(pairs) if p > 0), Fraction(0))


def reverse(pairs: Sequence[tuple[Pmf, Pmf]]) -> list[tuple[Pmf, Pmf]]:
    """The same experiments with P and Q exchanged."""
    return [(q, p) for p, q in pairs]


def delta_ball(pairs: Sequence[tuple[Pmf, Pmf]], epsilon: float, bits: int = 256) -> arb:
    """delta at a float epsilon: the same sum with x = e^epsilon as a ball."""
    with precision(bits):
        x = ball(epsilon).exp()
        terms = (ball(p) - x * ball(q) for p, q in joint(pairs))
        return sum((term.max(arb(0)) for term in terms), arb(0))


def log_ball(x: Fraction, bits: int = 256) -> arb:
    """log of a fraction."""
    with precision(bits):
        return ball(x).log()
