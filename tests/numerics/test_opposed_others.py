"""Random subsets over many steps: three means in the plane, and an adversary who chooses step by step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.fft import irfft, next_fast_len, rfft

import sharpdp as dp
from sharpdp.bounds.fixed_size.opposed_others import (
    against_null,
    opposed_others,
    power_pair,
    with_record,
)
from sharpdp.pairs.pair import log_delta_of
from sharpdp.profile.composition import Composition

MU, RATE, STEPS, DELTA = 1.25, 512 / 60_000, 300, 1e-5
STEP = 0.005  # of the grid of losses below


def one_step(mu: float, rate: float, cosine: float, points: int) -> tuple[np.ndarray, np.ndarray]:
    """P and Q of one step on a grid in the plane; others at this cosine to the record."""
    z, y = np.linspace(-9.0, 11.0, points), np.linspace(-8.0, 8.0, points // 4 | 1)
    first, second = np.meshgrid(z, y if abs(cosine) < 1.0 else np.zeros(1), indexing="ij")

    def normal(a: float, b: float) -> np.ndarray:
        density = np.exp(-0.5 * ((first - a) ** 2 + (second - b) ** 2))
        return np.asarray(density / np.sum(density)).ravel()

    others = normal(cosine * mu, mu * np.sqrt(1.0 - cosine**2))
    record, null_record = normal(mu, 0.0), normal(0.0, 0.0)
    return (1.0 - rate) * others + rate * record, (1.0 - rate) * others + rate * null_record


@pytest.mark.parametrize(("mu", "rate"), [(1.25, 512 / 60_000), (0.5, 0.1), (2.5, 0.01)])
@pytest.mark.parametrize("cosine", [-0.9, -0.3, 0.4])
def test_profiles_of_three_means_in_the_plane(mu: float, rate: float, cosine: float) -> None:
    p, q = one_step(mu, rate, cosine, 1200)
    losses = np.array([0.0, 0.3 * rate, rate, 0.05, 0.3])
    for profile, first, second in ((with_record, p, q), (against_null, q, p)):
        upper = profile(losses, mu, rate, cosine)
        exact = [float(np.sum(np.maximum(first - np.exp(loss) * second, 0.0))) for loss in losses]
        assert np.all(upper >= np.array(exact) - 1e-5 * rate)
        # a spread of the other coordinate costs some percent
        assert np.all(upper <= 1.15 * np.array(exact) + 1e-5 * rate)


def test_others_that_side_with_the_record_have_a_closed_form() -> None:
    """r h_mu(1 + (x - 1)/r), h_mu(y) = Phi(mu/2 - log(y)/mu) - y Phi(-mu/2 - log(y)/mu)."""
    losses = np.array([0.0, 1e-3, 0.02, 0.3])
    for rate in (512 / 60_000, 0.2):
        y = 1.0 + np.expm1(losses) / rate
        d = np.log(y) / MU
        exact = rate * (stats.norm.cdf(0.5 * MU - d) - y * stats.norm.cdf(-0.5 * MU - d))
        assert against_null(losses, MU, rate, 1.0) == pytest.approx(exact, rel=1e-8)


def test_the_added_pair_by_its_definition() -> None:
    """M with density ~ m^-a under P, dP/dQ = 1/M: both profiles as integrals over m."""
    for power in (3.0, 6.0, 12.0):
        pair, least = power_pair(power), (power - 2.0) / (power - 1.0)
        m = least * np.exp(np.linspace(0.0, 60.0 / (power - 2.0), 400_001))
        weights = np.gradient(m) * m**-power
        weights[[0, -1]] *= 0.5
        p = weights / np.sum(weights)
        for loss in (0.0, 0.05, 0.15):
            x = np.exp(loss)
            exact = [np.sum(p * np.maximum(1.0 - x * m, 0.0)), np.sum(p * np.maximum(m - x, 0.0))]
            for value, one in zip(exact, (pair, pair.reverse()), strict=True):
                upper = float(np.exp(log_delta_of(one, loss)[1]))
                assert value - 1e-6 <= upper <= 1.01 * value + 1e-5


def kernel(cosine: float, reach: int) -> np.ndarray:
    """P-masses of one step's losses, spread to multiples of STEP with the Q-masses kept."""
    p, q = one_step(MU, RATE, cosine, 400)
    losses = np.log(p / q)
    left = np.clip(np.floor(losses / STEP), -reach, reach - 1).astype(int)
    low, high = np.exp(-left * STEP), np.exp(-(left + 1) * STEP)
    share = (np.exp(-losses) - low) / (high - low)
    size = 2 * reach + 1
    down = np.bincount(left + reach, p * (1.0 - share), size)
    return np.asarray(down + np.bincount(left + 1 + reach, p * share, size))


def log_delta(epsilon: float, cosines: tuple[float, ...]) -> float:
    """log delta against an adversary who chooses one of these in every step, by dynamic programming."""
    low, high, reach = -6.0, 24.0, int(12.0 / STEP)
    grid = STEP * np.arange(round(low / STEP), round(high / STEP))
    size = next_fast_len(grid.size + 4 * reach)
    kernels = [rfft(kernel(cosine, reach)[::-1], size) for cosine in cosines]
    value = np.maximum(1.0 - np.exp(epsilon - grid), 0.0)
    beyond = 1.0 - np.exp(epsilon - grid[-1] - STEP * np.arange(1, reach + 1))
    inside = slice(2 * reach, 2 * reach + grid.size)
    for _ in range(STEPS):
        transform = rfft(np.concatenate([np.zeros(reach), value, beyond]), size)
        choices = [irfft(transform * one, size)[inside] for one in kernels]
        value = np.clip(np.max(choices, axis=0), 0.0, 1.0)
    return float(np.log(value[round(-low / STEP)]))


def test_an_adversary_who_chooses_in_every_step_stays_below() -> None:
    """It gains 0.002 by siding with the record once it is ahead; the theorem leaves room for 0.037."""
    plan = dp.FixedSizeBatches(dataset_size=60_000, batch_size=512, steps=STEPS)
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=0.8), relative_width=1e-4)
    epsilon = answer.epsilon(delta=DELTA)
    assert any(bound.name == "opposed_others_upper" for bound in answer.bounds)
    upper = [float(answer.only(one).epsilon(delta=DELTA).upper) for one in answer.upper_derivations]
    # one derivation alone is asked for the whole width, so that its last digits differ
    assert float(epsilon.upper) == pytest.approx(min(upper), rel=1e-4)
    assert min(upper) < max(upper) - 0.01
    # the grid spreads every loss a little, which raises both by the same 0.002
    opposed, adaptive = (log_delta(float(epsilon.lower), c) for c in ((-1.0,), (-1.0, 0.0, 1.0)))
    assert opposed == pytest.approx(np.log(DELTA), abs=3e-3)
    gain = adaptive - opposed
    assert gain > 1e-3
    slope = (log_delta(float(epsilon.lower) + 0.1, (-1.0,)) - opposed) / 0.1
    assert float(epsilon.lower) - gain / slope < float(epsilon.upper)


def test_without_the_added_pair_the_bound_would_be_broken() -> None:
    """Others who side with the record beat D in one step of Q against P."""
    found = opposed_others(MU, RATE)
    assert found is not None
    step, once = found
    p, q = one_step(MU, RATE, 1.0, 4000)
    siding = float(np.sum(np.maximum(q - np.exp(0.02) * p, 0.0)))
    assert siding > 1.5 * float(np.exp(log_delta_of(step.reverse(), 0.02)[1]))
    both = Composition(((step, 1), (once, 1)))
    assert siding < float(np.exp(both.reverse().log_delta(0.02, 1e-3)[1]))


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.5), (2.0, 0.1), (3.0, 0.01)])
def test_where_siding_pays_nothing_is_claimed(mu: float, rate: float) -> None:
    assert opposed_others(mu, rate) is None


@pytest.mark.parametrize(("noise", "rate"), [(2.0, 0.01), (1.0, 1e-3), (0.5, 1e-3), (0.8, 1e-4)])
def test_both_upper_sides_lie_above_the_lower_one(noise: float, rate: float) -> None:
    plan = dp.FixedSizeBatches(dataset_size=10**5, batch_size=round(rate * 10**5), steps=5000)
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=noise))
    for delta in (1e-3, 1e-6, 1e-10):
        bracket = answer.epsilon(delta=delta)
        for one in answer.upper_derivations:
            assert answer.only(one).epsilon(delta=delta).upper >= bracket.lower


def test_draws_with_replacement_are_narrower_over_many_steps() -> None:
    """One step of D with repeats dominates the data set that attains the lower side, and not without."""
    plan = dp.FixedSizeBatches(dataset_size=60_000, batch_size=512, steps=3540, replacement=True)
    run = dp.DPSGD(plan, noise_multiplier=0.8)
    answer = dp.account(run)
    assert answer.epsilon(delta=DELTA).relative_width < 0.017
    bounds = {bound.name: bound for bound in answer.bounds}
    (((step, _), _),) = (bounds["opposed_repeats_upper"](run, answer.adjacency),)
    ((attained, _),) = bounds["opposed_draws_lower"](run, answer.adjacency)
    once = opposed_others(MU, 512 / 60_511)
    assert once is not None
    beaten = []
    for loss in (0.0, 0.1, 1.0, 3.0, 6.0):
        low, high = log_delta_of(attained, loss)[0], log_delta_of(step, loss)[1]
        assert low <= high
        beaten.append(low > log_delta_of(once[0], loss)[1])
    assert any(beaten)
