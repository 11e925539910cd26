"""Our own proofs: the pages that bounds cite, shipped with the package and not peer reviewed.

`python -m sharpdp.bounds.proofs` lists them, `python -m sharpdp.bounds.proofs shuffle-proof` prints one.
"""

from __future__ import annotations

from pathlib import Path

from sharpdp.errors import InvalidArgument

__all__ = ["PAGES", "cited", "text_of"]


def _folder() -> Path:
    """The folder of the pages: in the installed package this one, in a clone docs/proofs."""
    installed = Path(__file__).parent
    is_installed = any(installed.glob("*.md"))
    return installed if is_installed else installed.parents[3] / "docs" / "proofs"


PAGES = tuple(sorted(page.stem for page in _folder().glob("*.md") if page.stem != "index"))
"""The pages, by the names that bounds cite."""


def cited(page: str) -> str:
    """How a report names a page, so that it can be found again: package, version and file.

    >>> cited("shuffle-proof").endswith("/proofs/shuffle-proof.md")
    True
    """
    from sharpdp import __version__

    return f"sharpdp {__version__}/proofs/{page}.md"


def text_of(page: str) -> str:
    """The text of a page, from the installed package or from the clone it is developed in.

    >>> print(text_of("shuffle-proof").splitlines()[0][0])
    #
    """
    return (_folder() / f"{_known(page)}.md").read_text("utf-8")


def _known(page: str) -> str:
    if page not in PAGES:
        raise InvalidArgument(f"page must be one of {', '.join(PAGES)}; got {page!r}.")
    return page
