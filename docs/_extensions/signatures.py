"""Signatures that can be read: those of `__init__`, arrays by one word, long defaults cut short."""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from sphinx.util.inspect import signature as signature_of
from sphinx.util.inspect import stringify_signature
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
    (re.compile(r"TypeAliasForwardRef\('(\w+)'\)"), r"\1"),
)


NOT_OWN = ("(*_: object, **keywords: object)", "(*args: Any, **kwargs: Any)", "(*args, **kwargs)")
"""What autodoc takes for the signature of a class: that of the `__new__` of `HintedKeywords`, of a base
from a package that is not installed here, or of no `__init__` at all."""


def shortened(text: str | None) -> str | None:
    """The text with long types and defaults in one word."""
    if text is None:
        return None
    for pattern, better in SHORTER:
        text = pattern.sub(better, text)
    return text


def own_signature(made: type, aliases: dict[str, str]) -> str:
    """The arguments of the class's own `__init__`; empty for one that has none, which is not called."""
    if made.__init__ is object.__init__ or getattr(made, "_is_protocol", False):
        return ""
    own = signature_of(made.__init__, bound_method=True, type_aliases=aliases)
    return stringify_signature(own, show_return_annotation=False, unqualified_typehints=True)


def process(
    app: Sphinx,
    what: str,
    name: str,
    thing: object,
    options: object,
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None]:
    """Shorten the signature that autodoc is about to show."""
    if isinstance(thing, type) and signature in NOT_OWN:
        signature = own_signature(thing, app.config.autodoc_type_aliases)
    return shortened(signature), shortened(result)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the hook."""
    app.connect("autodoc-process-signature", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
