"""The command `report`: what a plan says is run, as a document for a model card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sharpdp.cli.described import plan_of
from sharpdp.cli.outputs import unwritable
from sharpdp.cli.parser import Misuse, quoted
from sharpdp.cli.views import Reply

__all__ = ["report"]


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
