"""A paper as a page of the documentation, and as text on the screen."""

from __future__ import annotations

import textwrap
from typing import Any

from reproduce.sheets import Item, Paper, Table

__all__ = ["columns", "errata", "index", "page", "picture_name", "screen", "section"]

LINE = 100
"""Characters of a line on the screen."""

KINDS = {
    "unsound": "claims more privacy than there is",
    "loose": "true, and far from the truth",
    "unstated": "cannot be made from what is told",
    "slip": "a slip, nothing follows from it",
}
"""What the kinds of errata mean, the worst first."""

COLUMNS = (
    "Columns: *published* is the number in the paper, the methods by their names are the paper's own "
    "formulas evaluated again, *truth* is a certified bracket of sharpdp, rounded outwards."
)


def screen(item: Item, values: Any) -> str:
    """The tables and remarks of an item in columns."""
    return columns(item.title, item.tables(values), item.remarks)


def columns(title: str, tables: list[Table], remarks: tuple[str, ...]) -> str:
    """Tables in columns under a title, and remarks."""
    parts = [f"\n{title}"]
    for one in tables:
        lines = [list(one.headings), *one.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(one.headings))]
        parts.append(f"  {one.title}:" if one.title else "")
        parts += [
            "    " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in lines
        ]
    parts += [
        textwrap.fill(text, LINE, initial_indent="  - ", subsequent_indent="    ")
        for text in remarks
    ]
    return "\n".join(part for part in parts if part)


def picture_name(paper: str, item: Item) -> str:
    """The file of an item's picture."""
    return f"{paper}-{item.name}.svg" if paper != item.name else f"{item.name}.svg"


def page(paper: Paper, shown: list[tuple[Item, Any]]) -> str:
    """The whole page."""
    command = f"`python -m reproduce {paper.key}`"
    parts = [f"# {paper.title}", *paper.about, f"Made by {command}. {COLUMNS}"]
    parts += [section(paper, item, values) for item, values in shown]
    if paper.errata:
        parts += ["## Errata", errata(paper)]
    if paper.elsewhere:
        parts += ["## What needs training", *paper.elsewhere]
    return "\n\n".join(parts) + "\n"


def section(paper: Paper, item: Item, values: Any) -> str:
    """One item: heading, picture, tables, remarks."""
    parts = [f"## {item.title}", item.about]
    if item.draw is not None:
        words = item.caption or item.title
        parts.append(f"![{words}]({picture_name(paper.key, item)})")
    for one in item.tables(values):
        parts += [f"{one.title}:"] if one.title else []
        parts.append(markdown(one))
    if item.remarks:
        parts.append("\n".join(_point(text) for text in item.remarks))
    return "\n\n".join(parts)


def _point(text: str) -> str:
    return textwrap.fill(
        text, LINE, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )


def markdown(table: Table) -> str:
    """A table in Markdown, numbers to the right."""
    lines = [list(table.headings), ["--:"] * len(table.headings), *table.rows]
    lines[1][0] = ":--"
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("<=", "≤").replace(">=", "≥")


def errata(paper: Paper) -> str:
    """What deviates, the worst first."""
    order = list(KINDS)
    rows = [
        f"| {' | '.join(map(_escaped, (one.place, one.published, one.right, one.kind)))} |"
        for one in sorted(paper.errata, key=lambda one: order.index(one.kind))
    ]
    used = [kind for kind in order if any(one.kind == kind for one in paper.errata)]
    meaning = "; ".join(f"*{kind}*: {KINDS[kind]}" for kind in used)
    head = ["| where | published | right | kind |", "| :-- | :-- | :-- | :-- |"]
    return f"{meaning}.\n\n" + "\n".join([*head, *rows])


def index(papers: tuple[Paper, ...]) -> str:
    """The page that leads to the others."""
    rows = [
        f"| [{one.key}]({one.key}.md) | {one.title.partition(' (')[0]} | {one.verdict} |"
        for one in papers
    ]
    names = "\n".join(one.key for one in papers)
    return "\n\n".join(
        [
            "# Reproducing published results",
            "sharpdp began with five papers. Every table and figure of theirs that can be computed is "
            "computed here once more: the published values, what the published method gives, and a "
            "certified bracket around the truth. Where they differ, the page says why.",
            "```bash\npython -m reproduce              # all of it, some minutes; the second time "
            "seconds\npython -m reproduce chua2024     # one paper\npython -m reproduce --quick      "
            "# fewer points, in out/reproduce\n```",
            "| paper | about | what came out |\n| :-- | :-- | :-- |\n" + "\n".join(rows),
            "Experiments that train models are on [their own page](../experiments.md).",
            f"```{{toctree}}\n:hidden:\n\n{names}\n```\n",
        ]
    )
