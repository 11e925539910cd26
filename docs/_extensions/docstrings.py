"""Docstrings as pages: prose, labeled paragraphs, formulas in monospace, doctests highlighted.

The docstrings of sharpdp are plain text in a fixed shape. What is indented or starts with `>>>` stays
as it is written; `Args:`, `Returns:` and `Raises:` become fields; `Holds when:`, `Numerics:`, `Source:`
and `Formula:` become labels; lists stay lists; every other character that reStructuredText would
interpret is escaped.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import sharpdp

PUBLIC = frozenset(sharpdp._MODULE_OF)
"""Names that work as `sharpdp.NAME`; `sharpdp.__all__` lists the first of them only."""

LABEL = re.compile(
    r"^\*?(Holds when|Lower end attained when|Numerics|Sources?|Formula|Neighbors)\*?:\*?\s*"
)
KEY = re.compile(r"\b[a-z]+(?:19|20)\d{2}[a-z]*\b")
SPECIAL = re.compile(r"([\\*`|_])")
IDENTIFIER = re.compile(r"\b[a-z]{2,}(?:_[a-z]{2,})+\b")
CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
ITEM = re.compile(r"^- ")
FORMULA_INDENT = "    "
FIELDS = {"Args:": "param", "Attributes:": "var", "Returns:": "returns", "Raises:": "raises"}
ENTRY = re.compile(r"^    \*{0,2}(\w[\w., ]*): ?(.*)$")


def paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Runs of lines without a blank one between them; a doctest that follows prose is its own."""
    found: list[str] = []
    for line in lines:
        starts_session = line.startswith(">>>") and found and not found[0].startswith(">>>")
        if (not line.strip() or starts_session) and found:
            yield found
            found = []
        if line.strip():
            found.append(line.rstrip())
    if found:
        yield found


def plain(text: str) -> str:
    """Prose without code: words that are names of the API become code, the rest is literal."""
    parts, end = [], 0
    for match in IDENTIFIER.finditer(text):
        before = text[end : match.start()]
        parts += [re.sub(SPECIAL, r"\\\1", before), f"\\ ``{match[0]}``\\ "]
        end = match.end()
    return "".join([*parts, re.sub(SPECIAL, r"\\\1", text[end:])])


def escaped(text: str) -> str:
    """Prose with its code in double backquotes, public names as links, all else literal."""
    parts = []
    for part in CODE.split(text):
        if CODE.fullmatch(part):
            code = part.strip("`")
            is_public = code in PUBLIC
            parts.append(f":py:obj:`~sharpdp.{code}`" if is_public else f"``{code}``")
        else:
            parts.append(plain(part))
    return "".join(parts)


def sourced(text: str) -> str:
    """The text of a source, each key a link to the bibliography."""
    parts, end = [], 0
    for match in KEY.finditer(text):
        parts += [escaped(text[end : match.start()]), f":ref:`{match[0]} <{match[0]}>`"]
        end = match.end()
    return "".join([*parts, escaped(text[end:])])


def listed(lines: list[str]) -> list[str]:
    """Items of a list, escaped; lines that go on stay below their item."""
    text = "\n".join(lines)
    items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    found = []
    for item in items:
        first, *rest = escaped(item.rstrip()).splitlines()
        found += [f"- {first}", *(f"  {line.strip()}" for line in rest)]
    return found


def fields(kind: str, lines: list[str]) -> list[str]:
    """The entries of a section as fields; lines that are indented further go on with their entry."""
    if kind == "returns":
        return [f":returns: {escaped(' '.join(line.strip() for line in lines))}"]
    entries: list[list[str]] = []
    for line in lines:
        entry = ENTRY.match(line)
        if entry:
            entries.append([entry[1], entry[2]])
        else:
            entries[-1].append(line.strip())
    named = [(f"~sharpdp.{name}" if name in PUBLIC else name, text) for name, *text in entries]
    return [f":{kind} {name}: {escaped(' '.join(text))}" for name, text in named]


def formatted(lines: list[str]) -> list[str]:
    """One paragraph as reStructuredText."""
    first = lines[0]
    if first in FIELDS:
        return fields(FIELDS[first], lines[1:])
    if first.startswith(">>>"):
        return [".. code-block:: pycon", "", *(f"    {line}" for line in lines)]
    if first.startswith(FORMULA_INDENT):
        return [".. code-block:: text", "", *lines]
    if ITEM.match(first):
        return listed(lines)
    return labeled(lines)


def labeled(lines: list[str]) -> list[str]:
    """A paragraph of prose, its label in bold."""
    label = LABEL.match(lines[0])
    at = next((i for i, line in enumerate(lines) if ITEM.match(line)), len(lines))
    shown = next((i for i, line in enumerate(lines) if line.startswith(FORMULA_INDENT)), at)
    if shown < at:  # a formula that follows its sentence without a blank line
        rest = [line for part in paragraphs(lines[shown:]) for line in [*formatted(part), ""]]
        return [*labeled(lines[:shown]), "", *rest]
    text = " ".join(line.strip() for line in lines[:at])
    if label:
        body = LABEL.sub("", text)
        is_source = label[1].startswith("Source")
        text = f"**{label[1]}:** {sourced(body) if is_source else escaped(body)}"
    else:
        text = escaped(text)
    return [text, "", *listed(lines[at:])] if at < len(lines) else [text]


def restructured(lines: list[str]) -> list[str]:
    """A whole docstring as reStructuredText."""
    return [line for part in paragraphs(lines) for line in [*formatted(part), ""]]


def inherited(name: str, lines: list[str]) -> list[str]:
    """The docstring of a method; if it explains no argument, with what its base class says about them.

    Batch schemes follow a protocol, which is no base class of theirs.
    """
    owner, method = owner_of(name)
    if owner is None or "Args:" in lines:
        return lines
    for base in [*owner.__mro__[1:], sharpdp.batches.BatchScheme]:
        text = inspect.getdoc(vars(base).get(method)) if method in vars(base) else None
        if text and "\nArgs:\n" in text:
            sections = text[text.index("\nArgs:\n") + 1 :].partition("\n>>>")[0]
            return [*lines, "", *sections.splitlines(), ""]
    return lines


def owner_of(name: str) -> tuple[type | None, str]:
    """The class and the method that a full name such as sharpdp.PoissonBatches.batches is about."""
    path, _, method = name.rpartition(".")
    module, _, owner = path.rpartition(".")
    try:
        found = getattr(import_module(module), owner, None) if module else None
    except ImportError:
        found = None
    return (found if isinstance(found, type) else None), method


def process(
    app: object, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Rewrite the docstring that autodoc is about to show."""
    lines[:] = restructured(inherited(name, lines) if what == "method" else lines)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the hook."""
    app.connect("autodoc-process-docstring", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
