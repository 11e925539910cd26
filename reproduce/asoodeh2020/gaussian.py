"""asoodeh2020, Figure 2 and the claims about rounds of Gaussian noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sharpdp as dp
from reproduce.cache import once
from reproduce.drawing import BLUE, GRAY, GREEN, ORANGE, axes_of, band, finished
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.bounds.given.renyi import (
    gaussian_lemma2_upper,
    gaussian_moments_upper,
    gaussian_optimal_upper,
    gaussian_rounds,
    smallest_noise,
)
from sharpdp.curves.renyi.conversion import epsilon_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

DELTA, SIGMA, MOST = 1e-5, 20.0, 1000
"""delta, noise and the most rounds of Figure 2."""

RHO = 0.5 / SIGMA**2
"""Divergence of one round over the order. The proof of Lemma 2 has twice as much."""

ROUNDS = (1, 10, 100, 500, 1000)
BUDGETS = (2.0, 4.0, 6.0, 8.0)
SMALL = (1.0, 0.1, 0.01, 0.002, 0.001)
"""Epsilons at which Theorem 5 is asked."""

ORDERS, LARGEST = 4000, 1e5
"""Orders of the grid on which Lemma 2 is minimized, and the largest of them."""


def moments(rho: Array) -> Array:
    """The moments accountant (23) for a slope rho."""
    return np.asarray(rho + 2.0 * np.sqrt(rho * math.log(1.0 / DELTA)))


def balle(rho: Array, largest_order: float = LARGEST) -> Array:
    """Lemma 2 for a slope rho, on a fine grid of orders up to the largest one."""
    orders = 1.0 + np.geomspace(0.05, largest_order - 1.0, ORDERS)
    return np.array([np.min(epsilon_from(orders, orders * r, DELTA, "lemma1")) for r in rho])


def after(rounds: int) -> dict[str, Any]:
    """Epsilon after so many rounds, by every method."""
    whole = dp.Gaussian(SIGMA / math.sqrt(rounds))
    exact = dp.account(dp.Gaussian(SIGMA) * rounds).epsilon(delta=DELTA)
    formulas = (gaussian_moments_upper, gaussian_lemma2_upper, gaussian_optimal_upper)
    return {
        "rounds": rounds,
        "methods": [one(whole, DELTA) for one in formulas],
        "truth": [exact.lower, exact.upper],
    }


def curves(count: int) -> dict[str, Any]:
    """Figure 2 as it is drawn, and the largest gap over all rounds."""
    every = np.arange(1, MOST + 1, dtype=np.float64)
    gaps = moments(every * RHO) - balle(every * RHO)
    rounds = np.unique(np.geomspace(1, MOST, count).round()).astype(int)
    exact = [dp.account(dp.Gaussian(SIGMA) * int(t)).epsilon(delta=DELTA) for t in rounds]
    return {
        "rounds": rounds.tolist(),
        "moments": moments(rounds * RHO).tolist(),
        "balle": balle(rounds * RHO).tolist(),
        "truth": [[one.lower, one.upper] for one in exact],
        "gap": float(gaps.max()),
        "at": int(every[np.argmax(gaps)]),
    }


def figure_values(size: str) -> dict[str, Any]:
    """Figure 2."""
    return {
        "after": each(after, [(one,) for one in (ROUNDS[::4] if size == QUICK else ROUNDS)]),
        "curves": once(curves, 20 if size == QUICK else 80),
    }


def figure_tables(values: dict[str, Any]) -> list[Table]:
    """Every method at some rounds, and the claim about the gap."""
    rows = []
    for one in values["after"]:
        cells = [number(x, 6) for x in one["methods"]]
        rows.append([f"{one['rounds']}", *cells, bracket(one["truth"], 6)])
    known = values["curves"]
    claim = [
        "largest gain of Lemma 2, T <= 1000",
        "0.75",
        f"{known['gap']:.4f} at T = {known['at']}",
    ]
    return [
        Table("ε at δ = 1e-5, σ = 20", ("T", "MA (23)", "Lemma 2", "Theorem 3", "truth"), rows),
        Table("The claim", ("", "published", "by the published method"), [claim]),
    ]


def draw(canvas: Figure, values: dict[str, Any]) -> None:
    """Three curves over the rounds."""
    (axes,) = axes_of(canvas)
    known = values["curves"]
    rounds = known["rounds"]
    axes.plot(rounds, known["moments"], color=ORANGE, label="moments accountant (23)")
    axes.plot(rounds, known["balle"], color=GREEN, label="Lemma 2")
    band(axes, rounds, known["truth"], "sharpdp, certified bracket", BLUE)
    axes.axhline(6.0, color=GRAY, linewidth=0.8, dashes=(2, 2))
    axes.annotate("ε = 6: 501, 603 and 685 rounds", (20, 6.1), fontsize=8.5, color=GRAY)
    axes.set(xlabel="rounds", ylabel=f"ε at δ = {number(DELTA)}", xlim=(0, MOST), ylim=(0, None))
    finished(canvas, "Rounds of Gaussian noise, σ = 20", axes, ncols=3)


def allowed(epsilon: float) -> list[int]:
    """Rounds that the moments accountant, Lemma 2, and the truth allow."""
    target = {"noise_multiplier": SIGMA, "epsilon": epsilon, "delta": DELTA}
    ways = [gaussian_rounds(**target, conversion=way) for way in ("classical", "lemma1")]
    exact = dp.calibrate(lambda t: dp.Gaussian(SIGMA) * t, epsilon=epsilon, delta=DELTA)
    return [*ways, int(exact)]


def rounds_values(size: str) -> list[list[Any]]:
    """Question Two; quickly, at epsilon 6."""
    budgets = BUDGETS[2:3] if size == QUICK else BUDGETS
    found = each(allowed, [(one,) for one in budgets])
    return [[epsilon, *counts] for epsilon, counts in zip(budgets, found, strict=True)]


def rounds_tables(values: list[list[Any]]) -> list[Table]:
    """What is published is about epsilon 6."""
    rows = [
        [
            number(epsilon),
            "+100" if epsilon >= 6.0 else "–",
            f"+{lemma - old}",
            f"{old}",
            f"{lemma}",
            f"{exact}",
        ]
        for epsilon, old, lemma, exact in values
    ]
    headings = ("ε", "gain published", "gain", "MA", "Lemma 2", "truth")
    return [Table("Rounds allowed at δ = 1e-5", headings, rows)]


def variances(epsilon: float) -> list[float]:
    """The variance for one round: Theorem 5 by three and four terms, equation (79), the exact one."""
    equation = smallest_noise(rounds=1, epsilon=epsilon, delta=DELTA, conversion="balle") ** 2
    exact = dp.calibrate(dp.Gaussian, epsilon=epsilon, delta=DELTA) ** 2
    three = three_terms(epsilon, DELTA)
    return [three, three + fourth_term(epsilon, DELTA), equation, exact]


def three_terms(epsilon: float, delta: float) -> float:
    """Theorem 5 for one round without its O()."""
    odds = math.log(1.0 / delta)
    value = 2 * odds / epsilon**2 + 1 / epsilon
    return value - 2 / epsilon**2 * (math.log(2 * odds) + 1 - math.log(epsilon))


def fourth_term(epsilon: float, delta: float) -> float:
    """The next term of its expansion, as (82) prints it."""
    odds = math.log(1.0 / delta)
    far = math.log(2 * odds / epsilon)
    inner = 4 * far**2 - 6 * epsilon * far + 8 * far + 2 * epsilon**2 - 5 * epsilon + 4
    return inner / (2 * epsilon**2 * odds)


def variance_values(size: str) -> list[list[float]]:
    """Theorem 5; quickly, at two epsilons."""
    some = SMALL[::4] if size == QUICK else SMALL
    found = each(variances, [(one,) for one in some])
    return [[epsilon, *known] for epsilon, known in zip(some, found, strict=True)]


def variance_tables(values: list[list[float]]) -> list[Table]:
    """Theorem 5 beside the need."""
    rows = [
        [
            number(epsilon),
            number(three),
            number(four),
            number(equation),
            number(exact),
            f"{three / exact:.3f}",
            f"{four / exact:.3f}",
        ]
        for epsilon, three, four, equation, exact in values
    ]
    headings = (
        "ε",
        "three terms",
        "with the fourth of (82)",
        "equation (79)",
        "truth <=",
        "three / truth",
        "four / truth",
    )
    return [Table("σ² that one round needs at δ = 1e-5", headings, rows)]


def savings(epsilon: float, delta: float) -> dict[str, float]:
    """The variance for one round by (28) and what it expands; the saving that is claimed, and others."""
    odds = math.log(1.0 / delta)
    target = {"rounds": 1, "epsilon": epsilon, "delta": delta}
    classical, optimal = (
        smallest_noise(**target, conversion=way) ** 2  # type: ignore[arg-type]
        for way in ("classical", "optimal")
    )
    return {
        "epsilon": epsilon,
        "delta": delta,
        "expansion": 2.0 * odds / epsilon**2 + 1.0 / epsilon,
        "classical": classical,
        "claimed": 2.0 / epsilon**2 * (math.log(2.0 * odds) + 1.0 - math.log(epsilon)),
        "optimal": classical - optimal,
        "exact": classical - dp.calibrate(dp.Gaussian, epsilon=epsilon, delta=delta) ** 2,
    }


def saving_values(size: str) -> list[dict[str, float]]:
    """Equation (28); quickly, at one place."""
    places = [(epsilon, delta) for delta in (1e-5, 1e-10) for epsilon in (4.0, 1.0, 0.1, 0.01)]
    return each(savings, places[:1] if size == QUICK else places)


def saving_tables(values: list[dict[str, float]]) -> list[Table]:
    """The variance and the savings."""
    keys = ("expansion", "classical", "claimed", "optimal", "exact")
    rows = [
        [
            number(one["delta"]),
            number(one["epsilon"]),
            *(number(one[key]) for key in keys),
            f"{one['claimed'] / one['classical']:.3f}",
            f"{one['optimal'] / one['classical']:.3f}",
            f"{one['exact'] / one['classical']:.3f}",
        ]
        for one in values
    ]
    headings = (
        "δ",
        "ε",
        "(28)",
        "MA",
        "saving claimed",
        "Theorem 3",
        "truth",
        "claimed / MA",
        "Theorem 3 / MA",
        "truth / MA",
    )
    return [Table("σ² for one round: by the moments accountant, and what is saved", headings, rows)]
