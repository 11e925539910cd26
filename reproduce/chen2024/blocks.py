"""chen2024, Section 4: what Theorem 3 says about its run on MNIST, and what the noise there does."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from typing import Any

import sharpdp as dp
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.bounds.shuffle_model.published.renyi import gaussian_limit_renyi, moments_upper

BLOCKS, RECORDS, EPOCHS = 100, 60_000, 50
"""m, n and T of Table 2."""

BUDGET = 0.008
"""Figure 4: the divergence of every method over its order."""

LOCALS = (0.1, 0.5, 1.0, 2.0)
"""Local epsilons in the range of Table 2."""

ORDER = 2

ALLOWED: dict[str, float | None] = {
    "Feldman et al. 2023, 64 e^ε₀ λ/n": None,
    "Girgis et al. 2021, (5) with (e^ε₀ - 1)²": 0.7301,
    "this work, Corollary 2 (an estimate)": 1.5685,
    "sharpdp, by place (certified)": 2.0737,
    "sharpdp, one shared randomizer (certified)": 2.5092,
}
"""The largest local epsilon at which 50 epochs of 60,000 shuffled reports keep the budget of Figure 4.

The last two, certified, are found by `largest_local` of ``renyi(order=...).upper`` in 20 seconds.
"""

BUDGET_ORDERS = (2, 4, 8, 20)
"""Orders at which the budget must be kept."""

Divergence = Callable[[float, int], float]
"""Of one epoch, by local epsilon and order."""


def _reports(local: float) -> dp.ShuffledReports:
    return dp.ShuffledReports(users=RECORDS, local_epsilon=local)


FORMULAS: tuple[Divergence, ...] = (
    lambda local, order: 64.0 * exp(local) * order / RECORDS,
    lambda local, order: moments_upper(_reports(local), order),
    lambda local, order: gaussian_limit_renyi(_reports(local), order),
)
"""The published ones of `ALLOWED`, in its order."""


def largest_local(formula: Divergence) -> float | None:
    """The largest local epsilon at which all epochs keep the budget; None if there is none."""

    def keeps(local: float) -> bool:
        return all(EPOCHS * formula(local, order) <= BUDGET * order for order in BUDGET_ORDERS)

    low, high = 1e-3, 6.0
    if not keeps(low):
        return None
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def theorem_3(blocks: int, local: float) -> float:
    """The published divergence over the order: 2 T e^local / (m - 1)."""
    return 2.0 * EPOCHS * exp(local) / (blocks - 1)


def budget_local() -> float:
    """The local epsilon at which Theorem 3 with n in place of m has the budget of Figure 4."""
    return log(BUDGET * (RECORDS - 1) / (2.0 * EPOCHS))


def one_run(local: float) -> dict[str, Any]:
    """The run with a local epsilon: as claimed, one record, and blocks with noise for blocks."""
    alone = dp.account(dp.Laplace(scale=1.0 / local) * EPOCHS).renyi(order=ORDER)
    plan = dp.ShuffledBlocks(
        blocks=BLOCKS,
        block_size=RECORDS // BLOCKS,
        local_epsilon=local,
        epochs=EPOCHS,
        unit="block",
    )
    blocks = dp.account(plan).renyi(order=ORDER)
    return {
        "local": local,
        "claimed": ORDER * theorem_3(BLOCKS, local),
        "alone": [alone.lower, alone.upper],
        "blocks": [blocks.lower, blocks.upper],
    }


def values(size: str) -> list[dict[str, Any]]:
    """The runs; quickly, at local epsilon 1."""
    return each(one_run, [(one,) for one in (LOCALS[2:3] if size == QUICK else LOCALS)])


def tables(known: list[dict[str, Any]]) -> list[Table]:
    """Divergences of order 2, and where the budget of Figure 4 may come from."""
    rows = [
        [
            number(one["local"]),
            number(one["claimed"], 4),
            *(bracket(one[name], 4) for name in ("alone", "blocks")),
        ]
        for one in known
    ]
    headings = ("ε₀", "Theorem 3", "published noise, one record", "noise for blocks, one block")
    readings = [
        [f"m = {BLOCKS}, as in Table 2", number(theorem_3(BLOCKS, 0.0), 4), "none"],
        [f"m = {RECORDS // BLOCKS}, records of a block", number(theorem_3(600, 0.0), 4), "none"],
        [f"n = {RECORDS} for m", number(theorem_3(RECORDS, 0.0), 4), number(budget_local())],
    ]
    own = budget_local()
    rivals = [
        [name, "none" if local is None else number(local), number(local and own / local, 3)]
        for name, local in ALLOWED.items()
    ]
    return [
        Table(f"Rényi divergence of order {ORDER} after {EPOCHS} epochs", headings, rows),
        Table(
            f"The budget of Figure 4, {BUDGET} times the order",
            ("reading of Theorem 3", "its value at ε₀ = 0, over the order", "ε₀ for 0.008"),
            readings,
        ),
        Table(
            f"The local ε that each bound allows at {BUDGET} times the order, n = {RECORDS} for m",
            ("bound", "largest ε₀", "noise over that of Corollary 2"),
            rivals,
        ),
    ]
