"""Strategies and runs with correlated noise as data: what is accepted, refused, written and told."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds import all_bounds, bounds_for
from sharpdp.cli.runs import mechanism
from sharpdp.mechanisms.composed import Grouped

SIZES = {"dataset_size": 20, "batch_size": 5, "epochs": 3}
PLAN = dp.DeterministicBatches(**SIZES)
STRATEGY = dp.BandedStrategy(coefficients=(1.0, 0.5, 0.0))


def run(**changes: object) -> dp.CorrelatedNoise:
    given: dict[str, object] = {"strategy": STRATEGY, "noise_multiplier": 2.0, **changes}
    return dp.CorrelatedNoise(given.pop("batches", PLAN), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: dp.BandedStrategy(coefficients=()), "coefficients must be at least one number"),
        (
            lambda: dp.BandedStrategy(coefficients=(0.0, 1.0)),
            "coefficients[0] must be greater than 0",
        ),
        (
            lambda: dp.BandedStrategy(coefficients=(1.0, 1e31)),
            "coefficients[1] must be at most 1e+30",
        ),
        (
            lambda: dp.BandedStrategy(coefficients=3.0),
            "coefficients must be a list of numbers; got 3.0",
        ),
        (
            lambda: dp.BufferedLinearToeplitz(scales=(0.5,), decays=(1.5,)),
            "decays[0] must be in [0, 1]; got 1.5",
        ),
        (
            lambda: dp.BufferedLinearToeplitz(scales=(0.5, 0.5), decays=(0.5,)),
            "scales must be as many as decays; got 2 and 1",
        ),
        (
            lambda: dp.MatrixStrategy(matrix=[[1.0, 0.1], [0.5, 1.0]]),
            "matrix[0] must be a row of 1 numbers, or 2 with zeros above the diagonal",
        ),
        (
            lambda: dp.MatrixStrategy(matrix=[[1.0], [0.5, -1.0]]),
            "matrix[1][1] must be greater than 0",
        ),
        (lambda: dp.MinSeparation(steps=5, separation=0), "separation must be a whole number"),
        (
            lambda: dp.MinSeparation(steps=5, separation=1).batches(7),
            "MinSeparation draws no batches",
        ),
        (lambda: run(strategy=(1.0, 0.5)), "strategy must be a strategy matrix; got (1.0, 0.5)"),
        (
            lambda: run(strategy=dp.MatrixStrategy(matrix=np.eye(11))),
            "strategy must be a matrix of at least 12 rows, one a step; got 11",
        ),
        (
            lambda: run(batches=dp.PoissonBatches(sample_rate=0.1, steps=12)),
            "batches must be one of DeterministicBatches, ShuffledBatches, BallsAndBins, ",
        ),
        (lambda: run(noise_multiplier=-1.0), "noise_multiplier must be at least 0"),
        (
            lambda: STRATEGY.correlated("0.1"),
            "fresh must be a finite number; got",
        ),
        (lambda: STRATEGY.correlated(math.nan), "fresh must be a finite number; got nan"),
        (
            lambda: STRATEGY.correlated(np.array(["a"])),
            "fresh must hold real numbers; got an array",
        ),
        (lambda: STRATEGY.correlated(0.1, 0.2), "memory must be what the previous call returned"),
        (
            lambda: STRATEGY.correlated(np.zeros(3), (np.zeros(2),)),
            "memory[0] must have the shape of fresh, (3,); got (2,)",
        ),
        (
            lambda: dp.BandedStrategy(coefficients=(1.0, 0.5)).correlated(0.1, (0.2, 0.3)),
            "memory must have at most 1 entries; got 2",
        ),
        (
            lambda: dp.BufferedLinearToeplitz(scales=(0.5, 0.1), decays=(0.5, 0.2)).correlated(
                0.1, (0.2,)
            ),
            "memory must have 2 entries, one for each buffer; got 1",
        ),
        (
            lambda: dp.MatrixStrategy(matrix=[[1.0]]).correlated(0.1, (0.2,)),
            "memory must have fewer entries than the 1 rows; got 1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises((dp.InvalidArgument, dp.errors.WrongType)) as caught:
        make()
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("coefficients", "noise"), [((1e-30,), 1e30), ((1e-25, 0.0, 1e-25), 1e30), ((1e-30,), 1e10)]
)
def test_kept_bins_of_next_to_no_strategy_have_no_larger_lower_end(
    coefficients: tuple[float, ...], noise: float
) -> None:
    """Two bins, two epochs: half the norm of both sums of columns over sqrt(2 pi), to first order."""
    strategy = dp.BandedStrategy(coefficients=coefficients)
    plan = dp.BallsAndBins(dataset_size=2, batch_size=1, epochs=2, order="kept")
    matrix = np.zeros((4, 4))
    for lag, coefficient in enumerate(coefficients):
        matrix += coefficient * np.eye(4, k=-lag)
    whole = math.sqrt(float(np.sum((matrix.sum(axis=1) / noise) ** 2)))
    truth = 0.5 * whole / math.sqrt(2.0 * math.pi)
    found = dp.account(run(batches=plan, strategy=strategy, noise_multiplier=noise)).delta(
        epsilon=0.0
    )
    assert 0.5 * truth < found.lower <= truth * (1.0 + 1e-12)
    assert truth <= found.upper < 2.0 * truth


def test_strategies_are_values() -> None:
    assert dp.BandedStrategy(coefficients=[1, 0.5]) == STRATEGY  # zeros at the end say nothing
    assert hash(run()) == hash(run())
    full = dp.MatrixStrategy(matrix=np.tril(np.ones((3, 3))))
    assert full == dp.MatrixStrategy(matrix=[[1.0], [1.0, 1.0], [1.0, 1.0, 1.0]])
    assert (full.bands(2), full.bands(3), STRATEGY.bands(1), STRATEGY.bands(9)) == (2, 3, 1, 2)
    with pytest.raises(dp.InvalidArgument, match="at most the 3 rows"):
        full.column(0, 4)


def test_a_run_that_stops_early_has_the_same_strategy() -> None:
    whole = run(strategy=dp.MatrixStrategy(matrix=np.eye(12) + np.eye(12, k=-1)))
    short = whole.stopped_after(6)
    assert short.batches.steps == 8
    assert short.strategy == whole.strategy
    ends = [dp.account(one).epsilon(delta=1e-6).upper for one in (short, whole)]
    assert ends[0] < ends[1]
    promise = dp.MinSeparation(steps=12, separation=4)
    assert run(batches=promise).stopped_after(5).batches.participations == 2


def test_neighbors_are_those_of_the_batches() -> None:
    names = [str(one) for one in run(batches=dp.ShuffledBatches(**SIZES)).adjacencies]
    assert names == ["zero-out", "replace-one"]
    with pytest.raises(dp.Unsupported, match="adjacency add/remove has no theorem"):
        dp.account(run(batches=dp.MinSeparation(steps=4, separation=2)), adjacency="add/remove")


def test_theorems_of_one_scheme_are_registered_for_its_neighbors_only() -> None:
    promise = run(batches=dp.MinSeparation(steps=4, separation=2))
    theorems = [one for one in all_bounds() if one.name.startswith("separated_participation")]
    assert len(theorems) == 2
    for theorem in theorems:
        assert theorem.applies_to(promise)
        assert set(theorem.adjacency) == set(promise.adjacencies)


def test_the_command_line_has_words_for_banded_strategies() -> None:
    words = "correlated noise_multiplier=2 coefficients=1,0.5 batches=deterministic"
    assert mechanism(f"{words} dataset_size=20 batch_size=5 epochs=3") == run()


def test_reports_say_what_is_run_and_what_is_owed() -> None:
    text = dp.account(run()).report(format="text")
    assert "correlated noise (DP-FTRL)" in text
    assert "banded Toeplitz strategy, 2 bands" in text
    assert "drawing z anew" in " ".join(text.split())


@pytest.mark.parametrize(
    "batches",
    [
        PLAN,
        dp.BallsAndBins(**SIZES, order="kept"),
        dp.batches.CyclicPoissonBatches(sample_rate=0.1, steps=12, cycle_length=4),
        dp.MinSeparation(steps=12, separation=4),
    ],
)
def test_groups_are_accounted_as_if_positions_were_revealed(
    batches: dp.batches.BatchScheme,
) -> None:
    """Factors of an amplified bound are not steps: chaining each of them would promise too much."""
    names = {
        one.name for one in bounds_for(Grouped(run(batches=batches), 3), dp.Adjacency.ZERO_OUT)
    }
    assert {name for name in names if name.endswith("upper")} == {"group_correlated_upper"}
    fixed = dp.account(run(noise_multiplier=2.0 / 3.0)).epsilon(delta=1e-6)
    answer = dp.account(run(batches=batches), group_size=3).epsilon(delta=1e-6)
    assert answer.upper == pytest.approx(fixed.upper, rel=1e-6)
    assert answer.lower <= answer.upper
