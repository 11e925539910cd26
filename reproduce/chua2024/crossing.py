"""chua2024: Conjecture 4.4 scanned with certified brackets, and Section 4.3.1 in numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from reproduce.chua2024.schemes import ours, sets_delta
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number

RUNS = (
    (0.3, 10),
    (0.4, 100),
    (0.5, 10),
    (0.5, 1000),
    (0.7, 100),
    (1.0, 10),
    (1.0, 1000),
    (2.0, 10),
)
"""(noise multiplier, steps) at which deterministic and Poisson batches are compared."""

POINTS = 61
"""Epsilons of a scan."""

FARTHEST = 1e-250
"""A scan ends where delta of deterministic batches falls to about this."""

REMARK = ((0.4, 10_000, 4.0), (0.8, 1000, 1.0), (1.0, 1000, 1.0), (2.0, 1000, 0.5))
"""(noise multiplier, steps, epsilon) at which the others go to -L."""

REACHES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""The L of the other examples."""


def last_epsilon(noise: float) -> float:
    """About where delta of deterministic batches is `FARTHEST`: mu^2 / 2 + 33.5 mu."""
    return 0.5 / noise**2 + 33.5 / noise


def scan(noise: float, steps: int) -> dict[str, Any]:
    """Signs of delta_D - delta_P over epsilon: 1, -1, or 0 where the brackets overlap."""
    places = [float(x) for x in np.linspace(0.0, last_epsilon(noise), POINTS)]
    signs = []
    for epsilon in places:
        d, p = (ours(scheme, noise, steps, "epsilon", epsilon) for scheme in "DP")
        signs.append(1 if d.lower > p.upper else -1 if d.upper < p.lower else 0)
    return {"noise": noise, "steps": steps, "places": places, "signs": signs}


def scan_values(size: str) -> list[dict[str, Any]]:
    """All scans; quickly, the first."""
    return each(scan, RUNS[:1] if size == QUICK else RUNS)


def crossing(one: dict[str, Any]) -> tuple[int, list[float]]:
    """How often the decided signs change, and between which decided epsilons the first time."""
    decided = [(x, s) for x, s in zip(one["places"], one["signs"], strict=True) if s]
    changes = [(a[0], b[0]) for a, b in pairwise(decided) if a[1] != b[1]]
    return len(changes), list(changes[0]) if changes else [float("nan")] * 2


def scan_tables(values: list[dict[str, Any]]) -> list[Table]:
    """One row for each scan."""
    rows = []
    for one in values:
        changes, ends = crossing(one)
        counts = [str(one["signs"].count(sign)) for sign in (1, -1, 0)]
        where = bracket(ends, 4) if changes else "–"
        cells = [f"0 to {number(one['places'][-1], 4)}", *counts, str(changes), where]
        rows.append([number(one["noise"]), str(one["steps"]), *cells])
    headings = ("σ", "T", "ε", "δ_D larger", "δ_P larger", "undecided", "changes", "between")
    return [Table("", headings, rows)]


def far_others(noise: float, steps: int, epsilon: float) -> dict[str, Any]:
    """Hockey-stick divergences of shuffled batches whose other examples are at -L, from below."""
    d = ours("D", noise, steps, "epsilon", epsilon)
    return {
        "noise": noise,
        "steps": steps,
        "epsilon": epsilon,
        "lower": [sets_delta(noise, steps, epsilon, reach) for reach in REACHES],
        "deterministic": [d.lower, d.upper],
    }


def remark_values(size: str) -> list[dict[str, Any]]:
    """All rows; quickly, the first."""
    return each(far_others, REMARK[:1] if size == QUICK else REMARK)


def remark_tables(values: list[dict[str, Any]]) -> list[Table]:
    """One row for each setting."""
    rows = [
        [
            number(one["noise"]),
            str(one["steps"]),
            number(one["epsilon"]),
            *(number(lower, 4) for lower in one["lower"]),
            bracket(one["deterministic"], 4),
        ]
        for one in values
    ]
    headings = ("σ", "T", "ε", *(f"L = {reach:g}" for reach in REACHES), "δ_D")
    return [Table("", headings, rows)]
