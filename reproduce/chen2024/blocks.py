"""chen2024, Section 4: what Theorem 3 says about its run on MNIST, and what the noise there does."""

from __future__ import annotations

from math import exp, log
from typing import Any

import sharpdp as dp
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number

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
"""The largest local epsilon at which 50 epochs of 60,000 shuffled reports keep the budget of Figure 4."""


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
    return [
        Table(f"Rényi divergence of order {ORDER} after {EPOCHS} epochs", headings, rows),
        Table(
            f"The budget of Figure 4, {BUDGET} times the order",
            ("reading of Theorem 3", "its value at ε₀ = 0, over the order", "ε₀ for 0.008"),
            readings,
        ),
    ]
