"""Trade-off functions by brute force: every subset of outcomes as a rejection region, randomized."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

Pmf = Sequence[Fraction]


def rejection_regions(null: Pmf, alternative: Pmf) -> list[tuple[Fraction, Fraction]]:
    """(false-positive rate, false-negative rate) of every deterministic test."""
    outcomes = range(len(null))
    subsets = itertools.chain.from_iterable(
        itertools.combinations(outcomes, size) for size in range(len(null) + 1)
    )
    return [
        (
            sum((null[i] for i in region), Fraction(0)),
            1 - sum((alternative[i] for i in region), Fraction(0)),
        )
        for region in subsets
    ]


def tradeoff(null: Pmf, alternative: Pmf, fpr: Fraction) -> Fraction:
    """The smallest false-negative rate at fpr: a coin between two deterministic tests is enough."""
    points = rejection_regions(null, alternative)
    best = min(y for x, y in points if x <= fpr)
    for (x, y), (u, v) in itertools.product(points, repeat=2):
        if x < fpr < u:
            best = min(best, y + (v - y) * (fpr - x) / (u - x))
    return best


def hockey_stick(one: Pmf, other: Pmf, ratio: Fraction) -> Fraction:
    """sum of (one - ratio other)_+."""
    pairs = zip(one, other, strict=True)
    return sum((max(p - ratio * q, Fraction(0)) for p, q in pairs), Fraction(0))
