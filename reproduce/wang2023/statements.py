"""wang2023: statements about mixtures taken literally, each at a small example in fractions.

What the words say, the truth, and sharpdp's form of the same statement; all of them exact. Names are as
published, with P as the null: `hidden`, which has Q as the null, is handed the pairs (Q_i, P_i).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from reproduce.cache import once
from reproduce.sheets import Table, number
from sharpdp.curves.mixtures.advanced_joint_concavity import advanced
from sharpdp.curves.mixtures.inequalities import (
    averaged,
    coupled,
    diluted,
    hidden,
    released,
    subsampled,
    swapped_bound,
)
from sharpdp.curves.tradeoff import Polyline

F, T = Fraction, Polyline.from_pmfs
Law = list[Fraction]
Found = tuple[Fraction | float, ...]
"""The rate, then the literal value, the truth and sharpdp's value there."""

HALF = F(1, 2)


def mixed(weight: Fraction, one: Law, other: Law) -> Law:
    """(1 - weight) of one law and weight of the other."""
    return [(1 - weight) * a + weight * b for a, b in zip(one, other, strict=True)]


def proposition_6_1() -> Found:
    """The sum of ratios meets the condition for equality in Lemma 3.1; a mixture of laws does not."""
    even, low, high = [HALF, HALF], [F(4, 5), F(1, 5)], [F(1, 5), F(4, 5)]
    laws, weights, at = [(low, even), (high, even)], [HALF, HALF], F(1, 4)
    joint = released([T(*one) for one in laws], weights)
    return at, joint(at), hidden([(q, p) for p, q in laws], weights)(at), joint(at)


def proposition_b_1() -> Found:
    """Curves of components added at equal rates; right is to add their conjugates."""
    a, b, c = [F(1), F(0), F(0)], [F(0), F(1), F(0)], [F(0), F(0), F(1)]
    null, alternative, weights, at = [a, b], [a, c], [HALF, HALF], F(1, 4)
    table = [[T(p, q) for q in alternative] for p in null]
    claimed = sum((w * table[i][i](at) for i, w in enumerate(weights)), F(0))
    truth = hidden(list(zip(alternative, null, strict=True)), weights)
    return at, claimed, truth(at), coupled(table, weights, weights)(at)


def lemma_6_3() -> Found:
    """As published, gamma = eta = w."""
    p1, q1 = [F(0), F(1)], [F(1), F(0)]
    p2, q2 = [F(3, 8), F(5, 8)], [F(5, 8), F(3, 8)]
    w, at = F(2, 5), F(3, 20)
    null, alternative = mixed(w, p1, p2), mixed(w, q1, q2)
    claimed = averaged([T(p, alternative) for p in (p1, p2)], [1 - w, w]).symmetric_hull()
    right = averaged([T(null, q) for q in (q1, q2)], [1 - w, w])
    return at, claimed(at), T(null, alternative)(at), right(at)


def lemma_6_3_inside() -> Found:
    """As published, gamma = 1/5 and eta = 3/5: its formula is `advanced` with T(P_i, Q_j)."""
    laws = [([F(0), F(1)], [F(1), F(0)]), ([F(3, 8), F(5, 8)], [F(5, 8), F(3, 8)])]
    w, gamma, eta, at = F(2, 5), F(1, 5), F(3, 5), F(3, 20)
    printed = [[T(p, q) for p, _ in laws] for _, q in laws]
    right = [[T(q, p) for p, _ in laws] for _, q in laws]
    truth = T(*(mixed(w, *side) for side in zip(*laws, strict=True)))
    claimed = advanced(printed, w, gamma, eta).symmetric_hull()
    return at, claimed(at), truth(at), advanced(right, w, gamma, eta).inverse()(at)


def proposition_6_4() -> Found:
    """A pair whose curve is not symmetric."""
    p0, q0 = [F(5, 7), F(2, 7), F(0)], [F(0), F(5, 6), F(1, 6)]
    w, at = F(1, 5), F(13, 30)
    f = T(p0, q0)
    truth = T(mixed(w, p0, q0), mixed(w, q0, p0))
    return at, diluted(f, 2 * w).symmetric_hull()(at), truth(at), swapped_bound(f, w)(at)


def proposition_e_1() -> Found:
    """A common part that is far from both laws."""
    p1, q1 = [F(3, 4), F(1, 4), F(0)], [F(1, 4), F(3, 4), F(0)]
    common, w, at = [F(0), F(0), F(1)], HALF, F(7, 60)
    f, far = T(p1, q1), [T(common, p1), T(common, q1)]
    lowest = f.minimum(far[0]).minimum(far[1]).symmetric_hull()
    right = subsampled(lowest, w, between=f, from_common=far)
    truth = T(mixed(w, common, p1), mixed(w, common, q1))
    return at, diluted(f, 1 - w).symmetric_hull()(at), truth(at), right(at)


STATEMENTS: dict[str, tuple[Callable[[], Found], str]] = {
    "Lemma 6.3": (lemma_6_3, "P₁ = (0, 1), Q₁ = (1, 0), P₂ = (3/8, 5/8), Q₂ = (5/8, 3/8), w = 2/5"),
    "Lemma 6.3, γ = 1/5, η = 3/5": (lemma_6_3_inside, "the same"),
    "Proposition 6.4": (proposition_6_4, "P₀ = (5/7, 2/7, 0), Q₀ = (0, 5/6, 1/6), w = 1/5"),
    "Proposition B.1": (proposition_b_1, "P₁ = Q₁ = a, P₂ = b, Q₂ = c disjoint, weights 1/2"),
    "Proposition E.1": (
        proposition_e_1,
        "P₀ disjoint from P₁ = (3/4, 1/4), Q₁ = (1/4, 3/4), w = 1/2",
    ),
    "Proposition 6.1": (proposition_6_1, "P₁ = (4/5, 1/5), P₂ = (1/5, 4/5), Q₁ = Q₂ = (1/2, 1/2)"),
}


def found(name: str) -> list[str]:
    """Rate, literal value, truth and sharpdp's value of a statement, as text."""
    at, *others = STATEMENTS[name][0]()
    return [f"{at}", *(f"{one} = {number(float(one), 4)}" for one in others)]


def values(_size: str) -> dict[str, list[str]]:
    """All statements; quick at any size."""
    return {name: once(found, name) for name in STATEMENTS}


def tables(known: dict[str, list[str]]) -> list[Table]:
    """Each statement at its example."""
    rows = [
        [name, STATEMENTS[name][1], at, claimed, truth, ours]
        for name, (at, claimed, truth, ours) in known.items()
    ]
    headings = ("statement", "example", "at the rate", "literally", "truth", "sharpdp")
    return [Table("False-negative rates", headings, rows)]
