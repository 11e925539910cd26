"""What of the five papers is not reproduced in full, and what their authors could ask for, by its state.

Everything that is not here is on the page of its paper, in full or with a label among the errata.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROWS", "Row"]

FULL = "full"


@dataclass(frozen=True)
class Row:
    """One statement or request: the paper, the item, where it stands, and the page that has it."""

    paper: str
    item: str
    state: str
    where: str


ROWS = (
    Row(
        "wang2023",
        "Several steps from a random start (Section 7)",
        f"{FULL} for least squares on known points: any number of steps, both sides "
        "(`RandomlyInitializedGD.least_squares(steps=)`), and for linear losses "
        "(`LastIterate(start_deviation=)`); in the worst case over convex losses a random start "
        "amplifies nothing",
        "[random starts](../topics/initialization.md), [last iterate](../proofs/last-iterate.md)",
    ),
    Row(
        "wang2023",
        "A hidden start (Section 5): its true curve",
        f"{FULL} on a known number of points, both sides; if that is unknown the lower end is 0, to "
        "which delta tends with their number if nothing is clipped",
        "[random starts](../topics/initialization.md)",
    ),
    Row(
        "wang2023",
        "Figure 3, caption: 1.5e-6 and 0.0020",
        "not reproducible: users and ε₀ are not stated; three readings, none with both numbers",
        "[wang2023](wang2023.md)",
    ),
    Row(
        "wang2023",
        "The worst case over a bounded domain (remark to Theorem 5.1)",
        f"{FULL} for logistic regression with |xy| bounded, as a table; nothing for other losses",
        "[wang2023](wang2023.md), Example D.3",
    ),
    Row(
        "wang2023",
        "Lemma A.2 (Blackwell)",
        "the order of two curves is decided; the post-processing that turns one pair into the other is "
        "not constructed, and nothing needs it",
        "[trade-off curves](../topics/tradeoff.md)",
    ),
    Row(
        "girgis2021",
        "18.3, and 76.46% at ε = 3, for clones",
        "not reproducible: the composition is not stated. Clones in closed form with two composition "
        "theorems, k or n users and four shares of δ: 28.7 to 39.6 (k, outside its condition) and 4.0 to "
        "4.8 (n) after 200 epochs; evaluated, 8.16, and 6.95 composed exactly",
        "[girgis2021](girgis2021.md)",
    ),
    Row(
        "girgis2021",
        "Accuracy against ε with tuned steps",
        f"{FULL} for a linear model at five budgets; the paper's network at four, 10 epochs. Settings "
        "are chosen on held-out training images",
        "[experiments](../experiments.md)",
    ),
    Row(
        "girgis2021",
        "Bits per report, beside variance and ε",
        f"{FULL}: `randomizer.bits` with an encoding, a table of all randomizers, and PrivUnit "
        "compressed",
        "[randomizers](../topics/randomizers.md)",
    ),
    Row(
        "girgis2021",
        "Clients with several records, or with local steps",
        f"{FULL}: a client is protected as a whole, whatever vector it sends; the rate of Theorem 3 is "
        "for one gradient",
        "[learning](../topics/learning.md)",
    ),
    Row(
        "girgis2021",
        "PrivUnit with a large local ε, sampled clients",
        f"{FULL} up to the largest local ε that can be given, 30",
        "[randomizers](../topics/randomizers.md)",
    ),
    Row(
        "asoodeh2020",
        "Theorem 2: the joint range of any two f-divergences",
        f"{FULL}: `renyi.joint_range`, by certified tangents",
        "[asoodeh2020](asoodeh2020.md), [Rényi curves](../topics/renyi.md)",
    ),
    Row(
        "asoodeh2020",
        "Conversion by several orders at once (open question)",
        f'{FULL}: all orders and both directions together, which coins attain (`conversion="joint"`)',
        "[Rényi curves](../topics/renyi.md)",
    ),
    Row(
        "asoodeh2020",
        "Theorem 5",
        "asymptotic; with the fourth term of (82) above the need at all of 402 places; `smallest_noise` "
        "has (79), which it expands",
        "[repaired](../proofs/repaired.md#an-expansion-without-its-remainder-asoodeh2020-theorem-5)",
    ),
    Row(
        "asoodeh2020",
        "Figure 3 for few steps",
        "unproved by the cited lemma; above the truth wherever tried; exact accounting in full",
        "[repaired](../proofs/repaired.md#orders-outside-a-lemma-asoodeh2020-figure-3)",
    ),
    Row(
        "chen2024",
        "Theorem 3 for what Algorithm 1 returns",
        f"{FULL}: refuted for the last iterate, for any number of epochs",
        "[repaired](../proofs/repaired.md#noise-for-a-record-does-not-hide-a-block-chen2024-theorem-3)",
    ),
    Row(
        "chen2024",
        "98.18% and 96.41%",
        "reproduced by the recipe of the authors' public program, which permutes the records once and to "
        "which no theorem of the paper applies; Algorithm 1 does not reach them",
        "[experiments](../experiments.md)",
    ),
    Row(
        "chen2024",
        "Local budgets that differ between users",
        f"{FULL}: `mechanisms.ShuffledGroups`, a guarantee for each group; both sides for randomized "
        "response, the users of one's own group for unknown randomizers",
        "[the shuffle theorem](../proofs/shuffle-proof.md)",
    ),
    Row(
        "chua2024",
        "Tight accounting for shuffled batches",
        "both ends are known, and apart: ε at T = 100,000 and δ = 1e-6 is in [2.953, 3.315] at σ = 0.8, "
        "[0.3556, 0.4579] at 1.025, [0.04707, 0.1396] at 1.25; replace-one, 100 batches of one, σ = 1: "
        "[6.529, 10.998]",
        "[shuffled batches](../proofs/shuffled-batches.md)",
    ),
    Row(
        "chua2024",
        "(7), the lower bound",
        f"{FULL}: with its best C, at most 1e-4 above the certified lower end wherever δ is above 1e-100",
        "[shuffled batches](../proofs/shuffled-batches.md)",
    ),
    Row(
        "chua2024",
        "An error bound for the integrals against Conjecture 3.2",
        f"{FULL}: enclosed in ball arithmetic to 1e-14",
        "[repaired](../proofs/repaired.md#opposing-contributions-are-not-the-worst-case-chua2024-conjecture-32)",
    ),
    Row(
        "chua2024",
        "Conjecture 3.2 for queries that do not adapt; larger batches",
        "open",
        "[shuffled batches](../proofs/shuffled-batches.md)",
    ),
    Row(
        "chua2024",
        "Conjecture 4.4",
        "open: supported by every scan",
        "[chua2024](chua2024.md)",
    ),
    Row(
        "chua2024",
        "The last iterate for losses that are not convex",
        "open beyond deterministic batches: 10 epochs of 10 batches with noise 3 have ε at most 2.27 in "
        "place of 4.65; for Poisson batches and balls-and-bins only what all iterates have",
        "[last iterate](../proofs/last-iterate.md)",
    ),
    Row(
        "chua2024",
        "Noise calibrated for the sizes of ads models",
        "no table, since the paper states no sizes; `dp.calibrate` answers for any",
        "[samplers](../topics/samplers.md)",
    ),
)
"""In the order of the papers. A row is deleted or rewritten when what it asks for is there."""
