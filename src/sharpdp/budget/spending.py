"""A budget in memory: mechanisms are spent against a target, and what would exceed it is refused."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, TypeAlias

from sharpdp._validate import (
    invalid,
    is_among,
    one_line,
    open_probability,
    positive,
    renyi_order,
    short_repr,
)
from sharpdp.budget.filters import (
    AdaptiveFilter,
    Filter,
    GaussianFilter,
    RenyiFilter,
    ZcdpFilter,
    by_our_theorems,
    fits,
)
from sharpdp.budget.ledger import MOST_RUNS, Entry, Ledger, next_step
from sharpdp.budget.ledger_records import checked_choice
from sharpdp.budget.meter import Meter
from sharpdp.display.outward_digits import ROUND_FLOOR, percent
from sharpdp.errors import BudgetExceeded, InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms import Adjacency, Mechanism, Sequence
from sharpdp.mechanisms.composed import checked_group_size, in_groups, notion
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.questions.account import Guarantee

__all__ = ["Budget", "begins_anew", "check_counted", "counted_rounds"]

Kind: TypeAlias = "type[RenyiFilter] | type[ZcdpFilter] | type[GaussianFilter]"

FILTERS: dict[str, Kind] = {"renyi": RenyiFilter, "zcdp": ZcdpFilter, "gaussian": GaussianFilter}
"""The filters by name."""


@underflow_is_zero_in_methods
class Budget:
    """A budget for mechanisms that are chosen one after the other.

    One target: (epsilon, delta), or rho of zCDP, or mu of Gaussian DP, or a Renyi divergence of one
    order. If mechanisms are chosen after seeing earlier results (``choice="adaptive"``, the default), a
    filter adds up what may be added up then, and refuses what would exceed its limit; the whole
    interaction has the guarantee of `promise`. If they are fixed in advance (``choice="fixed"``), they
    are composed exactly against (epsilon, delta). What is ``expected`` is set aside: its parts may be
    run in any order or not at all, and cost what the whole of it costs.

    A budget can be pickled and copied, and says then that it is a copy: what is spent in a copy is not
    counted in the original, nor the other way around. Spend real releases in one of them only, or keep a
    `Ledger`, which all processes share.

    There is no filter for a trade-off function: continuing as long as the composed trade-off function is
    above a target is unsound (arXiv 2602.06756), so ``tradeoff=`` is refused.

    Args:
        epsilon: Target epsilon, above 0, with delta.
        delta: Target delta, in (0, 1), with epsilon.
        rho: Target rho of zCDP, above 0.
        mu: Target mu of Gaussian DP, above 0; for Gaussian noise only.
        order: Order of the Renyi divergence, above 1: with `divergence` the target, with epsilon and
            delta the order of the filter.
        divergence: Target of the Renyi divergence of that order, above 0.
        choice: "adaptive" (default) or "fixed".
        expected: For (epsilon, delta) and adaptive choices: a mechanism that is expected to be run, which
            is set aside and so costs no more than it does by itself. The rest of the budget is for
            everything else, in the order that suits it. None for a filter of several orders.
        filter_kind: For (epsilon, delta) and adaptive choices: "renyi" (default; every mechanism with a
            finite Renyi divergence), "zcdp" (Gaussian noise and pure DP) or "gaussian" (Gaussian noise
            only; nothing is lost against a fixed plan).
        adjacency: Which data sets are neighbors; None for the default of each mechanism, which must
            agree.
        group_size: How many records one protected unit has in a mechanism, 1 to 1000; `spend` may say
            another number for one mechanism.
        unit: What is protected, in a word or two: "record" (default), "user", "household". It says what
            group sizes count the records of.
        tradeoff: Not accepted; see above.

    Raises:
        InvalidArgument: there is no target or more than one, or a number is out of range.
        WrongType: an argument has the wrong type.
        Unsupported: a trade-off function is given as target.

    >>> from sharpdp.mechanisms import Gaussian
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> budget.spend(Gaussian(noise_multiplier=10.0))
    >>> budget.affordable(Gaussian(noise_multiplier=10.0)), f"{budget.remaining():.3f}"
    (3, '0.777')
    >>> budget.spend(Gaussian(noise_multiplier=2.0))
    Traceback (most recent call last):
    sharpdp.errors.BudgetExceeded: Gaussian noise (noise multiplier 2) would exceed the budget: it costs
    2.787 (Renyi divergence of order 22.2971), 0.1115 of 0.4999 are spent. Nothing was spent.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        order: float | None = None,
        divergence: float | None = None,
        choice: str = "adaptive",
        expected: Mechanism | None = None,
        filter_kind: str = "renyi",
        adjacency: Adjacency | str | None = None,
        group_size: int = 1,
        unit: str = "record",
        tradeoff: object = None,
    ) -> None:
        """Fix the target, the filter and the neighbors before anything is spent."""
        if tradeoff is not None:
            raise Unsupported(
                "tradeoff cannot be the target of a filter: adding up trade-off functions of mechanisms "
                "that are chosen adaptively, and stopping at a target, is unsound (arXiv 2602.06756). "
                "Give epsilon and delta, rho, mu or a Renyi divergence; or fix the mechanisms in advance "
                "and compare account(a + b).tradeoff() with the target."
            )
        if not is_among(tuple(FILTERS), filter_kind):
            raise invalid("filter_kind", ", ".join(map(repr, FILTERS)), filter_kind)
        targets = {"epsilon": epsilon, "rho": rho, "mu": mu, "divergence": divergence}
        target_names = [name for name, value in targets.items() if value is not None]
        if len(target_names) != 1:
            raise InvalidArgument(
                "a budget must have one target: epsilon (with delta), rho, mu, or divergence (with "
                f"order); got {' and '.join(target_names) or 'none'}."
            )
        self.choice = checked_choice(choice)
        self.epsilon = None if epsilon is None else positive(epsilon=epsilon)
        self.delta = None if delta is None else open_probability(delta=delta)
        if (epsilon is None) != (delta is None):
            raise InvalidArgument(
                "epsilon and delta must be given together, and only for that target."
            )
        self._adjacency = None if adjacency is None else notion(adjacency)
        self._group_size = checked_group_size(group_size)
        self.unit = one_line(unit=unit)
        self.is_copy = False
        self.filter = self._filter(rho, mu, order, divergence, expected, filter_kind)
        self._mutex = threading.Lock()
        self._releases: list[tuple[Mechanism, int]] = []
        self._meter = None if self.filter is None else Meter.begun(self.filter)

    def _filter(
        self,
        rho: float | None,
        mu: float | None,
        order: float | None,
        divergence: float | None,
        expected: Mechanism | None,
        filter_kind: str,
    ) -> Filter | AdaptiveFilter | None:
        if expected is not None:
            self._check_expected(expected, filter_kind)
        if self.choice == "fixed":
            if self.epsilon is None:
                raise InvalidArgument(
                    "epsilon and delta must be the target if mechanisms are fixed in advance: rho, mu "
                    "and divergences add up whatever the choice."
                )
            return None
        if (
            order is not None
            and divergence is None
            and (self.epsilon is None or filter_kind != "renyi")
        ):
            raise InvalidArgument("order must be given with a divergence, or for a Renyi filter.")
        if rho is not None:
            return ZcdpFilter(positive(rho=rho))
        if mu is not None:
            return GaussianFilter(positive(mu=mu) ** 2)
        if divergence is not None:
            if order is None:
                raise InvalidArgument("order must be given with a divergence; got none.")
            return RenyiFilter(positive(divergence=divergence), renyi_order(order=order))
        assert self.epsilon is not None
        assert self.delta is not None
        if filter_kind == "renyi":
            made = AdaptiveFilter.for_target(
                epsilon=self.epsilon,
                delta=self.delta,
                order=order,
                expected=expected,
                adjacency=self._adjacency,
                group_size=self._group_size,
            )
            if made.adjacency not in (None, str(Adjacency.NEIGHBORS)):
                self._adjacency = notion(made.adjacency)
            return made
        kind = ZcdpFilter if filter_kind == "zcdp" else GaussianFilter
        return kind.for_target(epsilon=self.epsilon, delta=self.delta)

    def _check_expected(self, expected: object, filter_kind: str) -> None:
        if not isinstance(expected, Mechanism):
            raise WrongType(f"expected must be a mechanism; got {short_repr(expected)}.")
        if self.choice == "fixed" or self.epsilon is None or filter_kind != "renyi":
            raise InvalidArgument(
                "expected must be given with epsilon and delta, adaptive choices and the Renyi filter; "
                f"got {expected.describe()}. Everything else adds up whatever is expected."
            )

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock, for a copy in this process or another one."""
        with self._mutex:
            state = dict(self.__dict__, _releases=list(self._releases), is_copy=True)
        del state["_mutex"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy, with a lock of its own."""
        self.__dict__.update(state)
        self._mutex = threading.Lock()

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """All that was spent, in order."""
        return tuple(mechanism for mechanism, _ in self._releases)

    def spend(self, mechanism: Mechanism, *, group_size: int | None = None) -> None:
        """Count one mechanism. Call it before the mechanism is run.

        Args:
            mechanism: What is to be run.
            group_size: How many records one protected unit has in it; None for that of the budget.

        Raises:
            BudgetExceeded: it would exceed the budget. Nothing was spent.
            InvalidArgument: group_size is out of range.
            WrongType: it is not a mechanism.
            Unsupported: nothing finite is known about it in the filter's quantity.
        """
        with self._mutex:
            size = self._size(group_size)
            adjacency, meter = self._after(mechanism, size)
            if self._exceeds(mechanism, size, meter):
                raise BudgetExceeded(self._refusal(mechanism, meter))
            self._releases.append((mechanism, size))
            self._adjacency, self._meter = adjacency, meter

    def would_exceed(self, mechanism: Mechanism, *, group_size: int | None = None) -> bool:
        """Whether one more mechanism would exceed the budget, or cannot be shown not to.

        Args:
            mechanism: What would be run.
            group_size: How many records one protected unit has in it; None for that of the budget.

        Returns:
            False if the budget certainly allows it.

        Raises:
            InvalidArgument: group_size is out of range.
            WrongType: it is not a mechanism.
            Unsupported: nothing finite is known about it in the filter's quantity.
        """
        size = self._size(group_size)
        return self._exceeds(mechanism, size, self._after(mechanism, size)[1])

    def affordable(self, mechanism: Mechanism, *, group_size: int | None = None) -> int:
        """How many more times a mechanism could be run within the budget.

        Args:
            mechanism: What would be run.
            group_size: How many records one protected unit has in it; None for that of the budget.

        Returns:
            The largest number that is certainly allowed, at most 10^9.

        Raises:
            InvalidArgument: group_size is out of range.
            WrongType: it is not a mechanism.
            Unsupported: nothing finite is known about it in the filter's quantity.
        """
        size = self._size(group_size)
        if self.would_exceed(mechanism, group_size=size):
            return 0
        low, high = 1, 2
        while high <= MOST_RUNS and not self.would_exceed(mechanism * high, group_size=size):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            is_more = self.would_exceed(mechanism * middle, group_size=size)
            low, high = (low, middle) if is_more else (middle, high)
        return min(low, MOST_RUNS)

    def remaining(self) -> float:
        """The share of the budget that is left: of the filter's limit, or of epsilon for fixed plans.

        Where several orders share delta it is the share at the one that leaves most. What is expected
        has the share of the budget that its epsilon has, and as much of it is left as of its parts.

        Returns:
            From 1 at first to 0.
        """
        if self._meter is not None:
            return max(1.0 - self._meter.used, 0.0)
        assert self.epsilon is not None
        if not self._releases:
            return 1.0
        spent = float(self.promise().epsilon(delta=self.delta or 0.0).upper)
        return max(1.0 - spent / self.epsilon, 0.0)

    def promise(self) -> Guarantee:
        """The claim: with a filter the whole interaction at its limit, else the mechanisms that were run.

        Returns:
            The Guarantee; of fixed plans it has both sides.

        Raises:
            InvalidArgument: mechanisms are fixed in advance, and none was spent yet.
        """
        if self.filter is not None:
            return self.filter.promise(adjacency=self._adjacency)
        if not self._releases:
            raise InvalidArgument(
                "a budget of fixed plans must have one; got none. Spend it first."
            )
        return self._composed(self._releases)

    def odometer(self, *, delta: float | None = None) -> float:
        """A bound on the privacy loss so far that holds at all times at once, with probability 1 - delta.

        Args:
            delta: Probability that some reading is ever wrong; None takes that of the target.

        Returns:
            The reading, in units of epsilon.

        Raises:
            InvalidArgument: there is no delta.
            Unsupported: the budget has no Renyi filter.
        """
        if not isinstance(self.filter, AdaptiveFilter | RenyiFilter) or self._meter is None:
            raise Unsupported("an odometer needs an adaptive budget with a Renyi filter.")
        share = self.delta if delta is None else delta
        if share is None:
            raise InvalidArgument("delta must be given for this target; got none.")
        if isinstance(self.filter, RenyiFilter):
            return self.filter.odometer(*self._meter.spent, delta=share)
        return self.filter.odometer(self._meter.spent, delta=share)

    def __repr__(self) -> str:
        """The limit, what is left, and for whom."""
        what = self.filter.quantity if self.filter is not None else "releases fixed in advance"
        left = f"{percent(self.remaining(), ROUND_FLOOR)} left"
        copied = ", a copy that counts by itself" if self.is_copy else ""
        return f"Budget({what}: {len(self._releases)} spent, {left} for one {self.unit}{copied})"

    def _size(self, group_size: int | None) -> int:
        return self._group_size if group_size is None else checked_group_size(group_size)

    def _after(self, mechanism: object, group_size: int) -> tuple[Adjacency | None, Meter | None]:
        """The notion of neighbors from now on, and the meter after one more mechanism."""
        if not isinstance(mechanism, Mechanism):
            raise WrongType(f"mechanism must be a mechanism; got {short_repr(mechanism)}.")
        try:
            adjacency = mechanism.adjacency(self._adjacency)
        except Unsupported as fault:
            spent = [run for run, _ in self._releases]
            raise Unsupported(f"{fault} {next_step('budget', [*spent, mechanism])}") from fault
        notion = self._adjacency if adjacency is Adjacency.NEIGHBORS else adjacency
        if self._meter is None:
            return notion, None
        return notion, self._meter.after(mechanism, adjacency=notion, group_size=group_size)

    def _exceeds(self, mechanism: Mechanism, group_size: int, meter: Meter | None) -> bool:
        if meter is not None:
            return meter.exceeded
        assert self.epsilon is not None
        assert self.delta is not None
        answer = self._composed([*self._releases, (mechanism, group_size)])
        return not fits(answer, epsilon=self.epsilon, delta=self.delta)

    def _composed(self, releases: list[tuple[Mechanism, int]]) -> Guarantee:
        parts = [
            part * times
            for mechanism, size in releases
            for part, times in in_groups(mechanism.parts(), size)
        ]
        return by_our_theorems(Sequence(parts), adjacency=self._adjacency)

    def _refusal(self, mechanism: Mechanism, meter: Meter | None) -> str:
        what = f"{mechanism.describe()} would exceed the budget"
        if meter is None or self._meter is None:
            return (
                f"{what} of epsilon={self.epsilon:g} at delta={self.delta:g}, together with "
                f"{len(self._releases)} before it. Nothing was spent."
            )
        return f"{what}: {meter.refusal(self._meter)}. Nothing was spent."


def counted_rounds(
    budget: Budget | Ledger,
    begun: Callable[[int], Mechanism],
    most: int,
    *,
    note: str = "",
    key: str | None = None,
    run: bytes | None = None,
    batches: bytes | None = None,
    group_size: int | None = None,
    done: int = 0,
) -> int:
    """Count as many rounds of a run as a budget allows, before the first of them is run.

    The run is one mechanism: what is chosen from round to round is its own affair. A ledger that has
    counted this run before does not count it again. It knows the run by ``run``: another run under its
    name is refused, and so is this run under another name. Without ``run``, a name stands only for a run
    of which some rounds are done.

    Args:
        budget: A `Budget` or a `Ledger`.
        begun: The mechanism of the first rounds, by their number; more rounds reveal more.
        most: Number of rounds of the whole run.
        note: What the ledger says about it.
        key: Name under which a ledger counts the run once.
        run: What the run has in common with its resumed self and with no other run, such as its secret
            key: at least 16 bytes, of which a ledger keeps a fingerprint. None if there is nothing.
        batches: The key that batches are drawn from, at least 16 bytes, which a ledger refuses to every
            other run. None if there is none.
        group_size: How many records one protected unit has in the run; None for that of the budget.
        done: Number of rounds that were run already, which a ledger must have counted.

    Returns:
        The number of rounds that were counted, at least 1.

    Raises:
        BudgetExceeded: not even one round is allowed.
        InvalidArgument: the key is that of another run, another run drew the same batches, or rounds were
            run before that no ledger has counted.
        WrongType: budget is neither of these.
        Unsupported: nothing finite is known about the run in the filter's quantity.

    >>> from sharpdp.mechanisms import Gaussian
    >>> counted_rounds(Budget(mu=1.0), lambda rounds: Gaussian(4.0) * rounds, 100)
    16
    """
    if not isinstance(budget, Budget | Ledger):
        raise WrongType(f"budget must be a Budget or a Ledger; got {short_repr(budget)}.")
    if isinstance(budget, Ledger):
        entry = budget.counted(key=key, run=run, by_name=done > 0)
        if entry is not None:
            return _counted_before(entry, begun, most, group_size)
    if done:
        raise InvalidArgument(
            "budget must be given before the run begins, or with the key under which a ledger has "
            f"counted it; got it after {done}."
        )

    def exceeds(rounds: int) -> bool:
        return budget.would_exceed(begun(rounds), group_size=group_size)

    allowed = bisect_left(range(1, most + 1), True, key=exceeds)  # noqa: FBT003
    mechanism = begun(max(allowed, 1))
    if isinstance(budget, Ledger):
        budget.add(mechanism, note=note, key=key, run=run, batches=batches, group_size=group_size)
    else:
        budget.spend(mechanism, group_size=group_size)
    return allowed


def begins_anew(number: int) -> str:
    """The error if a run that was counted as this release begins again from the start."""
    return (
        f"key must be a fresh one for a run that begins anew; got that of release {number}. With the "
        "same key batches are the same, and noise is fresh wherever sums differ: together that is more "
        "than one run. Resume the run from its checkpoint, or leave key out and choose another name."
    )


def check_counted(counted: int | None, most: int, rounds: str) -> None:
    """Refuse to go on with a run of which no more rounds were counted in a budget.

    Args:
        counted: What `counted_rounds` returned; None if there is no budget.
        most: Number of rounds of the whole run.
        rounds: What they are called, such as "steps".

    Raises:
        BudgetExceeded: Fewer rounds were counted than the run has.
    """
    if counted is not None and counted < most:
        raise BudgetExceeded(
            f"the budget allows {counted} {rounds} of this run, all of which were begun. Nothing was run."
        )


def _counted_before(
    entry: Entry, begun: Callable[[int], Mechanism], most: int, group_size: int | None
) -> int:
    """The rounds of this run that an entry of a ledger stands for."""
    rounds = _rounds(entry.mechanism)
    if rounds is None or rounds > most or begun(rounds) != entry.mechanism:
        raise InvalidArgument(
            f"key must be that of this run; got {entry.key!r}, which is release {entry.number}: "
            f"{entry.mechanism.describe()}."
        )
    if group_size is not None and checked_group_size(group_size) != entry.group_size:
        raise InvalidArgument(
            f"group_size must be {entry.group_size}, with which this run is release {entry.number}; got "
            f"{group_size}. What was counted does not change."
        )
    return rounds


def _rounds(mechanism: Mechanism) -> int | None:
    """The number of steps or rounds that a run has, if it says it."""
    scheme = getattr(mechanism, "batches", None)
    for owner, name in ((scheme, "steps"), (mechanism, "rounds"), (mechanism, "epochs")):
        value = getattr(owner, name, None)
        if isinstance(value, int):
            return value
    return None
