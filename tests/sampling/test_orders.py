"""Random orders: bijections at every size, all orders equally likely, networks like held orders."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sharpdp.randomness.keyed_stream import KeyedStream
from sharpdp.randomness.permutation import _Network, random_order
from tests.sampling.chances import KEY, assert_binomial, assert_law

NEVER = 0
"""No order is held: all are networks."""


def orders(size: int, count: int, listed: int) -> list[tuple[int, ...]]:
    places = np.arange(size)
    return [
        tuple(random_order(KeyedStream(KEY).derive(size, turn), size, listed)(places).tolist())
        for turn in range(count)
    ]


def is_even(order: tuple[int, ...]) -> bool:
    """Whether an order is an even number of swaps away from the identity."""
    seen: set[int] = set()
    swaps = 0
    for start in range(len(order)):
        place, length = start, 0
        while place not in seen:
            seen.add(place)
            place, length = order[place], length + 1
        swaps += max(length - 1, 0)
    return swaps % 2 == 0


@pytest.mark.parametrize("size", [*range(2, 40), 99, 100, 101, 1023, 1024, 1025, 4095, 10_007])
def test_a_network_reaches_every_example_once(size: int) -> None:
    found = _Network(KeyedStream(KEY), size)(np.arange(size))
    assert np.array_equal(np.sort(found), np.arange(size))


def test_a_large_order_reaches_every_example_once() -> None:
    size = 2**20 + 1  # the first that is not held
    order = random_order(KeyedStream(KEY), size)
    assert isinstance(order, _Network)
    found = np.concatenate([order(part) for part in np.array_split(np.arange(size), 7)])
    assert np.array_equal(np.sort(found), np.arange(size))
    assert not isinstance(random_order(KeyedStream(KEY), size - 1), _Network)


@pytest.mark.parametrize("size", [10**9, 10**11])
def test_slices_of_a_huge_order_are_disjoint(size: int) -> None:
    order = random_order(KeyedStream(KEY), size)
    both = np.concatenate([order(np.arange(5000)), order(np.arange(size - 5000, size))])
    assert np.unique(both).size == both.size
    assert 0 <= both.min() <= both.max() < size


def test_all_held_orders_are_equally_likely() -> None:
    every = itertools.permutations(range(4))
    assert_law(orders(4, 4000, listed=4), dict.fromkeys(every, 1 / math.factorial(4)))


@pytest.mark.parametrize("size", [4, 5])
def test_networks_of_a_few_places_reach_all_orders_alike(size: int) -> None:
    """The smallest networks are the worst; even theirs are even to within the noise."""
    every = itertools.permutations(range(size))
    found = orders(size, 1500, listed=NEVER)
    assert_law(found, dict.fromkeys(every, 1 / math.factorial(size)))


@pytest.mark.parametrize(("size", "listed"), [(12, 12), (12, NEVER), (37, NEVER), (100, NEVER)])
def test_orders_have_the_marginals_of_uniform_ones(size: int, listed: int) -> None:
    """Where an example lands, where two neighbors land, and whether the order is even."""
    count = 1200
    found = np.array(orders(size, count, listed))
    for place in (0, size // 2, size - 1):
        seen = np.bincount(found[:, place], minlength=size)
        assert_binomial(seen, count, 1 / size, comparisons=3 * size)
    ascents = found[:, 0] < found[:, 1]
    assert_binomial(ascents.sum(), count, 0.5)
    close = np.abs(found[:, 0] - found[:, size - 1]) == 1
    assert_binomial(close.sum(), count, 2 / size)
    even = sum(is_even(tuple(order)) for order in found.tolist())
    assert_binomial(even, count, 0.5)


def test_fixed_points_are_those_of_a_uniform_order() -> None:
    """One on average in a uniform order, none with probability 1/e to within 1/12!."""
    found = np.array(orders(12, 1200, NEVER))
    fixed = np.sum(found == np.arange(12), axis=1)
    assert_binomial(np.sum(fixed == 0), 1200, math.exp(-1))


def test_batches_of_a_large_order_are_spread() -> None:
    """A batch of consecutive places of 10^9 falls evenly into sixteenths, and its digits too."""
    found = random_order(KeyedStream(KEY), 10**9)(np.arange(10_000))
    sixteenths = np.bincount(found // (10**9 // 16), minlength=16)
    assert_binomial(sixteenths, 10_000, 1 / 16, comparisons=16)
    assert_binomial(np.bincount(found % 10), 10_000, 1 / 10, comparisons=10)
    assert_binomial(np.bincount(found // math.isqrt(10**9) % 8), 10_000, 1 / 8, comparisons=8)
