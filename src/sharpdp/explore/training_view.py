"""The view of training: one run over every batch scheme, and the noise that each needs for a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sharpdp._validate import positive_scale
from sharpdp.accounting import account
from sharpdp.calibration import calibrate
from sharpdp.cli.runs import scheme_of
from sharpdp.errors import NotCertified, Unsupported
from sharpdp.explore.fields import bracket_data, number, text
from sharpdp.explore.loader_line import LoaderLine, read_loader
from sharpdp.explore.snippets import snippets
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.plans import Plan
from sharpdp.sampler_comparison import SamplerRow, sampler_rows

__all__ = ["training"]

YOURS = "your loader"
"""The row of the loader that was pasted."""

SIZES = ("dataset_size", "batch_size", "epochs")


def training(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of all batch schemes, that of a pasted loader first; then the noise for a target epsilon.

    Args:
        fields: noise_multiplier, dataset_size, batch_size, epochs, delta; loader (a line of code, may be
            empty); target_epsilon (may be None); scheme (the name of the row to show as code).
    """
    sizes: dict[str, Any] = {name: number(fields, name) for name in SIZES}
    noise = positive_scale(noise_multiplier=number(fields, "noise_multiplier"))
    delta = number(fields, "delta")
    line = text(fields, "loader")
    read = read_loader(line) if line else LoaderLine()
    if "batch_size" in read.words and read.words["batch_size"] != sizes["batch_size"]:
        sizes["batch_size"] = read.words["batch_size"]
    if line:
        yield {"loader": {"why": read.why, "batch_size": sizes["batch_size"]}}
    schemes: dict[str, Any] = {}
    if line:
        schemes[YOURS] = scheme_of(_words(read.words, sizes))
    for index, row in enumerate(sampler_rows(noise_multiplier=noise, delta=delta, **sizes)):
        if row.epsilon is not None:
            schemes[row.name] = row.scheme
        yield {"row": _row(row)}
        if index == 0 and line:
            yield from _yours(schemes[YOURS], noise, delta)
    wanted = text(fields, "scheme")
    chosen = wanted if wanted in schemes else YOURS if line else "shuffled"
    if chosen in schemes:
        run = DPSGD(schemes[chosen], noise_multiplier=noise)
        plan = Plan(run, (delta,), str(Adjacency.ZERO_OUT))
        yield {"scheme": chosen, "snippets": snippets(plan), "plan": plan.to_dict()}
    if fields.get("target_epsilon") is not None:
        target = number(fields, "target_epsilon")
        for name, scheme in schemes.items():
            yield {"noise": {"name": name, **_noise(scheme, target, delta)}}


def _words(words: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a batch scheme with its sizes. Opacus draws at one over the batches of an epoch.

    Its rate is rounded up to a multiple of 2^-24, since it compares single-precision random numbers.
    """
    if words["batches"] != "poisson":
        return {**sizes, **words}
    per_epoch = -(-sizes["dataset_size"] // sizes["batch_size"])
    rate = -(-(2**24) // per_epoch) / 2**24
    return {**words, "sample_rate": rate, "steps": per_epoch * sizes["epochs"]}


def _yours(scheme: Any, noise: float, delta: float) -> Iterator[dict[str, Any]]:
    """The row of a pasted loader, and what would make it better."""
    run = DPSGD(scheme, noise_multiplier=noise)
    answer = account(run, adjacency=Adjacency.ZERO_OUT, relative_width=0.01)
    epsilon = answer.epsilon(delta=delta)
    yield {"row": {"name": YOURS, **bracket_data(epsilon), "note": scheme.describe()}}
    suggested = answer.suggestions(delta=delta)
    if suggested:
        yield {"suggestions": list(suggested)}


def _row(row: SamplerRow) -> dict[str, Any]:
    if row.epsilon is None or row.scheme is None:
        return {"name": row.name, "reason": row.reason}
    return {"name": row.name, **bracket_data(row.epsilon), "note": row.scheme.describe()}


def _noise(scheme: Any, target: float, delta: float) -> dict[str, Any]:
    """The smallest noise multiplier over one scheme, in a few digits rounded up, or why there is none."""
    try:
        value = calibrate(
            lambda noise: DPSGD(scheme, noise_multiplier=noise),
            epsilon=target,
            delta=delta,
            adjacency=Adjacency.ZERO_OUT,
            relative_error=1e-2,
            whole=False,
        )
    except (NotCertified, Unsupported) as fault:
        return {"reason": str(fault)}
    return {"value": float(value)}
