"""Laplace mechanism, sensitivity 1, composed: an exact finite sum in balls.

With e = 1/scale the loss L under P has atoms 1/2 at e and e^-e / 2 at -e and density
e^((l - e)/2) / 4 between. So P is e^(l/2) times a symmetric measure nu, whose transform is

    integral e^(-zl) nu(dl) = e^(-e/2) [ e^(ez) (1 + 1/(2z)) + e^(-ez) (1 - 1/(2z)) ] / 2.

Its T-th power is a sum over j of C(T, j) e^((T - 2j) e z) times a polynomial in 1/z; the power
z^-m belongs to (l - a)_+^(m-1) / (m-1)! with a = -(T - 2j) e, and by symmetry of nu

    delta(eps) = integral over l < -eps of (e^(-l/2) - e^(eps + l/2)) nu_T(dl),

so only the finitely many a < -eps count. The sum alternates; balls show when bits are too few.
"""

from __future__ import annotations

from math import comb

from flint import arb, arb_poly

from tests.reference.balls import (
    LOG2_10,
    Number,
    ball,
    certified,
    inverse_of_decreasing,
    precision,
)


def kernel_integrals(length: arb, count: int, rate: arb) -> list[arb]:
    """I_m = integral over 0..length of e^(-rate u) u^(m-1)/(m-1)! for m = 1..count.

    Upwards recursion I_(m+1) = (I_m - e^(-rate length) length^m / m!) / rate.
    """
    edge = (-rate * length).exp()
    value = (1 - edge) / rate
    power = edge  # edge * length^m / m! at m = 0
    values = []
    for m in range(1, count + 1):
        values.append(value)
        power = power * length / m
        value = (value - power) / rate
    return values


def transform_coefficients(rounds: int, j: int) -> list[arb]:
    """Coefficients of (1 + y/2)^(T-j) (1 - y/2)^j in y = 1/z."""
    half = arb(1) / 2
    poly = arb_poly([1, half]) ** (rounds - j) * arb_poly([1, -half]) ** j
    return [poly[m] for m in range(rounds + 1)]


def delta_ball(scale: float, rounds: int, epsilon: Number) -> arb:
    """delta at the current precision."""
    e, eps = 1 / ball(scale), ball(epsilon)
    half = arb(1) / 2
    total = arb(0)
    for j in range(rounds + 1):
        start = -(rounds - 2 * j) * e
        length = -eps - start
        if length <= 0:
            break
        if not length > 0:  # the corner itself: the kernel vanishes there
            length = arb(0, length.abs_upper())
        row = transform_coefficients(rounds, j)
        falling = kernel_integrals(length, rounds, half)
        rising = kernel_integrals(length, rounds, -half)
        first, second = (-start / 2).exp(), (eps + start / 2).exp()
        value = row[0] * (first - second)
        for m in range(1, rounds + 1):
            value += row[m] * (first * falling[m - 1] - second * rising[m - 1])
        total += comb(rounds, j) * value
    return total * (-rounds * e / 2).exp() / arb(2) ** rounds


def delta(scale: float, rounds: int, epsilon: Number, digits: int = 25) -> arb:
    """delta(epsilon) of `rounds` Laplace mechanisms; zero from epsilon = rounds / scale on."""
    with precision(256):
        if ball(epsilon) * ball(scale) >= rounds:
            return arb(0)
    return certified(lambda: delta_ball(scale, rounds, epsilon), digits, 128 + 12 * rounds)


def epsilon(scale: float, rounds: int, target: Number, digits: int = 20) -> arb:
    """epsilon(delta) of `rounds` Laplace mechanisms."""
    goal = ball(target)
    if not delta(scale, rounds, 0) > goal:
        return arb(0)
    with precision(int((digits + 8) * LOG2_10) + 64):
        top = rounds / ball(scale) * arb("1.001")
        return inverse_of_decreasing(
            lambda x: delta(scale, rounds, x, digits + 8), goal, arb(0), top, digits
        )


def renyi(scale: float, rounds: int, order: Number, bits: int = 256) -> arb:
    """T log( o/(2o-1) e^((o-1)e) + (o-1)/(2o-1) e^(-oe) ) / (o - 1)."""
    with precision(bits):
        e, o = 1 / ball(scale), ball(order)
        total = (o * ((o - 1) * e).exp() + (o - 1) * (-o * e).exp()) / (2 * o - 1)
        return rounds * total.log() / (o - 1)
