"""The nearest known word, for messages about a word that is not known. Only the standard library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["hint", "nearest"]

SYNONYMS = {
    "clients": ("users",),
    "days": ("rounds",),
    "dishonest": ("drop_outs",),
    "eps0": ("local_epsilon",),
    "grr": ("randomized_response",),
    "iterations": ("steps", "rounds"),
    "k": ("users", "categories"),
    "k_rr": ("randomized_response",),
    "krr": ("randomized_response",),
    "left_over": ("drop_last",),
    "lot_size": ("batch_size",),
    "n": ("dataset_size", "users"),
    "population_size": ("population",),
    "q": ("sample_rate",),
    "rate": ("sample_rate",),
    "rounds": ("steps",),
    "sampler": ("batches",),
    "sampling_probability": ("sample_rate",),
    "sigma": ("noise_multiplier",),
    "steps": ("rounds",),
}
"""What papers and other tools call a parameter; the first that is known is meant."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that means the same, starts with this one or is most like it, if any is.

    Case and the dashes of options do not matter.

    >>> nearest("dpsdg", ["account", "dpsgd"]), nearest("gausian", ["Gaussian", "Laplace"])
    ('dpsgd', 'Gaussian')
    >>> nearest("--q", ["--sample-rate"])
    '--sample-rate'
    """
    if len(word) > 40:  # it resembles none that is known, and comparing takes long
        return None
    wanted, spelled = _plain(word), {_plain(name): name for name in known}
    same = [name for name in SYNONYMS.get(wanted, ()) if name in spelled]
    begun = [name for name in spelled if name.startswith(wanted)]
    close = same or begun or difflib.get_close_matches(wanted, list(spelled), n=1)
    return spelled[close[0]] if close else None


def _plain(word: str) -> str:
    return word.lower().lstrip("-").replace("-", "_")


def hint(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The question whether the nearest known word was meant, or another hint, with a blank before it.

    >>> hint("posson", ["poisson", "fixed"])
    ' Did you mean poisson?'
    """
    meant = nearest(word, known)
    if meant:
        return f" Did you mean {meant}?"
    return f" {otherwise}" if otherwise else ""
