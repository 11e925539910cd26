"""A ledger: every release on the same people, in one file, with what it all costs together."""

from __future__ import annotations

import hashlib
import hmac
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from sharpdp._validate import (
    flag,
    has_entries,
    invalid,
    one_line,
    open_probability,
    positive,
    renyi_order,
    short_repr,
)
from sharpdp.batches.scheme import pluralize
from sharpdp.bracket import Bracket, Rigor
from sharpdp.budget.cohorts import folded, near_miss
from sharpdp.budget.filters import AdaptiveFilter, RenyiFilter, by_our_theorems, fits
from sharpdp.budget.ledger_records import (
    FORMAT,
    checked,
    checked_choice,
    checked_header,
    checked_release,
)
from sharpdp.budget.meter import Meter
from sharpdp.budget.moments import moment
from sharpdp.budget.running import Running
from sharpdp.display import notebook
from sharpdp.display.nearest_word import hint
from sharpdp.display.outward_digits import ROUND_CEILING, ROUND_FLOOR, percent
from sharpdp.display.tabular import Tabular
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
from sharpdp.mechanisms.composed import Parts, checked_group_size, common, in_groups, notion
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.plans import Plan, text_of
from sharpdp.questions.account import Guarantee, account
from sharpdp.questions.targets import Target
from sharpdp.report import Verdict, verify
from sharpdp.storage.hash_chain import Break, HashChain
from sharpdp.storage.run_lock import free_path_of, path_of

__all__ = ["Entry", "Ledger", "file_plan"]

MOST_RUNS = 10**9
"""How many runs `affordable` looks for at most."""

SLACK = 1e-9
"""By how much, relatively, another version may have computed a limit or a cost more sharply."""

PROOF = "only a head that was kept elsewhere proves that no release is missing or changed"
"""What a ledger that agrees with itself does not show."""

_CHOSEN = {"adaptive": "chosen adaptively", "fixed": "fixed in advance"}
"""How releases were chosen, in a sentence."""

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
        cost: Its Renyi divergence at each order of the filter of an adaptive ledger, as far as it is not
            expected; None if releases are fixed.
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
    cost: tuple[float, ...] | None
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
      only a filter is sound: Renyi divergences of orders that are fixed when the ledger is begun add up,
      and releases that would exceed the limit are refused. The claim is the budget itself. What is
      `expected` when the ledger is begun is set aside instead, and costs what it costs by itself: its
      parts may be run in any order, and left out.
    - "fixed": the list of releases does not depend on results (a plan, a schedule). Then they are
      composed exactly, with both sides, and the claim is the composed epsilon, which is smaller.

    **Whom it is about.** Neighbors differ in one protected unit. `group_size` says how many records a
    unit has in a release. Cohorts are disjoint groups of people, fixed without looking at the protected
    data: a release on one of them costs nothing for the others, and the total is that of the worst
    cohort. All cohorts have the same notion of neighbors. Spellings that differ only in case, width or
    blanks are one cohort, and a name that is almost that of a known one must be said to be new.

    Args:
        path: The file, in a folder that exists.
        epsilon: The budget at `delta`, above 0; needed for a new ledger.
        delta: The delta of the budget, in (0, 1); needed for a new ledger.
        choice: "adaptive" or "fixed" (in advance); None means adaptive for a new ledger.
        adjacency: Which data sets are neighbors, in words such as "replace-one". None takes the first
            notion that a plan states and for which all releases have a theorem, or else one for which all
            have; releases so far are computed again when it changes, and what does not fit then is
            refused. In an adaptive ledger the claim is about results that end with this notion.
        unit: What is protected, in a word or two, such as "person"; "record" by default.
        order: Order of the Renyi filter of an adaptive ledger; None takes the one that suits what is
            expected, or several that share delta if nothing is.
        expected: For an adaptive ledger, what is expected to be released: a mechanism, a `Plan`, or the
            name of a plan file or of a report. None (default) expects nothing.
        cohorts: Names of all cohorts; any other one must be said to be new. None for a ledger that learns
            them from its releases.

    Raises:
        InvalidArgument: a value is out of range, does not agree with the file, or the file is damaged.
        WrongType: a value has the wrong type.

    >>> from tempfile import mkdtemp
    >>> from sharpdp.mechanisms import Gaussian
    >>> ledger = Ledger(Path(mkdtemp()) / "budget.jsonl", epsilon=3.0, delta=1e-6, choice="fixed")
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
        expected: Mechanism | Plan | str | Path | None = None,
        cohorts: Iterable[str] | None = None,
    ) -> None:
        """Open the ledger, or begin it."""
        said = {
            "epsilon": None if epsilon is None else positive(epsilon=epsilon),
            "delta": None if delta is None else open_probability(delta=delta),
            "choice": None if choice is None else checked_choice(choice),
            "adjacency": None if adjacency is None else str(notion(adjacency)),
            "unit": None if unit is None else one_line(unit=unit),
            "order": None if order is None else (renyi_order(order=order),),
            "expected": None if expected is None else _plan_of(expected, "expected")[0],
            "cohorts": None if cohorts is None else _declared(cohorts),
        }
        self._chain = HashChain(free_path_of(path=path))
        self._mutex = threading.RLock()
        self._header: dict[str, Any] = {}
        self._forget()
        self._totals: dict[Any, Guarantee] = {}
        self._costs: dict[Any, tuple[float, ...]] = {}
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

    def _forget(self) -> None:
        """Know of no release."""
        self._entries: list[Entry] = []
        self._spelled: dict[str, str] = {}
        self._read: tuple[int, str] = (0, "")
        self._named: dict[str, list[Entry]] = {}
        self._runs: dict[str, list[Entry]] = {}
        self._alike: dict[Any, Entry] = {}
        self._stated: dict[str, None] = {}
        self._notions: list[str | None] = []
        self._shared: tuple[Adjacency, ...] = (Adjacency.NEIGHBORS,)
        self._running: Running | None = None

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
        """How releases are chosen: "adaptive" or "fixed"."""
        return str(self._header["choice"])

    @property
    def unit(self) -> str:
        """The protected unit."""
        return str(self._header["unit"])

    @property
    def head(self) -> str:
        """Hash of the last line: keep it elsewhere to prove later that nothing before was changed."""
        self._refresh()
        return self._chain.head

    @property
    def filter(self) -> AdaptiveFilter | None:
        """The filter of an adaptive ledger; None if releases are fixed."""
        found: AdaptiveFilter | None = self._header["filter"]
        return found

    @property
    def expected(self) -> Plan | None:
        """The plan that is set aside in an adaptive ledger; None if nothing is."""
        found: Plan | None = self._header["expected"]
        return found

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All releases, in the order in which they were added."""
        self._refresh()
        return tuple(self._entries)

    @property
    def holds_when(self) -> tuple[str, ...]:
        """Conditions of the total: those of every release, and of all of them together."""
        self._refresh()
        notion = self._notion(())
        running = self._sums(notion)
        groups = [parts for name in self._names(None) if (parts := running.parts_of(name))]
        needed = [self._guarantee(parts, notion).holds_when for parts in groups]
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
        again: bool = False,
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
            again: True says that a file whose plan is in the ledger is a second run. Without it such a
                file is refused, since it may be the same release again; what is given as a mechanism or
                a `Plan` is always counted.
            despite_budget: True counts what has been released already, although it exceeds the budget.

        Returns:
            The entry; it is on the disk.

        Raises:
            BudgetExceeded: it would exceed the budget. Nothing was counted.
            InvalidArgument: a value is out of range, the report is not confirmed, its plan is in the
                ledger, the key belongs to another release, another release drew the same batches, or
                the file cannot be written.
            WrongType: a value has the wrong type.
            Unsupported: no theorem covers the release together with the others, or its cost in the
                filter is infinite, or it cannot be written as a plan.
        """
        plan, report_hash = _plan_of(release)
        is_second = flag(again=again) or not isinstance(release, str | Path)
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
            counted = self._counted(record["key"], record["run"], by_name=run is None)
            if counted is not None:
                return self._repeated(counted, record)
            self._check_new_batches(record.get("batches"))
            new = _entry({**record, "cost": None}, plan, len(self._entries) + 1)
            if not is_second and record["key"] is None:
                self._check_new(new)
            new, refusal = self._weighed(new)
            if refusal and not despite_budget:
                raise BudgetExceeded(refusal)
            cost = self._written_cost(new.cost)
            self._chain.append({**record, "cost": cost, "exceeded": new.exceeded})
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
        by_run = None if run is None else self._fingerprint(run=run)
        named = None if key is None else _named(key=key)
        return self._counted(named, by_run, by_name=flag(by_name=by_name))

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
        return self._weighed(self._proposed(release, whom, group_size, 1))[0].exceeded

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
            return not self._weighed(self._proposed(release, whom, group_size, times))[0].exceeded

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
        """The cost of all releases together: epsilon at the delta of the budget.

        Fixed: the composed bracket. Adaptive: the upper end is the budget that the filter promises,
        whatever was chosen (infinite if releases were counted despite the budget), and the lower end is
        what these releases attain if they were chosen without looking. How much of the budget is used is
        said by the context, and by `remaining`.

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
        entries = self._entries
        running = self._sums(self._notion(()))
        if start or end is not None:
            entries = [e for e in entries if e.time >= start and (end is None or e.time < end)]
            running = self._begun(self._notion(()))
            running.take(entries)
        names = self._names(cohort)
        brackets = [self._composed(running, name) for name in names]
        lower = max(float(bracket.lower) for bracket in brackets)
        upper = max(float(bracket.upper) for bracket in brackets)
        rigor = Rigor.weakest(bracket.rigor for bracket in brackets)
        about = self._notion(()) or Adjacency.NEIGHBORS if entries else self.unit
        claim = f"{pluralize(len(entries), 'release')} {_CHOSEN[self.choice]}"
        if self.filter is not None:
            meters = [running.meter_of(name) for name in names]
            within = not any(m.exceeded for m in meters) and not any(e.exceeded for e in entries)
            upper = (self.epsilon if within else math.inf) if entries else 0.0
            if lower > upper:
                raise Contradiction(
                    f"releases that the filter ({self.filter.quantity}) admits cost at most epsilon = "
                    f"{upper:g} at delta={self.delta:g}, and composed at least {lower:g}. Both cannot be "
                    "true: please report it, with the ledger."
                )
            share = percent(max(meter.used for meter in meters), ROUND_CEILING)
            claim += (
                f": guarantee {self.epsilon:g} (the budget); {share} used"
                if within
                else ": beyond the budget, no guarantee"
            )
        context = f"at delta={self.delta:g} | {claim}, {about}"
        return Bracket(lower, upper, rigor, "epsilon", context)

    def remaining(self, *, cohort: str | None = None) -> Bracket:
        """The share of the budget that is left: 1 at first, 0 when nothing is.

        In an adaptive ledger it is the share of the filter's limit, at the order that leaves most. What
        is expected has the share of the budget that its epsilon has, and as much of it is left as of its
        parts. Where releases are fixed it is 1 - epsilon / budget, which is no sum: ask `affordable` how
        much more can be run.

        Args:
            cohort: One cohort; None for the worst one.

        Returns:
            A bracket within [0, 1].

        Raises:
            InvalidArgument: there is no such cohort.
            Unsupported: no theorem covers all releases under one notion of neighbors.
        """
        self._refresh()
        context = f"| {pluralize(len(self._entries), 'release')} {_CHOSEN[self.choice]}"
        if self.filter is not None:
            left = max(1.0 - max(meter.used for meter in self._meters(cohort)), 0.0)
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
            Unsupported: the releases are fixed, of which `total` is the reading; or something is
                expected, which is not added up.
        """
        self._refresh()
        if self.filter is None:
            raise Unsupported("an odometer is for adaptive ledgers; total() is for fixed releases.")
        return max(
            self.filter.odometer(meter.spent, delta=self.delta) for meter in self._meters(cohort)
        )

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
            epsilon = [float(end) for end in (total.lower, total.upper)]
            record = {
                "kind": "checkpoint",
                "releases": len(self._entries),
                "time": moment(time=None),
                "epsilon": [str(end) if math.isinf(end) else end for end in epsilon],
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
        """The faults of a checkpoint."""
        then = Ledger.__new__(Ledger)
        then.__dict__.update(self.__dict__)
        then._forget()
        then._spelled, then._frozen = self._spelled, True
        for entry in self._entries[: record["releases"]]:
            then._know(entry)
        now = then.total()
        low, high = (float(end) for end in record["epsilon"])
        if low > float(now.upper) or high < float(now.lower):
            return [f"line {line}: the checkpoint says {low:g} to {high:g}; computed now: {now}"]
        return []

    def _checked_costs(self) -> list[str]:
        """Costs that are too small, and releases that exceed the budget without saying so."""
        problems = []
        running = self._sums(self._notion(()))
        for entry, now in zip(self._entries, self._costs_then(), strict=False):
            for cost, least in zip(entry.cost or (), now, strict=True):
                if cost < least * (1.0 - SLACK):
                    problems.append(
                        f"release {entry.number}: its cost is {cost:g}; computed now: {least:g}"
                    )
        for name in self._names(None):
            group = [entry for entry in self._entries if entry.cohort in (None, name)]
            if self._certainly_exceeds(running, name) and not any(e.exceeded for e in group):
                last = group[-1]
                whom = f" of cohort {last.cohort}" if last.cohort is not None else ""
                problems.append(
                    f"release {last.number}: the releases{whom} up to it exceed the budget, and none is "
                    "said to"
                )
        return problems

    def _costs_then(self) -> list[tuple[float, ...]]:
        """The cost of each release for the neighbors that the ledger had when it was counted."""
        charged: dict[str | None, list[tuple[float, ...]]] = {}
        for adjacency in dict.fromkeys(self._notions) if self.filter is not None else ():
            last = len(self._notions) - self._notions[::-1].index(adjacency)
            running = self._begun(adjacency)
            running.take(self._entries[:last])
            charged[adjacency] = running.charged
        return [charged[name][number] for number, name in enumerate(self._notions) if charged]

    def _certainly_exceeds(self, running: Running, cohort: str | None) -> bool:
        if self.filter is not None:
            return running.meter_of(cohort).is_beyond(Fraction(SLACK))
        return float(self._composed(running, cohort).lower) > self.epsilon

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The releases as dictionaries, in the order in which they were added; nothing more is asked.

        Each has its number, time, run, note, cohort, records per unit, costs in an adaptive ledger, and
        whether it was beyond the budget.
        """
        return [
            {
                "number": entry.number,
                "time": entry.time,
                "run": entry.mechanism.describe(),
                "note": entry.note,
                "cohort": entry.cohort,
                "group_size": entry.group_size,
                "cost": None if entry.cost is None else ", ".join(f"{c:.6g}" for c in entry.cost),
                "exceeded": entry.exceeded,
            }
            for entry in self.entries
        ]

    def _repr_html_(self) -> str:
        """The ledger as a notebook shows it: the budget, what is left of it, and the last releases."""
        rows = self.records()
        budget = (
            f"a budget of epsilon={self.epsilon:g} at delta={self.delta:g}, {self.choice} choice"
        )
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
                self._forget()
                lines = 0
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
            header = checked_header(record)
            header["filter"] = _certified(header) if header["choice"] == "adaptive" else None
            if self._header not in ({}, header):
                raise InvalidArgument("it is that of another ledger than the one that was opened.")
            self._header = header
            self._spelled = {folded(name): name for name in self._header["cohorts"] or ()}
        elif kind == "release":
            limits = None if self.filter is None else len(self.filter.limits)
            plan, fields = checked_release(record, limits=limits)
            cohort = record["cohort"]
            if cohort is not None:
                cohort = self._spelled.setdefault(folded(cohort), " ".join(cohort.split()))
            self._know(_entry({**fields, "cohort": cohort}, plan, len(self._entries) + 1))
        else:
            moment(time=record["time"])
            if record["releases"] != len(self._entries):
                raise InvalidArgument(
                    f"releases must be as many as come before it, {len(self._entries)}; got "
                    f"{record['releases']}."
                )

    def _know(self, entry: Entry) -> None:
        """Remember one more release, by its name, its run, its plan and its neighbors."""
        self._entries.append(entry)
        if entry.key is not None:
            self._named.setdefault(entry.key, []).append(entry)
        if entry.run is not None:
            self._runs.setdefault(entry.run, []).append(entry)
        self._alike.setdefault(_likeness(entry), entry)
        self._stated, self._shared = self._neighbors(entry)
        self._notions.append(self._notion(()))

    def _neighbors(self, entry: Entry) -> tuple[dict[str, None], tuple[Adjacency, ...]]:
        """The notions that plans state, and those that all releases have, with one more release."""
        stated, own = self._stated, _adjacencies(entry)
        if entry.adjacency != str(Adjacency.NEIGHBORS) and entry.adjacency not in stated:
            stated = {**stated, entry.adjacency: None}
        return stated, common([self._shared, own]) if self._shared else ()

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
        of_name = self._named.get(key, []) if key is not None else []
        of_run = self._runs.get(run, []) if run is not None else []
        for entry in sorted([*of_name, *of_run], key=lambda entry: entry.number):
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
        first_spelling = self._spelled.get(folded(name))
        if first_spelling is not None or is_new:
            return first_spelling or name
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
        nothing = dict.fromkeys(("key", "report_hash", "run", "cost"))
        record = {"plan_hash": plan.hash, "note": "", "cohort": cohort, **nothing}
        return _entry({**record, "time": moment(time=None)}, plan, len(self._entries) + 1)

    def _check_new(self, new: Entry) -> None:
        """Ask whether a file is the release that the ledger has, or a second run of the same plan."""
        alike = self._alike.get(_likeness(new))
        if alike is not None:
            raise InvalidArgument(
                f"release must be new, or again be True; got the plan of release {alike.number} "
                f"({alike.time} {alike.mechanism.describe()}). The same release again, or a second run? "
                "A second run counts: say that it is run again (again, --again)."
            )

    def _written_cost(self, cost: tuple[float, ...] | None) -> Any:
        """A cost as the format of the file has it."""
        if cost is None or self._header["format"] > 1:
            return None if cost is None else [c if math.isfinite(c) else "inf" for c in cost]
        return cost[0]

    def _repeated(self, entry: Entry, record: dict[str, Any]) -> Entry:
        asked = record["plan_hash"], record["cohort"], record["run"]
        if (entry.plan_hash, entry.cohort, entry.run) != asked:
            raise InvalidArgument(
                f"key must be new for another release; got {entry.key!r}, which is that of release "
                f"{entry.number}: {entry.mechanism.describe()}."
            )
        return entry

    # sums

    def _names(self, cohort: str | None) -> list[str | None]:
        """The cohorts that a question is about; people of no cohort stand for all if there is none."""
        spellings = list(self._spelled.values())
        if cohort is not None:
            name = self._spelled.get(folded(_named(cohort=cohort)))
            if name is None:
                ask = hint(cohort, spellings, f"There are {', '.join(spellings) or 'none'}.")
                raise InvalidArgument(f"cohort must be one of the ledger; got {cohort!r}.{ask}")
            return [name]
        return [*spellings] or [None]

    def _begun(self, adjacency: str | None) -> Running:
        return Running(self.filter, adjacency, self._cost)

    def _sums(self, adjacency: str | None) -> Running:
        """The sums of all releases for a notion of neighbors, continued where they were left."""
        running = self._running
        if running is None or running.adjacency != adjacency:
            running = self._begun(adjacency)
            if adjacency == self._notion(()):
                self._running = running
        running.take(self._entries[running.releases :])
        return running

    def _meters(self, cohort: str | None) -> list[Meter]:
        running = self._sums(self._notion(()))
        return [running.meter_of(name) for name in self._names(cohort)]

    def _cost(
        self, mechanism: Mechanism, adjacency: Adjacency | str | None, group_size: int
    ) -> tuple[float, ...]:
        """The costs of what is not expected in the filter, computed now."""
        assert self.filter is not None
        key = mechanism, adjacency, group_size
        if key not in self._costs:
            self._costs[key] = self.filter.costs(
                mechanism, adjacency=adjacency, group_size=group_size
            )
        return self._costs[key]

    def _weighed(self, new: Entry) -> tuple[Entry, str]:
        """One more release with its cost and whether it may exceed the budget, and why it is refused."""
        adjacency = self._notion((new,))
        running = self._sums(adjacency)
        # everybody is in a release without a cohort; one with a cohort leaves the others alone, unless
        # they are now accounted for other neighbors
        names: set[str | None] = {new.cohort}
        if new.cohort is None or adjacency != self._notion(()):
            names = {*self._spelled.values(), *names - {None}} or {None}
        taking_part = [name for name in names if new.cohort in (None, name)]
        if self.filter is None:
            parts = {name: _more(running.parts_of(name), new) for name in taking_part}
            groups = [parts.get(name) or running.parts_of(name) for name in names]
            answers = (self._guarantee(group, adjacency) for group in groups if group)
            exceeds = not all(fits(a, epsilon=self.epsilon, delta=self.delta) for a in answers)
            counted = pluralize(len(self._entries), "release")
            why = f"together with {counted} in the ledger"
            return replace(new, exceeded=exceeds), self._refusal(new, why) if exceeds else ""
        before = {name: running.meter_of(name) for name in names}
        after = {name: running.meter_after(name, new) for name in taking_part}
        costs = [after[name].costs_since(before[name]) for name in taking_part]
        new = replace(new, cost=tuple(map(max, zip(*costs, strict=True))))
        over = [name for name in names if after.get(name, before[name]).exceeded]
        if not over:
            return new, ""
        worst = max(over, key=lambda name: before[name].used)
        why = after.get(worst, before[worst]).refusal(before[worst])
        return replace(new, exceeded=True), self._refusal(new, why)

    def _composed(self, running: Running, cohort: str | None) -> Bracket:
        parts = running.parts_of(cohort)
        if not parts:
            return Bracket(0.0, 0.0)
        target = Target("epsilon", self.epsilon, self.delta)
        return target.settled(self._guarantee(parts, running.adjacency))

    def _guarantee(self, parts: Parts, adjacency: str | None) -> Guarantee:
        """The guarantee of some releases together, for one notion of neighbors."""
        key = (parts, adjacency)
        if key not in self._totals:
            together = InSequence([part * times for part, times in parts])
            if len(self._totals) > 32:
                self._totals.clear()
            self._totals[key] = by_our_theorems(together, adjacency=adjacency)
        return self._totals[key]

    def _notion(self, more: tuple[Entry, ...]) -> str | None:
        """The notion of neighbors of all releases and one more; None while none of them states one.

        It is one notion for all cohorts and all spans of time: a total is the largest of several, which
        means nothing if each is about other neighbors.
        """
        if self._header["adjacency"] is not None:
            adjacency = notion(self._header["adjacency"])
            for entry in more:
                own = _adjacencies(entry)
                if adjacency not in own and Adjacency.NEIGHBORS not in own:
                    raise Unsupported(
                        self._no_theorem(entry, f"adjacency {adjacency} has no theorem for")
                    )
            return str(adjacency)
        stated, shared = self._stated, self._shared
        for entry in more:
            stated, shared = self._neighbors(entry)
            if not shared:
                raise Unsupported(
                    self._no_theorem(entry, "no adjacency of the ledger has a theorem for")
                )
        if not stated:
            return None
        names = [str(one) for one in shared]
        return next((name for name in stated if name in names), names[0])

    def _no_theorem(self, entry: Entry, words: str) -> str:
        """That a release does not go with the others, and what to do."""
        own = " and ".join(map(str, _adjacencies(entry)))
        every = [each.mechanism for each in (*self._entries, entry)]
        return f"{words} {entry.mechanism.describe()}. What exists: {own}. {next_step('ledger', every)}"

    def _refusal(self, new: Entry, why: str) -> str:
        """Why a release is not counted, with numbers."""
        return (
            f"{new.mechanism.describe()} would exceed the budget of epsilon={self.epsilon:g} at "
            f"delta={self.delta:g}: {why}. Nothing was counted."
        )


def next_step(kept: str, mechanisms: Sequence[Mechanism]) -> str:
    """Advice on mechanisms that do not go together under the neighbors of a budget or ledger.

    Args:
        kept: "budget" or "ledger".
        mechanisms: All of them, the new one last.

    Returns:
        A sentence.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> next_step("budget", [ShuffledReports(users=1000, local_epsilon=1.0)])
    'Begin another budget with adjacency replace-one: all of them have a theorem for it.'
    """
    shared = common([mechanism.adjacencies for mechanism in mechanisms])
    if shared:
        return (
            f"Begin another {kept} with adjacency {shared[0]}: all of them have a theorem for it."
        )
    return f"Begin another {kept} for it: what two of them guarantee adds up, epsilons and deltas."


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


def _plan_of(release: object, name: str = "release") -> tuple[Plan, str | None]:
    if isinstance(release, Plan):
        return release, None
    if isinstance(release, Mechanism):
        return Plan(release), None
    if isinstance(release, str | Path):
        try:
            return file_plan(release)
        except InvalidArgument as fault:
            raise InvalidArgument(str(fault).replace("path must", f"{name} must", 1)) from fault
    raise WrongType(
        f"{name} must be a mechanism, a plan, or the name of a file; got {short_repr(release)}."
    )


def _begun(said: dict[str, Any]) -> dict[str, Any]:
    """The first line of a new ledger."""
    for name in ("epsilon", "delta"):
        if said[name] is None:
            raise InvalidArgument(
                f"{name} must be given for a new ledger; got none, and there is no file yet."
            )
    choice, plan = said["choice"] or "adaptive", said["expected"]
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
        **({"expected": plan.to_dict()} if plan is not None else {}),
    }
    if choice != "adaptive":
        for name in ("order", "expected"):
            if said[name] is not None:
                raise InvalidArgument(
                    f"{name} must be left out where releases are fixed in advance; got "
                    f"{short_repr(said[name])}."
                )
        return header
    if plan is not None and header["adjacency"] is None:
        stated = str(account(plan.mechanism, adjacency=plan.adjacency).adjacency)
        header["adjacency"] = None if stated == str(Adjacency.NEIGHBORS) else stated
    made = _made({**header, "order": said["order"] or (), "expected": plan})
    return header | {"order": [one.order for one in made.orders], "limit": [*made.limits]}


def _made(header: dict[str, Any]) -> AdaptiveFilter:
    """The filter of a ledger, with limits that are computed now; one order if there is one."""
    plan: Plan | None = header["expected"]
    return AdaptiveFilter.for_target(
        epsilon=header["epsilon"],
        delta=header["delta"],
        order=header["order"][0] if len(header["order"]) == 1 else None,
        expected=None if plan is None else plan.mechanism,
        adjacency=header["adjacency"],
        group_size=1 if plan is None else plan.group_size,
    )


def _entry(fields: dict[str, Any], plan: Plan, number: int) -> Entry:
    return Entry(
        number,
        plan.mechanism,
        plan.adjacency,
        plan.group_size,
        fields["note"],
        fields["cohort"],
        fields["time"],
        fields["key"],
        fields["plan_hash"],
        fields["report_hash"],
        fields["cost"],
        fields.get("exceeded", False),
        fields.get("run"),
        fields.get("batches"),
    )


def _likeness(entry: Entry) -> tuple[Any, ...]:
    """The fields that two entries for the same release have in common."""
    return entry.mechanism, entry.group_size, entry.cohort


def _adjacencies(entry: Entry) -> tuple[Adjacency, ...]:
    """The notions of neighbors for which all parts of a release have a theorem."""
    return common(
        part.adjacencies for part, _ in in_groups(entry.mechanism.parts(), entry.group_size)
    )


def _more(parts: Parts, entry: Entry) -> Parts:
    """These parts and the parts of one more release, equal ones together."""
    every = dict(parts)
    for part, times in in_groups(entry.mechanism.parts(), entry.group_size):
        every[part] = every.get(part, 0) + times
    return tuple(every.items())


_is_certified = lru_cache(maxsize=64)(AdaptiveFilter.is_certified)
"""Whether a filter guarantees its target; a ledger that is opened again has the same one."""


def _certified(header: dict[str, Any]) -> AdaptiveFilter:
    """The filter of a header, if it guarantees its target."""
    plan: Plan | None = header["expected"]
    orders = zip(header["limit"], header["order"], strict=True)
    made = AdaptiveFilter(
        float(header["epsilon"]),
        float(header["delta"]),
        tuple(RenyiFilter(limit, order) for limit, order in orders),
        None if plan is None else plan.mechanism,
        1 if plan is None else plan.group_size,
        header["adjacency"],
    )
    if _is_certified(made):
        return made
    most = _made(header)
    known = [one.order for one in most.orders]
    if known != list(header["order"]) or any(
        limit > allowed * (1.0 + SLACK)
        for limit, allowed in zip(made.limits, most.limits, strict=True)
    ):
        raise InvalidArgument(
            f"limit must be at most {short_repr(most.limits)}, which guarantees the budget; got "
            f"{short_repr(made.limits)}."
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


def _named(**argument: object) -> str:
    ((name, value),) = argument.items()
    text = one_line(hint="", **{name: value})
    if text.strip():
        return text
    raise invalid(name, "a name", text)
