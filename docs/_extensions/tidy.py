"""Small repairs to what is shown: no empty lines at the end of a block, and output that is a table."""

from __future__ import annotations

import re

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

COLUMNS = re.compile(r"\S {3,}\S")
"""Lines with columns keep their shape; others may wrap."""


def trimmed(app: object, tree: nodes.document) -> None:
    """Take the blank lines off the end of every block; doctests have one before their fence."""
    for block in tree.findall(nodes.literal_block):
        if block.rawsource == block.astext():  # not yet marked up
            text = block.astext().rstrip()
            block.rawsource = text
            block.children = [nodes.Text(text)]
        if block.get("language") == "output" and COLUMNS.search(block.astext()):
            block["classes"].append("table")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the hook, and let `output` be a language of its own."""
    app.add_lexer("output", TextLexer)
    app.connect("doctree-read", trimmed)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
