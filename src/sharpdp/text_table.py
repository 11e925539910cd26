"""Plain-text tables: words flush left, numbers flush right, two spaces between columns."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

__all__ = ["table_lines", "wrapped"]

LINE_LENGTH = 100
"""Characters of a line of explanations below a table."""


def table_lines(rows: Sequence[Sequence[str]], *, right: Collection[int]) -> list[str]:
    """The rows, the first of which may be headings, in aligned columns, indented by two spaces.

    `right` has the indices of the columns that are flush right.

    >>> table_lines([("", "epsilon"), ("Poisson", "1.5")], right={1})
    ['           epsilon', '  Poisson      1.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.rjust if index in right else str.ljust for index in range(len(widths))]
    return [
        "  ".join(
            ["", *(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True))]
        ).rstrip()
        for row in rows
    ]


def wrapped(text: str) -> list[str]:
    """An explanation below a table in lines of at most 100 characters, those after the first indented.

    >>> wrapped("truncated Poisson: batches are cut")
    ['  truncated Poisson: batches are cut']
    """
    return textwrap.wrap(
        text, LINE_LENGTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
