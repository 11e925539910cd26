"""Sweeps: a command with several values of some options is answered for each combination of them."""

from __future__ import annotations

import argparse
import copy
import csv
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sharpdp.cli.parser import Several, UsageError, flag
from sharpdp.cli.views import Column, Emphasis, Group, Reply, TableLine, View

__all__ = ["answered", "as_csv"]

GIVEN = ("delta", "epsilon", "fpr", "order", "prior", "baseline", "candidates", "records")
"""Fields of an answer that say where a quantity was asked for."""

Function = Callable[[argparse.Namespace], Reply]


def answered(options: argparse.Namespace, function: Function) -> Reply:
    """The reply to a command line; if options have several values, those of all combinations in one."""
    several = {name: value for name, value in vars(options).items() if isinstance(value, Several)}
    if not several:
        return function(options)
    first = flag(next(iter(several)))
    if options.command == "report":
        raise UsageError(f"a report is about one run; got several values of {first}.")
    if getattr(options, "output", None) is not None:
        raise UsageError(f"--output draws one run; got several values of {first}. Use --csv.")
    settings, replies = [], []
    for values in itertools.product(*several.values()):
        setting = dict(zip(several, values, strict=True))
        single = argparse.Namespace(**{**copy.deepcopy(vars(options)), **setting})
        reply = function(single)
        if "unknown" in reply.facts:  # what was calibrated
            setting |= {reply.facts["unknown"]: reply.facts["value"]}
        settings.append(setting)
        replies.append(reply)
    answers = [
        {**setting, **answer}
        for setting, reply in zip(settings, replies, strict=True)
        for answer in reply.answers
    ]
    facts = {
        "swept": {name: list(values) for name, values in several.items()},
        "plans": [reply.plan for reply in replies],
    }
    view = _view(options, settings, replies)
    return Reply(answers, view, facts=facts, code=max(reply.code for reply in replies))


def as_csv(answers: Sequence[Mapping[str, Any]]) -> str:
    """Answers as comma-separated values under the names of their fields; what is not there is empty.

    >>> print(
    ...     as_csv(
    ...         [{"delta": 1e-5, "upper": 1.25}, {"delta": 1e-6, "upper": "inf", "why": "no, but"}]
    ...     )
    ... )
    delta,upper,why
    1e-05,1.25,
    1e-06,inf,"no, but"
    """
    names = list(dict.fromkeys(name for answer in answers for name in answer))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        writer.writerow({name: _field(value) for name, value in answer.items()})
    return text.getvalue().rstrip("\n")


def _field(value: Any) -> Any:
    """A value as one field: lists and objects as JSON."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _view(
    options: argparse.Namespace, settings: Sequence[Mapping[str, Any]], replies: Sequence[Reply]
) -> View:
    """One table: the settings in the first columns, then what each run has in its own table."""
    views = [reply.view for reply in replies if reply.view is not None]
    names = list(settings[0])
    first = tuple(Column(name.replace("_", " "), "right") for name in names)
    own_notes = ("run", "for a smaller epsilon")  # about one run, which the table has instead
    notes = dict.fromkeys(note for view in views for note in view.notes if note[0] not in own_notes)
    title = views[0].title
    if any(view.title != title for view in views):
        title = f"{options.command} of {len(settings)} runs"
    columns, groups = views[0].columns, [view.groups for view in views]
    unknown = replies[0].facts.get("unknown")
    if not columns or unknown is not None:
        columns, groups = _brackets(replies)
        title = f"{title}: {len(settings)} runs"
        if unknown is not None:
            title = f"{unknown.replace('_', ' ')} that meets each target"
    lines = []
    for setting, own in zip(settings, groups, strict=True):
        cells = tuple(_shown(setting[name]) for name in names)
        for group in own:
            lines += [
                replace(line, cells=(*cells, *line.cells), extent=None) for line in group.lines
            ]
    return View(
        title=title,
        columns=(*first, *columns),
        groups=(Group("", tuple(lines)),),
        notes=tuple(notes),
        named_by=len(first) + views[0].named_by,
    )


def _brackets(replies: Sequence[Reply]) -> tuple[tuple[Column, ...], list[tuple[Group, ...]]]:
    """A table of brackets, for replies that have none: what was asked, and both ends."""
    from sharpdp.cli.tables import ends

    columns = (
        Column("quantity"),
        Column("at least", "right"),
        Column("at most", "right"),
    )
    groups: list[tuple[Group, ...]] = []
    for reply in replies:
        lines = []
        for answer in reply.answers:
            conditions = [
                f"{name}={answer[name]:g}" for name in GIVEN if answer.get(name) is not None
            ]
            at = f" at {', '.join(conditions)}" if conditions else ""
            cells = (f"{answer['quantity']}{at}", *ends(answer["lower"], answer["upper"]))
            lines.append(TableLine(cells, Emphasis.HOLDS))
        groups.append((Group("", tuple(lines)),))
    return columns, groups


def _shown(value: Any) -> str:
    """A setting in a table, with all digits: a calibrated value holds as it stands."""
    return repr(value) if isinstance(value, float) else str(value)
