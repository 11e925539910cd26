"""A ledger: every release on the same people, in one file, with what it all costs together."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sharpdp import notebook
from sharpdp._validate import (
    invalid,
    is_among,
    one_line,
    open_probability,
    positive,
    renyi_order,
    short_repr,
)
from sharpdp.accounting import Guarantee, account
from sharpdp.batches.scheme import pluralize
from sharpdp.bracket import Bracket, Rigor
from sharpdp.budget.filters import RenyiFilter
from sharpdp.errors import BudgetExceeded, InvalidArgument, SharpDPError, Unsupported, WrongType
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.mechanisms import Sequence as InSequence
from sharpdp.mechanisms.composed import checked_group_size, in_groups, notion
from sharpdp.nearest_word import hint
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.plans import Plan, text_of
from sharpdp.plans.plain_data import mechanism_from_data
from sharpdp.report import Verdict, verify
from sharpdp.storage.hash_chain import Break, HashChain
from sharpdp.storage.run_lock import free_path_of, path_of
from sharpdp.tabular import Tabular

__all__ = ["CHOICES", "Entry", "Ledger", "file_plan"]

CHOICES = ("adaptive", "fixed in advance")
"""How releases were chosen: after seeing earlier results, or before seeing any."""

FORMAT = 1
"""Counts the changes of the format that a reader must know of."""

MOST_RUNS = 10**9
"""How many runs `affordable` looks for at most."""


@dataclass(frozen=True)
class Entry:
    """One release in a ledger.

    Args:
        number: Its place among the releases, from 1 on.
        mechanism: What was run.
        adjacency: The neighbors of its plan, in words.
        group_size: Records that one protected unit has in it.
        note: What it was, in one line.
        cohort: The cohort whose data it used; None for everybody's.
        time: When it was added, as ISO 8601 in UTC.
        key: A name under which it is counted once; None if it has none.
        plan_hash: SHA-256 of its plan.
        report_hash: SHA-256 of the report file that came with it; None if there was none.
        cost: Its Renyi divergence in an adaptive ledger; None in one that is fixed in advance.
        exceeded: Whether it was added although the budget did not allow it.
    """

    number: int
    mechanism: Mechanism
    adjacency: str
    group_size: int
    note: str
    cohort: str | None
    time: str
    key: str | None
    plan_hash: str
    report_hash: str | None
    cost: float | None
    exceeded: bool

    def describe(self) -> str:
        """The release in one line."""
        whom = f", cohort {self.cohort}" if self.cohort is not None else ""
        groups = f", {self.group_size} records each" if self.group_size > 1 else ""
        note = f" ({self.note})" if self.note else ""
        over = ", beyond the budget" if self.exceeded else ""
        return f"{self.number}. {self.time} {self.mechanism.describe()}{note}{whom}{groups}{over}"


@underflow_is_zero_in_methods
class Ledger(Tabular):
    """All releases on the same people, in a file that is only appended to.

    A file that does not exist is begun with the given budget; one that exists is opened, and what is
    given must agree with it. Lines are bound to each other by hashes, written under a lock and flushed to
    the disk: processes that add at the same time wait for each other, and a crash loses nothing that was
    counted. A file that was changed is refused with the line at which its chain breaks.

    **How releases are chosen** decides what may be claimed:

    - "adaptive" (default): the next release, its noise included, may depend on all earlier results. Then
      only a filter is sound: a Renyi divergence of an order that is fixed when the ledger is begun adds
      up, and releases that would exceed the limit are refused. The claim is the budget itself.
    - "fixed in advance": the list of releases does not depend on results (a plan, a schedule). Then they
      are composed exactly, with both sides, and the claim is the composed epsilon, which is smaller.

    **Whom it is about.** Neighbors differ in one protected unit. `group_size` says how many records a
    unit has in a release. Cohorts are disjoint groups of people, fixed without looking at the protected
    data: a release on one of them costs nothing for the others, and the total is that of the worst
    cohort.

    Args:
        path: The file, in a folder that exists.
        epsilon: The budget at `delta`, above 0; needed for a new ledger.
        delta: The delta of the budget, in (0, 1); needed for a new ledger.
        choice: "adaptive" or "fixed in advance"; None means adaptive for a new ledger.
        adjacency: Which data sets are neighbors, in words such as "replace-one". None takes what the
            plans of all releases say, or else a notion for which all of them have a theorem; in an
            adaptive ledger what the first release says, which must not depend on results.
        unit: What is protected, in a word or two, such as "person"; "record" by default.
        order: Order of the Renyi filter of an adaptive ledger; None takes one that suits Gaussian noise.

    Raises:
        InvalidArgument: a value is out of range, does not agree with the file, or the file is damaged.
        WrongType: a value has the wrong type.

    >>> from tempfile import mkdtemp
    >>> from sharpdp.mechanisms import Gaussian
    >>> ledger = Ledger(
    ...     Path(mkdtemp()) / "budget.jsonl", epsilon=3.0, delta=1e-6, choice="fixed in advance"
    ... )
    >>> _ = ledger.add(Gaussian(noise_multiplier=4.0), note="first table")
    >>> print(f"{ledger.total():.3f}", ledger.would_exceed(Gaussian(noise_multiplier=1.0)))
    1.060 to 1.061 True
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        choice: str | None = None,
        adjacency: Adjacency | str | None = None,
        unit: str | None = None,
        order: float | None = None,
    ) -> None:
        """Open the ledger, or begin it."""
        said = {
            "epsilon": None if epsilon is None else positive(epsilon=epsilon),
            "delta": None if delta is None else open_probability(delta=delta),
            "choice": _checked_choice(choice),
            "adjacency": None if adjacency is None else str(notion(adjacency)),
            "unit": None if unit is None else one_line(unit=unit),
            "order": None if order is None else renyi_order(order=order),
        }
        self._chain = HashChain(free_path_of(path=path))
        self._mutex = threading.RLock()
        self._entries: list[Entry] = []
        self._totals: dict[Any, Guarantee] = {}
        if not self._chain.exists():
            with self._chain.locked():
                if not self._chain.exists():  # nobody else has begun it meanwhile
                    self._chain.append(_begun(said))
        self._header = self._read_header()
        for name, value in said.items():
            if value is not None and value != self._header[name]:
                raise InvalidArgument(
                    f"{name} must be that of the ledger at {str(self.path)!r}, "
                    f"{self._header[name]!r}; got {value!r}. A budget is fixed when a ledger is begun."
                )
        self._refresh()

    @property
    def path(self) -> Path:
        """Where the ledger is kept."""
        return self._chain.path

    @property
    def epsilon(self) -> float:
        """The budget at `delta`."""
        return float(self._header["epsilon"])

    @property
    def delta(self) -> float:
        """The delta of the budget."""
        return float(self._header["delta"])

    @property
    def choice(self) -> str:
        """How releases are chosen: "adaptive" or "fixed in advance"."""
        return str(self._header["choice"])

    @property
    def unit(self) -> str:
        """What is protected."""
        return str(self._header["unit"])

    @property
    def head(self) -> str:
        """Hash of the last line: keep it elsewhere to prove later that nothing before was changed."""
        self._refresh()
        return self._chain.head

    @property
    def filter(self) -> RenyiFilter | None:
        """The filter of an adaptive ledger; None for one that is fixed in advance."""
        if self.choice != "adaptive":
            return None
        return RenyiFilter(float(self._header["limit"]), float(self._header["order"]))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All releases, in the order in which they were added."""
        self._refresh()
        return tuple(self._entries)

    @property
    def cohorts(self) -> tuple[str, ...]:
        """The cohorts that releases were about, in order of appearance."""
        return tuple(dict.fromkeys(e.cohort for e in self.entries if e.cohort is not None))

    def add(
        self,
        release: Mechanism | Plan | str | Path,
        *,
        note: str = "",
        cohort: str | None = None,
        group_size: int | None = None,
        time: str | None = None,
        key: str | None = None,
        despite_budget: bool = False,
    ) -> Entry:
        """Count one release. Call it before the release: what is not counted must not be released.

        Args:
            release: What is run: a mechanism, a `Plan`, or the name of a plan file or of a report. A
                report is verified first, and is refused unless all of it is confirmed.
            note: What it is for, in one line.
            cohort: Name of the cohort whose data it uses; None (default) for everybody's.
            group_size: Records that one protected unit has in it, 1 to 1000; None takes that of the plan,
                which is 1 for a mechanism.
            time: When, as ISO 8601; None for now.
            key: A name for this release. A release whose key is in the ledger is not counted again, so
                that a program that was killed may repeat what it does not remember.
            despite_budget: True counts what has been released already, although it exceeds the budget.

        Returns:
            The entry; it is on the disk.

        Raises:
            BudgetExceeded: it would exceed the budget. Nothing was counted.
            InvalidArgument: a value is out of range, the report is not confirmed, the key belongs to
                another release, or the file cannot be written.
            WrongType: a value has the wrong type.
            Unsupported: no theorem covers the release together with the others, or its cost in the
                filter is infinite, or it cannot be written as a plan.
        """
        plan, report_hash = _plan_of(release)
        if group_size is not None:
            plan = replace(plan, group_size=checked_group_size(group_size))
        record: dict[str, Any] = {
            "kind": "release",
            "plan": plan.to_dict(),
            "plan_hash": plan.hash,
            "note": one_line(note=note),
            "cohort": None if cohort is None else _named(cohort=cohort),
            "time": _moment(time=time),
            "key": None if key is None else _named(key=key),
            "report_hash": report_hash,
        }
        with self._mutex, self._chain.locked():
            self._refresh()
            for entry in self._entries:
                if entry.key is not None and entry.key == record["key"]:
                    return self._repeated(entry, record)
            new = self._costed(_entry(record, len(self._entries) + 1))
            new = replace(new, exceeded=self._exceeds(new))
            if new.exceeded and not despite_budget:
                raise BudgetExceeded(self._refusal(new))
            self._chain.append({**record, "cost": new.cost, "exceeded": new.exceeded})
            self._refresh()
            return self._entries[-1]

    def would_exceed(
        self,
        release: Mechanism | Plan | str | Path,
        *,
        cohort: str | None = None,
        group_size: int | None = None,
    ) -> bool:
        """Whether one more release would exceed the budget, or cannot be shown not to.

        Args:
            release: What would be run, as in `add`.
            cohort: The cohort whose data it would use; None for everybody's.
            group_size: Records that one protected unit has in it.

        Returns:
            False if the budget certainly allows it.

        Raises:
            InvalidArgument: a value is out of range, or the report is not confirmed.
            WrongType: a value has the wrong type.
            Unsupported: no theorem covers it together with the others.
        """
        self._refresh()
        return self._exceeds(self._proposed(release, cohort, group_size, 1))

    def affordable(
        self,
        release: Mechanism | Plan | str | Path,
        *,
        cohort: str | None = None,
        group_size: int | None = None,
    ) -> int:
        """How many more times a release could be made within the budget.

        Args:
            release: What would be run, as in `add`.
            cohort: The cohort whose data it would use; None for everybody's.
            group_size: Records that one protected unit has in it.

        Returns:
            The largest number that is certainly allowed, at most 10^9.

        Raises:
            InvalidArgument: a value is out of range, or the report is not confirmed.
            WrongType: a value has the wrong type.
            Unsupported: no theorem covers it together with the others.
        """
        self._refresh()

        def allowed(times: int) -> bool:
            return not self._exceeds(self._proposed(release, cohort, group_size, times))

        if not allowed(1):
            return 0
        low, high = 1, 2
        while high <= MOST_RUNS and allowed(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return min(low, MOST_RUNS)

    def total(
        self, *, cohort: str | None = None, since: str | None = None, until: str | None = None
    ) -> Bracket:
        """What all releases cost together: epsilon at the delta of the budget.

        Fixed in advance: the composed bracket. Adaptive: the upper end is the budget that the filter
        promises, whatever was chosen (infinite if releases were counted despite the budget), and the
        lower end is what these releases attain if they were chosen without looking.

        Args:
            cohort: One cohort; None for the worst one.
            since: Count releases from this time on, as ISO 8601; None from the beginning.
            until: Count releases before this time; None until now.

        Returns:
            The bracket. Its context says which claim it makes.

        Raises:
            InvalidArgument: there is no such cohort.
            Unsupported: no theorem covers all releases under one notion of neighbors.
        """
        self._refresh()
        start = None if since is None else _moment(since=since)
        end = None if until is None else _moment(until=until)
        entries = [e for e in self._entries if _within(e.time, start, end)]
        groups = self._groups(entries, cohort)
        brackets = [self._composed(group) for group in groups]
        lower = max(float(bracket.lower) for bracket in brackets)
        upper = max(float(bracket.upper) for bracket in brackets)
        rigor = Rigor.weakest(bracket.rigor for bracket in brackets)
        about = self._guarantee(groups[0] or entries).neighbors if entries else self.unit
        claim = f"{len(entries)} release{'s' if len(entries) != 1 else ''} {self.choice}"
        if self.filter is not None:
            spent = max(self._spent(group) for group in groups)
            within = spent <= self.filter.limit and not any(e.exceeded for e in entries)
            upper = max(self.epsilon if within else math.inf, lower) if entries else 0.0
            share = spent / self.filter.limit
            claim += f" ({self.filter.quantity}, {100 * share:.1f}% of the limit)"
        context = f"at delta={self.delta:g} | {claim}, {about}"
        return Bracket(lower, max(upper, lower), rigor, "epsilon", context)

    def remaining(self, *, cohort: str | None = None) -> Bracket:
        """The share of the budget that is left: 1 at first, 0 when nothing is.

        In an adaptive ledger it is the share of the filter's limit. In one that is fixed in advance it is
        1 - epsilon / budget, which is no sum: ask `affordable` how much more can be run.

        Args:
            cohort: One cohort; None for the worst one.

        Returns:
            A bracket within [0, 1].

        Raises:
            InvalidArgument: there is no such cohort.
            Unsupported: no theorem covers all releases under one notion of neighbors.
        """
        context = f"| {len(self.entries)} releases {self.choice}"
        if self.filter is not None:
            spent = max(self._spent(group) for group in self._groups(self._entries, cohort))
            left = max(1.0 - spent / self.filter.limit, 0.0)
            return Bracket(left, left, quantity="remaining", context=context)
        total = self.total(cohort=cohort)
        low, high = (
            max(1.0 - float(end) / self.epsilon, 0.0) for end in (total.upper, total.lower)
        )
        return Bracket(low, high, total.rigor, "remaining", context)

    def odometer(self, *, cohort: str | None = None) -> float:
        """A bound on the privacy loss of all adaptive releases so far that holds at all times at once.

        With probability at least 1 - delta no reading is ever exceeded, however releases are chosen and
        whenever it is read.

        Args:
            cohort: One cohort; None for the worst one.

        Returns:
            The reading, in units of epsilon.

        Raises:
            InvalidArgument: there is no such cohort.
            Unsupported: the releases are fixed in advance; `total` is their reading.
        """
        if self.filter is None:
            raise Unsupported("an odometer is for adaptive ledgers; total() is for fixed releases.")
        spent = max(self._spent(group) for group in self._groups(self.entries, cohort))
        return self.filter.odometer(spent, delta=self.delta)

    def checkpoint(self) -> Bracket:
        """Write the present total into the ledger, so that `verify` can compare it later.

        Returns:
            The total.

        Raises:
            InvalidArgument: the file cannot be written.
            Unsupported: no theorem covers all releases under one notion of neighbors.
        """
        with self._mutex, self._chain.locked():
            self._refresh()
            total = self.total()
            ends = [float(end) for end in (total.lower, total.upper)]
            record = {
                "kind": "checkpoint",
                "releases": len(self._entries),
                "time": _moment(time=None),
                "epsilon": [str(end) if math.isinf(end) else end for end in ends],
            }
            self._chain.append(record)
            self._refresh()
        return total

    @staticmethod
    def verify(path: str | Path) -> tuple[str, ...]:
        """Look at every line of a ledger, and compute its checkpoints again.

        Args:
            path: The file of a ledger.

        Returns:
            What is wrong, one sentence each; nothing if all is well. An unfinished last line is named: an
            add that was interrupted, and was not counted.

        Raises:
            InvalidArgument: the file cannot be read.
            WrongType: path is no path.
        """
        chain = HashChain(path_of(path=path))
        if not chain.exists():
            raise InvalidArgument(
                f"path must be that of a ledger; got {str(path)!r}: no such file."
            )
        found: Break | None = chain.first_break()
        problems = [str(found)] if found is not None else []
        if found is not None and not found.unfinished:
            return tuple(problems)
        try:
            ledger = Ledger(path)
        except SharpDPError as fault:
            return (*problems, str(fault))
        for line, record in enumerate(chain.records, 1):
            if record["kind"] == "checkpoint":
                problems += ledger._checked_total(line, record)
        for entry in ledger.entries:
            problems += ledger._checked_cost(entry)
        return tuple(problems)

    def _checked_total(self, line: int, record: dict[str, Any]) -> list[str]:
        """What is wrong with a checkpoint."""
        then = Ledger.__new__(Ledger)
        then.__dict__.update(self.__dict__)
        then._entries, then._frozen = self._entries[: record["releases"]], True
        now = then.total()
        low, high = (float(end) for end in record["epsilon"])
        if low > float(now.upper) or high < float(now.lower):
            return [f"line {line}: the checkpoint says {low:g} to {high:g}; computed now: {now}"]
        return []

    def _checked_cost(self, entry: Entry) -> list[str]:
        """What is wrong with the cost that was added up."""
        if self.filter is None or entry.cost is None:
            return []
        now = float(self._costed(entry).cost or 0.0)
        if entry.cost < now * (1.0 - 1e-3):
            return [f"release {entry.number}: its cost is {entry.cost:g}; computed now: {now:g}"]
        return []

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The releases as dictionaries, in the order in which they were added.

        Args:
            **asked: Nothing more is asked.

        Returns:
            For each release its number, time, run, note, cohort, records per unit, cost in an adaptive
            ledger, and whether it was beyond the budget.
        """
        return [
            {
                "number": entry.number,
                "time": entry.time,
                "run": entry.mechanism.describe(),
                "note": entry.note,
                "cohort": entry.cohort,
                "group_size": entry.group_size,
                "cost": entry.cost,
                "exceeded": entry.exceeded,
            }
            for entry in self.entries
        ]

    def _repr_html_(self) -> str:
        """The ledger as a notebook shows it: the budget, what is left of it, and the last releases."""
        rows = self.records()
        budget = f"a budget of epsilon={self.epsilon:g} at delta={self.delta:g}, {self.choice}"
        left = f"{100.0 * math.floor(1000.0 * float(self.remaining().lower)) / 1000.0:.1f}% of {budget}"
        cells = [(str(row["number"]), row["time"], row["run"], row["note"]) for row in rows[-10:]]
        hidden = f"{len(rows) - 10} earlier releases are not shown" if len(rows) > 10 else ""
        return notebook.headline(f"{left} is left", str(self.path), hidden) + notebook.table(
            ("", "time", "release", "note"), cells
        )

    def __repr__(self) -> str:
        """Where it is, and what it allows."""
        return (
            f"Ledger({str(self.path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"choice={self.choice!r}: {pluralize(len(self.entries), 'release')})"
        )

    # reading

    _frozen = False

    def _read_header(self) -> dict[str, Any]:
        records = self._chain.read()
        header = records[0] if records else {}
        if header.get("kind") != "ledger" or header.get("format") != FORMAT:
            raise InvalidArgument(
                f"path must be that of a ledger; got {str(self.path)!r}, which is another file, or of a "
                "later version."
            )
        return header

    def _refresh(self) -> None:
        """Read what was appended since, by this process or another one."""
        if self._frozen:
            return
        with self._mutex:
            records = [r for r in self._chain.read() if r["kind"] == "release"]
            if len(records) < len(self._entries):
                self._entries = []
            for record in records[len(self._entries) :]:
                self._entries.append(_entry(record, len(self._entries) + 1))

    def _proposed(
        self, release: object, cohort: str | None, group_size: int | None, times: int
    ) -> Entry:
        plan, _ = _plan_of(release)
        if group_size is not None:
            plan = replace(plan, group_size=checked_group_size(group_size))
        if times > 1:
            plan = replace(plan, mechanism=plan.mechanism * times)
        record = {
            "plan": plan.to_dict(),
            "plan_hash": plan.hash,
            "note": "",
            "cohort": None if cohort is None else _named(cohort=cohort),
            "time": _moment(time=None),
            "key": None,
            "report_hash": None,
        }
        return self._costed(_entry(record, len(self._entries) + 1))

    def _costed(self, entry: Entry) -> Entry:
        """The release with its cost in the filter, if there is one."""
        if self.filter is None:
            return entry
        adjacency = self._notion([*self._entries[: entry.number - 1], entry])
        cost = self.filter.cost(entry.mechanism, adjacency=adjacency, group_size=entry.group_size)
        return replace(entry, cost=cost)

    def _repeated(self, entry: Entry, record: dict[str, Any]) -> Entry:
        if entry.plan_hash != record["plan_hash"] or entry.cohort != record["cohort"]:
            raise InvalidArgument(
                f"key must be new for another release; got {entry.key!r}, which is that of release "
                f"{entry.number}: {entry.mechanism.describe()}."
            )
        return entry

    # sums

    def _groups(self, entries: Sequence[Entry], cohort: str | None) -> list[list[Entry]]:
        """The releases that each cohort took part in."""
        known = list(dict.fromkeys(e.cohort for e in self._entries if e.cohort is not None))
        if cohort is not None and _named(cohort=cohort) not in known:
            ask = hint(cohort, known, f"There are {', '.join(known) or 'none'}.")
            raise InvalidArgument(f"cohort must be one of the ledger; got {cohort!r}.{ask}")
        chosen: Iterable[str | None] = [cohort] if cohort is not None else (known or [None])
        return [[e for e in entries if e.cohort in (None, name)] for name in chosen]

    def _spent(self, entries: Iterable[Entry]) -> float:
        """The sum of costs in the filter, rounded upwards."""
        costs = [float(entry.cost or 0.0) for entry in entries]
        return math.nextafter(math.fsum(costs), math.inf) if costs else 0.0

    def _exceeds(self, new: Entry) -> bool:
        """Whether the budget may be exceeded with one more release."""
        together = [*self._entries, new]
        # everybody is in a release without a cohort; one with a cohort leaves the others alone
        cohort = new.cohort
        names: set[str | None] = {e.cohort for e in together if e.cohort is not None}
        affected = (names or {None}) if cohort is None else {cohort}
        groups = [[e for e in together if e.cohort in (None, name)] for name in affected]
        if self.filter is not None:
            return any(self._spent(group) > self.filter.limit for group in groups)
        return any(
            float(self._guarantee(group).epsilon(delta=self.delta).upper) > self.epsilon
            for group in groups
        )

    def _composed(self, entries: Sequence[Entry]) -> Bracket:
        if not entries:
            return Bracket(0.0, 0.0)
        return self._guarantee(entries).epsilon(delta=self.delta)

    def _guarantee(self, entries: Sequence[Entry]) -> Guarantee:
        """The guarantee of some releases together."""
        parts = tuple(
            piece
            for entry in entries
            for piece in in_groups(entry.mechanism.parts(), entry.group_size)
        )
        adjacency = self._notion(entries)
        known = (parts, adjacency)
        if known not in self._totals:
            together = InSequence([part * times for part, times in parts])
            if len(self._totals) > 32:
                self._totals.clear()
            self._totals[known] = account(together, adjacency=adjacency)
        return self._totals[known]

    def _notion(self, entries: Sequence[Entry]) -> str | None:
        """The notion of neighbors of some releases; None where `Sequence` is to find a common one.

        In an adaptive ledger it is that of the first release that states one: a later release does not
        change what was promised before.
        """
        if self._header["adjacency"] is not None:
            return str(self._header["adjacency"])
        every = self._entries if self.filter is not None and self._entries else entries
        stated = [
            e.adjacency for e in (*every, *entries) if e.adjacency != str(Adjacency.NEIGHBORS)
        ]
        if self.filter is not None:
            return stated[0] if stated else None
        return stated[0] if len(set(stated)) == 1 else None

    def _refusal(self, new: Entry) -> str:
        """Why a release is not counted, with numbers."""
        what = f"{new.mechanism.describe()} would exceed the budget of epsilon={self.epsilon:g} at "
        what += f"delta={self.delta:g}"
        if self.filter is not None:
            others = [
                e for e in self._entries if new.cohort is None or e.cohort in (None, new.cohort)
            ]
            spent = self._spent(others)
            return (
                f"{what}: it costs {new.cost:.4g} ({self.filter.quantity}), {spent:.4g} of "
                f"{self.filter.limit:.4g} are spent. Nothing was counted."
            )
        return f"{what}: {len(self._entries)} releases are in the ledger. Nothing was counted."


def file_plan(path: str | Path) -> tuple[Plan, str | None]:
    """The plan in a plan file or in a report, and the hash of the report, which is verified first.

    Args:
        path: A plan (.toml or .json) or a report (.json or .html).

    Returns:
        The plan; and the SHA-256 of the file if it is a report.

    Raises:
        InvalidArgument: It is neither, or a field of the report is not confirmed.
    """
    file = Path(path)
    if file.suffix.lower() not in (".json", ".html", ".htm"):
        return Plan.read(file), None
    text = text_of(file, "plan or report")
    if file.suffix.lower() == ".json" and '"mechanism"' in text and '"tradeoff"' not in text:
        return Plan.read(file), None
    verification = verify(text)
    if verification.verdict is not Verdict.CONFIRMED or verification.guarantee is None:
        first = next(iter(verification.findings), "nothing could be confirmed")
        raise InvalidArgument(
            f"{file.name} must be a report that is confirmed when it is computed again; got one that is "
            f"{verification.verdict}: {first}"
        )
    answer = verification.guarantee
    plan = Plan(
        answer.mechanism,
        adjacency=str(answer.adjacency),
        relative_width=answer.relative_width,
        group_size=answer.group_size,
    )
    return plan, hashlib.sha256(text.encode()).hexdigest()


def _plan_of(release: object) -> tuple[Plan, str | None]:
    if isinstance(release, Plan):
        return release, None
    if isinstance(release, Mechanism):
        return Plan(release), None
    if isinstance(release, str | Path):
        try:
            return file_plan(release)
        except InvalidArgument as fault:
            raise InvalidArgument(str(fault).replace("path must", "release must", 1)) from fault
    raise WrongType(
        f"release must be a mechanism, a plan, or the name of a file; got {short_repr(release)}."
    )


def _begun(said: dict[str, Any]) -> dict[str, Any]:
    """The first line of a new ledger."""
    for name in ("epsilon", "delta"):
        if said[name] is None:
            raise InvalidArgument(
                f"{name} must be given for a new ledger; got none, and there is no file yet."
            )
    choice = said["choice"] or "adaptive"
    header = {
        "kind": "ledger",
        "format": FORMAT,
        "epsilon": said["epsilon"],
        "delta": said["delta"],
        "choice": choice,
        "adjacency": said["adjacency"],
        "unit": said["unit"] or "record",
        "order": None,
        "limit": None,
        "time": _moment(time=None),
    }
    if choice == "adaptive":
        made = RenyiFilter.for_target(
            epsilon=said["epsilon"], delta=said["delta"], order=said["order"]
        )
        header |= {"order": made.order, "limit": made.limit}
    elif said["order"] is not None:
        raise InvalidArgument(
            f"order must be left out where releases are fixed in advance; got {said['order']!r}."
        )
    return header


def _entry(record: dict[str, Any], number: int) -> Entry:
    plan = record["plan"]
    return Entry(
        number,
        mechanism_from_data(plan["mechanism"]),
        plan["adjacency"],
        int(plan.get("group_size", 1)),
        record["note"],
        record["cohort"],
        record["time"],
        record["key"],
        record["plan_hash"],
        record["report_hash"],
        record.get("cost"),
        bool(record.get("exceeded", False)),
    )


def _checked_choice(choice: object) -> str | None:
    if choice is None or is_among(CHOICES, choice):
        return choice  # type: ignore[return-value]  # one of the words
    words = " or ".join(map(repr, CHOICES))
    raise invalid("choice", words, choice, hint(str(choice), CHOICES).strip())


def _named(**argument: object) -> str:
    ((name, value),) = argument.items()
    text = one_line(hint="", **{name: value})
    if text:
        return text
    raise invalid(name, "a name", text)


def _moment(**argument: object) -> str:
    """A time as ISO 8601 in UTC, to the second; None for now."""
    ((name, value),) = argument.items()
    if value is None:
        return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = one_line(hint="Such as '2026-01-31'.", **{name: value})
    try:
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        wanted = "a date or time such as '2026-01-31T12:00:00Z'"
        raise invalid(name, wanted, value) from None
    return text


def _within(time: str, since: str | None, until: str | None) -> bool:
    """Whether a time is in a span; ISO 8601 in UTC is in the order of its letters."""
    return (since is None or time >= since) and (until is None or time < until)
