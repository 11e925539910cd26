"""Answers as small pieces of HTML, which notebooks show instead of a repr. Only the standard library.

Colors are those of the notebook, so that they fit a dark one; nothing is loaded, and nothing runs.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

__all__ = ["Page", "Shown", "bar", "headline", "shortened", "table"]

PALE = "opacity:.72"


LONGEST = 280
"""Characters of a repr."""


class Shown:
    """An answer in text: a notebook shows it as it is, and its repr is the first line."""

    def __repr__(self) -> str:
        """The first line."""
        first = str(self).partition("\n")[0].removesuffix(":")
        return shortened(f"<{type(self).__name__}: {first}>")

    def _repr_html_(self) -> str:
        """The first line as a headline, the others below it."""
        return headline(*str(self).splitlines())


class Page(str):
    """A page of HTML: text for programs, and in a notebook a frame that shows it.

    >>> Page("<p>a</p>")._repr_html_()[-39:]
    'srcdoc="&lt;p&gt;a&lt;/p&gt;"></iframe>'
    """

    def _repr_html_(self) -> str:
        """The page in a frame in which nothing runs."""
        style = "width:100%;height:36em;border:1px solid #8884;background:Canvas"
        return f'<iframe sandbox="" style="{style}" srcdoc="{html.escape(self)}"></iframe>'

    def _repr_pretty_(self, printer: Any, *_: Any) -> None:
        """The text where no HTML is shown, shortened."""
        printer.text(shortened(str.__repr__(self)))


def shortened(text: str) -> str:
    """A repr that is too long to be read, cut in its middle.

    >>> len(shortened("x" * 1000))
    280
    """
    if len(text) <= LONGEST:
        return text
    half = (LONGEST - 5) // 2
    return f"{text[:half]} ... {text[half - LONGEST + 5 :]}"


def headline(claim: str, *lines: str) -> str:
    """A claim in large letters, with lines in small ones below it.

    >>> headline("1 <= epsilon <= 2", "certified")[:49]
    '<div style="border-left:4px solid #3a7ab8;padding'
    """
    details = "".join(f'<div style="{PALE}">{html.escape(line)}</div>' for line in lines if line)
    sized = '<div style="font-size:1.15em;font-weight:600">'
    return (
        '<div style="border-left:4px solid #3a7ab8;padding:.2em .8em;margin:.2em 0">'
        f"{sized}{_signs(claim)}</div>{details}</div>"
    )


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A table under a title, with notes below it; a cell that `bar` made is drawn, all others are text.

    >>> table(["delta", "epsilon"], [["1e-5", "1.9"]]).count("<td")
    2
    """
    above = f'<div style="{PALE}">{html.escape(title)}</div>' if title else ""
    below = "".join(f'<div style="{PALE}">{html.escape(note)}</div>' for note in notes)
    style = "text-align:left;padding:.1em .9em .1em 0"
    first = "".join(f'<th style="{style}">{html.escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{style}">{cell.drawn if isinstance(cell, Bar) else _signs(cell)}</td>'
            for cell in row
        )
        + "</tr>"
        for row in rows
    )
    body = f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{above}{body}{below}</div>"


class Bar(str):
    """The cell of a bar: its text for programs, and how it is drawn."""

    drawn: str


def bar(lower: float, upper: float, most: float) -> Bar:
    """A bar that is full up to the lower end and pale up to the upper one, out of the most.

    >>> bar(1.0, 2.0, 4.0).drawn.count("<span")
    3
    """
    sure, open_end = (12.0 * min(max(end / (most or 1.0), 0.0), 1.0) for end in (lower, upper))

    def part(width: float, color: str) -> str:
        style = f"display:inline-block;height:.8em;width:{width:.2f}em;background:{color}"
        return f'<span style="{style}"></span>'

    cell = Bar("")
    parts = part(sure, "#3a7ab8") + part(max(open_end - sure, 0.0), "#a9c9e6")
    cell.drawn = f'<span style="white-space:nowrap">{parts}</span>'
    return cell


def _signs(text: str) -> str:
    return html.escape(text.replace("<=", "≤"))
