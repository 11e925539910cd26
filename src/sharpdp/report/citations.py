"""The published sources of bounds, as BibTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from sharpdp.bounds import Bound

__all__ = ["bibtex", "keys"]

_KEY = re.compile(r"\b[a-z]+\d{4}[a-z]*\b")
"""How the sources of bounds name a publication: its first author and year, such as dong2022."""


@lru_cache(maxsize=1)
def _entries() -> dict[str, str]:
    """Every entry of the bibliography by its key."""
    text = files("sharpdp").joinpath("references.bib").read_text("utf-8")
    found = re.findall(r"^(@\w+\{([^,]+),.*?^\})", text, re.MULTILINE | re.DOTALL)
    return {key: entry for entry, key in found}


def keys(bounds: Iterable[Bound]) -> list[str]:
    """The keys of all publications that some bounds rest on, in order.

    >>> from sharpdp.bounds import bounds_for
    >>> from sharpdp.mechanisms import Gaussian
    >>> keys(bounds_for(Gaussian(1.0)))
    ['dong2022', 'balle2018']
    """
    known = _entries()
    found = (key for one in bounds for key in _KEY.findall(one.source))
    return list(dict.fromkeys(key for key in found if key in known))


def bibtex(bounds: Iterable[Bound]) -> str:
    """The BibTeX entries of all publications that some bounds rest on.

    >>> from sharpdp.bounds import all_bounds
    >>> bibtex(all_bounds()[:1]).startswith("@")
    True
    """
    known = _entries()
    return "\n\n".join(known[key] for key in keys(bounds))
