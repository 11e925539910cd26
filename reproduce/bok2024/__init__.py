"""bok2024: the privacy of the last iterate, by shifted interpolation."""

from __future__ import annotations

from reproduce.bok2024 import descent
from reproduce.sheets import Item, Paper

__all__ = ["PAPER"]

FIGURE_1 = Item(
    "figure1",
    "Figure 1: full batches",
    "Noisy gradient descent on strongly convex losses that contracts by c = 0.95 in each step; one "
    "record moves a step by a tenth of its noise. Only the last iterate is released.",
    descent.figure_values,
    descent.figure_tables,
    (
        "The formula is exact: linear losses with the penalty attain it. The cost of releasing every "
        "step grows without bound; that of the last iterate stays below the cost of 39 released steps.",
    ),
    descent.draw,
    (6.6, 4.6),
    "ε against the number of steps",
)
TABLE_1 = Item(
    "table1",
    "Table 1: cyclic batches, the size of the MNIST experiment",
    "Softmax regression in 40 cyclic batches of 1500, learning rate 0.05, with gradients clipped at 5 "
    "and noise of deviation 15 on their sum: neighbors that differ in one record's value move a step by "
    "2/3 of its noise. The formulas are evaluated as the authors' code does.",
    descent.table_values,
    descent.table_tables,
    (
        "Our upper end is the formula, found by a search over schedules of shifts. The lower end is "
        "what linear losses attain; the truth over all losses of the class lies between.",
        "Shuffling the batches in every epoch lowers the upper end further, which the paper does not "
        "claim.",
        "The theorems are about gradients of smooth convex losses. The experiment clips gradients at 5 "
        "with features of norm up to 8, so clipping is active. With a single score, as in binary "
        "logistic regression, a clipped gradient is still that of a convex loss; for ten classes the "
        "paper's conditions do not cover it.",
    ),
)

PAPER = Paper(
    "bok2024",
    "The last iterate, by shifted interpolation (bok2024)",
    (
        "J. Bok, W. J. Su, J. M. Altschuler: *Shifted Interpolation for Differential Privacy*, ICML "
        "2024.",
        "How private is noisy gradient descent if only its last iterate is released? More on [last "
        "models](../how-to/last-iterate.md) and [the proofs](../proofs/last-iterate.md).",
    ),
    (FIGURE_1, TABLE_1),
    verdict="The formulas reproduced; full batches are exact, cyclic ones bracketed, shuffled ones "
    "sharper",
)
