"""Randomized response (k-ary), pure and approximate DP, composed: exact lattice sums in balls.

One k-ary report with local epsilon e: under P the true category has a = e^e / (e^e + k - 1), each
other one b = 1 / (e^e + k - 1); against another category the loss is e, -e, or 0. After T reports
the loss is e * j; P(j) is a coefficient of (a x + (k-2) b + b / x)^T and Q(j) = e^(-e j) P(j).
The pair of pure DP is the binary one (kairouz2015); that of (e, d)-DP has mass d at infinity.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor

from flint import arb, arb_poly, ctx

from tests.reference.balls import (
    LOG2_10,
    Number,
    ball,
    certified,
    inverse_of_decreasing,
    precision,
)


def first_above(local_epsilon: float, epsilon: Number, step: int, offset: int) -> int:
    """The smallest j = offset mod step with j * local_epsilon > epsilon, decided exactly."""
    if isinstance(epsilon, arb):
        ratio = epsilon / ball(local_epsilon)
        start = int(ratio.mid().floor().unique_fmpz())
        candidates = range(start - 2 * step, start + 3 * step)
        above = [
            j for j in candidates if (j - offset) % step == 0 and ball(local_epsilon) * j > epsilon
        ]
        return min(above)
    quotient = Fraction(epsilon) / Fraction(local_epsilon)
    j = floor(quotient) + 1
    while (j - offset) % step:
        j += 1
    return j


def binary_terms(local_epsilon: float, rounds: int, first: int) -> Iterator[tuple[int, arb]]:
    """(j, P(j)) for the losses j = first, first+2, ..., rounds of binary reports."""
    e = ball(local_epsilon)
    odds = e.exp()
    heads = (rounds + first) // 2
    value = _binomial(rounds, heads)
    value *= (e * heads).exp() / (1 + odds) ** rounds
    while heads <= rounds:
        yield 2 * heads - rounds, value
        value *= odds * (rounds - heads) / (heads + 1)
        heads += 1


def _binomial(n: int, k: int) -> arb:
    """C(n, k) as a ball."""
    return (arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()).exp()


def binary_delta_ball(local_epsilon: float, rounds: int, epsilon: Number) -> arb:
    """delta at the current precision: terms until a geometric rest is negligible."""
    first = max(first_above(local_epsilon, epsilon, 2, rounds % 2), -rounds)
    if first > rounds:
        return arb(0)
    e, eps = ball(local_epsilon), ball(epsilon)
    odds = e.exp()
    total = arb(0)
    for j, p in binary_terms(local_epsilon, rounds, first):
        total -= p * (eps - e * j).expm1()
        heads = (rounds + j) // 2
        ratio = odds * (rounds - heads) / (heads + 1)  # of the next term to this one; falls
        if ratio < 1 and heads % 16 == 0:
            rest = p * ratio / (1 - ratio)
            if rest <= total * arb(2) ** (-ctx.prec):
                return total + arb(0, rest.upper())
    return total


def k_ary_delta_ball(local_epsilon: float, categories: int, rounds: int, epsilon: Number) -> arb:
    """delta at the current precision, from the coefficients of the T-th power."""
    e, eps = ball(local_epsilon), ball(epsilon)
    scale = e.exp() + categories - 1
    row = arb_poly([1 / scale, (categories - 2) / scale, e.exp() / scale]) ** rounds
    first = max(first_above(local_epsilon, epsilon, 1, 0), -rounds)
    total = arb(0)
    for j in range(first, rounds + 1):
        total -= row[j + rounds] * (eps - e * j).expm1()
    return total


def delta(
    local_epsilon: float, rounds: int, epsilon: Number, categories: int = 2, digits: int = 30
) -> arb:
    """delta(epsilon) of `rounds` randomized responses."""
    bits = int(digits * LOG2_10) + 64
    if categories == 2:
        return certified(lambda: binary_delta_ball(local_epsilon, rounds, epsilon), digits, bits)
    return certified(
        lambda: k_ary_delta_ball(local_epsilon, categories, rounds, epsilon), digits, bits
    )


def infinite_mass(delta_each: float, rounds: int, digits: int = 30) -> arb:
    """1 - (1 - d)^T."""
    return certified(lambda: -(rounds * (-ball(delta_each)).log1p()).expm1(), digits)


def approximate_delta(
    local_epsilon: float, delta_each: float, rounds: int, epsilon: Number, digits: int = 30
) -> arb:
    """delta(epsilon) of the T-fold optimal composition of (e, d)-DP."""
    with precision(int(digits * LOG2_10) + 64):
        mass = infinite_mass(delta_each, rounds, digits + 5) if delta_each else arb(0)
        return mass + (1 - mass) * delta(local_epsilon, rounds, epsilon, 2, digits + 5)


def epsilon(
    local_epsilon: float,
    rounds: int,
    target: Number,
    categories: int = 2,
    delta_each: float = 0.0,
    digits: int = 20,
) -> arb:
    """epsilon(delta) of randomized responses, or of (e, d)-DP if delta_each is given."""

    def curve(x: arb) -> arb:
        if categories == 2:
            return approximate_delta(local_epsilon, delta_each, rounds, x, digits + 8)
        return delta(local_epsilon, rounds, x, categories, digits + 8)

    goal = ball(target)
    if not curve(arb(0)) > goal:
        return arb(0)
    with precision(int((digits + 8) * LOG2_10) + 64):
        top = ball(local_epsilon) * rounds
        return inverse_of_decreasing(curve, goal, arb(0), top, digits)


def tradeoff(local_epsilon: float, rounds: int, fpr: Number, bits: int = 256) -> arb:
    """The smallest false-negative rate at that false-positive rate, binary reports.

    Reject from the largest loss down; the last class with the fraction of the budget left.
    """
    with precision(bits):
        e, budget, missed = ball(local_epsilon), ball(fpr), arb(1)
        odds = e.exp()
        p = (e * rounds).exp() / (1 + odds) ** rounds
        for heads in range(rounds, -1, -1):
            q = p * (-e * (2 * heads - rounds)).exp()
            if q > budget:
                return missed - p * budget / q
            if not q <= budget:
                raise ArithmeticError("the budget ends at a corner: more bits")
            budget -= q
            missed -= p
            p *= arb(heads) / ((rounds - heads + 1) * odds)
        return missed


def renyi(
    local_epsilon: float, rounds: int, order: Number, categories: int = 2, bits: int = 256
) -> arb:
    """T log(a^o b^(1-o) + b^o a^(1-o) + (k-2) b) / (o - 1)."""
    with precision(bits):
        e, o = ball(local_epsilon), ball(order)
        scale = e.exp() + categories - 1
        total = ((e * o).exp() + (e * (1 - o)).exp() + categories - 2) / scale
        return rounds * total.log() / (o - 1)
