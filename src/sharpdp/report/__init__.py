"""An answer in words, for a model card: what was run, how private it is, and why that is so.

`render` writes the same results as text, Markdown, one HTML page or JSON. Which numbers are true is the
business of the Guarantee; here they are only asked for, and rounded outwards.
"""

from sharpdp.report.content import (
    EXTRACTS,
    FORMATS,
    SUFFIXES,
    line,
    markdown,
    render,
    sections,
    short,
    text,
)
from sharpdp.report.detached_hash import check_hash, write_hash
from sharpdp.report.json_schema import report_schema, schema
from sharpdp.report.model_card import card_data, model_card
from sharpdp.report.registry_entry import registry_entry, registry_text
from sharpdp.report.results import DELTAS, Results, plain, theorems, to_dict, to_json
from sharpdp.report.verification import Finding, Verdict, Verification, from_json, verify
from sharpdp.report.words import neighbors

__all__ = [
    "DELTAS",
    "EXTRACTS",
    "FORMATS",
    "SUFFIXES",
    "Finding",
    "Results",
    "Verdict",
    "Verification",
    "card_data",
    "check_hash",
    "from_json",
    "line",
    "markdown",
    "model_card",
    "neighbors",
    "plain",
    "registry_entry",
    "registry_text",
    "render",
    "report_schema",
    "schema",
    "sections",
    "short",
    "text",
    "theorems",
    "to_dict",
    "to_json",
    "verify",
    "write_hash",
]
