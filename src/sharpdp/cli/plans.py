"""Commands about plan files: the answer, the report, the sources."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sharpdp.cli.parser import Misuse, nearest

__all__ = ["account", "cite", "report"]

Words = tuple[list[str], dict[str, Any]]

ENDINGS = (".txt", ".md", ".html", ".json")
"""What a report can be written as, by the ending of the file's name."""


def account(options: argparse.Namespace) -> Words:
    """Epsilon at every delta of a plan."""
    from sharpdp.plans import Plan
    from sharpdp.report import line, plain, theorems

    plan = Plan.read(options.plan)
    guarantee = plan.guarantee()
    brackets = [guarantee.epsilon(delta=one) for one in plan.delta]
    lines = [line(guarantee, one) for one in brackets]
    answers = [
        {"delta": at, **plain(guarantee, one)} for at, one in zip(plan.delta, brackets, strict=True)
    ]
    return lines, {"answers": answers, "plan": plan.hash, **theorems(guarantee)}


def report(options: argparse.Namespace) -> Words:
    """The report of a plan, on the screen or in a file."""
    from sharpdp.plans import Plan

    plan = Plan.read(options.plan)
    ending = ".txt" if options.output is None else Path(options.output).suffix
    if ending not in ENDINGS:
        raise Misuse(
            f"--output must end in {', '.join(ENDINGS)}; got {options.output!r}. "
            "The ending says how the report is written."
        )
    text = _writers()[ending](plan)
    if options.output is None:
        return text.splitlines(), {"report": text, "plan": plan.hash}
    try:
        Path(options.output).write_text(text, "utf-8")
    except OSError as fault:
        raise Misuse(f"--output must be a file that can be written; {fault}.") from fault
    return [f"written: {options.output}"], {"written": options.output, "plan": plan.hash}


def _writers() -> dict[str, Callable[[Any], str]]:
    """How a plan becomes a report, by ending."""
    from sharpdp.page import page
    from sharpdp.report import markdown, text, to_dict

    def data(plan: Any) -> str:
        found = to_dict(plan.guarantee(), delta=plan.delta)
        return json.dumps({**found, "plan": plan.to_dict(), "hash": plan.hash}, indent=2)

    return {
        ".txt": lambda plan: text(plan.guarantee(), delta=plan.delta),
        ".md": lambda plan: markdown(plan.guarantee(), delta=plan.delta),
        ".html": lambda plan: page(plan.guarantee(), delta=plan.delta, plan=plan),
        ".json": data,
    }


def cite(options: argparse.Namespace) -> Words:
    """The BibTeX of the sources of some bounds, or of all."""
    from sharpdp.bounds import all_bounds
    from sharpdp.citations import bibtex, keys

    known = {one.name: one for one in all_bounds()}
    for name in options.names:
        if name not in known:
            meant = nearest(name, known)
            ask = f"Did you mean {meant}?" if meant else "See sharpdp bounds."
            raise Misuse(f"there is no bound {name!r}. {ask}")
    chosen = [known[name] for name in options.names] or list(known.values())
    return bibtex(chosen).splitlines(), {"keys": keys(chosen), "bibtex": bibtex(chosen)}
