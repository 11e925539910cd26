"""Sphinx settings: Markdown pages, formulas as MathML, docstrings in their own shape, no network."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
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
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Randomness": "Randomness", "Shard": "Shard"}
autodoc_mock_imports = [
    *("apache_beam", "dp_accounting", "flwr", "grain", "lightning", "opacus", "pyarrow", "torch"),
    "transformers",
]


class NotImported(MetaPathFinder):
    """Sphinx imports modules of base classes to read their source, also those that autodoc mocks."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """What autodoc mocks is as good as not installed; its own finder is asked before this one."""
        if name.partition(".")[0] in autodoc_mock_imports:
            raise ModuleNotFoundError(f"{name} is not imported here", name=name)


sys.meta_path.insert(0, NotImported())

python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
# Types in signatures need no page of their own.
nitpick_ignore_regex = [("py:class", ".*"), ("py:exc", ".*")]

html_theme = "furo"
html_title = "sharpdp"
html_math_renderer = "mathml"
html_logo = html_favicon = "../src/sharpdp/explore/static/mark.svg"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_js_files = ["copy.js"]
html_search_scorer = str(Path(__file__).with_name("_static") / "scorer.js")
# The colors of the mark, of the local page and of reports.
html_theme_options = {
    "source_repository": "https://github.com/sharpdp/sharpdp/",
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {
        "color-brand-primary": "#14507e",
        "color-brand-content": "#14507e",
        "color-brand-visited": "#5b3f8c",
        "color-foreground-primary": "#17212c",
        "color-background-secondary": "#f4f7fa",
        "color-code-background": "#f4f7fa",
        "color-accent": "#a86a00",
        "color-alarm": "#a3241b",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7cb7e6",
        "color-brand-content": "#7cb7e6",
        "color-brand-visited": "#c3a6f0",
        "color-foreground-primary": "#e6eaf0",
        "color-background-primary": "#12161b",
        "color-background-secondary": "#191f26",
        "color-code-background": "#191f26",
        "color-accent": "#f2b33d",
        "color-alarm": "#ff8d84",
    },
}
