"""Commands that print documents: reports, whether they hold, schemas, theorems, citations, scripts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharpdp.cli import tables
from sharpdp.cli.ask import entry
from sharpdp.cli.choose import UNKNOWNS, VARIED
from sharpdp.cli.commands import completion_parser
from sharpdp.cli.parser import UsageError, quoted
from sharpdp.cli.runs import RANDOMIZERS, SCHEMES, run_of
from sharpdp.cli.views import Reply
from sharpdp.display.nearest_word import hint
from sharpdp.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from sharpdp.bounds import Bound
    from sharpdp.plans import Plan
    from sharpdp.questions.account import Guarantee

__all__ = [
    "audit",
    "bounds",
    "check_output",
    "cite",
    "completion",
    "explore",
    "report",
    "schema",
    "verify",
]

SHELLS = ("bash", "zsh", "fish", "tcsh")

SOFTWARE = "sharpdp"
"""What is cited besides theorems."""


def report(options: argparse.Namespace) -> Reply:
    """The report of a run, on the screen or in a file."""
    from sharpdp.report import render, write_hash

    form = _format(options)
    if options.sha256 and options.output is None:
        raise UsageError("--sha256 hashes a file; give --output as well.")
    run = run_of(options)
    plan = run.plan(options.delta)
    header_fields = {
        name: value
        for name in ("project", "data_set", "version", "owner", "contact", "date", "reviewer")
        if (value := getattr(options, name)) is not None
    }
    guarantee = plan.guarantee()
    facts: dict[str, Any] = {"hash": plan.hash}
    if options.output is None and options.json:
        return Reply(_numbers(guarantee, plan), lines=[], plan=plan.to_dict(), facts=facts)
    audits = []
    if options.audit is not None:
        from sharpdp.audit import audit_file

        audits.append(audit_file(options.audit, guarantee=guarantee))
    header = {**run.header, **header_fields}
    text = render(guarantee, form, delta=plan.delta, audits=audits, header=header)
    if options.output is None:
        return Reply([], lines=text.splitlines())
    try:
        Path(options.output).write_text(text, "utf-8")
    except (OSError, ValueError) as fault:
        raise _unwritable(options.output, fault) from fault
    lines = [f"written: {options.output}"]
    if options.sha256:
        facts["sha256"] = str(write_hash(options.output))
        lines.append(f"written: {facts['sha256']}")
    return Reply(
        _numbers(guarantee, plan) if options.json else [],
        lines=lines,
        plan=plan.to_dict(),
        facts={**facts, "written": options.output},
    )


def verify(options: argparse.Namespace) -> Reply:
    """The verdicts on some reports, one after the other."""
    if len(options.files) == 1:
        return _verified(options.files[0], is_data=options.json)
    lines, reports, code = [], [], 0
    for file in options.files:
        try:
            reply = _verified(file, is_data=options.json)
        except UsageError as fault:  # the others are verified all the same
            reply = Reply([], lines=[f"cannot be read: {fault}"], code=2)
        lines += [f"{file}:", *(f"  {line}" for line in reply.lines or [])]
        reports.append({**reply.facts, "findings": reply.answers})
        code = max(code, reply.code)
    return Reply(reports, lines=lines, code=code)


def _verified(file: str, *, is_data: bool) -> Reply:
    """The verdict on every field of a report; exit code 1 unless all are confirmed, 2 if it is none."""
    from sharpdp.plans import text_of
    from sharpdp.report import Verdict, check_hash
    from sharpdp.report import verify as verified

    try:
        try:
            text = text_of(Path(file), "report")
        except InvalidArgument as fault:
            raise UsageError(str(fault).replace("path must", "the report must", 1)) from None
        try:
            verification = verified(text)
            is_hashed = check_hash(file)
        except InvalidArgument as fault:
            raise UsageError(f"in {file}: {fault}") from None
    except UsageError as fault:
        if not is_data:
            raise
        facts: dict[str, Any] = {"report": file, "verdict": "cannot be read", "why": str(fault)}
        return Reply([], lines=[], facts=facts, code=2)
    code = 0 if verification.verdict is Verdict.CONFIRMED and is_hashed is not False else 1
    data = verification.to_dict()
    facts = {"report": file, "hash": data.pop("plan"), **data, "file_hash": is_hashed}
    lines = verification.lines()
    if is_hashed is not None:
        beside = f"{Path(file).name}.sha256"
        lines.append(
            f"OK  {beside} matches the file"
            if is_hashed
            else f"contradicted: the file is not the one that {beside} was made from"
        )
    return Reply(facts.pop("findings"), lines=lines, facts=facts, code=code)


def audit(options: argparse.Namespace) -> Reply:
    """An audit of a plan by a table of scores or batches; exit code 1 if it contradicts the plan."""
    from sharpdp.audit import SamplerAudit, audit_file
    from sharpdp.plans import Plan

    plan = None if options.plan is None else Plan.read(options.plan)
    asked = {"confidence": options.confidence, "delta": options.delta, "design": options.design}
    result = audit_file(
        options.file,
        guarantee=None if plan is None else plan.guarantee(),
        **{name: value for name, value in asked.items() if value is not None},
    )
    reply = Reply(
        [result.to_dict()],
        lines=str(result).splitlines(),
        plan=None if plan is None else plan.to_dict(),
        facts={"table": options.file},
        code=1 if result.consistent is False else 0,
    )
    if options.output is None:
        return reply
    if isinstance(result, SamplerAudit):
        raise UsageError("--output draws error rates, and batches have none.")
    result.save(options.output)
    return reply.drawn(options.output)


def schema(options: argparse.Namespace) -> Reply:
    """The published schema of plans or of reports."""
    from sharpdp.report.json_schema import SCHEMAS
    from sharpdp.report.json_schema import schema as published

    if options.document not in SCHEMAS:
        ask = hint(options.document, SCHEMAS)
        allowed = " or ".join(SCHEMAS)
        raise UsageError(f"the document must be {allowed}; got {quoted(options.document)}.{ask}")
    text = published(options.document)
    return Reply([json.loads(text)], lines=text.splitlines())


def bounds(options: argparse.Namespace) -> Reply:
    """Registered theorems: those that are named, or all; or the BibTeX of their sources."""
    from sharpdp.report.citations import bibtex

    chosen = _chosen(options.names)
    entries = [_theorem(bound) for bound in chosen]
    if options.bibtex:
        text = bibtex(chosen)
        return Reply(entries, lines=text.splitlines(), facts={"bibtex": text})
    if options.names or options.details:
        return Reply(entries, lines=[line for bound in chosen for line in tables.theorem(bound)])
    return Reply(entries, tables.catalog(entries))


def cite(options: argparse.Namespace) -> Reply:
    """BibTeX entries of sharpdp itself, and of the sources of theorems."""
    from sharpdp.bounds.references import publications
    from sharpdp.report.citations import keys, software

    names = options.names or [SOFTWARE]
    published = publications()
    wanted: list[str] = []
    for name in names:
        if name in published:
            wanted.append(name)
        elif name != SOFTWARE:
            wanted += keys(_chosen([name], also=[SOFTWARE, *published]))
    entries = [software()] if SOFTWARE in names else []
    text = "\n\n".join([*entries, *(published[key] for key in dict.fromkeys(wanted))])
    return Reply(
        [{"name": name} for name in names], lines=text.splitlines(), facts={"bibtex": text}
    )


def explore(options: argparse.Namespace) -> Reply:
    """The address of the local page, which is then served until Ctrl-C."""
    from sharpdp.explore import start

    server = start(port=options.port)
    run = partial(server.run, browser=not options.no_browser)
    words = f"sharpdp is at {server.address} for this machine only; Ctrl-C stops it."
    return Reply([{"address": server.address}], lines=[words], afterwards=run)


def completion(options: argparse.Namespace) -> Reply:
    """The script that completes commands, options and their values in one shell."""
    if options.shell not in SHELLS:
        ask = hint(options.shell, SHELLS)
        raise UsageError(
            f"the shell must be {', '.join(SHELLS)}; got {quoted(options.shell)}.{ask}"
        )
    try:
        shtab = import_module("shtab")
    except ImportError:
        raise MissingExtra(
            "shtab is needed to write completion scripts and is not installed: pip install shtab, "
            "or sharpdp with the extra cli."
        ) from None
    # functions that offer what can be compared by its name, and files
    preamble = {
        "bash": '_sharpdp_compared() { compgen -W "WORDS" -- $1; compgen -f -- $1; }',
        "zsh": "_sharpdp_compared() { _alternative 'what:what:(WORDS)' 'files:file:_files'; }",
        "fish": "function _sharpdp_compared; string split ' ' 'WORDS'; end",
    }
    for shell, text in preamble.items():
        preamble[shell] = text.replace("WORDS", "samplers mixture conversions dpsgd shuffle")
    script = shtab.complete(_with_values(shtab.FILE), options.shell, preamble=preamble)
    return Reply([{"shell": options.shell, "script": script}], lines=script.splitlines())


def check_output(options: argparse.Namespace) -> None:
    """Refuse a picture that cannot be drawn, or a folder that does not exist, before the work."""
    output = options.output
    if options.command != "report":
        from sharpdp.plots.style import FORMATS, matplotlib

        if Path(output).suffix.lower() not in FORMATS:
            raise UsageError(f"--output must end in {', '.join(FORMATS)}; got {quoted(output)}.")
        matplotlib("figure")
    try:
        if not Path(output).parent.is_dir():
            raise _unwritable(output, "No such file or directory")
        if Path(output).is_dir():
            raise _unwritable(output, "Is a directory")
    except (OSError, ValueError) as fault:
        raise _unwritable(output, fault) from fault


def _unwritable(output: str, fault: Exception | str) -> UsageError:
    """The refusal of a file that cannot be written."""
    why = getattr(fault, "strerror", None) or fault
    return UsageError(f"--output must be a file that can be written; got {quoted(output)}: {why}.")


def _format(options: argparse.Namespace) -> str:
    """How the report is written: by --format, or by the ending of the file."""
    from sharpdp.report import EXTRACTS, FORMATS, SUFFIXES

    if options.output is None or options.format in EXTRACTS:
        form = options.format or "text"
        if form not in FORMATS:
            ask = hint(form, FORMATS)
            raise UsageError(f"--format must be {', '.join(FORMATS)}; got {quoted(form)}.{ask}")
        endings = EXTRACTS.get(str(form), ())
        if options.output is not None and Path(options.output).suffix.lower() not in endings:
            raise UsageError(
                f"--output of {form} must end in {' or '.join(endings)}; got {quoted(options.output)}."
            )
        return str(form)
    if options.format is not None:
        raise UsageError("give --output, whose ending says the format, or --format; got both.")
    ending = Path(options.output).suffix.lower()
    if ending not in SUFFIXES:
        raise UsageError(
            f"--output must end in {', '.join(SUFFIXES)}; got {quoted(options.output)}. "
            "The ending says how the report is written."
        )
    return SUFFIXES[ending]


def _numbers(guarantee: Guarantee, plan: Plan) -> list[dict[str, Any]]:
    """The brackets of a report for JSON."""
    from sharpdp.report import Results

    results = Results.of(guarantee, delta=plan.delta)
    return [
        *(entry(guarantee, bracket, delta=delta) for delta, bracket in results.epsilons),
        *(entry(guarantee, bracket, epsilon=epsilon) for epsilon, bracket in results.deltas),
        *(entry(guarantee, bracket, fpr=rate) for rate, bracket in results.rates),
        entry(guarantee, results.advantage),
        entry(guarantee, results.mu),
    ]


def _chosen(names: list[str], also: Sequence[str] = ()) -> list[Bound]:
    """The bounds of these names; all if there are none. The hint knows other names, too."""
    from sharpdp.bounds import all_bounds

    bounds_by_name = {bound.name: bound for bound in all_bounds()}
    for name in names:
        if name not in bounds_by_name:
            ask = hint(name, [*bounds_by_name, *also], "See sharpdp bounds.")
            raise UsageError(f"there is no bound {quoted(name)}.{ask}")
    return [bounds_by_name[name] for name in names] or list(bounds_by_name.values())


def _theorem(bound: Bound) -> dict[str, Any]:
    """One theorem for JSON."""
    from sharpdp.bounds.proofs import cited
    from sharpdp.report.citations import keys

    return {
        "name": bound.name,
        "bounds": bound.subject,
        "sides": [str(side) for side in bound.sides],
        "rigor": bound.rigor_words,
        "adjacency": [str(notion) for notion in bound.adjacency],
        "holds_when": bound.holds_when or None,
        "attained_when": bound.attained_when or None,
        "source": bound.grounds if bound.stated_by else bound.source,
        "proof": cited(bound.proof) if bound.proof else None,
        "keys": keys([bound]),
    }


def _with_values(files: Any) -> argparse.ArgumentParser:
    """The parser of all commands, with the words and files that options take."""
    from sharpdp.bounds import all_bounds
    from sharpdp.report.json_schema import SCHEMAS

    values: dict[str, Any] = {
        "adjacency": ("add/remove", "zero-out", "replace-one"),
        "batches": tuple(SCHEMES),
        "document": SCHEMAS,
        "format": ("text", "markdown", "html", "json", "model-card", "registry"),
        "names": [bound.name for bound in all_bounds()],
        "over": VARIED,
        "randomizer": tuple(RANDOMIZERS),
        "shell": SHELLS,
        "unknown": [word.replace("_", "-") for word in UNKNOWNS],
    }
    parser = completion_parser()
    (commands,) = (action.choices for action in parser._actions if action.dest == "command")
    assert isinstance(commands, dict)
    for name, command in commands.items():
        for action in command._actions:
            if action.dest in values:
                action.choices = values[action.dest]
            elif name == "compare" and action.dest == "run":
                action.complete = {
                    "bash": "_sharpdp_compared",
                    "zsh": "_sharpdp_compared",
                    "fish": "(_sharpdp_compared; __fish_complete_path (commandline -ct))",
                }
            elif action.dest in ("plan", "output", "file", "files", "run"):
                action.complete = files
    return parser
