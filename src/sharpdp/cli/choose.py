"""Commands that choose: the value of one unknown that meets a target, and things side by side."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sharpdp.cli import tables
from sharpdp.cli.ask import answered, entry
from sharpdp.cli.parser import UsageError, flag, is_plan, quoted
from sharpdp.cli.runs import (
    FORMS,
    REPORTS,
    TRAINING,
    PlanFile,
    Run,
    mechanism,
    refuse_others,
    reports,
    run_of,
    training,
)
from sharpdp.cli.views import Reply
from sharpdp.display.nearest_word import hint, nearest
from sharpdp.display.outward_digits import ROUND_CEILING, ROUND_FLOOR, rounded

if TYPE_CHECKING:
    from sharpdp.bracket import Bracket
    from sharpdp.mechanisms import Mechanism
    from sharpdp.questions.account import Guarantee
    from sharpdp.questions.compare import Row
    from sharpdp.questions.targets import Target

__all__ = ["UNKNOWNS", "VARIED", "calibrate", "compare", "design"]

UNKNOWNS = {
    "noise_multiplier": ROUND_CEILING,
    "steps": None,
    "epochs": None,
    "sample_rate": ROUND_FLOOR,
    "local_epsilon": ROUND_FLOOR,
    "users": None,
    "rounds": None,
    "population": None,
}
"""What can be calibrated, and which way its digits are rounded; None counts whole things."""

VARIED = ("local-epsilon", "users", "rounds", "population")
"""What the picture of a comparison can vary."""

QUESTION = ("noise_multiplier", "dataset_size", "batch_size", "epochs", "delta")
"""What a comparison of batch schemes needs."""

SAMPLED = (*QUESTION, "physical_batch_size", "relative_width", "adjacency")
"""All that a comparison of batch schemes takes."""

Template = Callable[[float], "Mechanism"]


def calibrate(options: argparse.Namespace) -> Reply:
    """The value of one unknown that meets a target, and the answer it gives."""
    from sharpdp.questions.calibrate import calibrate as calibrated
    from sharpdp.questions.targets import the_target

    unknown = _unknown(options)
    file = None if options.plan is None else PlanFile.read(options.plan)
    targets = ("epsilon", "delta", "advantage", "tpr", "fpr", "mu")
    target = {word: value for word in targets if (value := getattr(options, word)) is not None}
    template = _described(options, unknown) if file is None else _planned(file, options, unknown)
    asked = {"adjacency": options.adjacency, "group_size": options.group_size}
    if file is not None:
        asked = {word: asked[word] or file.data.get(word) for word in asked}
        if "epsilon" in target and "delta" not in target and "delta" in file.data:
            target["delta"] = file.plan({}).delta[0]
    direction = UNKNOWNS[unknown]
    asked["group_size"] = asked["group_size"] or 1
    exact = calibrated(template, **target, **asked, whole=direction is None)
    value, guarantee, bracket = _confirmed(template, exact, direction, the_target(**target), asked)
    # more noise and more users make a run more private, so the smallest number of them is looked for;
    # users who are drawn from a population do not, since each of them takes part more often
    drawn = unknown == "users" and getattr(template(value), "population", None) is not None
    hides = unknown in ("noise_multiplier", "users", "population") and not drawn
    side = "smallest" if hides else "largest"
    precision = "" if direction is None else " up to 0.01%"
    first = f"{unknown} = {value!r} (the {side} whose upper bound meets the target{precision})"
    conditions = {word: target[word] for word in ("delta", "fpr") if word in target}
    view = tables.answers(guarantee, [bracket], details=options.details)
    plan = Run(template(value), asked["adjacency"], None, (), guarantee.group_size).plan(
        [target["delta"]] if "delta" in target else None
    )
    reply = answered(
        guarantee,
        [bracket],
        [entry(guarantee, bracket, **conditions)],
        plan,
        replace(view, title=first),
    )
    facts = {"unknown": unknown, "value": value, "target": target, **reply.facts}
    return replace(reply, lines=[first, *(reply.lines or [])], facts=facts)


def design(options: argparse.Namespace) -> Reply:
    """Privacy and accuracy of a data collection by local epsilon."""
    from sharpdp.mechanisms import RandomizedResponse, ShuffledReports
    from sharpdp.questions.design_collection import design_collection

    if options.users is None:
        raise UsageError("design needs --users, the number of people who are asked.")
    words = (
        *("users", "rounds", "categories", "local_epsilon"),
        *("drop_outs", "delta", "relative_width"),
    )
    arguments = {word: value for word in words if (value := getattr(options, word)) is not None}
    designed = design_collection(**arguments)
    asked = designed.to_dict()
    rows = asked.pop("rows")
    plan = None
    if len(rows) == 1:
        randomizer = RandomizedResponse(
            local_epsilon=rows[0]["local_epsilon"], categories=designed.categories
        )
        run = ShuffledReports(users=designed.users, randomizer=randomizer, rounds=designed.rounds)
        plan = Run(run, None, options.relative_width).plan([designed.delta]).to_dict()
    reply = Reply(rows, tables.design(designed), plan=plan, facts=asked)
    if options.output is None:
        return reply
    designed.save(options.output)
    return reply.drawn(options.output)


def compare(options: argparse.Namespace) -> Reply:
    """Batch schemes, inequalities on a mixture, Renyi conversions, or every known bound on one run."""
    special = {"samplers": _samplers, "mixture": _mixture, "conversions": _conversions}
    what = options.run[0] if options.run else None
    if what not in special:
        if what is not None and (meant := nearest(what, [*special, *FORMS])) in special:
            raise UsageError(f"{quoted(what)} cannot be compared. Did you mean {meant}?")
        return _bounds_on(options)
    options.run = options.run[1:]
    return special[what](options)


def _bounds_on(options: argparse.Namespace) -> Reply:
    """Every known bound on one run in a table, and in a picture if one is asked for."""
    from sharpdp.questions.compare import compare as compared

    if not options.run and options.plan is None:
        raise UsageError(
            "compare what? Write samplers, mixture or conversions, or a run: dpsgd or shuffle with "
            "options, a mechanism in quotes, or a plan file."
        )
    asked = ("delta", "order", "over", "relative_width", "adjacency", "group_size")
    _refuse(options, (*asked, *TRAINING, *REPORTS))
    run = run_of(options)
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
    comparison = compared(
        run.mechanism,
        delta=delta,
        order=options.order,
        adjacency=run.adjacency,
        group_size=run.group_size,
        **width,
    )
    answers = [
        _bound_entry(row, comparison.quantity, {comparison.given: comparison.at})
        for row in comparison.rows
    ]
    reply = Reply(
        answers,
        tables.bounds_on(comparison, details=options.details),
        plan=run.plan(None if delta is None else [delta]).to_dict(),
        facts={"mechanism": run.mechanism.describe(), "adjacency": comparison.neighbors},
    )
    if options.output is None:
        return reply
    from sharpdp import plots

    plots.save_comparison(run.mechanism, options.output, over=over, delta=delta)
    return reply.drawn(options.output)


def _samplers(options: argparse.Namespace) -> Reply:
    """One training run over every batch scheme."""
    from sharpdp.batches import PoissonBatches
    from sharpdp.mechanisms import DPSGD
    from sharpdp.questions.compare_samplers import compare_samplers

    _refuse(options, SAMPLED, "samplers")
    if options.run and options.plan is None and len(options.run) == 1 and is_plan(options.run[0]):
        options.plan, options.run = options.run[0], []
    if options.run:
        raise UsageError(f"samplers takes options; got {quoted(options.run[0])}.")
    asked = _sampled(options)
    comparison = compare_samplers(**asked)
    answers = []
    for row, data in zip(comparison.rows, comparison.to_dict()["samplers"], strict=True):
        bracket = row.epsilon
        rigor = {
            "rigor": None if bracket is None else bracket.rigor.by(bracket.stated_by),
            "confidence": None if bracket is None else bracket.confidence,
        }
        answers.append({"quantity": "epsilon", "delta": comparison.delta, **data, **rigor})
    batches = PoissonBatches(
        dataset_size=comparison.dataset_size,
        batch_size=comparison.batch_size,
        epochs=comparison.epochs,
    )
    run = DPSGD(batches, noise_multiplier=comparison.noise_multiplier)
    adjacency = str(comparison.rows[0].adjacency)
    plan = Run(run, adjacency, asked.get("relative_width")).plan([comparison.delta])
    reply = Reply(
        answers,
        tables.schemes(comparison, details=options.details),
        plan=plan.to_dict(),
        facts={"mechanism": comparison.describe(), "adjacency": adjacency},
    )
    if options.output is None:
        return reply
    from sharpdp.plots.sampler_curves import save_samplers

    save_samplers(comparison, options.output)
    return reply.drawn(options.output)


def _mixture(options: argparse.Namespace) -> Reply:
    """All inequalities about one mixture, at --fpr or --epsilon."""
    _refuse(options, ("weights", "other_weights", "fpr", "epsilon"), "mixture")
    if options.fpr is not None and options.epsilon is not None:
        raise UsageError(
            "give --fpr to ask for false-negative rates, or --epsilon to ask for delta; got both."
        )
    from sharpdp.curves.mixtures import compare_mixture

    run = _mixed(options)
    mixture: Any = run.mechanism
    if options.epsilon:
        comparison = compare_mixture(mixture, epsilon=options.epsilon)
    else:
        comparison = compare_mixture(mixture, fpr=options.fpr or (0.01, 0.1, 0.5))
    side = "lower" if comparison.quantity == "fnr" else "upper"
    answers = []
    for row in comparison.rows:
        values = comparison.values(row) if row.curves else (None,) * len(comparison.at)
        answers += [
            {
                "name": row.name,
                "quantity": comparison.quantity,
                comparison.given: float(given),
                "lower": None,
                "upper": None,
                side: value,
                "rigor": "certified",
                "confidence": None,
                "reason": row.reason or None,
                "source": row.source,
            }
            for given, value in zip(comparison.at, values, strict=True)
        ]
    facts = {"mechanism": run.mechanism.describe(), "nothing_lost": comparison.nothing_lost}
    reply = Reply(answers, tables.inequalities(comparison), plan=run.plan().to_dict(), facts=facts)
    if options.output is None:
        return reply
    from sharpdp.plots.mixture_comparison import save_mixture

    save_mixture(comparison, options.output)
    return reply.drawn(options.output)


def _conversions(options: argparse.Namespace) -> Reply:
    """Epsilon at --delta, or delta at --epsilon, by every conversion of Renyi divergences."""
    from sharpdp.curves.renyi import compare_conversions

    _refuse(options, ("orders", "values", "delta", "epsilon"), "conversions")
    if options.output is not None:
        raise UsageError("conversions are not drawn; leave --output out.")
    curve, planned = _curve(options)
    epsilon = None if options.epsilon is None else options.epsilon[0]
    if options.epsilon is not None and len(options.epsilon) > 1:
        raise UsageError("conversions are compared at one --epsilon; got several.")
    delta = options.delta
    if delta is None and epsilon is None and planned:
        delta = planned[0]
    if (delta is None) == (epsilon is None):
        got = "neither" if delta is None else "both"
        raise UsageError(
            f"give --delta to ask for epsilon, or --epsilon to ask for delta; got {got}."
        )
    quantity, argument, asked = ("epsilon", "delta", delta)
    if delta is None:
        quantity, argument, asked = ("delta", "epsilon", epsilon)
    sources = {
        "joint": "riess2026, by all orders together",
        "optimal": "asoodeh2020 Theorem 3",
        "lemma1": "asoodeh2020 Lemma 1",
        "balle": "balle2020 Theorem 21 = canonne2020 Proposition 12",
        "classical": "mironov2017 Proposition 3, the moments accountant",
    }
    rows = [
        (name, value, order, sources[name])
        for name, (value, order) in compare_conversions(curve, delta=delta, epsilon=epsilon).items()
    ]
    answers = [
        {
            "name": name,
            "quantity": quantity,
            argument: asked,
            "lower": None,
            "upper": _json(value),
            "rigor": str(curve.rigor),
            "confidence": None,
            "order": _json(order),
            "source": source,
        }
        for name, value, order, source in rows
    ]
    return Reply(
        answers,
        tables.conversions(f"{quantity} at {argument}={asked:g}", curve.describe(), rows),
        plan=Run(curve, None, None).plan(None if delta is None else [delta]).to_dict(),
        facts={"mechanism": curve.describe()},
    )


# --- calibrate ---


def _described(options: argparse.Namespace, unknown: str) -> Template:
    """The run that options describe, as a function of the unknown."""
    own, described = (REPORTS, reports) if unknown in REPORTS else (TRAINING, training)
    refuse_others(options, own, options.unknown)

    def template(value: float) -> Mechanism:
        return described({**vars(options), unknown: value})

    # any unknown may be 1, or all users there are, so what is wrong now is something else
    template(max(2, options.users or 0) if unknown == "population" else 1)
    return template


def _planned(file: PlanFile, options: argparse.Namespace, unknown: str) -> Template:
    """The run of a plan, as a function of the unknown; its own value there does not count."""
    values: dict[str, Any] = {word: getattr(options, word) for word in (*TRAINING, *REPORTS)}
    file.plan(values)

    def template(value: float) -> Mechanism:
        return file.plan({**values, unknown: value}).mechanism

    users = values["users"] or file.words().get("users", 0)
    template(max(2, users) if unknown == "population" else 1)
    return template


def _unknown(options: argparse.Namespace) -> str:
    """The unknown in the words of the API, which must not be given as well."""
    unknown = str(options.unknown).replace("-", "_")
    if unknown not in UNKNOWNS:
        unknowns = [word.replace("_", "-") for word in UNKNOWNS]
        ask = hint(options.unknown, unknowns, f"There are: {', '.join(unknowns)}.")
        raise UsageError(f"{quoted(options.unknown)} cannot be calibrated.{ask}")
    if getattr(options, unknown) is not None:
        raise UsageError(f"{options.unknown} is what is looked for; leave {flag(unknown)} out.")
    return unknown


def _confirmed(
    template: Template,
    value: float,
    direction: str | None,
    target: Target,
    asked: dict[str, Any],
) -> tuple[float, Guarantee, Bracket]:
    """The value in few digits if it still meets the target, with the bracket that shows it."""
    from sharpdp.questions.account import account

    few = value
    if direction is not None:
        few = float(rounded(value, 7, direction))
    for candidate in dict.fromkeys((few, value)):
        guarantee = account(template(candidate), **asked)
        bracket = target.asked(guarantee)
        if float(bracket) <= target.limit:
            break
    return candidate, guarantee, bracket


# --- compare ---


def _refuse(options: argparse.Namespace, own: tuple[str, ...], name: str = "") -> None:
    """Refuse an option that belongs to another comparison."""
    title = name or (options.run[0] if options.run else options.plan)
    compared = (
        *("delta", "order", "over", "relative_width", "adjacency", "group_size"),
        *("weights", "other_weights", "fpr", "epsilon", "orders", "values"),
    )
    for word in compared:
        if word not in own and getattr(options, word) is not None:
            raise UsageError(f"{flag(word)} does not go with {quoted(title)}; leave it out.")
    refuse_others(options, own, title)


def _varied(options: argparse.Namespace, delta: float | None) -> str:
    """The parameter that the picture of a comparison varies, in the words of the API."""
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


def _bound_entry(row: Row, quantity: str, given: dict[str, float]) -> dict[str, Any]:
    """One bound for JSON; a value that is not proved is an estimate, not a bound."""
    values: dict[str, Any] = {"lower": None, "upper": None, "estimate": None}
    if row.value is not None:
        values[str(row.side) if row.rigor.proved else "estimate"] = _json(row.value)
    return {
        "name": row.name,
        "quantity": quantity,
        **given,
        **values,
        "rigor": row.rigor_words,
        "confidence": None,
        "reason": row.reason or None,
        "holds_when": row.holds_when or None,
        "attained_when": row.attained_when or None,
        "source": row.source,
    }


def _sampled(options: argparse.Namespace) -> dict[str, Any]:
    """The question to the batch schemes: options first, then the words of a plan."""
    file = None if options.plan is None else PlanFile.read(options.plan)
    asked = {} if file is None else _of_plan(file)
    asked |= {word: value for word in SAMPLED if (value := getattr(options, word)) is not None}
    missing = [word for word in QUESTION if asked.get(word) is None]
    if missing:
        where = "" if file is None else f" {file.path} does not say it."
        needed = ", ".join(flag(word) for word in QUESTION)
        raise UsageError(f"samplers needs {needed}; {flag(missing[0])} is missing.{where}")
    return asked


def _of_plan(file: PlanFile) -> dict[str, Any]:
    """The words of the question in a plan of a DP-SGD run."""
    if file.kind != "DPSGD":
        raise UsageError(
            f"compare samplers takes a plan that runs DPSGD; {file.path} runs "
            f"{file.kind or 'none'}."
        )
    plan = file.plan({})  # what is wrong with the plan is said before it is used
    if plan.group_size > 1:
        raise UsageError(
            f"compare samplers is about single records; {file.path} asks for groups of "
            f"{plan.group_size}. Leave group_size out."
        )
    words = {word: value for word, value in file.words().items() if word in SAMPLED}
    words |= {"relative_width": plan.relative_width, "delta": plan.delta[0]}
    if "adjacency" in file.data:
        words["adjacency"] = plan.adjacency
    return words


def _mixed(options: argparse.Namespace) -> Run:
    """The mixture, by components and weights or by a plan."""
    from sharpdp.mechanisms import Mixture

    path = options.plan
    if path is None and len(options.run) == 1 and is_plan(options.run[0]):
        path = options.run.pop()
    if path is not None:
        if options.run or options.weights or options.other_weights:
            raise UsageError("give components and --weights, or a plan; got both.")
        file = PlanFile.read(path)
        run = file.run({})
        if not isinstance(run.mechanism, Mixture):
            raise UsageError(
                f"compare mixture takes a plan that runs a Mixture; {file.path} runs {file.kind}."
            )
        return run
    if not options.run:
        raise UsageError("name the components, or a plan. See sharpdp help compare mixture.")
    if options.weights is None:
        raise UsageError("give --weights, one per component.")
    mixture = Mixture(
        components=tuple(mechanism(text) for text in options.run),
        weights=options.weights,
        other_weights=options.other_weights,
    )
    return Run(mixture, None, None)


def _curve(options: argparse.Namespace) -> tuple[Any, tuple[float, ...]]:
    """The Renyi divergences, by options or by a plan, and the deltas that the plan asks for."""
    from sharpdp.curves.renyi import RenyiCurve

    path = options.plan
    if path is None and options.run:
        path = options.run[0]
    listed = [word for word in ("orders", "values") if getattr(options, word) is not None]
    if path is None:
        if len(listed) < 2:
            raise UsageError("give --orders and --values, one value at each order, or a plan.")
        return RenyiCurve(orders=options.orders, values=options.values), ()
    if listed:
        raise UsageError(f"give --{listed[0]} or a plan; got both.")
    file = PlanFile.read(path)
    run = file.run({})
    if not isinstance(run.mechanism, RenyiCurve):
        raise UsageError(
            f"compare conversions takes a plan that runs a RenyiCurve; {file.path} runs {file.kind}."
        )
    return run.mechanism, run.delta


def _json(value: float) -> float | str:
    """A number as JSON can hold it: infinity by its name."""
    return str(value) if math.isinf(value) else value
