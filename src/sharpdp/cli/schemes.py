"""How batches are drawn, in words: from options to a batch scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sharpdp.cli.parser import quoted
from sharpdp.errors import InvalidArgument
from sharpdp.nearest_word import hint

if TYPE_CHECKING:
    from sharpdp.batches import BatchScheme

__all__ = ["PLAN", "SCHEMES", "plan", "scheme_name"]

SPLIT = ("dataset_size", "batch_size", "epochs")
"""What says how a data set is split into batches."""

PLAN = (
    "sample_rate",
    "steps",
    *SPLIT,
    "participations",
    "physical_batch_size",
    "drop_last",
)
"""Words that say how batches are drawn."""

SCHEMES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "poisson": ((), ("sample_rate", "steps", *SPLIT)),
    "deterministic": (SPLIT, SPLIT),
    "shuffled": (SPLIT, (*SPLIT, "drop_last")),
    "shuffled-once": (SPLIT, (*SPLIT, "drop_last")),
    "balls-and-bins": (SPLIT, SPLIT),
    "allocation": ((), ("steps", *SPLIT, "participations")),
    "fixed": (SPLIT[:2], ("steps", *SPLIT)),
    "truncated": (SPLIT[:2], ("steps", *SPLIT, "physical_batch_size")),
}
"""Each way to draw batches: the words it needs, and all that it takes."""

ALIASES = {"balls-in-bins": "balls-and-bins"}
"""Other words for a way to draw batches."""

SMALL_DELTA = 1e-8
"""Batches are padded for this delta if no physical size is given."""


def plan(values: Mapping[str, Any]) -> BatchScheme:
    """The batch scheme that these words describe; those left out are missing or None.

    >>> plan({"batches": "fixed", "dataset_size": 10, "batch_size": 4, "epochs": 2}).steps
    6
    """
    name = scheme_name(values)
    given = {word: values[word] for word in PLAN if values.get(word) is not None}
    needed, taken = SCHEMES[name]
    strange = [word for word in given if word not in taken]
    missing = [word for word in needed if word not in given]
    if strange or missing:
        got = ", ".join(f"{word}=" for word in given) or "none of them"
        words = ", ".join(f"{word}=" for word in taken)
        raise InvalidArgument(f"{name} batches take {words}; got {got}.")
    from sharpdp import batches

    kind, parameters = MAKERS[name]
    scheme: BatchScheme = getattr(batches, kind)(**parameters(given))
    return scheme


def scheme_name(values: Mapping[str, Any]) -> str:
    """The name of the scheme, Poisson if none is given.

    >>> scheme_name({"batches": "Balls_And_Bins"})
    'balls-and-bins'
    """
    given = values.get("batches")
    name = "poisson" if given is None else str(given).lower().replace("_", "-")
    name = ALIASES.get(name, name)
    if name not in SCHEMES:
        known = f"{', '.join(list(SCHEMES)[:-1])} or {list(SCHEMES)[-1]}"
        raise InvalidArgument(
            f"batches must be {known}; got {quoted(str(given))}.{hint(name, SCHEMES)}"
        )
    return name


def _allocation(given: dict[str, Any]) -> dict[str, Any]:
    """Steps of an epoch as they are, or as many as hold the data set."""
    if "batch_size" not in given:
        return given
    if "steps" in given or "dataset_size" not in given:
        raise InvalidArgument(
            "allocation batches take steps= of one epoch, or dataset_size= and batch_size=; "
            f"got {', '.join(f'{word}=' for word in given)}."
        )
    rest = {word: value for word, value in given.items() if word != "batch_size"}
    return {**rest, "steps": _steps({**given, "epochs": 1})}


def _fixed(given: dict[str, Any]) -> dict[str, Any]:
    """Steps as they are, or as many as epochs have."""
    return {**{word: given[word] for word in SPLIT[:2]}, "steps": _steps(given)}


def _truncated(given: dict[str, Any]) -> dict[str, Any]:
    """Without a physical size, one that next to no batch outgrows."""
    from sharpdp.sampler_comparison import padded_size

    if "physical_batch_size" in given:
        return given
    sizes = {word: given[word] for word in SPLIT[:2]}
    kept = padded_size(**sizes, steps=_steps(given), delta=SMALL_DELTA)
    return {**given, "physical_batch_size": kept}


def _steps(given: Mapping[str, Any]) -> int:
    """How many batches so many epochs have, or the steps that were given."""
    from sharpdp.batches import PoissonBatches

    words = ("steps", *SPLIT)
    return PoissonBatches(**{word: given[word] for word in words if word in given}).steps


MAKERS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "poisson": ("PoissonBatches", dict),
    "deterministic": ("DeterministicBatches", dict),
    "shuffled": ("ShuffledBatches", dict),
    "shuffled-once": ("ShuffledBatches", lambda given: {**given, "order": "kept"}),
    "balls-and-bins": ("BallsAndBins", dict),
    "allocation": ("RandomAllocation", _allocation),
    "fixed": ("FixedSizeBatches", _fixed),
    "truncated": ("TruncatedPoissonBatches", _truncated),
}
"""The class of each way to draw batches, and what its parameters are."""
