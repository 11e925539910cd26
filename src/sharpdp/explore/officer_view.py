"""The view of the privacy officer: reports are verified, added up, and put into words about attackers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.explore.fields import bracket_data, number, text
from sharpdp.explore.snippets import snippets
from sharpdp.mechanisms import Mechanism, Sequence
from sharpdp.plans import Plan
from sharpdp.report import verify

__all__ = ["officer"]

MOST_REPORTS = 50


def officer(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A verdict on every report, then what all of them cost together, and what an attacker could do.

    Args:
        fields: reports (a list of {name, text}, JSON or HTML), delta, prior (the share of people who are
            in the data, as an attacker knows it).
    """
    listed = fields.get("reports")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_REPORTS:
        raise InvalidArgument(f"reports must be a list of 1 to {MOST_REPORTS} reports.")
    delta, prior = number(fields, "delta"), number(fields, "prior", 0.5)
    runs: list[Mechanism] = []
    for entry in listed:
        if not isinstance(entry, Mapping):
            raise InvalidArgument("each of the reports must have a name and a text.")
        name = text(entry, "name", "report")
        try:
            checked = verify(text(entry, "text"))
        except SharpDPError as fault:
            yield {"report": {"name": name, "verdict": "cannot be read", "lines": [str(fault)]}}
            continue
        part: dict[str, Any] = {
            "name": name,
            "verdict": str(checked.verdict),
            "lines": checked.lines(),
        }
        if checked.guarantee is not None:
            runs.append(checked.guarantee.mechanism)
            part |= {
                "run": checked.guarantee.mechanism.describe(),
                "neighbors": checked.guarantee.neighbors,
                "epsilon": bracket_data(checked.guarantee.epsilon(delta=delta)),
            }
        yield {"report": part}
    if runs:
        yield from _total(runs, delta, prior)


def _total(runs: list[Mechanism], delta: float, prior: float) -> Iterator[dict[str, Any]]:
    """What all runs cost together on the same people, whatever neighbors each of them was about."""
    plan = Plan(runs[0] if len(runs) == 1 else Sequence(runs), (delta,))
    guarantee = plan.guarantee()
    yield {
        "total": {
            "epsilon": bracket_data(guarantee.epsilon(delta=delta)),
            "neighbors": guarantee.neighbors,
            "runs": len(runs),
        },
        "snippets": snippets(plan),
        "plan": plan.to_dict(),
    }
    yield {"risk": list(guarantee.risk(prior=prior).sentences())}
