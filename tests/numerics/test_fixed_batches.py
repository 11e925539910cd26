"""Random subsets and cut Poisson batches: quadrature in 30 digits, any three means, enumerated runs."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.fixed_size.pairs import (
    DisplacedPair,
    displaced,
    subset_replace_one,
    subset_zero_out,
)
from sharpdp.bounds.fixed_size.truncation import Overflow
from sharpdp.pairs.pair import Pair, log_delta_of

GRID = np.linspace(-11.0, 11.0, 1201)
GRID_ERROR = 5e-6  # of a sum over the grid of a function with a kink


def hockey_stick(p: np.ndarray, q: np.ndarray, loss: float) -> float:
    return float(np.sum(np.maximum(p - np.exp(loss) * q, 0.0)))


def upper(pair: Pair, loss: float) -> float:
    return float(np.exp(log_delta_of(pair, loss)[1]))


@pytest.mark.parametrize(
    ("mu", "rate", "loss"),
    [(1.0, 0.5, 0.3), (1.25, 1e-3, 0.1), (0.25, 1e-3, 1e-4), (2.0, 0.01, 3.0), (1.0, 1e-6, 0.0)],
)
def test_displaced_records_in_thirty_digits(mu: float, rate: float, loss: float) -> None:
    pair = DisplacedPair(mu, rate)
    at = np.array([loss])
    with mp.workdps(30):
        x, r, m = mp.e ** mp.mpf(loss), mp.mpf(rate), mp.mpf(mu)

        def ahead(z: mp.mpf) -> mp.mpf:
            return r * mp.npdf(z, m) - x * r * mp.npdf(z) - (x - 1) * (1 - r) * mp.npdf(z, -m)

        start = mp.findroot(lambda z: ahead(z) / mp.npdf(z), float(pair._place(at)[0] / mu))
        value = mp.quad(ahead, [start, start + 1, start + 3, start + 7, start + 15])
        tails = [
            (1 - r) * mp.ncdf(-start - m) + r * mp.ncdf(mean - start) for mean in (mp.mpf(0), m)
        ]
        found = [pair.log_hockey_stick(at)[0], pair.log_tail_q(at)[0], pair.log_tail_p(at)[0]]
        for log_value, exact in zip(found, [value, *tails], strict=True):
            assert abs(mp.e ** mp.mpf(float(log_value)) - exact) <= pair.accuracy * exact


def test_no_three_means_are_worse() -> None:
    """Random means in the disc, on a grid: the lemma about lognormal sums, in both directions."""
    rng = np.random.default_rng(7)
    first, second = np.meshgrid(GRID[::6], GRID[::6], indexing="ij")

    def normal(mean: np.ndarray) -> np.ndarray:
        one = np.exp(-0.5 * ((first - mean[0]) ** 2 + (second - mean[1]) ** 2))
        return np.asarray(one / np.sum(one))

    for _ in range(25):
        mu, rate = float(rng.uniform(0.3, 2.0)), float(rng.uniform(0.02, 0.9))
        angles, lengths = rng.uniform(0.0, 6.3, 3), mu * rng.uniform(0.6, 1.0, 3)
        u, v, other = (lengths * np.array([np.cos(angles), np.sin(angles)])).T
        p = (1.0 - rate) * normal(v) + rate * normal(u)
        for alternative, pair in (
            (np.zeros(2), subset_zero_out(mu, rate)),
            (other, subset_replace_one(mu, rate)),
        ):
            q = (1.0 - rate) * normal(v) + rate * normal(alternative)
            for loss in (0.0, 0.1, 0.5, 1.5):
                assert hockey_stick(p, q, loss) <= upper(pair, loss) + 1e-4 * rate
                assert hockey_stick(q, p, loss) <= upper(pair.reverse(), loss) + 1e-4 * rate


def test_the_worst_means_attain_it() -> None:
    def normal(mean: float) -> np.ndarray:
        one = np.exp(-0.5 * (GRID - mean) ** 2)
        return np.asarray(one / np.sum(one))

    mu, rate = 1.25, 0.1
    p = (1.0 - rate) * normal(-mu) + rate * normal(mu)
    q = (1.0 - rate) * normal(-mu) + rate * normal(0.0)
    for loss in (0.0, 0.2, 1.0):
        exact = hockey_stick(p, q, loss)
        assert upper(subset_zero_out(mu, rate), loss) == pytest.approx(exact, rel=2e-4)
        seen = float(np.exp(log_delta_of(displaced(mu, rate), loss)[0]))
        assert (1.0 - 1e-3) * exact < seen < (1.0 + 2e-4) * exact


@pytest.mark.parametrize(("noise", "instance"), [(0.8, 8.628), (1.0, 4.2347)])
def test_replace_one_contains_the_known_instance(noise: float, instance: float) -> None:
    """Spec 5.3: no doubling of the sensitivity gave 1.587 and 0.895 for these."""
    plan = dp.FixedSizeBatches(dataset_size=10**6, batch_size=1000, steps=1000)
    run = dp.DPSGD(plan, noise_multiplier=noise)
    doubled = dp.account(run, adjacency="replace-one").epsilon(delta=1e-6)
    assert instance - 1e-3 < doubled.lower < instance + 5e-3
    assert doubled.lower < doubled.upper < 1.02 * instance
    single = dp.account(run).epsilon(delta=1e-6)
    assert single.upper < doubled.upper
    assert single.relative_width < 2e-3


def test_everybody_in_every_batch_is_no_sampling() -> None:
    plan = dp.FixedSizeBatches(dataset_size=7, batch_size=7, steps=9)
    for adjacency, mu in (("zero-out", 3.0 / 2.0), ("replace-one", 3.0)):
        run = dp.account(dp.DPSGD(plan, noise_multiplier=2.0), adjacency=adjacency)
        same = dp.account(dp.Gaussian(1.0 / mu)).epsilon(delta=1e-6)
        assert run.epsilon(delta=1e-6).lower == pytest.approx(same.lower, rel=1e-9)


@pytest.mark.parametrize("others", [(-1.0, -1.0, -1.0), (1.0, -0.5, -1.0), (0.0, 0.0, 0.0)])
def test_subsets_of_four_enumerated(others: tuple[float, ...]) -> None:
    """Two of four records in a step: all six subsets, all values; every direction and adjacency."""
    noise = 1.0
    plan = dp.FixedSizeBatches(dataset_size=4, batch_size=2, steps=1)
    run = dp.DPSGD(plan, noise_multiplier=noise)

    def law(value: float) -> np.ndarray:
        records = (value, *others)
        sums = [a + b for a, b in itertools.combinations(records, 2)]
        total = np.sum([np.exp(-0.5 * (GRID - s) ** 2) for s in sums], axis=0)
        return np.asarray(total / np.sum(total))

    for adjacency, alternative in (("zero-out", 0.0), ("replace-one", -1.0)):
        answer = dp.account(run, adjacency=adjacency)
        p, q = law(1.0), law(alternative)
        for loss in (0.0, 0.3, 1.0):
            found = max(hockey_stick(p, q, loss), hockey_stick(q, p, loss))
            assert found <= answer.delta(epsilon=loss).upper + GRID_ERROR


def binomial_tail(trials: int, rate: Fraction, least: int) -> Fraction:
    return sum(
        (comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(least, trials + 1)),
        Fraction(0),
    )


@pytest.mark.parametrize(("population", "drawn", "room"), [(4, 2, 2), (30, 5, 7), (60, 12, 20)])
def test_overflow_against_fractions(population: int, drawn: int, room: int) -> None:
    rate = Fraction(drawn, population)
    overflow = Overflow(population, drawn / population, room)
    low, high = overflow.full(population - 1)
    exact = float(binomial_tail(population - 1, rate, room))
    assert low <= exact <= high <= (1.0 + 1e-9) * low
    alone = 1 - binomial_tail(population - 1, rate, room)
    displacing = Fraction(room, population) * binomial_tail(population, rate, room + 1)
    # the same, straight from the definition
    again = sum(
        (
            comb(population - 1, m)
            * rate**m
            * (1 - rate) ** (population - 1 - m)
            * rate
            * room
            / (m + 1)
            for m in range(room, population)
        ),
        Fraction(0),
    )
    assert displacing == again
    in_batch = float(rate * alone + displacing)
    assert (1.0 - 1e-9) * in_batch < overflow.least_rate <= in_batch


@pytest.mark.parametrize(
    ("room", "cost"), [(1150, 4.2e-3), (1200, 9.9e-7), (1225, 7.0e-9), (1250, 3e-11)]
)
def test_known_costs_of_absorbing(room: int, cost: float) -> None:
    """(1 + e^0.46769) T P[Bin(n, r) > B] of spec section 7."""
    found = Overflow(10**6, 1e-3, room)._tail(10**6, room + 1)
    value = (1.0 + np.exp(0.46769)) * 1000.0 * np.array(found)
    assert value[0] == pytest.approx(cost, rel=0.04)


@pytest.mark.parametrize(
    ("room", "known"), [(1000, 7.72), (1050, 6.04), (1100, 3.29), (1150, 0.47699), (1250, 0.46769)]
)
def test_known_prices_of_truncation(room: int, known: float) -> None:
    """Spec section 7, sigma 0.8, delta 1e-6; zero-out is never worse than add/remove."""
    plan = dp.TruncatedPoissonBatches(
        dataset_size=10**6, batch_size=1000, steps=1000, physical_batch_size=room
    )
    run = dp.DPSGD(plan, noise_multiplier=0.8)
    added = dp.account(run, adjacency="add/remove").epsilon(delta=1e-6)
    assert 0.46 < added.lower <= 0.46769
    assert 0.9995 * known < added.upper < 1.006 * known
    assert dp.account(run).epsilon(delta=1e-6).upper < 1.0001 * added.upper


@pytest.mark.parametrize("others", [(-1.0, -1.0, -1.0), (1.0, -0.5, -1.0), (0.0, 0.0, 0.0)])
def test_cut_batches_of_four_enumerated(others: tuple[float, ...]) -> None:
    """Four coins, at most two records kept: all draws and all choices of whom to keep."""
    rate, room = 0.5, 2
    plan = dp.TruncatedPoissonBatches(
        dataset_size=4, batch_size=2, steps=1, physical_batch_size=room
    )
    run = dp.DPSGD(plan, noise_multiplier=1.0)

    def law(records: tuple[float, ...]) -> np.ndarray:
        total = np.zeros(GRID.shape)
        for drawn in itertools.product((False, True), repeat=len(records)):
            chosen = [value for value, inside in zip(records, drawn, strict=True) if inside]
            kept = list(itertools.combinations(chosen, min(room, len(chosen))))
            weight = rate ** len(chosen) * (1.0 - rate) ** (len(records) - len(chosen))
            for some in kept:
                total += weight / len(kept) * np.exp(-0.5 * (GRID - sum(some)) ** 2)
        return np.asarray(total / np.sum(total))

    for adjacency, without in (("zero-out", (0.0, *others)), ("add/remove", others)):
        answer = dp.account(run, adjacency=adjacency)
        p, q = law((1.0, *others)), law(without)
        for loss in (0.0, 0.3, 1.0):
            found = max(hockey_stick(p, q, loss), hockey_stick(q, p, loss))
            bracket = answer.delta(epsilon=loss)
            assert found <= bracket.upper + GRID_ERROR
            if not any(others):  # the data set of the lower side
                assert bracket.lower <= found + 1e-6
                assert found == pytest.approx(bracket.lower, rel=2e-3, abs=1e-7)
