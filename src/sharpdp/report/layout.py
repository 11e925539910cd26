"""A report in every format: text and Markdown are laid out here, HTML and JSON in their own files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from numpy.typing import ArrayLike

from sharpdp._validate import is_among, one_line, short_repr
from sharpdp.accounting import Guarantee
from sharpdp.bracket import Bracket
from sharpdp.errors import InvalidArgument
from sharpdp.nearest_word import hint
from sharpdp.report.content import (
    Brackets,
    Code,
    Items,
    Picture,
    Section,
    Table,
    sections,
    short,
)
from sharpdp.report.json_schema import to_json
from sharpdp.report.picture import data_address, sketch
from sharpdp.report.results import DELTAS, TITLE, findings

__all__ = ["FORMATS", "SUFFIXES", "ends", "markdown", "render", "text"]

SUFFIXES = {".txt": "text", ".md": "markdown", ".html": "html", ".json": "json"}
"""What a report is written as, by the ending of the file's name."""

FORMATS = tuple(SUFFIXES.values())
"""What a report can be written as."""

LINE = 88
"""Characters of a line of the text."""

EVERY = 10
"""Every so many points of the curve are listed in Markdown, beside the picture."""


def render(
    guarantee: Guarantee,
    format: str = "text",  # noqa: A002  # the word of the public call
    *,
    delta: ArrayLike = DELTAS,
    date: str | None = None,
) -> str:
    """The report on an answer as text, Markdown, one HTML page or JSON.

    Args:
        guarantee: The answer to report on, from `account`.
        format: "text", "markdown", "html" or "json".
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to print, text of one line such as "2026-01-31". None prints no date: the same run
            gives the same report.

    Returns:
        The report.

    Raises:
        InvalidArgument: There is no such format, a delta is out of range, or the date has control
            characters.
        WrongType: delta is no number or array of numbers, or date is no text.
        NotCertified: An answer cannot be given with a proof.

    >>> from sharpdp.accounting import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> render(account(Gaussian(noise_multiplier=1.0)), "markdown").splitlines()[0]
    '## Privacy report'
    """
    if not is_among(FORMATS, format):
        allowed = ", ".join(map(repr, FORMATS))
        ask = hint(str(format), FORMATS)
        raise InvalidArgument(f"format must be one of {allowed}; got {short_repr(format)}.{ask}")
    if date is not None:
        one_line(date=date, hint="Such as '2026-01-31'.")
    if format == "html":
        from sharpdp.report.html import page

        return page(findings(guarantee, delta=delta, date=date))
    writers = {"text": text, "markdown": markdown, "json": to_json}
    return writers[format](guarantee, delta=delta, date=date)


def text(guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None) -> str:
    """The report on an answer as plain text.

    Args:
        guarantee: The answer to report on, from `account`.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to print, text of one line; none is printed by default.

    Returns:
        The report, in lines of at most 88 characters where they can be broken.

    Raises:
        InvalidArgument: A delta is out of range.
        WrongType: delta is no number or array of numbers.
        NotCertified: An answer cannot be given with a proof.

    >>> from sharpdp.accounting import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> print(text(account(Gaussian(noise_multiplier=1.0))).splitlines()[0])
    Privacy report
    """
    lines = [TITLE, "=" * len(TITLE)]
    first, *others = sections(findings(guarantee, delta=delta, date=date))
    lines += _plain(first)
    for section in others:
        lines += ["", section.title, "-" * len(section.title), *_plain(section)]
    return "\n".join(lines)


def _plain(section: Section) -> list[str]:
    lines: list[str] = []
    for block in section.blocks:
        if isinstance(block, Items):
            lines += [part for entry in block.lines for part in _wrapped(entry)]
        elif isinstance(block, Brackets):
            lines += [f"  {short(block.guarantee, one)}" for _, one in block.rows]
        elif isinstance(block, Table):
            wide = max(len(row[0]) for row in block.rows)
            rows = [f"{row[0]:<{wide}}  {'  '.join(row[1:])}" for row in block.rows]
            lines += [part for row in rows for part in _wrapped(row, " " * (wide + 4))]
        elif isinstance(block, Picture):
            lines += ["", *(f"  {one}" for one in sketch(block.points)), ""]
            lines += _wrapped(block.caption.replace("the dashed line", "the line of dots"))
        else:
            lines += ["", *(f"  {one}".rstrip() for one in block.text.splitlines())]
    return lines


def _wrapped(entry: str, hanging: str = "    ") -> list[str]:
    return textwrap.wrap(
        entry,
        LINE,
        initial_indent="  ",
        subsequent_indent=hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )


def markdown(guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None) -> str:
    """The report on an answer as Markdown.

    Args:
        guarantee: The answer to report on, from `account`.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to print, text of one line; none is printed by default.

    Returns:
        The report; the picture of the trade-off curve is part of it.

    Raises:
        InvalidArgument: A delta is out of range.
        WrongType: delta is no number or array of numbers.
        NotCertified: An answer cannot be given with a proof.

    >>> from sharpdp.accounting import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> print(markdown(account(Gaussian(noise_multiplier=1.0))).splitlines()[0])
    ## Privacy report
    """
    lines = [f"## {TITLE}", ""]
    first, *others = sections(findings(guarantee, delta=delta, date=date))
    lines += _marked(first)
    for section in others:
        lines += [f"### {section.title}", "", *_marked(section)]
    return "\n".join(lines).rstrip() + "\n"


def _marked(section: Section) -> list[str]:
    lines: list[str] = []
    for block in section.blocks:
        if isinstance(block, Items):
            lines += [f"- {_escaped(entry)}" for entry in block.lines]
        elif isinstance(block, Brackets):
            rows = [(at, one.quantity, *ends(block, one)) for at, one in block.rows]
            lines += _table(("given", "asked", "at least", "at most"), rows)
        elif isinstance(block, Table):
            lines += _table(block.head, block.rows)
        elif isinstance(block, Picture):
            picture = f"![trade-off curve]({data_address(block.points)})"
            lines += [picture, "", _escaped(block.caption), ""]
            listed = [[f"{x:g}" for x in row] for row in block.points[::EVERY]]
            lines += _table(
                ("false-positive rate", "false-negative rate, at least", "at most"), listed
            )
        else:
            lines += [f"{block.title}:", "", f"```{block.language}", _fenced(block), "```"]
        lines.append("")
    return lines


def ends(block: Brackets, bracket: Bracket) -> tuple[str, str]:
    """Both ends of one answer, rounded outwards; no lower one if none is known."""
    low, high = bracket.printed
    return (low if block.guarantee.lower_derivations else "not known"), high


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    shown = [f"| {' | '.join(map(_escaped, row))} |" for row in (head, *rows)]
    return [shown[0], "|" + "---|" * (shown[0].count(" | ") + 1), *shown[1:]]


def _escaped(entry: str) -> str:
    """The entry as Markdown shows it: nothing in it is taken for markup."""
    kept = entry.replace("\\", "\\\\").replace("<=", "≤").replace(">=", "≥")
    for mark in "*_|`[":
        kept = kept.replace(mark, f"\\{mark}")
    return kept.replace("&", "&amp;").replace("<", "&lt;")


def _fenced(block: Code) -> str:
    """A text for machines; in JSON every < is written by its number, so that none starts a tag."""
    return block.text.replace("<", "\\u003c") if block.language == "json" else block.text
