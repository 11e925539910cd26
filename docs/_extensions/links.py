"""Names in signatures link to where the public name is documented, whatever module defines it."""

from __future__ import annotations

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

from .docstrings import PUBLIC


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """The link from `sharpdp.module.Name` or `Name` to `sharpdp.Name`."""
    name = node.get("reftarget", "").rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in PUBLIC:
        return None
    python = env.domains.python_domain
    public = f"sharpdp.{name}"
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, content)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the hook."""
    app.connect("missing-reference", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
