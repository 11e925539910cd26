"""chen2024, Table 1 and Figures 2 and 3: bounds on the Renyi divergence of shuffled reports.

The truth for the paper's setting, randomizers chosen by place in a random order, is at most the pair with
clone rate 1/E; for one shared randomizer at most that with rate 2/(E + 1); and at least what randomized
response attains.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np

import sharpdp as dp
from reproduce.drawing import BLUE, GRAY, GREEN, ORANGE, PURPLE, axes_of, band, finished
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.bounds.shuffle_model.published.renyi import (
    binary_moments_lower,
    corrected_limit_renyi,
    gaussian_limit_renyi,
    moments_upper,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = list[dict[str, Any]]

USERS = 10_000
FIGURE_2_ORDER, FIGURE_2_LOCALS = 4, (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 3.5, 4.0)
FIGURE_3_LOCAL, FIGURE_3_ORDERS = 2.0, (2, 4, 6, 8, 12, 16, 20)
UNSAFE = ((100, 4.0, 2), (1000, 4.0, 16), (1000, 3.0, 32))
"""(users, local epsilon, order) at which Corollary 2 is below what binary response attains."""

ORDERS_OF = {  # rows of Table 1: the exponent of E, and the constant that is published
    "Erlingsson et al. 2019": (6.0, 1.0),
    "Girgis et al. 2021": (2.0, 1.0),
    "Feldman et al. 2022, 2023": (1.0, 64.0),
    "this work": (1.0, 2.0),
    "lower bound": (1.0, 1.0),
}
TABLE_LOCALS = (0.5, 1.0, 2.0, 4.0)


def published_moments(users: int, local: float, order: int) -> float:
    """(5) as published, with (local_epsilon - 1)^2 where (e^local_epsilon - 1)^2 is meant."""
    blanket = int((users - 1) / (2.0 * exp(local))) + 1
    terms = (
        order**2 * (local - 1.0) ** 2 / blanket,
        local * order - (users - 1) / (8.0 * exp(local)),
    )
    return float(np.logaddexp(*terms)) / (order - 1)


def point(users: int, local: float, order: int) -> dict[str, Any]:
    """Every curve at one point."""
    shared = dp.ShuffledReports(users=users, local_epsilon=local)
    placed = dp.ShuffledReports(users=users, local_epsilon=local, randomizer="individual")
    truth, by_place = (dp.account(run).renyi(order=order) for run in (shared, placed))
    return {
        "local": local,
        "order": order,
        "limit": gaussian_limit_renyi(shared, order),
        "corrected": corrected_limit_renyi(placed, order),
        "upper": moments_upper(shared, order),
        "upper published": published_moments(users, local, order),
        "lower": binary_moments_lower(shared, order),
        "shared": [truth.lower, truth.upper],
        "placed": [by_place.lower, by_place.upper],
    }


def figure_2(size: str) -> Values:
    """Figure 2: against the local epsilon, order 4; quickly, at two of them."""
    some = FIGURE_2_LOCALS[1:5:3] if size == QUICK else FIGURE_2_LOCALS
    return each(point, [(USERS, local, FIGURE_2_ORDER) for local in some])


def figure_3(size: str) -> Values:
    """Figure 3: against the order, local epsilon 2; quickly, at two of them."""
    some = FIGURE_3_ORDERS[::3][:2] if size == QUICK else FIGURE_3_ORDERS
    return each(point, [(USERS, FIGURE_3_LOCAL, order) for order in some])


def _tables(name: str, key: str, values: Values) -> list[Table]:
    columns = {"limit": "Corollary 2", "corrected": "corrected limit", "lower": "lower (6)"}
    rows = []
    for one in values:
        cells = [number(one[column], 4) for column in columns]
        cells += [bracket(one[side], 4) for side in ("placed", "shared")]
        rows.append([number(one[key]), *cells])
    upper = [
        [number(one[key]), number(one["upper published"], 4), number(one["upper"], 4)]
        for one in values
    ]
    truth = ("truth, by place", "truth, shared")
    return [
        Table("Rényi divergence", (name, *columns.values(), *truth), rows),
        Table("The upper bound (5)", (name, "as published", "with (e^ε₀ - 1)²"), upper),
    ]


def figure_2_tables(values: Values) -> list[Table]:
    """By local epsilon."""
    return _tables("ε₀", "local", values)


def figure_3_tables(values: Values) -> list[Table]:
    """By order."""
    return _tables("order", "order", values)


def _draw(canvas: Figure, name: str, key: str, values: Values) -> None:
    """All curves of a figure, logarithmic."""
    (axes,) = axes_of(canvas)
    across = [one[key] for one in values]
    style: dict[str, Any] = {"linewidth": 1.2, "markersize": 4.0}
    lines = {
        "upper": ("upper bound (5), corrected", PURPLE, "D-"),
        "limit": ("chen2024, Corollary 2 (an estimate)", ORANGE, "s:"),
        "lower": ("lower bound (6)", GRAY, "v--"),
    }
    for curve, (label, color, line) in lines.items():
        axes.plot(across, [one[curve] for one in values], line, color=color, label=label, **style)
    placed = [one["placed"] for one in values]
    band(axes, across, placed, "sharpdp, randomizers by place (certified)", GREEN)
    shared = [one["shared"] for one in values]
    band(axes, across, shared, "sharpdp, one shared randomizer (certified)", BLUE)
    axes.set(yscale="log", xlabel=name, ylabel="Rényi divergence")
    axes.set_xticks(across)
    finished(canvas, "How fast does information leak?", axes)


def draw_2(canvas: Figure, values: Values) -> None:
    """Figure 2."""
    _draw(canvas, f"local ε ({USERS} users, order {FIGURE_2_ORDER})", "local", values)


def draw_3(canvas: Figure, values: Values) -> None:
    """Figure 3."""
    _draw(canvas, f"order ({USERS} users, local ε = {FIGURE_3_LOCAL:g})", "order", values)


def unsafe(users: int, local: float, order: int) -> dict[str, Any]:
    """Corollary 2 where it is no bound."""
    run = dp.ShuffledReports(users=users, local_epsilon=local)
    truth = dp.account(run).renyi(order=order)
    agree = order * local - (users - 1) * log(1.0 + exp(-local)) - log(1.0 + exp(local))
    return {
        "place": [users, local, order],
        "limit": gaussian_limit_renyi(run, order),
        "agree": agree / (order - 1),
        "truth": [truth.lower, truth.upper],
    }


def unsafe_values(size: str) -> Values:
    """Three places; quickly, the first."""
    return each(unsafe, UNSAFE[:1] if size == QUICK else UNSAFE)


def unsafe_tables(values: Values) -> list[Table]:
    """Corollary 2, a bound in one line, and the truth."""
    rows = [
        [
            *(number(x) for x in one["place"]),
            *(number(one[name], 6) for name in ("limit", "agree")),
            bracket(one["truth"], 6),
        ]
        for one in values
    ]
    headings = ("users", "ε₀", "order", "Corollary 2", "all reports agree", "truth")
    return [Table("Rényi divergence", headings, rows)]


def orders_values(size: str) -> Values:
    """Table 1 in numbers, order 4; quickly, at one local epsilon."""
    some = TABLE_LOCALS[2:3] if size == QUICK else TABLE_LOCALS
    return each(point, [(USERS, local, FIGURE_2_ORDER) for local in some])


def orders_tables(values: Values) -> list[Table]:
    """A row for each row of Table 1, and the truth."""
    rows = [
        [name]
        + [number(constant * exp(power * one["local"]) * one["order"] / USERS, 3) for one in values]
        for name, (power, constant) in ORDERS_OF.items()
    ]
    for side, name in (("placed", "truth, by place"), ("shared", "truth, shared")):
        rows.append([name, *(bracket(one[side], 3) for one in values)])
    return [Table("", ("", *(f"ε₀ = {one['local']:g}" for one in values)), rows)]


RATE_USERS, RATE_LOCALS, RATE_ORDER = (100, 300, 1000, 3000), (0.5, 2.0), 4
"""At which the limit is compared with the divergence of the pair itself."""

TAIL = 1e-20
"""Mass of the clones that a plain sum leaves out on each side."""


def pair_renyi(users: int, local: float, order: int) -> float:
    """The divergence of the pair of Proposition 1, rate 1/E, by plain sums over the clones."""
    from scipy.stats import binom

    clones = binom(users - 1, exp(-local))
    share, total = exp(local) / (exp(local) + 1.0), 0.0
    for count in range(int(clones.ppf(TAIL)), int(clones.isf(TAIL)) + 1):
        width = 5.0 * count**0.5 + 10.0  # ten standard deviations
        first, last = max(int(0.5 * count - width), 0), min(int(0.5 * count + width), count + 1)
        around = binom.pmf(np.arange(first - 1.0, last + 1.0), count, 0.5)
        before, after = around[:-1], around[1:]
        p, q = share * before + (1.0 - share) * after, (1.0 - share) * before + share * after
        # p = q + t: the first powers of t sum to zero, and leave the rest to be added without loss
        ratio = np.divide(p - q, q, out=np.zeros_like(p), where=q > 0.0)
        excess = q * ((1.0 + ratio) ** order - 1.0 - order * ratio)
        total += float(clones.pmf(count)) * float(excess.sum())
    return float(np.log1p(total)) / (order - 1)


def rate_of_limit(users: int, local: float) -> dict[str, float]:
    """How far the limits are from the pair."""
    run = dp.ShuffledReports(users=users, local_epsilon=local, randomizer="individual")
    return {
        "users": users,
        "local": local,
        "pair": pair_renyi(users, local, RATE_ORDER),
        "corrected": corrected_limit_renyi(run, RATE_ORDER),
        "limit": gaussian_limit_renyi(run, RATE_ORDER),
    }


def rate_values(size: str) -> Any:
    """Both local epsilons at all numbers of users; quickly, at two."""
    some = RATE_USERS[:2] if size == QUICK else RATE_USERS
    return each(rate_of_limit, [(users, local) for local in RATE_LOCALS for users in some])


def rate_tables(values: Values) -> list[Table]:
    """Relative errors, and n times them."""
    rows = []
    for one in values:
        error = one["corrected"] / one["pair"] - 1.0
        cells = [number(one["local"]), f"{one['users']}", number(one["pair"], 6)]
        cells += [f"{error:.2e}", f"{one['users'] * error:.2f}"]
        rows.append([*cells, f"{one['limit'] / one['pair'] - 1.0:.3f}"])
    headings = ("ε₀", "n", "the pair", "corrected limit, error", "n times it", "Theorem 2, error")
    return [Table(f"Rényi divergence of order {RATE_ORDER}, relative errors", headings, rows)]
