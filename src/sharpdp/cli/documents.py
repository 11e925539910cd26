"""Documents: the report of a plan, whether the numbers of a report hold, and published schemas."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sharpdp.cli.described import plan_of
from sharpdp.cli.outputs import unwritable
from sharpdp.cli.parser import Misuse, hint, quoted
from sharpdp.cli.views import Reply
from sharpdp.errors import InvalidArgument

__all__ = ["report", "schema", "verify"]


def report(options: argparse.Namespace) -> Reply:
    """The report of a plan, on the screen or in a file."""
    from sharpdp.report import SUFFIXES, render

    file = plan_of(options)
    if file is None:
        raise Misuse("report needs a plan file: sharpdp report plan.toml.")
    ending = ".txt" if options.output is None else Path(options.output).suffix.lower()
    if ending not in SUFFIXES:
        raise Misuse(
            f"--output must end in {', '.join(SUFFIXES)}; got {quoted(options.output)}. "
            "The ending says how the report is written."
        )
    plan = file.plan({})
    guarantee = plan.guarantee()
    text = render(guarantee, SUFFIXES[ending], delta=plan.delta)
    if options.output is None:
        data = render(guarantee, "json", delta=plan.delta) if options.json else "{}"
        return Reply(text.splitlines(), json.loads(data))
    try:
        Path(options.output).write_text(text, "utf-8")
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise unwritable(options.output, why) from fault
    written = f"written: {options.output}"
    return Reply([written], {"written": options.output, "plan": plan.hash})


def verify(options: argparse.Namespace) -> Reply:
    """What is right about a report; a Misuse if something is not."""
    from sharpdp.plans import text_of
    from sharpdp.report import verify as verified

    try:
        text = text_of(Path(options.file), "report")
    except InvalidArgument as wrong:
        raise Misuse(str(wrong).replace("path must", "the report must", 1)) from None
    try:
        lines = verified(text)
    except InvalidArgument as wrong:
        raise Misuse(f"in {options.file}: {wrong}") from None
    return Reply(lines, {"verified": options.file, "findings": lines})


def schema(options: argparse.Namespace) -> Reply:
    """The published schema of plans or of reports."""
    from sharpdp.report.schema import SCHEMAS
    from sharpdp.report.schema import schema as published

    if options.document not in SCHEMAS:
        ask = hint(options.document, SCHEMAS)
        allowed = " or ".join(SCHEMAS)
        raise Misuse(f"the document must be {allowed}; got {quoted(options.document)}.{ask}")
    text = published(options.document)
    return Reply(text.splitlines(), json.loads(text))
