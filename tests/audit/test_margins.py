"""What an audit shares its risk among, and the tails that it counts: each against its own definition."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.audit import many_runs, one_run
from sharpdp.audit.claims import Claim
from sharpdp.audit.drawn_batches import _marginals
from sharpdp.audit.error_band import band_risk
from sharpdp.audit.findings import Finding, judged
from sharpdp.audit.repeated_runs import RankedHits, _tests
from sharpdp.audit.sequential import Stakes
from sharpdp.questions.estimate.confidence import Bets, mean_upper
from sharpdp.questions.estimate.estimates import _log_risk
from sharpdp.questions.estimate.experiment import GaussianRun, Product

RNG = np.random.default_rng(8)
COINS = RNG.random(400) < 0.5
SCORES = COINS * 2.0 + RNG.normal(size=400)
SIZES = [(100, 100), (50, 50), (25, 25), (75, 0)]
"""A quarter, an eighth, a sixteenth on both sides; three sixteenths on the first."""


def test_the_best_of_four_sets_of_guesses_has_a_quarter_of_the_risk() -> None:
    guarantee = dp.account(dp.Gaussian(noise_multiplier=1.0))
    together = one_run(scores=SCORES, included=COINS, confidence=0.96, guarantee=guarantee)
    alone = [
        one_run(scores=SCORES, included=COINS, confidence=0.99, guarantee=guarantee, guesses=sizes)
        for sizes in SIZES
    ]
    best = max(float(audit.epsilon.lower) for audit in alone)
    assert float(together.epsilon.lower) == pytest.approx(best, rel=1e-6)
    smallest = min(float(audit.p_value or 0.0) for audit in alone)
    assert together.p_value == pytest.approx(4.0 * smallest, rel=1e-9)


def test_the_best_of_many_ranks_counts_them_all() -> None:
    inside, outside = RNG.normal(1.0, size=200), RNG.normal(size=300)
    guarantee = dp.account(dp.Gaussian(noise_multiplier=10.0))
    audit = many_runs(with_record=inside, without_record=outside, guarantee=guarantee)
    claim = Claim.of_guarantee(guarantee)
    p_values = np.concatenate([test.p_values(claim) for test in _tests(inside, outside, 0)])
    assert p_values.size >= 6
    assert audit.p_value == pytest.approx(p_values.size * float(p_values.min()), rel=1e-9)


def test_both_bands_of_rates_share_the_risk() -> None:
    """The limit of no score beyond a threshold is 1 - local^(1/n): it tells the risk of the band."""
    n, confidence = 60, 0.95
    audit = many_runs(
        with_record=RNG.normal(1.0, size=n),
        without_record=RNG.normal(size=n),
        confidence=confidence,
    )
    for rates, limits in ((audit.fpr, audit.fpr_upper), (audit.fnr, audit.fnr_upper)):
        assert limits is not None
        local = (1.0 - float(np.min(limits[rates == 0.0]))) ** n
        assert band_risk(n, local) <= 0.5 * (1.0 - confidence) * (1.0 + 1e-3)


@pytest.mark.underflows
def test_hits_that_fair_runs_hardly_ever_have_are_not_less_likely_than_they_are() -> None:
    """All of 100 runs with the record score above 100 others: 1 / C(200, 100) if laws are equal."""
    certain = RankedHits(100, 100, np.array([1]), np.array([100]), np.zeros(1))
    p_value = float(certain.p_values(Claim.of_point(0.0, 0.0))[0])
    assert 1.0 / math.comb(200, 100) <= p_value <= 1e-9


def test_a_claim_is_the_upper_side_of_its_guarantee() -> None:
    """Shuffled reports with an unknown randomizer: the two sides are apart."""
    guarantee = dp.account(dp.ShuffledReports(users=1000, local_epsilon=2.0))
    claim = Claim.of_guarantee(guarantee)
    delta = guarantee.delta(epsilon=claim.epsilons)
    assert np.any(np.asarray(delta.upper) > 1.01 * np.asarray(delta.lower))
    assert np.all(claim.deltas >= np.asarray(delta.upper))


def test_capital_is_shared_by_all_bettors() -> None:
    """One of them wins half of what it has; the others bet nothing."""
    stakes = Stakes([Claim.of_point(0.0, 0.0)])
    bettors = stakes.parts.shape[1]
    stakes.parts[0, 0] = 0.5
    stakes.settle(np.ones((1, bettors)), np.zeros((1, bettors)))
    assert float(stakes.best[0]) == pytest.approx(1.0 + 0.5 / bettors, rel=1e-6)
    assert float(stakes.best[0]) <= 1.0 + 0.5 / bettors


def test_an_estimate_shares_its_risk_among_all_ends() -> None:
    """Two ends of one direction, or of two."""
    same = Product(((GaussianRun(1.0), 3),))
    both = Product(((GaussianRun(1.0), 1), (object(), 1)))  # type: ignore[arg-type]
    assert math.exp(_log_risk(same, 0.96)) == pytest.approx(0.02)
    assert math.exp(_log_risk(both, 0.96)) == pytest.approx(0.01)


@pytest.mark.parametrize("bet", [0.2, 0.5, 0.9])
def test_bets_are_safe_against_the_rounding_of_sums(bet: float) -> None:
    """The mean that is just possible, (1 - exp((sum + log risk) / draws)) / bet, in fifty digits.

    Sums that were rounded by a hundred units in either direction lead to no smaller upper end.
    """
    draws, log_risk = 10**6, math.log(0.01)
    for mean in (0.05, 0.3):
        total = draws * math.log1p(-bet * mean)
        with mpmath.workdps(50):
            exactly = (1 - mpmath.exp((mpmath.mpf(total) + log_risk) / draws)) / mpmath.mpf(bet)
            for units in (-100, 100):
                rounded = total * (1.0 + units * 2.0**-53)
                found = mean_upper(np.array([rounded]), Bets((bet,), (1.0,)), draws, log_risk)
                assert mpmath.mpf(found) >= exactly


def test_the_smallest_of_many_p_values_counts_them_all() -> None:
    """Holm: of ten tests the smallest p-value is taken ten times, the next one nine times."""
    findings = [Finding(str(index), p, "") for index, p in enumerate([0.004, 0.0045, *[0.5] * 8])]
    marked, overall = judged(findings, 0.05)
    assert overall == pytest.approx(0.04)
    assert [one.failed for one in marked] == [True, True, *[False] * 8]
    assert not any(one.failed for one in judged(findings, 0.039)[0])


def test_the_oddest_of_many_examples_counts_them_all() -> None:
    """One of 50 examples is in all of 10 batches at rate 1/2: 50 times two tails of 2^-10."""
    total = np.full(50, 5)
    total[7] = 10
    finding = _marginals(total, 10, np.full(50, 0.5))
    assert finding.p_value == pytest.approx(50 * 2 / 1024, rel=1e-6)
