"""The questions of the page by name: what answers which, imported only by the processes that compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

__all__ = ["QUESTIONS", "USUAL_SECONDS", "answering"]

Answer = Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]
"""Takes the fields of a question, and yields the parts of its answer."""

QUESTIONS = {
    "training-loader": "training_view.loader",
    "training-schemes": "training_view.schemes",
    "training-slow-schemes": "training_view.slow_schemes",
    "training-noise": "training_view.noise",
    "collection-design": "collection_view.design",
    "collection-picture": "collection_view.picture",
    "collection-limit": "collection_view.limit",
    "curves": "curves_view.curves",
    "curves-bounds": "curves_view.bounds",
    "curves-drawn": "curves_view.drawn",
    "officer-reports": "officer_view.reports",
    "officer-risk": "officer_view.risk",
    "officer-ledger": "officer_view.ledger",
    "document": "documents.document",
}
"""A view asks several: a change of one field asks again only those that depend on it."""

USUAL_SECONDS = {
    "training-loader": 1.5,
    "training-schemes": 0.5,
    "training-slow-schemes": 2.0,
    "training-noise": 10.0,
    "collection-design": 0.4,
    "collection-picture": 3.0,
    "collection-limit": 2.0,
    "curves-drawn": 1.0,
    "officer-reports": 1.0,
    "officer-ledger": 1.0,
    "document": 1.0,
}
"""About how long an answer takes one processor, until some have been measured; others are quick."""


def answering(question: str) -> Answer:
    """The function that answers a question."""
    module, _, name = QUESTIONS[question].partition(".")
    answer: Answer = getattr(import_module(f"sharpdp.explore.{module}"), name)
    return answer
