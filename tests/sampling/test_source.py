"""Random words from a key: where they come from, and that what is made of them is uniform."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

from sharpdp.randomness.keyed_stream import KeyedStream
from tests.sampling.chances import KEY, assert_binomial, assert_law


def test_words_are_shake_256_of_the_key_and_a_counter() -> None:
    """The construction, spelled out once more: another program can make the same words."""
    state = hashlib.shake_256(KEY).digest(32)
    child = hashlib.shake_256(hashlib.shake_256(state + b"derive('a', 3)").digest(32)).digest(32)
    source = KeyedStream(KEY).derive("a", 3)
    for turn in (b"1", b"2"):
        words = hashlib.shake_256(child + b"output" + turn).digest(16)
        assert source.integer(128) == int.from_bytes(words, "little")


def test_keys_and_labels_are_kept_apart() -> None:
    sources = [
        KeyedStream(KEY),
        KeyedStream(KEY[:-1]),
        KeyedStream(KEY).derive("a", 1),
        KeyedStream(KEY).derive("a1"),
        KeyedStream(KEY).derive("a", "1"),
        KeyedStream(KEY).derive("a").derive(1),
        KeyedStream(KEY).derive(1, "a"),
    ]
    assert len({source.integer(128) for source in sources}) == len(sources)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 10])
def test_small_numbers_are_uniform(bound: int) -> None:
    drawn = KeyedStream(KEY).derive(bound).below(bound, 20_000)
    assert_law(drawn.tolist(), dict.fromkeys(range(bound), 1 / bound))


@pytest.mark.parametrize("bound", [2**31 + 1, 2**32, 2**32 + 1, 2**62 + 1, 2**63])
def test_large_numbers_are_uniform(bound: int) -> None:
    """Just above a power of two half of all words are left out; none reaches the bound."""
    drawn = KeyedStream(KEY).derive(bound).below(bound, 20_000)
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert int(drawn.max()) < bound
    eighths = np.bincount(drawn // (bound // 8 + 1), minlength=8)
    sizes = np.diff([min(part * (bound // 8 + 1), bound) for part in range(9)])
    assert_binomial(eighths, drawn.size, sizes.astype(float) / bound, comparisons=8)
    assert_binomial(np.sum(drawn % 2), drawn.size, (bound // 2) / bound)


def test_numbers_in_a_row_are_independent() -> None:
    drawn = KeyedStream(KEY).below(3, 40_000).tolist()
    pairs = zip(drawn[0::2], drawn[1::2], strict=True)
    assert_law(pairs, dict.fromkeys(itertools.product(range(3), repeat=2), 1 / 9))


@pytest.mark.parametrize(("total", "size"), [(4, 0), (4, 1), (5, 2), (5, 3), (5, 5), (6, 4)])
def test_every_subset_is_equally_likely(total: int, size: int) -> None:
    every = list(itertools.combinations(range(total), size))
    drawn = (
        tuple(KeyedStream(KEY).derive(total, size, turn).subset(total, size).tolist())
        for turn in range(8000)
    )
    assert_law(drawn, dict.fromkeys(every, 1 / len(every)))


@pytest.mark.parametrize(("total", "size"), [(10**18, 1000), (3000, 1499), (3000, 1501)])
def test_subsets_ascend(total: int, size: int) -> None:
    drawn = KeyedStream(KEY).subset(total, size)
    assert drawn.size == size
    assert drawn.dtype == np.int64
    assert np.all(np.diff(drawn) > 0)
    assert 0 <= drawn[0] <= drawn[-1] < total
    low = np.sum(drawn < total // 2)
    assert_binomial(low, size, 0.5)  # a hypergeometric law is narrower than the binomial one
