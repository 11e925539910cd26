"""Derivations are made when they are first asked for, and look like the tuples that they stand for."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import sharpdp as dp
from sharpdp.accounting import Derivations
from sharpdp.bounds.registry import Bound
from sharpdp.bracket import Side

BINS = dp.BallsAndBins(dataset_size=100, batch_size=10, epochs=2)
RUN = dp.DPSGD(BINS, noise_multiplier=1.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Which theorems were asked for pairs, and how wide these might be."""
    calls: list[tuple[str, float]] = []
    original = Bound.__call__

    def call(self, mechanism, adjacency, *, width):  # type: ignore[no-untyped-def]
        calls.append((self.name, width))
        return original(self, mechanism, adjacency, width=width)

    monkeypatch.setattr(Bound, "__call__", call)
    return calls


def test_pairs_of_training_runs_are_made_by_need(asked: list[tuple[str, float]]) -> None:
    answer = dp.account(RUN)
    finer = replace(answer, relative_width=1e-4)
    assert answer == dp.account(RUN)
    assert answer.lower_derivations
    assert len(answer.upper_derivations) == 2
    assert "derivations" not in repr(answer)
    assert asked == []
    assert len(list(finer.upper_derivations)) == 2
    assert all(name.endswith("_upper") for name, _ in asked)
    list(answer.upper_derivations)  # those that were made already
    assert len(asked) == 2


def test_calibration_never_makes_the_lower_side(asked: list[tuple[str, float]]) -> None:
    dp.calibrate(lambda s: dp.DPSGD(BINS, noise_multiplier=s), epsilon=2.0, delta=1e-5)
    assert {name for name, _ in asked} == {"random_allocation_upper", "revealed_allocation_upper"}


def test_calibration_drops_what_is_far_behind(asked: list[tuple[str, float]]) -> None:
    dp.calibrate(lambda s: dp.DPSGD(BINS, noise_multiplier=s), epsilon=2.0, delta=1e-5)
    names = [name for name, _ in asked]
    assert names.count("revealed_allocation_upper") < names.count("random_allocation_upper")


def test_no_theorem_is_said_at_once() -> None:
    with pytest.raises(dp.Unsupported, match="no theorem"):
        dp.account(
            dp.DPSGD(
                dp.BufferedShuffle(dataset_size=100, batch_size=10, epochs=2, buffer_size=50),
                noise_multiplier=1.0,
            ),
            adjacency="add/remove",
        )


def test_they_equal_tuples_and_copies() -> None:
    answer = dp.account(RUN)
    made = tuple(answer.upper_derivations)
    assert answer.upper_derivations == made
    assert made == answer.upper_derivations
    assert hash(answer.upper_derivations) == hash(made)
    assert repr(answer.upper_derivations) == repr(made)
    assert answer.upper_derivations != made[:1]
    for other in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert other == answer
        assert other.epsilon(delta=1e-5) == dp.account(RUN).epsilon(delta=1e-5)


def test_some_can_be_left_out() -> None:
    notion = dp.Adjacency.ZERO_OUT
    every = Derivations(RUN, notion, Side.UPPER)
    assert every.names == (("random_allocation_upper",), ("revealed_allocation_upper",))
    (only,) = Derivations(RUN, notion, Side.UPPER, without=every.names[:1])
    assert [bound.name for bound in only.bounds] == ["revealed_allocation_upper"]
    assert Derivations(RUN, notion, Side.UPPER, without=every.names) == ()


def test_threads_get_the_same() -> None:
    answer = dp.account(RUN)
    with ThreadPoolExecutor(4) as pool:
        brackets = list(pool.map(lambda _: answer.delta(epsilon=1.0), range(4)))
    alone = dp.account(RUN).delta(epsilon=1.0)
    assert all(
        bracket.lower <= alone.upper and alone.lower <= bracket.upper for bracket in brackets
    )
