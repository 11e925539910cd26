"""f-divergences that a joint range can be asked for: those whose tangents can be certified.

D_f(P||Q) = sum over results of Q f(P / Q), with the mass of P where Q has none counted at the slope of f
at infinity. Here f is a hockey stick, (t - x)_+, or a power,

    phi_a(t) = (t^a - 1 - a (t - 1)) / (a (a - 1)),
    phi_1(t) = t log t - t + 1,   phi_0(t) = t - 1 - log t,

times a constant, or a Renyi divergence, which is a rising function of the power divergence of its order.
Everything is computed in decimals, with the digits of the caller's context.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sharpdp._validate import invalid, positive, real, renyi_order

__all__ = ["INFINITE", "FDivergence", "Power"]

INFINITE = Decimal("Infinity")


@dataclass(frozen=True)
class Power:
    """The function phi_a of an order a >= 0, and what tangents to it need."""

    order: Decimal

    def value(self, t: Decimal) -> Decimal:
        """phi_a(t) for t >= 0."""
        a = self.order
        if t == 0:
            return 1 / a if a > 0 else INFINITE
        if a == 1:
            return t * t.ln() - t + 1
        if a == 0:
            return t - 1 - t.ln()
        return (t**a - 1 - a * (t - 1)) / (a * (a - 1))

    def slope(self, t: Decimal) -> Decimal:
        """The derivative at t > 0."""
        return self.tangent(t)[0]

    def tangent(self, t: Decimal) -> tuple[Decimal, Decimal, Decimal]:
        """At t > 0: the derivative, how far the tangent is below 0 at t = 1, the second derivative."""
        a = self.order
        if a == 1:
            slope = t.ln()
            return slope, t - 1 - slope, 1 / t
        power = t ** (a - 1)
        slope = (power - 1) / (a - 1)
        if a == 0:
            return slope, t.ln() + power - 1, power / t
        below = ((a - 1) * t * power - a * power + 1) / (a * (a - 1))
        return slope, below, power / t

    @property
    def slope_at_infinity(self) -> Decimal:
        return 1 / (1 - self.order) if self.order < 1 else INFINITE

    def conjugate(self, y: Decimal) -> tuple[Decimal, Decimal]:
        """sup over t >= 0 of y (t - 1) - phi_a(t), and the size of what its rounding is relative to.

        How far a line of slope y through (1, 0) is above phi. It moves by t - 1 where y moves by one.
        """
        a = self.order
        if a == 1:
            t = y.exp()
            return t - 1 - y, (1 + abs(y)) * (1 + t)
        power = 1 + (a - 1) * y  # t^(a - 1) where the slope is y
        spread = (1 + abs(y)) * (1 + 1 / abs(a - 1)) * (1 + (1 / a if a > 0 else 0))
        if power <= 0:
            return (-y - 1 / a if a > 1 else INFINITE), spread
        t = power ** (1 / (a - 1))
        if a == 0:
            return -power.ln() - y, spread * (1 + t)
        below = y * (t - 1) - (t * power - 1 - a * (t - 1)) / (a * (a - 1))
        return below, spread * (1 + t) * (1 + power)


@dataclass(frozen=True)
class FDivergence:
    """One f-divergence of two distributions P and Q, for `joint_range`; made by its class methods.

    >>> FDivergence.total_variation(), FDivergence.renyi(order=2.0)
    (<FDivergence: total variation>, <FDivergence: Renyi divergence of order 2>)
    """

    name: str
    stick: Decimal | None = None
    """The x of a hockey stick."""
    order: Decimal | None = None
    """The order of a power divergence."""
    scale: Decimal = Decimal(1)
    is_renyi: bool = False

    def __repr__(self) -> str:
        """The divergence in one line."""
        return f"<FDivergence: {self.name}>"

    @classmethod
    def hockey_stick(cls, *, x: float) -> FDivergence:
        """sup over events E of P(E) - x Q(E): delta at epsilon = log x.

        Args:
            x: A number from 1 on.

        Returns:
            The divergence of the generator (t - x)_+.

        Raises:
            InvalidArgument: x is below 1 or not finite.
            WrongType: x is not a number.
        """
        clean = real(x=x)
        if clean < 1.0:
            raise invalid("x", "at least 1", x, "It is e^epsilon.")
        return cls(f"hockey-stick divergence at {clean:.6g}", stick=Decimal(clean))

    @classmethod
    def total_variation(cls) -> FDivergence:
        """sup over events E of P(E) - Q(E): the hockey stick at 1."""
        return cls("total variation", stick=Decimal(1))

    @classmethod
    def kl(cls) -> FDivergence:
        """The Kullback-Leibler divergence, sum P log(P / Q)."""
        return cls("KL divergence", order=Decimal(1))

    @classmethod
    def reverse_kl(cls) -> FDivergence:
        """The Kullback-Leibler divergence of Q from P, sum Q log(Q / P)."""
        return cls("reverse KL divergence", order=Decimal(0))

    @classmethod
    def chi_squared(cls) -> FDivergence:
        """sum (P - Q)^2 / Q."""
        return cls("chi-squared divergence", order=Decimal(2), scale=Decimal(2))

    @classmethod
    def squared_hellinger(cls) -> FDivergence:
        """sum (sqrt P - sqrt Q)^2 / 2, which is at most 1."""
        return cls("squared Hellinger distance", order=Decimal("0.5"), scale=Decimal("0.25"))

    @classmethod
    def chi_power(cls, *, order: float) -> FDivergence:
        """chi^a = (sum P^a Q^(1 - a) - 1) / (a - 1), the divergence of asoodeh2020.

        Args:
            order: The order a > 1, finite.

        Returns:
            The divergence of the generator (t^a - 1) / (a - 1).

        Raises:
            InvalidArgument: order is not above 1.
            WrongType: order is not a number.
        """
        exact = Decimal(renyi_order(order=order))
        return cls(f"chi^{order:g} divergence", order=exact, scale=exact)

    @classmethod
    def renyi(cls, *, order: float) -> FDivergence:
        """The Renyi divergence, log(sum P^a Q^(1 - a)) / (a - 1): no f-divergence, but a function of one.

        Args:
            order: The order a > 0, finite; 1 is the Kullback-Leibler divergence.

        Returns:
            The divergence.

        Raises:
            InvalidArgument: order is not above 0.
            WrongType: order is not a number.
        """
        clean = positive(order=order)
        if clean == 1.0:
            return cls.kl()
        return cls(f"Renyi divergence of order {clean:.6g}", order=Decimal(clean), is_renyi=True)

    @property
    def power(self) -> Power:
        """The power function of its order."""
        assert self.order is not None  # asked of power divergences only
        return Power(self.order)

    @property
    def largest(self) -> Decimal:
        """The value for distributions that have nothing in common."""
        if self.stick is not None:
            return Decimal(1)
        a = self.power.order
        return self.scale / (a * (1 - a)) if 0 < a < 1 and not self.is_renyi else INFINITE

    def to_power(self, value: Decimal) -> Decimal:
        """The divergence of the generator phi_a where this one has the value."""
        if self.is_renyi:
            a = self.power.order
            return (((a - 1) * value).exp() - 1) / (a * (a - 1))
        return value / self.scale
