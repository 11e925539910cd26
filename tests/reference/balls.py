"""Balls: exact conversion of arguments, working precision, certified inversion of a curve.

The arguments of every reference are taken as the exact binary numbers that the floats are;
a Fraction or an int is taken exactly, a ball as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

Number = int | float | Fraction | arb

LOG2_10 = 3.3219280948873626


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Run a block at the given number of bits."""
    saved = ctx.prec
    ctx.prec = int(bits)
    try:
        yield
    finally:
        ctx.prec = saved


def ball(x: Number) -> arb:
    """The argument as a ball: exact for a float, int or dyadic Fraction, 1 ulp wide otherwise."""
    if isinstance(x, Fraction):
        return arb(fmpq(x.numerator, x.denominator))
    return arb(x)


def error(radius: arb) -> arb:
    """A ball around zero that contains [-radius, radius]."""
    return arb(0, radius.abs_upper())


def relative_radius(x: arb) -> float:
    """Radius over smallest modulus; inf if the ball contains zero."""
    if x.contains(0):
        return float("inf")
    return float((x.rad() / x.abs_lower()).upper())


def certified(
    compute: Callable[[], arb], digits: int, bits: int = 128, limit: int = 1 << 17
) -> arb:
    """The ball of `compute` at doubled precision until it has that many relative digits."""
    while True:
        with precision(bits):
            value = compute()
        if value.is_finite() and relative_radius(value) <= 10.0**-digits:
            return value
        if value.is_zero():
            return value
        bits *= 2
        if bits > limit:
            raise ArithmeticError(f"no {digits} digits at {bits // 2} bits: {value}")


def inverse_of_decreasing(
    f: Callable[[arb], arb], target: arb, lower: arb, upper: arb, digits: int
) -> arb:
    """A ball that contains the root of f(x) = target, f decreasing, by bisection on balls.

    Owes: f(lower) >= target >= f(upper) if a root is to exist; checked where balls allow.
    Stops when the bracket has relative width 10^-digits or the balls of f no longer decide.
    """
    if f(lower) < target or f(upper) > target:
        raise ValueError("the root is not in the interval")
    with precision(ctx.prec + 64):
        goal = 10.0**-digits
        while (upper - lower).abs_upper() > goal * upper.abs_lower():
            middle = ((lower + upper) / 2).mid()
            if not (lower < middle < upper):
                break
            value = f(middle)
            if value > target:
                lower = middle
            elif value < target:
                upper = middle
            else:
                break
        return lower.union(upper)


def normal_upper(x: arb) -> arb:
    """Pr[N(0,1) > x]."""
    return (x / arb(2).sqrt()).erfc() / 2


def normal_quantile(p: arb) -> arb:
    """x with Pr[N(0,1) > x] = p (upper quantile)."""
    return arb(2).sqrt() * (2 * p).erfcinv()
