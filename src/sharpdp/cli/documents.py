"""Documents: the report of a plan, whether the numbers of a report hold, and published schemas."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sharpdp.cli.outputs import unwritable
from sharpdp.cli.parser import UsageError, quoted
from sharpdp.cli.run_spec import plan_of
from sharpdp.cli.views import Reply
from sharpdp.errors import InvalidArgument
from sharpdp.nearest_word import hint

__all__ = ["report", "schema", "verify"]


def report(options: argparse.Namespace) -> Reply:
    """The report of a plan, on the screen or in a file."""
    from sharpdp.report import SUFFIXES, render

    file = plan_of(options)
    if file is None:
        raise UsageError("report needs a plan file: sharpdp report plan.toml.")
    ending = ".txt" if options.output is None else Path(options.output).suffix.lower()
    if ending not in SUFFIXES:
        raise UsageError(
            f"--output must end in {', '.join(SUFFIXES)}; got {quoted(options.output)}. "
            "The ending says how the report is written."
        )
    plan = file.plan({})
    guarantee = plan.guarantee()
    if options.output is None and options.json:
        return Reply([], json.loads(render(guarantee, "json", delta=plan.delta)))
    text = render(guarantee, SUFFIXES[ending], delta=plan.delta)
    if options.output is None:
        return Reply(text.splitlines(), {})
    try:
        Path(options.output).write_text(text, "utf-8")
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise unwritable(options.output, why) from fault
    written = f"written: {options.output}"
    return Reply([written], {"written": options.output, "plan": plan.hash})


def verify(options: argparse.Namespace) -> Reply:
    """The verdict on every field of a report; exit code 1 unless all are confirmed, 2 if it is none."""
    from sharpdp.plans import text_of
    from sharpdp.report import Verdict
    from sharpdp.report import verify as verified

    try:
        try:
            text = text_of(Path(options.file), "report")
        except InvalidArgument as wrong:
            raise UsageError(str(wrong).replace("path must", "the report must", 1)) from None
        try:
            found = verified(text)
        except InvalidArgument as wrong:
            raise UsageError(f"in {options.file}: {wrong}") from None
    except UsageError as wrong:
        if not options.json:
            raise
        return Reply(
            [], {"report": options.file, "verdict": "cannot be read", "why": str(wrong)}, code=2
        )
    code = 0 if found.verdict is Verdict.CONFIRMED else 1
    return Reply(found.lines(), {"report": options.file, **found.to_dict()}, code=code)


def schema(options: argparse.Namespace) -> Reply:
    """The published schema of plans or of reports."""
    from sharpdp.report.json_schema import SCHEMAS
    from sharpdp.report.json_schema import schema as published

    if options.document not in SCHEMAS:
        ask = hint(options.document, SCHEMAS)
        allowed = " or ".join(SCHEMAS)
        raise UsageError(f"the document must be {allowed}; got {quoted(options.document)}.{ask}")
    text = published(options.document)
    return Reply(text.splitlines(), json.loads(text))
