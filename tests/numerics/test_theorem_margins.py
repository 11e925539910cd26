"""Rates, weights and tables of theorems against fifty digits: each is rounded to its safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.allocation.kept_bins import _noise as kept_noise
from sharpdp.bounds.allocation.ratio_law import Values
from sharpdp.bounds.allocation.ratio_law import pair_above as allocated_pair_above
from sharpdp.bounds.correlated_noise.columns import columns_of
from sharpdp.bounds.fixed_size.truncation import Overflow
from sharpdp.bounds.shuffle_model.clone_pair import log_block_weights
from sharpdp.bounds.shuffle_model.known_pairs import rounded_rate
from sharpdp.bounds.shuffled_batches.lower_ratio_tests import ShuffledEpoch
from sharpdp.bounds.shuffled_batches.upper_clones import NullRecordClones, _log_odds
from sharpdp.bounds.shuffled_batches.upper_envelope import VacantEpoch
from sharpdp.bounds.shuffled_batches.upper_envelope import pair_above as vacant_pair_above
from sharpdp.bracket import Side
from sharpdp.mechanisms.strategies import BandedStrategy
from sharpdp.pairs.from_profile import profile_pairs
from sharpdp.pairs.pair import (
    GaussianPair,
    log_delta_of,
)
from tests.reference.digits import DIGITS, mp


@pytest.mark.parametrize(
    ("others", "rate", "room"), [(200, 0.1, 35), (1000, 0.01, 20), (50, 0.3, 25)]
)
def test_the_chance_of_a_full_batch_is_enclosed(others: int, rate: float, room: int) -> None:
    low, high = Overflow(others + 1, rate, room).full(others)
    with mpmath.workdps(DIGITS):
        q = mp(rate)
        truth = sum(
            mpmath.binomial(others, k) * q**k * (1 - q) ** (others - k)
            for k in range(room, others + 1)
        )
        assert mp(low) < truth < mp(high)


def test_rates_in_full_batches_are_rounded_outwards() -> None:
    for rate in 10.0 ** -np.random.default_rng(3).uniform(1.0, 12.0, 40):
        for room in (3, 7, 100):
            exactly = Fraction(float(rate)) * room / (room + 1)
            assert exactly <= Fraction(Overflow(1000, float(rate), room).full_rate)


def test_rates_of_drawn_users_are_rounded_outwards() -> None:
    for users in range(1, 60):
        low, high = (rounded_rate(users, 61, side) for side in (Side.LOWER, Side.UPPER))
        assert Fraction(low) < Fraction(users, 61) < Fraction(high)


@pytest.mark.parametrize(("trials", "rate"), [(400, 0.2), (5000, 0.03)])
def test_clones_are_counted_from_above(trials: int, rate: float) -> None:
    """The number of clones is rounded down, and its distribution function never below the true one."""
    mean = trials * rate
    left = np.unique(np.floor(np.linspace(0.3 * mean, 2.0 * mean, 23)))
    left[0] = 0.0
    weights = np.exp(log_block_weights(left, trials, rate))
    with mpmath.workdps(DIGITS):
        q = mp(rate)
        masses = [
            mpmath.binomial(trials, k) * q**k * (1 - q) ** (trials - k)
            for k in range(int(left[-1]) + 1)
        ]
        for index in range(1, left.size):
            below = sum(masses[: int(left[index])])
            found = (
                math.fsum(weights[:index].tolist())
                if left[index] <= mean
                else 1 - mp(math.fsum(weights[index:].tolist()))
            )
            assert mp(found) >= below if left[index] <= mean else found >= below


def test_what_null_record_clones_lose_is_rounded_up() -> None:
    for noise, batches, log_lost in ((1.0, 1000, -4.0), (2.0, 50, -2.0), (4.0, 10_000, -6.0)):
        clones = NullRecordClones(noise, batches, log_lost)
        odds = _log_odds(noise, batches, log_lost)
        with mpmath.workdps(DIGITS):
            c, mu = mpmath.exp(-mp(odds)), mp(1.0 / noise)
            a = mp(odds) / mu - mu / 2
            grown = c * (mpmath.ncdf(-a) - mpmath.ncdf(-a - mu) / c)
            assert grown <= mp(clones._grown)
            own = mp(clones._grown)
            assert (1 + own) ** (batches - 1) - 1 <= mp(clones.lost)
            assert mp(clones.rate) <= c / (1 + own)


@pytest.mark.parametrize("absent", [0.0, 0.2])
def test_attacks_are_no_better_than_their_events(absent: float) -> None:
    """The largest of all results is beyond a cut: its chances in fifty digits."""
    epoch, cuts = ShuffledEpoch(1.5, 20, absent, 1.0), np.array([0.5, 1.3, 2.2, 3.1])
    attacks = epoch.maximum_attacks(cuts)
    with mpmath.workdps(DIGITS):
        for index, cut in enumerate(cuts.tolist()):
            others = mpmath.ncdf(mp(cut)) ** 19

            def missed(shift: int, cut: float = cut, others: mpmath.mpf = others) -> mpmath.mpf:
                own = mpmath.ncdf(mp(cut) - mpmath.mpf(shift) / mp(1.5))
                return (1 - mp(absent)) * own * others + mp(absent) * others * mpmath.ncdf(mp(cut))

            with_record, without = missed(2), missed(1)
            fpr, tpr, tnr, fnr = (mp(float(one[index])) for one in vars(attacks).values())
            assert fpr >= 1 - without
            assert tpr <= 1 - with_record
            assert tnr <= without
            assert fnr >= with_record


def test_noise_of_kept_bins_is_rounded_outwards() -> None:
    for noise, epochs in ((1.1, 3), (0.7, 7), (2.3, 5), (1.9, 11)):
        scheme = dp.BallsAndBins(dataset_size=60, batch_size=6, epochs=epochs, order="kept")
        run = dp.DPSGD(scheme, noise_multiplier=noise)
        with mpmath.workdps(DIGITS):
            truth = mp(noise) / mpmath.sqrt(epochs)
            assert mp(kept_noise(run, Side.UPPER)) < truth < mp(kept_noise(run, Side.LOWER))


@pytest.mark.parametrize("cycle", [2, 3, 7])
def test_norms_of_columns_are_rounded_outwards(cycle: int) -> None:
    """The norm of a sum of columns of a band matrix, as the root of a fraction."""
    entries, steps = (1.0, 0.7, 0.3, 0.1), 40
    columns = columns_of(BandedStrategy(coefficients=entries), steps)
    pattern = np.arange(0, steps, cycle)
    total = [Fraction(0)] * steps
    for start in pattern.tolist():
        for lag, entry in enumerate(entries[: steps - start]):
            total[start + lag] += Fraction(entry)
    square = sum(value**2 for value in total)
    assert Fraction(columns.norm_lower(pattern, np.ones(pattern.size))) ** 2 < square
    assert square < Fraction(columns.norm_upper(pattern)) ** 2
    gram = columns.gram_upper(pattern)
    assert square < Fraction(float(gram.sum()))


def test_what_is_left_at_the_end_of_a_table_is_revealed() -> None:
    losses, logs = np.array([0.0, 1.0, 2.0]), np.array([-1.0, -2.0, -3.0])
    half = losses, logs
    values = Values(losses, logs - 0.1, logs)
    for pair in (vacant_pair_above(half, half), allocated_pair_above(values, values)):
        low, _ = log_delta_of(pair, 2.5)
        assert low >= -3.0 - 1e-6


def test_a_smaller_last_batch_counts_as_a_full_one_with_some_probability() -> None:
    """0.3 of a fifth batch: H of four batches with weight 0.7, and of five with weight 0.3."""
    loss, tolerance, values = 0.7, 1e-3, {}
    for batches, last in ((4, 0.0), (5, 0.0), (4, 0.3)):
        epoch = VacantEpoch(1.0, batches, 0.18, 0.1, last)
        values[batches, last] = math.exp(epoch.log_value(loss, "forward", tolerance))
    mixed = 0.7 * values[4, 0.0] + 0.3 * values[5, 0.0]
    assert values[5, 0.0] > 1.05 * values[4, 0.0]
    assert values[4, 0.3] == pytest.approx(mixed, rel=5e-3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_given_profile_that_is_off_by_what_is_believed_is_enclosed(sign: float) -> None:
    """That of a Gaussian, all values too large or too small by a relative 0.9e-9."""

    def exactly(epsilon: np.ndarray) -> np.ndarray:
        return np.exp(GaussianPair(1.0).log_hockey_stick(epsilon))

    pairs = profile_pairs(lambda epsilon: exactly(epsilon) * (1.0 + sign * 0.9e-9))
    for epsilon in (0.0, 0.25, 1.0, 2.0):
        truth = float(exactly(np.array([epsilon]))[0])
        low, high = (
            math.exp(log_delta_of(pairs[side], epsilon)[side is Side.UPPER])
            for side in (Side.LOWER, Side.UPPER)
        )
        assert low <= truth <= high
