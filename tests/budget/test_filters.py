"""Filters against every adversary: adaptive strategies on tiny mechanisms, enumerated exactly."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from mpmath import mp, mpf

import sharpdp as dp
from sharpdp.budget import Budget, GaussianFilter, RenyiFilter, ZcdpFilter

Masses = list[tuple[float, float]]
Allowed = Callable[[tuple[int, ...], int], bool]


def coin(chance: float) -> Masses:
    return [(chance, 1.0 - chance), (1.0 - chance, chance)]


def pool(seed: int) -> list[Masses]:
    """Mechanisms of two or three outcomes, from hardly anything to a lot."""
    rng = np.random.default_rng(seed)
    made = [coin(0.5 + 0.35 * rng.random() ** 2) for _ in range(3)]
    for _ in range(3):
        p = rng.dirichlet(np.full(3, 3.0))
        q = p * np.exp(rng.normal(0.0, rng.uniform(0.05, 0.8), 3))
        made.append(list(zip(p.tolist(), (q / q.sum()).tolist(), strict=True)))
    return made


def mechanism(masses: Masses) -> dp.Mechanism:
    p, q = zip(*masses, strict=True)
    return dp.FinitePair(p=p, q=q)


def renyi_allowed(mechanisms: list[Masses], filter_: RenyiFilter) -> Allowed:
    """What the filter admits, by the sum of costs of what was run."""
    costs = [filter_.cost(mechanism(masses)) for masses in mechanisms]

    def allowed(run: tuple[int, ...], more: int) -> bool:
        return math.fsum(costs[index] for index in (*run, more)) <= filter_.limit

    return allowed


def strongest(mechanisms: list[Masses], allowed: Allowed, x: float, depth: int) -> float:
    """Delta at e^epsilon = x of the best adaptive strategy of so many mechanisms, by listing them all.

    Each history has its own choice, so that this is the largest delta over all strategies.
    """

    @cache
    def value(run: tuple[int, ...], p: float, q: float) -> float:
        best = max(p - x * q, 0.0)
        if len(run) == depth:
            return best
        for index, masses in enumerate(mechanisms):
            if allowed(tuple(sorted(run)), index):
                after = sum(value((*run, index), p * a, q * b) for a, b in masses)
                best = max(best, after)
        return best

    return value((), 1.0, 1.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.05), (1.0, 0.02), (2.0, 0.1)])
def test_the_best_of_all_adversaries_stays_within_the_promise(
    seed: int, epsilon: float, delta: float
) -> None:
    mechanisms = pool(seed)
    filter_ = RenyiFilter.for_target(epsilon=epsilon, delta=delta)
    allowed = renyi_allowed(mechanisms, filter_)
    for direction in (mechanisms, [[(q, p) for p, q in masses] for masses in mechanisms]):
        attained = strongest(direction, allowed, math.exp(epsilon), 4)
        assert attained <= delta * (1 + 1e-9)


def test_ten_thousand_adversaries_stay_within_the_promise() -> None:
    """Random strategies of up to six mechanisms: each history draws its own next one, or stops."""
    rng = random.Random(7)
    worst = 0.0
    for trial in range(10_000):
        if trial % 500 == 0:
            mechanisms = pool(trial)
            epsilon, delta = rng.uniform(0.3, 2.0), rng.uniform(0.01, 0.2)
            filter_ = RenyiFilter.for_target(epsilon=epsilon, delta=delta)
            costs = [filter_.cost(mechanism(masses)) for masses in mechanisms]
            x = math.exp(epsilon)
        total, nodes = 0.0, [(1.0, 1.0, 0.0, 0)]
        while nodes:
            p, q, spent, depth = nodes.pop()
            open_ = [i for i, cost in enumerate(costs) if spent + cost <= filter_.limit]
            if not open_ or depth == 6 or rng.random() < 0.15:
                total += max(p - x * q, 0.0)
                continue
            choice = rng.choice(open_)
            after = spent + costs[choice]
            nodes += [(p * a, q * b, after, depth + 1) for a, b in mechanisms[choice]]
        assert total <= delta * (1 + 1e-9)
        worst = max(worst, total / delta)
    assert worst > 0.05  # the strategies are not idle


X = Fraction(3)  # e^epsilon
FIRST = (Fraction(11, 20), Fraction(9, 20))
SECOND: dict[str, tuple[tuple[Fraction, ...], tuple[Fraction, ...]]] = {
    "coin": ((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))),
    "reveals": (
        (Fraction(3, 40), Fraction(37, 40), Fraction(0)),
        (Fraction(0), Fraction(37, 40), Fraction(3, 40)),
    ),
}


def test_the_natural_filter_for_trade_off_functions_is_unsound() -> None:
    """A weak coin, then a strong coin or a mechanism that reveals everything now and then.

    Either pair alone is (log 3, 3/40)-DP, so that a filter that composes trade-off functions and compares
    with that of (epsilon, delta) admits both. Choosing by the result of the first coin gives 87/800.
    """
    delta = Fraction(3, 40)
    first = (FIRST, FIRST[::-1])
    for p, q in SECOND.values():
        joint = [
            (a * c, b * d) for a, b in zip(*first, strict=True) for c, d in zip(p, q, strict=True)
        ]
        assert sum(max(a - X * b, Fraction(0)) for a, b in joint) <= delta
        assert sum(max(b - X * a, Fraction(0)) for a, b in joint) <= delta
        # and by sharpdp: the natural filter would go on
        pair = dp.FinitePair(p=list(map(float, p)), q=list(map(float, q)))
        together = dp.account(dp.FinitePair(p=[0.55, 0.45], q=[0.45, 0.55]) + pair)
        assert together.delta(epsilon=math.log(3)).lower <= 3 / 40
    adaptive = sum(
        max(
            sum(max(a * c - X * b * d, Fraction(0)) for c, d in zip(p, q, strict=True))
            for p, q in SECOND.values()
        )
        for a, b in zip(*first, strict=True)
    )
    assert adaptive == Fraction(87, 800) > delta
    # so it is refused, and a filter that is offered admits less
    with pytest.raises(dp.Unsupported, match=r"unsound \(arXiv 2602\.06756\)"):
        Budget(tradeoff=dp.TradeoffCurve.gaussian(mu=1.0))
    budget = Budget(epsilon=math.log(3), delta=0.075)
    with pytest.raises(dp.Unsupported, match="finite Renyi divergence"):
        budget.spend(dp.FinitePair(p=[0.075, 0.925, 0.0], q=[0.0, 0.925, 0.075]))


def test_the_same_adversary_breaks_an_unsound_filter() -> None:
    """The enumeration itself can tell: with the natural rule in place of the filter it exceeds delta."""
    coins = [coin(0.55), coin(0.75), [(0.075, 0.0), (0.925, 0.925), (0.0, 0.075)]]

    def natural(run: tuple[int, ...], more: int) -> bool:
        joint = [(1.0, 1.0)]
        for index in (*run, more):
            joint = [(a * c, b * d) for a, b in joint for c, d in coins[index]]
        return sum(max(a - 3.0 * b, 0.0) for a, b in joint) <= 0.075 + 1e-12

    assert strongest(coins, natural, 3.0, 2) >= 87 / 800 - 1e-9


# --- limits and promises ---


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-5)])
def test_promises_are_the_targets_and_lose_little(epsilon: float, delta: float) -> None:
    kinds = (RenyiFilter, ZcdpFilter, GaussianFilter)
    filters = [kind.for_target(epsilon=epsilon, delta=delta) for kind in kinds]  # type: ignore[attr-defined]
    for each in filters:
        reached = each.promise().epsilon(delta=delta).upper
        assert epsilon * (1 - 1e-6) <= reached <= epsilon * (1 + 1e-9)
    noise = dp.Gaussian(noise_multiplier=20.0 / epsilon)
    shares = [each.cost(noise) / each.limit for each in filters]
    # what each admits of Gaussian noise: the last loses nothing
    assert shares[2] <= shares[1] <= shares[0] * (1 + 1e-9) <= 1.3 * shares[2]
    many = math.floor(1 / shares[2])
    exact = dp.account(noise * many).epsilon(delta=delta)
    assert exact.lower <= epsilon
    assert dp.account(noise * (many + 1)).epsilon(delta=delta).upper > epsilon


def test_the_limit_of_an_order_is_that_of_mpmath() -> None:
    """Golden: canonne2020 Proposition 12 at one order, inverted in 40 digits; ours is no smaller."""
    filter_ = RenyiFilter.for_target(epsilon=1.0, delta=1e-6, order=20.0)
    with mp.workdps(40):
        order = mpf(20)
        limit = 1 - mp.log(1 - 1 / order) + (mp.log(mpf(10) ** -6) + mp.log(order)) / (order - 1)
    assert float(limit) * (1 - 1e-9) <= filter_.limit <= float(limit) * 1.01


def test_costs_are_closed_forms() -> None:
    noise = dp.Gaussian(noise_multiplier=4.0)
    assert RenyiFilter(1.0, 8.0).cost(noise * 3) == pytest.approx(3 * 8 / 32, rel=1e-9)
    assert ZcdpFilter(1.0).cost(noise * 3 + dp.Laplace(scale=2.0)) == pytest.approx(3 / 32 + 1 / 8)
    assert ZcdpFilter(1.0).cost(dp.RenyiCurve.zcdp(rho=0.25)) == 0.25
    assert ZcdpFilter(1.0).cost(noise, group_size=3) == pytest.approx(9 / 32)
    assert GaussianFilter(1.0).cost(noise * 8, group_size=2) == 2.0
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.1, steps=10), noise_multiplier=2.0)
    for refuses in (ZcdpFilter(1.0), GaussianFilter(1.0)):
        with pytest.raises(dp.Unsupported, match='Try filter_kind="renyi"'):
            refuses.cost(run)
    assert RenyiFilter(1.0, 8.0).cost(run) == pytest.approx(
        float(dp.account(run).renyi(order=8.0).upper)
    )


def test_readings_of_an_odometer_rise_and_cover_the_loss() -> None:
    filter_ = RenyiFilter.for_target(epsilon=2.0, delta=1e-3)
    readings = [filter_.odometer(spent, delta=1e-3) for spent in np.linspace(0.0, 5.0, 40)]
    assert readings == sorted(readings)
    # Gaussian noise, always the same: the chance that the loss ever exceeds the reading
    rng = np.random.default_rng(3)
    mu, steps, runs = 0.3, 20, 4000
    cost = filter_.cost(dp.Gaussian(noise_multiplier=1 / mu))
    losses = np.cumsum(rng.normal(mu**2 / 2, mu, (runs, steps)), axis=1)
    bounds = [filter_.odometer(cost * (step + 1), delta=1e-3) for step in range(steps)]
    assert np.mean(np.any(losses > np.array(bounds), axis=1)) <= 1e-3 + 4 * math.sqrt(1e-3 / runs)


# --- the budget ---


def test_a_budget_spends_until_it_is_spent() -> None:
    noise = dp.Gaussian(noise_multiplier=10.0)
    for target in ({"rho": 0.025}, {"mu": 0.22}, {"order": 8.0, "divergence": 0.2}):
        budget = Budget(**target)  # type: ignore[arg-type]
        times = budget.affordable(noise)
        assert times in (4, 5)
        for _ in range(times):
            budget.spend(noise)
        assert budget.would_exceed(noise)
        with pytest.raises(dp.BudgetExceeded, match="Nothing was spent"):
            budget.spend(noise)
        assert len(budget.mechanisms) == times
        assert 0.0 <= budget.remaining() < 0.25


def test_fixed_plans_are_composed_exactly() -> None:
    noise = dp.Gaussian(noise_multiplier=10.0)
    fixed, adaptive, gaussian = (
        Budget(epsilon=1.0, delta=1e-6, **said)  # type: ignore[arg-type]
        for said in ({"choice": "fixed in advance"}, {}, {"filter_kind": "gaussian"})
    )
    assert adaptive.affordable(noise) < fixed.affordable(noise) == gaussian.affordable(noise) == 5
    fixed.spend(noise * 2)
    exact = dp.account(noise * 2).epsilon(delta=1e-6)
    assert fixed.promise().epsilon(delta=1e-6).upper == exact.upper
    assert fixed.remaining() == pytest.approx(1 - exact.upper)


def test_a_promise_is_about_the_neighbors_that_costs_were_computed_for() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=10), noise_multiplier=4.0)
    budget = Budget(epsilon=2.0, delta=1e-6)
    assert str(budget.promise().adjacency) == "neighboring inputs"
    budget.spend(dp.Gaussian(noise_multiplier=20.0))
    budget.spend(run)
    assert str(budget.promise().adjacency) == "add/remove"
    assert float(budget.promise().epsilon(delta=1e-6).upper) <= 2.0 * (1 + 1e-9)


def test_a_budget_is_about_one_kind_of_neighbors() -> None:
    budget = Budget(epsilon=5.0, delta=1e-6)
    budget.spend(dp.Gaussian(noise_multiplier=10.0))
    budget.spend(
        dp.DPSGD(
            dp.PoissonBatches(dataset_size=1000, batch_size=10, epochs=1), noise_multiplier=2.0
        )
    )
    with pytest.raises(dp.Unsupported, match="zero-out"):
        budget.spend(dp.ShuffledReports(users=1000, local_epsilon=1.0))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "one target: .* got none"),
        ({"rho": 1.0, "mu": 1.0}, "got rho and mu"),
        ({"epsilon": 1.0}, "epsilon and delta must be given together"),
        ({"divergence": 1.0}, "order must be given with a divergence"),
        ({"rho": 1.0, "choice": "fixed in advance"}, "must be the target if mechanisms are fixed"),
        ({"epsilon": 1.0, "delta": 0.1, "choice": "free"}, "choice must be"),
        ({"epsilon": 1.0, "delta": 0.1, "filter_kind": "f-dp"}, "filter_kind must be"),
    ],
)
def test_what_is_no_budget_is_refused(said: dict[str, object], words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        Budget(**said)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["renyi", "zcdp", "gaussian"])
def test_units_with_several_records_cost_as_much_as_less_noise(kind: str) -> None:
    """k records of one user shift Gaussian noise k times as far."""
    one, four = (dp.Budget(epsilon=2.0, delta=1e-6, filter_kind=kind, unit="user") for _ in "12")
    one.spend(dp.Gaussian(noise_multiplier=5.0))
    four.spend(dp.Gaussian(noise_multiplier=20.0), group_size=4)
    assert four.remaining() == pytest.approx(one.remaining(), rel=1e-6)
    assert four.affordable(dp.Gaussian(noise_multiplier=20.0), group_size=4) == one.affordable(
        dp.Gaussian(noise_multiplier=5.0)
    )
    assert four.affordable(dp.Gaussian(noise_multiplier=20.0)) > one.affordable(
        dp.Gaussian(noise_multiplier=5.0)
    )


def test_group_sizes_of_fixed_plans_may_differ() -> None:
    budget = dp.Budget(epsilon=9.0, delta=1e-6, choice="fixed in advance", unit="household")
    budget.spend(dp.Gaussian(noise_multiplier=20.0), group_size=4)
    budget.spend(dp.Gaussian(noise_multiplier=5.0))
    exact = dp.account(dp.Gaussian(noise_multiplier=5.0) * 2).epsilon(delta=1e-6)
    found = budget.promise().epsilon(delta=1e-6)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper <= exact.upper * (1 + 2e-3)
    with pytest.raises(dp.InvalidArgument, match="group_size must be"):
        budget.spend(dp.Gaussian(noise_multiplier=5.0), group_size=0)
