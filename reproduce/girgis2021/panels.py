"""girgis2021, Figures 4 and 5: rounds of shuffled reports by users who are drawn from a population.

The truth for "users of a round share some local_epsilon-LDP randomizer" lies in sharpdp's bracket.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

import sharpdp as dp
from reproduce.drawing import BLUE, GRAY, GREEN, ORANGE, PURPLE, axes_of, band, finished, named
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.bounds.published import formulas_for
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import SampledReports

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = list[dict[str, Any]]

DELTA = 1e-8
CURVES = {  # name of a formula: what it is in the paper, color, line
    "clones_strong_composition_upper": ("clones + strong composition", PURPLE, "-"),
    "local_strong_composition_upper": ("local ε + strong composition", PURPLE, ":"),
    "amplified_moments_epsilon_upper": ("moments of 2021 + subsampling", GRAY, "-"),
    "sampled_moments_epsilon_upper": ("Theorem 1", ORANGE, "-"),
    "sampled_clones_moments_epsilon_upper": ("Theorem 1 without Chernoff", ORANGE, "--"),
    "response_moments_epsilon": ("Theorem 2, converted (no bound)", GREEN, ":"),
}
COUNT, STRIDE = 13, 4
"""Points of a panel, and from one row of the table to the next."""


@dataclass(frozen=True)
class Panel:
    """One panel: users drawn, local epsilon, population, rounds, and which of the last two varies."""

    name: str
    users: int
    local_epsilon: float
    population: int
    over: str
    low: float
    high: float

    @property
    def words(self) -> str:
        """The numbers that do not vary."""
        drawn = f"{_power(self.users)} drawn"
        if self.over == "population":
            return f"{drawn}, {_power(MANY)} rounds"
        return f"{drawn} of {_power(self.population)}"

    def places(self, count: int) -> list[int]:
        """The values, from low to high."""
        return [round(x) for x in np.geomspace(self.low, self.high, count)]


ROUNDS, PEOPLE = (1e2, 1e5), (1e5, 1e8)
PANELS = {
    "figure4": (
        Panel("a", 1000, 1.0, 10**6, "rounds", *ROUNDS),
        Panel("b", 10_000, 1.0, 10**7, "rounds", *ROUNDS),
        Panel("c", 10_000, 1.0, 10**6, "population", *PEOPLE),
    ),
    "figure5": (
        Panel("a", 1000, 3.0, 10**6, "rounds", *ROUNDS),
        Panel("b", 1000, 3.0, 10**7, "rounds", *ROUNDS),
        Panel("c", 1000, 3.0, 10**6, "population", *PEOPLE),
    ),
}
MANY = 10**5
"""Rounds of the panels over the population."""


def _power(value: int) -> str:
    """A power of ten as such."""
    return f"$10^{{{round(np.log10(value))}}}$"


def sampled(users: int, local_epsilon: float, population: int, rounds: int) -> dp.ShuffledReports:
    """Rounds of shuffled reports by users who are drawn from a population."""
    return dp.ShuffledReports(
        users=users, local_epsilon=local_epsilon, population=population, rounds=rounds
    )


def published(run: dp.ShuffledReports, delta: float, names: list[str]) -> dict[str, float]:
    """Formulas of the literature where they hold; not a number elsewhere."""
    one = run.parts()[0][0]
    assert isinstance(one, SampledReports)
    whole = replace(one, reports=replace(one.reports, rounds=run.rounds))
    found = {}
    for formula in formulas_for(whole, "epsilon"):
        if formula.name in names:
            try:
                found[formula.name] = formula(whole, delta)
            except Inapplicable:
                found[formula.name] = nan
    return found


def point(users: int, local: float, population: int, rounds: int) -> dict[str, Any]:
    """Every curve at one point, and the truth."""
    run = sampled(users, local, population, rounds)
    truth = dp.account(run).epsilon(delta=DELTA)
    return {**published(run, DELTA, list(CURVES)), "truth": [truth.lower, truth.upper]}


def values(figure: str, size: str) -> Values:
    """All panels of a figure; quickly, the ends of the first one."""
    panels, count = (PANELS[figure][:1], 2) if size == QUICK else (PANELS[figure], COUNT)
    found = []
    for one in panels:
        places = one.places(count)
        runs = [
            (one.population, place) if one.over == "rounds" else (place, MANY) for place in places
        ]
        points = each(point, [(one.users, one.local_epsilon, *run) for run in runs])
        found.append({"name": one.name, "over": one.over, "places": places, "points": points})
        found[-1]["words"] = one.words
    return found


def figure_4(size: str) -> Values:
    """Figure 4: local epsilon 1."""
    return values("figure4", size)


def figure_5(size: str) -> Values:
    """Figure 5: local epsilon 3."""
    return values("figure5", size)


def tables(panels: Values) -> list[Table]:
    """The curves at powers of ten."""
    rows = []
    for one in panels:
        stride = STRIDE if len(one["places"]) > STRIDE else 1
        for place, point in list(zip(one["places"], one["points"], strict=True))[::stride]:
            names = [
                "clones_strong_composition_upper",
                "amplified_moments_epsilon_upper",
                "response_moments_epsilon",
                "sampled_moments_epsilon_upper",
            ]
            cells = [number(point[name], 4) for name in names]
            ratio = point["sampled_moments_epsilon_upper"] / point["truth"][1]
            at = f"({one['name']}) {one['over']} {place:,}"
            rows.append([at, *cells, bracket(point["truth"], 4), f"{ratio:.1f}"])
    headings = ("panel", "clones", "2021 + subsampling", "Theorem 2", "Theorem 1", "truth")
    return [Table("", (*headings, "Theorem 1 / truth"), rows)]


def draw(canvas: Figure, panels: Values) -> None:
    """The paper's curves as lines, the truth as a band."""
    grid = axes_of(canvas, 1, len(panels), sharey=len(panels) > 1)
    for axes, one in zip(grid, panels, strict=True):
        places, points = one["places"], one["points"]
        for name, (words, color, line) in CURVES.items():
            heights = [point[name] for point in points]
            if any(isfinite(x) for x in heights):
                style: dict[str, Any] = {"color": color, "linestyle": line, "zorder": 3}
                axes.plot(places, heights, linewidth=1.3, label=words, **style)
        truth = [point["truth"] for point in points]
        band(axes, places, truth, "sharpdp, certified bracket", BLUE)
        axes.set(xscale="log", yscale="log", xlim=(places[0], places[-1]))
        axes.set_xlabel(one["over"])
        named(axes, f"({one['name']}) {one['words']}")
    grid[0].set_ylabel(f"ε at δ = {number(DELTA)}")
    finished(canvas, "What rounds of shuffled reports cost", grid[0])
