"""The joint range of two f-divergences: what one of them says about the other, at best.

`joint_range(f, g)` bounds D_g by D_f, and says how near the bounds are to what distributions attain. All
pairs (D_f, D_g) form a convex set, and every tangent to it is a pair of lines in the likelihood ratio t:

    D_g >= m D_f + b   if   g(t) - m f(t) >= b + c (t - 1) for all t >= 0.

Two hockey sticks, and two powers, have ranges in closed form. Between a hockey stick at x and a power phi
any m >= 0 and c give

    D_phi >= m E_x - max(phi*(c), phi*(c + m) - m (x - 1)),   phi*(y) = sup_t y (t - 1) - phi(t),

and the best ones, for which both are equal, come from the coins whose likelihood ratios are where the
lines touch. Proofs: docs/topics/renyi.md.

Source: asoodeh2020 Theorem 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, getcontext, localcontext

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import elementwise, invalid, nonnegative, short_repr
from sharpdp.bracket import Bracket, Rigor, bracketed
from sharpdp.curves.renyi.f_divergences import INFINITE, FDivergence, Power
from sharpdp.errors import WrongType
from sharpdp.numerics.underflow import underflow_is_zero

__all__ = ["JointRange", "joint_range"]

Interval = tuple[Decimal, Decimal]

_DIGITS = 100
"""Decimals that are computed with, and more where powers of likelihood ratios are large."""

_BEYOND = Decimal("1.000000000000000000000000000001")
"""Coins are looked for a little beyond what is asked, so that they are certainly not short of it."""

_BALANCED = Decimal("1e-40")
"""Relative distance at which two lines are balanced; what is left of it is lost to first order."""

_ENOUGH = 1e-14
"""Relative distance at which the search for the best tangent ends; it counts in its square."""

_CLOSEST, _FARTHEST = -80.0, 1e5
"""Smallest and largest logit of 1 - t, t being where a line touches."""


@underflow_is_zero
def joint_range(f: FDivergence, g: FDivergence) -> JointRange:
    """All pairs of values that two f-divergences have together.

    Args:
        f: The divergence that is given, such as ``FDivergence.total_variation()``.
        g: The divergence that is asked for.

    Returns:
        The range: ``least(at=...)`` and ``largest(at=...)`` of g where f has a value.

    Raises:
        WrongType: f or g is no `FDivergence`. Generators of one's own are not accepted: what is not known
            at every likelihood ratio cannot be certified.

    >>> pinsker = joint_range(FDivergence.total_variation(), FDivergence.kl())
    >>> print(pinsker.least(at=0.5))
    0.532297 <= KL divergence <= 0.532298 at total variation=0.5 | joint range, certified
    """
    for name, divergence in (("f", f), ("g", g)):
        if not isinstance(divergence, FDivergence):
            raise WrongType(
                f"{name} must be an FDivergence, such as FDivergence.kl(); got {short_repr(divergence)}. "
                "A generator of your own cannot be certified at every likelihood ratio."
            )
    return JointRange(f, g)


@dataclass(frozen=True)
class JointRange:
    """The pairs (D_f, D_g) of all pairs of distributions: a convex set, by its lower and upper edge.

    Args:
        f: The divergence that is given.
        g: The divergence that is asked for.
    """

    f: FDivergence
    g: FDivergence

    def least(self, *, at: ArrayLike) -> Bracket:
        """The smallest D_g where D_f has this value, or more: it never falls as D_f rises.

        Args:
            at: One value of D_f, or an array of them, from 0 to the largest one.

        Returns:
            The bracket from a bound that holds for all distributions to what some attain or come
            arbitrarily near to.

        Raises:
            InvalidArgument: a value is negative, not finite or above the largest D_f.
            WrongType: a value is not a number.

        >>> hellinger = joint_range(FDivergence.total_variation(), FDivergence.squared_hellinger())
        >>> print(hellinger.least(at=0.5))  # 1 - sqrt(3/4)
        0.133974 <= squared Hellinger distance <= 0.133975 at total variation=0.5 | joint range, certified
        """
        return self._asked(_least, at)

    def largest(self, *, at: ArrayLike) -> Bracket:
        """The largest D_g where D_f has this value, or less: it never falls as D_f rises.

        Args:
            at: One value of D_f, or an array of them, from 0 to the largest one.

        Returns:
            The bracket from what some distributions attain or come arbitrarily near to, to a bound that
            holds for all of them; infinite where there is none.

        Raises:
            InvalidArgument: a value is negative, not finite or above the largest D_f.
            WrongType: a value is not a number.

        >>> bretagnolle_huber = joint_range(FDivergence.kl(), FDivergence.total_variation())
        >>> bool(bretagnolle_huber.largest(at=1.0).upper < np.sqrt(1.0 - np.exp(-1.0)))
        True
        """
        return self._asked(_largest, at)

    @property
    def _context(self) -> Context:
        """Decimals of any size, with digits enough for powers of ratios beyond the stick."""
        order = max(float(each.order or 0) for each in (self.f, self.g))
        stick = max(float(each.stick or 1) for each in (self.f, self.g))
        digits = _DIGITS + math.ceil(0.5 * order * (3.0 + math.log(stick)))
        return Context(prec=min(digits, 10_000), Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])

    def _asked(
        self, edge: Callable[[FDivergence, FDivergence, Decimal], Interval], at: ArrayLike
    ) -> Bracket:
        clean = elementwise(nonnegative, at=at)
        top = float(self.f.largest)
        if np.max(clean) > top:
            raise invalid(
                "at", f"at most {top:g}", np.max(clean), f"It is a value of {self.f.name}."
            )
        with localcontext(self._context):
            intervals = [
                _doubles(edge(self.f, self.g, Decimal(value)), self.g.largest)
                for value in np.ravel(clean).tolist()
            ]
        return bracketed(
            self.g.name, self.f.name, clean, intervals, "| joint range", Rigor.CERTIFIED
        )


def _doubles(interval: Interval, largest: Decimal) -> tuple[float, float]:
    """The ends as doubles, rounded outwards; a divergence is never negative, nor above its largest."""
    low, high = max(interval[0], Decimal(0)), min(interval[1], largest)
    below, above = float(low), float(high)
    if Decimal(below) > low:
        below = math.nextafter(below, 0.0)
    if Decimal(above) < high:
        above = math.nextafter(above, math.inf)
    return below, above


def _rounding() -> Decimal:
    """Relative to the largest term, what a few operations in these digits lose, with a wide margin."""
    return Decimal(10) ** (20 - getcontext().prec)


def _outwards(value: Decimal, size: Decimal) -> Interval:
    """The interval around a value whose terms are at most of this size."""
    slack = _rounding() * size if size < INFINITE else Decimal(0)
    return value - slack, max(value + slack, Decimal(0))


def _least(f: FDivergence, g: FDivergence, at: Decimal) -> Interval:
    """The lower edge: of D_g where D_f is at least this."""
    if f.stick is not None:
        if g.stick is not None:
            return _outwards(_least_stick(f.stick, g.stick, at), Decimal(1))
        return _transformed(g, _least_power(f.stick, g.power, at))
    given = f.to_power(at)
    if g.stick is not None:
        return _outwards(_least_stick_by_power(f.power, g.stick, given), 1 + given)
    return _transformed(g, _least_power_by_power(f.power, g.power, given))


def _largest(f: FDivergence, g: FDivergence, at: Decimal) -> Interval:
    """The upper edge: of D_g where D_f is at most this. Where the lower edge of D_f by D_g reaches it."""
    if f.stick is not None:
        if g.stick is not None:
            return _outwards(_largest_stick(f.stick, g.stick, at), Decimal(1))
        return _transformed(g, _exactly(_largest_power(f.stick, g.power, at)))
    given = f.to_power(at)
    if g.stick is not None:
        return _largest_stick_by_power(f.power, g.stick, given)
    return _transformed(g, _largest_power_by_power(f.power, g.power, given))


def _exactly(value: Decimal) -> Interval:
    """The interval around a value of a few terms of its size; what is 0 was never rounded."""
    return _outwards(value, 1 + abs(value)) if value != 0 else (value, value)


def _transformed(g: FDivergence, interval: Interval) -> Interval:
    """The divergence itself, of its power divergence."""
    low, high = interval
    if g.is_renyi:
        return _renyi(g.power.order, max(low, Decimal(0)))[0], _renyi(g.power.order, high)[1]
    return _exactly(g.scale * low)[0], _exactly(g.scale * high)[1]


def _renyi(order: Decimal, value: Decimal) -> Interval:
    """The Renyi divergence where the power divergence of this order has the value."""
    if order == 1 or value == INFINITE:
        return _exactly(value)
    moment = 1 + order * (order - 1) * value
    ends = [
        max(end, Decimal(0)).ln() / (order - 1) for end in _outwards(moment, 1 + abs(moment - 1))
    ]
    return _exactly(min(ends))[0], _exactly(max(ends))[1]


def _least_stick(x: Decimal, other: Decimal, at: Decimal) -> Decimal:
    """E_other by E_x. E min(t, x) = 1 - E_x(t), and min(t, y) is at most min(t, x) y / x for y > x."""
    return at if other <= x else 1 - (1 - at) * other / x


def _largest_stick(x: Decimal, other: Decimal, at: Decimal) -> Decimal:
    return at if other >= x else 1 - (1 - at) * other / x


def _largest_power(x: Decimal, power: Power, at: Decimal) -> Decimal:
    """phi is at most its chord from 0 to x, and rises no faster than at infinity from there."""
    if not 0 < power.order < 1:
        return INFINITE
    inside = (1 - at) / x
    return (
        (1 - inside) * power.value(Decimal(0))
        + inside * power.value(x)
        + at * power.slope_at_infinity
    )


def _least_stick_by_power(power: Power, x: Decimal, given: Decimal) -> Decimal:
    """Where `_largest_power`, a straight line, reaches what is given; 0 if it is infinite."""
    if not 0 < power.order < 1:
        return Decimal(0)
    start, end = (_largest_power(x, power, Decimal(value)) for value in (0, 1))
    return (given - start) / (end - start)


def _least_power_by_power(f: Power, g: Power, given: Decimal) -> Interval:
    """Renyi divergences of positive order rise with the order, and those of a sure result do not.

    Where the order falls, the same holds with P and Q exchanged, orders a becoming 1 - a.
    """
    low, high = f.order, g.order
    if low == high:
        return given, given
    if low > high:
        low, high = 1 - low, 1 - high
    # that of order 0 is infinite for a sure result, and says nothing
    return _of_sure_result(low, high, given) if low > 0 else (Decimal(0), Decimal(0))


def _largest_power_by_power(f: Power, g: Power, given: Decimal) -> Interval:
    """Where the least D_f by D_g is what is given."""
    low, high = g.order, f.order
    if low == high:
        return given, given
    if low > high:
        low, high = 1 - low, 1 - high
    return _of_sure_result(high, low, given) if low > 0 else (INFINITE, INFINITE)


def _of_sure_result(order: Decimal, other: Decimal, given: Decimal) -> Interval:
    """The divergence of another order where P is one result, whose divergence of the first is given."""

    def power(loss: Decimal) -> Interval:
        if other == 1 or (loss == INFINITE and other > 1):
            return _exactly(loss)
        return _exactly((((other - 1) * loss).exp() - 1) / (other * (other - 1)))

    low, high = _renyi(order, given)
    return power(low)[0], power(high)[1]


@dataclass(frozen=True)
class _Touching:
    """Two lines under phi, of slopes c and c + m: what they prove, and the coin where they touch."""

    slope: Decimal
    """m"""
    loss: Decimal
    """D_phi >= m E_x - loss."""
    size: Decimal
    stick: Decimal
    """E_x of the coin."""
    power: Decimal
    """D_phi of the coin."""
    high: Decimal
    """The larger likelihood ratio of the coin."""


def _lines(x: Decimal, power: Power, c: Decimal, m: Decimal) -> tuple[Decimal, Decimal]:
    """The loss of two slopes, and the size of its terms."""
    (low, low_size), (high, high_size) = power.conjugate(c), power.conjugate(c + m)
    return max(low, high - m * (x - 1)), low_size + high_size + (1 + abs(m)) * x


def _inner(x: Decimal, power: Power, logit: float, guess: Decimal | None = None) -> _Touching:
    """The lines that touch at t < 1, by the logit of 1 - t, and at the larger ratio that balances."""
    low = 1 / (1 + Decimal(logit).exp())
    c, below, _ = power.tangent(low)
    high = _balancing(x, power, c, below, guess)
    m = power.slope(high) - c
    loss, size = _lines(x, power, c, m)
    q = (1 - low) / (high - low)
    coin = q * power.value(high) + (1 - q) * power.value(low)
    return _Touching(m, loss, size, q * (high - x), coin, high)


def _balancing(
    x: Decimal, power: Power, c: Decimal, wanted: Decimal, guess: Decimal | None
) -> Decimal:
    """The ratio t > x at which phi*(slope) - (slope - c)(x - 1) is what phi*(c) is, by Newton's method.

    It rises from t = x on, with derivative phi''(t) (t - x).
    """
    low, high, t = x, INFINITE, guess or x + wanted.sqrt() + wanted
    growth, near = Decimal(2), 1 + 1 / (1 + power.order)
    for _ in range(500):
        slope, below, bend = power.tangent(t)
        gap = below - (slope - c) * (x - 1) - wanted
        low, high = (low, t) if gap >= 0 else (t, high)
        new = t - gap / (bend * (t - x)) if t > x else low
        if high < INFINITE and not (low < new < high < near * low):
            new = (low * high).sqrt()
        elif not low < new < near * t:
            new, growth = t * growth, growth * growth
        if abs(new - t) <= _BALANCED * abs(t - x):
            break
        t = new
    return t


def _outer(x: Decimal, power: Power, q: Decimal) -> _Touching:
    """The lines where the other result of the coin has ratio 0: P is sure of one result, Q(it) = q."""
    high = 1 / q
    value, slope = power.value(high), power.slope(high)
    m = (high * slope - value + power.value(Decimal(0))) / x
    loss, size = _lines(x, power, slope - m, m)
    return _Touching(m, loss, size, 1 - x * q, q * value + (1 - q) * power.value(Decimal(0)), high)


def _touching(
    x: Decimal, power: Power, wanted: Decimal, measure: Callable[[_Touching], Decimal]
) -> _Touching:
    """The lines whose coin has about the wanted E_x or D_phi, where possible a little more."""
    wanted = wanted * _BEYOND
    if power.order > 1:
        # the coin whose other ratio has just become 0
        edge = _inner(x, power, _FARTHEST)
        if measure(edge) <= wanted:
            a, q = power.order, (1 - wanted) / x
            if measure(edge) == edge.power:
                q = (-(1 + a * (a - 1) * wanted).ln() / (a - 1)).exp()
            return _outer(x, power, q)

    def distance(lines: _Touching) -> float:
        """Infinite where the lines touch so far out that a hundred digits do not tell them apart."""
        value = measure(lines) + 0 * (lines.loss + lines.slope)
        return float((value / wanted).ln()) if value.is_finite() else math.inf

    low, high = _CLOSEST, 4.0
    lines = under = over = _inner(x, power, low)
    below = distance(under)
    while (
        above := distance(lines := _inner(x, power, high, lines.high))
    ) < 0.0 and high < _FARTHEST:
        low, below, high, under = high, above, 4.0 * high, lines
    for step in range(200):
        z = 0.5 * (low + high)
        if step % 3 and above < math.inf:
            z = low + (high - low) * below / (below - above)
        lines = _inner(x, power, z, under.high)
        if (gap := distance(lines)) >= 0.0:
            high, above = z, gap
            over = lines if gap < math.inf else over
        else:
            low, below, under = z, gap, lines
        if 0.0 <= gap <= _ENOUGH or high - low <= 1e-14 * (1.0 + abs(z)):
            break
    return over if measure(over) >= wanted else under


def _reflected(x: Decimal, power: Power) -> Power:
    """P and Q may be exchanged where E_x is the total variation: then ratios stay smaller."""
    return Power(1 - power.order) if x == 1 and power.order < Decimal("0.5") else power


def _least_power(x: Decimal, power: Power, at: Decimal) -> Interval:
    """D_phi by E_x: what the lines prove, and what the coin attains."""
    if at == 0:
        return Decimal(0), Decimal(0)
    power = _reflected(x, power)
    if at == 1:
        low = high = power.value(Decimal(0)) + power.slope_at_infinity
        return low, high
    lines = _touching(x, power, at, lambda lines: lines.stick)
    proved = lines.slope * at - lines.loss
    # the coin mixed with two equal distributions; two that have nothing in common have all E_x
    attained = lines.power * at / lines.stick
    if not lines.stick > at:
        attained = power.value(Decimal(0)) + power.slope_at_infinity
    return _outwards(proved, lines.size)[0], _outwards(attained, 1 + attained)[1]


def _largest_stick_by_power(power: Power, x: Decimal, given: Decimal) -> Interval:
    """E_x by D_phi."""
    if given == 0:
        return Decimal(0), Decimal(0)
    power = _reflected(x, power)
    lines = _touching(x, power, given, lambda lines: lines.power)
    proved = (given + lines.loss) / lines.slope
    attained = lines.stick * min(given / lines.power, Decimal(1))
    slack = _rounding() * (lines.size / lines.slope + 1)
    return _outwards(attained, 1 + attained)[0], proved + slack
