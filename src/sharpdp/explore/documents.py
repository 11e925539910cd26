"""Files that the page offers: the report of a plan, and the publications that it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sharpdp._validate import invalid, is_among
from sharpdp.errors import InvalidArgument
from sharpdp.plans import Plan
from sharpdp.report import render
from sharpdp.report.citations import bibtex

__all__ = ["document"]

FILES = {"html": "report.html", "json": "report.json", "bibtex": "sharpdp.bib"}
"""The formats, and the names of the files."""


def document(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One file about a plan.

    Args:
        fields: plan, as `Plan.to_dict` gives it; format, a key of `FILES`.
    """
    plan = plan_field(fields)
    kind = fields.get("format", "html")
    if not is_among(FILES, kind):
        raise invalid("format", f"one of {', '.join(FILES)}", kind)
    guarantee = plan.guarantee()
    if kind == "bibtex":
        text = bibtex(guarantee.bounds) + "\n"
    else:
        text = render(guarantee, kind, delta=plan.delta)
    yield {"document": text, "name": FILES[kind]}


def plan_field(fields: Mapping[str, Any]) -> Plan:
    """The field plan of a question."""
    data = fields.get("plan")
    if not isinstance(data, Mapping):
        raise InvalidArgument("plan must be given; got none.")
    return Plan.from_dict(data)
