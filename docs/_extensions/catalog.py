"""Pages that are written when the site is built: all bounds of the registry, and the bibliography.

A page asks for one by a comment, `<!-- written at build time: bounds -->`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from sharpdp.bounds.published import Formula, all_formulas
from sharpdp.bounds.registry import Bound, all_bounds

from . import bibliography

KEY = re.compile(r"\b[a-z]+(?:19|20)\d{2}[a-z]*\b")
MARK = re.compile(r"^<!-- written at build time: (\w+) -->$", re.MULTILINE)


def statement(theorem: object) -> str:
    """The first paragraph of a docstring: the fact that the function returns."""
    text = inspect.getdoc(theorem) or ""
    return " ".join(text.split("\n\n", 1)[0].split())


def marked(text: str) -> str:
    """Prose for Markdown: nothing in it is markup."""
    return re.sub(r"([\\*_<>\[\]$|#])", r"\\\1", text).replace("``", "`")


def linked(source: str) -> str:
    """A source, each key a link to its entry."""
    return KEY.sub(lambda match: f"[{match[0]}](#{match[0]})", source)


def subjects() -> dict[str, list[Bound]]:
    """The bounds by what they are about, subjects in the order of the alphabet."""
    found: dict[str, list[Bound]] = {}
    for one in all_bounds():
        found.setdefault(one.subject, []).append(one)
    return dict(sorted(found.items()))


def entry(one: Bound) -> Iterator[str]:
    """One bound of the registry."""
    sides = " and ".join(str(side) for side in one.sides)
    neighbors = ", ".join(str(each) for each in one.adjacency)
    yield f"({one.name})="
    yield f"`{one.name}`"
    yield f": {marked(statement(one.theorem))}"
    yield f"  - **Side:** {sides}, {one.rigor}. **Neighbors:** {neighbors}."
    for title, words in one.conditions:
        yield f"  - **{title.capitalize()}:** {marked(words)}."
    if one.proof:
        yield f"  - **Proof:** [ours](proofs/{one.proof}.md), not peer reviewed."
        yield f"  - **Builds on:** {linked(one.source)}."
    else:
        yield f"  - **Source:** {linked(one.source)}."
    yield ""


def formula(one: Formula) -> Iterator[str]:
    """One published formula."""
    of = "Rényi divergence" if one.quantity == "renyi" else "epsilon"
    yield f"({one.name})="
    yield f"`{one.name}`"
    yield f": {marked(statement(one.theorem))}"
    yield f"  - **Gives:** {of}, {one.side} side, {one.rigor}."
    yield f"  - **Holds when:** {marked(one.holds_when)}."
    yield f"  - **Source:** {linked(one.source)}."
    yield ""


def bounds() -> Iterator[str]:
    """Every bound that answers rest on, then every formula that is there for comparison."""
    yield "## Bounds that answers rest on\n"
    for subject, group in subjects().items():
        yield f"### {subject}\n"
        for one in group:
            yield from entry(one)
    yield "## Published formulas, for comparison only\n"
    yield "`dp.compare` shows them beside the bounds above. No answer rests on one.\n"
    kinds = sorted({one.of.__name__ for one in all_formulas()})
    for kind in kinds:
        yield f"### {kind}, published\n"
        for one in all_formulas():
            if one.of.__name__ == kind:
                yield from formula(one)


def works() -> Iterator[str]:
    """The bibliography, each entry with the bounds that it stands behind."""
    cited: dict[str, list[str]] = {}
    for one in [*all_bounds(), *all_formulas()]:
        for key in dict.fromkeys(KEY.findall(one.source)):
            cited.setdefault(key, []).append(one.name)
    return bibliography.lines(cited)


PARTS = {"bounds": bounds, "bibliography": works}


def written(app: object, name: str, source: list[str]) -> None:
    """Put the generated part in place of its mark."""
    source[0] = MARK.sub(lambda match: "\n".join(PARTS[match[1]]()), source[0])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the hook."""
    app.connect("source-read", written)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
