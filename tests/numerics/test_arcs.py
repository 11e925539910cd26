"""Probabilities of arcs against enumeration in 40 digits: within the error that is claimed."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from sharpdp.numerics.wrapped_sum import CircularSum

TOP = 7.0
BINOMIAL_ERROR = 1e-11  # of scipy's masses, and what lies beyond ten deviations


def wrapped(center: mp.mpf, noise: float, low: float, window: float) -> mp.mpf:
    """P[center + noise Z lies in (low, TOP) modulo the window]."""
    turns = range(-2, 3)
    return mp.fsum(
        mp.ncdf((TOP + k * window - center) / noise) - mp.ncdf((low + k * window - center) / noise)
        for k in turns
    )


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("total", [1.0, 0.75])
def test_few_summands_against_enumeration(count: int, total: float) -> None:
    values = np.array([-1.5, -0.25, 0.5, 2.75])
    masses = total * np.array([0.5, 0.25, 0.125, 0.125])
    last = np.array([0.125, 0.25, 0.25, 0.25])
    noise, window, thresholds = 0.125, 12.0, np.array([-2.0, 0.0, 1.0, 6.0])
    law = CircularSum(values, masses, float(np.log(total)), 0.0, count, noise, window)
    found, error = law.arcs(last, thresholds, TOP)
    with mp.workdps(40):
        for threshold, value in zip(thresholds, found, strict=True):
            exact = mp.mpf(0)
            for draw in itertools.product(range(4), repeat=count + 1):
                mass = mp.mpf(last[draw[0]])
                for one in draw[1:]:
                    mass *= mp.mpf(masses[one])
                center = mp.fsum(mp.mpf(values[one]) for one in draw)
                exact += mass * wrapped(center, noise, float(threshold), window)
            assert abs(mp.mpf(value) - exact) <= error
    assert error < 1e-11


@pytest.mark.parametrize("count", [2_000, 10**6])
def test_many_coins_against_the_binomial(count: int) -> None:
    """Steps of +1 and -1: a binomial law, so that every arc is a sum of its masses."""
    values, masses = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    deviation = float(np.sqrt(count))
    noise, window, top = 0.05 * deviation, 16.0 * deviation, 8.0 * deviation
    law = CircularSum(values, masses, 0.0, 0.0, count, noise, window)
    thresholds = deviation * np.array([-1.0, 0.5, 3.0, 4.5])
    found, error = law.arcs(np.array([0.0, 1.0]), thresholds, top)
    ones = np.arange(count // 2 - int(5 * deviation), count // 2 + int(5 * deviation) + 1)
    chances, at = stats.binom.pmf(ones, count, 0.5), 2.0 * ones - count + 1.0
    for threshold, value in zip(thresholds, found, strict=True):
        exact = sum(
            chances
            @ (ndtr((top + k * window - at) / noise) - ndtr((threshold + k * window - at) / noise))
            for k in (-1, 0, 1)
        )
        assert abs(value - exact) <= error + BINOMIAL_ERROR
    assert error < 1e-9


def test_masses_that_are_known_roughly_widen_the_error() -> None:
    values, masses = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    sharp = CircularSum(values, masses, 0.0, 0.0, 50, 0.5, 40.0)
    rough = CircularSum(values, masses, 0.0, 1e-8, 50, 0.5, 40.0)
    at = np.array([1.0])
    assert rough.arcs(masses, at, 20.0)[1] > 1e3 * sharp.arcs(masses, at, 20.0)[1]
