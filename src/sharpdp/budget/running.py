"""Sums of a ledger's releases for each cohort, continued as releases come instead of begun again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sharpdp.budget.filters import AdaptiveFilter
from sharpdp.budget.meter import Costs, Meter
from sharpdp.mechanisms import Mechanism
from sharpdp.mechanisms.composed import Parts, in_groups

__all__ = ["Release", "Running"]


class Release(Protocol):
    """The data of a release that enter sums."""

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that was run."""

    @property
    def group_size(self) -> int:
        """Records that one protected unit has in it."""

    @property
    def cohort(self) -> str | None:
        """The cohort whose data it used; None for everybody's."""

    @property
    def cost(self) -> tuple[float, ...] | None:
        """Its cost at each limit of a filter when it was counted."""


@dataclass
class Running:
    """The sums of the releases so far, for people of each cohort and of none.

    Args:
        filter: The filter of an adaptive ledger; None if releases are fixed.
        adjacency: Which data sets are neighbors, for all of them.
        costs: The costs of a mechanism that is not expected, by neighbors and group size.
    """

    filter: AdaptiveFilter | None
    adjacency: str | None
    costs: Costs
    releases: int = 0
    parts: dict[str | None, dict[Mechanism, int]] = field(default_factory=lambda: {None: {}})
    meters: dict[str | None, Meter] = field(default_factory=dict)
    charged: list[tuple[float, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin the meter of people of no cohort."""
        if self.filter is not None:
            self.meters[None] = Meter.begun(self.filter)

    def take(self, releases: Iterable[Release]) -> None:
        """Go on with further releases, in their order."""
        for release in releases:
            for cohort in self._taking_part(release.cohort):
                parts = self.parts[cohort]
                for part, times in in_groups(release.mechanism.parts(), release.group_size):
                    parts[part] = parts.get(part, 0) + times
            if self.filter is not None:
                self._charge(release)
            self.releases += 1

    def parts_of(self, cohort: str | None) -> Parts:
        """The parts in which people of a cohort took part, equal ones together."""
        return tuple(self.parts.get(cohort, self.parts[None]).items())

    def meter_of(self, cohort: str | None) -> Meter:
        """The meter of people of a cohort."""
        return self.meters.get(cohort, self.meters[None])

    def meter_after(self, cohort: str | None, release: Release) -> Meter:
        """The meter of people of a cohort after one more release that they take part in.

        What was counted counts, if it is more than what is computed now. Where something is set aside,
        cohorts may differ in what is left of it, and so in what the same release costs them.
        """
        before = self.meter_of(cohort)
        after = before.after(
            release.mechanism,
            adjacency=self.adjacency,
            group_size=release.group_size,
            costs=self.costs,
        )
        if release.cost is None or before.filter.share_aside:
            return after
        return after.at_least(before, release.cost)

    def _charge(self, release: Release) -> None:
        cohorts = list(self._taking_part(release.cohort))
        after = [self.meter_after(cohort, release) for cohort in cohorts]
        costs = [
            new.costs_since(self.meter_of(name)) for name, new in zip(cohorts, after, strict=True)
        ]
        self.charged.append(tuple(map(max, *costs)) if len(costs) > 1 else costs[0])
        self.meters.update(zip(cohorts, after, strict=True))

    def _taking_part(self, cohort: str | None) -> Iterator[str | None]:
        """The cohorts that a release is about; a new one begins with what everybody took part in."""
        if cohort is None:
            yield from self.parts
            return
        if cohort not in self.parts:
            self.parts[cohort] = dict(self.parts[None])
            if self.filter is not None:
                self.meters[cohort] = self.meters[None]
        yield cohort
