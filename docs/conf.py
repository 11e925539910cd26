"""Sphinx settings: Markdown pages, formulas as MathML, docstrings in their own shape, no network."""

from __future__ import annotations

import sys
from pathlib import Path

import sharpdp

sys.path.insert(0, str(Path(__file__).parent))

project = "sharpdp"
author = "The sharpdp authors"
copyright = "The sharpdp authors"
release = version = sharpdp.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "_extensions.mathml",
    "_extensions.docstrings",
    "_extensions.catalog",
    "_extensions.signatures",
    "_extensions.links",
    "_extensions.tidy",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Randomness": "Randomness", "Shard": "Shard"}
autodoc_mock_imports = ["dp_accounting", "opacus", "torch"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
# Types in signatures need no page of their own.
nitpick_ignore_regex = [("py:class", ".*"), ("py:exc", ".*")]

html_theme = "furo"
html_title = "sharpdp"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["style.css"]
