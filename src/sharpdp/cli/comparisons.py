"""Commands that put things side by side: bounds on one run, and one run over every batch scheme."""

from __future__ import annotations

import argparse
from typing import Any

from sharpdp.cli import tables
from sharpdp.cli.mechanism_syntax import mechanism as written
from sharpdp.cli.mechanism_syntax import reports, training
from sharpdp.cli.parser import UsageError, flag, quoted
from sharpdp.cli.run_spec import REPORTS, TRAINING, PlanFile, Run, is_plan, plan_of, run_of
from sharpdp.cli.views import Reply
from sharpdp.nearest_word import hint

__all__ = ["VARIED", "compare", "refuse_others", "samplers"]

VARIED = ("local-epsilon", "users", "rounds", "population")
"""What the picture of a comparison can vary."""

QUESTION = ("noise_multiplier", "dataset_size", "batch_size", "epochs", "delta")
"""What a comparison of batch schemes needs."""

SAMPLED = (*QUESTION, "physical_batch_size", "relative_width", "adjacency")
"""All that it takes."""

KINDS = {"shuffle": "ShuffledReports", "sampled-shuffle": "ShuffledReports", "dpsgd": "DPSGD"}
"""Runs that options can describe, and what a plan calls them."""

WHAT = (
    "compare what? Write samplers, shuffle or dpsgd with options, a mechanism in quotes, or a plan "
    "file."
)


def compare(options: argparse.Namespace) -> Reply:
    """Every known bound in a table, or every batch scheme, and in a picture if one is asked for."""
    if options.mechanism == "samplers":
        return _schemes(options)
    from sharpdp.comparison import compare as compared

    run = _subject(options)
    delta = options.delta
    if delta is None and options.order is None and run.delta:
        delta = run.delta[0]
    if (delta is None) == (options.order is None):
        got = "neither" if delta is None else "both"
        raise UsageError(
            f"give --delta to compare epsilon, or --order to compare Renyi divergences; got {got}."
        )
    over = _varied(options, delta)
    width = {} if options.relative_width is None else {"relative_width": options.relative_width}
    found = compared(
        run.mechanism, delta=delta, order=options.order, adjacency=run.adjacency, **width
    )
    reply = Reply(str(found).splitlines(), found.to_dict(), tables.bounds_on(found))
    if options.output is None:
        return reply
    from sharpdp import plots

    plots.save_comparison(run.mechanism, options.output, over=over, delta=delta)
    return reply.drawn(options.output)


def samplers(options: argparse.Namespace) -> Reply:
    """One training run over every batch scheme."""
    from sharpdp.sampler_comparison import compare_samplers

    found = compare_samplers(**_sampled(options))
    reply = Reply(str(found).splitlines(), found.to_dict(), tables.schemes(found))
    if options.output is None:
        return reply
    from sharpdp.plots.sampler_curves import save_samplers

    save_samplers(found, options.output)
    return reply.drawn(options.output)


def refuse_others(options: argparse.Namespace, own: tuple[str, ...], name: str) -> None:
    """Refuse an option that describes another kind of run."""
    for word in (*REPORTS, *TRAINING):
        if word not in own and getattr(options, word) is not None:
            raise UsageError(f"{flag(word)} does not go with {quoted(name)}; leave it out.")


def _schemes(options: argparse.Namespace) -> Reply:
    """`sharpdp compare samplers`, which is `sharpdp samplers`."""
    refuse_others(options, SAMPLED, "samplers")
    for word in ("order", "over"):
        if getattr(options, word) is not None:
            raise UsageError(f"{flag(word)} does not go with 'samplers'; leave it out.")
    return samplers(options)


def _sampled(options: argparse.Namespace) -> dict[str, Any]:
    """What is asked of the schemes: options first, then what a plan says."""
    file = plan_of(options)
    given = {} if file is None else _of_plan(file)
    given |= {word: value for word in SAMPLED if (value := getattr(options, word)) is not None}
    missing = [word for word in QUESTION if given.get(word) is None]
    if missing:
        where = "" if file is None else f" {file.path} does not say it."
        needed = ", ".join(flag(word) for word in QUESTION)
        raise UsageError(f"samplers needs {needed}; {flag(missing[0])} is missing.{where}")
    return given


def _of_plan(file: PlanFile) -> dict[str, Any]:
    """What a plan of a DP-SGD run says about the question."""
    if file.kind != "DPSGD":
        raise UsageError(
            f"sharpdp samplers takes a plan that runs DPSGD; {file.path} runs {file.kind or 'none'}."
        )
    plan = file.plan({})  # what is wrong with the plan is said before it is used
    words = {word: value for word, value in file.words().items() if word in SAMPLED}
    words["relative_width"] = plan.relative_width
    if "delta" in file.data:
        words["delta"] = plan.delta[0]
    if "adjacency" in file.data:
        words["adjacency"] = plan.adjacency
    return words


def _subject(options: argparse.Namespace) -> Run:
    """What is compared: a run with its options, a plan, or a mechanism in quotes without options."""
    name = options.mechanism
    if name is None or is_plan(name):
        options.file = name
        file = plan_of(options)
        if file is None:
            raise UsageError(WHAT)
        return file.run(vars(options))
    if name in KINDS:
        is_training = name == "dpsgd"
        refuse_others(options, TRAINING if is_training else REPORTS, name)
        return run_of(options, training if is_training else reports, KINDS[name])
    run = written(name)
    refuse_others(options, (), name)
    if options.plan is not None:
        raise UsageError(f"give a mechanism or a plan; got {quoted(name)} and --plan.")
    return Run(run, options.adjacency, options.relative_width)


def _varied(options: argparse.Namespace, delta: float | None) -> str:
    """What the picture of a comparison varies, in the words of the API."""
    if options.output is None:
        if options.over is not None:
            raise UsageError("--over says what a picture varies; give --output as well.")
    elif delta is None:
        raise UsageError("a picture shows epsilon; give --delta.")
    over = options.over or VARIED[0]
    if over not in VARIED:
        ask = hint(over, VARIED)
        raise UsageError(f"--over must be {', '.join(VARIED)}; got {quoted(over)}.{ask}")
    return str(over).replace("-", "_")
