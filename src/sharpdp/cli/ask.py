"""Commands that ask for epsilon or delta of one run, or for what an attacker can achieve."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sharpdp.cli import tables
from sharpdp.cli.parser import UsageError
from sharpdp.cli.runs import run_of
from sharpdp.cli.terminal import plain
from sharpdp.cli.views import Reply, View

if TYPE_CHECKING:
    from sharpdp.bracket import Bracket
    from sharpdp.questions.account import Guarantee

__all__ = ["account", "answered", "dpsgd", "entry", "risk", "shuffle", "tradeoff"]


def account(options: argparse.Namespace) -> Reply:
    """The answer to --delta or --epsilon, whichever was given, or to what the plan asks."""
    run = run_of(options)
    if options.delta is not None and options.epsilon is not None:
        raise UsageError(
            "give --delta to ask for epsilon, or --epsilon to ask for delta; got both."
        )
    deltas = options.delta or list(run.delta)
    if options.epsilon is None and not deltas:
        raise UsageError(
            "give --delta to ask for epsilon, or --epsilon to ask for delta; got neither."
        )
    guarantee = run.guarantee()
    suggestions: tuple[str, ...] = ()
    if options.epsilon is not None:
        brackets = [guarantee.delta(epsilon=epsilon) for epsilon in options.epsilon]
        questions = [{"epsilon": epsilon} for epsilon in options.epsilon]
        plan = run.plan()
    else:
        brackets = [guarantee.epsilon(delta=delta) for delta in deltas]
        questions = [{"delta": delta} for delta in deltas]
        plan = run.plan(deltas)
        if 0.0 < deltas[0] < 1.0:
            suggestions = guarantee.suggestions(delta=deltas[0])
    answers = [
        entry(guarantee, bracket, **question)
        for bracket, question in zip(brackets, questions, strict=True)
    ]
    view = tables.answers(guarantee, brackets, details=options.details, suggestions=suggestions)
    reply = answered(guarantee, brackets, answers, plan, view)
    return _drawn(reply, guarantee, options.output, "profile")


dpsgd = shuffle = account  # the three read what is run from other options


def tradeoff(options: argparse.Namespace) -> Reply:
    """The false-negative rate of the best attack at some false-positive rates, and its advantage."""
    run = run_of(options)
    guarantee = run.guarantee()
    rates = options.fpr or [0.001, 0.01, 0.1, 0.5]
    brackets = [guarantee.fnr(fpr=rate) for rate in rates]
    advantage = guarantee.advantage()
    answers = [
        *(
            entry(guarantee, bracket, fpr=rate)
            for rate, bracket in zip(rates, brackets, strict=True)
        ),
        entry(guarantee, advantage),
    ]
    view = tables.attacks(guarantee, rates, brackets, advantage, details=options.details)
    reply = answered(guarantee, [*brackets, advantage], answers, run.plan(), view)
    return _drawn(reply, guarantee, options.output, "tradeoff")


def risk(options: argparse.Namespace) -> Reply:
    """Risks of an attack in plain words, with the brackets behind them."""
    run = run_of(options)
    guarantee = run.guarantee()
    names = ("prior", "fpr", "baseline", "candidates", "records")
    said = {name: getattr(options, name) for name in names}
    risk = guarantee.risk(**{name: value for name, value in said.items() if value is not None})
    used = {
        "guess": ("prior",),
        "precision": ("prior", "fpr"),
        "reconstruction": ("baseline",),
        "singling_out": ("candidates",),
        "identified": ("records", "fpr"),
    }
    answers = [
        entry(guarantee, bracket, **{given: getattr(risk, given) for given in used[name]})
        for name, bracket in risk.brackets.items()
    ]
    from sharpdp.report import theorems

    view = tables.risks(risk, details=options.details)
    facts = {**theorems(guarantee), "assumptions": risk.assumptions}
    reply = Reply(answers, view, plain(view), run.plan().to_dict(), facts)
    if options.output is None:
        return reply
    from sharpdp import plots

    plots.save(guarantee, options.output, draw=lambda _, ax=None: risk.plot(ax))
    return reply.drawn(options.output)


def answered(
    guarantee: Guarantee,
    brackets: Sequence[Bracket],
    answers: list[dict[str, Any]],
    plan: Any,
    view: View,
) -> Reply:
    """A reply of brackets, and what they rest on."""
    from sharpdp.report import line, theorems

    lines = plain(view, [line(guarantee, bracket) for bracket in brackets])
    return Reply(answers, view, lines, plan.to_dict(), theorems(guarantee))


def entry(guarantee: Guarantee, bracket: Bracket, **given: float) -> dict[str, Any]:
    """One answer for JSON: the quantity, where it was asked for, and its bracket."""
    from sharpdp.report import plain as plain_data

    data = plain_data(guarantee, bracket)
    return {
        "quantity": data.pop("quantity"),
        **given,
        **data,
        "confidence": bracket.confidence,
    }


def _drawn(reply: Reply, guarantee: Guarantee, output: str | None, picture: str) -> Reply:
    """The reply with its picture saved, if one was asked for."""
    if output is None:
        return reply
    from sharpdp import plots

    plots.save(guarantee, output, draw=getattr(plots, picture))
    return reply.drawn(output)
