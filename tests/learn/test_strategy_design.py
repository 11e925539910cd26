"""Strategies for a training length, against jax-privacy, closed forms, matrices and all patterns."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.learn.strategy_design import (
    _sensitivity,
    _square_root,
    _starts,
    banded_strategy,
    buffered_strategy,
    prefix_error,
)
from sharpdp.mechanisms.strategies import BandedStrategy, MatrixStrategy, dense


def square_root(entries: int) -> BandedStrategy:
    return BandedStrategy(coefficients=tuple(_square_root(entries).tolist()))


# jax-privacy 2.0.0 (PyPI), jax 0.10.2 in double precision:
# toeplitz.loss(toeplitz.optimize_banded_toeplitz(steps, bands, reduction_fn=...), steps, ...)
JAX_BANDED = [
    (100, 10, "mean", 8.681873898575267),
    (100, 10, "max", 14.490780594703237),
    (1000, 100, "mean", 13.392671347148527),
    (1000, 100, "max", 20.429597723490318),
    (2000, 16, "mean", 72.83988132609326),
    (2000, 16, "max", 138.1001081433824),
    (500, 500, "mean", 8.00220903678496),
    (500, 500, "max", 9.267688988374147),
]
# buffered_toeplitz.optimize(n=1000, min_sep=, max_participations=, error=, min_buffers=k, max_buffers=k),
# minsep_sensitivity_squared times per_query_error
JAX_BUFFERED = [
    (1, 1, "max", 14.82407847313811),
    (2, 1, "max", 11.030779529978634),
    (3, 1, "max", 10.692362457615388),
    (4, 1, "max", 10.66270344944544),
    (1, 10, "max", 232.9151409088566),
    (2, 10, "max", 223.5914589173585),
    (1, 10, "mean", 154.98852312374655),
    (2, 10, "mean", 148.690016002684),
]


@pytest.mark.parametrize(("steps", "bands", "error", "known"), JAX_BANDED)
def test_banded_strategies_are_as_good_as_those_of_jax_privacy(
    steps: int, bands: int, error: str, known: float
) -> None:
    strategy = banded_strategy(steps=steps, bands=bands, error=error)
    assert prefix_error(strategy, steps=steps, error=error) ** 2 == pytest.approx(known, rel=1e-9)
    assert len(strategy.coefficients) == bands
    assert np.linalg.norm(strategy.coefficients) == pytest.approx(1.0)


@pytest.mark.parametrize(("buffers", "times", "error", "known"), JAX_BUFFERED)
def test_buffered_strategies_are_as_good_as_those_of_jax_privacy(
    buffers: int, times: int, error: str, known: float
) -> None:
    setting = {"steps": 1000, "participations": times, "error": error}
    strategy = buffered_strategy(buffers=buffers, **setting)
    assert prefix_error(strategy, **setting) ** 2 <= known * (1.0 + 1e-8)


def test_independent_noise_adds_up() -> None:
    alone = banded_strategy(steps=64, bands=1)
    assert alone.coefficients == (1.0,)
    assert prefix_error(alone, steps=64, error="max") == pytest.approx(8.0)
    assert prefix_error(alone, steps=64) == pytest.approx(math.sqrt(65 / 2))


def test_square_root_factorization_has_its_known_error_and_none_is_better() -> None:
    """Error and sensitivity are both the root of the sum of (binomial(2k, k) / 4^k)^2."""
    steps = 200
    known = sum((math.comb(2 * k, k) / 4.0**k) ** 2 for k in range(steps))
    assert prefix_error(square_root(steps), steps=steps, error="max") == pytest.approx(known)
    best = banded_strategy(steps=steps, bands=steps, error="max")
    assert prefix_error(best, steps=steps, error="max") == pytest.approx(known, rel=1e-12)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1e-1):
        other = np.array(best.coefficients) * (1.0 + scale * rng.normal(size=steps))
        there = BandedStrategy(coefficients=tuple(other.tolist()))
        assert prefix_error(there, steps=steps, error="max") > known


@pytest.mark.parametrize("error", ["mean", "max"])
def test_more_bands_and_buffers_are_better(error: str) -> None:
    steps = 300
    errors = [
        prefix_error(
            banded_strategy(steps=steps, bands=bands, error=error), steps=steps, error=error
        )
        for bands in (1, 2, 5, 20, 100, 300)
    ]
    assert all(a > b * 1.01 for a, b in itertools.pairwise(errors))
    buffered = [
        prefix_error(
            buffered_strategy(steps=steps, buffers=buffers, error=error), steps=steps, error=error
        )
        for buffers in (1, 2, 3)
    ]
    assert all(a > b * 1.001 for a, b in itertools.pairwise(buffered))
    # no buffered strategy beats all Toeplitz ones
    assert errors[-1] < buffered[-1] < errors[-1] * 1.01


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("strategy", [banded_strategy(steps=24, bands=8), square_root(24)])
def test_error_is_that_of_the_matrices(strategy: BandedStrategy, times: int) -> None:
    matrix = dense(strategy, 24)
    noise = np.tril(np.ones((24, 24))) @ np.linalg.inv(matrix)
    errors = (noise**2).sum(1)
    apart = 24 // times
    moved = max(
        np.linalg.norm(matrix[:, list(pattern)].sum(1))
        for pattern in itertools.combinations(range(24), times)
        if all(b - a >= apart for a, b in itertools.pairwise(pattern))
    )
    for error, value in (("mean", errors.mean()), ("max", errors.max())):
        found = prefix_error(strategy, steps=24, participations=times, error=error)
        assert found == pytest.approx(moved * math.sqrt(value), rel=1e-12)


def test_derivatives_of_sensitivity_are_those_of_differences() -> None:
    column, starts = np.linspace(1.0, 0.2, 7), _starts(12, 4, 3)
    value, slopes = _sensitivity(column, 12, starts)
    for place in range(7):
        moved = column.copy()
        moved[place] += 1e-6
        there, _ = _sensitivity(moved, 12, starts)
        assert (there - value) / 1e-6 == pytest.approx(slopes[place], rel=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: banded_strategy(steps=10, bands=11), "bands must be at most steps = 10; got 11"),
        (
            lambda: banded_strategy(steps=10, bands=2, error="median"),
            "error must be 'mean' or 'max'",
        ),
        (lambda: banded_strategy(steps=10**9, bands=2), "steps must be at most 4,194,304"),
        (lambda: buffered_strategy(steps=10, buffers=99), "buffers must be at most 12; got 99"),
        (
            lambda: prefix_error(MatrixStrategy(matrix=[[1.0]]), steps=1),
            "strategy must have constant diagonals",
        ),
        (lambda: prefix_error((1.0,), steps=1), "strategy must be a strategy matrix"),
    ],
)
def test_wrong_settings_are_refused(call, words: str) -> None:
    with pytest.raises(dp.SharpDPError, match=words):
        call()


def test_a_run_of_one_step_has_nothing_to_correlate() -> None:
    assert banded_strategy(steps=1, bands=1).coefficients == (1.0,)
    assert prefix_error(buffered_strategy(steps=1, buffers=2), steps=1) == pytest.approx(1.0)
