"""What the scripts of this folder share: tables on the screen, and where pictures go."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

PICTURES = Path(__file__).resolve().parents[1] / "out" / "reproduce"
LINE = 100


def options(description: str) -> argparse.Namespace:
    """The command line of a script: `--quick` for fewer points."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer points, in a few seconds")
    return parser.parse_args()


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, its columns as wide as they need to be."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    print(f"\n{title}")
    for line in lines:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def remark(text: str) -> None:
    """Print an explanation under a table."""
    print(textwrap.fill(text, LINE, initial_indent="  - ", subsequent_indent="    "))


def picture(name: str) -> Path:
    """The file of a picture, told on the screen; its folder is made."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / name
    print(f"  -> {path.relative_to(PICTURES.parents[1])}")
    return path


def bracket(lower: float, upper: float, digits: int = 5) -> str:
    """Both ends of a bracket in a few digits, rounded to the nearest."""
    return f"[{lower:.{digits}g}, {upper:.{digits}g}]"
