"""Renyi curves in a sequence with anything: finite, above brute force, and never worse than adding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import sharpdp as dp
from sharpdp.curves.renyi.dominating import dominating_pair
from sharpdp.curves.renyi.sequence import WithCurves
from sharpdp.profile.composition import Composition
from sharpdp.profile.renyi import FiniteLosses

Array = NDArray[np.float64]

DELTA = 1e-6
REVEALING = dp.ApproximateDP(epsilon=0.1, delta=1e-8)
CURVE = dp.RenyiCurve.zcdp(rho=0.005)


def training(batches: object) -> dp.DPSGD:
    return dp.DPSGD(batches, noise_multiplier=2.0)  # type: ignore[arg-type]


def epsilon(mechanism: dp.Mechanism, delta: float = DELTA) -> float:
    return float(dp.account(mechanism).epsilon(delta=delta).upper)


def added(parts: list[dp.Mechanism], delta: float = DELTA) -> float:
    """Basic composition: the sum of epsilons at the best of many splits of delta."""
    shares = (1e-3, 0.03, 0.2, 0.5, 0.8, 0.97, 0.999)
    splits = [
        [*first, 1.0 - sum(first)]
        for first in itertools.product(shares, repeat=len(parts) - 1)
        if sum(first) < 1.0
    ]
    answers = [dp.account(part) for part in parts]
    columns = [
        np.asarray(answer.epsilon(delta=np.array([split[k] * delta for split in splits])).upper)
        for k, answer in enumerate(answers)
    ]
    return float(np.min(np.sum(columns, axis=0)))


# The last number is from outside: dp-accounting's divergences and their conversion (0.5155, 1.6079,
# 2.7170), or the curve read at 400 epsilons into TradeoffCurve.from_points.
TABLE: list[tuple[str, dp.Mechanism, float]] = [
    ("(epsilon, delta)", REVEALING, 0.5155),
    (
        "truncated Poisson",
        training(
            dp.TruncatedPoissonBatches(
                dataset_size=6000, batch_size=60, physical_batch_size=120, steps=100
            )
        ),
        0.4947,
    ),
    ("best of several", dp.BestOf(dp.Gaussian(4.0), "geometric", mean=5), 1.6055),
    (
        "points",
        dp.TradeoffCurve.from_points(epsilons=[0.1, 0.5], deltas=[1e-3, 1e-7]),
        math.inf,
    ),
    (
        "balls-and-bins",
        training(dp.BallsAndBins(dataset_size=6000, batch_size=60, epochs=1)),
        0.4886,
    ),
    ("Gaussian", dp.Gaussian(20.0), 0.4815),
    ("pure", dp.PureDP(epsilon=0.1), math.inf),
]


@pytest.mark.parametrize(("part", "known"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_a_curve_beside_anything_is_finite(part: dp.Mechanism, known: float) -> None:
    found = epsilon(CURVE + part)
    assert max(epsilon(CURVE), epsilon(part)) <= found * (1.0 + 1e-3)
    assert found <= known * (1.0 + 1e-3)
    assert found <= added([CURVE, part]) * (1.0 + 1e-3)


def rdp_epsilon(divergence: Callable[[Array], Array], revealed: float) -> float:
    """Divergences of an RDP accountant converted as canonne2020 Proposition 12 says."""
    orders = np.concatenate([1.0 + 0.1 * np.arange(1, 100), np.arange(11.0, 64.0)])
    rest = (DELTA - revealed) / (1.0 - revealed)
    values = divergence(orders) + np.log1p(-1.0 / orders) - np.log(rest * orders) / (orders - 1.0)
    return float(np.min(values))


def response(orders: Array, e: float) -> Array:
    """Divergences of binary randomized response."""
    shift = np.logaddexp(0.0, e * (1.0 - 2.0 * orders)) - np.logaddexp(0.0, e)
    return np.asarray((e * orders + shift) / (orders - 1.0))


@pytest.mark.parametrize(("selections", "printed"), [(1, 1.6079), (20, 2.7170)])
def test_budgets_like_those_of_aim(selections: int, printed: float) -> None:
    """40 Gaussians, exponential mechanisms of range 0.2, and (0.1, 1e-8) for partition selection."""
    peer = rdp_epsilon(
        lambda a: 40.0 * a / 800.0 + selections * 0.005 * a + response(a, 0.1), revealed=1e-8
    )
    assert peer == pytest.approx(printed, abs=1e-3)
    budget = dp.Gaussian(20.0) * 40 + dp.RenyiCurve.zcdp(rho=0.005) * selections + REVEALING
    assert epsilon(budget) <= peer


def renyi_of(p: Array, q: Array) -> Callable[[Array], Array]:
    """The exact divergences of two vectors with the same support, of the worse direction."""

    def divergence(orders: Array) -> Array:
        a = np.asarray(orders, dtype=float)[..., None]
        ways = [
            np.log(np.sum(x**a * y ** (1.0 - a), axis=-1)) / (a[..., 0] - 1.0)
            for x, y in ((p, q), (q, p))
        ]
        return np.maximum(np.max(ways, axis=0), 0.0) * (1.0 + 1e-12)

    return divergence


def product(vectors: list[Array]) -> Array:
    """The law of independent results."""
    return np.array([math.prod(masses) for masses in itertools.product(*vectors)])


def delta_of(p: Array, q: Array, epsilon: float) -> float:
    x = math.exp(epsilon)
    return max(float(np.sum(np.maximum(p - x * q, 0.0))), float(np.sum(np.maximum(q - x * p, 0.0))))


def tpr_of(p: Array, q: Array, fpr: float) -> float:
    """The best true-positive rate of a test of either hypothesis: Neyman and Pearson."""
    best = 0.0
    for null, other in ((q, p), (p, q)):
        with np.errstate(divide="ignore"):
            order = np.argsort(-other / null)
        spent = np.concatenate([[0.0], np.cumsum(null[order])])
        won = np.concatenate([[0.0], np.cumsum(other[order])])
        best = max(best, float(np.interp(fpr, spent, won)), float(won[spent <= fpr].max()))
    return best


def law(rng: np.random.Generator, outcomes: int) -> Array:
    weights = rng.exponential(size=outcomes) ** rng.uniform(0.5, 3.0) + 1e-3
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("seed", range(6))
def test_no_answer_is_below_brute_force(seed: int) -> None:
    """Parts are known by their exact divergences, listed or as a function; others may reveal all."""
    rng = np.random.default_rng(seed)
    curves: list[tuple[Array, Array]] = [(law(rng, 3), law(rng, 3)) for _ in range(1 + seed % 2)]
    p, q = law(rng, 4), law(rng, 4)
    if seed % 3 != 2:  # some results occur with the record only, some without it only
        p[0], q[1] = (0.0, 0.0) if seed % 3 == 0 else (p[0], 0.0)
        p, q = p / p.sum(), q / q.sum()
    orders = [1.2, 1.5, 2.0, 3.0, 5.0, 9.0, 20.0, 50.0]
    known = [
        dp.RenyiCurve(orders=orders, values=renyi_of(*pair)(np.array(orders)))
        if index % 2 == seed % 2
        else dp.RenyiCurve(function=renyi_of(*pair))
        for index, pair in enumerate(curves)
    ]
    answer = dp.account(dp.Sequence([*known, dp.FinitePair(p=p, q=q)]))
    first = product([*(pair[0] for pair in curves), p])
    second = product([*(pair[1] for pair in curves), q])
    thresholds = np.array([0.0, 0.2, 0.7, 1.5, 3.0, 6.0])
    deltas = np.array([delta_of(first, second, threshold) for threshold in thresholds])
    assert np.all(answer.delta(epsilon=thresholds).upper >= deltas * (1.0 - 1e-12))
    asked = deltas > 1e-12
    epsilons = answer.epsilon(delta=deltas[asked]).upper
    assert np.all(epsilons >= thresholds[asked] * (1.0 - 1e-9))
    fprs = np.array([0.01, 0.2, 0.6])
    rates = np.array([tpr_of(first, second, fpr) for fpr in fprs])
    assert np.all(answer.tpr(fpr=fprs).upper >= rates * (1.0 - 1e-12))
    assert np.all(answer.fnr(fpr=fprs).lower <= 1.0 - rates + 1e-12)
    routes = answer.upper_derivations[0].composition
    assert isinstance(routes, WithCurves)
    for threshold in (0.0, 0.5, 2.0):  # each route by itself
        truth = math.log(max(delta_of(first, second, threshold), 1e-300))
        both = (routes, routes.reverse())
        place = np.array([threshold])
        assert max(float(way._by_orders.log_deltas(place)[0]) for way in both) >= truth - 1e-9
        for index in range(len(routes._by_pairs)):
            ends = [way._by_pairs[index].log_deltas(place, 1e-6)[1][0] for way in both]
            assert max(ends) >= truth - 1e-9


@pytest.mark.parametrize("reversed_", [False, True])
def test_what_is_split_off_leaves_divergences_of_the_rest(reversed_: bool) -> None:
    """Of (0.3, 0.5, 0.2, 0) against (0, 0.4, 0.4, 0.2): 0.3 is lost, and the rest divided by 0.7."""
    p, q = np.array([0.3, 0.5, 0.2, 0.0]), np.array([0.0, 0.4, 0.4, 0.2])
    run = dp.account(dp.FinitePair(p=p, q=q)).upper_derivations[0].composition
    assert isinstance(run, Composition)
    if reversed_:
        run, p, q = run.reverse(), q, p
    rest, lost = p[1:3] / p[1:3].sum(), 1.0 - p[1:3].sum()
    split = FiniteLosses(run)
    assert lost * (1.0 - 1e-12) <= split.mass <= lost * (1.0 + 1e-9)
    orders = np.array([1.5, 2.0, 8.0, math.inf])
    found = split.divergences(orders)
    exact = [math.log(np.sum(rest**a * q[1:3] ** (1.0 - a))) / (a - 1.0) for a in orders[:3]]
    exact.append(math.log(np.max(rest / q[1:3])))
    assert np.all(found >= np.array(exact) * (1.0 - 1e-12))
    assert found == pytest.approx(exact, rel=1e-9)


def parts(rng: np.random.Generator) -> list[dp.Mechanism]:
    """A curve, and one or two other parts."""
    rho = float(10.0 ** rng.uniform(-4.0, 0.0))
    orders = np.sort(1.0 + 10.0 ** rng.uniform(-0.5, 2.0, size=4))
    size, lost = float(10.0 ** rng.uniform(-2.0, 0.0)), float(10.0 ** rng.uniform(-12.0, -7.0))
    some: list[dp.Mechanism] = [
        dp.RenyiCurve.zcdp(rho=rho),
        dp.RenyiCurve(orders=orders, values=rho * orders),
        dp.RenyiCurve(orders=[orders[0], math.inf], values=[rho, max(size, rho)]),
    ]
    others: list[dp.Mechanism] = [
        dp.ApproximateDP(epsilon=size, delta=lost),
        dp.PureDP(epsilon=size),
        dp.Gaussian(1.0 / size),
        dp.TradeoffCurve.from_points(epsilons=[size, 3.0 * size], deltas=[1e-3, lost]),
        dp.FinitePair(p=[0.5 + 0.3 * size, 0.5 - 0.3 * size], q=[0.5, 0.5]),
        dp.BestOf(dp.Gaussian(4.0 / size), "poisson", mean=3.0),
        *some,
    ]
    chosen = rng.choice(len(others), size=rng.integers(1, 3), replace=False)
    return [some[rng.integers(len(some))], *(others[index] for index in chosen)]


@pytest.mark.parametrize("seed", range(16))
def test_no_sequence_is_worse_than_adding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    members = parts(rng)
    delta = float(10.0 ** rng.uniform(-9.0, -3.0))
    assert epsilon(dp.Sequence(members), delta) <= added(members, delta) * (1.0 + 1e-3)


def test_curves_with_different_orders_are_not_worse_than_adding() -> None:
    """At no order both divergences are small: one pair for each curve."""
    first = dp.RenyiCurve(orders=[2.0], values=[1e-4])
    second = dp.RenyiCurve(orders=[64.0], values=[0.5])
    together = epsilon(dp.Sequence([first, second, REVEALING]), 1e-3)
    assert together <= added([first, second, REVEALING], 1e-3) * (1.0 + 1e-3)
    assert together < 0.8 * epsilon(dp.Sequence([first + second, REVEALING]), 1e-3)


def test_divergences_of_tuned_runs_add_up() -> None:
    """By orders: many Poisson selections, whose pairs reveal everything with probability 1e-44."""
    best = dp.BestOf(dp.Gaussian(40.0), "poisson", mean=5.0)
    orders = 1.0 + np.geomspace(1.0, 100.0, 60)
    curve = dp.RenyiCurve(orders=orders, values=dp.account(best).renyi(order=orders).upper)
    for others in ([], [dp.RenyiCurve.zcdp(rho=0.05)]):
        found = epsilon(dp.Sequence([best * 100, *others]))
        assert found <= epsilon(dp.Sequence([curve * 100, *others])) * (1.0 + 1e-3)


def test_a_curve_is_dominated_by_its_pair() -> None:
    """Profiles of the optimal conversion, which some pair attains at each epsilon."""
    for curve in (
        dp.RenyiCurve.zcdp(rho=1e-5),
        dp.RenyiCurve.zcdp(rho=3.0),
        dp.RenyiCurve.zcdp(rho=200.0),
        dp.RenyiCurve(orders=[8.0], values=[0.05]),
        dp.RenyiCurve(orders=[2.0, 8.0, 64.0], values=[0.01, 0.05, 2.0]),
    ):
        pair = dominating_pair(curve)
        run = Composition(((pair, 1),))
        for delta in (1e-3, 1e-6, 1e-12, 1e-60):
            wanted = float(curve.epsilon(delta=delta).upper)
            found = run.epsilon(math.log(delta), 1e-9, delta)[1]
            slack = 1e-3 if delta < 1e-3 else 3e-2  # epsilon may be next to zero there
            assert wanted * (1.0 - 1e-4) - 1e-12 <= found <= wanted * (1.0 + slack)
    assert dominating_pair(dp.RenyiCurve(orders=[2.0], values=[math.inf])).infinite_p == 1.0
    assert dominating_pair(dp.RenyiCurve(orders=[2.0], values=[0.0])).support == (0.0, 0.0)
    bounded = dominating_pair(dp.RenyiCurve(orders=[2.0, math.inf], values=[0.1, 0.7]))
    assert bounded.infinite_p == 0.0
    assert bounded.support == (-0.7, 0.7)


def test_rates_of_one_curve_are_those_of_many_epsilons() -> None:
    """fnr >= 1 - delta - e^epsilon fpr at 100 epsilons, with the deltas of the conversion."""
    curve = dp.RenyiCurve.zcdp(rho=0.3)
    epsilons = np.linspace(0.0, 8.0, 100)
    deltas = np.asarray(curve.delta(epsilon=epsilons).upper)
    answer = dp.account(curve)
    for fpr in (1e-4, 0.01, 0.3):
        lines = np.concatenate(
            [1.0 - deltas - np.exp(epsilons) * fpr, np.exp(-epsilons) * (1.0 - deltas - fpr)]
        )
        assert answer.fnr(fpr=fpr).lower >= float(lines.max()) * (1.0 - 1e-3)
        assert answer.tpr(fpr=fpr).upper <= (1.0 - float(lines.max())) * (1.0 + 1e-3)
