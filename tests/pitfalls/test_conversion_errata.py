"""Statements of asoodeh2020 and girgis2021 about conversions and conditions, checked in numbers."""

from __future__ import annotations

from math import erfc, exp, log, sqrt

import numpy as np
import pytest
from reproduce.asoodeh2020 import descent
from reproduce.asoodeh2020.gaussian import balle, fourth_term, three_terms

import sharpdp as dp


def delta_of(variance: float, epsilon: float) -> float:
    """delta of Gaussian noise, by its formula."""
    sigma = sqrt(variance)

    def normal(x: float) -> float:
        return erfc(-x / sqrt(2.0)) / 2.0

    near, far = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
    return normal(near) - exp(epsilon) * normal(far)


@pytest.mark.parametrize("epsilon", [0.001, 0.002, 0.01])
def test_theorem_5_without_its_remainder_is_no_bound(epsilon: float) -> None:
    """asoodeh2020: three terms ask for too little noise, though epsilon > 2 delta log(1/delta)."""
    delta = 1e-5
    assert epsilon > 2 * delta * log(1 / delta)
    assert delta_of(three_terms(epsilon, delta), epsilon) > 1.3 * delta
    assert delta_of(three_terms(epsilon, 1e-5) + fourth_term(epsilon, 1e-5), epsilon) < delta


def test_theorem_5_is_safe_with_its_fourth_term() -> None:
    """asoodeh2020 (82): the variance is above the need on a grid; nothing bounds its error elsewhere."""
    asked = 0
    for delta in 10.0 ** -np.arange(1, 13):
        for epsilon in 10.0 ** np.arange(-4, 1.01, 0.25):
            if epsilon > 2 * delta * log(1 / delta):
                variance = three_terms(epsilon, delta) + fourth_term(epsilon, delta)
                assert delta_of(variance, epsilon) < delta
                asked += 1
    assert asked > 150


@pytest.mark.parametrize("steps", [1, 30, 1000, 30_000])
def test_figure_3_is_never_below_the_truth(steps: int) -> None:
    """asoodeh2020: orders beyond the 89 of the cited lemma, and yet epsilon is on the safe side."""
    plan = dp.PoissonBatches(sample_rate=descent.RATE, steps=steps)
    truth = dp.account(dp.DPSGD(plan, noise_multiplier=descent.NOISE)).epsilon(delta=1e-5)
    claimed = float(balle(np.array([steps * descent.RHO]))[0])
    assert 1.5 * truth.upper < claimed < 1.7 * truth.lower


def test_conditions_51_and_52_are_about_the_clients_of_a_round() -> None:
    """girgis2021: its example, n = 10^6, k = 1000, local epsilon 3, violates both only with k."""
    local, delta = 3.0, 1e-8

    def largest(users: int) -> tuple[float, float]:
        return log(users / (16 * log(2 / delta))), log(users / log(1 / delta)) / 2

    assert min(largest(10**6)) > local > max(largest(1000))
    assert largest(10**6) == pytest.approx((8.09, 5.45), abs=0.005)
    assert largest(1000) == pytest.approx((1.185, 1.997), abs=0.001)
