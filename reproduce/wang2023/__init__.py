"""wang2023: mixtures, the shuffle model and random starts by trade-off functions."""

from __future__ import annotations

from reproduce.sheets import Erratum, Item, Paper
from reproduce.wang2023 import mixtures, shuffle, starts, statements

__all__ = ["PAPER"]

SQUARES, PANELS, TWO, ONE = (7.0, 7.6), (7.6, 5.4), (7.4, 4.6), (5.2, 6.2)
"""Inches of its figures."""

TABLE_1 = Item(
    "table1",
    "Table 1: δ of the shuffle model",
    "10,000 users report once, each through the same randomizer with local ε₀ = 4.444, and the "
    "reports are shuffled. Which δ holds at an ε?",
    shuffle.first_values,
    shuffle.first_tables,
    (
        "Theorem 4.2 gives the published row. The threshold that Corollary 4.3 prints is not where "
        "the curve has the slope of ε: it yields 3 to 14% less than the theorem, so the table was "
        "made with the right one. For few users it yields less than is true.",
        "The theorem is 1.1 to 1.8 times the upper end of the truth: the mixture of (P₀, Q₀) and "
        "(Q₀, P₀) has a curve that can be written down exactly, and the theorem only bounds it. "
        "The lower end is what a randomizer with three symbols attains.",
        "[23] published belongs to the unrounded ε₀ = log(n / (8 log(2/δ)) - 1) = 4.44448 and "
        "not to "
        "4.444.",
    ),
)
TABLE_2 = Item(
    "table2",
    "Table 2: ε of the shuffle model",
    "The same run, asked the other way round: which ε holds at a δ?",
    shuffle.second_values,
    shuffle.second_tables,
    (
        "What is published as a numerical upper bound is the closed form of feldman2023 again. It "
        "says nothing for δ of 1e-7 and below. The pair of distributions of feldman2021, "
        "evaluated, gives a little more than half of it.",
        "The published lower bound is the clones pair of [23] again, whose exact value is the last "
        "column, evaluated from below on two intervals of clones (a step of 300 or more in the public "
        "program of feldman2021, with the clone rate 2/(e^ε₀ + 1)): all five values come out. What it "
        "lacks is the grid's, and no randomizer is known to attain the pair.",
        "Binary response with all others at 0 (2-RR) attains less; ternary response with all "
        "others at the third symbol (3-RR) attains more. With 3-RR as the lower bound and the "
        "exact pair as the upper bound, the truth is known to 0.8%.",
    ),
)
FIGURE_1 = Item(
    "figure1",
    "Figure 1: trade-off functions of the shuffle model",
    "False negatives against false positives, for local budgets up to the largest one at which the "
    "closed form says something, and beyond. No numbers are published.",
    shuffle.figure_values,
    shuffle.figure_tables,
    (
        "Theorem 4.2 lies below the exact curve by less than the width of a line. The closed form "
        "is far below both, and gives no bound at ε₀ = 6.",
        "The truth is that of the exact pair from below; from above, what randomized "
        "response attains.",
    ),
    shuffle.draw_figure,
    PANELS,
    "Five panels of trade-off curves for local ε from 1 to 6",
)
FIGURE_2 = Item(
    "figure2",
    "Figure 2: one step of gradient descent from a random start",
    "Least squares on records with y = x and x² = 1, one of them removed; the start is standard "
    "normal, the noise has deviation 1, gradients are clipped at c. No numbers are published.",
    starts.figure_values,
    starts.figure_tables,
    (
        "Theorem 5.1 is exact if the start is public, and a lower bound if it is hidden. The true "
        "curves with a hidden start lie above it.",
        "All of this is about these records. Over arbitrary records some gradient has the clipping "
        "norm at every start, and then the curve is that of the noise alone: no amplification. The "
        "paper's remark calls the bound instance-based; the abstract does not.",
    ),
    starts.draw_figure,
    SQUARES,
    "Four panels, clipped at 0.5, 1, 2 and 3",
)
EXAMPLE = Item(
    "example-d3",
    "Example D.3: logistic loss",
    "The largest gradient over all records with |xy| at most M is M / (1 + exp(-|I| M)) at the "
    "start I. The paper's formula lacks the factor |xy|.",
    starts.logistic_values,
    starts.logistic_tables,
    (
        "*All records* bounds every attacker, whatever the record. *One record* is xy "
        "= M with a public start; no record has the largest gradient at every start.",
    ),
)
FIGURE_3 = Item(
    "figure3",
    "Figure 3: joint and advanced joint concavity",
    "The shuffle pair (P₀, Q₀) mixed with its exchange, weight 1/3. The paper states neither the "
    "number of users nor the local budget. The picture uses the first reading.",
    mixtures.third_values,
    mixtures.third_tables,
    (
        "The two published numbers were not reproduced together. Wherever Lemma 3.1 gives 0.0020, "
        "Lemma 6.3 gives 3e-7 to 5e-7, not 1.5e-6. Both come out if the value of Lemma 3.1 is "
        "multiplied by 1 - w, which the lemma does not say.",
        "The mixture itself is five orders of magnitude below Lemma 6.3: with the weights w and 1 "
        "- w its exact curve follows from that of (P₀, Q₀).",
    ),
    mixtures.draw_third,
    TWO,
    "Two panels: small rates, and all rates",
)
FIGURE_4 = Item(
    "figure4",
    "Figure 4: a sampled Gaussian step",
    "Example F.3: N(0, 1) against w N(0, 1) + (1 - w) N(1, 1) with w = 1/3, which is one "
    "Poisson-sampled Gaussian step at the rate 2/3. No numbers are published.",
    mixtures.fourth_values,
    mixtures.fourth_tables,
    (
        "T(P₀, w P₀ + (1-w) Q₀) = w Id + (1-w) T(P₀, Q₀) is an equality for every pair. What the "
        "figure shows as the better bound is the exact curve up to the rate 0.31, and less than it "
        "beyond, where symmetrizing loses something.",
        "The truth is sharpdp's bracket for the smaller of both directions: the exact curve first, "
        "then its inverse.",
    ),
    mixtures.draw_fourth,
    ONE,
    "One panel with both lemmas and the mixture",
)
STATEMENTS = Item(
    "statements",
    "Statements that fail as published",
    "Five statements about mixtures, each at a small example in exact fractions. sharpdp uses the "
    "repaired forms; `tests/pitfalls/test_mixture_errata.py` holds both.",
    statements.values,
    statements.tables,
    (
        "Proposition 6.1 claims that Lemma 3.1 holds with equality under its condition, which this "
        "example meets. The right condition is p₁q₂ = p₂q₁ wherever both components have mass.",
        "The others claim a lower bound on the trade-off function that lies above it. Lemma 6.3 "
        "needs T(Qⱼ, Pᵢ) in place of T(Pᵢ, Qⱼ); Proposition 6.4 a symmetric curve, or the hull of "
        "it and its inverse; Proposition B.1 conjugates in place of values at equal rates; "
        "Proposition E.1 a curve below those against the common part as well. In the shuffle model "
        "all curves are symmetric, and nothing breaks there.",
    ),
)

ERRATA = (
    Erratum(
        "Corollary 4.3",
        "threshold t_ε from l(t) as if it were the slope",
        "the slope at the ratio t is -1/t, so t_ε = (1 - 2w)/(e^ε - 2w)",
        "unsound",
    ),
    Erratum(
        "Lemma 6.3, Propositions 6.4, B.1, E.1",
        "inequalities without the conditions they need",
        "see [the statements](#statements-that-fail-as-published)",
        "unsound",
    ),
    Erratum(
        "Equation (3), middle piece",
        "x̄ - f(x̄) - x",
        "x̄ + f(x̄) - x",
        "slip",
    ),
    Erratum(
        "Section 5, after Figure 2",
        "the divergence of N(0, 1) from N(0, 2) is infinite at large orders",
        "it is finite at all orders (0.1438 at order 2); the reverse one is infinite from "
        "order 2 on",
        "slip",
    ),
    Erratum(
        "Section 5, dominating pair",
        "N(0, 1) and N(0, 2) for the step without clipping",
        "N(a, 2), and as an ordered pair it does not dominate: hiding the start is post-processing",
        "unsound",
    ),
    Erratum(
        "Example D.3",
        "the softmax as the gradient of the logistic loss",
        "times |xy|",
        "unsound",
    ),
    Erratum(
        "Proposition 6.1",
        "a weighted sum of ratios as the condition for equality",
        "p₁q₂ = p₂q₁ wherever both have mass",
        "slip",
    ),
    Erratum(
        "Theorem 4.2, remark",
        "near-optimal",
        "the exact curve of the same pair costs the same and is better: 1.1 to 1.8 times in Table "
        "1, 16 times at 1000 users, ε₀ = 1, ε = 0.2",
        "loose",
    ),
    Erratum("Table 1, row of [23]", "ε₀ = 4.444", "made with 4.44448", "slip"),
    Erratum(
        "Table 2, lower bound",
        "by binary search in [23]",
        "the pair from above of [23] on a grid of two intervals; on a fine one it is 0.397 to 0.791",
        "loose",
    ),
    Erratum("Figure 3, caption", "0.0020 and 1.5e-6", "users and ε₀ are missing", "unstated"),
    Erratum(
        "Proposition 3.3 and its proof",
        "the middle term without weights; dα/dt positive",
        "every component counts with its weight; α falls with t",
        "slip",
    ),
    Erratum("F-divergences", "F(0) = lim F(s)/s", "F(0) = lim F(s)", "slip"),
    Erratum(
        "Least squares", "the square as loss", "half the square has the published gradient", "slip"
    ),
)

PAPER = Paper(
    "wang2023",
    "Mixtures by trade-off functions (wang2023)",
    (
        "C. Wang, B. Su, J. Ye, R. Shokri, W. J. Su: *Unified Enhancement of Privacy Bounds for "
        "Mixture Mechanisms via f-Differential Privacy*, NeurIPS 2023, arXiv 2310.19973.",
        "The paper bounds the trade-off function of a mixture by that of the mixture whose index "
        "is released, sharpens this for two components, and applies it to the shuffle model and to "
        "one step of gradient descent from a random start. More on [mixtures](../mixtures.md), "
        "[the shuffle theorem](../shuffle-proof.md), [random starts](../initialization.md) "
        "and [repaired theorems](../repaired.md).",
    ),
    (TABLE_1, TABLE_2, FIGURE_1, FIGURE_2, EXAMPLE, FIGURE_3, FIGURE_4, STATEMENTS),
    ERRATA,
    verdict="Tables 1 and 2 reproduced; the exact curve is up to 1.8 times better; "
    "four inequalities need conditions; Figure 2 holds for its records only",
)
