"""chua2024: every number of its text, and small deltas, with certified brackets beside them.

What dp-accounting says is recorded in peer.json (see `peer`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sharpdp as dp
from reproduce.chua2024.peer import DELTA_FIGURES, RECORD
from reproduce.chua2024.schemes import ours, sets_delta, sets_epsilon
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number

PEER: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
QUICK_TEXT = (2, 4)
"""Numbers of the text that are asked quickly."""

VISIBLE = 2e-9
"""Deltas below this are those that loss distributions on a grid do not see well."""


@dataclass(frozen=True)
class Quoted:
    """One number of the text: what it is about, what is published, and what is asked of sharpdp."""

    scheme: str
    noise: float
    steps: int
    given: str
    at: float
    published: str
    sense: str
    peer: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """The quantity in the letters of the paper."""
        letter = "ε" if self.given == "delta" else "δ"
        return f"{letter}_{self.scheme}({number(self.at)})"


TEXT = (
    Quoted("P", 0.4, 10**5, "delta", 1e-6, "3", "<=", "epsilon_P, 0.4, 1e5"),
    Quoted("S", 0.4, 10**5, "delta", 1e-6, "14.45", ">="),
    Quoted("P", 0.4, 10**4, "epsilon", 4.0, "1.18e-5", "<=", "delta_P(4), 0.4, 1e4"),
    Quoted("S", 0.4, 10**4, "epsilon", 4.0, "0.226", ">="),
    Quoted("D", 0.4, 10**4, "epsilon", 4.0, "0.244", "="),
    Quoted("S", 0.4, 10**4, "epsilon", 12.0, "7.5e-5", ">=", note="more than δ_D"),
    Quoted("P", 0.5, 10**4, "delta", 1e-6, "1.96", "<=", "epsilon_P, 0.5, 1e4"),
    Quoted("S", 0.5, 10**4, "delta", 1e-6, "10.994", ">="),
    Quoted("D", 0.5, 10**4, "delta", 1e-6, "10.997", "="),
    Quoted("P", 0.7, 1000, "delta", 1e-5, "0.61", "<=", "epsilon_P, 0.7, 1e3"),
    Quoted("S", 0.7, 1000, "delta", 1e-5, "6.528", ">="),
    Quoted("D", 0.7, 1000, "delta", 1e-5, "6.652", "="),
    Quoted("P", 0.8, 1000, "epsilon", 1.0, "9.873e-9", "<=", "delta_P(1), 0.8, 1e3"),
    Quoted("S", 0.8, 1000, "epsilon", 1.0, "0.018", ">="),
    Quoted("S", 0.8, 1000, "epsilon", 4.0, "1.6e-4", ">="),
    Quoted(
        "P", 1.0, 1000, "epsilon", 0.5, "2.06e-10", "<=", "delta_P(0.5), 1, 1e3", "published at 1"
    ),
    Quoted("S", 1.0, 1000, "epsilon", 0.5, "0.004", ">=", note="published at 1"),
    Quoted("S", 1.0, 1000, "epsilon", 4.0, "4.38e-7", ">="),
)
"""Every number of the text, in its order."""

DIVERGENCES = {
    "epsilon_P, 0.5, 1e4": "3.43",
    "epsilon_P, 0.7, 1e3": "1.64",
    "delta_P(1), 0.8, 1e3": "3.346e-5",
    "delta_P(0.5), 1, 1e3": "8.45e-5",
}
"""What is published for Renyi divergences."""


def by_sets(one: Quoted) -> float:
    """The paper's own lower bound, to more digits."""
    if one.given == "delta":
        return sets_epsilon(one.noise, one.steps, one.at)
    return sets_delta(one.noise, one.steps, one.at)


def verdict(one: Quoted, found: dp.Bracket) -> str:
    """Whether what is published is so."""
    value, low, high = float(one.published), float(found.lower), float(found.upper)
    if one.note:
        return one.note
    if one.sense == "=":
        last = 0.6 * 10.0 ** -len(one.published.partition(".")[2])
        return "yes" if low - last <= value <= high + last else "wrong"
    if one.sense == "<=":
        return "yes" if value >= high else "too small" if value < low else "open"
    if value > high:
        return "too large"
    return "yes" if value <= max(low, by_sets(one)) else "rounded up"


def number_of(place: int) -> dict[str, Any]:
    """One number of the text: by the paper's method, and certified."""
    one = TEXT[place]
    found = ours(one.scheme, one.noise, one.steps, one.given, one.at)
    return {
        "truth": [float(found.lower), float(found.upper)],
        "sets": by_sets(one) if one.scheme == "S" else None,
        "verdict": verdict(one, found),
    }


def text_values(size: str) -> list[list[Any]]:
    """All numbers of the text; quickly, three."""
    places = QUICK_TEXT if size == QUICK else range(len(TEXT))
    found = each(number_of, [(place,) for place in places])
    return [[place, one] for place, one in zip(places, found, strict=True)]


def text_tables(values: list[list[Any]]) -> list[Table]:
    """Published, by the paper's methods, certified."""
    rows = []
    for place, found in values:
        one, theirs = TEXT[place], "closed form"
        if one.peer:
            peer = PEER["quoted"][one.peer]
            theirs = f"PLD {number(peer['coarse'])} / {number(peer['fine'])}"
        elif one.scheme == "S":
            theirs = f"E_C {number(found['sets'])}"
        run = [one.name, number(one.noise), f"{one.steps:,}"]
        cells = [f"{one.sense} {one.published}", theirs, bracket(found["truth"])]
        rows.append([*run, *cells, found["verdict"]])
    headings = ("quantity", "σ", "T", "published", "published method", "truth", "matches?")
    orders = [
        [
            name.replace("epsilon", "ε").replace("delta", "δ"),
            published,
            number(PEER["quoted"][name]["rdp"], 4),
        ]
        for name, published in DIVERGENCES.items()
    ]
    return [
        Table("", headings, rows),
        Table(
            "By Rényi divergences", ("quantity, σ, T", "published", "dp-accounting 0.6.0"), orders
        ),
    ]


def small_delta(figure: str, epsilon: float) -> dict[str, Any]:
    """delta of Poisson batches at a point of a figure."""
    noise, steps, _ = DELTA_FIGURES[figure]
    found = ours("P", noise, steps, "epsilon", epsilon)
    return {"figure": figure, "at": epsilon, "truth": [float(found.lower), float(found.upper)]}


def small_values(size: str) -> list[dict[str, Any]]:
    """All points of Figures 3, 6 and 7; quickly, one."""
    places = [(name, x) for name in ("3", "6", "7") for x in PEER[name]["x"]]
    found = each(small_delta, [("7", 1.0)] if size == QUICK else places)
    return [one for one in found if one["truth"][1] < VISIBLE]


def small_tables(values: list[dict[str, Any]]) -> list[Table]:
    """The paper's accountant beside the truth."""
    rows = []
    for one in values:
        peer, (low, high) = PEER[one["figure"]], one["truth"]
        place = peer["x"].index(one["at"])
        grid, orders = peer["pld"][place], peer["rdp"][place]
        said = "below the truth" if grid < low else ""
        cells = [number(grid, 4), number(orders, 4), bracket([low, high], 5)]
        rows.append([one["figure"], number(one["at"]), *cells, f"{grid / high:.3g}", said])
    headings = ("Figure", "ε", "PLD", "RDP", "truth", "PLD / truth", "")
    return [Table("δ of Poisson batches", headings, rows)]
