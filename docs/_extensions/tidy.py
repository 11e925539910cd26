"""Small repairs to what is shown: no empty lines at the end of a block of code."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def trimmed(app: object, tree: nodes.document) -> None:
    """Take the blank lines off the end of every block; doctests have one before their fence."""
    for block in tree.findall(nodes.literal_block):
        if block.rawsource == block.astext():  # not yet marked up
            text = block.astext().rstrip()
            block.rawsource = text
            block.children = [nodes.Text(text)]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the hook."""
    app.connect("doctree-read", trimmed)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
