"""The shuffle model with a few users, by enumeration, in exact fractions.

`odds` is e^local_epsilon, a fraction. Every function returns a pair (P, Q) of lists of masses, as
`tests.reference.finite` takes them: P is the law of what is seen if the victim holds the first of
two records, Q if the victim holds the second one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from math import comb, prod

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]
Pair = tuple[list[Fraction], list[Fraction]]
Histogram = tuple[int, ...]
Law = dict[Histogram, Fraction]


def shared_rate(odds: Fraction) -> Fraction:
    """The clone rate if all users run one randomizer."""
    return 2 / (odds + 1)


def individual_rate(odds: Fraction) -> Fraction:
    """The clone rate if every place in the shuffled order has a randomizer of its own."""
    return 1 / odds


def clones(users: int, odds: Fraction, clone_rate: Fraction) -> Pair:
    """The pair of clones by its definition: (A + D, C - A + 1 - D) against (A + 1 - D, C - A + D).

    C ~ Bin(users - 1, clone_rate), A ~ Bin(C, 1/2), D = 1 with probability odds / (odds + 1).
    """
    heavy = odds / (odds + 1)
    p: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    q: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    for c in range(users):
        left = clone_rate**c * (1 - clone_rate) ** (users - 1 - c) * comb(users - 1, c)
        for a in range(c + 1):
            mass = left * comb(c, a) / 2**c
            p[a + 1, c - a] += heavy * mass
            p[a, c - a + 1] += (1 - heavy) * mass
            q[a, c - a + 1] += heavy * mass
            q[a + 1, c - a] += (1 - heavy) * mass
    return aligned(p, q)


def bare_clones(users: int, clone_rate: Fraction) -> Pair:
    """The pair without the victim's own noise: (A + 1, C - A) against (A, C - A + 1)."""
    p: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    q: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    for c in range(users):
        left = clone_rate**c * (1 - clone_rate) ** (users - 1 - c) * comb(users - 1, c)
        for a in range(c + 1):
            p[a + 1, c - a] += left * comb(c, a) / 2**c
            q[a, c - a + 1] += left * comb(c, a) / 2**c
    return aligned(p, q)


def aligned(p: dict[Histogram, Fraction], q: dict[Histogram, Fraction]) -> Pair:
    """Both laws on the same points; points of no mass are left out."""
    points = sorted(x for x in {*p, *q} if p.get(x, 0) or q.get(x, 0))
    zero = Fraction(0)
    return [p.get(x, zero) for x in points], [q.get(x, zero) for x in points]


def with_report(law: Law, row: Row) -> Law:
    """The law of the histogram after one more report."""
    found: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    for counts, mass in law.items():
        for y, chance in enumerate(row):
            if chance:
                found[(*counts[:y], counts[y] + 1, *counts[y + 1 :])] += mass * chance
    return dict(found)


def reports(matrix: Matrix, others: Sequence[int], first: int = 0, second: int = 1) -> Pair:
    """Exactly what the shuffler of one shared randomizer shows: a histogram of the reports.

    `matrix[x][y]` is the chance of report y on record x; `others` are the records of the others.
    """
    law: Law = {(0,) * len(matrix[0]): Fraction(1)}
    for record in others:
        law = with_report(law, matrix[record])
    return aligned(with_report(law, matrix[first]), with_report(law, matrix[second]))


def places(randomizers: Sequence[Matrix], others: Sequence[int]) -> Pair:
    """The records are mixed first; place i then runs its own randomizer, and all reports are seen.

    This is the model in which the clone rate 1 / odds holds: a randomizer belongs to a place in the
    shuffled order, not to a user.
    """
    laws = [
        average(
            [placed(randomizers, order) for order in set(permutations([victim, *others]))],
        )
        for victim in (0, 1)
    ]
    return aligned(*laws)


def placed(randomizers: Sequence[Matrix], records: Sequence[int]) -> Law:
    """The law of the ordered reports for records in this order."""
    rows = [matrix[record] for matrix, record in zip(randomizers, records, strict=True)]
    outcomes = product(*(range(len(row)) for row in rows))
    return {
        y: prod((row[i] for row, i in zip(rows, y, strict=True)), start=Fraction(1))
        for y in outcomes
    }


def average(laws: Sequence[Law]) -> Law:
    """The equal mixture of several laws."""
    found: defaultdict[Histogram, Fraction] = defaultdict(Fraction)
    for law in laws:
        for point, mass in law.items():
            found[point] += mass / len(laws)
    return dict(found)


def own_labels(matrix: Matrix, users: int) -> Pair:
    """Every user keeps a randomizer with labels that nobody else uses: mixing hides nothing."""
    size = len(matrix[0])
    own = [
        tuple(
            tuple(
                row[y - user * size] if 0 <= y - user * size < size else Fraction(0)
                for y in range(users * size)
            )
            for row in matrix
        )
        for user in range(users)
    ]
    laws = []
    for victim in (0, 1):
        law: Law = {(0,) * (users * size): Fraction(1)}
        for user in range(users):
            law = with_report(law, own[user][victim if user == 0 else 0])
        laws.append(law)
    return aligned(*laws)


def mixture(parts: Sequence[tuple[Fraction, Matrix]]) -> Matrix:
    """The randomizer that draws one of several and reports which, beside its report."""
    records = range(len(parts[0][1]))
    return tuple(tuple(share * y for share, matrix in parts for y in matrix[x]) for x in records)


def randomized_response(categories: int, odds: Fraction) -> Matrix:
    """The k-ary randomizer: the truth with odds to 1 against each other category."""
    scale = odds + categories - 1
    return tuple(
        tuple((odds if x == y else Fraction(1)) / scale for y in range(categories))
        for x in range(categories)
    )


def binary(users: int, odds: Fraction, ones: int = 0) -> Pair:
    """Binary randomized response; `ones` of the others hold 1, the rest 0; the victim 0 or 1."""
    return reports(randomized_response(2, odds), [1] * ones + [0] * (users - 1 - ones))


def ternary(users: int, odds: Fraction) -> Pair:
    """Ternary randomized response; the victim holds 0 or 1, all others the third symbol."""
    return reports(randomized_response(3, odds), [2] * (users - 1))


def staircases(records: int, odds: Fraction) -> Iterator[Matrix]:
    """Every extremal randomizer on that many records: a column is a multiple of {1, odds}-entries.

    The multipliers solve the equations "every row sums to one" with at most as many columns as
    rows. Every local_epsilon-LDP randomizer is, up to merging of reports, a `mixture` of these.
    """
    patterns = [p for p in product((Fraction(1), odds), repeat=records) if len(set(p)) > 1]
    patterns.append((Fraction(1),) * records)
    seen: set[frozenset[tuple[Row, Fraction]]] = set()
    for columns in combinations(patterns, records):
        weights = solved([list(row) for row in zip(*columns, strict=True)])
        if weights is None or min(weights) < 0:
            continue
        kept = [(c, weight) for c, weight in zip(columns, weights, strict=True) if weight > 0]
        if frozenset(kept) in seen:
            continue
        seen.add(frozenset(kept))
        yield tuple(tuple(column[x] * weight for column, weight in kept) for x in range(records))


def solved(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of rows * weights = 1, or None if it is not unique."""
    size = len(rows)
    table = [[*row, Fraction(1)] for row in rows]
    for i in range(size):
        pivot = next((r for r in range(i, size) if table[r][i]), None)
        if pivot is None:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [value / table[i][i] for value in table[i]]
        for r in range(size):
            if r != i and table[r][i]:
                factor = table[r][i]
                table[r] = [a - factor * b for a, b in zip(table[r], table[i], strict=True)]
    return [row[-1] for row in table]


def datasets(users: int, records: int) -> Iterator[tuple[int, ...]]:
    """What the others may hold, up to order."""
    return combinations_with_replacement(range(records), users - 1)


def knots(pair: Pair) -> list[tuple[Fraction, Fraction]]:
    """Corners (false-positive rate, false-negative rate) of the trade-off function of (P, Q).

    H0 is P and H1 is Q: reject where Q / P is large. Points of equal ratio are one segment.
    """
    segments: defaultdict[tuple[int, Fraction], list[Fraction]] = defaultdict(
        lambda: [Fraction(0), Fraction(0)]
    )
    for p, q in zip(*pair, strict=True):
        key = (0, Fraction(0)) if p == 0 else (1, -q / p)
        segments[key][0] += p
        segments[key][1] += q
    alpha, beta = Fraction(0), Fraction(1)
    corners = [(alpha, beta)]
    for key in sorted(segments):
        alpha, beta = alpha + segments[key][0], beta - segments[key][1]
        corners.append((alpha, beta))
    if corners[1][0] == 0:  # a jump at 0 is no corner of the curve itself
        corners = corners[1:]
    if corners[-1][1] == 0 == corners[-2][1]:
        corners = corners[:-1]
    return corners
