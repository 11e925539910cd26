"""A report of what a view shows, to be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sharpdp.errors import InvalidArgument
from sharpdp.plans import Plan
from sharpdp.report import render

__all__ = ["report"]


def report(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The report of a plan as one HTML page.

    Args:
        fields: plan, as `Plan.to_dict` gives it.
    """
    data = fields.get("plan")
    if not isinstance(data, Mapping):
        raise InvalidArgument("plan must be given; got none.")
    plan = Plan.from_dict(data)
    yield {"document": render(plan.guarantee(), "html", delta=plan.delta), "name": "report.html"}
