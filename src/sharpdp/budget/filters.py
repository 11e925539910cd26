"""Privacy filters: when to stop if every mechanism may be chosen after seeing all earlier results.

Composition theorems are about a sequence of mechanisms that is fixed in advance. If the next mechanism,
its noise included, depends on what was seen, the total is random, and stopping when the composed total
would exceed a target proves nothing in general. These three quantities may be added up as one goes, and
stopped at a limit that was fixed before:

- the Renyi divergence of one order that was fixed before (lecuyer2021, feldmanzrnic2021);
- rho of zero-concentrated DP (whitehouse2023);
- mu^2 of Gaussian noise, and of nothing but Gaussian noise (smith2022).

The trade-off function itself may not: stopping when the composed trade-off function falls below a target
is no filter (arXiv 2602.06756); tests hold a counterexample. But mechanisms that are written down in
advance may be run in any order and left out, as results suggest (`sharpdp.budget.reserve`), and several
orders may share delta; docs/proofs/filters.md has the proofs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from sharpdp._validate import nonnegative, open_probability, positive, renyi_order
from sharpdp.bounds.registry import only_ours
from sharpdp.budget.reserve import Reserve
from sharpdp.curves.renyi import RenyiCurve
from sharpdp.curves.renyi.curve import Proportional
from sharpdp.curves.tradeoff import TradeoffCurve
from sharpdp.errors import InvalidArgument, Unsupported
from sharpdp.mechanisms import Adjacency, ApproximateDP, Gaussian, Mechanism, Sequence
from sharpdp.mechanisms.composed import checked_group_size, in_groups
from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import down, up
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.questions.account import Guarantee, account
from sharpdp.questions.targets import Target

__all__ = ["AdaptiveFilter", "Filter", "GaussianFilter", "RenyiFilter", "ZcdpFilter", "fits"]

Kept = TypeVar("Kept", bound="Filter")

_HALVINGS = 200
"""Steps of a search for a limit; it ends when neighboring doubles are reached."""

_LEVELS = 16
"""Levels of an odometer below and above the limit, each a factor of the square root of two."""

SHARES = (
    (0.65, Fraction(58, 100)),
    (1.0, Fraction(40, 100)),
    (4.0, Fraction(2, 100)),
)
"""Orders that share delta where nothing is known of what will be run, and the share of each.

An order is said by (order - 1) in units of that which suits Gaussian noise best. Sampled Gaussian noise
wants a smaller one, pure DP a larger one, and a large order hardly notices that its share is small.
"""


def by_our_theorems(
    mechanism: Mechanism, *, adjacency: Adjacency | str | None = None, group_size: int = 1
) -> Guarantee:
    """The answer of `account` without what others state: it counts on when their theorems are gone."""
    with only_ours():
        return account(mechanism, adjacency=adjacency, group_size=group_size)


def _reveals(mechanism: Mechanism) -> bool:
    """Whether a part of it uses records without noise, so that no budget allows it."""
    return any(part.uses_records and not part.adds_noise for part, _ in mechanism.parts())


def fits(answer: Guarantee, *, epsilon: float, delta: float) -> bool:
    """Whether a guarantee is certainly within a budget: the one place where the two are compared.

    >>> fits(account(Gaussian(noise_multiplier=4.0)), epsilon=1.1, delta=1e-6)
    True
    """
    return Target("epsilon", epsilon, delta).is_met(answer)


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
        if _reveals(mechanism):
            return math.inf
        return self._cost(mechanism, adjacency, checked_group_size(group_size))

    @property
    def limits(self) -> tuple[float, ...]:
        """The limits of which one must be kept: the only one."""
        return (self.limit,)

    @property
    def quantities(self) -> tuple[str, ...]:
        """The quantity that is added up against each of `limits`."""
        return (self.quantity,)

    def costs(
        self, mechanism: Mechanism, *, adjacency: Adjacency | str | None = None, group_size: int = 1
    ) -> tuple[float, ...]:
        """The cost of one mechanism against each of `limits`.

        Args:
            mechanism: What is to be run.
            adjacency: Which data sets are neighbors, as in `cost`.
            group_size: In how many records neighbors differ at most.

        Returns:
            The costs, rounded upwards.

        Raises:
            Unsupported: nothing finite is known about this mechanism in this quantity.
        """
        return (self.cost(mechanism, adjacency=adjacency, group_size=group_size),)

    @property
    def share_aside(self) -> float:
        """The share of the budget that is set aside for mechanisms that are written down: nothing."""
        return 0.0

    def reserve(self) -> Reserve:
        """Mechanisms set aside: none."""
        return Reserve.of(())

    def promise(self, *, adjacency: Adjacency | str | None = None) -> Guarantee:
        """The guarantee of the whole interaction, however mechanisms are chosen, if the limit is kept.

        Args:
            adjacency: The neighbors for which all costs were computed; None for mechanisms that are about
                any.

        Returns:
            A Guarantee with an upper side.

        Raises:
            InvalidArgument: there is no notion of that name.
        """
        return by_our_theorems(self._at_limit(), adjacency=adjacency)

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
        """Mechanisms at least as revealing as anything that keeps the limit."""


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
        """The quantity that is added up."""
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
        answer = by_our_theorems(mechanism, adjacency=adjacency, group_size=group_size)
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


@underflow_is_zero_in_methods
@dataclass(frozen=True)
class AdaptiveFilter:
    """Sets aside what is expected, and adds up Renyi divergences of a few orders for everything else.

    What is expected is written down when the filter is made. Its parts may then be run in any order, as
    results suggest, and left out: they cost what the plan costs, and nothing is lost. Gaussian noise may
    be run with other noise as long as the sum of mu^2 is that of the plan, steps of Poisson batches in
    other runs, and a run in epochs may end early. For what is not expected, Renyi divergences are added
    up. Where several orders share delta, one of their limits must be kept, and it does not matter which.

    Holds when: all of it is fixed before anything is released, and each mechanism's divergence is at most
    its cost, given all that was released before.

    Args:
        epsilon: Target, above 0.
        delta: Target, in (0, 1).
        orders: One filter per order; none if what is expected takes all of the budget.
        expected: What is set aside; None for nothing.
        group_size: Records that one protected unit has in what is expected.
        adjacency: Which data sets are neighbors, in words; None for mechanisms that are about any.

    >>> run = Gaussian(noise_multiplier=10.0) * 40
    >>> AdaptiveFilter.for_target(epsilon=2.93, delta=1e-6, expected=run).reserve().covers(run)
    True
    """

    epsilon: float
    delta: float
    orders: tuple[RenyiFilter, ...]
    expected: Mechanism | None = None
    group_size: int = 1
    adjacency: str | None = None

    @classmethod
    def for_target(
        cls,
        *,
        epsilon: float,
        delta: float,
        order: float | None = None,
        expected: Mechanism | None = None,
        adjacency: Adjacency | str | None = None,
        group_size: int = 1,
    ) -> AdaptiveFilter:
        """The filter that guarantees (epsilon, delta)-DP.

        Args:
            epsilon: Target, above 0.
            delta: Target, in (0, 1).
            order: The only order, above 1; None takes the one that suits what is expected, or several
                that share delta if nothing is.
            expected: What is set aside; None for nothing.
            adjacency: Which data sets are neighbors, for what is expected.
            group_size: Records that one protected unit has in what is expected.

        Returns:
            The filter with the largest limits that are certified.

        Raises:
            InvalidArgument: a number is out of range, or what is expected exceeds the target.
            Unsupported: no theorem covers what is expected.
        """
        most, share = positive(epsilon=epsilon), open_probability(delta=delta)
        size = checked_group_size(group_size)
        if expected is not None:
            answer = by_our_theorems(expected, adjacency=adjacency, group_size=size)
            if not fits(answer, epsilon=most, delta=share):
                raise InvalidArgument(
                    f"expected must fit the budget of epsilon={most:g} at delta={share:g}; got "
                    f"{expected.describe()}, for which {answer.epsilon(delta=share)}."
                )
            chosen = _best_order(most, share, answer) if order is None else renyi_order(order=order)
            before = _grouped(expected, size)
            limit = _largest(
                lambda value: Sequence([*before, *_curve(chosen, value)]),
                most,
                share,
                top=most,
                adjacency=answer.adjacency,
                within=1e-4,
            )
            orders = (RenyiFilter(limit, chosen),) if limit > 0.0 else ()
            return cls(most, share, orders, expected, size, str(answer.adjacency))
        if order is not None:
            made = RenyiFilter.for_target(epsilon=most, delta=share, order=order)
            return cls(most, share, (made,))
        gaussian = _best_order(most, share) - 1.0
        several = (
            RenyiFilter.for_target(
                epsilon=most,
                delta=down(Fraction(share) * part),
                order=round(1.0 + factor * gaussian, 6),
            )
            for factor, part in SHARES
        )
        return cls(most, share, tuple(made for made in several if made.limit > 0.0))

    @property
    def quantity(self) -> str:
        """The quantity that is added up."""
        words = [] if self.expected is None else ["what is expected"]
        if len(self.orders) == 1:
            words.append(self.orders[0].quantity)
        elif self.orders:
            listed = ", ".join(f"{made.order:.4g}" for made in self.orders)
            words.append(f"Renyi divergences of the orders {listed}")
        return ", then ".join(words)

    @property
    def limits(self) -> tuple[float, ...]:
        """The limit of each order, of which one must be kept."""
        return tuple(made.limit for made in self.orders)

    @property
    def quantities(self) -> tuple[str, ...]:
        """The quantity that is added up against each of `limits`."""
        return tuple(made.quantity for made in self.orders)

    def costs(
        self, mechanism: Mechanism, *, adjacency: Adjacency | str | None = None, group_size: int = 1
    ) -> tuple[float, ...]:
        """The divergences of a mechanism that is not expected, one for each order.

        Args:
            mechanism: What is to be run.
            adjacency: Which data sets are neighbors; None for the default of the mechanism.
            group_size: In how many records neighbors differ at most.

        Returns:
            The costs, rounded upwards; some may be infinite, and all without noise.

        Raises:
            Unsupported: it is infinite at all orders.
        """
        if not self.orders:
            return ()
        answer = by_our_theorems(mechanism, adjacency=adjacency, group_size=group_size)
        found = tuple(float(answer.renyi(order=made.order).upper) for made in self.orders)
        if _reveals(mechanism) or not all(map(math.isinf, found)):
            return found
        raise Unsupported(
            f"mechanism must have a finite {self.orders[0].quantity}; got {mechanism.describe()}. Say "
            "that it is expected when the budget is begun, or fix all releases in advance."
        )

    @cached_property
    def share_aside(self) -> float:
        """The share of the budget that is set aside: what is expected has that share of epsilon."""
        if self.expected is None:
            return 0.0
        alone = by_our_theorems(self.expected, adjacency=self.adjacency, group_size=self.group_size)
        share = float(alone.epsilon(delta=self.delta).upper) / self.epsilon
        return min(share, 1.0) if self.orders else 1.0

    def reserve(self) -> Reserve:
        """The mechanisms that are set aside."""
        parts = () if self.expected is None else self.expected.parts()
        return Reserve.of(in_groups(parts, self.group_size))

    def is_certified(self) -> bool:
        """Whether the limits, computed again, guarantee the target."""
        if not self.orders:
            return self.expected is not None and fits(
                self.promise(), epsilon=self.epsilon, delta=self.delta
            )
        before = [] if self.expected is None else _grouped(self.expected, self.group_size)
        shares = Fraction(0)
        for made in self.orders:
            answer = by_our_theorems(
                Sequence([*before, made._at_limit()]), adjacency=self.adjacency
            )
            shares += Fraction(float(answer.delta(epsilon=self.epsilon).upper))
        return shares <= Fraction(self.delta)

    def promise(self, *, adjacency: Adjacency | str | None = None) -> Guarantee:
        """The guarantee of the whole interaction, however mechanisms are chosen, if one limit is kept.

        Args:
            adjacency: The neighbors for which all costs were computed; None for those of what is
                expected, or any.

        Returns:
            A Guarantee with an upper side; of several orders it knows the target only.

        Raises:
            InvalidArgument: there is no notion of that name.
        """
        if len(self.orders) > 1:
            return by_our_theorems(
                ApproximateDP(epsilon=self.epsilon, delta=self.delta), adjacency=adjacency
            )
        before = [] if self.expected is None else _grouped(self.expected, self.group_size)
        after = [made._at_limit() for made in self.orders]
        return by_our_theorems(Sequence([*before, *after]), adjacency=adjacency or self.adjacency)

    def odometer(self, spent: Iterable[float], *, delta: float) -> float:
        """A bound on the privacy loss so far that holds at all times at once, with probability 1 - delta.

        Args:
            spent: The sum of costs so far, for each order.
            delta: Probability with which any reading may be wrong, in (0, 1).

        Returns:
            The smallest of the readings at all orders, each of which has an equal share of delta.

        Raises:
            Unsupported: something is expected, which is not added up.
        """
        if self.expected is not None:
            raise Unsupported(
                "an odometer adds up Renyi divergences; got a budget with what is expected, which is "
                "covered as a whole."
            )
        part = open_probability(delta=delta) / len(self.orders) * (1.0 - 1e-15)
        return min(
            made.odometer(sum_, delta=part) for made, sum_ in zip(self.orders, spent, strict=True)
        )


def _grouped(mechanism: Mechanism, group_size: int) -> list[Mechanism]:
    """The mechanism as groups see it."""
    return [part * times for part, times in in_groups(mechanism.parts(), group_size)]


def _curve(order: float, value: float) -> list[RenyiCurve]:
    """Mechanisms with this divergence; none for 0."""
    return [RenyiCurve(orders=(order,), values=(value,))] if value > 0.0 else []


def _rho(part: Mechanism, adjacency: Adjacency | str | None) -> Fraction:
    """The zCDP parameter of a mechanism that is not composed of others, not below the exact one."""
    if type(part) is Gaussian:
        return 1 / (2 * Fraction(part.noise_multiplier) ** 2)
    if isinstance(part, RenyiCurve) and isinstance(part.function, Proportional):
        return Fraction(part.function.rho)
    if not isinstance(part, RenyiCurve):
        pure = float(by_our_theorems(part, adjacency=adjacency).epsilon(delta=0.0).upper)
        if math.isfinite(pure):
            return Fraction(pure) ** 2 / 2
    raise Unsupported(
        f"mechanism must have a known rho of zCDP; got {part.describe()}. Gaussian noise, pure DP and "
        'RenyiCurve.zcdp have one. Try filter_kind="renyi".'
    )


def _best_order(epsilon: float, delta: float, suited: Guarantee | None = None) -> float:
    """The order at which a target admits most of what it should suit, or else of Gaussian noise.

    Any order is safe.
    """
    orders = 1.0 + np.geomspace(0.01, 1e6, 400)
    # what canonne2020 Proposition 12 leaves of epsilon at this order
    limits = epsilon - np.log1p(-1.0 / orders) + (math.log(delta) + np.log(orders)) / (orders - 1.0)
    costs = orders
    if suited is not None:
        open_ = (limits > 0.0) & (orders < 1e4)
        orders, limits = orders[open_][::4], limits[open_][::4]
        costs = np.array([float(suited.renyi(order=float(order)).upper) for order in orders])
        if not np.any(np.isfinite(costs) & (costs > 0.0)):
            return _best_order(epsilon, delta)
    return float(np.round(orders[int(np.argmax(limits / costs))], 6))


def _largest(
    curve: Callable[[float], Mechanism],
    epsilon: float,
    delta: float,
    *,
    top: float,
    adjacency: Adjacency | str | None = None,
    within: float = 1e-12,
) -> float:
    """The largest parameter, nearly, whose upper delta at this epsilon is certainly within the target."""

    def is_within(value: float) -> bool:
        answer = by_our_theorems(curve(value), adjacency=adjacency)
        return float(answer.delta(epsilon=epsilon).upper) <= delta

    low, high = 0.0, nonnegative(top=top)
    if high > 0.0 and is_within(high):
        return high
    return last_true(is_within, low, high, halvings=_HALVINGS, relative_width=within)[0]
