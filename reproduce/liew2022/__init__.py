"""liew2022: shuffled reports with Gaussian noise, by their Renyi divergences."""

from __future__ import annotations

from reproduce.liew2022 import rounds
from reproduce.sheets import Item, Paper

__all__ = ["PAPER"]

THEOREM_1 = Item(
    "theorem1",
    "Theorem 1: composition over rounds",
    "600,000 users report a value of [0, 1] with Gaussian noise of deviation 1 in every round, at "
    "δ = 1/600,000: the setting of the example that comes with the authors' program. Published "
    "are the formula and the program; no number of the paper is compared.",
    rounds.values,
    rounds.tables,
    (
        "The formula is for data sets in which all other users hold one of the target's two "
        "values; it is not a bound if others may lie on the far side of one "
        "([why](../proofs/gaussian-reports.md)). The bracket holds for any values of the others.",
        "For one round a Rényi divergence of any order is that of a single extremely rare report: "
        "the profile itself is far smaller. The gap closes with the number of rounds.",
        "The upper end for one round is the blanket divergence of Takagi and Liew (2026); that 0 and 1 "
        "are the worst values is proved by us.",
    ),
    rounds.draw,
    (6.6, 4.6),
    "ε against the number of rounds",
)

PAPER = Paper(
    "liew2022",
    "Shuffled Gaussian reports (liew2022, takagi2026)",
    (
        "S. P. Liew, T. Takahashi: *Shuffle Gaussian Mechanism for Differential Privacy*, 2022; "
        "S. Takagi, S. P. Liew: *Analysis of Shuffling Beyond Pure Local Differential Privacy*, "
        "2026.",
        "How much privacy does a shuffler add to reports that have no finite local epsilon? More "
        "on [shuffled Gaussian reports](../proofs/gaussian-reports.md), with proofs.",
    ),
    (THEOREM_1,),
    verdict="The formula reproduced; the certified upper end is far below it for few rounds",
)
