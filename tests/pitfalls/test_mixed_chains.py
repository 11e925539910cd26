"""Chains of neighbors whose links are a pair in either order: no attack on the ends beats the bound."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import sharpdp as dp

Law = list[Fraction]
Pmfs = tuple[Law, Law]

ROUNDING = 1e-9
"""Bounds are rounded up, exact fractions are not."""


def ratio(p: Fraction, q: Fraction) -> tuple[bool, Fraction]:
    """The likelihood ratio as something that sorts, infinite ones last."""
    return (True, Fraction(0)) if q == 0 else (False, p / q)


def profile(p: Law, q: Law, x: Fraction) -> Fraction:
    return sum((max(a - x * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def is_dominated(first: Pmfs, second: Pmfs) -> bool:
    """Whether no test tells the first two laws better apart: their profiles at all kinks."""
    kinks = {a / b for laws in (first, second) for a, b in zip(*laws, strict=True) if b}
    return all(profile(*first, x) <= profile(*second, x) for x in {Fraction(0), *kinks})


def best_tests(p: Law, q: Law) -> list[tuple[Fraction, Fraction]]:
    """The corners of the curve of best tests of P against Q: (Q-mass, P-mass), rising."""
    order = sorted(zip(p, q, strict=True), key=lambda cell: ratio(*cell), reverse=True)
    corners = [(Fraction(0), Fraction(0))]
    for a, b in order:
        corners.append((corners[-1][0] + b, corners[-1][1] + a))
    return corners


def at(corners: list[tuple[Fraction, Fraction]], place: Fraction, *, last: bool) -> Fraction:
    """The curve at one place; at a jump its upper or its lower end."""
    found = None
    for (x, y), (next_x, next_y) in itertools.pairwise(corners):
        if x <= place <= next_x:
            share = (place - x) / (next_x - x) if next_x > x else Fraction(int(last))
            found = y + share * (next_y - y)
            if not last:
                return found
    assert found is not None
    return found


def chain(links: list[Pmfs]) -> list[Law]:
    """Laws P_0, ..., P_n such that (P_{i-1}, P_i) has the best tests of link i: all of one event each.

    An event [0, u] has u of the law in the middle; its mass under the laws before and after it follows
    from the curves of best tests, one link after the other.
    """
    curves = [best_tests(*link) for link in links]
    inverses = [[(y, x) for x, y in curve] for curve in curves]
    # masses (P_0, ..., P_n) of a growing family of events: all corners, seen from both ends of jumps
    events: set[tuple[Fraction, ...]] = set()
    for index, curve in enumerate(curves):
        for mass, better in curve:
            for last in (False, True):
                before, after = [better], [mass]
                for earlier in reversed(curves[:index]):
                    before.append(at(earlier, before[-1], last=last))
                for later in inverses[index + 1 :]:
                    after.append(at(later, after[-1], last=not last))
                events.add((*reversed(before), *after))
    ordered = sorted(events)
    assert all(
        a <= b for one, two in itertools.pairwise(ordered) for a, b in zip(one, two, strict=True)
    )
    cells = [
        [b - a for a, b in zip(one, two, strict=True)] for one, two in itertools.pairwise(ordered)
    ]
    return [list(law) for law in zip(*cells, strict=True)]


def random_law(rng: np.random.Generator, size: int) -> Law:
    masses = rng.integers(0, 9, size)
    masses[rng.integers(size)] += 1
    return [Fraction(int(mass), int(masses.sum())) for mass in masses]


def renyi(p: Law, q: Law, order: float) -> float:
    if any(b == 0 < a for a, b in zip(p, q, strict=True)):
        return math.inf
    moment = sum(
        float(a) ** order * float(b) ** (1.0 - order) for a, b in zip(p, q, strict=True) if a
    )
    return math.log(moment) / (order - 1.0)


def best_tpr(p: Law, q: Law, fpr: Fraction) -> Fraction:
    return at(best_tests(p, q), fpr, last=True)


def given(pair: Pmfs) -> dp.FinitePair:
    p, q = ([float(mass) for mass in law] for law in pair)
    return dp.FinitePair(p=p, q=q)


def assert_above(answer: dp.Guarantee, p: Law, q: Law) -> None:
    """No attack on these two laws is better than what the answer allows."""
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        exact = float(profile(p, q, Fraction(math.exp(epsilon))))
        assert answer.delta(epsilon=epsilon).upper >= exact - ROUNDING, epsilon
    for fpr in (Fraction(0), Fraction(1, 1000), Fraction(1, 100), Fraction(1, 5)):
        upper = answer.tpr(fpr=float(fpr)).upper
        assert upper >= float(best_tpr(p, q, fpr)) - ROUNDING, fpr
    for order in (1.1, 2.0, 8.0):
        upper = answer.renyi(order=order).upper
        assert upper >= renyi(p, q, order) * (1.0 - ROUNDING), order


@pytest.mark.parametrize("seed", range(40))
def test_no_chain_of_either_order_beats_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, links = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    pair = random_law(rng, size), random_law(rng, size)
    answer = dp.account(given(pair), group_size=links)
    for order in itertools.product((pair, pair[::-1]), repeat=links):
        laws = chain(list(order))
        for link, both in zip(order, itertools.pairwise(laws), strict=True):
            assert is_dominated(both, link)
        assert_above(answer, laws[0], laws[-1])


def test_disjoint_inputs_two_links_apart() -> None:
    """A and C never give the same result, though each looks like B as much as the pair allows."""
    pair = dp.FinitePair(p=[1 / 8, 0, 7 / 8], q=[1 / 8, 5 / 8, 1 / 4])
    eighths = [[7, 1, 0, 0, 0], [2, 1, 2, 1, 2], [0, 0, 0, 1, 7]]
    first, middle, last = ([Fraction(mass, 8) for mass in law] for law in eighths)
    link = tuple([Fraction(mass) for mass in law] for law in (pair.p, pair.q))
    assert is_dominated((first, middle), link)
    assert is_dominated((last, middle), link)
    assert dp.account(pair, group_size=2).delta(epsilon=3.0).upper == 1.0


@pytest.mark.parametrize(
    "mechanism",
    [
        dp.FinitePair(p=[0.5, 0.5], q=[0.01, 0.99]),
        dp.PrivacyLoss(losses=[math.log(50), math.log(50 / 99)], masses=[0.5, 0.5]),
        dp.TradeoffCurve.from_knots(fpr=[0, 0.01, 1], fnr=[1, 0.5, 0]),
        dp.Mixture(
            components=[dp.FinitePair(p=[1, 0], q=[1, 0]), dp.FinitePair(p=[0, 1], q=[0, 1])],
            weights=[0.5, 0.5],
            other_weights=[0.01, 0.99],
        ),
        dp.mechanisms.DiscreteRandomizer([[0.5, 0.5], [0.01, 0.99]]),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_every_given_pair_is_chained_in_both_orders(mechanism: dp.Mechanism) -> None:
    """From Q to P and back to Q: (0.01, 0.99), (0.5, 0.5), (0.99, 0.01)."""
    answer = dp.account(mechanism, group_size=2)
    first, last = [Fraction(99, 100), Fraction(1, 100)], [Fraction(1, 100), Fraction(99, 100)]
    assert_above(answer, first, last)
    # the order in which all links point from P to Q is there, too
    apart = chain([([Fraction(1, 2)] * 2, last)] * 2)
    assert_above(answer, apart[0], apart[-1])
    assert_above(answer, apart[-1], apart[0])


def test_links_of_added_records_all_point_one_way() -> None:
    """Add/remove and zero-out have no chain back and forth, and keep their sharper bounds."""
    pair = dp.FinitePair(p=[0.5, 0.5], q=[0.01, 0.99])
    for adjacency in ("add/remove", "zero-out"):
        answer = dp.account(pair, group_size=2, adjacency=adjacency).tpr(fpr=0.01)
        # the event of mass 0.01 has 0.5, and that one 0.5 + 0.49 * 0.5 / 0.99
        assert answer.upper == pytest.approx(0.5 + 0.49 * 0.5 / 0.99, abs=1e-6)


@pytest.mark.parametrize("seed", range(100, 106))
def test_orders_may_differ_from_round_to_round(seed: int) -> None:
    """Two rounds, two links each, and every order of every link."""
    rng = np.random.default_rng(seed)
    pair = random_law(rng, 3), random_law(rng, 3)
    answer = dp.account(given(pair) * 2, group_size=2)
    ends = []
    for order in itertools.product((pair, pair[::-1]), repeat=2):
        laws = chain(list(order))
        ends.append((laws[0], laws[-1]))
    for first, second in itertools.product(ends, repeat=2):
        p, q = ([a * b for a in one for b in two] for one, two in zip(first, second, strict=True))
        assert_above(answer, p, q)
