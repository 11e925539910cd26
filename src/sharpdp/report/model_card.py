"""The block of a model card: metadata that the Hugging Face Hub keeps, and a section for its readers."""

from __future__ import annotations

import math
from typing import Any

from sharpdp.display.outward_digits import DIGITS, ROUND_CEILING, ROUND_FLOOR, rounded
from sharpdp.report.content import Items, Section, marked, sections
from sharpdp.report.results import Results, checklist
from sharpdp.report.words import unit
from sharpdp.report.yaml_text import to_yaml

__all__ = ["card_data", "model_card", "safe"]


def card_data(results: Results) -> dict[str, Any]:
    """The metadata of a model card: tags, and `privacy` with the claim in numbers.

    Args:
        results: The numbers of the report.

    Returns:
        What the Hub reads between the lines of dashes; an epsilon that is not finite is None.
    """
    guarantee = results.guarantee
    delta, epsilon = results.epsilons[0]
    lower = safe(float(epsilon.lower), ROUND_FLOOR) if guarantee.lower_derivations else None
    claim: dict[str, Any] = {
        "epsilon": safe(float(epsilon), ROUND_CEILING),
        "epsilon_lower": lower,
        "delta": delta,
        "adjacency": guarantee.neighbors,
        "unit": unit(guarantee.mechanism, guarantee.group_size),
        "mechanism": guarantee.mechanism.describe(),
        "rigor": epsilon.rigor.by(epsilon.stated_by),
        "accountant": f"sharpdp {results.versions['sharpdp']}",
        "plan_sha256": None if results.unwritten else results.plan.hash,
    }
    if guarantee.conditions:
        claim["conditions"] = list(guarantee.conditions)
    about = results.header.to_dict()
    if results.date is not None:
        about["date"] = results.date
    return {"tags": ["differential-privacy"], "privacy": {**claim, **about}}


def model_card(results: Results) -> str:
    """Metadata and a section in Markdown, to be put into the README.md of a model.

    Args:
        results: The numbers of the report.

    Returns:
        The block between two lines of dashes, which belongs at the top of the file, and the section.
    """
    short = next(section for section in sections(results) if section.title == "In short")
    lines = [
        "---",
        to_yaml(card_data(results)),
        "---",
        "",
        "## Differential privacy",
        "",
        *marked(short),
        "What must be true for this to hold:",
        "",
        *marked(Section("", (Items(tuple(checklist(results))),))),
    ]
    if not results.unwritten:
        lines += [f"SHA-256 of the plan: `{results.plan.hash}`."]
    return "\n".join(lines).rstrip() + "\n"


def safe(value: float, direction: str) -> float | None:
    """A number in the usual digits, rounded in this direction; None if it is not finite."""
    return float(rounded(value, DIGITS, direction)) if math.isfinite(value) else None
