"""A report as plain data for JSON, and back: what is recorded is held against a new computation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import shown
from sharpdp.account import Guarantee
from sharpdp.bracket import Bracket
from sharpdp.citations import bibtex, keys
from sharpdp.errors import InvalidArgument
from sharpdp.plans import Plan, nearest, parsed
from sharpdp.plans.data import number_from_data, number_to_data
from sharpdp.proofs import cited
from sharpdp.report.content import TITLE, VERIFY, versions
from sharpdp.report.findings import DELTAS, Findings, findings
from sharpdp.report.words import in_words, neighbours, owed, sampler, trusted, unit

__all__ = ["FORMAT", "from_json", "plain", "theorems", "to_dict", "to_json", "verify"]

FORMAT = 1
"""Counts the changes of the format that a reader must know of."""

RECORDED = ("epsilon", "delta", "tpr", "advantage", "mu")
"""What is computed again when a report is read."""

GIVEN = {"epsilon": ("delta",), "delta": ("epsilon",), "tpr": ("fpr",)}
"""Where each of these is asked for."""


def to_json(guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None) -> str:
    """The findings as JSON; `from_json` gives the guarantee back."""
    return json.dumps(to_dict(guarantee, delta=delta, date=date), indent=2, allow_nan=False) + "\n"


def to_dict(
    guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None
) -> dict[str, Any]:
    """The findings as plain data for JSON; infinite ends are "inf", a missing side is None."""
    found = findings(guarantee, delta=delta)
    run = guarantee.mechanism
    written = not found.unwritten
    return {
        "title": TITLE,
        "format": FORMAT,
        "mechanism": run.describe(),
        "in_words": in_words(run),
        "adjacency": str(guarantee.adjacency),
        "neighbours": neighbours(guarantee.adjacency),
        "unit": unit(run),
        "sampler": sampler(run),
        "trusted": trusted(run),
        **_answers(found),
        "tradeoff": [dict(zip(("fpr", "lower", "upper"), p, strict=True)) for p in found.curve],
        "theorems": _theorems(found),
        "not_covered": owed(run),
        "bibtex": bibtex(guarantee.bounds),
        "versions": versions(),
        "relative_width": guarantee.relative_width,
        "plan": found.plan.to_dict() if written else None,
        "hash": found.plan.hash if written else None,
        "verify": VERIFY if written else None,
        **({} if date is None else {"date": date}),
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

    >>> from sharpdp.account import account
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
        "lower": _json(bracket.lower) if guarantee.lower_routes else None,
        "upper": _json(bracket.upper),
        "rigor": str(bracket.rigor),
    }


def _json(end: Any) -> Any:
    """A number, or a list of numbers, as JSON can hold it: infinities by their names."""
    if isinstance(end, np.ndarray):
        return [_json(float(one)) for one in end.ravel()]
    return number_to_data(float(end))


def from_json(text: str) -> Guarantee:
    """The guarantee of a report that was written as JSON, if its numbers still hold.

    Every recorded bracket is computed again: one that does not overlap the new one is an error, and so
    is a plan that does not have the recorded hash.

    >>> from sharpdp.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> answer = account(Gaussian(noise_multiplier=1.0))
    >>> from_json(to_json(answer)) == answer
    True
    """
    return _checked(text)[0]


def verify(text: str) -> list[str]:
    """What is right about a report that was written as JSON; an error if something is not."""
    guarantee, data, count = _checked(text)
    return [
        f"hash: {data['hash']} is that of the plan",
        f"brackets: {count} recorded by sharpdp {_version(data)}, all overlap those computed now "
        f"by sharpdp {versions()['sharpdp']}",
        f"run: {guarantee.mechanism.describe()}, {guarantee.adjacency}",
    ]


def _checked(text: str) -> tuple[Guarantee, Mapping[str, Any], int]:
    """The guarantee, the report, and how many brackets were computed again."""
    data = parsed(text, "the report")
    for name in ("format", "plan", "hash", *RECORDED):
        if name not in data:
            hint = nearest(name, data)
            raise InvalidArgument(
                f"the report must have a field {name!r}; got none. {hint}".rstrip()
            )
    if data["format"] != FORMAT:
        raise InvalidArgument(f"the report must have format {FORMAT}; got {shown(data['format'])}.")
    if data["plan"] is None:
        raise InvalidArgument(
            "the report must have a plan; got one whose mechanism holds functions."
        )
    plan = Plan.from_dict(data["plan"])
    if plan.hash != data["hash"]:
        raise InvalidArgument(
            f"the hash of the plan must be {shown(data['hash'])}; got {plan.hash}. "
            "The plan or the hash was changed after the report was written."
        )
    guarantee, version = plan.guarantee(), _version(data)
    places = [(name, entry) for name in RECORDED for entry in _entries(name, data[name])]
    for name, entry in places:
        _check_overlap(guarantee, name, entry, version)
    return guarantee, data, len(places)


def _entries(name: str, recorded: object) -> list[dict[str, Any]]:
    """The brackets that were recorded of one quantity."""
    found: list[Any] = recorded if isinstance(recorded, list) else [recorded]
    for entry in found:
        if not isinstance(entry, dict):
            raise InvalidArgument(f"{name} must record brackets; got {shown(entry)}.")
    return found


def _check_overlap(guarantee: Guarantee, name: str, entry: Mapping[str, Any], version: str) -> None:
    """Refuse a bracket that does not overlap the one that is computed now."""
    given = {word: entry.get(word) for word in GIVEN.get(name, ())}
    place = " at ".join([name, *(f"{word}={value!r}" for word, value in given.items())])
    now = getattr(guarantee, name)(**given)
    low, high = _interval(place, entry)
    least, most = _interval(place, plain(guarantee, now))
    if low <= most and least <= high:
        return
    raise InvalidArgument(
        f"{place}: the report of sharpdp {version} records a bracket from {low!r} to {high!r}; sharpdp "
        f"{versions()['sharpdp']} computes one from {least!r} to {most!r}. They do not overlap, so one "
        "of them is wrong: the report was changed, or one of the versions has a fault."
    )


def _interval(place: str, entry: Mapping[str, Any]) -> tuple[float, float]:
    """Both ends; a missing lower one is no claim."""
    low, high = (number_from_data(entry.get(name)) for name in ("lower", "upper"))
    low = -math.inf if low is None else low
    for end in (low, high):
        if isinstance(end, bool) or not isinstance(end, float | int):
            raise InvalidArgument(f"{place} must have numbers for its ends; got {shown(end)}.")
    if not low <= high:
        raise InvalidArgument(f"{place} must have its lower end first; got {low!r} and {high!r}.")
    return float(low), float(high)


def _version(data: Mapping[str, Any]) -> str:
    made = data.get("versions")
    return str(made.get("sharpdp")) if isinstance(made, dict) else "an unknown version"
