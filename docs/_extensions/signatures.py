"""Signatures that can be read: arrays by one word, long defaults cut short."""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

NUMPY = r"~?(?:numpy\.)?"
SHORTER = (
    # NDArray[float64], written out
    (
        re.compile(
            rf"{NUMPY}ndarray\[~?tuple\[~?(?:typing\.)?Any, \.\.\.\], "
            rf"{NUMPY}dtype\[~?(?:\w+\.)*\w+\]\]"
        ),
        "Array",
    ),
    # ArrayLike, written out
    (re.compile(r"~?[\w.]*_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]"), "ArrayLike"),
    # a long tuple of numbers
    (re.compile(r"\((-?[\d.]+), (?:-?[\d.]+, ){8,}(-?[\d.]+)\)"), r"(\1, ..., \2)"),
    (re.compile(r"<factory>"), "..."),
)


def shortened(text: str | None) -> str | None:
    """The text with long types and defaults in one word."""
    if text is None:
        return None
    for pattern, better in SHORTER:
        text = pattern.sub(better, text)
    return text


def process(
    app: object,
    what: str,
    name: str,
    thing: object,
    options: object,
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None]:
    """Shorten the signature that autodoc is about to show."""
    return shortened(signature), shortened(result)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the hook."""
    app.connect("autodoc-process-signature", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
