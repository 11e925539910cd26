"""Commands that ask for epsilon or delta of one run, or for what an attacker can achieve."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sharpdp.cli import tables
from sharpdp.cli.mechanism_syntax import reports, sequence, training
from sharpdp.cli.parser import UsageError
from sharpdp.cli.run_spec import REPORTS, TRAINING, Run, is_plan, plan_of, run_of
from sharpdp.cli.views import Reply

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee
    from sharpdp.bracket import Bracket

__all__ = ["account", "answer", "compose", "dpsgd", "shuffle", "tradeoff"]

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1, 0.5)
"""Where the trade-off curve is answered if nothing else is asked."""


def dpsgd(options: argparse.Namespace) -> Reply:
    """Epsilon or delta of a training run."""
    return _asked(run_of(options, training, "DPSGD"), options)


def shuffle(options: argparse.Namespace) -> Reply:
    """Epsilon or delta of shuffled reports."""
    run = run_of(options, reports, "ShuffledReports")
    if options.command == "sampled-shuffle" and getattr(run.mechanism, "population", None) is None:
        raise UsageError(
            "sampled-shuffle needs --population: the users of each round are drawn from it."
        )
    return _asked(run, options)


def compose(options: argparse.Namespace) -> Reply:
    """Epsilon or delta of mechanisms run one after the other."""
    return _asked(_in_a_row(options), options)


def account(options: argparse.Namespace) -> Reply:
    """Epsilon or delta of what a plan says is run."""
    file = plan_of(options)
    if file is None:
        raise UsageError("account needs a plan file: sharpdp account plan.toml.")
    return _asked(file.run(vars(options)), options)


def tradeoff(options: argparse.Namespace) -> Reply:
    """The false-negative rate of the best attack at some false-positive rates, and its advantage."""
    from sharpdp.report import plain

    run = _attacked(options)
    guarantee = run.guarantee()
    rates = options.fpr or list(FALSE_POSITIVE_RATES)
    brackets = [guarantee.fnr(fpr=rate) for rate in rates]
    advantage = guarantee.advantage()
    reply = answer(guarantee, [*brackets, advantage], {"fpr": rates}, brackets)
    data = {**reply.data, "advantage": plain(guarantee, advantage)}
    view = tables.attacks(guarantee, rates, brackets, advantage)
    return _drawn(Reply(reply.lines, data, view), guarantee, options.output, "tradeoff")


def answer(
    guarantee: Guarantee,
    shown: list[Bracket],
    given: dict[str, Any],
    brackets: list[Bracket],
) -> Reply:
    """Brackets with what they rest on; one question gives scalars, several give lists."""
    from sharpdp.report import line, plain, theorems

    lines = [line(guarantee, one) for one in shown]
    lines += tables.grounds(guarantee)
    entries = [plain(guarantee, one) for one in brackets]
    ends = {key: [entry[key] for entry in entries] for key in ("lower", "upper")}
    data = {"quantity": brackets[0].quantity, **given, **ends}
    if len(brackets) == 1:
        data = {key: _only(value) for key, value in data.items()}
    data = {**data, "rigor": entries[0]["rigor"], **theorems(guarantee)}
    return Reply(lines, data, tables.answers(guarantee, shown))


def _asked(run: Run, options: argparse.Namespace) -> Reply:
    """The answer to --delta or --epsilon, whichever was given, or to what the plan asks."""
    if options.delta is not None and options.epsilon is not None:
        raise UsageError(
            "give --delta to ask for epsilon, or --epsilon to ask for delta; got both."
        )
    deltas = options.delta or _planned(run)
    if options.epsilon is None and not deltas:
        raise UsageError(
            "give --delta to ask for epsilon, or --epsilon to ask for delta; got neither."
        )
    guarantee = run.guarantee()
    if options.epsilon is not None:
        given = {"epsilon": options.epsilon}
        brackets = [guarantee.delta(epsilon=one) for one in options.epsilon]
    else:
        given = {"delta": deltas}
        brackets = [guarantee.epsilon(delta=one) for one in deltas]
    reply = answer(guarantee, brackets, given, brackets)
    if run.hash is not None:
        reply = Reply(reply.lines, {**reply.data, "plan": run.hash}, reply.view)
    return _drawn(reply, guarantee, options.output, "profile")


def _planned(run: Run) -> list[float]:
    """The deltas of a plan, those that plans have if it names none; none without a plan."""
    from sharpdp.plans import DELTAS

    return list(run.delta or (DELTAS if run.hash is not None else ()))


def _in_a_row(options: argparse.Namespace) -> Run:
    """Mechanisms and plans in a row; one plan alone is asked what it asks."""
    texts = [*([options.plan] if options.plan is not None else []), *options.mechanisms]
    if not texts:
        raise UsageError("name the mechanisms that are run, or a plan. See sharpdp compose --help.")
    if len(texts) == 1 and (options.plan is not None or is_plan(texts[0])):
        found = argparse.Namespace(file=texts[0])
        file = plan_of(found)
        assert file is not None
        return file.run(vars(options))
    return Run(sequence(texts), options.adjacency, options.relative_width)


def _attacked(options: argparse.Namespace) -> Run:
    """What is attacked: mechanisms, a training run, shuffled reports, or what a plan says."""
    if options.plan is not None or (options.mechanisms and is_plan(options.mechanisms[0])):
        if options.plan is None and len(options.mechanisms) == 1:
            options.file, options.mechanisms = options.mechanisms[0], []
        file = None if options.mechanisms else plan_of(options)
        if file is not None:
            return file.run(vars(options))
        return _in_a_row(options)
    trained = [word for word in TRAINING if getattr(options, word) is not None]
    reported = [word for word in REPORTS if getattr(options, word) is not None]
    ways = [bool(options.mechanisms), bool(trained), bool(reported)]
    if sum(ways) != 1:
        got = "several" if any(ways) else "none"
        raise UsageError(
            "give mechanisms, the options of a DP-SGD run or of shuffled reports, or a plan; "
            f"got {got}."
        )
    if options.mechanisms:
        return _in_a_row(options)
    described = training if trained else reports
    return Run(described(vars(options)), options.adjacency, options.relative_width)


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def _drawn(reply: Reply, guarantee: Guarantee, output: str | None, picture: str) -> Reply:
    """The reply with its picture saved, if one was asked for."""
    if output is None:
        return reply
    from sharpdp import plots

    plots.save(guarantee, output, draw=getattr(plots, picture))
    return reply.drawn(output)
