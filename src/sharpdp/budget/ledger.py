"""A ledger: every release on the same people, in one file, with what it all costs together."""

from __future__ import annotations

import hashlib
import hmac
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sharpdp import notebook
from sharpdp._validate import (
    flag,
    has_entries,
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
from sharpdp.bounds.registry import only_ours
from sharpdp.bracket import Bracket, Rigor
from sharpdp.budget.cohorts import folded, near_miss
from sharpdp.budget.filters import RenyiFilter
from sharpdp.budget.ledger_records import (
    CHOICES,
    FORMAT,
    checked,
    checked_header,
    checked_release,
)
from sharpdp.budget.moments import moment
from sharpdp.errors import (
    BudgetExceeded,
    Contradiction,
    InvalidArgument,
    SharpDPError,
    Unsupported,
    WrongType,
)
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.mechanisms import Sequence as InSequence
from sharpdp.mechanisms.composed import Parts, checked_group_size, in_groups, notion
from sharpdp.nearest_word import hint
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.outward_digits import ROUND_CEILING, ROUND_FLOOR, percent
from sharpdp.plans import Plan, text_of
from sharpdp.report import Verdict, verify
from sharpdp.storage.hash_chain import Break, HashChain
from sharpdp.storage.run_lock import free_path_of, path_of
from sharpdp.tabular import Tabular
from sharpdp.targets import Target

__all__ = ["Entry", "Ledger", "file_plan"]

MOST_RUNS = 10**9
"""How many runs `affordable` looks for at most."""

SLACK = 1e-9
"""By how much, relatively, another version may have computed a limit or a cost more sharply."""

PROOF = "only a head that was kept elsewhere proves that no release is missing or changed"
"""What a ledger that agrees with itself does not show."""

SHORTEST_SECRET = 16
"""Bytes that tell runs apart, at least; fewer could be guessed from their fingerprint."""


@dataclass(frozen=True)
class Entry:
    """One release in a ledger.

    Args:
        number: Its place among the releases, from 1 on.
        mechanism: What was run.
        adjacency: The neighbors of its plan, in words.
        group_size: Records that one protected unit has in it.
        note: What it was, in one line.
        cohort: The cohort whose data it used, as its name was first spelled; None for everybody's.
        time: When it was added, such as '2026-01-31T12:00:00Z', in UTC.
        key: A name under which it is counted once; None if it has none.
        plan_hash: SHA-256 of its plan.
        report_hash: SHA-256 of the report file that came with it; None if there was none.
        cost: Its Renyi divergence in an adaptive ledger; None in one that is fixed in advance.
        exceeded: Whether it was added although the budget did not allow it.
        run: Fingerprint of the run that it is, in this ledger; None if it is not known.
        batches: Fingerprint of the key that its batches were drawn from; None if it is not known.
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
    run: str | None = None
    batches: str | None = None

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
    counted. A file that was changed is refused with the line at which its chain breaks, and so is a line
    that does not agree with itself: limits are computed again, and so are costs when they are added up.
    But the chain has no secret. Whoever can write the file can write another one that is as whole; only a
    `head` that was kept elsewhere proves that no release is missing or changed.

    **How releases are chosen** decides what may be claimed:

    - "adaptive" (default): the next release, its noise included, may depend on all earlier results. Then
      only a filter is sound: a Renyi divergence of an order that is fixed when the ledger is begun adds
      up, and releases that would exceed the limit are refused. The claim is the budget itself.
    - "fixed in advance": the list of releases does not depend on results (a plan, a schedule). Then they
      are composed exactly, with both sides, and the claim is the composed epsilon, which is smaller.

    **Whom it is about.** Neighbors differ in one protected unit. `group_size` says how many records a
    unit has in a release. Cohorts are disjoint groups of people, fixed without looking at the protected
    data: a release on one of them costs nothing for the others, and the total is that of the worst
    cohort. All cohorts have the same notion of neighbors. Spellings that differ only in case, width or
    blanks are one cohort, and a name that is almost that of a known one must be said to be new.

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
        cohorts: Names of all cohorts; any other one must be said to be new. None for a ledger that learns
            them from its releases.

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
        cohorts: Iterable[str] | None = None,
    ) -> None:
        """Open the ledger, or begin it."""
        said = {
            "epsilon": None if epsilon is None else positive(epsilon=epsilon),
            "delta": None if delta is None else open_probability(delta=delta),
            "choice": _checked_choice(choice),
            "adjacency": None if adjacency is None else str(notion(adjacency)),
            "unit": None if unit is None else one_line(unit=unit),
            "order": None if order is None else renyi_order(order=order),
            "cohorts": None if cohorts is None else _declared(cohorts),
        }
        self._chain = HashChain(free_path_of(path=path))
        self._mutex = threading.RLock()
        self._header: dict[str, Any] = {}
        self._entries: list[Entry] = []
        self._spelled: dict[str, str] = {}
        self._read: tuple[int, str] = (0, "")
        self._totals: dict[Any, Guarantee] = {}
        self._costs: dict[Any, float] = {}
        if not self._chain.exists():
            with self._chain.locked():
                if not self._chain.exists():  # nobody else has begun it meanwhile
                    self._chain.append(_begun(said))
        self._refresh()
        for name, value in said.items():
            if value is not None and value != self._header[name]:
                raise InvalidArgument(
                    f"{name} must be that of the ledger at {str(self.path)!r}, "
                    f"{self._header[name]!r}; got {value!r}. A budget is fixed when a ledger is begun."
                )

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
        return RenyiFilter(self._header["limit"], self._header["order"])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All releases, in the order in which they were added."""
        self._refresh()
        return tuple(self._entries)

    @property
    def holds_when(self) -> tuple[str, ...]:
        """What must be ensured for the total to hold: by every release, and by all of them together."""
        self._refresh()
        notion = self._notion(())
        groups = [group for group in self._groups(self._entries, None) if group]
        needed = [self._guarantee(group, notion).holds_when for group in groups]
        own = (entry.mechanism.holds_when for entry in self._entries)
        return tuple(dict.fromkeys(condition for each in (*needed, *own) for condition in each))

    @property
    def cohorts(self) -> tuple[str, ...]:
        """The cohorts that were declared, then those that releases were about, as first spelled."""
        self._refresh()
        return tuple(self._spelled.values())

    def add(
        self,
        release: Mechanism | Plan | str | Path,
        *,
        note: str = "",
        cohort: str | None = None,
        group_size: int | None = None,
        time: str | None = None,
        key: str | None = None,
        run: bytes | None = None,
        batches: bytes | None = None,
        new_cohort: bool = False,
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
            time: When, as a date or time of ISO 8601, in UTC unless it has an offset; None for now.
            key: A name for this release. A release whose key is in the ledger is not counted again, so
                that a program that was killed may repeat what it does not remember. It must be the same
                release: another draw of the noise is another release.
            run: What this run has in common with its resumed self and with no other run, such as its
                secret key: at least 16 bytes, of which the ledger keeps a fingerprint. A key or a
                fingerprint that is in the ledger is then refused to every other run.
            batches: The key that its batches are drawn from, at least 16 bytes, of which the ledger keeps
                a fingerprint. One that is in the ledger is refused to every other release: releases are
                added up as if each drew its batches independently.
            new_cohort: True says that a cohort is a new one, although its name is almost that of a known
                one, or is none of those that were declared.
            despite_budget: True counts what has been released already, although it exceeds the budget.

        Returns:
            The entry; it is on the disk.

        Raises:
            BudgetExceeded: it would exceed the budget. Nothing was counted.
            InvalidArgument: a value is out of range, the report is not confirmed, the key belongs to
                another release, another release drew the same batches, or the file cannot be written.
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
            "time": moment(time=time),
            "key": None if key is None else _named(key=key),
            "report_hash": report_hash,
            "run": None if run is None else self._fingerprint(run=run),
            **({} if batches is None else {"batches": self._fingerprint(batches=batches)}),
        }
        with self._mutex, self._chain.locked():
            self._refresh()
            record["cohort"] = self._cohort(cohort, new_cohort=new_cohort)
            known = self._counted(record["key"], record["run"], by_name=run is None)
            if known is not None:
                return self._repeated(known, record)
            self._check_new_batches(record.get("batches"))
            new = self._costed(_entry(record, plan, record["time"], len(self._entries) + 1))
            new = replace(new, exceeded=self._exceeds(new))
            if new.exceeded and not despite_budget:
                raise BudgetExceeded(self._refusal(new))
            self._chain.append({**record, "cost": new.cost, "exceeded": new.exceeded})
            self._refresh()
            return self._entries[-1]

    def counted(
        self, *, key: str | None = None, run: bytes | None = None, by_name: bool = False
    ) -> Entry | None:
        """The release that was counted for a run under a name, if there is one.

        A run is known by its fingerprint, not by its name: another run under the same name is refused. So
        is the same run under another name, or under none, which is either to be resumed under its own, or
        a second run with a key that was used before.

        Args:
            key: The name of the run; None if it has none.
            run: What tells the run apart, as in `add`; None if there is nothing.
            by_name: Whether what is said is enough where a name or a fingerprint is missing, as for a run
                of which some steps are done.

        Returns:
            The entry, or None if the run is new.

        Raises:
            InvalidArgument: The name belongs to another run, or the run to another name.
            WrongType: An argument has the wrong type.
        """
        self._refresh()
        known = None if run is None else self._fingerprint(run=run)
        named = None if key is None else _named(key=key)
        return self._counted(named, known, by_name=flag(by_name=by_name))

    def would_exceed(
        self,
        release: Mechanism | Plan | str | Path,
        *,
        cohort: str | None = None,
        group_size: int | None = None,
        new_cohort: bool = False,
    ) -> bool:
        """Whether one more release would exceed the budget, or cannot be shown not to.

        Args:
            release: What would be run, as in `add`.
            cohort: The cohort whose data it would use; None for everybody's.
            group_size: Records that one protected unit has in it.
            new_cohort: Whether the cohort is a new one, as in `add`.

        Returns:
            False if the budget certainly allows it.

        Raises:
            InvalidArgument: a value is out of range, or the report is not confirmed.
            WrongType: a value has the wrong type.
            Unsupported: no theorem covers it together with the others.
        """
        self._refresh()
        whom = self._cohort(cohort, new_cohort=new_cohort)
        return self._exceeds(self._proposed(release, whom, group_size, 1))

    def affordable(
        self,
        release: Mechanism | Plan | str | Path,
        *,
        cohort: str | None = None,
        group_size: int | None = None,
        new_cohort: bool = False,
    ) -> int:
        """How many more times a release could be made within the budget.

        Args:
            release: What would be run, as in `add`.
            cohort: The cohort whose data it would use; None for everybody's.
            group_size: Records that one protected unit has in it.
            new_cohort: Whether the cohort is a new one, as in `add`.

        Returns:
            The largest number that is certainly allowed, at most 10^9.

        Raises:
            InvalidArgument: a value is out of range, or the report is not confirmed.
            WrongType: a value has the wrong type.
            Unsupported: no theorem covers it together with the others.
        """
        self._refresh()
        whom = self._cohort(cohort, new_cohort=new_cohort)

        def allowed(times: int) -> bool:
            return not self._exceeds(self._proposed(release, whom, group_size, times))

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
            since: Count releases from this date or time of ISO 8601 on; None from the beginning.
            until: Count releases before this date or time; None until now. A date is its first second in
                UTC, so that releases of that day are not counted.

        Returns:
            The bracket. Its context says which claim it makes.

        Raises:
            InvalidArgument: there is no such cohort.
            Unsupported: no theorem covers all releases under one notion of neighbors.
        """
        self._refresh()
        start = "" if since is None else moment(since=since)
        end = None if until is None else moment(until=until, later=True)
        # times are kept to the second, so that their letters are in the order of time
        entries = [e for e in self._entries if e.time >= start and (end is None or e.time < end)]
        groups = self._groups(entries, cohort)
        brackets = [self._composed(group) for group in groups]
        lower = max(float(bracket.lower) for bracket in brackets)
        upper = max(float(bracket.upper) for bracket in brackets)
        rigor = Rigor.weakest(bracket.rigor for bracket in brackets)
        about = self._notion(()) or Adjacency.NEIGHBORS if entries else self.unit
        claim = f"{len(entries)} release{'s' if len(entries) != 1 else ''} {self.choice}"
        if self.filter is not None:
            spent = max(self._spent(group) for group in groups)
            within = spent <= self.filter.limit and not any(e.exceeded for e in entries)
            upper = (self.epsilon if within else math.inf) if entries else 0.0
            if lower > upper:
                raise Contradiction(
                    f"releases that the filter ({self.filter.quantity}) admits cost at most epsilon = "
                    f"{upper:g} at delta={self.delta:g}, and composed at least {lower:g}. Both cannot be "
                    "true: please report it, with the ledger."
                )
            share = spent / self.filter.limit
            claim += f" ({self.filter.quantity}, {percent(share, ROUND_CEILING)} of the limit)"
        context = f"at delta={self.delta:g} | {claim}, {about}"
        return Bracket(lower, upper, rigor, "epsilon", context)

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
        context = f"| {pluralize(len(self.entries), 'release')} {self.choice}"
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
                "time": moment(time=None),
                "epsilon": [str(end) if math.isinf(end) else end for end in ends],
            }
            self._chain.append(record)
            self._refresh()
        return total

    @staticmethod
    def verify(path: str | Path) -> tuple[str, ...]:
        """Look at every line of a ledger, and compute limit, costs and checkpoints again.

        That nothing is wrong says that the file agrees with itself. It does not say that it is the file
        that was kept: only a `head` that was kept elsewhere proves that no release is missing.

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
        if chain.lacks_head():
            problems.append(
                f"{chain.path.name}.head is missing beside {len(chain.records)} lines, so that lines cut "
                "off at the end would not be noticed: compare the hash of the last line, "
                f"{chain.head}, with one that was kept; the next release writes the file again"
            )
        try:
            ledger = Ledger(path)
            for line, record in enumerate(chain.records, 1):
                if record["kind"] == "checkpoint":
                    problems += ledger._checked_total(line, record)
            problems += ledger._checked_costs()
        except Contradiction:
            raise
        except SharpDPError as fault:
            problems.append(str(fault))
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

    def _checked_costs(self) -> list[str]:
        """Costs that are too small, and releases that exceed the budget without saying so."""
        problems = []
        adjacency = self._notion(())
        for entry in self._entries if self.filter is not None else ():
            now = self._cost(entry, adjacency)
            if float(entry.cost or 0.0) < now * (1.0 - SLACK):
                problems.append(
                    f"release {entry.number}: its cost is {entry.cost:g}; computed now: {now:g}"
                )
        for group in self._groups(self._entries, None):
            if self._certainly_exceeds(group) and not any(entry.exceeded for entry in group):
                last = group[-1]
                whom = f" of cohort {last.cohort}" if last.cohort is not None else ""
                problems.append(
                    f"release {last.number}: the releases{whom} up to it exceed the budget, and none is "
                    "said to"
                )
        return problems

    def _certainly_exceeds(self, group: Sequence[Entry]) -> bool:
        if self.filter is not None:
            return self._spent(group) > self.filter.limit * (1.0 + SLACK)
        return float(self._composed(group).lower) > self.epsilon

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
        left = f"{percent(float(self.remaining().lower), ROUND_FLOOR)} of {budget}"
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

    def _refresh(self) -> None:
        """Read what was appended since, by this process or another one."""
        if self._frozen:
            return
        with self._mutex:
            records, hashes = self._chain.read(), self._chain.hashes
            lines, head = self._read
            if lines > len(records) or (lines and hashes[lines - 1] != head):  # another file
                self._entries, self._spelled, lines = [], {}, 0
                self._read = 0, ""
            for line, record in enumerate(records[lines:], lines + 1):
                try:
                    self._take(record, line)
                except SharpDPError as fault:
                    raise InvalidArgument(
                        f"path must be that of a ledger; got {str(self.path)!r}, whose line {line} is "
                        f"wrong: {fault}"
                    ) from fault
                self._read = line, hashes[line - 1]
            if not records:
                raise InvalidArgument(
                    f"path must be that of a ledger; got {str(self.path)!r}, which is empty."
                )

    def _take(self, record: dict[str, Any], line: int) -> None:
        """Take in one record, if all of it agrees with itself and with the lines before it."""
        kind = checked(record, line)
        if kind == "ledger":
            before, self._header = self._header, checked_header(record)
            if self.filter is not None:
                self._header["limit"] = _certified(self.filter, self.epsilon, self.delta)
            if before not in ({}, self._header):
                self._header = before
                raise InvalidArgument("it is that of another ledger than the one that was opened.")
            self._spelled = {folded(name): name for name in self._header["cohorts"] or ()}
        elif kind == "release":
            plan, time = checked_release(record, is_adaptive=self.filter is not None)
            cohort = record["cohort"]
            if cohort is not None:
                cohort = self._spelled.setdefault(folded(cohort), " ".join(cohort.split()))
            number = len(self._entries) + 1
            self._entries.append(_entry({**record, "cohort": cohort}, plan, time, number))
        else:
            moment(time=record["time"])
            if record["releases"] != len(self._entries):
                raise InvalidArgument(
                    f"releases must be as many as come before it, {len(self._entries)}; got "
                    f"{record['releases']}."
                )

    def _fingerprint(self, **secret: object) -> str:
        """A hash that is keyed with what only the run knows, and is another one in every ledger.

        Nothing can be learned from it about 16 random bytes or more. A key that can be guessed can be
        found by trying.
        """
        ((name, value),) = secret.items()
        if not isinstance(value, bytes):
            raise WrongType(f"{name} must be bytes, such as a secret key; got {short_repr(value)}.")
        if len(value) < SHORTEST_SECRET:
            raise InvalidArgument(
                f"{name} must have at least {SHORTEST_SECRET} bytes; got {len(value)} of them."
            )
        words = f"sharpdp {name} in the ledger {self._chain.hashes[0]}"
        # hashed first: to HMAC, a key and the same key with zeros behind it are one
        return hmac.new(hashlib.sha256(value).digest(), words.encode(), "sha256").hexdigest()

    def _check_new_batches(self, batches: str | None) -> None:
        """An error if a release of any cohort drew its batches from the same key.

        Of another cohort as well: what is learned about its batches is learned about these.
        """
        for entry in self._entries:
            if batches is not None and entry.batches == batches:
                raise InvalidArgument(
                    f"batches must be drawn from a key of their own; got that of release {entry.number}: "
                    f"{entry.mechanism.describe()}. Releases are added up as if their batches were "
                    "independent. Begin with a fresh key, or count all queries on the same batches as "
                    "one dp.SameBatches([...])."
                )

    def _counted(self, key: str | None, run: str | None, *, by_name: bool) -> Entry | None:
        """`counted` for a fingerprint, among what was read."""
        for entry in self._entries:
            same_run = run is not None and entry.run == run
            if same_run and key is None and entry.key is None and not by_name:
                raise InvalidArgument(
                    "key must be given for a run that was counted before; got none, and this run is "
                    f"release {entry.number}. Resume it, or begin a new run with a new key."
                )
            if same_run and entry.key != key:
                raise InvalidArgument(
                    f"key must be {entry.key!r}, under which this run is release {entry.number}; got "
                    f"{key!r}. Resume it under that name, or begin a new run with a new key."
                )
            same_name = key is not None and entry.key == key
            if same_run or (same_name and by_name and (run is None or entry.run is None)):
                return entry
            if same_name:
                raise InvalidArgument(
                    f"key must be new for another run; got {key!r}, which is that of release "
                    f"{entry.number}: {entry.mechanism.describe()}. Resume it, or choose another name."
                )
        return None

    def _cohort(self, cohort: str | None, *, new_cohort: bool) -> str | None:
        """The name of a cohort as it was first spelled, if it is known or certainly new."""
        is_new = flag(new_cohort=new_cohort)
        if cohort is None:
            return None
        name = " ".join(_named(cohort=cohort).split())
        known = self._spelled.get(folded(name))
        if known is not None or is_new:
            return known or name
        like = near_miss(name, self._spelled.values())
        if like is None and self._header["cohorts"] is None:
            return name
        ask = f" Did you mean {like}?" if like is not None else ""
        listed = ", ".join(self._spelled.values())
        raise InvalidArgument(
            f"cohort must be one of the ledger ({listed}), or new_cohort be True; got {cohort!r}.{ask} "
            "A new cohort must share no people with the others."
        )

    def _proposed(
        self, release: object, cohort: str | None, group_size: int | None, times: int
    ) -> Entry:
        plan, _ = _plan_of(release)
        if group_size is not None:
            plan = replace(plan, group_size=checked_group_size(group_size))
        if times > 1:
            plan = replace(plan, mechanism=plan.mechanism * times)
        nothing = dict.fromkeys(("key", "report_hash", "run"))
        record = {"plan_hash": plan.hash, "note": "", "cohort": cohort, **nothing}
        number = len(self._entries) + 1
        return self._costed(_entry(record, plan, moment(time=None), number))

    def _costed(self, entry: Entry) -> Entry:
        """The release with its cost in the filter, if there is one."""
        if self.filter is None:
            return entry
        return replace(entry, cost=self._cost(entry, self._notion((entry,))))

    def _cost(self, entry: Entry, adjacency: str | None) -> float:
        """The cost of a release in the filter, computed now."""
        assert self.filter is not None
        known = entry.mechanism, adjacency, entry.group_size
        if known not in self._costs:
            mechanism, adjacency, size = known
            self._costs[known] = self.filter.cost(mechanism, adjacency=adjacency, group_size=size)
        return self._costs[known]

    def _repeated(self, entry: Entry, record: dict[str, Any]) -> Entry:
        asked = record["plan_hash"], record["cohort"], record["run"]
        if (entry.plan_hash, entry.cohort, entry.run) != asked:
            raise InvalidArgument(
                f"key must be new for another release; got {entry.key!r}, which is that of release "
                f"{entry.number}: {entry.mechanism.describe()}."
            )
        return entry

    # sums

    def _groups(self, entries: Sequence[Entry], cohort: str | None) -> list[list[Entry]]:
        """The releases that each cohort took part in."""
        known = list(self._spelled.values())
        if cohort is not None:
            name = self._spelled.get(folded(_named(cohort=cohort)))
            if name is None:
                ask = hint(cohort, known, f"There are {', '.join(known) or 'none'}.")
                raise InvalidArgument(f"cohort must be one of the ledger; got {cohort!r}.{ask}")
            return [_taking_part(entries, name)]
        return [_taking_part(entries, name) for name in known or (None,)]

    def _spent(self, entries: Iterable[Entry], *new: Entry) -> float:
        """The sum of costs in the filter, rounded upwards; each is what was counted or more."""
        adjacency = self._notion(new)
        costs = [max(float(entry.cost or 0.0), self._cost(entry, adjacency)) for entry in entries]
        return math.nextafter(math.fsum(costs), math.inf) if costs else 0.0

    def _exceeds(self, new: Entry) -> bool:
        """Whether the budget may be exceeded with one more release."""
        together = [*self._entries, new]
        # everybody is in a release without a cohort; one with a cohort leaves the others alone, unless
        # they are now accounted for other neighbors
        adjacency = self._notion((new,))
        names: set[str | None] = {new.cohort}
        if new.cohort is None or adjacency != self._notion(()):
            names = {*self._spelled.values(), *names - {None}} or {None}
        groups = [_taking_part(together, name) for name in names]
        if self.filter is not None:
            return any(self._spent(group, new) > self.filter.limit for group in groups)
        return any(
            not self._target.is_met(self._guarantee(group, adjacency)) for group in groups if group
        )

    @property
    def _target(self) -> Target:
        return Target("epsilon", self.epsilon, self.delta)

    def _composed(self, entries: Sequence[Entry]) -> Bracket:
        if not entries:
            return Bracket(0.0, 0.0)
        return self._target.settled(self._guarantee(entries, self._notion(())))

    def _guarantee(self, entries: Sequence[Entry], adjacency: str | None) -> Guarantee:
        """The guarantee of some releases together, for one notion of neighbors."""
        parts = _parts(entries)
        known = (parts, adjacency)
        if known not in self._totals:
            together = InSequence([part * times for part, times in parts])
            if len(self._totals) > 32:
                self._totals.clear()
            with only_ours():  # a ledger goes on to count when their theorems are gone
                self._totals[known] = account(together, adjacency=adjacency)
        return self._totals[known]

    def _notion(self, more: tuple[Entry, ...]) -> str | None:
        """The notion of neighbors of all releases and some more; None while none of them states one.

        It is one notion for all cohorts and all spans of time: a total is the largest of several, which
        means nothing if each is about other neighbors. In an adaptive ledger it is that of the first
        release that states one: a later release does not change what was promised before.
        """
        if self._header["adjacency"] is not None:
            return str(self._header["adjacency"])
        every = [*self._entries, *more]
        stated = [e.adjacency for e in every if e.adjacency != str(Adjacency.NEIGHBORS)]
        if self.filter is None and len(set(stated)) > 1:
            shared = InSequence([part * times for part, times in _parts(every)])
            return str(shared.adjacency())
        return stated[0] if stated else None

    def _refusal(self, new: Entry) -> str:
        """Why a release is not counted, with numbers."""
        what = f"{new.mechanism.describe()} would exceed the budget of epsilon={self.epsilon:g} at "
        what += f"delta={self.delta:g}"
        if self.filter is not None:
            names = [new.cohort] if new.cohort is not None else [*self._spelled.values(), None]
            spent = max(self._spent(_taking_part(self._entries, name)) for name in names)
            return (
                f"{what}: it costs {new.cost:.4g} ({self.filter.quantity}), {spent:.4g} of "
                f"{self.filter.limit:.4g} are spent. Nothing was counted."
            )
        counted = pluralize(len(self._entries), "release")
        return f"{what}, together with {counted} in the ledger. Nothing was counted."


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
        "time": moment(time=None),
        **({"cohorts": said["cohorts"]} if said["cohorts"] is not None else {}),
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


def _entry(record: dict[str, Any], plan: Plan, time: str, number: int) -> Entry:
    return Entry(
        number,
        plan.mechanism,
        plan.adjacency,
        plan.group_size,
        record["note"],
        record["cohort"],
        time,
        record["key"],
        record["plan_hash"],
        record["report_hash"],
        record.get("cost"),
        record.get("exceeded", False),
        record.get("run"),
        record.get("batches"),
    )


def _parts(entries: Iterable[Entry]) -> Parts:
    """What is composed for some releases, as the groups of each of them see it."""
    return tuple(
        piece for entry in entries for piece in in_groups(entry.mechanism.parts(), entry.group_size)
    )


def _taking_part(entries: Iterable[Entry], cohort: str | None) -> list[Entry]:
    """The releases that used the data of a cohort; None for people of no cohort."""
    return [entry for entry in entries if entry.cohort in (None, cohort)]


def _certified(made: RenyiFilter, epsilon: float, delta: float) -> float:
    """The limit of a filter, if it guarantees its target."""
    if float(made.promise().delta(epsilon=epsilon).upper) <= delta:
        return made.limit
    most = RenyiFilter.for_target(epsilon=epsilon, delta=delta, order=made.order).limit
    if made.limit > most * (1.0 + SLACK):
        raise InvalidArgument(
            f"limit must be at most {most!r}, which guarantees the budget; got {made.limit!r}."
        )
    return most


def _declared(cohorts: object) -> list[str]:
    """The names of all cohorts, in blanks that do not matter; no two of them are one."""
    if not has_entries(cohorts):
        raise WrongType(f"cohorts must be a list of names; got {short_repr(cohorts)}.")
    names = [" ".join(_named(cohorts=name).split()) for name in cohorts]
    if not names or len({folded(name) for name in names}) < len(names):
        raise InvalidArgument(f"cohorts must be different names; got {short_repr(names)}.")
    return names


def _checked_choice(choice: object) -> str | None:
    if choice is None or is_among(CHOICES, choice):
        return choice  # type: ignore[return-value]  # one of the words
    words = " or ".join(map(repr, CHOICES))
    raise invalid("choice", words, choice, hint(str(choice), CHOICES).strip())


def _named(**argument: object) -> str:
    ((name, value),) = argument.items()
    text = one_line(hint="", **{name: value})
    if text.strip():
        return text
    raise invalid(name, "a name", text)
