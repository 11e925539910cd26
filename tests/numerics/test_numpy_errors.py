"""What users call gives the same answers whatever their `np.seterr` says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sharpdp as dp
from sharpdp import audit
from sharpdp.budget import RenyiFilter
from sharpdp.numerics.underflow import underflow_is_zero, underflow_is_zero_in_methods

RUN = dp.DPSGD(dp.PoissonBatches(dataset_size=60_000, batch_size=512, epochs=3), noise_multiplier=1)
SHUFFLED = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=1000, batch_size=10, epochs=1), noise_multiplier=1.5
)
BINS = dp.DPSGD(dp.BallsAndBins(dataset_size=600, batch_size=20, epochs=2), noise_multiplier=1.0)
LEFT_OUT = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=31, batch_size=10, epochs=1, left_out=1), noise_multiplier=1.5
)
REPORTS = dp.ShuffledReports(users=1000, local_epsilon=1.0)
SCORES = np.random.default_rng(0).normal(size=300)

QUESTIONS: dict[str, Callable[[], object]] = {
    "epsilon": lambda: dp.account(SHUFFLED).epsilon(delta=1e-6),
    "epsilon, replace-one": lambda: dp.account(LEFT_OUT, adjacency="replace-one").epsilon(
        delta=1e-6
    ),
    "delta": lambda: dp.account(REPORTS).delta(epsilon=3.0),
    "advantage": lambda: dp.account(BINS).advantage(),
    "tpr": lambda: dp.account(BINS).tpr(fpr=1e-9),
    "renyi": lambda: dp.account(BINS).renyi(order=64.0),
    "curve": lambda: dp.account(BINS).tradeoff().fnr(fpr=0.1),
    "mu": lambda: dp.account(BINS).mu(),
    "risk": lambda: dp.account(BINS).risk(),
    "report": lambda: dp.account(REPORTS).report(format="text"),
    "conversions": lambda: dp.compare_conversions(dp.RenyiCurve.zcdp(rho=0.5), delta=1e-300),
    "compare": lambda: dp.compare(REPORTS, delta=1e-6),
    "samplers": lambda: dp.compare_samplers(
        dataset_size=1000, batch_size=100, epochs=1, noise_multiplier=1.0, delta=1e-5
    ),
    "sweep": lambda: dp.sweep([RUN, SHUFFLED]).epsilon(delta=1e-6),
    "estimate": lambda: dp.estimate(RUN, epsilon=2.0, samples=100, rng=0),
    "audit of runs": lambda: audit.many_runs(
        with_record=SCORES + 40.0, without_record=SCORES, confidence=0.99
    ),
    "filter": lambda: RenyiFilter.for_target(epsilon=1.0, delta=1e-9).cost(RUN),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_underflow_is_no_error_of_a_question(question: str) -> None:
    with np.errstate(all="raise"):
        QUESTIONS[question]()


def test_other_errors_stay_as_the_caller_has_them() -> None:
    @underflow_is_zero_in_methods
    class Inverse:
        def of(self, x: float) -> np.ndarray:
            return np.divide(1.0, x)

        @property
        def tail(self) -> np.ndarray:
            """e^-1000."""
            return np.exp(-1e3)

        @classmethod
        def made(cls) -> np.ndarray:
            return np.exp(-1e3)

    with np.errstate(all="raise"):
        assert Inverse().tail == Inverse.made() == 0.0
        with pytest.raises(FloatingPointError, match="divide by zero"):
            Inverse().of(0.0)
        with pytest.raises(FloatingPointError, match="underflow"):
            np.exp(-1e3)
    assert Inverse.tail.__doc__ == "e^-1000."


def test_what_the_caller_has_set_comes_back_from_nested_calls() -> None:
    @underflow_is_zero
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    with np.errstate(all="raise"):
        assert factorial(5) == 120
        assert np.geterr()["under"] == "raise"
