"""One function per command: from the parsed command line to a reply, as lines and as plain data."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

from sharpdp.cli import conversions, mixtures, plans, schemes
from sharpdp.cli.completion import completion
from sharpdp.cli.notation import REPORTS, TRAINING, reports, sequence, training
from sharpdp.cli.notation import mechanism as written
from sharpdp.cli.parser import Misuse, nearest

if TYPE_CHECKING:
    from sharpdp.account import Guarantee
    from sharpdp.bracket import Bracket
    from sharpdp.mechanisms import Mechanism

__all__ = ["COMMANDS", "Reply"]

LINE = 100
"""Characters of a line of explanations; brackets are never broken."""

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1, 0.5)
"""Where the trade-off curve is answered if nothing else is asked."""

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

SMALLEST = ("noise_multiplier", "users", "population")
"""The unknowns that make things more private: the smallest one is looked for. Users who are drawn from
a population do not: each of them takes part more often."""

VARIED = ("local-epsilon", "users", "rounds", "population")
"""What the picture of a comparison can vary."""

DIGITS = 7
"""Digits of a calibrated value, far finer than its relative error of 1e-4."""

CALIBRATION_WIDTH = 4e-4
"""Relative width of the bracket that confirms a calibrated value."""


@dataclass(frozen=True)
class Reply:
    """What a command answers: lines for a reader, or data for a program."""

    lines: list[str]
    data: dict[str, Any]


Command = Callable[[argparse.Namespace], Reply]


def dpsgd(options: argparse.Namespace) -> Reply:
    """Epsilon or delta of a training run."""
    return _asked(_account(training(vars(options)), options), options)


def shuffle(options: argparse.Namespace) -> Reply:
    """Epsilon or delta of shuffled reports."""
    return _asked(_account(reports(vars(options)), options), options)


def compare(options: argparse.Namespace) -> Reply:
    """Every known bound in a table, and in a picture if one is asked for."""
    from sharpdp.compare import compare as compared

    run = _subject(options)
    if (options.delta is None) == (options.order is None):
        got = "neither" if options.delta is None else "both"
        raise Misuse(
            f"give --delta to compare epsilon, or --order to compare Renyi divergences; got {got}."
        )
    over = _varied(options)
    found = compared(run, delta=options.delta, order=options.order, adjacency=options.adjacency)
    reply = Reply(str(found).splitlines(), found.to_dict())
    if options.output is None:
        return reply
    from sharpdp import plots

    plots.save_comparison(run, options.output, over=over, delta=options.delta)
    return _with_picture(reply, options.output)


def compose(options: argparse.Namespace) -> Reply:
    """Epsilon or delta of mechanisms run one after the other."""
    return _asked(_account(sequence(options.mechanisms), options), options)


def tradeoff(options: argparse.Namespace) -> Reply:
    """The false-negative rate of the best attack at some false-positive rates, and its advantage."""
    from sharpdp.report import plain

    given = [word for word in TRAINING if getattr(options, word) is not None]
    if bool(options.mechanisms) == bool(given):
        got = "both" if given else "neither"
        raise Misuse(f"give mechanisms, or the options of a DP-SGD run; got {got}.")
    run = training(vars(options)) if given else sequence(options.mechanisms)
    guarantee = _account(run, options)
    rates = options.fpr or list(FALSE_POSITIVE_RATES)
    brackets = [guarantee.fnr(fpr=rate) for rate in rates]
    advantage = guarantee.advantage()
    reply = _reply(guarantee, [*brackets, advantage], {"fpr": rates}, brackets)
    data = {**reply.data, "advantage": plain(guarantee, advantage)}
    return _drawn(Reply(reply.lines, data), guarantee, options.output, "tradeoff")


def calibrate(options: argparse.Namespace) -> Reply:
    """The value of one unknown that meets a target, and the answer it gives."""
    from sharpdp.calibrate import calibrate as calibrated

    unknown = _unknown(options)
    words = ("epsilon", "delta", "advantage", "tpr", "fpr")
    target = {word: value for word in words if (value := getattr(options, word)) is not None}
    own, described = (REPORTS, reports) if unknown in REPORTS else (TRAINING, training)
    _refuse_others(options, own, options.unknown)

    def template(value: float) -> Mechanism:
        return described({**vars(options), unknown: value})

    # any unknown may be 1, or all users there are, so what is wrong now is something else
    template(max(2, options.users or 0) if unknown == "population" else 1)
    direction = UNKNOWNS[unknown]
    value = calibrated(template, **target, adjacency=options.adjacency, whole=direction is None)
    value, guarantee, bracket = _confirmed(template, value, direction, target, options.adjacency)
    drawn = unknown == "users" and options.population is not None
    side = "smallest" if unknown in SMALLEST and not drawn else "largest"
    count = "" if direction is None else " up to 0.01 %"
    first = f"{unknown} = {value!r} (the {side} that meets the target{count})"
    reply = _reply(guarantee, [bracket], target, [bracket])
    data = {"unknown": unknown, "value": value, **reply.data}
    return Reply([first, *reply.lines], data)


def bounds(options: argparse.Namespace) -> Reply:
    """Every registered theorem."""
    from sharpdp import __version__
    from sharpdp.bounds import all_bounds

    lines, data = [], []
    for one in all_bounds():
        entry = {
            "name": one.name,
            "bounds": one.subject,
            "sides": [str(side) for side in one.sides],
            "rigor": str(one.rigor),
            "adjacency": [str(notion) for notion in one.adjacency],
            "holds_when": one.holds_when,
            "source": one.source,
        }
        data.append(entry)
        sides = " and ".join(entry["sides"])
        lines.append(f"{one.name}: {one.subject}, {sides} side, {one.rigor}")
        lines += _wrapped("neighbours: ", ", ".join(entry["adjacency"]))
        lines += _wrapped("holds when: ", one.holds_when)
        lines += _wrapped("source: ", one.source)
    return Reply(lines, {"bounds": data, "version": __version__})


def _of(words: Callable[[argparse.Namespace], tuple[list[str], dict[str, Any]]]) -> Command:
    """A command that lives in a module of its own."""
    return lambda options: Reply(*words(options))


COMMANDS: dict[str, Command] = {
    "account": _of(plans.account),
    "bounds": bounds,
    "calibrate": calibrate,
    "cite": _of(plans.cite),
    "compare": compare,
    "completion": _of(completion),
    "compose": compose,
    "dpsgd": dpsgd,
    "mixture": _of(mixtures.mixture),
    "renyi": _of(conversions.renyi),
    "report": _of(plans.report),
    "samplers": _of(schemes.samplers),
    "sampled-shuffle": shuffle,
    "shuffle": shuffle,
    "tradeoff": tradeoff,
}
"""The function of each command."""


def _account(run: Mechanism, options: argparse.Namespace) -> Guarantee:
    from sharpdp.account import account

    width = {} if options.relative_width is None else {"relative_width": options.relative_width}
    return account(run, adjacency=options.adjacency, **width)


def _asked(guarantee: Guarantee, options: argparse.Namespace) -> Reply:
    """The answer to --delta or --epsilon, whichever was given."""
    if (options.delta is None) == (options.epsilon is None):
        got = "neither" if options.delta is None else "both"
        raise Misuse(f"give --delta to ask for epsilon, or --epsilon to ask for delta; got {got}.")
    if options.delta is not None:
        given = {"delta": options.delta}
        brackets = [guarantee.epsilon(delta=one) for one in options.delta]
    else:
        given = {"epsilon": options.epsilon}
        brackets = [guarantee.delta(epsilon=one) for one in options.epsilon]
    reply = _reply(guarantee, brackets, given, brackets)
    return _drawn(reply, guarantee, options.output, "profile")


def _reply(
    guarantee: Guarantee,
    shown: list[Bracket],
    given: dict[str, Any],
    brackets: list[Bracket],
) -> Reply:
    """Brackets with what they rest on; one question gives scalars, several give lists."""
    from sharpdp.report import line, neighbours, plain, theorems

    lines = [line(guarantee, one) for one in shown]
    lines += _wrapped("run: ", guarantee.mechanism.describe())
    sentence = neighbours(guarantee.adjacency)
    lines += _wrapped("", sentence[0].lower() + sentence[1:])
    for one in guarantee.bounds:
        lines += _wrapped("holds when: ", f"{one.holds_when} ({one.name}: {one.source})")
    entries = [plain(guarantee, one) for one in brackets]
    answer = {key: [entry[key] for entry in entries] for key in ("lower", "upper")}
    data = {"quantity": brackets[0].quantity, **given, **answer}
    if len(brackets) == 1:
        data = {key: _only(value) for key, value in data.items()}
    return Reply(lines, {**data, "rigor": entries[0]["rigor"], **theorems(guarantee)})


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def _wrapped(title: str, text: str) -> list[str]:
    return textwrap.wrap(
        title + text,
        LINE,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )


def _drawn(reply: Reply, guarantee: Guarantee, output: str | None, picture: str) -> Reply:
    """The reply with its picture saved, if one was asked for."""
    if output is None:
        return reply
    from sharpdp import plots

    plots.save(guarantee, output, draw=getattr(plots, picture))
    return _with_picture(reply, output)


def _with_picture(reply: Reply, output: str) -> Reply:
    return Reply([*reply.lines, f"drawn: {output}"], {**reply.data, "drawn": output})


def _subject(options: argparse.Namespace) -> Mechanism:
    """What is compared: shuffle or dpsgd with its options, or a mechanism in quotes without any."""
    name = options.mechanism
    own = {"shuffle": REPORTS, "dpsgd": TRAINING}.get(name, ())
    run = None if own else written(name)
    _refuse_others(options, own, name)
    if run is not None:
        return run
    return reports(vars(options)) if name == "shuffle" else training(vars(options))


def _refuse_others(options: argparse.Namespace, own: tuple[str, ...], name: str) -> None:
    """Refuse an option that describes another kind of run."""
    for word in (*REPORTS, *TRAINING):
        if word not in own and getattr(options, word) is not None:
            raise Misuse(f"--{word.replace('_', '-')} does not go with {name!r}; leave it out.")


def _varied(options: argparse.Namespace) -> str:
    """What the picture of a comparison varies, in the words of the API."""
    if options.output is None:
        if options.over is not None:
            raise Misuse("--over says what a picture varies; give --output as well.")
    elif options.delta is None:
        raise Misuse("a picture shows epsilon; give --delta.")
    over = options.over or VARIED[0]
    if over not in VARIED:
        meant = nearest(over, VARIED)
        ask = f" Did you mean {meant}?" if meant else ""
        raise Misuse(f"--over must be {', '.join(VARIED)}; got {over!r}.{ask}")
    return str(over).replace("-", "_")


def _unknown(options: argparse.Namespace) -> str:
    """The unknown in the words of the API, which must not be given as well."""
    unknown = str(options.unknown).replace("-", "_")
    if unknown not in UNKNOWNS:
        known = [word.replace("_", "-") for word in UNKNOWNS]
        meant = nearest(options.unknown, known)
        ask = f"Did you mean {meant}?" if meant else f"There are: {', '.join(known)}."
        raise Misuse(f"{options.unknown!r} cannot be calibrated. {ask}")
    if getattr(options, unknown) is not None:
        flag = f"--{unknown.replace('_', '-')}"
        raise Misuse(f"{options.unknown} is what is looked for; leave {flag} out.")
    return unknown


def _confirmed(
    template: Callable[[float], Mechanism],
    value: float,
    direction: str | None,
    target: dict[str, float],
    adjacency: str | None,
) -> tuple[float, Guarantee, Bracket]:
    """The value in few digits if it still meets the target, with the bracket that shows it."""
    from sharpdp.account import account

    few = value
    if direction is not None:
        few = float(Context(prec=DIGITS, rounding=direction).create_decimal(Decimal(repr(value))))
    for candidate in dict.fromkeys((few, value)):
        guarantee = account(
            template(candidate), relative_width=CALIBRATION_WIDTH, adjacency=adjacency
        )
        bracket, most = _against(guarantee, target)
        if float(bracket) <= most:
            break
    return candidate, guarantee, bracket


def _against(guarantee: Guarantee, target: dict[str, float]) -> tuple[Bracket, float]:
    """The quantity that a target limits, and the limit."""
    if "advantage" in target:
        return guarantee.advantage(), target["advantage"]
    if "tpr" in target:
        return guarantee.tpr(fpr=target["fpr"]), target["tpr"]
    return guarantee.delta(epsilon=target["epsilon"]), target["delta"]
