"""Correlated noise against brute force: patterns, mixtures on a grid, adaptive adversaries."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.correlated_noise.columns import columns_of
from sharpdp.bounds.correlated_noise.kept_bins import BinGram, exchangeable, log_moments
from sharpdp.bounds.correlated_noise.sensitivity import (
    once_per_epoch_upper,
    positions_lower,
    positions_upper,
    separated_lower,
    separated_upper,
)
from sharpdp.bounds.correlated_noise.theorems import (
    correlated_bins_lower,
    correlated_bins_upper,
    correlated_linear_test_lower,
    correlated_sampled_block_lower,
    keeps_bins,
)
from sharpdp.mechanisms.strategies import dense
from sharpdp.questions.estimate.correlated_bins import CorrelatedBinsRun
from sharpdp.questions.estimate.draws import payoff
from sharpdp.questions.estimate.experiment import Direction, log_range
from tests.reference.correlated_noise import (
    adaptive_ratio,
    grid,
    hockey_sticks,
    largest_norms,
    mixture_ratio,
    separated,
)

CyclicPoissonBatches = dp.batches.CyclicPoissonBatches
STEPS = 8
SQUARE_ROOT = [math.comb(2 * k, k) / 4**k for k in range(64)]
"""The coefficients of (1 - z)^(-1/2), whose square are prefix sums."""


def strategies(rng: np.random.Generator, steps: int = STEPS) -> list[dp.Strategy]:
    """Falling, growing and signed ones of all three kinds."""
    signed = np.tril(rng.normal(size=(steps, steps))) * 0.3 + np.eye(steps)
    return [
        dp.BandedStrategy(coefficients=np.sort(rng.uniform(size=4))[::-1]),
        dp.BandedStrategy(coefficients=np.sort(rng.uniform(0.1, 1.0, size=3))),
        dp.BandedStrategy(coefficients=[1.0, *rng.normal(size=3)]),
        dp.BufferedLinearToeplitz(scales=rng.uniform(size=2) / 2, decays=rng.uniform(size=2)),
        dp.BufferedLinearToeplitz(scales=rng.normal(size=2), decays=rng.uniform(size=2)),
        dp.MatrixStrategy(matrix=np.abs(signed)),
        dp.MatrixStrategy(matrix=signed),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_steps_is_the_inverse_times_independent_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for strategy in strategies(rng):
        fresh = rng.normal(size=(STEPS, 3))
        memory: tuple[object, ...] = ()
        rows = []
        for step in range(STEPS):
            row, memory = strategy.correlated(fresh[step], memory)
            rows.append(row)
        assert np.allclose(dense(strategy, STEPS) @ np.array(rows), fresh, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("separation", "uses"), [(1, 3), (2, 4), (3, 3), (4, 2)])
def test_sensitivities_enclose_all_patterns_and_signs(
    seed: int, separation: int, uses: int
) -> None:
    rng = np.random.default_rng(seed)
    every = separated(STEPS, separation, uses)
    fixed = [list(range(start, STEPS, separation)) for start in range(separation)]
    epochs = [range(start, min(start + separation, STEPS)) for start in range(0, STEPS, separation)]
    redrawn = [list(pattern) for pattern in itertools.product(*epochs)]
    for strategy in strategies(rng):
        matrix, columns = dense(strategy, STEPS), columns_of(strategy, STEPS)
        cases = (
            (
                every,
                separated_lower(columns, separation, uses),
                separated_upper(columns, separation, uses),
            ),
            (fixed, positions_lower(columns, separation), positions_upper(columns, separation)),
            (redrawn, 0.0, once_per_epoch_upper(columns, separation)),
        )
        for patterns, lower, upper in cases:
            signed, absolute = largest_norms(matrix, patterns)
            assert lower <= signed * (1.0 + 1e-13)
            assert upper >= signed * (1.0 - 1e-15)
            if np.all(matrix.T @ matrix >= 0.0):
                assert signed == pytest.approx(absolute, rel=1e-12)
        if np.all(matrix >= 0.0):  # exact: both ends agree
            assert cases[1][1] == pytest.approx(cases[1][2], rel=1e-12)
    falling = columns_of(dp.BandedStrategy(coefficients=SQUARE_ROOT[:STEPS]), STEPS)
    ends = (separated_lower(falling, separation, uses), separated_upper(falling, separation, uses))
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def test_orthogonal_columns_are_exact_also_with_signs() -> None:
    strategy = dp.BandedStrategy(coefficients=(1.0, -2.0, 0.5))
    columns = columns_of(strategy, 9)
    exact, _ = largest_norms(dense(strategy, 9), separated(9, 3, 3))
    assert separated_lower(columns, 3, 3) == pytest.approx(exact, rel=1e-11)
    assert separated_upper(columns, 3, 3) == pytest.approx(exact, rel=1e-11)


def kept(strategy: dp.Strategy, noise: float, *, bins: int, epochs: int) -> dp.CorrelatedNoise:
    plan = dp.BallsAndBins(dataset_size=bins, batch_size=1, epochs=epochs, order="kept")
    return dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=noise)


def exact_deltas(run: dp.CorrelatedNoise, epsilon: float) -> tuple[float, float]:
    """Both directions for two bins, whose sums of columns span a plane."""
    steps = run.batches.steps
    matrix = dense(run.strategy, steps)
    sums = np.column_stack([matrix[:, start::2].sum(axis=1) for start in range(2)])
    means = np.linalg.cholesky(sums.T @ sums / run.noise_multiplier**2)
    points, weights = grid(2)
    ratio = mixture_ratio(means, np.array([0.5, 0.5]), points)
    return hockey_sticks(ratio, weights, epsilon)


@pytest.mark.parametrize("seed", range(2))
def test_two_kept_bins_on_a_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = [one for one in strategies(rng, 6) if columns_of(one, 6).nonnegative]
    assert len(made) >= 3
    for strategy in made:
        run = kept(strategy, noise=float(rng.uniform(1.5, 4.0)), bins=2, epochs=3)
        answer = dp.account(run)
        for epsilon in (0.5, 1.5, 3.0):
            truth, bracket = max(exact_deltas(run, epsilon)), answer.delta(epsilon=epsilon)
            assert bracket.lower <= truth * (1.0 + 1e-6)
            assert bracket.upper >= truth * (1.0 - 1e-6)


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_pair_is_monotone_in_the_copositive_order(dimension: int) -> None:
    """A search for counterexamples: G' - G copositive, neither semidefinite nor nonnegative."""
    rng = np.random.default_rng(dimension)
    points, weights = grid(dimension, points=361 if dimension == 2 else 81)
    chances = np.full(dimension, 1.0 / dimension)
    tried = 0
    while tried < 8:
        gram, more = (
            (lambda half: half @ half.T)(rng.normal(size=(dimension, dimension)) * 0.7)
            for _ in range(2)
        )
        directions = np.abs(rng.normal(size=(4000, dimension)))
        gaps = np.einsum("ki,ij,kj->k", directions, more - gram, directions)
        if gaps.min() < 0.0 or min(np.linalg.eigvalsh(gram)[0], np.linalg.eigvalsh(more)[0]) < 1e-3:
            continue
        tried += 1
        less_ratio, more_ratio = (
            mixture_ratio(np.linalg.cholesky(one), chances, points) for one in (gram, more)
        )
        for epsilon in (-1.0, 0.0, 0.7, 2.0):
            less = hockey_sticks(less_ratio, weights, epsilon)
            greater = hockey_sticks(more_ratio, weights, epsilon)
            assert all(a <= b * (1 + 1e-6) + 1e-9 for a, b in zip(less, greater, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_adaptive_contributions_gain_nothing_without_negative_entries(seed: int) -> None:
    """Policies that look at the first results, for strategies and laws of patterns at random."""
    rng = np.random.default_rng(seed)
    points, weights = grid(2, points=301)
    matrix = np.array([[1.0, 0.0], [rng.uniform(0.0, 2.0), rng.uniform(0.3, 1.5)]])
    patterns = [[], [0], [1], [0, 1]]
    chances = rng.dirichlet(np.ones(4))
    constant = adaptive_ratio(
        matrix, patterns, chances, [lambda: 1.0, lambda y: np.ones_like(y)], points
    )
    edges = np.array([-1.5, -0.5, 0.5, 1.5])
    for _ in range(40):
        levels = rng.choice([-1.0, 0.0, 1.0], size=5)
        first = float(rng.choice([-1.0, 1.0]))

        def second(y: np.ndarray, levels: np.ndarray = levels) -> np.ndarray:
            return levels[np.digitize(y, edges)]

        adaptive = adaptive_ratio(
            matrix, patterns, chances, [partial(float, first), second], points
        )
        for epsilon in (-0.5, 0.0, 0.5, 1.5):
            most = hockey_sticks(constant, weights, epsilon)
            gained = hockey_sticks(adaptive, weights, epsilon)
            assert all(a <= b + 1e-9 for a, b in zip(gained, most, strict=True))


def test_bins_without_correlation_are_those_of_dpsgd() -> None:
    plain = dp.BandedStrategy(coefficients=(2.0,))
    for bins, epochs in ((2, 1), (7, 3), (100, 10)):
        run = kept(plain, noise=4.0, bins=bins, epochs=epochs)
        other = dp.account(dp.DPSGD(run.batches, noise_multiplier=2.0)).epsilon(delta=1e-6)
        answer = dp.account(run).epsilon(delta=1e-6)
        assert answer.upper == pytest.approx(other.upper, rel=2e-3)
        assert answer.lower == pytest.approx(other.lower, rel=2e-3)


def test_other_schemes_without_correlation_are_those_of_dpsgd() -> None:
    plain = dp.BandedStrategy(coefficients=(2.0,))
    for plan in (
        dp.DeterministicBatches(dataset_size=100, batch_size=10, epochs=7),
        CyclicPoissonBatches(sample_rate=0.2, steps=30, cycle_length=4),
    ):
        for adjacency in ("zero-out", "replace-one"):
            answers = [
                dp.account(run, adjacency=adjacency).epsilon(delta=1e-6)
                for run in (
                    dp.CorrelatedNoise(plan, strategy=plain, noise_multiplier=6.0),
                    dp.DPSGD(plan, noise_multiplier=3.0),
                )
            ]
            assert answers[0].upper <= answers[1].upper * (1.0 + 1e-3)
            assert answers[0].lower >= answers[1].lower * (1.0 - 1e-3)


def test_banded_cyclic_sampling_is_poisson_sampling_with_fewer_steps() -> None:
    """2306.08153: bands = cycle length, n / b steps at rate q b, at the norm of a column."""
    bands, steps, rate = 4, 400, 0.02
    strategy = dp.BandedStrategy(coefficients=SQUARE_ROOT[:bands])
    norm = math.sqrt(sum(c * c for c in SQUARE_ROOT[:bands]))
    plan = CyclicPoissonBatches(sample_rate=rate * bands, steps=steps, cycle_length=bands)
    run = dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=2.0 * norm)
    poisson = dp.PoissonBatches(sample_rate=rate * bands, steps=steps // bands)
    same = dp.account(dp.DPSGD(poisson, noise_multiplier=2.0)).epsilon(delta=1e-6)
    assert dp.account(run).epsilon(delta=1e-6).upper == pytest.approx(same.upper, rel=1e-9)
    assert dp.account(run).epsilon(delta=1e-6).lower == pytest.approx(same.lower, rel=1e-9)


def test_overlapping_columns_are_more_than_orthogonal_ones() -> None:
    """The square root of the uses times a column norm is too little; so are signed inner products."""
    plan = dp.DeterministicBatches(dataset_size=4, batch_size=1, epochs=4)
    strategy = dp.BandedStrategy(coefficients=SQUARE_ROOT[:16])
    run = dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=5.0)
    columns = dense(strategy, 16)
    tempting = math.sqrt(4) * np.linalg.norm(columns[:, 0])
    low = dp.account(run).epsilon(delta=1e-6).lower
    assert low > 1.2 * dp.account(dp.Gaussian(5.0 / tempting)).epsilon(delta=1e-6).upper

    signed = dp.BandedStrategy(coefficients=(1.0, 0.0, 0.0, 0.0, -0.5))
    gram = (lambda part: part.T @ part)(dense(signed, 16)[:, 0::4])
    run = dp.CorrelatedNoise(plan, strategy=signed, noise_multiplier=5.0)
    tempting = math.sqrt(gram.sum())
    low = dp.account(run).epsilon(delta=1e-6).lower
    assert low > 1.5 * dp.account(dp.Gaussian(5.0 / tempting)).epsilon(delta=1e-6).upper


def test_amplification_fails_if_there_are_more_bands_than_groups() -> None:
    """Poisson in every step with two bands: the mapping for banded strategies promises too much."""
    matrix = np.array([[1.0, 0.0], [1.0, 1.0]])
    noise, rate = 1.0, 0.5
    points, weights = grid(2)
    patterns: list[list[int]] = [[], [0], [1], [0, 1]]
    means = np.array([matrix[:, pattern].sum(axis=1) / noise for pattern in patterns])
    chances = np.full(4, 0.25)
    truth = hockey_sticks(mixture_ratio(means, chances, points), weights, 2.0)[0]
    norms = np.linalg.norm(matrix, axis=0)
    factors = [
        1.0 - rate + rate * np.exp(norm * point - norm**2 / 2)
        for norm, point in zip(norms, points, strict=True)
    ]
    promised = hockey_sticks(factors[0] * factors[1], weights, 2.0)[0]
    assert truth > 1.2 * promised
    plan = CyclicPoissonBatches(sample_rate=rate, steps=2, cycle_length=1)
    strategy = dp.BandedStrategy(coefficients=(1.0, 1.0))
    run = dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=noise)
    assert dp.account(run).delta(epsilon=2.0).upper >= truth


def test_negative_entries_are_not_amplified_over_kept_bins() -> None:
    run = kept(dp.BandedStrategy(coefficients=(1.0, -0.5)), noise=3.0, bins=4, epochs=3)
    assert not keeps_bins(run)
    same = dp.DeterministicBatches(dataset_size=4, batch_size=1, epochs=3)
    revealed = dp.CorrelatedNoise(same, strategy=run.strategy, noise_multiplier=3.0)
    ends = [dp.account(one).epsilon(delta=1e-6).upper for one in (run, revealed)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_exchangeable_matrices_are_on_their_sides() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        half = rng.uniform(size=(5, 8))
        gram = half @ half.T
        bins = BinGram(gram, 0.0, falling=False)
        directions = np.abs(rng.normal(size=(2000, 5)))
        form = np.einsum("ki,ij,kj->k", directions, gram, directions)
        square, total = (directions**2).sum(axis=1), directions.sum(axis=1) ** 2
        for common in (0.0, float(gram.min()), float(np.median(gram))):
            above = exchangeable(bins, common, dp.Side.UPPER)
            assert np.all(above.own * square + common * total >= form)
            below = exchangeable(bins, common, dp.Side.LOWER)
            assert np.all(below.own * square + common * total <= form)


def test_moments_of_bins_are_sums_over_tuples() -> None:
    own, bins = 0.8, 3
    for order in range(5):
        tuples = itertools.product(range(bins), repeat=order)
        mean = np.mean(
            [np.exp(own * sum(a == b for a, b in itertools.combinations(one, 2))) for one in tuples]
        )
        assert log_moments(own, bins, 6)[order] == pytest.approx(math.log(mean), abs=1e-12)


def test_all_lower_bounds_of_kept_bins_are_below_the_grid() -> None:
    run = kept(dp.BandedStrategy(coefficients=SQUARE_ROOT[:6]), noise=3.0, bins=2, epochs=3)
    for theorem in (correlated_linear_test_lower, correlated_sampled_block_lower):
        ((pair, count),) = theorem(run, dp.Adjacency.ZERO_OUT)
        assert count == 1
        for epsilon in (0.0, 0.5, 1.5):
            delta = float(np.exp(pair.log_hockey_stick(np.array([epsilon]))[0]))
            assert 0.0 < delta <= exact_deltas(run, epsilon)[0] * (1.0 + 1e-6)
    names = {one.__name__ for one in (correlated_bins_lower, correlated_bins_upper)}
    assert names <= {one.name for one in dp.all_bounds()}


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5, 4.0])
def test_draws_agree_with_the_grid(epsilon: float) -> None:
    run = kept(dp.BandedStrategy(coefficients=SQUARE_ROOT[:6]), noise=3.0, bins=2, epochs=3)
    answer = dp.estimate(run, epsilon=epsilon, samples=20_000, confidence=0.999, rng=3)
    truth = max(exact_deltas(run, epsilon))
    assert answer.lower * (1.0 - 1e-6) <= truth <= answer.upper * (1.0 + 1e-6)
    assert answer.relative_width < 0.35


@pytest.mark.parametrize("bands", [1, 4, 40])
def test_draws_lie_within_the_certified_bracket_at_small_deltas(bands: int) -> None:
    """Both ways to throw tokens; a few percent of epsilon at delta 1e-6 from few draws."""
    strategy = dp.BandedStrategy(coefficients=SQUARE_ROOT[:bands])
    run = kept(strategy, noise=3.0, bins=20, epochs=4)
    certified = dp.account(run).epsilon(delta=1e-6)
    drawn = dp.estimate(run, delta=1e-6, samples=20_000, confidence=0.999, rng=4)
    assert certified.lower <= drawn.upper
    assert drawn.lower <= certified.upper
    assert drawn.relative_width < 0.12


def test_weights_of_every_order_have_the_same_mean_and_stay_below_their_range() -> None:
    """The identity behind the tilts, in both directions; a wrong weight of tokens is seen at once."""
    strategy = dp.BandedStrategy(coefficients=SQUARE_ROOT[:3])
    run = CorrelatedBinsRun(kept(strategy, noise=2.0, bins=5, epochs=2), 5)
    rng = np.random.default_rng(0)
    epsilon = 0.5
    for direction in Direction:
        tilts = [tilt for tilt in run.tilts(direction) if tilt.order <= 3.0]
        assert len(tilts) >= 4
        means = []
        for tilt in tilts:
            draws = run.draw(rng, 60_000, 1, direction, tilt)
            paid = payoff(draws, epsilon, 0.0)
            log_most = log_range(run.log_moment(direction, tilt), tilt.order, epsilon)
            assert paid.max() <= math.exp(log_most) * (1.0 + 1e-9)
            means.append((paid.mean(), paid.std() / math.sqrt(paid.size)))
        for mean, deviation in means[1:]:
            assert abs(mean - means[0][0]) < 5.0 * math.hypot(deviation, means[0][1])


def test_no_draws_for_strategies_with_negative_entries() -> None:
    run = kept(dp.BandedStrategy(coefficients=(1.0, -0.5)), noise=3.0, bins=4, epochs=3)
    with pytest.raises(dp.Unsupported, match="no draws are known"):
        dp.estimate(run, epsilon=1.0)
