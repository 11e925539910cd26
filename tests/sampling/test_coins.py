"""Coins and numbers made of random words, at the words that decide."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from sharpdp.learn.randomizers.coin_thresholds import truth_threshold
from sharpdp.randomness.system_stream import SystemStream
from tests.reference.digits import DIGITS, mp


def scripted(*words: int) -> SystemStream:
    """A source that is not random: it gives these words, one after the other."""
    rest = list(words)

    def draw(count: int) -> np.ndarray:
        some, rest[:] = rest[:count], rest[count:]
        return np.array(some, dtype=np.uint64)

    return SystemStream(draw)


def test_words_that_hold_some_remainders_more_often_are_drawn_again() -> None:
    """2^64 is 1 modulo 3: its last word would make a fourth kind of remainder."""
    assert scripted(2**64 - 1, 5).below(3, 1).tolist() == [2]
    assert scripted(2**64 - 2).below(3, 1).tolist() == [2]
    assert scripted(0, 1, 7, 8).coins(np.array([0, 1, 8, 8], dtype=np.uint64)).tolist() == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("categories", [2, 3, 10])
def test_the_truth_is_told_no_more_often_than_the_budget_allows(categories: int) -> None:
    for budget in (0.1, 0.7, 1.0, 2.3, 5.0):
        truth = truth_threshold(budget, categories)
        with mpmath.workdps(DIGITS):
            for told, allowed in ((truth, True), (truth + 2, False)):
                odds = mpmath.mpf(told) * (categories - 1) / (2**64 - told)
                assert (odds <= mpmath.exp(mp(budget))) is allowed
