"""The published sources of bounds, and sharpdp itself, as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable

from sharpdp.bounds import Bound
from sharpdp.bounds.references import keys_in, publications

__all__ = ["bibtex", "keys", "software"]


def keys(bounds: Iterable[Bound]) -> list[str]:
    """The keys of all publications that some bounds rest on, in order.

    Args:
        bounds: Registered theorems, such as `answer.bounds`.

    Returns:
        Keys of `references.bib`, each once.

    >>> from sharpdp.bounds import bounds_for
    >>> from sharpdp.mechanisms import Gaussian
    >>> keys(bounds_for(Gaussian(1.0)))
    ['dong2022', 'balle2018']
    """
    return list(dict.fromkeys(key for bound in bounds for key in keys_in(bound.source)))


def bibtex(bounds: Iterable[Bound]) -> str:
    """The BibTeX entries of all publications that some bounds rest on.

    Args:
        bounds: Registered theorems, such as `answer.bounds`.

    Returns:
        The entries, with a blank line between them.

    >>> from sharpdp.bounds import bounds_for
    >>> from sharpdp.mechanisms import Gaussian
    >>> print(bibtex(bounds_for(Gaussian(1.0))).splitlines()[0])
    @article{dong2022,
    """
    return "\n\n".join(publications()[key] for key in keys(bounds))


def software() -> str:
    """The BibTeX entry of sharpdp itself, in the version that is installed.

    >>> print(software().splitlines()[0])
    @software{sharpdp,
    """
    from sharpdp import __version__

    return "\n".join(
        [
            "@software{sharpdp,",
            "  title   = {sharpdp: certified lower and upper bounds on differential privacy},",
            "  author  = {{The sharpdp authors}},",
            f"  version = {{{__version__}}},",
            "  url     = {https://github.com/sharpdp/sharpdp}",
            "}",
        ]
    )
