"""Commands about theorems: what the answers rest on, and who proved it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sharpdp.cli import tables
from sharpdp.cli.parser import UsageError, quoted
from sharpdp.cli.views import Reply
from sharpdp.nearest_word import hint
from sharpdp.proofs import cited

if TYPE_CHECKING:
    from sharpdp.bounds import Bound

__all__ = ["bounds", "cite"]


def bounds(options: argparse.Namespace) -> Reply:
    """Registered theorems: those that are named, or all."""
    from sharpdp import __version__

    chosen = _chosen(options.names)
    entries = [_entry(one) for one in chosen]
    lines: list[str] = []
    for one, entry in zip(chosen, entries, strict=True):
        sides = " and ".join(entry["sides"])
        lines.append(f"{entry['name']}: {entry['bounds']}, {sides} side, {entry['rigor']}")
        lines += tables.wrapped("neighbors: ", ", ".join(entry["adjacency"]))
        for title, words in one.conditions:
            lines += tables.wrapped(f"{title}: ", words)
        lines += tables.wrapped("source: ", one.grounds)
    view = None if options.names else tables.catalog(entries)
    return Reply(lines, {"bounds": entries, "version": __version__}, view)


def cite(options: argparse.Namespace) -> Reply:
    """The BibTeX of the sources of some bounds, or of all."""
    from sharpdp.report.citations import bibtex, keys

    chosen = _chosen(options.names)
    return Reply(bibtex(chosen).splitlines(), {"keys": keys(chosen), "bibtex": bibtex(chosen)})


def _chosen(names: list[str]) -> list[Bound]:
    """The bounds of these names; all if there are none."""
    from sharpdp.bounds import all_bounds

    known = {one.name: one for one in all_bounds()}
    for name in names:
        if name not in known:
            ask = hint(name, known, "See sharpdp bounds.")
            raise UsageError(f"there is no bound {quoted(name)}.{ask}")
    return [known[name] for name in names] or list(known.values())


def _entry(one: Bound) -> dict[str, Any]:
    return {
        "name": one.name,
        "bounds": one.subject,
        "sides": [str(side) for side in one.sides],
        "rigor": str(one.rigor),
        "adjacency": [str(notion) for notion in one.adjacency],
        "holds_when": one.holds_when or None,
        "attained_when": one.attained_when or None,
        "source": one.source,
        "proof": cited(one.proof) if one.proof else None,
    }
