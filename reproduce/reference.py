"""The reference cases: sharpdp's brackets beside independent high-accuracy values.

The command fails if a bracket misses its value. The independent values were computed in ball
arithmetic by other code (tests/reference); the digits published here are the first ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sharpdp as dp
from reproduce.progress import each
from reproduce.sheets import QUICK, Item, Paper, Table, bracket

DIGITS = 12
"""Of the brackets: as many as the independent values have."""


@dataclass(frozen=True)
class Question:
    """One question, and the first digits of the independent value."""

    case: str
    text: str
    ask: Callable[[], dp.Bracket]
    published: str

    def holds(self, bracket: dp.Bracket) -> bool:
        """Whether the bracket meets the interval of values that begin with the published digits."""
        mantissa, _, exponent = self.published.partition("e")
        decimals = len(mantissa.partition(".")[2])
        unit = 10.0 ** (int(exponent or 0) - decimals)
        first = float(self.published)
        return bool(bracket.lower <= first + unit and bracket.upper >= first)


def poisson(sample_rate: float, noise_multiplier: float, steps: int) -> dp.DPSGD:
    """DP-SGD over Poisson batches."""
    plan = dp.PoissonBatches(sample_rate=sample_rate, steps=steps)
    return dp.DPSGD(plan, noise_multiplier=noise_multiplier)


def changing_steps() -> dp.Sequence:
    """Case (e): a hundred different steps, ten times each."""
    return dp.Sequence([poisson(0.005 + 0.0001 * i, 0.8 + 0.01 * i, 10) for i in range(100)])


def calibrated() -> dp.Bracket:
    """Case (f): the smallest noise, enclosed by the safe-side value and its tolerance."""
    upper = dp.calibrate(lambda unknown: poisson(0.01, unknown, 1000), epsilon=1.0, delta=1e-6)
    return dp.Bracket(upper * (1 - 1e-4), upper, quantity="noise_multiplier")


def questions() -> list[Question]:
    """Every question of the reference cases, each on a fresh answer."""
    a, b = poisson(1e-3, 0.8, 10**4), poisson(0.01, 1.0, 1000)
    c, h = poisson(1e-4, 0.6, 10**6), poisson(0.01, 0.3, 1000)
    d = dp.Gaussian(noise_multiplier=20.0) * 1000
    return [
        epsilon("a", a, 1e-6, "0.947195687270"),
        Question("a", "delta at 1", lambda: dp.account(a).delta(epsilon=1.0), "5.31959137797e-7"),
        epsilon("b", b, 1e-5, "1.82823666651"),
        epsilon("c", c, 1e-6, "1.92073743001"),
        epsilon("d", d, 1e-5, "7.51127590074"),
        epsilon("e", changing_steps(), 1e-5, "1.21324304877"),
        Question("f", "noise for 1, 1e-6", calibrated, "1.56266560144"),
        fnr("g", b, 10, "0.970836309061"),
        fnr("g", b, 100, "0.805643974089"),
        fnr("g", b, 500, "0.340958032569"),
        Question("g", "advantage", lambda: dp.account(b).advantage(), "0.161017619697"),
        epsilon("h", h, 1e-5, "69.8157107130"),
        epsilon("i", b, 1e-12, "3.91429815603"),
        epsilon("i", b, 1e-20, "6.36170020407"),
    ]


def epsilon(case: str, mechanism: dp.Mechanism, delta: float, published: str) -> Question:
    """Epsilon at one delta."""
    ask = lambda: dp.account(mechanism).epsilon(delta=delta)  # noqa: E731
    return Question(case, f"epsilon at {delta:g}", ask, published)


def fnr(case: str, mechanism: dp.Mechanism, alarms: int, published: str) -> Question:
    """The trade-off curve at alarms / 999."""
    ask = lambda: dp.account(mechanism).fnr(fpr=alarms / 999)  # noqa: E731
    return Question(case, f"trade-off at {alarms}/999", ask, published)


def asked(place: int) -> dict[str, Any]:
    """One question: the bracket, and whether it holds the independent value."""
    question = questions()[place]
    bracket = question.ask()
    return {
        "cells": [f"({question.case})", question.text, question.published],
        "ends": [float(bracket.lower), float(bracket.upper)],
        "holds": question.holds(bracket),
    }


def values(size: str) -> list[dict[str, Any]]:
    """All questions; quickly, every other one."""
    stride = 2 if size == QUICK else 1
    return each(asked, [(place,) for place in range(0, len(questions()), stride)])


def missed(known: list[dict[str, Any]]) -> bool:
    """Whether a bracket misses its value."""
    return not all(one["holds"] for one in known)


def tables(known: list[dict[str, Any]]) -> list[Table]:
    """A row for each question."""
    rows = []
    for one in known:
        low, high = one["ends"]
        width = f"{(high - low) / high:.1e}"
        said = "" if one["holds"] else "MISSED"
        rows.append([*one["cells"], bracket([low, high], DIGITS), width, said])
    return [Table("", ("case", "question", "independent", "sharpdp", "width", ""), rows)]


CASES = Item(
    "cases",
    "Reference cases",
    "Nine questions of DP-SGD and Gaussian noise, with values from ball arithmetic by other code.",
    values,
    tables,
)
PAPER = Paper("reference", "Brackets beside independent values", (), (CASES,))
