"""The view of the privacy officer: reports are verified, added up, and put into words about attackers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sharpdp._validate import half_open_probability, positive
from sharpdp.budget import Ledger
from sharpdp.budget.ledger import PROOF
from sharpdp.display.outward_digits import ROUND_FLOOR, percent
from sharpdp.errors import Contradiction, InvalidArgument, SharpDPError
from sharpdp.explore.documents import plan_field
from sharpdp.explore.fields import bracket_data, number, text
from sharpdp.explore.snippets import code
from sharpdp.mechanisms import Sequence
from sharpdp.plans import Plan
from sharpdp.questions.account import Guarantee
from sharpdp.report import Verdict, Verification, verify
from sharpdp.report.words import separate
from sharpdp.storage.hash_chain import HashChain

__all__ = ["ledger", "reports", "risk"]

MOST_FILES = 50

USUAL_DELTA = 1e-5
"""For reports that are about pure DP only."""


def reports(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A verdict on every report and ledger, then what all reports cost together.

    Args:
        fields: reports (a list of {name, text}: reports as JSON or HTML, ledgers as JSON lines), delta
            (none for the smallest that a report is about).
    """
    asked = fields.get("delta")
    delta = None if asked is None else half_open_probability(delta=number(fields, "delta"))
    answers: list[Guarantee] = []
    smallest: list[float] = []
    plans: dict[Any, list[str]] = {}
    for name, content in _files(fields):
        if name.endswith(".jsonl"):
            yield {"ledger": _checked_ledger(name, content)}
            continue
        try:
            checked = verify(content)
        except Contradiction:
            raise
        except SharpDPError as fault:
            yield {"report": {"name": name, "verdict": "cannot be read", "lines": [str(fault)]}}
            continue
        part: dict[str, Any] = {
            "name": name,
            "verdict": str(checked.verdict),
            "lines": checked.lines(),
        }
        if checked.guarantee is not None:
            answer = checked.guarantee
            own = min((one for one in _deltas(checked) if one > 0.0), default=USUAL_DELTA)
            answers.append(answer)
            smallest.append(own)
            plans.setdefault((answer.mechanism, answer.group_size), []).append(name)
            at = own if delta is None else delta
            part |= {
                "run": answer.described,
                "neighbors": answer.neighbors,
                "delta": at,
                "epsilon": bracket_data(answer.epsilon(delta=at)),
            }
        yield {"report": part}
    if answers:
        at = min(smallest) if delta is None else delta
        plan = _together(answers, at)
        stated = (condition for answer in answers for condition in answer.conditions)
        guarantee = plan.guarantee().provided(*stated)
        total = {
            "epsilon": bracket_data(guarantee.epsilon(delta=at)),
            "delta": at,
            "smallest": min(smallest),
            "neighbors": guarantee.neighbors,
            "runs": len(answers),
            "holds_when": separate(guarantee.holds_when),
            **code(plan),
        }
        if len(plans) < len(answers):
            once = list({(one.mechanism, one.group_size): one for one in answers}.values())
            total["alike"] = [names for names in plans.values() if len(names) > 1]
            total["once"] = bracket_data(_together(once, at).guarantee().epsilon(delta=at))
        yield {"total": total}


def risk(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Risks of an attack on everything together, in sentences.

    Args:
        fields: plan (of the total), prior (how likely the attacker thinks that a person is in the data).
    """
    found = plan_field(fields).guarantee().risk(prior=number(fields, "prior", 0.5))
    yield {"risk": list(found.sentences()), "assumptions": list(found.assumptions.values())}


def ledger(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A ledger of all reports that are confirmed, as a file, and what it leaves of a budget.

    Args:
        fields: reports, delta, budget (epsilon).
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "budget.jsonl"
        kept = Ledger(
            path,
            epsilon=positive(budget=number(fields, "budget")),
            delta=number(fields, "delta"),
            choice="fixed",
        )
        refused = []
        for index, (name, content) in enumerate(_files(fields)):
            if name.endswith(".jsonl"):
                continue
            is_page = content.lstrip().startswith("<")
            file = Path(folder) / f"{index}{'.html' if is_page else '.json'}"
            file.write_text(content, "utf-8")
            try:
                # every file is a run, as in the total, which says which of them have the same plan
                kept.add(file, note=" ".join(name.split())[:200], again=True)
            except Contradiction:
                raise
            except SharpDPError as fault:
                why = str(fault).replace(file.name, "the file")
                refused.append({"name": name, "why": why, "verdict": _verdict(content)})
        yield {"made": _ledger_data(kept), "refused": refused, "file": path.read_text("utf-8")}


def _deltas(checked: Verification) -> Iterator[float]:
    """The deltas that a report is about."""
    for judged in checked.brackets:
        if judged.field.startswith("/epsilon/"):
            yield float(judged.recorded["delta"])


def _verdict(content: str) -> str:
    """The reason why a report is not counted: its verdict, or that it is over the budget."""
    try:
        found = verify(content).verdict
    except SharpDPError:
        return "cannot be read"
    return "over the budget" if found is Verdict.CONFIRMED else str(found)


def _files(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    listed = fields.get("reports")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_FILES:
        raise InvalidArgument(f"reports must be a list of 1 to {MOST_FILES} files.")
    for entry in listed:
        if not isinstance(entry, Mapping):
            raise InvalidArgument("each of the reports must have a name and a text.")
        yield text(entry, "name", "report"), text(entry, "text")


def _together(answers: list[Guarantee], delta: float) -> Plan:
    """All runs on the same people, in groups as large as any report has."""
    runs = [answer.mechanism for answer in answers]
    notions = {str(answer.adjacency) for answer in answers}
    run = runs[0] if len(runs) == 1 else Sequence(runs)
    size = max(answer.group_size for answer in answers)
    if len(notions) == 1:
        return Plan(run, (delta,), notions.pop(), group_size=size)
    return Plan(run, (delta,), group_size=size)


def _checked_ledger(name: str, content: str) -> dict[str, Any]:
    """The contents of a ledger, and whether its lines hold together."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "budget.jsonl"
        path.write_text(f"{content}\n", "utf-8")
        try:
            chain = HashChain(path)
            chain.first_break()
            chain.keep_head()  # the page gets no .head, and says what that leaves open
            problems = [line.replace(str(path), name) for line in Ledger.verify(path)]
            if problems:
                return {"name": name, "verdict": "contradicted", "lines": problems}
            return {"name": name, "verdict": "confirmed", **_ledger_data(Ledger(path))}
        except Contradiction:
            raise
        except SharpDPError as fault:
            said = str(fault).replace(str(path), name)
            return {"name": name, "verdict": "cannot be read", "lines": [said]}


def _ledger_data(kept: Ledger) -> dict[str, Any]:
    """The data of a ledger that the page shows."""
    left = kept.remaining()
    return {
        "lines": [entry.describe() for entry in kept.entries],
        "epsilon": bracket_data(kept.total()),
        "budget": kept.epsilon,
        "delta": kept.delta,
        "choice": kept.choice,
        "left": percent(float(left.lower), ROUND_FLOOR),
        "head": kept.head,
        "proof": PROOF,
    }
