"""Privacy filters: when to stop if every mechanism may be chosen after seeing all earlier results.

Composition theorems are about a sequence of mechanisms that is fixed in advance. If the next mechanism,
its noise included, depends on what was seen, the total is random, and stopping when the composed total
would exceed a target proves nothing in general. These three quantities may be added up as one goes, and
stopped at a limit that was fixed before:

- the Renyi divergence of one order that was fixed before (lecuyer2021, feldmanzrnic2021);
- rho of zero-concentrated DP (whitehouse2023);
- mu^2 of Gaussian noise, and of nothing but Gaussian noise (smith2022).

The trade-off function itself may not: stopping when the composed trade-off function falls below a target
is no filter (arXiv 2602.06756); tests hold a counterexample.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np

from sharpdp._validate import nonnegative, open_probability, positive, renyi_order
from sharpdp.accounting import Guarantee, account
from sharpdp.bounds.registry import only_ours
from sharpdp.errors import Unsupported
from sharpdp.mechanisms import Adjacency, Gaussian, Mechanism
from sharpdp.mechanisms.composed import checked_group_size
from sharpdp.numerics.special import up
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.renyi import RenyiCurve
from sharpdp.renyi.curve import Proportional
from sharpdp.tradeoff import TradeoffCurve

__all__ = ["Filter", "GaussianFilter", "RenyiFilter", "ZcdpFilter"]

Kept = TypeVar("Kept", bound="Filter")

_HALVINGS = 200
"""Steps of a search for a limit; it ends when neighboring doubles are reached."""

_LEVELS = 16
"""Levels of an odometer below and above the limit, each a factor of the square root of two."""


@dataclass(frozen=True)
class Filter(ABC):
    """A quantity that may be added up adaptively, and the limit at which to stop.

    Args:
        limit: What the costs of all mechanisms may sum to, fixed in advance.

    Attributes:
        quantity: What is added up, in a few words.
        source: The theorem that allows to add it up adaptively.
    """

    limit: float

    quantity: ClassVar[str]
    source: ClassVar[str]

    @classmethod
    def for_target(cls: type[Kept], *, epsilon: float, delta: float) -> Kept:
        """The filter that guarantees (epsilon, delta)-DP.

        Args:
            epsilon: Target, above 0.
            delta: Target, in (0, 1).

        Returns:
            The filter with the largest limit that is certified.

        Raises:
            InvalidArgument: a number is out of range.
        """
        return cls(cls._largest(positive(epsilon=epsilon), open_probability(delta=delta)))

    def cost(
        self, mechanism: Mechanism, *, adjacency: Adjacency | str | None = None, group_size: int = 1
    ) -> float:
        """An upper bound on what one mechanism adds.

        Args:
            mechanism: What is to be run.
            adjacency: Which data sets are neighbors; None for the default of the mechanism. Costs for
                different neighbors do not add up.
            group_size: In how many records neighbors differ at most.

        Returns:
            The cost, rounded upwards; infinite without noise.

        Raises:
            Unsupported: nothing finite is known about this mechanism in this quantity.
        """
        if any(part.uses_records and not part.adds_noise for part, _ in mechanism.parts()):
            return math.inf
        with only_ours():
            return self._cost(mechanism, adjacency, checked_group_size(group_size))

    def promise(self, *, adjacency: Adjacency | str | None = None) -> Guarantee:
        """What the whole interaction has, however mechanisms are chosen, if the limit is kept.

        Args:
            adjacency: The neighbors for which all costs were computed; None for mechanisms that are about
                any.

        Returns:
            A Guarantee with an upper side.

        Raises:
            InvalidArgument: there is no notion of that name.
        """
        with only_ours():
            return account(self._at_limit(), adjacency=adjacency)

    @classmethod
    @abstractmethod
    def _largest(cls, epsilon: float, delta: float) -> float:
        """The largest limit that is certified for a target."""

    @abstractmethod
    def _cost(
        self, mechanism: Mechanism, adjacency: Adjacency | str | None, group_size: int
    ) -> float:
        """`cost` for a group size that is checked."""

    @abstractmethod
    def _at_limit(self) -> Mechanism:
        """What is at least as revealing as anything that keeps the limit."""


@underflow_is_zero_in_methods
@dataclass(frozen=True)
class RenyiFilter(Filter):
    """Adds up Renyi divergences of one order that is fixed in advance.

    Holds when: the order and the limit are chosen before anything is released, and each mechanism's
    divergence is at most its cost, given all that was released before.

    Args:
        limit: Largest sum of divergences.
        order: The order, above 1.

    >>> cost = RenyiFilter(1.0, 8.0).cost(Gaussian(noise_multiplier=4.0))
    >>> print(f"{cost:.9f}")  # order / (2 noise^2)
    0.250000000
    """

    order: float

    source = "feldmanzrnic2021"

    @property
    def quantity(self) -> str:  # type: ignore[override]  # it names the order
        """What is added up."""
        return f"Renyi divergence of order {self.order:.6g}"

    @classmethod
    def for_target(cls, *, epsilon: float, delta: float, order: float | None = None) -> RenyiFilter:
        """The Renyi filter that guarantees (epsilon, delta)-DP, at a given order or the best one.

        Args:
            epsilon: Target, above 0.
            delta: Target, in (0, 1).
            order: The order, above 1; None takes the one that admits most Gaussian noise.

        Returns:
            The filter with the largest limit of that order.

        Raises:
            InvalidArgument: a number is out of range, or the order admits nothing at this target.
        """
        most, share = positive(epsilon=epsilon), open_probability(delta=delta)
        chosen = _best_order(most, share) if order is None else renyi_order(order=order)
        limit = _largest(
            lambda value: RenyiCurve(orders=(chosen,), values=(value,)), most, share, top=most
        )
        return cls(limit, chosen)

    @classmethod
    def _largest(cls, epsilon: float, delta: float) -> float:
        return cls.for_target(epsilon=epsilon, delta=delta).limit

    def _cost(
        self, mechanism: Mechanism, adjacency: Adjacency | str | None, group_size: int
    ) -> float:
        answer = account(mechanism, adjacency=adjacency, group_size=group_size)
        value = float(answer.renyi(order=self.order).upper)
        if math.isfinite(value):
            return value
        raise Unsupported(
            f"mechanism must have a finite Renyi divergence of order {self.order:.6g}; got "
            f"{mechanism.describe()}. Use releases that are fixed in advance, or a filter of another "
            "order."
        )

    def _at_limit(self) -> Mechanism:
        return RenyiCurve(orders=(self.order,), values=(self.limit,), name="Renyi filter")

    def odometer(self, spent: float, *, delta: float) -> float:
        """A bound on the privacy loss so far that holds at all times at once, with probability 1 - delta.

        Levels of the divergence are fixed in advance, a factor of the square root of two apart. At each
        of them, stopping there would be a filter: by Markov's inequality the loss exceeds
        level + log(1 / delta') / (order - 1) with probability at most delta'.

        Args:
            spent: The sum of costs so far.
            delta: Probability with which any reading may be wrong, in (0, 1).

        Returns:
            The reading, in units of epsilon; infinite beyond the last level.
        """
        share = open_probability(delta=delta)
        steps = np.arange(-_LEVELS, _LEVELS + 1)
        levels = [self.limit * 2.0 ** (0.5 * step) for step in steps]
        allowance = (math.log(len(levels)) - math.log(share)) / (self.order - 1.0)
        level = next((value for value in levels if value >= spent), math.inf)
        return (level + allowance) * (1.0 + 1e-14)


@underflow_is_zero_in_methods
@dataclass(frozen=True)
class ZcdpFilter(Filter):
    """Adds up rho of zero-concentrated differential privacy.

    A mechanism is rho-zCDP if its Renyi divergences are at most rho times the order, at all orders.
    Gaussian noise has rho = mu^2 / 2; what is epsilon-DP has epsilon^2 / 2.

    Holds when: the limit is chosen before anything is released.

    Args:
        limit: Largest sum of rho.

    >>> ZcdpFilter(1.0).cost(Gaussian(noise_multiplier=2.0) * 4)
    0.5
    """

    quantity = "rho of zCDP"
    source = "whitehouse2023"

    @classmethod
    def _largest(cls, epsilon: float, delta: float) -> float:
        return _largest(lambda rho: RenyiCurve.zcdp(rho=rho), epsilon, delta, top=epsilon)

    def _cost(
        self, mechanism: Mechanism, adjacency: Adjacency | str | None, group_size: int
    ) -> float:
        total = Fraction(0)
        for part, times in mechanism.parts():
            total += times * group_size**2 * _rho(part, adjacency)
        return up(total)

    def _at_limit(self) -> Mechanism:
        return RenyiCurve.zcdp(rho=self.limit)


@underflow_is_zero_in_methods
@dataclass(frozen=True)
class GaussianFilter(Filter):
    """Adds up mu^2 of Gaussian noise: nothing is lost against noise that is fixed in advance.

    Only Gaussian noise has this: for mechanisms whose trade-off curve merely lies above that of a
    Gaussian the theorem holds too, but adding up the curves of others, sampled Gaussian steps among them,
    does not.

    Holds when: the limit is chosen before anything is released, and all mechanisms are Gaussian noise.

    Args:
        limit: Largest sum of mu^2, mu being 1 / noise_multiplier.

    >>> GaussianFilter(1.0).cost(Gaussian(noise_multiplier=2.0) * 2)
    0.5
    """

    quantity = "mu^2 of Gaussian noise"
    source = "smith2022"

    @classmethod
    def _largest(cls, epsilon: float, delta: float) -> float:
        top = epsilon + 50.0
        largest = _largest(lambda mu: TradeoffCurve.gaussian(mu=mu), epsilon, delta, top=top)
        return largest * largest * (1.0 - 1e-15)

    def _cost(
        self, mechanism: Mechanism, adjacency: Adjacency | str | None, group_size: int
    ) -> float:
        total = Fraction(0)
        for part, times in mechanism.parts():
            if not part.uses_records:
                continue
            if type(part) is not Gaussian:
                raise Unsupported(
                    f"only Gaussian noise can be added up by its mu; got {part.describe()}. Trade-off "
                    "curves of other mechanisms compose if they are fixed in advance; adding them up "
                    'adaptively proves nothing (arXiv 2602.06756). Try filter_kind="renyi".'
                )
            total += times * (group_size / Fraction(part.noise_multiplier)) ** 2
        return up(total)

    def _at_limit(self) -> Mechanism:
        mu = math.nextafter(math.sqrt(self.limit), math.inf)
        return TradeoffCurve.gaussian(mu=mu)


def _rho(part: Mechanism, adjacency: Adjacency | str | None) -> Fraction:
    """The zCDP parameter of a mechanism that is not composed of others, not below the exact one."""
    if type(part) is Gaussian:
        return 1 / (2 * Fraction(part.noise_multiplier) ** 2)
    if isinstance(part, RenyiCurve) and isinstance(part.function, Proportional):
        return Fraction(part.function.rho)
    if not isinstance(part, RenyiCurve):
        pure = float(account(part, adjacency=adjacency).epsilon(delta=0.0).upper)
        if math.isfinite(pure):
            return Fraction(pure) ** 2 / 2
    raise Unsupported(
        f"mechanism must have a known rho of zCDP; got {part.describe()}. Gaussian noise, pure DP and "
        'RenyiCurve.zcdp have one. Try filter_kind="renyi".'
    )


def _best_order(epsilon: float, delta: float) -> float:
    """The order at which the target admits most Gaussian noise; any order is safe."""
    orders = 1.0 + np.geomspace(0.01, 1e6, 400)
    # what canonne2020 Proposition 12 leaves of epsilon at this order
    limits = epsilon - np.log1p(-1.0 / orders) + (math.log(delta) + np.log(orders)) / (orders - 1.0)
    return float(np.round(orders[int(np.argmax(limits / orders))], 6))


def _largest(
    curve: Callable[[float], Mechanism], epsilon: float, delta: float, *, top: float
) -> float:
    """The largest parameter whose upper epsilon at this delta is certainly within the target."""

    def fits(value: float) -> bool:
        return float(account(curve(value)).delta(epsilon=epsilon).upper) <= delta

    low, high = 0.0, nonnegative(top=top)
    if high > 0.0 and fits(high):
        return high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle in (low, high) or high - low <= 1e-12 * high:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
