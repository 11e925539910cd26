"""A report as plain data for JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.accounting import Guarantee
from sharpdp.bracket import Bracket
from sharpdp.plans.plain_data import number_to_data
from sharpdp.proofs import cited
from sharpdp.report.citations import bibtex, keys
from sharpdp.report.content import TITLE, VERIFY
from sharpdp.report.results import DELTAS, Findings, findings
from sharpdp.report.words import in_words, neighbors, obligations, sampler, trusted, unit

__all__ = ["FORMAT", "as_data", "as_json", "plain", "theorems", "to_dict", "to_json"]

FORMAT = 1
"""Counts the changes of the format that a reader must know of."""


def to_json(guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None) -> str:
    """The findings as JSON; `from_json` gives the guarantee back."""
    return as_json(findings(guarantee, delta=delta, date=date))


def as_json(found: Findings) -> str:
    """The findings as JSON."""
    return json.dumps(as_data(found), indent=2, allow_nan=False) + "\n"


def to_dict(
    guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None
) -> dict[str, Any]:
    """The findings as plain data for JSON; infinite ends are "inf", a missing side is None."""
    return as_data(findings(guarantee, delta=delta, date=date))


def as_data(found: Findings) -> dict[str, Any]:
    """The findings as plain data for JSON."""
    guarantee = found.guarantee
    run = guarantee.mechanism
    written = not found.unwritten
    return {
        "title": TITLE,
        "format": FORMAT,
        "mechanism": run.describe(),
        "in_words": in_words(run),
        "adjacency": str(guarantee.adjacency),
        "neighbors": neighbors(guarantee.adjacency),
        "unit": unit(run),
        "sampler": sampler(run),
        "trusted": trusted(run),
        **_answers(found),
        "tradeoff": [dict(zip(("fpr", "lower", "upper"), p, strict=True)) for p in found.curve],
        "theorems": _theorems(found),
        "not_covered": obligations(run),
        "bibtex": bibtex(guarantee.bounds),
        "versions": dict(found.versions),
        "relative_width": guarantee.relative_width,
        "plan": found.plan.to_dict() if written else None,
        "hash": found.plan.hash if written else None,
        "verify": VERIFY if written else None,
        **({} if found.date is None else {"date": found.date}),
    }


def _answers(found: Findings) -> dict[str, Any]:
    answer = found.guarantee
    return {
        "epsilon": [{"delta": at, **plain(answer, one)} for at, one in found.epsilons],
        "delta": [{"epsilon": at, **plain(answer, one)} for at, one in found.deltas],
        "tpr": [{"fpr": at, **plain(answer, one)} for at, one in found.rates],
        "advantage": plain(answer, found.advantage),
        "mu": plain(answer, found.mu),
    }


def _theorems(found: Findings) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "sides": [str(side) for side in one.sides],
            "rigor": str(one.rigor),
            "decided": [str(side) for side in found.decided[one]],
            "holds_when": one.holds_when or None,
            "attained_when": one.attained_when or None,
            "source": one.source,
            "proof": cited(one.proof) if one.proof else None,
            "keys": keys([one]),
        }
        for one in found.guarantee.bounds
    ]


def theorems(guarantee: Guarantee) -> dict[str, Any]:
    """What was run and what the answers rest on, as plain data.

    >>> from sharpdp.accounting import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> theorems(account(Gaussian(noise_multiplier=1.0)))["sources"]
    ['dong2022 Theorem 2.7; balle2018 Theorem 8']
    """
    from sharpdp import __version__

    return {
        "mechanism": guarantee.mechanism.describe(),
        "adjacency": str(guarantee.adjacency),
        "bounds": [one.name for one in guarantee.bounds],
        "holds_when": [one.holds_when or None for one in guarantee.bounds],
        "attained_when": [one.attained_when or None for one in guarantee.bounds],
        "sources": [one.grounds for one in guarantee.bounds],
        "version": __version__,
    }


def plain(guarantee: Guarantee, bracket: Bracket) -> dict[str, Any]:
    """One answer as plain data: scalars stay scalars, arrays become lists."""
    return {
        "quantity": bracket.quantity,
        "lower": _json(bracket.lower) if guarantee.lower_derivations else None,
        "upper": _json(bracket.upper),
        "rigor": str(bracket.rigor),
    }


def _json(end: Any) -> Any:
    """A number, or a list of numbers, as JSON can hold it: infinities by their names."""
    if isinstance(end, np.ndarray):
        return [_json(float(one)) for one in end.ravel()]
    return number_to_data(float(end))
