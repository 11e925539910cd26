"""Our own proofs: the pages that bounds cite, shipped with the package and not peer reviewed.

`python -m sharpdp.bounds.proofs` lists them, `python -m sharpdp.bounds.proofs shuffle-proof` prints one.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from sharpdp.errors import InvalidArgument

__all__ = ["PAGES", "cited", "text_of"]

PAGES = (
    "correlated-noise",
    "displaced-example",
    "early-stopping",
    "gaussian-reports",
    "groups",
    "last-iterate",
    "scheme-proofs",
    "selection",
    "shuffle-proof",
    "shuffled-batches",
    "vacant-seat",
)
"""The pages, by the names that bounds cite; each is docs/<name>.md of the repository."""


def cited(page: str) -> str:
    """How a report names a page, so that it can be found again: package, version and file.

    >>> cited("shuffle-proof").endswith("/proofs/shuffle-proof.md")
    True
    """
    from sharpdp import __version__

    return f"sharpdp {__version__}/proofs/{_known(page)}.md"


def text_of(page: str) -> str:
    """The text of a page, from the installed package or from the clone it is developed in.

    >>> print(text_of("shuffle-proof").splitlines()[0][0])
    #
    """
    name = f"{_known(page)}.md"
    installed = files("sharpdp.bounds.proofs").joinpath(name)
    if installed.is_file():
        return installed.read_text("utf-8")
    return (Path(__file__).parents[4] / "docs" / name).read_text("utf-8")


def _known(page: str) -> str:
    if page not in PAGES:
        raise InvalidArgument(f"page must be one of {', '.join(PAGES)}; got {page!r}.")
    return page
