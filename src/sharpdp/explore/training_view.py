"""The view of training: one run over every batch scheme, and the noise that each needs for a target."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from sharpdp._validate import count, open_probability, positive_scale
from sharpdp.batches import BatchScheme
from sharpdp.cli.runs import scheme_of
from sharpdp.display.outward_digits import ROUND_CEILING, in_digits
from sharpdp.errors import InvalidArgument, NotCertified, Unsupported
from sharpdp.explore.fields import bracket_data, number, target, text
from sharpdp.explore.loader_line import LoaderLine, read_loader
from sharpdp.explore.snippets import code
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.plans import Plan
from sharpdp.questions.account import account
from sharpdp.questions.calibrate import calibrate
from sharpdp.questions.compare_samplers import SamplerRow, sampler_rows, schemes_for

__all__ = ["loader", "noise", "schemes", "slow_schemes"]

YOURS = "your loader"
"""The row of the loader that was pasted."""

SIZES = ("dataset_size", "batch_size", "epochs")

QUICK = (
    "Poisson",
    "deterministic",
    "truncated Poisson",
    "balls-and-bins",
    "random allocation",
    "fixed size",
)
"""Batch schemes whose rows take half a second together."""

SLOW = ("kept bins", "with replacement", "shuffled", "shuffled, one left out")
"""The others, which take seconds."""


def loader(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The reading of a pasted line, the row of its loader, and what would make it better.

    Args:
        fields: loader (a line of code), noise_multiplier, dataset_size, batch_size, epochs, delta.
    """
    read = read_loader(text(fields, "loader"))
    sizes = _sizes(fields, read)
    noise_multiplier, delta = _noise_multiplier(fields), _delta(fields)
    yield {"why": read.why, "batch_size": sizes["batch_size"]}
    scheme = scheme_of(_words(read.words, sizes))
    run = DPSGD(scheme, noise_multiplier=noise_multiplier)
    answer = account(run, adjacency=Adjacency.ZERO_OUT)
    epsilon = bracket_data(answer.epsilon(delta=delta))
    yield {"row": {"name": YOURS, **epsilon, "note": scheme.describe(), **_code(run, delta)}}
    yield {"suggestions": list(answer.suggestions(delta=delta))}


def schemes(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of the batch schemes that are accounted quickly, as they are computed.

    Args:
        fields: noise_multiplier, dataset_size, batch_size, epochs, delta; loader, whose batch size
            counts if it has one (may be empty).
    """
    sizes = _sizes(fields, _read(fields))
    yield from _rows(_noise_multiplier(fields), _delta(fields), sizes, QUICK)


def slow_schemes(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of the other batch schemes; one that the pasted loader follows is named, not computed again.

    Args:
        fields: As of `schemes`.
    """
    read = _read(fields)
    sizes, noise_multiplier, delta = _sizes(fields, read), _noise_multiplier(fields), _delta(fields)
    own = scheme_of(_words(read.words, sizes)) if read.words else None
    schemes = schemes_for(delta=delta, **sizes)
    same = [name for name in SLOW if own is not None and schemes.get(name) == own]
    yield from ({"same": name} for name in same)
    others = [name for name in SLOW if name not in same]
    yield from _rows(noise_multiplier, delta, sizes, others)


def _rows(
    noise_multiplier: float, delta: float, sizes: dict[str, Any], names: Container[str]
) -> Iterator[dict[str, Any]]:
    for row in sampler_rows(noise_multiplier=noise_multiplier, delta=delta, **sizes, names=names):
        yield {"row": _row(row, noise_multiplier, delta)}


def noise(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The noise that every scheme needs for a target epsilon, that of a pasted loader first.

    Args:
        fields: target_epsilon, dataset_size, batch_size, epochs, delta; loader (may be empty).
    """
    read = _read(fields)
    sizes, delta = _sizes(fields, read), _delta(fields)
    epsilon = target(fields)
    own = scheme_of(_words(read.words, sizes)) if read.words else None
    found: dict[str, Any] = {}  # of the pasted loader
    for name, scheme in schemes_for(delta=delta, **sizes).items():
        same = bool(found) and scheme == own
        yield {"noise": {**(found if same else _noise(scheme, epsilon, delta)), "name": name}}
        if name == "Poisson" and own is not None:  # after the quickest, before the slow ones
            found = _noise(own, epsilon, delta)
            yield {"noise": {**found, "name": YOURS}}


def _read(fields: Mapping[str, Any]) -> LoaderLine:
    """The reading of the pasted line; None if there is none, or if it cannot be read."""
    line = text(fields, "loader")
    try:
        return read_loader(line) if line else LoaderLine()
    except InvalidArgument:
        return LoaderLine()


def _sizes(fields: Mapping[str, Any], read: LoaderLine) -> dict[str, Any]:
    """The sizes; a batch size that the pasted line has counts more than the field."""
    sizes = {name: number(fields, name) for name in SIZES}
    if "batch_size" in read.words:
        sizes["batch_size"] = read.words["batch_size"]
    return {name: count(**{name: value}) for name, value in sizes.items()}


def _noise_multiplier(fields: Mapping[str, Any]) -> float:
    return positive_scale(noise_multiplier=number(fields, "noise_multiplier"))


def _delta(fields: Mapping[str, Any]) -> float:
    return open_probability(delta=number(fields, "delta"))


def _words(words: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a batch scheme with its sizes. Opacus draws at one over the batches of an epoch.

    Its rate is rounded up to a multiple of 2^-24, since it compares single-precision random numbers.
    """
    if words["batches"] != "poisson":
        return {**sizes, **words}
    per_epoch = -(-sizes["dataset_size"] // sizes["batch_size"])
    rate = -(-(2**24) // per_epoch) / 2**24
    return {**words, "sample_rate": rate, "steps": per_epoch * sizes["epochs"]}


def _row(row: SamplerRow, noise_multiplier: float, delta: float) -> dict[str, Any]:
    if row.epsilon is None or row.scheme is None:
        return {"name": row.name, "reason": row.reason}
    run = DPSGD(row.scheme, noise_multiplier=noise_multiplier)
    epsilon, note = bracket_data(row.epsilon), row.scheme.describe()
    return {"name": row.name, **epsilon, "note": note, **_code(run, delta)}


def _code(run: DPSGD, delta: float) -> dict[str, Any]:
    return code(Plan(run, (delta,), str(Adjacency.ZERO_OUT)))


def _noise(scheme: BatchScheme, epsilon: float, delta: float) -> dict[str, Any]:
    """The smallest noise multiplier over one scheme, in digits rounded up, or why there is none."""
    try:
        value = calibrate(
            lambda noise: DPSGD(scheme, noise_multiplier=noise),
            epsilon=epsilon,
            delta=delta,
            adjacency=Adjacency.ZERO_OUT,
            whole=False,
        )
    except (InvalidArgument, NotCertified, Unsupported) as fault:
        return {"reason": str(fault)}
    return {"value": float(value), "shown": in_digits(value, ROUND_CEILING)}
