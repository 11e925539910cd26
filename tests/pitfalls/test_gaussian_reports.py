"""Tempting mistakes about shuffled reports without a finite local epsilon, and what an audit sees."""

import math

import numpy as np
import pytest

import sharpdp as dp
from sharpdp import audit
from sharpdp.bounds.shuffle_model.gaussian_reports import dominating_noise, largest_noise
from sharpdp.bounds.shuffle_model.published.unbounded import shuffled_gaussian_moments
from sharpdp.bounds.shuffle_model.unbounded_randomizer import gaussian_largest_report_lower
from sharpdp.mechanisms import ApproximateReports
from sharpdp.pairs.pair import epsilon_of
from sharpdp.plans import Plan


def test_gaussian_noise_is_not_pure():
    """Taking (epsilon0, delta0) for a pure local epsilon claims less than an attack reaches."""
    noise, users, delta = 1.0, 10_000, 1e-20
    local = float(dp.account(dp.LocalGaussian(noise)).epsilon(delta=1e-3).upper)
    wrong = dp.account(dp.ShuffledReports(users=users, local_epsilon=local)).epsilon(delta=delta)
    attack = epsilon_of(largest_noise(noise, users), math.log(delta))[0]
    assert wrong.upper < 0.7 * attack


def test_a_delta_of_one_report_counts():
    """A randomizer that sends its record with probability delta0 reveals it with that probability."""
    promised = dp.ApproximateDP(epsilon=1.0, delta=1e-4)
    answer = dp.account(dp.ShuffledReports(users=1000, randomizer=promised))
    assert answer.epsilon(delta=0.9e-4).lower == math.inf
    pure = dp.account(dp.ShuffledReports(users=1000, local_epsilon=1.0))
    assert pure.delta(epsilon=0.9).upper < 1e-4 <= answer.delta(epsilon=0.9).lower * (1 + 1e-9)


def test_published_moments_are_not_those_of_every_crowd():
    """Values of [-1, 1] and a victim who is replaced by 0: others at -1 are worse than others at 0."""
    y = np.linspace(-9.0, 9.0, 721)

    def density(*means):
        one, other = (np.exp(-0.5 * (y - mean) ** 2) / math.sqrt(2 * math.pi) for mean in means)
        return 0.5 * (np.outer(one, other) + np.outer(other, one))

    p, q = density(1.0, -1.0), density(0.0, -1.0)
    divergence = math.log(float(np.sum(p * p / q)) * (y[1] - y[0]) ** 2)
    two = ApproximateReports(users=2, randomizer=dp.LocalGaussian(1.0))
    assert divergence == pytest.approx(0.9515, abs=1e-4)
    assert shuffled_gaussian_moments(two, 2.0) == pytest.approx(
        math.log((1 + math.e) / 2), rel=1e-12
    )


def test_drawn_users_and_rounds_are_monotone():
    whole = dominating_noise(2.0, 50, 1.0, 5.0)
    drawn = dominating_noise(2.0, 50, 0.1, 5.0)
    for log_delta in (-7.0, -14.0):
        assert 0.0 < epsilon_of(drawn, log_delta)[1] < epsilon_of(whole, log_delta)[0]
    one = ApproximateReports(users=50, randomizer=dp.LocalGaussian(2.0), rounds=3)
    assert gaussian_largest_report_lower(one, one.adjacency())[0][1] == 3


def test_plans_keep_the_randomizer():
    run = dp.ShuffledReports(users=50, randomizer=dp.LocalGaussian(2.0), population=500, rounds=2)
    again = Plan.from_dict(Plan(run, delta=1e-6).to_dict()).mechanism
    assert again == run
    assert again.parts() == (
        (ApproximateReports(users=50, randomizer=dp.LocalGaussian(2.0), population=500), 2),
    )


def scores(rng, noise, runs, value, users=20):
    """What an attacker sees of runs in which one user holds a value and all others hold 0."""
    held = np.zeros(users)
    held[0] = value
    reports = held + noise * rng.normal(size=(runs, users))
    ratios = np.exp(reports - 0.5)
    return np.log(np.mean(ratios, axis=1))


def test_an_audit_of_real_reports():
    """Reports as described agree with the upper side; with less than a third of the noise they do not."""
    rng = np.random.default_rng(11)
    promised = dp.account(dp.ShuffledReports(users=20, randomizer=dp.LocalGaussian(1.0)))
    upper = float(promised.epsilon(delta=1e-3).upper)
    found = {}
    for noise in (1.0, 0.3):
        result = audit.many_runs(
            with_record=scores(rng, noise, 40_000, 1.0),
            without_record=scores(rng, noise, 40_000, 0.0),
            confidence=0.99,
            delta=1e-3,
        )
        found[noise] = float(result.epsilon.lower)
    assert 0.0 < found[1.0] <= upper < found[0.3]
