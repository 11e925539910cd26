"""The bibliography that ships with sharpdp."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

__all__ = ["keys_in", "publications"]


@lru_cache(maxsize=1)
def publications() -> dict[str, str]:
    """Every entry of the bibliography by its key."""
    text = files("sharpdp.bounds").joinpath("references.bib").read_text("utf-8")
    pairs = re.findall(r"^(@\w+\{([^,]+),.*?^\})", text, re.MULTILINE | re.DOTALL)
    return {key: entry for entry, key in pairs}


def keys_in(source: str) -> list[str]:
    """The keys of publications of the bibliography that the source of a theorem names.

    >>> keys_in("dong2022 Theorem 2.7; nobody1999 Lemma 1")
    ['dong2022']
    """
    # a source names a publication by its first author and year, such as dong2022
    named = re.findall(r"\b[a-z]+\d{4}[a-z]*\b", source)
    return [key for key in named if key in publications()]
