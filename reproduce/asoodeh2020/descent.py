"""asoodeh2020, Figure 3: noisy SGD, with and without the range of the lemma that it rests on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import sharpdp as dp
from reproduce.asoodeh2020.gaussian import DELTA, balle, moments
from reproduce.cache import once
from reproduce.drawing import BLUE, GREEN, ORANGE, PURPLE, axes_of, band, finished
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.bounds.given.renyi import sampled_gaussian_moments_upper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE, NOISE, STEPS = 0.001, 4.0, 1000
"""Sampling rate, noise and steps per epoch of Figure 3."""

RHO = RATE**2 / ((1.0 - RATE) * NOISE**2)
"""The slope that Figure 3 takes from abadi2016 Lemma 3."""

LARGEST_ORDER = math.floor(1.0 + NOISE**2 * math.log(1.0 / (RATE * NOISE)))
"""That lemma's largest order: 89."""

EPOCHS, MOST = (1, 25, 100, 400), 400
BUDGETS = (0.4, 0.6, 0.8, 1.0)
ORDERS = (89, 221, 222, 225, 305)
"""Orders about the one at which the slope fails."""


def exact_curve() -> dp.RenyiCurve:
    """The Renyi divergences of one sampled step, at whole orders."""
    one = dp.DPSGD(dp.PoissonBatches(sample_rate=RATE, steps=1), noise_multiplier=NOISE)
    orders = (*range(2, 306), *range(308, 512, 4))
    values = tuple(sampled_gaussian_moments_upper(one, order) for order in orders)
    return dp.RenyiCurve(orders=orders, values=values)


def divergences(orders: list[int]) -> list[float]:
    """Exact divergences of one step."""
    found: list[float] = np.asarray(exact_curve().renyi(order=orders).upper).tolist()
    return found


def curves(epochs: list[int]) -> dict[str, Any]:
    """Epsilon after some epochs, by every method."""
    step = exact_curve()
    rho = np.array(epochs) * STEPS * RHO
    truth, own = [], []
    for count in epochs:
        plan = dp.PoissonBatches(sample_rate=RATE, steps=count * STEPS)
        found = dp.account(dp.DPSGD(plan, noise_multiplier=NOISE)).epsilon(delta=DELTA)
        truth.append([found.lower, found.upper])
        own.append(float((step * (count * STEPS)).epsilon(delta=DELTA)))
    return {
        "epochs": epochs,
        "moments": moments(rho).tolist(),
        "lemma": balle(rho).tolist(),
        "capped": balle(rho, LARGEST_ORDER).tolist(),
        "own": own,
        "truth": truth,
    }


def extra(epsilon: float) -> list[int]:
    """Whole epochs that the moments accountant and Lemma 2 allow."""
    odds = math.log(1.0 / DELTA)
    most = math.floor((math.sqrt(odds + epsilon) - math.sqrt(odds)) ** 2 / (STEPS * RHO))
    counts = np.arange(most, 3 * most, dtype=np.float64)
    lemma = int(counts[np.searchsorted(balle(counts * STEPS * RHO), epsilon) - 1])
    return [most, lemma]


def values(size: str) -> dict[str, Any]:
    """Figure 3; quickly, three epochs."""
    drawn = np.unique(np.geomspace(1, MOST, 25).round()).astype(int).tolist()
    return {
        "some": once(curves, [1, 25, 100] if size == QUICK else list(EPOCHS)),
        "drawn": once(curves, [1, 10, 100] if size == QUICK else drawn),
        "orders": once(divergences, list(ORDERS)),
        "extra": each(extra, [(one,) for one in BUDGETS]),
    }


def tables(known: dict[str, Any]) -> list[Table]:
    """Epsilon, the claim about epochs, and why orders are capped."""
    some = known["some"]
    rows = []
    for place, count in enumerate(some["epochs"]):
        cells = [number(some[name][place]) for name in ("moments", "lemma", "capped", "own")]
        rows.append([f"{count}", *cells, bracket(some["truth"][place])])
    headings = ("epochs", "MA", "Lemma 2", "Lemma 2, order <= 89", "exact divergences, Theorem 3")
    orders = [
        [f"{order}", number(order * RHO, 4), number(exact, 4), f"{exact / (order * RHO):.3g}"]
        for order, exact in zip(ORDERS, known["orders"], strict=True)
    ]
    epochs = [
        [number(epsilon), "over 100", f"+{lemma - old}", f"{old}", f"{lemma}"]
        for epsilon, (old, lemma) in zip(BUDGETS, known["extra"], strict=True)
    ]
    return [
        Table("ε at δ = 1e-5", (*headings, "truth"), rows),
        Table("Epochs allowed", ("ε", "gain published", "gain", "MA", "Lemma 2"), epochs),
        Table("Divergence of one step", ("order", "ρ · order", "exact", "ratio"), orders),
    ]


def draw(canvas: Figure, known: dict[str, Any]) -> None:
    """Epsilon over the epochs."""
    (axes,) = axes_of(canvas)
    drawn = known["drawn"]
    epochs = drawn["epochs"]
    lines = {
        "moments": ("moments accountant (23)", ORANGE, "-"),
        "lemma": ("Lemma 2, any order (unproved at the left)", GREEN, ":"),
        "capped": ("Lemma 2, order at most 89", GREEN, "-"),
        "own": ("exact divergences, Theorem 3", PURPLE, "--"),
    }
    for name, (label, color, line) in lines.items():
        axes.plot(epochs, drawn[name], color=color, linestyle=line, linewidth=1.3, label=label)
    band(axes, epochs, drawn["truth"], "sharpdp, certified bracket", BLUE)
    axes.set(xscale="log", yscale="log", xlim=(1, epochs[-1]))
    axes.set_xlabel("epochs of 1000 steps")
    axes.set_ylabel(f"ε at δ = {number(DELTA)}")
    finished(canvas, "Noisy SGD, sampling rate 0.001, σ = 4", axes)
