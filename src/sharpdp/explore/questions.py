"""The questions of the page by name: each takes the fields of a view and yields parts of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sharpdp.explore.collection_view import collection
from sharpdp.explore.curves_view import curves
from sharpdp.explore.officer_view import officer
from sharpdp.explore.report_view import report
from sharpdp.explore.training_view import training

__all__ = ["VIEWS"]

VIEWS: dict[str, Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]] = {
    "training": training,
    "collection": collection,
    "curves": curves,
    "officer": officer,
    "report": report,
}
"""What answers which view."""
