"""Plain-text tables: words flush left, numbers flush right, two spaces between columns."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

__all__ = ["table_lines", "wrapped"]


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


def wrapped(text: str, *, width: int = 100, hanging: str = "    ") -> list[str]:
    """An explanation in lines of at most this width, set in; those after the first hang.

    >>> wrapped("truncated Poisson: batches are cut")
    ['  truncated Poisson: batches are cut']
    """
    return textwrap.wrap(
        text,
        width,
        initial_indent="  ",
        subsequent_indent=hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )
