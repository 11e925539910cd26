"""Sphinx settings: Markdown pages, and docstrings shown as they are written."""

from __future__ import annotations

import sharpdp

project = "sharpdp"
author = "The sharpdp authors"
copyright = "The sharpdp authors"
release = version = sharpdp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

autodoc_member_order = "groupwise"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

html_theme = "furo"
html_title = "sharpdp"
html_static_path: list[str] = []


def as_written(
    app: object, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Keep a docstring's layout: first line as prose, the rest (formulas, doctests) literal."""
    if not lines:
        return
    first, rest = lines[0], lines[1:]
    for special in "\\*`|_":
        first = first.replace(special, f"\\{special}")
    lines[:] = [first, ""]
    if any(line.strip() for line in rest):
        lines += ["::", "", *(f"    {line}" for line in rest), ""]


def setup(app: object) -> None:
    """Connect the docstring hook."""
    app.connect("autodoc-process-docstring", as_written)  # type: ignore[attr-defined]
