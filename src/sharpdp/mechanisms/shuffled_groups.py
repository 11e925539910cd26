"""Shuffled reports of users with different local budgets: groups, each with its own local epsilon."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sharpdp._validate import count, has_entries, invalid, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import Adjacency, Mechanism, Parts
from sharpdp.mechanisms.elementary import PureDP
from sharpdp.mechanisms.local import RandomizedResponse
from sharpdp.mechanisms.shuffle import MOST_USERS, ShuffledReports, checked_local_epsilon

__all__ = ["ReportsOfGroup", "ShuffledGroups"]

MOST_GROUPS = 100
"""Each group has a guarantee of its own, which takes a fraction of a second."""

MOST_CATEGORIES = 10**9
"""With more, two users hardly ever send the same report."""


@dataclass(frozen=True, kw_only=True)
class ShuffledGroups(Mechanism):
    """Shuffled reports of users with different local epsilons; only the mixed reports are seen.

    Users of a group run the same randomizer; which user belongs to which group is public and does not
    depend on the records. The guarantee is that of the worst group; ``group(0)`` is that of the first.

    - ``categories=None``: nothing else is known about the randomizers. The reports of different groups
      may be easy to tell apart, so that users are hidden by their own group only.
    - ``categories=k``: everybody answers the same question with k categories by randomized response.
      All users hide each other: one whose report is probably random hides others better.

    Neighbors: one user's record is replaced.

    Args:
        users: number of users in each group, 1 to 10^12 together; at most 100 groups. None (default) for
            one user per entry of ``local_epsilon``, of whom those with equal entries form a group, in the
            order of their first appearance.
        local_epsilon: the epsilon of one report of each group; 0, or 1e-6 to 30.
        categories: number of possible answers, 2 to 10^9; None (default) if the randomizers are unknown.
        rounds: number of repetitions with fresh randomness, at least 1 (default).

    Raises:
        InvalidArgument: a value is out of range, or the lists differ in length.
        WrongType: a value is not a number, or no list where one is needed.

    >>> run = ShuffledGroups(users=[1000, 9000], local_epsilon=[1.0, 4.0], categories=10)
    >>> run.group(0).describe()
    '1,000 users with local epsilon 1 in 10,000 shuffled reports of 2 groups (10 categories)'
    >>> ShuffledGroups(local_epsilon=[1.0, 4.0, 4.0]).users
    (1, 2)
    """

    # None stands for one user per local epsilon, who are counted from the start
    users: tuple[int, ...] = None  # type: ignore[assignment]
    local_epsilon: tuple[float, ...]
    categories: int | None = None
    rounds: int = 1

    adjacencies = (Adjacency.REPLACE_ONE,)
    _draws = ("their orders",)

    def __post_init__(self) -> None:
        """Check all fields."""
        epsilons = [
            checked_local_epsilon(each, f"local_epsilon[{index}]")
            for index, each in enumerate(_entries("local_epsilon", self.local_epsilon))
        ]
        given_users: object = self.users
        if given_users is None:
            users = [epsilons.count(each) for each in dict.fromkeys(epsilons)]
            epsilons = list(dict.fromkeys(epsilons))
        else:
            hint = "It counts the users of a group."
            group_users: list[dict[str, Any]] = [
                {f"users[{index}]": each}
                for index, each in enumerate(_entries("users", given_users))
            ]
            users = [count(hint=hint, **each) for each in group_users]
        if len(users) != len(epsilons):
            raise InvalidArgument(
                f"local_epsilon must have one entry per group, {len(users)}; got {len(epsilons)}. "
                "Leave users out to give one entry per user."
            )
        if len(users) > MOST_GROUPS:
            hint = "Round local epsilons up to fewer values: that is on the safe side."
            raise invalid("local_epsilon", f"at most {MOST_GROUPS} groups", len(users), hint)
        if sum(users) > MOST_USERS:
            raise invalid("users", "at most 10^12 together", sum(users))
        object.__setattr__(self, "users", tuple(users))
        object.__setattr__(self, "local_epsilon", tuple(epsilons))
        if self.categories is not None:
            categories = count(
                categories=self.categories, least=2, hint="It counts the possible answers."
            )
            if categories > MOST_CATEGORIES:
                raise invalid("categories", "at most 10^9", categories)
            object.__setattr__(self, "categories", categories)
        rounds = count(rounds=self.rounds, hint="Every user reports once in each round.")
        object.__setattr__(self, "rounds", rounds)

    @property
    def groups(self) -> tuple[ReportsOfGroup, ...]:
        """The mechanism for the users of each group."""
        return tuple(ReportsOfGroup(self, index) for index in range(len(self.users)))

    def group(self, index: int) -> ReportsOfGroup:
        """The mechanism for the users of one group.

        Args:
            index: which group, counted from 0.

        Returns:
            The mechanism, to be accounted: neighbors differ in the record of one user of this group.

        Raises:
            InvalidArgument: there is no such group.
            WrongType: index is not a number.
        """
        return ReportsOfGroup(self, index)

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return "shuffled reports of groups"

    def parts(self) -> Parts:
        """One round, repeated ``rounds`` times; or what the worst group is accounted as, if one is.

        Of unknown randomizers that is one with the fewest users and the largest local epsilon.
        """
        worst = (min(self.users), max(self.local_epsilon))
        sizes = list(zip(self.users, self.local_epsilon, strict=True))
        if self.categories is None and worst in sizes:
            return self.group(sizes.index(worst)).parts()
        if len(set(self.local_epsilon)) == 1:
            return self.group(0).parts()
        return ((replace(self, rounds=1), self.rounds),)

    def describe(self) -> str:
        """The mechanism in one line."""
        groups = ", ".join(
            f"{users:,} with local epsilon {epsilon:.12g}"
            for users, epsilon in list(zip(self.users, self.local_epsilon, strict=True))[:4]
        )
        more = f", {len(self.users) - 4} more groups" if len(self.users) > 4 else ""
        often = f"{self.rounds:,} rounds of " if self.rounds > 1 else ""
        return f"{often}{self.reports} ({groups}{more}; {self.kind})"

    @property
    def reports(self) -> str:
        """How many reports there are, in words."""
        groups = "1 group" if len(self.users) == 1 else f"{len(self.users)} groups"
        return f"{sum(self.users):,} shuffled reports of {groups}"

    @property
    def kind(self) -> str:
        """The knowledge about the randomizers, in words."""
        if self.categories is None:
            return "one randomizer in each group"
        return f"{self.categories:,} categories"


@dataclass(frozen=True)
class ReportsOfGroup(Mechanism):
    """Shuffled reports of several groups, as a mechanism for the users of one group.

    It is made by `ShuffledGroups.group`. Neighbors: the record of one user of this group is replaced.

    Args:
        groups: what is run.
        index: which of its groups, counted from 0.

    Raises:
        InvalidArgument: there is no such group.
        WrongType: ``groups`` is not a `ShuffledGroups`, or ``index`` is not a number.

    >>> run = ShuffledGroups(users=[10, 90], local_epsilon=[1.0, 4.0], rounds=5)
    >>> run.group(1).parts()[0][0].describe()
    '90 shuffled reports (local epsilon 4, shared randomizer)'
    """

    groups: ShuffledGroups
    index: int

    adjacencies = (Adjacency.REPLACE_ONE,)
    _draws = ("their orders",)

    def __post_init__(self) -> None:
        """Check both fields."""
        if not isinstance(self.groups, ShuffledGroups):
            raise WrongType(f"groups must be ShuffledGroups; got {short_repr(self.groups)}.")
        index = count(index=self.index, least=0, hint="Groups are counted from 0.")
        if index >= len(self.groups.users):
            raise invalid("index", f"below the number of groups, {len(self.groups.users)}", index)
        object.__setattr__(self, "index", index)

    @property
    def users(self) -> int:
        """Number of users in the group."""
        return self.groups.users[self.index]

    @property
    def local_epsilon(self) -> float:
        """The epsilon of one report of the group."""
        return self.groups.local_epsilon[self.index]

    @property
    def rounds(self) -> int:
        """Number of repetitions."""
        return self.groups.rounds

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return "shuffled reports of one group"

    @property
    def holds_when(self) -> tuple[str, ...]:
        """That it is asked about a user of this group."""
        group = f"the {self.users:,} users with local epsilon {self.local_epsilon:.12g}"
        return (f"the record that is replaced is that of one of {group}",)

    def parts(self) -> Parts:
        """One round, repeated ``rounds`` times.

        If nothing is known about the randomizers the reports of other groups may be told apart from those
        of this one, which are then all that hides its users. Groups that differ in nothing are one.
        """
        run, own = self.groups, self.local_epsilon
        if own == 0.0:
            return ((PureDP(epsilon=0.0), 1),)
        if run.categories is None:
            return ((ShuffledReports(users=self.users, local_epsilon=own), run.rounds),)
        if set(run.local_epsilon) == {own}:
            response = RandomizedResponse(local_epsilon=own, categories=run.categories)
            return ((ShuffledReports(users=sum(run.users), randomizer=response), run.rounds),)
        return ((replace(self, groups=replace(run, rounds=1)), run.rounds),)

    def describe(self) -> str:
        """The mechanism in one line."""
        often = f"{self.rounds:,} rounds of " if self.rounds > 1 else ""
        group = f"{self.users:,} users with local epsilon {self.local_epsilon:.12g}"
        return f"{group} in {often}{self.groups.reports} ({self.groups.kind})"


def _entries(name: str, value: object) -> list[object]:
    """The entries of a list with at least one."""
    if not has_entries(value):
        raise WrongType(
            f"{name} must be a list with one entry per group; got {short_repr(value)}. "
            "For users who all have the same local epsilon use ShuffledReports."
        )
    entries = list(value)
    if not entries:
        raise InvalidArgument(f"{name} must be a list with at least one entry; got none.")
    return entries
