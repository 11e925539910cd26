"""Batches of a scheme pass at the stated false-alarm rate, and those of every other scheme do not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import sharpdp as dp
from sharpdp import audit
from sharpdp.audit.tails import binomial_at_least, binomial_at_most, urn_tail
from sharpdp.batches import CyclicPoissonBatches, WeightedPoissonBatches
from sharpdp.errors import InvalidArgument, WrongType

SIZE = {"dataset_size": 600, "batch_size": 50}
SCHEMES = {
    "poisson": dp.PoissonBatches(**SIZE, epochs=4),
    "shuffled": dp.ShuffledBatches(**SIZE, epochs=4),
    "kept": dp.ShuffledBatches(**SIZE, epochs=4, order="kept"),
    "uneven": dp.ShuffledBatches(dataset_size=620, batch_size=50, epochs=4),
    "dropped": dp.ShuffledBatches(dataset_size=620, batch_size=50, epochs=4, drop_last=True),
    "left out": dp.ShuffledBatches(**SIZE, epochs=4, left_out=10),
    "balls": dp.BallsAndBins(**SIZE, epochs=4),
    "kept balls": dp.BallsAndBins(**SIZE, epochs=4, order="kept"),
    "allocation": dp.RandomAllocation(steps=12, participations=3, epochs=4, dataset_size=600),
    "fixed size": dp.FixedSizeBatches(**SIZE, steps=48),
    "replacement": dp.FixedSizeBatches(**SIZE, steps=48, replacement=True),
    "truncated": dp.TruncatedPoissonBatches(**SIZE, physical_batch_size=60, epochs=4),
    "deterministic": dp.DeterministicBatches(**SIZE, epochs=8),
    "buffered": dp.BufferedShuffle(**SIZE, epochs=8, buffer_size=60),
    "cyclic": CyclicPoissonBatches(**SIZE, epochs=4, cycle_length=3),
    "weighted": WeightedPoissonBatches(weights=[1.0, 2.0] * 300, batch_size=50, epochs=4),
}


def alarms(scheme: dp.batches.BatchScheme, repetitions: int, level: float, start: int = 0) -> int:
    return sum(
        not audit.sampler(batches=scheme.batches(seed), scheme=scheme, false_alarm=level).consistent
        for seed in range(start, start + repetitions)
    )


@pytest.mark.parametrize("name", SCHEMES)
def test_true_batches_pass(name: str) -> None:
    repetitions, level = 30, 0.1
    assert alarms(SCHEMES[name], repetitions, level) <= stats.binom.isf(1e-6, repetitions, level)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_true_batches_pass_at_the_stated_rate(name: str) -> None:
    repetitions, level = 2000, 0.05
    found = alarms(SCHEMES[name], repetitions, level, start=1000)
    print(name, found / repetitions, flush=True)  # noqa: T201
    assert found <= stats.binom.isf(1e-6, repetitions, level)


SOLD = [
    ("shuffled", "poisson", "shuffled batches"),
    ("balls", "poisson", "balls-and-bins"),
    ("fixed size", "poisson", "fixed-size batches"),
    ("deterministic", "poisson", "deterministic batches"),
    ("poisson", "shuffled", "Poisson batches"),
    ("kept", "shuffled", "shuffled batches"),
    ("deterministic", "shuffled", "deterministic batches"),
    ("buffered", "shuffled", ""),
    ("balls", "shuffled", "balls-and-bins"),
    ("shuffled", "kept", "shuffled batches"),
    ("kept balls", "balls", "balls-and-bins"),
    ("shuffled", "balls", "shuffled batches"),
    ("poisson", "balls", "Poisson batches"),
    ("shuffled", "fixed size", "shuffled batches"),
    ("replacement", "fixed size", "fixed-size batches"),
    ("fixed size", "replacement", "fixed-size batches"),
    ("poisson", "truncated", "Poisson batches"),
    ("shuffled", "deterministic", "shuffled batches"),
    ("deterministic", "buffered", "deterministic batches"),
    ("shuffled", "buffered", "shuffled batches"),
    ("poisson", "cyclic", "Poisson batches"),
    ("poisson", "weighted", "Poisson batches"),
    ("allocation", "balls", ""),
]


@pytest.mark.parametrize(("drawn", "claimed", "fits"), SOLD)
def test_other_batches_are_told_apart(drawn: str, claimed: str, fits: str) -> None:
    scheme = SCHEMES[claimed]
    batches = list(SCHEMES[drawn].batches(5))[: scheme.steps]
    result = audit.sampler(batches=batches, scheme=scheme, false_alarm=1e-4)
    assert not result.consistent, str(result)
    assert fits in result.fits if fits else True, str(result)
    assert "NOT" in str(result)
    assert result.to_dict()["consistent"] is False


def test_a_wrong_rate_is_seen() -> None:
    drawn = dp.PoissonBatches(dataset_size=600, batch_size=60, steps=48)
    result = audit.sampler(batches=drawn.batches(1), scheme=SCHEMES["poisson"])
    assert not result.consistent
    assert "Poisson batches" in result.fits


def test_one_favorite_example_is_seen() -> None:
    batches = [np.union1d(batch, [17]) for batch in SCHEMES["poisson"].batches(2)]
    result = audit.sampler(batches=batches, scheme=SCHEMES["poisson"])
    assert next(one.test for one in result.findings if one.failed) == "marginal rates"


def test_batches_that_come_again_are_seen() -> None:
    """A key that is used again after a resume draws the batches of the first steps once more."""
    scheme = SCHEMES["poisson"]
    again = [*list(scheme.batches(3))[:24], *list(scheme.batches(3))[:24]]
    result = audit.sampler(batches=again, scheme=scheme)
    assert "batches that share examples" in {one.test for one in result.findings if one.failed}


def test_workers_with_the_same_batches_are_seen() -> None:
    ranks = [list(SCHEMES["poisson"].batches(4)) for _ in range(2)]
    steps = [np.concatenate(parts) for parts in zip(*ranks, strict=True)]
    result = audit.sampler(batches=steps, scheme=SCHEMES["poisson"])
    assert result.p_value == 0.0
    assert "workers" in str(result)


def test_a_run_may_be_cut_short() -> None:
    for name in ("poisson", "shuffled", "balls", "buffered"):
        batches = list(SCHEMES[name].batches(6))[:17]
        assert audit.sampler(batches=batches, scheme=SCHEMES[name]).consistent, name


def test_bad_input() -> None:
    scheme = SCHEMES["poisson"]
    with pytest.raises(WrongType, match="positions"):
        audit.sampler(batches=[[0.5]], scheme=scheme)
    with pytest.raises(WrongType, match="batch scheme"):
        audit.sampler(batches=[[1]], scheme=dp.PoissonBatches)
    with pytest.raises(InvalidArgument, match="dataset_size"):
        audit.sampler(batches=[[1]], scheme=dp.PoissonBatches(sample_rate=0.1, steps=3))
    with pytest.raises(InvalidArgument, match="at most"):
        audit.sampler(batches=[[1]] * 100, scheme=scheme)
    outside = audit.sampler(batches=[[600]], scheme=scheme)
    assert not outside.consistent


@pytest.mark.underflows
def test_tails_are_never_too_small() -> None:
    for trials, rate in ((10, 0.3), (1000, 0.01), (50, 0.5)):
        for count in range(0, trials + 1, max(trials // 20, 1)):
            high, low = (
                stats.binom.sf(count - 1, trials, rate),
                stats.binom.cdf(count, trials, rate),
            )
            assert high <= binomial_at_least(count, trials, rate) <= high * (1 + 1e-8) + 1e-300
            assert low <= binomial_at_most(count, trials, rate) <= low * (1 + 1e-8) + 1e-300
    for marked in range(20):
        exact = stats.hypergeom.sf(marked - 1, 100, 30, 20)
        assert urn_tail(marked, 20, 0.3) >= exact
