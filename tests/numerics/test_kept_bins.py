"""Bins that are kept for all epochs: against quadrature, and against adaptive strategies."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import sharpdp as dp
from sharpdp.bounds.allocation.kept_bins import kept_bins_lower, kept_bins_upper
from sharpdp.bounds.allocation.largest_ratio import largest_ratio_above, largest_ratio_below
from sharpdp.bounds.allocation.ratio_law import allocated
from sharpdp.bounds.allocation.sum_profile import Profile
from sharpdp.bracket import Side
from sharpdp.pairs.pair import log_delta_of

CELLS = 7
EDGES = np.concatenate([[-np.inf], np.linspace(-1.6, 2.4, CELLS - 1), [np.inf]])


def run(bins: int, epochs: int, noise: float) -> dp.DPSGD:
    plan = dp.BallsAndBins(dataset_size=3 * bins, batch_size=3, epochs=epochs, order="kept")
    return dp.DPSGD(plan, noise_multiplier=noise)


def two_bins(mu: float, x: float) -> float:
    """E (U/2 + U'/2 - x)_+ for two lognormals, by the formula of Black and Scholes and one integral."""

    def call(strike: float) -> float:
        if strike <= 0.0:
            return 1.0 - strike
        d = -math.log(strike) / mu + mu / 2
        return float(stats.norm.cdf(d) - strike * stats.norm.cdf(d - mu))

    def integrand(y: float) -> float:
        u = math.exp(mu * y - mu * mu / 2)
        return float(stats.norm.pdf(y)) * call(2.0 * x - u) / 2.0

    kink = (math.log(2.0 * x) + mu * mu / 2) / mu
    value, _ = integrate.quad(integrand, -12.0, mu + 12.0, points=[kink], limit=400, epsabs=1e-14)
    return float(value)


@pytest.mark.parametrize(
    ("epochs", "noise", "epsilon"), [(2, 1.5, 0.5), (9, 3.0, 1.0), (30, 4.0, 2.0), (4, 0.7, 3.0)]
)
def test_two_kept_bins_by_quadrature(epochs: int, noise: float, epsilon: float) -> None:
    truth = two_bins(math.sqrt(epochs) / noise, math.exp(epsilon))
    bracket = dp.account(run(2, epochs, noise)).delta(epsilon=epsilon)
    assert bracket.lower * (1 - 1e-9) <= truth <= bracket.upper * (1 + 1e-9)
    assert bracket.upper - bracket.lower < 2e-3 * truth


def test_both_sides_share_one_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the lower one has room for the rounding of mu: e^-r H(e^r x), r being 40 times that."""
    planned: set[tuple[float, ...]] = set()
    following = Profile._following
    monkeypatch.setattr(
        Profile,
        "_following",
        lambda self, last: planned.add((self.mu, self.sign)) or following(self, last),
    )
    answer = dp.account(run(7, 3, 1.2345))
    answer.epsilon(delta=1e-6)
    assert len(planned) == 2  # one for each direction
    ((upper, _),) = kept_bins_upper(answer.mechanism, dp.Adjacency.ZERO_OUT)
    ((lower, _),) = kept_bins_lower(answer.mechanism, dp.Adjacency.ZERO_OUT)
    exact = mp.sqrt(3) / mp.mpf(1.2345)
    assert upper.mu == lower.mu
    assert 0.0 <= upper.mu - exact < 2.0**-48 * exact
    assert lower.loss_error - upper.loss_error > 40.0 * (upper.mu - exact)
    assert lower.accuracy - upper.accuracy > 40.0 * (upper.mu - exact)


def test_the_prototype_of_the_specification() -> None:
    """Importance sampling of others: 1.003e-2 +- 0.9% and 1.473e-4 +- 1%, 100 bins and 10 epochs."""
    for noise, delta, error in ((1.5, 1.003e-2, 0.009), (2.0, 1.473e-4, 0.01)):
        bracket = dp.account(run(100, 10, noise)).delta(epsilon=2.0)
        assert bracket.lower < delta * (1 + 3 * error)
        assert bracket.upper > delta * (1 - 3 * error)


def path_masses(shifts: np.ndarray, noise: float) -> np.ndarray:
    """The probability of each path of cells, if the mean of a step depends on the earlier cells."""
    masses = np.ones(1)
    for level in shifts:
        cells = np.diff(stats.norm.cdf((EDGES[None, :] - level[:, None]) / noise), axis=1)
        masses = (masses[:, None] * cells).ravel()
    return masses


def strategies(rng: np.random.Generator, steps: int) -> list[np.ndarray]:
    """A contribution in [-1, 1] for each step and each path of earlier cells: extreme or random."""
    kind = rng.integers(3)
    levels = []
    for step in range(steps):
        paths = CELLS**step
        if kind == 0:
            levels.append(rng.choice([-1.0, 1.0], size=paths))
        elif kind == 1:
            levels.append(np.where(np.arange(paths) % CELLS > rng.integers(CELLS), 1.0, 0.0))
        else:
            levels.append(rng.uniform(-1.0, 1.0, size=paths))
    return levels


@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 0.3), (1.5, 1.0), (0.8, 2.0)])
def test_no_adaptive_strategy_exceeds_the_pair(noise: float, epsilon: float) -> None:
    """Results are seen through cells, which can only help privacy: 300 strategies, exact masses."""
    bins, epochs = 2, 2
    upper = dp.account(run(bins, epochs, noise)).delta(epsilon=epsilon).upper
    rng, x = np.random.default_rng(5), math.exp(epsilon)
    best = 0.0
    for number in range(300):
        contribution = strategies(rng, bins * epochs)
        if number == 0:
            contribution = [np.ones(CELLS**step) for step in range(bins * epochs)]
        silent = [np.zeros_like(level) for level in contribution]
        q = path_masses(silent, noise)
        p = np.zeros_like(q)
        for home in range(bins):
            means = [
                level if step % bins == home else zero
                for step, (level, zero) in enumerate(zip(contribution, silent, strict=True))
            ]
            p += path_masses(means, noise) / bins
        both = np.sum(np.maximum(p - x * q, 0.0)), np.sum(np.maximum(q - x * p, 0.0))
        best = max(best, *both)
        assert max(both) <= upper
    assert best > 0.75 * upper  # the constant strategy, seen through seven cells


def test_redrawn_bins_are_more_private() -> None:
    kept = run(20, 5, 1.0)
    redrawn = dp.DPSGD(
        dp.BallsAndBins(dataset_size=60, batch_size=3, epochs=5), noise_multiplier=1.0
    )
    once = dp.DPSGD(
        dp.BallsAndBins(dataset_size=60, batch_size=3, epochs=1), noise_multiplier=1 / math.sqrt(5)
    )
    epsilons = [dp.account(one).epsilon(delta=1e-5) for one in (redrawn, kept, once)]
    assert epsilons[0].upper < epsilons[1].lower
    assert epsilons[1].lower <= epsilons[2].upper
    assert epsilons[2].lower <= epsilons[1].upper


@pytest.mark.parametrize("noise", [1e-3, 30.0, 1e4])
def test_every_noise_has_both_sides(noise: float) -> None:
    bracket = dp.account(run(7, 3, noise)).epsilon(delta=1e-6)
    assert 0.0 <= bracket.lower <= bracket.upper < math.inf


def test_one_epoch_is_the_same_either_way() -> None:
    plans = [
        dp.BallsAndBins(dataset_size=40, batch_size=9, epochs=1, order=order)
        for order in ("redrawn", "kept")
    ]
    first, second = (
        dp.account(dp.DPSGD(plan, noise_multiplier=1.0)).epsilon(delta=1e-5) for plan in plans
    )
    assert (first.lower, first.upper) == (second.lower, second.upper)
    drawn = [[batch.tolist() for batch in plan.batches(3)] for plan in plans]
    assert drawn[0] == drawn[1]


def two_bins_little_noise(mu: float, epsilon: float) -> tuple[mp.mpf, mp.mpf]:
    """delta of P against Q and of Q against P for two bins, by quadrature in 30 digits."""
    with mp.workdps(30):
        m, x = mp.mpf(mu), mp.e ** mp.mpf(epsilon)

        def ratio(y: mp.mpf) -> mp.mpf:
            return mp.e ** (m * y - m * m / 2)

        def call(strike: mp.mpf) -> mp.mpf:
            if strike <= 0:
                return 1 - strike
            d = -mp.log(strike) / m + m / 2
            return mp.ncdf(d) - strike * mp.ncdf(d - m)

        def put(strike: mp.mpf) -> mp.mpf:
            if strike <= 0:
                return mp.mpf(0)
            d = mp.log(strike) / m + m / 2
            return strike * mp.ncdf(d) - mp.ncdf(d - m)

        kinks = [(mp.log(2 * level) + m * m / 2) / m for level in (x, 1 / x)]
        ends = [mp.mpf(-12), 0, m / 2, m, m + 4, m + 14]
        ahead = mp.quad(
            lambda y: mp.npdf(y) * call(2 * x - ratio(y)) / 2, sorted([*ends, kinks[0]])
        )
        # the smaller one of the two is below 2 / x
        behind = x * mp.quad(
            lambda y: mp.npdf(y) * put(2 / x - ratio(y)) / 2, [-12, -6, kinks[1] - 2, kinks[1]]
        )
        return ahead, behind


@pytest.mark.parametrize(("mu", "epsilon"), [(5.0, 16.0), (6.85, 30.0), (6.85, 45.0), (12.0, 90.0)])
def test_the_largest_ratio_by_quadrature_in_thirty_digits(mu: float, epsilon: float) -> None:
    exact = two_bins_little_noise(mu, epsilon)
    below, above = largest_ratio_below(mu, 2), largest_ratio_above(mu, 2)
    for truth, low, high in zip(
        exact, (below, below.reverse()), (above, above.reverse()), strict=True
    ):
        lower, upper = log_delta_of(low, epsilon)[0], log_delta_of(high, epsilon)[1]
        assert lower <= float(mp.log(truth)) + 1e-9
        assert upper >= float(mp.log(truth)) - 1e-9
    # the direction that decides
    assert log_delta_of(above, epsilon)[1] - log_delta_of(below, epsilon)[0] < 0.01


def test_the_largest_ratio_among_many_bins() -> None:
    """eps = 47.0995: sets max > C from below, and Gaussian noise log T further down, both by mpmath."""
    plan = dp.BallsAndBins(dataset_size=60_000, batch_size=512, epochs=30, order="kept")
    bracket = dp.account(dp.DPSGD(plan, noise_multiplier=0.8)).epsilon(delta=1e-5)
    mu, bins = mp.sqrt(30) / mp.mpf("0.8"), 117
    with mp.workdps(40):
        x = mp.e ** mp.mpf(float(bracket.lower))
        attack = max(
            mp.ncdf(c) ** bins * x - mp.ncdf(c - mu) * mp.ncdf(c) ** (bins - 1) + 1 - x
            for c in mp.linspace(9, 12, 301)
        )
        assert attack == pytest.approx(1e-5, rel=1e-4)
        y = mp.e ** mp.mpf(float(bracket.upper)) * bins
        alone = mp.ncdf(mu / 2 - mp.log(y) / mu) - y * mp.ncdf(-mu / 2 - mp.log(y) / mu)
        assert 0.999 < alone / mp.mpf("1e-5") < 1.0
    assert bracket.relative_width < 1e-5


@pytest.mark.parametrize(("noise", "bins"), [(0.15, 117), (0.2, 10), (0.25, 1000)])
def test_tables_and_the_largest_ratio_agree(noise: float, bins: int) -> None:
    pairs = (
        (largest_ratio_below(1 / noise, bins), allocated(noise, bins, 1, Side.UPPER)),
        (allocated(noise, bins, 1, Side.LOWER), largest_ratio_above(1 / noise, bins)),
    )
    for low, high in pairs:
        for loss in (0.0, 1.0, 5.0, 10.0, 20.0):
            for one, other in ((low, high), (low.reverse(), high.reverse())):
                assert log_delta_of(one, loss)[0] <= log_delta_of(other, loss)[1] + 1e-9
