"""Shuffled reports of sampled users: published sums in balls, and small cases by enumeration.

`users` of `population` are drawn without replacement; `odds` is e^local_epsilon. Nothing here imports
sharpdp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import comb

from flint import arb

from tests.reference.shuffle_small import Histogram, Law, Matrix, Pair, aligned, with_report

Number = float | int | arb


# --- published sums, in balls -----------------------------------------------------------------------


def reach(odds: arb) -> arb:
    """r = E - 1/E."""
    return odds - 1 / odds


def hidden(users: int, odds: arb) -> int:
    """floor((k - 1)/(2E)) + 1."""
    return int((arb(users - 1) / (2 * odds)).floor().unique_fmpz() or 0) + 1


def usual(j: int, clones: Number, odds: arb) -> arb:
    """The bound of Theorem 6 on the j-th power of a ternary divergence with so many clones."""
    if j == 2:
        return 4 * (odds - 1) ** 2 / odds / clones
    return j * (arb(j) / 2).gamma() * (2 * reach(odds) ** 2 / clones) ** (arb(j) / 2)


def few(users: int, odds: arb) -> arb:
    """Chernoff's bound on too few clones."""
    return (-arb(users - 1) / (8 * odds)).exp()


def with_chernoff(users: int, odds: arb, j: int) -> arb:
    """Theorem 4."""
    return usual(j, hidden(users, odds), odds) + reach(odds) ** j * few(users, odds)


def with_clones(users: int, odds: arb, j: int) -> arb:
    """Theorems 5 and 6, summed over all numbers of clones."""
    total = arb(0)
    for m in range(users):
        mass = comb(users - 1, m) * (1 / odds) ** m * (1 - 1 / odds) ** (users - 1 - m)
        total += mass * usual(j, m + 1, odds).min(reach(odds) ** j)
    return total


def subset_moment(terms: Sequence[arb], order: int, rate: arb) -> arb:
    """Lemma 2: (order - 1) times the divergence; `terms` start with j = 2."""
    total = sum((comb(order, j) * rate**j * terms[j - 2] for j in range(2, order + 1)), arb(0))
    return (1 + total).log()


def shuffled_moment(users: int, odds: arb, order: int) -> arb:
    """(order - 1) times the divergence of shuffled reports, as of 2021, at most that of one report."""
    clones = hidden(users, odds)
    total = 1 + comb(order, 2) * (odds - 1) ** 2 / odds / clones
    for j in range(3, order + 1):
        half = (reach(odds) ** 2 / (2 * clones)) ** (arb(j) / 2)
        total += comb(order, j) * j * (arb(j) / 2).gamma() * half
    total += odds**order * few(users, odds)
    return total.log().min((order - 1) * odds.log())


def amplified_moment(users: int, odds: arb, order: int, rate: arb) -> arb:
    """(order - 1) times the divergence: shuffling, then the general bound for subsets."""
    total = arb(1)
    for j in range(2, order + 1):
        growth = shuffled_moment(users, odds, j).exp()
        apart = ((odds - 1) ** j).min(arb(2))
        factor = (4 * (growth - 1)).min(growth * apart) if j == 2 else growth * apart
        total += comb(order, j) * rate**j * factor
    return total.log().min(shuffled_moment(users, odds, order))


def response_moment(users: int, odds: arb, order: Number, rate: arb) -> arb:
    """(order - 1) times the divergence of binary randomized response, the larger of both directions."""
    lie = 1 / (odds + 1)
    found = []
    for power in (arb(order), 1 - arb(order)):
        total = arb(0)
        for m in range(users + 1):
            mass = comb(users, m) * lie**m * (1 - lie) ** (users - m)
            total += mass * (1 + rate * reach(odds) / users * (m - users * lie)) ** power
        found.append(total.log())
    return found[0].max(found[1])


# --- small cases ------------------------------------------------------------------------------------


def sampled(matrix: Matrix, others: Sequence[int], users: int, victim: tuple[int, int]) -> Pair:
    """What is seen if `users` of the victim and the others report, by enumeration of all subsets."""
    laws = []
    for record in victim:
        people = [record, *others]
        law: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
        chance = Fraction(1, comb(len(people), users))
        for chosen in combinations(people, users):
            for point, mass in histogram(matrix, chosen).items():
                law[point] += chance * mass
        laws.append(dict(law))
    return aligned(laws[0], laws[1])


def histogram(matrix: Matrix, records: Sequence[int]) -> Law:
    """The law of the counts of the reports."""
    law: Law = {(0,) * len(matrix[0]): Fraction(1)}
    for record in records:
        law = with_report(law, matrix[record])
    return law


def drawn_clones(users: int, odds: Fraction, clone_rate: Fraction, rate: Fraction) -> Pair:
    """The pair of clones whose victim takes part at some rate; else there is one more of the others.

    Absent: N ~ Bin(users, clone_rate) clones, A ~ Bin(N, 1/2) of them of the first kind.
    """
    p: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    q: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    for n in range(users + 1):
        some = clone_rate**n * (1 - clone_rate) ** (users - n) * comb(users, n)
        for a in range(n + 1):
            for law in (p, q):
                law[a, n - a] += (1 - rate) * some * comb(n, a) / 2**n
    for c in range(users):
        some = clone_rate**c * (1 - clone_rate) ** (users - 1 - c) * comb(users - 1, c)
        for a in range(c + 1):
            mass = rate * some * comb(c, a) / 2**c / (odds + 1)
            p[a + 1, c - a] += odds * mass
            p[a, c - a + 1] += mass
            q[a, c - a + 1] += odds * mass
            q[a + 1, c - a] += mass
    return aligned(p, q)


def on_a_subset(pair: Pair, rate: Fraction) -> Pair:
    """A symmetric pair on a random subset: ratios x > 1 become 1 + rate (x - 1), the rest is at 1."""
    p, q = [], []
    for above, below in zip(*pair, strict=True):
        if above > below:
            grown = below + rate * (above - below)
            p += [grown, below]
            q += [below, grown]
    rest = 1 - sum(p)
    assert rest >= 0
    return [*p, rest], [*q, rest]


def adaptive(first: Pair, seconds: Iterator[Pair] | Sequence[Pair], x: Fraction) -> Fraction:
    """delta at e^epsilon = x of a first round and, after each result, the worst of some second ones."""
    every = list(seconds)
    total = Fraction(0)
    for p, q in zip(*first, strict=True):
        total += max(
            sum(
                (max(p * a - x * q * b, Fraction(0)) for a, b in zip(*second, strict=True)),
                Fraction(0),
            )
            for second in every
        )
    return total


def neighbors(records: int, people: int) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
    """What the others hold, up to order, and what the victim holds before and after."""
    for others in combinations_with_replacement(range(records), people - 1):
        for victim in product(range(records), repeat=2):
            if victim[0] != victim[1]:
                yield others, (victim[0], victim[1])
