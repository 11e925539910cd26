"""The nearest known word, for messages about a word that is not known. Only the standard library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["hint", "nearest"]

LONGEST = 40
"""Longer words resemble none that is known, and comparing them takes long."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that starts with this one or is most like it, whatever its case, if any is.

    >>> nearest("dpsdg", ["account", "dpsgd"]), nearest("gausian", ["Gaussian", "Laplace"])
    ('dpsgd', 'Gaussian')
    """
    if len(word) > LONGEST:
        return None
    spelled = {name.lower(): name for name in known}
    begun = [name for name in spelled if name.startswith(word.lower())]
    close = begun or difflib.get_close_matches(word.lower(), list(spelled), n=1)
    return spelled[close[0]] if close else None


def hint(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The question whether the nearest known word was meant, or another hint, with a blank before it.

    >>> hint("posson", ["poisson", "fixed"])
    ' Did you mean poisson?'
    """
    meant = nearest(word, known)
    if meant:
        return f" Did you mean {meant}?"
    return f" {otherwise}" if otherwise else ""
