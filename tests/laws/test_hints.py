"""Hints of pairs are true: what is ignored by whoever likes must not mislead whoever does not."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.errors import Inapplicable
from sharpdp.pairs.pair import (
    NO_HINTS,
    Pair,
    for_composition,
    for_few_thresholds,
    for_planning,
    log_deltas_of,
    revealing_no_less,
)
from tests.laws.registered import Subject, some, subjects

AT = np.array([0.01, 0.1, 0.3, 1.0, 3.0])
BEYOND = -200.0
"""Logarithms of values below this are not looked at."""


def pairs_of(subject: Subject) -> list[tuple[Pair, tuple[Side, ...]]]:
    """The pairs of all theorems about a mechanism, both ways, with the sides that they bound."""
    found: list[tuple[Pair, tuple[Side, ...]]] = []
    for mechanism in some(subject, 31, 1):
        for bound in dp.all_bounds():
            if bound.applies_to(mechanism):
                with suppress(Inapplicable):
                    made = bound(mechanism, bound.adjacency[0])
                    found += [(pair, bound.sides) for pair, _ in made]
    return [(one, sides) for pair, sides in found for one in (pair, pair.reverse())]


def logs(pair: Pair, end: int) -> np.ndarray:
    """Lower or upper ends of log delta."""
    return np.maximum(log_deltas_of(pair, AT)[end], BEYOND)


@pytest.mark.underflows
@pytest.mark.parametrize("subject", subjects(), ids=str)
def test_hints_are_true(subject: Subject) -> None:
    for pair, sides in pairs_of(subject):
        hints = pair.hints
        variation = np.exp(log_deltas_of(pair, np.zeros(1))[1][0])
        assert 0.0 <= hints.least_total_variation <= variation
        assert np.exp(log_deltas_of(pair, np.zeros(1))[0][0]) <= hints.chance_of_loss() <= 1.0
        for unbounded, end in zip(hints.unbounded, pair.support, strict=True):
            assert not unbounded or np.isinf(end)
        high = pair.accurate_range[1]
        at = np.minimum(AT, high)
        values = pair.log_hockey_stick(at)
        for first, second, loss, later in zip(
            values[:-1], values[1:], at[:-1], at[1:], strict=True
        ):
            rate = hints.tail_rate(float(loss))
            if second > BEYOND:
                assert second <= first - rate * (later - loss) + 1e-9
        assert np.all(logs(revealing_no_less(pair), 1) >= logs(pair, 0))
        composed = for_composition(pair)
        if Side.LOWER not in sides:
            assert np.all(logs(composed, 1) >= logs(pair, 0) - 1e-9)
        if Side.UPPER not in sides:
            assert np.all(logs(composed, 0) <= logs(pair, 1) + 1e-9)
        planned, known = logs(for_planning(pair), 1), logs(pair, 1)
        near = known > -30.0
        assert np.all(np.abs(planned - known)[near] <= 0.5)
        about = hints.about_epsilon(-10.0)
        if about is not None:
            assert log_deltas_of(pair, np.array([about]))[0][0] == pytest.approx(-10.0, rel=1e-3)


def test_who_says_nothing_has_no_hints() -> None:
    class Plain(Pair):
        def log_hockey_stick(self, loss: np.ndarray) -> np.ndarray:
            return np.where(loss < 0.5, -1.0, -np.inf)

        log_tail_q = log_tail_p = log_hockey_stick

    plain = Plain()
    assert plain.hints is NO_HINTS
    quicker = (for_composition, for_planning, for_few_thresholds, revealing_no_less)
    assert all(ask(plain) is plain for ask in quicker)
    back = plain.reverse()
    assert all(ask(back) is back for ask in quicker)
