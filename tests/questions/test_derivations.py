"""Derivations are made when they are first asked for, and look like the tuples that they stand for."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.registry import Bound, PairCounts, bounds_for
from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.bracket import Side
from sharpdp.errors import Inapplicable
from sharpdp.numerics.special import Array
from sharpdp.profile.composition import Composition
from sharpdp.questions.calibrate import Reading
from sharpdp.questions.derivations import Derivations
from sharpdp.questions.targets import Target

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
    assert "derivations" not in repr(answer)
    assert asked == []
    assert len(answer.upper_derivations) == 2
    assert {name for name, _ in asked} == {"random_allocation_upper", "revealed_allocation_upper"}
    assert len(list(finer.upper_derivations)) == 2
    assert all(name.endswith("_upper") for name, _ in asked)
    list(answer.upper_derivations)  # those that were made already
    assert len(asked) == 2


def test_calibration_makes_the_lower_side_only_for_its_last_answer(
    asked: list[tuple[str, float]],
) -> None:
    dp.calibrate(lambda s: dp.DPSGD(BINS, noise_multiplier=s), epsilon=2.0, delta=1e-5)
    # the bound of Poisson batches, which says where to look, is both sides at once
    quick = {"poisson_batches_tight"}
    own = {"random_allocation_upper", "revealed_allocation_upper"}
    names = [name for name, _ in asked]
    assert set(names) == quick | own | {"random_allocation_lower"}
    trials = names[: names.index("random_allocation_lower")]
    assert len(trials) > 4
    assert names.count("random_allocation_lower") <= 2


def test_calibration_drops_what_is_far_behind(asked: list[tuple[str, float]]) -> None:
    dp.calibrate(lambda s: dp.DPSGD(BINS, noise_multiplier=s), epsilon=2.0, delta=1e-5)
    names = [name for name, _ in asked]
    assert names.count("revealed_allocation_upper") < names.count("random_allocation_upper")


def test_calibration_drops_what_is_behind_fine_answers(asked: list[tuple[str, float]]) -> None:
    """Blocks that are revealed are a few percent behind: that is enough where answers are fine."""
    steps = dp.RandomAllocation(steps=20, participations=5)
    dp.calibrate(lambda s: dp.DPSGD(steps, noise_multiplier=s), epsilon=6.0, delta=1e-6)
    fine = [name for name, width in asked if width < 1e-3]
    assert fine.count("random_allocation_upper") < fine.count("several_steps_upper")


def test_what_declines_when_it_is_asked_is_no_derivation() -> None:
    """Of each of two parts only one bound has pairs, and the reason of the other is kept."""
    small = dp.DPSGD(
        dp.ShuffledBatches(dataset_size=100, batch_size=10, epochs=2), noise_multiplier=0.5
    )
    names = [bound.name for bound in bounds_for(small)]
    assert {"null_record_clones_upper", "displaced_example_upper"} <= set(names)
    upper = Derivations(small + small, dp.Adjacency.ZERO_OUT, Side.UPPER)
    (only,) = upper
    assert [bound.name for bound in only.bounds] == ["revealed_order_upper"]
    assert upper.names == (("revealed_order_upper",),)
    assert upper.declined == {
        "displaced_example_upper": "batches are too small, or there is too little noise, to hide who "
        "gives way",
        "null_record_clones_upper": "with this noise, and so many batches, no clones can be expected",
    }


def test_a_search_takes_back_what_it_left_out_where_the_rest_declines() -> None:
    """Near the target the bound that is left was far behind others, which decline here."""
    small = dp.DPSGD(
        dp.ShuffledBatches(dataset_size=100, batch_size=10, epochs=2), noise_multiplier=0.5
    )
    target = Target("epsilon", 20.0, 1e-5)
    behind = Reading(target, None, behind={("revealed_order_upper",)})
    assert behind.excess(small, 0.1) == Reading(target, None).excess(small, 0.1)


def test_where_every_upper_bound_declines_nothing_is_known_from_above(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Bound.__call__

    def call(self: Bound, *of: Any, **options: Any) -> PairCounts:
        if Side.UPPER in self.sides:
            raise Inapplicable("nothing here")
        return original(self, *of, **options)

    monkeypatch.setattr(Bound, "__call__", call)
    epsilon, delta = (dp.account(RUN).epsilon(delta=1e-5), dp.account(RUN).delta(epsilon=1.0))
    assert (epsilon.upper, delta.upper) == (np.inf, 1.0)
    assert epsilon.lower > 0.0
    assert Reading(Target("epsilon", 2.0, 1e-5), None).excess(RUN, 0.1) == (np.inf, np.inf)


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


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Composition, int]]:
    """Which compositions were asked for deltas, one direction each, and at how many epsilons."""
    calls: list[tuple[Composition, int]] = []
    original = Composition.log_deltas

    def log_deltas(self, epsilons, width):  # type: ignore[no-untyped-def]
        calls.append((self, epsilons.size))
        return original(self, epsilons, width)

    monkeypatch.setattr(Composition, "log_deltas", log_deltas)
    return calls


SHUFFLED = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=60_000, batch_size=60, epochs=10), noise_multiplier=1.0
)


def test_of_lower_sides_that_are_alike_one_is_asked(
    questions: list[tuple[Composition, int]],
) -> None:
    # the ratio tests include the sets of the largest batch, up to rounding
    answer = dp.account(SHUFFLED)
    largest, ratio = (derivation.composition for derivation in answer.lower_derivations)
    answer.delta(epsilon=5.0)
    runs = [run for run, _ in questions]
    assert ratio in runs
    assert largest not in runs


def test_upper_sides_that_reveal_more_are_not_asked(
    questions: list[tuple[Composition, int]],
) -> None:
    scheme = dp.ShuffledBatches(dataset_size=60_000, batch_size=60, epochs=10, left_out=1)
    answer = dp.account(dp.DPSGD(scheme, noise_multiplier=0.69))
    _, clones, seat = answer.upper_derivations
    assert clones.bounds[0].name == "null_record_clones_upper"
    upper = answer.delta(epsilon=15.0).upper
    assert clones.composition not in [run for run, _ in questions]
    assert upper < answer.only(clones).delta(epsilon=15.0).upper
    assert upper <= answer.only(seat).delta(epsilon=15.0).upper


def test_a_direction_that_is_far_behind_is_not_asked_at_all_values(
    questions: list[tuple[Composition, int]],
) -> None:
    answer, epsilons = dp.account(SHUFFLED), np.linspace(0.0, 12.0, 41)
    back = answer.lower_derivations[1].composition.reverse()
    many = answer.delta(epsilon=epsilons)
    assert max(size for run, size in questions if run == back) < 20
    for index in (0, 3, 20, 40):  # at zero both directions are alike
        one = answer.delta(epsilon=float(epsilons[index]))
        assert many.lower[index] == pytest.approx(one.lower, rel=2e-3)
        assert many.upper[index] == pytest.approx(one.upper, rel=2e-3)


def test_what_is_far_behind_is_looked_at_by_quicker_pairs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: set[float] = set()
    original = ShufflePair.call_and_tails

    def call(self: ShufflePair, loss: Array) -> Array:
        errors.add(self.error)
        return original(self, loss)

    monkeypatch.setattr(ShufflePair, "call_and_tails", call)
    response = dp.RandomizedResponse(local_epsilon=2.0123, categories=6)
    answer = dp.account(dp.ShuffledReports(users=10_000, randomizer=response))
    (own,) = (way for way in answer.upper_derivations if way.bounds[0].name == "own_blanket_upper")
    alone = answer.only(own).epsilon(delta=1e-6)
    assert answer.epsilon(delta=1e-6).upper == alone.upper
    assert errors == {1e-3}  # that of the pair that plans


def test_what_is_ahead_is_asked() -> None:
    """Of very many users the bound on any randomizer is sharper than the randomizer's own blanket."""
    response = dp.RandomizedResponse(local_epsilon=1.0, categories=3)
    answer = dp.account(dp.ShuffledReports(users=10**8, rounds=50, randomizer=response))
    uppers = {
        way.bounds[0].name: float(answer.only(way).epsilon(delta=1e-20).upper)
        for way in answer.upper_derivations
    }
    assert uppers["shared_clones_upper"] < 0.9 * uppers["own_blanket_upper"]
    assert float(answer.epsilon(delta=1e-20).upper) <= uppers["shared_clones_upper"] * (1 + 1e-9)


def test_a_theorem_that_breaks_is_no_end_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iteration by index would take its IndexError for the end, and answer from nothing."""

    def broken(self: Bound, *asked: object, **named: object) -> PairCounts:
        raise IndexError("out of bounds")

    answer = dp.account(RUN)
    monkeypatch.setattr(Bound, "__call__", broken)
    with pytest.raises(IndexError, match="out of bounds"):
        answer.epsilon(delta=1e-5)
