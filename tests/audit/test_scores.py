"""What scores may look like: ties, orders, infinities, designs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sharpdp as dp
from sharpdp import audit
from sharpdp.audit.claims import Claim
from sharpdp.audit.error_band import band_risk, limits_for, local_risk
from sharpdp.audit.repeated_runs import RankedHits
from sharpdp.errors import InvalidArgument, Unsupported, WrongType

RNG = np.random.default_rng(0)
PURE = dp.account(dp.PureDP(epsilon=0.1))
LEVELS = np.array([0.01, 0.05, 0.2])


def test_equal_scores_say_nothing_in_whatever_order_they_come() -> None:
    """A list that is sorted by `included` must not betray it through ties."""
    included = np.sort(RNG.random(300) < 0.5)
    for order in (included, included[::-1]):
        result = audit.one_run(scores=np.zeros(300), included=order, guarantee=PURE, confidence=0.9)
        assert result.consistent
        assert result.epsilon.lower == 0.0
    runs = audit.many_runs(with_record=np.zeros(50), without_record=np.zeros(50), guarantee=PURE)
    assert runs.consistent
    assert runs.epsilon.lower == runs.mu.lower == 0.0


def test_infinite_scores_are_scores() -> None:
    inside, outside = np.full(200, np.inf), np.full(200, -np.inf)
    runs = audit.many_runs(with_record=inside, without_record=outside, guarantee=PURE)
    assert not runs.consistent
    assert runs.epsilon.lower > 2.5
    running = audit.Sequential(guarantee=PURE).add(with_record=inside, without_record=outside)
    assert not running.consistent
    coins = RNG.random(200) < 0.5
    one = audit.one_run(scores=np.where(coins, np.inf, -np.inf), included=coins, guarantee=PURE)
    assert not one.consistent


def test_both_orders_are_seen() -> None:
    """A record that is missed seldom, and one that is seldom taken to be in, betray as much."""
    rare = np.append(np.ones(100), np.zeros(900))
    never = np.zeros(1000)
    for scores in ((rare, never), (1.0 - never, 1.0 - rare)):
        result = audit.many_runs(
            with_record=scores[0], without_record=scores[1], guarantee=PURE, confidence=0.95
        )
        assert not result.consistent
        assert result.epsilon.lower > 1.5


def test_a_curve_can_be_tested_as_well_as_a_guarantee() -> None:
    curve = dp.TradeoffCurve.gaussian(mu=1.0)
    inside, outside = 4.0 + RNG.normal(size=200), RNG.normal(size=200)
    result = audit.many_runs(with_record=inside, without_record=outside, guarantee=curve)
    assert not result.consistent
    assert "1-GDP" in str(result)


@pytest.mark.parametrize(
    "mechanism",
    [
        dp.FinitePair(p=[0.5, 0.5], q=[0.4, 0.6]),
        dp.RandomizedResponse(local_epsilon=1.0),
        dp.Gaussian(noise_multiplier=1.0) + dp.Laplace(scale=1.0),
        dp.ShuffledReports(users=100, local_epsilon=1.0),
        dp.RenyiCurve(orders=[2.0, 4.0, 8.0], values=[0.5, 1.0, 2.0]),
    ],
)
def test_claims_of_many_mechanisms_are_their_curves(mechanism: dp.Mechanism) -> None:
    answer = dp.account(mechanism)
    claim = Claim.of_guarantee(answer)
    rates = np.array([0.0, 1e-3, 0.1, 0.5, 0.9])
    allowed = claim.most_tpr(rates)
    # never below what the certified upper side allows, and close to it
    certified = np.array([answer.tpr(fpr=float(rate)).lower for rate in rates])
    assert np.all(allowed >= certified * (1.0 - 1e-12))
    assert np.all(claim.least_fpr(allowed) <= rates + 1e-9)


def test_designs_and_neighbors() -> None:
    coins = RNG.random(400) < 0.5
    scores = coins * 6.0 + RNG.normal(size=400)
    reports = dp.account(dp.ShuffledReports(users=1000, local_epsilon=0.5))
    with pytest.raises(Unsupported, match="choices"):
        audit.one_run(scores=scores, included=coins, guarantee=reports)
    assert not audit.one_run(
        scores=scores, included=coins, guarantee=reports, design="choices"
    ).consistent
    half = np.zeros(400, dtype=bool)
    half[RNG.permutation(400)[:200]] = True
    found = audit.one_run(
        scores=half * 6.0 + RNG.normal(size=400),
        included=half,
        guarantee=reports,
        design="fixed size",
    )
    assert not found.consistent
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.1, steps=10), noise_multiplier=1.0)
    with pytest.raises(Unsupported, match="coins"):
        audit.one_run(scores=scores, included=coins, guarantee=dp.account(run), design="fixed size")
    with pytest.raises(Unsupported, match="groups"):
        audit.one_run(scores=scores, included=coins, guarantee=dp.account(run, group_size=2))
    with pytest.raises(InvalidArgument, match="guesses"):
        audit.one_run(scores=scores, included=coins, design="fixed size", guesses=(10, 10))


def test_what_is_refused() -> None:
    ones = np.ones(40)
    with pytest.raises(InvalidArgument, match="fair coins"):
        audit.one_run(scores=ones, included=ones)
    with pytest.raises(InvalidArgument, match="one entry"):
        audit.one_run(scores=ones, included=[True, False])
    with pytest.raises(InvalidArgument, match="guesses"):
        audit.one_run(scores=ones, included=np.arange(40) % 2, guesses=(30, 30))
    with pytest.raises(InvalidArgument, match="design"):
        audit.one_run(scores=ones, included=np.arange(40) % 2, design="dice")
    with pytest.raises(InvalidArgument, match="numbers"):
        audit.many_runs(with_record=[np.nan] * 5, without_record=ones)
    with pytest.raises(InvalidArgument, match="at least 4"):
        audit.many_runs(with_record=[1.0], without_record=ones)
    with pytest.raises(WrongType, match="with_record"):
        audit.many_runs(with_record="scores", without_record=ones)
    with pytest.raises(WrongType, match="guarantee"):
        audit.many_runs(with_record=ones, without_record=ones, guarantee=1.0)
    with pytest.raises(InvalidArgument, match="confidence"):
        audit.many_runs(with_record=ones, without_record=ones, confidence=1.0)
    with pytest.raises(InvalidArgument, match="as many"):
        audit.Sequential().add(with_record=ones, without_record=ones[1:])


@pytest.mark.parametrize(
    ("runs", "others", "rank"), [(1, 1, 1), (7, 5, 2), (40, 30, 16), (9, 300, 64)]
)
def test_hits_of_equal_laws_are_those_of_an_urn(runs: int, others: int, rank: int) -> None:
    """Without any privacy loss all orders are equally likely: never less than that, and close to it."""
    from scipy import stats

    hits = np.arange(1, runs + 1)
    one = RankedHits(runs, others, np.full(runs, rank), hits, np.zeros(runs))
    p_values = one.p_values(Claim.of_point(0.0, 0.0))
    # h hits before the k-th other: at least h of the first h + k - 1 scores
    exact = stats.hypergeom.sf(hits - 1, runs + others, runs, hits + rank - 1)
    assert np.all(p_values >= exact)
    assert np.all(p_values <= 1.15 * exact + 1e-11)


@pytest.mark.parametrize("rank", [1, 4])
def test_hits_of_discrete_scores_keep_the_level(rank: int) -> None:
    """Two scores, ties by lot, at the rates that the claim just allows: all outcomes are summed."""
    from scipy import stats

    claim, runs, others = Claim.of_point(0.5, 0.05), 12, 9
    for fpr in (0.02, 0.1, 0.4):
        tpr = float(claim.most_tpr(np.array([fpr]))[0])
        refused = np.zeros(3)
        for ones in range(runs + 1):
            for other_ones in range(others + 1):
                chance = stats.binom.pmf(ones, runs, tpr) * stats.binom.pmf(other_ones, others, fpr)
                for hits, share in _hits_by_lot(ones, runs, other_ones, others, rank):
                    counted = RankedHits(
                        runs, others, np.array([rank]), np.array([hits]), np.zeros(1)
                    )
                    refused += chance * share * (counted.p_values(claim)[0] <= LEVELS)
        assert np.all(refused <= LEVELS)
    assert refused[-1] > 0.0


def _hits_by_lot(
    ones: int, runs: int, other_ones: int, others: int, rank: int
) -> list[tuple[int, float]]:
    """How many of `runs` come before the rank-th of `others`, if equal scores are in random order."""
    from scipy import stats

    if rank <= other_ones:
        group, rest, before, first = ones, other_ones, rank, 0
    else:
        group, rest, before, first = runs - ones, others - other_ones, rank - other_ones, ones
    return [
        (first + hits, float(stats.nhypergeom.pmf(hits, group + rest, group, before)))
        for hits in range(group + 1)
    ]


@pytest.mark.parametrize("scores", [3, 40])
def test_the_band_fails_as_often_as_stated(scores: int) -> None:
    local = local_risk(scores, 0.1)
    drawn = np.sort(np.random.default_rng(1).random((20_000, scores)), axis=1)
    failures = np.mean(np.any(drawn > limits_for(scores, local)[:-1], axis=1))
    assert failures == pytest.approx(band_risk(scores, local), abs=0.012)
    assert band_risk(scores, local) <= 0.1


def test_a_coarse_band_is_safe() -> None:
    limits = limits_for(3000, 1e-4)
    assert np.all(np.diff(limits) >= 0)
    assert limits[-1] == 1.0
    assert band_risk(3000, 1e-4) < 0.01
