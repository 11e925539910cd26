"""What a paper is here: tables and figures by name, what deviates from print, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from math import isinf, isnan
from typing import Any

__all__ = ["QUICK", "WHOLE", "Erratum", "Item", "Paper", "Table", "bracket", "number", "rate"]

QUICK, WHOLE = "quick", "whole"
"""The sizes: some points in seconds, or all."""

DIGITS = 5
"""Significant digits of a number in a table, unless it asks for others."""


@dataclass(frozen=True)
class Table:
    """Headings and rows of text, with a line above."""

    title: str
    headings: tuple[str, ...]
    rows: list[list[str]]


@dataclass(frozen=True)
class Item:
    """A table or a figure of a paper.

    `values` computes what is shown, through the cache, at a size; `tables` lays it out; `draw` draws it
    on a canvas of `inches`. Both are plain functions of the values. One that is not `quick` is left
    out of quick runs unless it is asked for.
    """

    name: str
    title: str
    about: str
    values: Callable[[str], Any]
    tables: Callable[[Any], list[Table]]
    remarks: tuple[str, ...] = ()
    draw: Callable[[Any, Any], None] | None = None
    inches: tuple[float, float] = (0.0, 0.0)
    caption: str = ""
    quick: bool = True


@dataclass(frozen=True)
class Erratum:
    """The verdict on a published statement; pages, tests and `docs/proofs/repaired.md` read it here.

    `words` are the paper's, formulas transcribed; `right` is what holds, or the reading under which the
    statement does; `label` is one of `pages.LABELS`. `evidence` names the test, below `tests`; `section`
    is the heading of `docs/proofs/repaired.md` with the counterexample, if there is one.
    """

    place: str
    words: str
    right: str
    label: str
    evidence: str = ""
    section: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper: its key in the bibliography, what it is about, and everything that is computed again."""

    key: str
    title: str
    about: tuple[str, ...]
    items: tuple[Item, ...]
    errata: tuple[Erratum, ...] = ()
    elsewhere: tuple[str, ...] = ()
    verdict: str = ""


def number(value: float | None, digits: int = DIGITS) -> str:
    """A value in a few digits, rounded to the nearest; a dash if there is none.

    >>> number(3.0308616e-06), number(0.5), number(float("nan"))
    ('3.0309e-6', '0.5', '–')
    """
    if value is None or isnan(value):
        return "–"
    return _short(f"{value:.{digits}g}")


def bracket(ends: Sequence[float], digits: int = DIGITS) -> str:
    """Both ends of a bracket in a few digits, rounded outwards.

    >>> bracket([0.123456, 0.123459])
    '[0.12345, 0.12346]'
    """
    lower, upper = (
        _outwards(end, way, digits)
        for end, way in zip(ends, (ROUND_FLOOR, ROUND_CEILING), strict=True)
    )
    return f"[{lower}, {upper}]"


def rate(value: float, digits: int = 6) -> str:
    """A rate between 0 and 1 with so many decimals.

    >>> rate(0.98965915)
    '0.989659'
    """
    return f"{value:.{digits}f}"


def _outwards(value: float, way: str, digits: int) -> str:
    if isinf(value):
        return f"{value:g}"
    rounded = Context(prec=digits, rounding=way).create_decimal(value)
    return _short(f"{float(rounded):.{digits}g}")


def _short(text: str) -> str:
    """Without the zeros of an exponent."""
    mantissa, sign, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if sign else text
