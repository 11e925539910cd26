"""Tables of scores and of batches, as files with a line of names: what `sharpdp audit` reads."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np

from sharpdp._validate import short_repr
from sharpdp.audit.drawn_batches import SamplerAudit, sampler
from sharpdp.audit.repeated_runs import many_runs
from sharpdp.audit.score_results import ScoreAudit
from sharpdp.audit.single_run import one_run
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms import BatchQueries
from sharpdp.numerics.special import Array
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import Guarantee

__all__ = ["audit_file"]

LAYOUTS = {
    ("score", "included"): "one run: a score for each canary, and 1 if it was in or 0 if not",
    ("with_record", "without_record"): "many runs: a score of a run of each kind in every line",
    ("step", "example"): "batches: the position of every example that was in the batch of a step",
}
"""The two names of the first line, in any order, and what the columns hold."""

COUNTED = {"step": "batches", "example": "positions in the data set"}
"""Columns of whole numbers from 0 on, and what they count."""

LARGEST_COUNT = 2.0**53
"""Up to here every whole number is a double."""


@underflow_is_zero
def audit_file(
    path: str | Path,
    *,
    guarantee: Guarantee | None = None,
    confidence: float = 0.99,
    delta: float = 1e-5,
    design: str = "coins",
) -> ScoreAudit | SamplerAudit:
    """Audit what a table of comma-separated values holds, which the names in its first line say.

    - ``score,included``: `one_run`
    - ``with_record,without_record``: `many_runs`; of columns of unequal length, leave cells empty
    - ``step,example``: `sampler`, against the batch scheme of the guarantee's DP-SGD run

    Args:
        path: The file.
        guarantee: What to test; needed for batches.
        confidence: Probability, in (0, 1), with which lower ends hold, and a true guarantee passes.
        delta: The delta at which epsilon is bounded, in (0, 1).
        design: As for `one_run`.

    Returns:
        The result of the audit.

    Raises:
        InvalidArgument: the file cannot be read, or is no such table; the message says where.
        Unsupported: the guarantee does not cover such an audit.
    """
    names, columns = _columns(Path(path))
    if set(names) == {"score", "included"}:
        return one_run(
            scores=columns["score"],
            included=columns["included"],
            confidence=confidence,
            delta=delta,
            guarantee=guarantee,
            design=design,
        )
    if set(names) == {"with_record", "without_record"}:
        return many_runs(
            with_record=columns["with_record"],
            without_record=columns["without_record"],
            confidence=confidence,
            delta=delta,
            guarantee=guarantee,
        )
    run = None if guarantee is None else guarantee.mechanism
    if not isinstance(run, BatchQueries):
        raise InvalidArgument(
            "guarantee must be that of one DP-SGD run, whose batches the table holds; got "
            f"{short_repr(run)}."
        )
    step, example = (columns[name].astype(np.int64) for name in ("step", "example"))
    order = np.argsort(step, kind="stable")
    steps = run.batches.steps
    last = int(np.max(step, initial=0)) + 1
    edges = np.searchsorted(step[order], np.arange(min(max(last, 1), steps + 1) + 1))
    batches = [example[order][first:second] for first, second in itertools.pairwise(edges)]
    return sampler(batches=batches, scheme=run.batches, false_alarm=1.0 - confidence)


def _columns(path: Path) -> tuple[tuple[str, ...], dict[str, Array]]:
    """The names of the columns, and their numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        why = getattr(fault, "strerror", None) or fault
        raise InvalidArgument(
            f"path must be a table that can be read; got {short_repr(str(path))}: {why}."
        ) from None
    names = tuple(word.strip() for word in lines[0]) if lines else ()
    if not any(set(names) == set(layout) and len(names) == 2 for layout in LAYOUTS):
        layouts = "; ".join(f"{','.join(layout)} ({what})" for layout, what in LAYOUTS.items())
        raise InvalidArgument(
            f"path must be a table with one of these first lines: {layouts}; got "
            f"{short_repr(','.join(names))}."
        )
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, line in enumerate(lines[1:], start=2):
        if len(line) > len(names):
            raise InvalidArgument(f"line {number} must have {len(names)} cells; got {len(line)}.")
        cells = dict(zip(names, [*line, ""], strict=False))
        for name, cell in cells.items():
            # the runs with and without a record may be of unequal number; other lines are pairs
            if cell.strip() or "with_record" not in names:
                columns[name].append(_number(name, cell, number))
    return names, {name: np.array(values) for name, values in columns.items()}


def _number(name: str, cell: str, line: int) -> float:
    """The number in a cell, if its column may hold it."""
    try:
        value = float(cell)
    except ValueError:
        raise InvalidArgument(
            f"{name} must be a number in every line; got {short_repr(cell)} in line {line}."
        ) from None
    if name in COUNTED and not (value.is_integer() and 0.0 <= value <= LARGEST_COUNT):
        raise InvalidArgument(
            f"{name} must count {COUNTED[name]} in whole numbers from 0 to 2^53; got "
            f"{short_repr(cell)} in line {line}."
        )
    return value
