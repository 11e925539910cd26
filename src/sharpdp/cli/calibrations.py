"""The command `calibrate`: the value of one unknown that meets a target."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Any

from sharpdp.cli.comparisons import refuse_others
from sharpdp.cli.mechanism_syntax import reports, training
from sharpdp.cli.parser import UsageError, flag, quoted
from sharpdp.cli.privacy_questions import answer
from sharpdp.cli.run_spec import REPORTS, TRAINING, PlanFile, plan_of
from sharpdp.cli.views import Reply
from sharpdp.nearest_word import hint

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee
    from sharpdp.bracket import Bracket
    from sharpdp.mechanisms import Mechanism

__all__ = ["UNKNOWNS", "calibrate"]

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

TARGETS = ("epsilon", "delta", "advantage", "tpr", "fpr")
"""What a target consists of."""

DIGITS = 7
"""Digits of a calibrated value, far finer than its relative error of 1e-4."""

CALIBRATION_WIDTH = 4e-4
"""Relative width of the bracket that confirms a calibrated value."""

Template = Callable[[float], "Mechanism"]


def calibrate(options: argparse.Namespace) -> Reply:
    """The value of one unknown that meets a target, and the answer it gives."""
    from sharpdp.calibration import calibrate as calibrated

    unknown = _unknown(options)
    file = plan_of(options)
    target = {word: value for word in TARGETS if (value := getattr(options, word)) is not None}
    template = _described(options, unknown) if file is None else _planned(file, options, unknown)
    adjacency = options.adjacency
    if file is not None:
        adjacency = adjacency or file.data.get("adjacency")
        if "epsilon" in target and "delta" not in target and "delta" in file.data:
            target["delta"] = file.plan({}).delta[0]
    direction = UNKNOWNS[unknown]
    found = calibrated(template, **target, adjacency=adjacency, whole=direction is None)
    value, guarantee, bracket = _confirmed(template, found, direction, target, adjacency)
    drawn = unknown == "users" and getattr(template(value), "population", None) is not None
    side = "smallest" if unknown in SMALLEST and not drawn else "largest"
    count = "" if direction is None else " up to 0.01 %"
    first = f"{unknown} = {value!r} (the {side} whose upper bound meets the target{count})"
    reply = answer(guarantee, [bracket], target, [bracket])
    data = {"unknown": unknown, "value": value, **reply.data}
    view = reply.view and replace(reply.view, title=first)
    return Reply([first, *reply.lines], data, view)


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
        known = [word.replace("_", "-") for word in UNKNOWNS]
        ask = hint(options.unknown, known, f"There are: {', '.join(known)}.")
        raise UsageError(f"{quoted(options.unknown)} cannot be calibrated.{ask}")
    if getattr(options, unknown) is not None:
        raise UsageError(f"{options.unknown} is what is looked for; leave {flag(unknown)} out.")
    return unknown


def _confirmed(
    template: Template,
    value: float,
    direction: str | None,
    target: dict[str, float],
    adjacency: str | None,
) -> tuple[float, Guarantee, Bracket]:
    """The value in few digits if it still meets the target, with the bracket that shows it."""
    from sharpdp.accounting import account
    from sharpdp.bracket import rounded

    few = value
    if direction is not None:
        few = float(rounded(value, DIGITS, direction))
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
