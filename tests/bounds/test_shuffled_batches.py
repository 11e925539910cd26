"""DP-SGD over shuffled batches: which pairs, for which orders and left-overs, and what is never used."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr

import sharpdp as dp
from sharpdp.bounds import bounds_for
from sharpdp.bounds.shuffled_batches.theorems import (
    largest_batch_lower,
    null_record_clones_upper,
    ratio_test_lower,
)

ZERO_OUT = dp.Adjacency.ZERO_OUT


def shuffled(noise: float, **given: object) -> dp.DPSGD:
    sizes = {"dataset_size": 2000, "batch_size": 4, "epochs": 1} | given
    return dp.DPSGD(dp.ShuffledBatches(**sizes), noise_multiplier=noise)


def brackets(run: dp.DPSGD, delta: float = 1e-6) -> dp.Bracket:
    return dp.account(run).epsilon(delta=delta)


def test_everybody_in_one_batch_is_gaussian() -> None:
    for order in ("redrawn", "kept"):
        run = shuffled(1.5, dataset_size=8, batch_size=8, epochs=4, order=order)
        answer = brackets(run)
        same = dp.account(dp.Gaussian(0.75)).epsilon(delta=1e-6)
        assert answer.relative_width < 1e-9
        assert answer.upper == pytest.approx(same.upper, rel=1e-9)


def test_a_kept_order_is_one_epoch_with_less_noise() -> None:
    kept = brackets(shuffled(2.0, epochs=4, order="kept"))
    once = brackets(shuffled(1.0))
    assert kept.lower == pytest.approx(once.lower, rel=1e-8)
    # from above it is no better than its order revealed
    revealed = dp.account(dp.Gaussian(1.0)).epsilon(delta=1e-6)
    assert kept.upper == pytest.approx(revealed.upper, rel=1e-9)
    assert brackets(shuffled(2.0, epochs=4)).upper < kept.lower


def test_orders_matter_only_for_several_epochs() -> None:
    assert brackets(shuffled(3.0, order="kept")).lower == brackets(shuffled(3.0)).lower
    assert brackets(shuffled(3.0, order="kept")).upper == brackets(shuffled(3.0)).upper


@pytest.mark.parametrize("drop_last", [False, True])
def test_left_over_examples(drop_last: bool) -> None:
    """A record that is in no whole batch at times reveals a little less, and never more."""
    even, odd = (
        brackets(shuffled(1.0, dataset_size=size, drop_last=drop_last)) for size in (2000, 2003)
    )
    assert 0.97 * even.lower < odd.lower <= even.lower
    if drop_last:  # examples that are left out at random make room for the record
        assert odd.upper < 1.01 * odd.lower < even.upper
    else:
        assert odd.upper == even.upper
    # with one whole batch and a rest the record is in the whole one with probability 3/4
    pair = ratio_test_lower(shuffled(1.0, dataset_size=4, batch_size=3), ZERO_OUT)[0][0]
    grid = np.linspace(-8.0, 10.0, 40_001)

    def law(mean: float) -> np.ndarray:
        mixed = 0.75 * np.exp(-0.5 * (grid - mean) ** 2) + 0.25 * np.exp(-0.5 * grid**2)
        return np.asarray(mixed / np.sum(mixed))

    for loss in (0.0, 0.5, 1.5):
        exact = float(np.sum(np.maximum(law(2.0) - np.exp(loss) * law(1.0), 0.0)))
        found = float(np.exp(pair.log_hockey_stick(np.array([loss])))[0])
        assert 0.97 * exact < found < exact * (1.0 + 1e-5)


def test_more_batches_hide_better_and_more_epochs_reveal_more() -> None:
    answers = [brackets(shuffled(2.0, dataset_size=size)) for size in (40, 400, 4000)]
    for few, many in itertools.pairwise(answers):
        assert many.lower < few.lower
        assert many.upper <= few.upper
    once, often = brackets(shuffled(2.0)), brackets(shuffled(2.0, epochs=9))
    assert once.lower < often.lower
    assert once.upper < often.upper


@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("epochs", [1, 6])
def test_sides_are_in_order(noise: float, epochs: int) -> None:
    answer = dp.account(shuffled(noise, epochs=epochs))
    for delta in (0.1, 1e-3, 1e-6, 1e-10):
        bracket = answer.epsilon(delta=delta)
        assert 0.0 <= bracket.lower <= bracket.upper


def test_both_lower_bounds_are_below_every_upper_one() -> None:
    run = shuffled(3.0, epochs=2)
    shown = dp.compare(run, delta=1e-6)
    lowers = [row.value for row in shown.rows if row.side is dp.Side.LOWER]
    proved = [row for row in shown.rows if row.rigor.proved]
    uppers = [row.value for row in proved if row.side is dp.Side.UPPER]
    assert (len(lowers), len(uppers)) == (2, 3)
    assert max(lowers) < min(uppers)
    assert shown["largest_batch_lower"].value < shown["ratio_test_lower"].value
    assert shown["null_record_clones_upper"].value < shown["revealed_order_upper"].value


def test_counts_of_epochs() -> None:
    run = shuffled(3.0, epochs=5)
    for one in (null_record_clones_upper, largest_batch_lower, ratio_test_lower):
        assert [count for _, count in one(run, ZERO_OUT)] == [5]


def test_other_neighbors_are_refused() -> None:
    with pytest.raises(dp.Unsupported, match="zero-out"):
        dp.account(shuffled(1.0), adjacency="add/remove")


def test_extreme_sizes() -> None:
    many = brackets(shuffled(1.0, dataset_size=10**9, batch_size=1))
    assert 0.0 < many.lower < many.upper < 2.0
    loud = brackets(shuffled(0.05))
    assert 0.99 * loud.upper < loud.lower
    quiet = brackets(shuffled(1000.0))
    assert 0.0 <= quiet.lower <= quiet.upper < 1e-3


@pytest.mark.parametrize("noise", [1e-12, 1e-7, 1e12, 1e18])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_extreme_noise_has_an_answer(noise: float, adjacency: str) -> None:
    run = dp.DPSGD(
        dp.ShuffledBatches(dataset_size=6000, batch_size=60, epochs=1), noise_multiplier=noise
    )
    bracket = dp.account(run, adjacency=adjacency).epsilon(delta=1e-5)
    assert bracket.upper == 0.0 if noise > 1.0 else 0.0 <= bracket.lower < bracket.upper


@pytest.mark.parametrize("vacancy", [{"left_out": 1}, {"drop_last": True}])
def test_vacant_seats_hide_nothing_if_the_order_is_kept(vacancy: dict) -> None:
    """The mean of a batch over 40 epochs shows who is in it: an attack on the largest mean, by hand."""
    size, batches, epochs, noise, delta = 1001, 10, 40, 2.0, 1e-5
    scheme = dp.ShuffledBatches(
        dataset_size=size, batch_size=100, epochs=epochs, order="kept", **vacancy
    )
    run = dp.DPSGD(scheme, noise_multiplier=noise)
    assert "vacant_seat_upper" not in {one.name for one in bounds_for(run, "zero-out")}
    fresh = dp.DPSGD(dataclasses.replace(scheme, order="redrawn"), noise_multiplier=noise)
    assert "vacant_seat_upper" in {one.name for one in bounds_for(fresh, "zero-out")}
    spread = noise / math.sqrt(epochs)
    place = np.linspace(0.0, 4.0, 400)
    without = -np.expm1(batches * log_ndtr(place / spread))
    seen = -np.expm1(log_ndtr((place - 1.0) / spread) + (batches - 1) * log_ndtr(place / spread))
    with_record = without / size + seen * (size - 1) / size
    attained = float(np.max(np.log(np.maximum(with_record - delta, 1e-300) / without)))
    assert attained > 9.0
    for adjacency in ("zero-out", "replace-one"):
        assert dp.account(run, adjacency=adjacency).epsilon(delta=delta).upper >= attained


@pytest.mark.parametrize(
    ("noise", "epsilon"), [(0.35, 20.0), (0.4, 16.0), (0.5, 16.0), (0.4, 25.0)]
)
def test_the_lower_side_is_that_of_one_batch_far_out(noise: float, epsilon: float) -> None:
    """Equation (7) of chua2024 with its best set: it was 2% below, and then 4e-4."""
    steps = 10_000
    level = np.linspace(0.0, 12.0, 400_001)
    rest = (steps - 1) * log_ndtr(level / noise)
    with_record = -np.expm1(log_ndtr((level - 2.0) / noise) + rest)
    without = -np.expm1(log_ndtr((level - 1.0) / noise) + rest)
    printed = float(np.max(with_record - np.exp(epsilon) * without))
    scheme = dp.ShuffledBatches(dataset_size=steps, batch_size=1, epochs=1)
    answer = dp.account(dp.DPSGD(scheme, noise_multiplier=noise)).delta(epsilon=epsilon)
    assert 0.99998 * printed <= answer.lower <= answer.upper


def test_the_table_of_bounds_lists_what_is_registered() -> None:
    """Each with its neighbors, and a file of the folder."""
    from sharpdp.bounds import shuffled_batches

    folder = Path(shuffled_batches.__file__).parent
    rows = [re.split(r"  +", line) for line in (shuffled_batches.__doc__ or "").splitlines()]
    listed = {row[0]: row[1:] for row in rows if len(row) == 4 and row[0].endswith("er")}
    names = {dp.Adjacency.ZERO_OUT: "zero-out", dp.Adjacency.REPLACE_ONE: "replace"}
    registered = {
        one.name: ", ".join(names[notion] for notion in one.adjacency)
        for one in dp.all_bounds()
        if one.theorem.__module__.startswith("sharpdp.bounds.shuffled_batches.")
    }
    assert {name: row[0] for name, row in listed.items()} == registered
    assert all((folder / f"{row[-1]}.py").is_file() for row in listed.values())
