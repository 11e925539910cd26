"""The command `renyi`: what every conversion makes of orders and values, as lines and as plain data."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from sharpdp.cli import tables
from sharpdp.cli.parser import UsageError
from sharpdp.cli.run_spec import plan_of
from sharpdp.cli.safe_digits import up
from sharpdp.cli.views import Reply

if TYPE_CHECKING:
    from sharpdp.renyi import RenyiCurve

__all__ = ["renyi"]

SOURCES = {
    "optimal": "asoodeh2020 Theorem 3",
    "lemma1": "asoodeh2020 Lemma 1",
    "balle": "balle2020 Theorem 21 = canonne2020 Proposition 12",
    "classical": "mironov2017 Proposition 3, the moments accountant",
}
"""Who proved each conversion."""


def renyi(options: argparse.Namespace) -> Reply:
    """Epsilon at --delta, or delta at --epsilon, by every conversion."""
    from sharpdp import __version__
    from sharpdp.renyi import compare_conversions

    curve, planned = _curve(options)
    delta = options.delta
    if delta is None and options.epsilon is None and planned:
        delta = planned[0]
    if (delta is None) == (options.epsilon is None):
        got = "neither" if delta is None else "both"
        raise UsageError(
            f"give --delta to ask for epsilon, or --epsilon to ask for delta; got {got}."
        )
    found = compare_conversions(curve, delta=delta, epsilon=options.epsilon)
    quantity, given = ("epsilon", "delta") if delta is not None else ("delta", "epsilon")
    at = delta if delta is not None else options.epsilon
    head = f"{quantity} at {given}={at:g}"
    lines = [f"{head} | {curve.describe()}, upper side only"]
    rows = [
        (up(value), name, f"{order:.6g}", SOURCES[name]) for name, (value, order) in found.items()
    ]
    lines += [
        f"  {quantity} <= {most:<9} {name:9}  order {order:<8} ({source})"
        for most, name, order, source in rows
    ]
    conversions = [
        {"name": name, "upper": _plain(value), "order": _plain(order), "source": SOURCES[name]}
        for name, (value, order) in found.items()
    ]
    best = {"upper": conversions[0]["upper"], "order": conversions[0]["order"]}
    data = {"quantity": quantity, given: at, "lower": None, **best, "rigor": "certified"}
    view = tables.conversions(head, curve.describe(), rows, [value for value, _ in found.values()])
    return Reply(lines, {**data, "conversions": conversions, "version": __version__}, view)


def _curve(options: argparse.Namespace) -> tuple[RenyiCurve, tuple[float, ...]]:
    """The divergences, by options or by a plan, and the deltas that the plan asks for."""
    from sharpdp.renyi import RenyiCurve

    file = plan_of(options)
    listed = [word for word in ("orders", "values") if getattr(options, word) is not None]
    if file is None:
        if len(listed) < len(("orders", "values")):
            raise UsageError("give --orders and --values, one value at each order, or a plan.")
        return RenyiCurve(orders=options.orders, values=options.values), ()
    if listed:
        raise UsageError(f"give --{listed[0]} or a plan; got both.")
    run = file.run({})
    if not isinstance(run.mechanism, RenyiCurve):
        raise UsageError(
            f"sharpdp renyi takes a plan that runs a RenyiCurve; {file.path} runs {file.kind}."
        )
    return run.mechanism, run.delta


def _plain(value: float) -> float | str:
    return str(value) if math.isinf(value) else value
