"""The command `renyi`: what every conversion makes of orders and values, as lines and as plain data."""

from __future__ import annotations

import argparse
import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from sharpdp.cli.parser import Misuse

__all__ = ["renyi"]

DIGITS = 6
"""Digits of a value, rounded up."""

SOURCES = {
    "optimal": "asoodeh2020 Theorem 3",
    "lemma1": "asoodeh2020 Lemma 1",
    "balle": "balle2020 Theorem 21 = canonne2020 Proposition 12",
    "classical": "mironov2017 Proposition 3, the moments accountant",
}
"""Who proved each conversion."""


def renyi(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """Epsilon at --delta, or delta at --epsilon, by every conversion: lines, and plain data."""
    if (options.delta is None) == (options.epsilon is None):
        got = "neither" if options.delta is None else "both"
        raise Misuse(f"give --delta to ask for epsilon, or --epsilon to ask for delta; got {got}.")
    from sharpdp import __version__
    from sharpdp.renyi import RenyiCurve, compare_conversions

    curve = RenyiCurve(orders=options.orders, values=options.values)
    found = compare_conversions(curve, delta=options.delta, epsilon=options.epsilon)
    quantity, given = ("epsilon", "delta") if options.delta is not None else ("delta", "epsilon")
    at = getattr(options, given)
    lines = [f"{quantity} at {given}={at:g} | {curve.describe()}, upper side only"]
    for name, (value, order) in found.items():
        lines.append(
            f"  {quantity} <= {_up(value):<9} {name:9}  order {order:<8.6g} ({SOURCES[name]})"
        )
    conversions = [
        {"name": name, "upper": _plain(value), "order": _plain(order), "source": SOURCES[name]}
        for name, (value, order) in found.items()
    ]
    best = {"upper": conversions[0]["upper"], "order": conversions[0]["order"]}
    data = {"quantity": quantity, given: at, "lower": None, **best, "rigor": "certified"}
    return lines, {**data, "conversions": conversions, "version": __version__}


def _up(value: float) -> str:
    """The value in a few digits, rounded up.

    >>> _up(1.41882154)
    '1.41883'
    """
    if math.isinf(value):
        return "inf"
    exact = Decimal(repr(value))
    return f"{float(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(exact)):g}"


def _plain(value: float) -> float | str:
    return str(value) if math.isinf(value) else value
