"""liew2022, Theorem 1, in the setting of the authors' example, beside certified brackets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sharpdp as dp
from reproduce.cache import once
from reproduce.drawing import BLUE, GREEN, ORANGE, axes_of, band, finished
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.bounds.shuffle_model.published.unbounded import shuffled_gaussian_moments_epsilon
from sharpdp.mechanisms import ApproximateReports

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USERS, NOISE, DELTA = 600_000, 1.0, 1.0 / 600_000
ROUNDS = (1, 10, 100, 1000)


def of_rounds(rounds: int) -> dict[str, Any]:
    """Epsilon of so many rounds: without a shuffler, by Theorem 1, and certified."""
    noise = dp.LocalGaussian(NOISE)
    alone = dp.account(dp.Gaussian(NOISE / rounds**0.5)).epsilon(delta=DELTA)
    published = ApproximateReports(users=USERS, randomizer=noise, rounds=rounds)
    run = dp.ShuffledReports(users=USERS, randomizer=noise, rounds=rounds)
    found = dp.account(run).epsilon(delta=DELTA)
    return {
        "rounds": rounds,
        "alone": float(alone.upper),
        "formula": shuffled_gaussian_moments_epsilon(published, DELTA),
        "truth": [found.lower, found.upper],
    }


def values(size: str) -> list[dict[str, Any]]:
    """All numbers of rounds; quickly, one."""
    return [once(of_rounds, rounds) for rounds in (ROUNDS[:1] if size == QUICK else ROUNDS)]


def tables(found: list[dict[str, Any]]) -> list[Table]:
    """Epsilon for each number of rounds."""
    rows = [
        [
            f"{one['rounds']:,}",
            number(one["alone"], 4),
            number(one["formula"], 4),
            bracket(one["truth"], 4),
        ]
        for one in found
    ]
    headings = ("rounds", "no shuffler", "Theorem 1", "truth")
    return [Table("ε at δ = 1/600,000", headings, rows)]


def draw(canvas: Figure, found: list[dict[str, Any]]) -> None:
    """Epsilon against the number of rounds."""
    (axes,) = axes_of(canvas)
    often = [one["rounds"] for one in found]
    for name, label, color in (
        ("alone", "no shuffler", ORANGE),
        ("formula", "Theorem 1 (Rényi)", GREEN),
    ):
        heights = [one[name] for one in found]
        axes.plot(often, heights, color=color, linewidth=1.3, label=label, marker="+")
    band(axes, often, [one["truth"] for one in found], "sharpdp, certified bracket", BLUE)
    axes.set(xlabel="rounds", ylabel="ε at δ = 1/600,000", xscale="log", yscale="log")
    finished(canvas, "Shuffled Gaussian reports of 600,000 users, noise multiplier 1", axes)
