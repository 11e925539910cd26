"""A meter: how much of what was set aside, and of each limit of a filter, one person's releases took."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from sharpdp.budget.filters import AdaptiveFilter, Filter
from sharpdp.budget.reserve import Reserve
from sharpdp.mechanisms import Adjacency, Mechanism, Sequence
from sharpdp.mechanisms.composed import in_groups
from sharpdp.numerics.special import up

__all__ = ["Costs", "Meter"]

Costs: TypeAlias = "Callable[[Mechanism, Adjacency | str | None, int], tuple[float, ...]]"
"""The costs of a mechanism against each limit, by neighbors and group size."""


@dataclass(frozen=True)
class Meter:
    """The use that releases made of a filter; sums are exact, whatever their number.

    Args:
        filter: What adds up and refuses.
        reserve: What is left of what was set aside.
        sums: The sum of costs for each limit of the filter.
        goes_beyond: Whether anything was run that was not set aside.

    >>> from sharpdp.budget.filters import GaussianFilter
    >>> from sharpdp.mechanisms import Gaussian
    >>> Meter.begun(GaussianFilter(1.0)).after(Gaussian(noise_multiplier=2.0)).used
    0.25
    """

    filter: Filter | AdaptiveFilter
    reserve: Reserve
    sums: tuple[Fraction | float, ...]
    goes_beyond: bool = False

    @classmethod
    def begun(cls, made: Filter | AdaptiveFilter) -> Meter:
        """The meter before anything is run."""
        return cls(made, made.reserve(), (Fraction(0),) * len(made.limits))

    def after(
        self,
        mechanism: Mechanism,
        *,
        adjacency: Adjacency | str | None = None,
        group_size: int = 1,
        costs: Costs | None = None,
    ) -> Meter:
        """The meter after one more mechanism; ``costs`` is that of the filter unless it is given."""
        costs_of = self._costs if costs is None else costs
        reserve, beyond = self.reserve.without(in_groups(mechanism.parts(), group_size))
        if not beyond:
            return replace(self, reserve=reserve)
        if reserve == self.reserve:
            return self._added(costs_of(mechanism, adjacency, group_size))
        uncovered = Sequence([part * times for part, times in beyond])
        return replace(self, reserve=reserve)._added(costs_of(uncovered, adjacency, 1))

    def _costs(
        self, mechanism: Mechanism, adjacency: Adjacency | str | None, group_size: int
    ) -> tuple[float, ...]:
        return self.filter.costs(mechanism, adjacency=adjacency, group_size=group_size)

    def at_least(self, before: Meter, costs: tuple[float, ...]) -> Meter:
        """This meter, or the one before it with these costs, whichever took more at each limit."""
        other = before._added(costs)
        return replace(self, sums=tuple(map(max, self.sums, other.sums)))

    def costs_since(self, before: Meter) -> tuple[float, ...]:
        """The growth of each sum since then, rounded upwards."""
        return tuple(
            math.inf if math.inf in (new, old) else up(Fraction(new) - Fraction(old))
            for new, old in zip(self.sums, before.sums, strict=True)
        )

    @property
    def exceeded(self) -> bool:
        """Whether no limit is kept."""
        return self.is_beyond(Fraction(0))

    def is_beyond(self, slack: Fraction) -> bool:
        """Whether no limit is kept, were all of them larger by this share."""
        return self.goes_beyond and all(
            sum_ > Fraction(limit) * (1 + slack)
            for sum_, limit in zip(self.sums, self.filter.limits, strict=True)
        )

    @property
    def spent(self) -> tuple[float, ...]:
        """The sums, rounded upwards."""
        return tuple(math.inf if sum_ == math.inf else up(Fraction(sum_)) for sum_ in self.sums)

    @property
    def used(self) -> float:
        """The share of the budget that is used: of the limit that leaves most, and of what was set aside.

        What was set aside counts as its epsilon does in that of the budget; what is used of it is the
        mean over its parts.
        """
        shares = [
            spent / limit for spent, limit in zip(self.spent, self.filter.limits, strict=True)
        ]
        beyond = min(shares, default=1.0 if self.goes_beyond else 0.0)
        aside = self.filter.share_aside
        whole = 1.0 - self.reserve.share(self.filter.reserve()) if aside else 0.0
        return aside * whole + (1.0 - aside) * beyond

    def refusal(self, before: Meter) -> str:
        """Why it is exceeded, with the numbers of the limit that is nearest to being kept."""
        limits = self.filter.limits
        if not limits:
            return "it is not what is expected, for which all of the budget is set aside"
        near = min(range(len(limits)), key=lambda index: self.sums[index] / limits[index])
        costs = self.costs_since(before)[near]
        return (
            f"it costs {costs:.4g} ({self.filter.quantities[near]}), {before.spent[near]:.4g} of "
            f"{limits[near]:.4g} are spent"
        )

    def _added(self, costs: tuple[float, ...]) -> Meter:
        sums = (
            math.inf if math.inf in (sum_, cost) else Fraction(sum_) + Fraction(cost)
            for sum_, cost in zip(self.sums, costs, strict=True)
        )
        return replace(self, sums=tuple(sums), goes_beyond=True)
