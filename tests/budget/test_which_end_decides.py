"""A budget is decided by upper ends: a run whose ends lie on both sides of it is not allowed.

Most runs have ends that agree, so that it does not matter which one is read. This one has ends that are
far apart: epsilon lies between 4.6 and 6.6 at delta 1e-6, the Renyi divergence of order 2.5 between 0.7
and 2.8. The upper ends are those of five Gaussian releases, one for each epoch.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.budget import (
    GaussianFilter,
    RenyiFilter,
    ZcdpFilter,
    counted_rounds,
    ex_post_epsilon,
)
from sharpdp.display.outward_digits import ROUND_CEILING, percent
from sharpdp.learn.budget import affordable

RUN = dp.DPSGD(dp.ShuffledBatches(dataset_size=200, batch_size=10, epochs=5), noise_multiplier=1.5)
STEPS = 100
DELTA = 1e-6
BETWEEN = 5.2
ORDER = 2.5
PER_EPOCH = ORDER / (2 * 1.5**2)
"""The Renyi divergence of one Gaussian release, which an epoch is at most."""


@pytest.fixture(scope="module")
def ends() -> tuple[float, float]:
    known = dp.account(RUN).epsilon(delta=DELTA)
    low, high = float(known.lower), float(known.upper)
    assert low < 0.9 * BETWEEN < 1.1 * BETWEEN < high
    return low, high


def fixed(folder: Path, epsilon: float) -> dp.Ledger:
    return dp.Ledger(
        folder / "budget.jsonl", epsilon=epsilon, delta=DELTA, choice="fixed in advance"
    )


def test_a_ledger_refuses_what_may_exceed_its_budget(
    tmp_path: Path, ends: tuple[float, float]
) -> None:
    ledger = fixed(tmp_path, BETWEEN)
    assert ledger.would_exceed(RUN)
    assert ledger.affordable(RUN) == 0
    with pytest.raises(dp.BudgetExceeded):
        ledger.add(RUN)
    steps = counted_rounds(ledger, RUN.stopped_after, STEPS, key="run")
    assert 0 < steps < STEPS
    assert float(dp.account(RUN.stopped_after(steps)).epsilon(delta=DELTA).upper) <= BETWEEN


def test_what_is_left_of_a_ledger_is_between_both_ends(
    tmp_path: Path, ends: tuple[float, float]
) -> None:
    low, high = ends
    ledger = fixed(tmp_path, 10.0)
    ledger.add(RUN)
    left = ledger.remaining()
    assert (left.lower, left.upper) == pytest.approx((1 - high / 10, 1 - low / 10))
    assert (ledger.total().lower, ledger.total().upper) == ends


def test_the_worst_cohort_is_the_worst_at_each_end(
    tmp_path: Path, ends: tuple[float, float]
) -> None:
    sharp = dp.Gaussian(noise_multiplier=0.9)  # epsilon between the ends of the run
    known = dp.account(sharp).epsilon(delta=DELTA)
    assert ends[0] < known.lower <= known.upper < ends[1]
    ledger = fixed(tmp_path, 10.0)
    ledger.add(RUN, cohort="north")
    ledger.add(sharp, cohort="south")
    total = ledger.total()
    assert total.lower == pytest.approx(known.lower, rel=1e-6)
    assert total.upper == ends[1]


def test_verify_calls_only_what_certainly_exceeds_a_contradiction(
    tmp_path: Path, ends: tuple[float, float]
) -> None:
    ledger = fixed(tmp_path, BETWEEN)
    ledger.add(RUN, despite_budget=True)
    (entry,) = ledger.entries
    assert entry.exceeded
    running = ledger._begun(str(dp.account(RUN).adjacency))
    running.take([entry])
    assert not ledger._certainly_exceeds(running, None)
    running.take([entry])
    assert ledger._certainly_exceeds(running, None)  # at least 5.2: twice the lower end is more
    assert dp.Ledger.verify(ledger.path) == ()


def test_the_filter_of_a_ledger_adds_up_upper_ends(tmp_path: Path) -> None:
    path = tmp_path / "budget.jsonl"
    ledger = dp.Ledger(path, epsilon=20.0, delta=DELTA, order=ORDER)
    assert ledger.filter is not None
    (limit,) = ledger.filter.limits
    assert limit > 5 * PER_EPOCH
    (cost,) = ledger.add(RUN).cost or ()
    assert cost == pytest.approx(5 * PER_EPOCH, rel=1e-6)
    assert cost >= 5 * PER_EPOCH
    share = 5 * PER_EPOCH / limit
    assert float(ledger.remaining().lower) <= 1 - share
    used = percent(share, ROUND_CEILING)
    assert f"guarantee 20 (the budget); {used} used" in ledger.total().context


def test_a_budget_refuses_what_may_exceed_it(ends: tuple[float, float]) -> None:
    budget = dp.Budget(epsilon=BETWEEN, delta=DELTA, choice="fixed in advance")
    assert budget.would_exceed(RUN)
    assert budget.affordable(RUN) == 0
    with pytest.raises(dp.BudgetExceeded):
        budget.spend(RUN)
    larger = dp.Budget(epsilon=10.0, delta=DELTA, choice="fixed in advance")
    larger.spend(RUN)
    assert larger.remaining() == pytest.approx(1 - ends[1] / 10)


def test_the_filter_of_a_budget_adds_up_upper_ends() -> None:
    budget = dp.Budget(order=ORDER, divergence=4.5 * PER_EPOCH)
    assert budget.would_exceed(RUN)
    larger = dp.Budget(order=ORDER, divergence=10 * PER_EPOCH)
    larger.spend(RUN)
    assert larger.remaining() == pytest.approx(0.5, rel=1e-6)
    assert larger.remaining() <= 0.5
    assert counted_rounds(budget, RUN.stopped_after, STEPS) == 4 * 20


def test_rounds_within_an_epsilon_are_those_of_the_upper_end(ends: tuple[float, float]) -> None:
    steps = affordable(RUN.stopped_after, STEPS, epsilon=BETWEEN, delta=DELTA)
    assert 0 < steps < STEPS


def test_stopping_early_costs_the_upper_end(ends: tuple[float, float]) -> None:
    price = ex_post_epsilon(RUN.stopped_after, checkpoints=[STEPS], delta=DELTA)
    assert price.epsilon(steps=STEPS) == ends[1]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (3.0, 1e-5), (8.0, 1e-3)])
def test_limits_of_filters_keep_their_target(epsilon: float, delta: float) -> None:
    made = RenyiFilter.for_target(epsilon=epsilon, delta=delta)
    alpha = made.order
    # Canonne, Kamath and Steinke, Proposition 12; the best conversion of one order is hardly better
    rest = math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)
    assert made.limit + rest == pytest.approx(epsilon, rel=1e-4)
    rho = ZcdpFilter.for_target(epsilon=epsilon, delta=delta).limit
    # a Gaussian release is one of the mechanisms with that rho, and has at least its own epsilon
    assert float(dp.account(dp.Gaussian((2 * rho) ** -0.5)).epsilon(delta=delta).lower) <= epsilon
    square = GaussianFilter.for_target(epsilon=epsilon, delta=delta).limit
    mu = math.sqrt(square)
    phi = [
        0.5 * math.erfc(-x / math.sqrt(2)) for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu)
    ]
    assert phi[0] - math.exp(epsilon) * phi[1] <= delta * (1 + 1e-9)
    assert rho < square / 2


def test_the_rho_of_pure_dp_is_that_of_the_upper_end() -> None:
    best = dp.BestOf(dp.PureDP(epsilon=0.5), repetitions="geometric", mean=5)
    known = dp.account(best).epsilon(delta=0.0)
    assert known.lower < 0.8 * known.upper
    assert ZcdpFilter(9.0).cost(best) >= float(known.upper) ** 2 / 2
