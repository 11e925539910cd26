"""How the statistical tests judge: by exact quantiles, and a false alarm once in 10^9 fresh keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import stats

import sharpdp as dp

FALSE_ALARM = 1e-10
"""The probability with which one comparison would fail if its key were drawn anew, at most. No test makes
more than ten, so that each of them fails by chance once in 10^9."""

KEY = b"a key of these tests, not secret"


def assert_binomial(observed: Any, trials: Any, probability: Any, comparisons: int = 1) -> None:
    """Every count is one that its binomial law does not exceed but with a shared FALSE_ALARM."""
    tail = FALSE_ALARM / (2 * comparisons)
    low = stats.binom.ppf(tail, trials, probability)
    high = stats.binom.isf(tail, trials, probability)
    assert np.all(low <= observed), (observed, low)
    assert np.all(observed <= high), (observed, high)


def assert_law(outcomes: Iterable[Any], law: Mapping[Any, float]) -> None:
    """Every outcome is as frequent as the law says, and nothing else ever happens."""
    seen = list(outcomes)
    assert math.isclose(sum(law.values()), 1.0)
    assert set(seen) <= set(law)
    for outcome, probability in law.items():
        assert_binomial(seen.count(outcome), len(seen), float(probability), comparisons=len(law))


def assert_distribution(sample: Any, cdf: Any) -> None:
    """The whole law of whole numbers, by the inequality of Dvoretzky, Kiefer, Wolfowitz, Massart."""
    values = np.sort(np.asarray(sample))
    limit = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * values.size))
    points = np.unique(np.concatenate([values, values - 1]))
    seen = np.searchsorted(values, points, side="right") / values.size
    assert np.max(np.abs(seen - cdf(points))) <= limit


def as_sets(batches: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """Batches as tuples, which can be counted."""
    return tuple(tuple(batch.tolist()) for batch in batches)


def occurrences(plan: dp.batches.BatchScheme, rng: Any = KEY) -> Any:
    """A matrix of steps and examples: how often the example is in the batch of the step."""
    size: int = plan.dataset_size  # type: ignore[attr-defined]
    return np.array([np.bincount(batch, minlength=size) for batch in plan.batches(rng)])


def membership(plan: dp.batches.BatchScheme, rng: Any = KEY) -> Any:
    """A matrix of steps and examples: whether the example is in the batch of the step."""
    members = np.zeros((plan.steps, plan.dataset_size), dtype=bool)  # type: ignore[attr-defined]
    for step, batch in enumerate(plan.batches(rng)):
        members[step, batch] = True
    return members
