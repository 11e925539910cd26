"""A shuffle buffer: its output against the loop that loaders run, its laws, and an attack on its runs.

Each test of a law would fail with probability at most 1e-9 if its key were drawn anew.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import sharpdp as dp
from sharpdp.batches.buffered import buffered_order
from sharpdp.bounds.shuffled_batches.buffered import likeliest_batch, windows
from sharpdp.randomness.keyed_stream import KeyedStream
from tests.sampling.chances import (
    FALSE_ALARM,
    KEY,
    as_sets,
    assert_binomial,
    assert_law,
    occurrences,
)
from tests.sampling.test_attacks import EPSILON, NOISE, margin, success, up_by


def loader(examples: int, draws: list[int], rest: list[int]) -> list[int]:
    """What tf.data and others do, with these slots and this order of what is left at the end."""
    slots = len(rest)
    buffer, stream, output = list(range(slots)), iter(range(slots, examples)), []
    for slot in draws:
        output.append(buffer[slot])
        buffer[slot] = next(stream)
    return output + [buffer[slot] for slot in rest]


@pytest.mark.parametrize(("examples", "slots"), [(4, 2), (4, 3), (3, 3), (4, 1), (3, 9)])
def test_orders_follow_the_law_of_the_loop(examples: int, slots: int) -> None:
    """Every choice of slots of a short stream, counted, against 3000 epochs."""
    held = min(slots, examples)
    every = Counter(
        tuple(loader(examples, list(draws), list(rest)))
        for draws in itertools.product(range(held), repeat=examples - held)
        for rest in itertools.permutations(range(held))
    )
    law = {order: times / sum(every.values()) for order, times in every.items()}
    plan = dp.BufferedShuffle(dataset_size=examples, batch_size=1, epochs=3000, buffer_size=slots)
    outputs = [batch[0] for batch in as_sets(plan.batches(KEY))]
    found = [tuple(outputs[at : at + examples]) for at in range(0, len(outputs), examples)]
    assert_law(found, law)


def test_an_order_is_what_the_loop_gives_for_its_slots() -> None:
    for turn in range(50):
        source = KeyedStream(KEY).derive(turn)
        order = buffered_order(source, 200, 17).tolist()
        again = KeyedStream(KEY).derive(turn)
        draws = again.below(17, 183).tolist()
        through = loader(200, draws, list(range(17)))
        assert order[:183] == through[:183]
        assert sorted(order[183:]) == sorted(through[183:])


def test_when_examples_come_out() -> None:
    """Nobody early; geometric waiting while the stream lasts; the last one anywhere at the end."""
    plan = dp.BufferedShuffle(dataset_size=30, batch_size=1, epochs=4000, buffer_size=6)
    places = np.array([batch[0] for batch in as_sets(plan.batches(KEY))]).reshape(-1, 30).argsort(1)
    positions = np.arange(30)
    assert np.all(places >= positions - 5)
    for position in (0, 10):
        start = max(position - 5, 0)
        for wait in range(5):
            chance = (5 / 6) ** wait / 6
            assert_binomial(np.sum(places[:, position] == start + wait), 4000, chance, 10)
    for place in range(24, 30):
        assert_binomial(np.sum(places[:, 29] == place), 4000, 1 / 6, comparisons=6)


@pytest.mark.parametrize(
    ("size", "batch", "slots"), [(30, 4, 6), (24, 4, 8), (19, 4, 10), (9, 4, 3)]
)
def test_the_chances_that_bounds_use(size: int, batch: int, slots: int) -> None:
    plan = dp.BufferedShuffle(dataset_size=size, batch_size=batch, epochs=3000, buffer_size=slots)
    members = occurrences(plan).reshape(3000, -1, size)
    counts = members[:, :, size - 1].sum(axis=0)
    for batches, rate in windows(plan):
        assert np.sum(counts >= stats.binom.ppf(FALSE_ALARM / 9, 3000, rate)) >= batches
        assert batches * rate <= 1.0 + 1e-12
    likeliest = max(members[:, 0, 0].sum(), members[:, -1, size - 1].sum())
    assert_binomial(likeliest, 3000, min(likeliest_batch(plan) * (1 + 2e-12), 1.0))


@pytest.mark.parametrize("slots", [2, 4, 6, 8])
def test_an_attack_on_the_last_example_stays_within_the_bracket(slots: int) -> None:
    """Eight examples in batches of two; all others have gradient -1, the last one +1 or none."""
    runs, size, batch = 4000, 8, 2
    many = dp.BufferedShuffle(dataset_size=size, batch_size=batch, epochs=runs, buffer_size=slots)
    members = occurrences(many).reshape(runs, 4, size)
    first = 4 - slots // batch

    def ratio(x: np.ndarray) -> np.ndarray:
        seen = x[:, first:] + batch
        return np.asarray(logsumexp(up_by(2, seen), axis=1) - logsumexp(up_by(1, seen), axis=1))

    rng, shares = np.random.default_rng(1), []
    for contribution in (1.0, 0.0):
        gradients = np.full(size, -1.0)
        gradients[-1] = contribution
        shares.append(success(members, gradients, ratio, rng))
    found = np.mean(shares[0]) - math.exp(EPSILON) * np.mean(shares[1])
    off = margin(shares[0]) + math.exp(EPSILON) * margin(shares[1])
    one = dp.BufferedShuffle(dataset_size=size, batch_size=batch, epochs=1, buffer_size=slots)
    delta = dp.account(dp.DPSGD(one, noise_multiplier=NOISE)).delta(epsilon=EPSILON)
    assert off < 0.1
    assert delta.lower - off <= found <= delta.upper + off


def test_smaller_buffers_reveal_more_than_whole_orders() -> None:
    """The lower side is never below that of a whole shuffle, and exact where the batch is known."""
    sizes = {"dataset_size": 1200, "batch_size": 100, "epochs": 5}
    whole = dp.account(dp.DPSGD(dp.ShuffledBatches(**sizes), noise_multiplier=1.0))
    least = whole.epsilon(delta=1e-5).lower
    for slots in (50, 100, 130, 400, 1200, 5000):
        plan = dp.BufferedShuffle(**sizes, buffer_size=slots)
        bracket = dp.account(dp.DPSGD(plan, noise_multiplier=1.0)).epsilon(delta=1e-5)
        assert bracket.lower >= least * (1 - 1e-3)
        if slots <= 100:
            assert bracket.upper - bracket.lower <= 1e-3 * bracket.upper
