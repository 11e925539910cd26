"""The command `sharpdp ledger`: a budget that is kept in a file."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharpdp.cli.parser import UsageError, quoted
from sharpdp.cli.runs import mechanism
from sharpdp.cli.views import Reply
from sharpdp.display.nearest_word import hint
from sharpdp.display.outward_digits import ROUND_FLOOR, percent
from sharpdp.errors import BudgetExceeded

if TYPE_CHECKING:
    from sharpdp.bracket import Bracket
    from sharpdp.budget import Ledger

__all__ = ["ACTIONS", "ledger"]

ACTIONS = ("init", "add", "total", "would-exceed", "show", "verify")
"""What can be done with a ledger."""


def ledger(options: argparse.Namespace) -> Reply:
    """The reply to one action on a ledger; would-exceed has exit code 1 if the answer is yes."""
    if options.action not in ACTIONS:
        ask = hint(options.action, ACTIONS, f"There are {', '.join(ACTIONS)}.")
        raise UsageError(f"there is no action {quoted(options.action)}.{ask}")
    actions = {
        "init": _init,
        "add": _add,
        "total": _total,
        "would-exceed": _would_exceed,
        "show": _show,
        "verify": _verify,
    }
    return actions[options.action](options)


def _opened(options: argparse.Namespace) -> Ledger:
    """A ledger that exists, if it has the stated budget."""
    from sharpdp.budget import Ledger

    if not Path(options.file).exists():
        raise UsageError(
            f"there is no ledger {quoted(options.file)}. Begin it with sharpdp ledger init "
            f"{options.file} --epsilon 3 --delta 1e-6."
        )
    return Ledger(options.file, **_budget(options))


def _budget(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "choice": options.choice,
        "adjacency": options.adjacency,
        "unit": options.unit,
        "order": options.order,
        "expected": None if options.expected is None else _run(options.expected),
        "cohorts": options.cohorts,
    }


def _init(options: argparse.Namespace) -> Reply:
    from sharpdp.budget import Ledger

    if Path(options.file).exists():
        raise UsageError(f"{quoted(options.file)} exists; a ledger is begun in a new file.")
    begun = Ledger(options.file, **_budget(options))
    lines = [
        f"begun: {options.file}, epsilon={begun.epsilon:g} at delta={begun.delta:g} for one "
        f"{begun.unit}, releases {_chosen(begun)}"
    ]
    if begun.expected is not None:
        lines.append(f"  set aside: {begun.expected.mechanism.describe()}")
    return Reply([], lines=lines, facts=_facts(begun))


def _chosen(kept: Ledger) -> str:
    return "chosen adaptively" if kept.choice == "adaptive" else "fixed in advance"


def _released(options: argparse.Namespace) -> Any:
    """The release: a plan or report file, or mechanisms on one line."""
    words = options.release
    if not words:
        raise UsageError(
            f"ledger {options.action} takes a release: a plan or report file, or a mechanism such "
            'as "gaussian noise_multiplier=2".'
        )
    return _run(words)


def _run(words: list[str]) -> Any:
    """The name of a plan or report file, or mechanisms on one line."""
    if len(words) == 1 and Path(words[0]).suffix.lower() in (".json", ".toml", ".html", ".htm"):
        return words[0]
    from sharpdp.mechanisms import Sequence

    parts = [mechanism(word) for word in words]
    return parts[0] if len(parts) == 1 else Sequence(parts)


def _add(options: argparse.Namespace) -> Reply:
    kept = _opened(options)
    try:
        entry = kept.add(
            _released(options),
            note=options.note or "",
            cohort=options.cohort,
            group_size=options.group_size,
            time=options.time,
            key=options.key,
            new_cohort=bool(options.new_cohort),
            again=bool(options.again),
            despite_budget=bool(options.despite_budget),
        )
    except BudgetExceeded as refused:
        facts = {**_facts(kept), "exceeded": True, "why": str(refused)}
        return Reply([], lines=[f"refused: {refused}"], facts=facts, code=1)
    total = kept.total()
    lines = [f"counted: {entry.describe()}", _told(kept, total)]
    return Reply([_entry(total)], lines=lines, facts={**_facts(kept), "entry": _data(entry)})


def _told(kept: Ledger, total: Bracket) -> str:
    """A total in one line: of an adaptive ledger the guarantee, and how much of it is used."""
    words = str(total)
    if kept.choice != "adaptive" or not 0.0 < float(total.upper) < math.inf:
        return words
    at, claim = total.context.split(" | ", 1)
    least = f"{float(total.lower):.4g}"
    return f"epsilon <= {kept.epsilon:g} {at} | {claim}; composed as if fixed: at least {least}"


def _total(options: argparse.Namespace) -> Reply:
    from sharpdp.report.words import separate

    kept = _opened(options)
    if options.checkpoint:
        kept.checkpoint()
    names = [options.cohort] if options.cohort else [None, *kept.cohorts]
    answers, lines = [], []
    for name in names:
        total = kept.total(cohort=name, since=options.since, until=options.until)
        answers.append({**_entry(total), "cohort": name})
        lines.append(_told(kept, total) + (f", cohort {name}" if name else ""))
    left = kept.remaining(cohort=options.cohort)
    share = percent(float(left.lower), ROUND_FLOOR)
    lines.append(f"  of the budget epsilon={kept.epsilon:g}, at least {share} is left")
    needed = separate(kept.holds_when)
    lines += ["  you must ensure:", *(f"  - {condition}" for condition in needed)] if needed else []
    facts = {**_facts(kept), "remaining": float(left.lower), "holds_when": needed}
    return Reply(answers, lines=lines, facts=facts)


def _would_exceed(options: argparse.Namespace) -> Reply:
    kept = _opened(options)
    release = _released(options)
    whom: dict[str, Any] = {
        "cohort": options.cohort,
        "group_size": options.group_size,
        "new_cohort": bool(options.new_cohort),
    }
    exceeds = kept.would_exceed(release, **whom)
    times = 0 if exceeds else kept.affordable(release, **whom)
    words = "yes: it may exceed the budget" if exceeds else f"no: it fits {times:,} more times"
    if not exceeds and times == 1:
        words = "no: it fits once"
    lines = [f"{words} (epsilon={kept.epsilon:g} at delta={kept.delta:g}, {_chosen(kept)})"]
    facts = {**_facts(kept), "would_exceed": exceeds, "affordable": times}
    return Reply([], lines=lines, facts=facts, code=int(exceeds))


def _show(options: argparse.Namespace) -> Reply:
    kept = _opened(options)
    entries = kept.entries
    lines = [
        f"{kept.path.name}: epsilon={kept.epsilon:g} at delta={kept.delta:g} for one {kept.unit}, "
        f"releases {_chosen(kept)}",
        *(f"  {entry.describe()}" for entry in entries),
        f"  head: {kept.head}",
    ]
    return Reply([_data(entry) for entry in entries], lines=lines, facts=_facts(kept))


def _verify(options: argparse.Namespace) -> Reply:
    from sharpdp.batches.scheme import pluralize
    from sharpdp.budget import Ledger
    from sharpdp.budget.ledger import PROOF

    problems = Ledger.verify(options.file)
    facts: dict[str, Any] = {"ledger": options.file, "problems": list(problems)}
    if problems:
        lines = [f"NOT CONFIRMED  {problem}" for problem in problems]
        return Reply([], lines=lines, facts=facts, code=1)
    kept = Ledger(options.file)
    count = len(kept.entries)
    lines = [
        f"OK  {pluralize(count, 'release')}, every line follows on the one before it; head {kept.head}",
        f"  {PROOF}",
    ]
    return Reply([], lines=lines, facts={**facts, **_facts(kept)})


def _entry(bracket: Bracket) -> dict[str, Any]:
    from sharpdp.plans.plain_data import number_to_data

    return {
        "quantity": bracket.quantity,
        "lower": number_to_data(float(bracket.lower)),
        "upper": number_to_data(float(bracket)),
        "rigor": str(bracket.rigor),
        "claim": bracket.context,
    }


def _data(entry: Any) -> dict[str, Any]:
    return {
        "number": entry.number,
        "mechanism": entry.mechanism.describe(),
        "adjacency": entry.adjacency,
        "group_size": entry.group_size,
        "note": entry.note,
        "cohort": entry.cohort,
        "time": entry.time,
        "key": entry.key,
        "plan_hash": entry.plan_hash,
        "report_hash": entry.report_hash,
        "exceeded": entry.exceeded,
    }


def _facts(kept: Ledger) -> dict[str, Any]:
    return {
        "ledger": str(kept.path),
        "budget": {"epsilon": kept.epsilon, "delta": kept.delta},
        "choice": kept.choice,
        "unit": kept.unit,
        "head": kept.head,
    }
