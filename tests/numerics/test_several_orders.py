"""All orders of a Renyi curve at once: against linear programs and pairs, and where nothing is left."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from scipy.optimize import linprog

import sharpdp as dp
from tests.reference import conversion as reference

INF = math.inf

# orders, values, epsilon, and about what delta is of the best single order's
GAINS = [
    ([2.0, 8.0], [0.1, 0.4], 0.4, 0.9095),
    ([2.0, 8.0], [0.1, 0.2], 0.01, 0.8521),  # both directions of order 8
    ([40.0], [0.24], 0.02, 0.5968),  # and of the only one
    ([1.5, 32.0], [0.015, 0.32], 0.3, 0.7010),
    ([2.0, INF], [0.01, 1.0], 0.97, 0.1778),
    ([2.0, 4.0, 8.0, INF], [0.02, 0.04, 0.08, 1.0], 0.9, 0.9636),
    ([2.0, 4.0, 8.0, 16.0, 32.0, 64.0], [0.1 * a for a in (2, 4, 8, 16, 32, 64)], 1.0, 0.9739),
    ([2.0, 3.0, 4.0], [2.0, 3.0, 4.0], 1.0, 0.9473),
]


def most_by_a_program(orders: list[float], values: list[float], epsilon: float) -> float:
    """The largest delta of pairs on a grid of losses with these divergences: from inside."""
    top = min([v for a, v in zip(orders, values, strict=True) if a == INF], default=INF)
    far = min(top, 3.0 * epsilon + 3.0)
    grid = [np.linspace(-far, far, 1501), np.linspace(-0.05 * far, 0.05 * far, 301)]
    losses = np.unique(np.concatenate([*grid, [epsilon, top if top < INF else 0.0]]))
    log_p, log_q = np.minimum(losses, 0.0), np.minimum(-losses, 0.0)
    finite = [(a, v) for a, v in zip(orders, values, strict=True) if a < INF]
    rows = [log_p + (a - 1.0) * (losses - v) for a, v in finite]
    rows += [log_q - (a - 1.0) * (losses + v) for a, v in finite]
    logs = np.array(rows)
    scale = np.maximum(logs.max(axis=0), 0.0)  # columns of size one
    gain = np.maximum(np.exp(log_p) - math.exp(epsilon) * np.exp(log_q), 0.0) * np.exp(-scale)
    masses = np.exp(np.array([log_p, log_q]) - scale)
    answer = linprog(
        -gain,
        A_ub=np.exp(logs - scale),
        b_ub=np.ones(len(rows)),
        A_eq=masses,
        b_eq=[1.0, 1.0],
        method="highs",
    )
    return float(-answer.fun)


@pytest.mark.parametrize(("orders", "values", "epsilon", "share"), GAINS)
def test_a_program_over_all_pairs_finds_the_same(
    orders: list[float], values: list[float], epsilon: float, share: float
) -> None:
    curve = dp.RenyiCurve(orders=orders, values=values)
    joint, alone = (
        float(curve.delta(epsilon=epsilon, conversion=name)) for name in ("joint", "optimal")
    )
    assert joint / alone == pytest.approx(share, abs=1e-4)
    inside = most_by_a_program(orders, values, epsilon)
    assert inside <= joint * (1.0 + 1e-6)  # the program's tolerance is 1e-7
    assert inside >= joint * (1.0 - 1e-3)  # and its grid
    assert float(curve.epsilon(delta=joint)) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.32, 0.36, 0.4, 0.44])
def test_two_coins_that_use_up_both_orders_attain_it(epsilon: float) -> None:
    """To fifty digits, where D_2 = 0.1 and D_8 = 0.4: rounding must not bring the answer below."""
    with mpmath.workdps(50):
        x = mpmath.exp(mpmath.mpf(epsilon))

        def missing(p: mpmath.mpf, q: mpmath.mpf) -> list[mpmath.mpf]:
            moments = [p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a) for a in (2, 8)]
            levels = [mpmath.mpf(v) for v in (0.1, 0.4)]
            return [moments[0] - mpmath.exp(levels[0]), moments[1] - mpmath.exp(7 * levels[1])]

        p, q = mpmath.findroot(missing, (mpmath.mpf("0.15"), mpmath.mpf("0.075")))
        attained = p - x * q
        curve = dp.RenyiCurve(orders=[2.0, 8.0], values=[0.1, 0.4])
        found = mpmath.mpf(float(curve.delta(epsilon=epsilon)))
        assert attained <= found <= attained * (1 + mpmath.mpf(2e-6))
        asked = float(attained)
        exact = mpmath.log((p - mpmath.mpf(asked)) / q)
        assert exact <= mpmath.mpf(float(curve.epsilon(delta=asked))) <= exact + mpmath.mpf(2e-6)


def divergences(p: np.ndarray, q: np.ndarray, orders: list[float]) -> list[float]:
    """The larger one of both directions at each order, rounded up."""
    loss = np.log(p / q)
    both = []
    for a in orders:
        if a == INF:
            both.append(float(np.max(np.abs(loss))))
        else:
            ways = [np.log(np.sum(w * np.exp((a - 1.0) * x))) for w, x in ((p, loss), (q, -loss))]
            both.append(float(max(ways)) / (a - 1.0))
    return [value * (1.0 + 1e-12) + 1e-15 for value in both]


def test_no_pair_is_above_what_its_divergences_imply() -> None:
    rng = np.random.default_rng(40)
    used, checked = 0, 0
    for _ in range(16):
        symbols = int(rng.integers(2, 6))
        p, q = rng.dirichlet(np.full(symbols, rng.uniform(0.3, 3.0)), 2) * 0.98 + 0.02 / symbols
        orders = sorted(rng.choice([1.3, 1.5, 2.0, 3.0, 5.0, 9.0, 30.0, INF], 3, replace=False))
        curve = dp.RenyiCurve(orders=orders, values=divergences(p, q, orders))
        top = float(np.max(np.log(p / q)))
        for epsilon in rng.uniform(0.0, max(top, 0.1), 2):
            truth = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))
            answer = curve.delta(epsilon=epsilon)
            assert truth <= float(answer) * (1.0 + 1e-12) + 1e-15
            used, checked = used + ("joint" in answer.context), checked + 1
            if 0.0 < truth < 1.0:
                assert epsilon <= float(curve.epsilon(delta=truth)) + 1e-9
    assert used > 0.2 * checked  # several orders were needed often enough to be tested


def test_coins_that_are_allowed_are_never_above_it() -> None:
    """The planner looks for the best coins; here they are looked for on a grid, in the same region."""
    rng = np.random.default_rng(41)
    orders, values = [1.5, 4.0, 20.0, INF], [0.08, 0.15, 0.5, 0.9]
    curve = dp.RenyiCurve(orders=orders, values=values)
    q = np.exp(rng.uniform(-9.0, 0.0, 40_000))
    p = q + (1.0 - q) * rng.random(q.size) ** 2
    p, q = p[p < 1.0], q[p < 1.0]
    allowed = np.maximum(np.log(p / q), np.log((1.0 - q) / (1.0 - p))) <= values[-1]
    for a, v in zip(orders[:-1], values[:-1], strict=True):
        for first, second in ((p, q), (q, p)):
            with np.errstate(over="ignore"):
                moment = first**a * second ** (1.0 - a)
                moment += (1.0 - first) ** a * (1.0 - second) ** (1.0 - a)
            allowed &= moment <= math.exp((a - 1.0) * v)
    assert np.count_nonzero(allowed) > 5000
    for epsilon in (0.0, 0.05, 0.2, 0.4, 0.6, 0.8):
        attained = float(np.max(p[allowed] - math.exp(epsilon) * q[allowed]))
        assert 0.9 * float(curve.delta(epsilon=epsilon)) < attained
        assert attained <= float(curve.delta(epsilon=epsilon))


def test_it_is_never_worse_than_the_best_single_order() -> None:
    rng = np.random.default_rng(42)
    better = 0
    for _ in range(25):
        orders = np.sort(1.0 + np.exp(rng.uniform(-2.0, 7.0, int(rng.integers(1, 6)))))
        values = np.sort(np.exp(rng.uniform(-9.0, 2.0, orders.size)))
        curve = dp.RenyiCurve(orders=orders, values=values)
        for question in (
            {"delta": float(np.exp(rng.uniform(-40.0, -0.1)))},
            {"epsilon": float(np.exp(rng.uniform(-5.0, 2.0)))},
        ):
            table = dp.compare_conversions(curve, **question)
            assert 0.0 <= table["joint"][0] <= table["optimal"][0]
            better += table["joint"][0] < table["optimal"][0] * (1.0 - 1e-4)
    assert better >= 2


def test_answers_name_the_orders_that_are_used() -> None:
    both = dp.RenyiCurve(orders=[2.0, 8.0], values=[0.1, 0.4])
    assert "joint conversion of orders 2 and 8" in both.delta(epsilon=0.4).context
    assert "optimal conversion at order 8" in both.delta(epsilon=1.0).context
    ways = dp.RenyiCurve(orders=[2.0, 8.0], values=[0.1, 0.2])
    assert "joint conversion of both directions at order 8" in ways.delta(epsilon=0.01).context
    # account says the same as the curve
    answer = dp.account(both)
    assert float(answer.delta(epsilon=0.4)) == pytest.approx(float(both.delta(epsilon=0.4)))
    assert float(answer.epsilon(delta=0.04)) == pytest.approx(float(both.epsilon(delta=0.04)))


def test_extreme_numbers_pass_through() -> None:
    with np.errstate(all="raise"):
        for orders, values in (
            ([1.0 + 2.0**-40, 1e6, INF], [1e-12, 1e-3, 700.0]),
            ([2.0, 5000.0], [1e-9, 1e-3]),
            ([2.0, 3.0], [400.0, 900.0]),
            ([2.0, INF], [1e-300, 1e-200]),
        ):
            curve = dp.RenyiCurve(orders=orders, values=values)
            for delta in (1e-300, 1e-60, 1e-12, 0.5, 1.0 - 2.0**-52):
                assert float(curve.epsilon(delta=delta)) >= 0.0
            for epsilon in (0.0, 1e-300, 1e-3, 1.0, 800.0):
                assert 0.0 <= float(curve.delta(epsilon=epsilon)) <= 1.0


def divergence(order: arb, p: arb, q: arb) -> arb:
    """D_order of two coins."""
    total = (order * (p / q).log()).exp() * q
    total += (order * ((1 - p) / (1 - q)).log()).exp() * (1 - q)
    return total.log() / (order - 1)


def test_zcdp_has_nothing_left_for_other_orders() -> None:
    """Two coins with D_a <= 1.25 a at *every* order, both ways, that are not (8.07, 1e-5)-DP.

    So no conversion of these divergences is below epsilon 8.07, however many orders it uses. Divergences
    rise with the order: D_b <= 1.25 a for a < b proves it on [a, b].
    """
    delta, epsilon = 1e-5, 8.07
    curve = dp.RenyiCurve.zcdp(rho=1.25)
    found = float(curve.epsilon(delta=delta))
    assert epsilon < found < 8.0784
    order = curve.best_order(delta=delta)
    from sharpdp.curves.renyi.conversion import least_divergence

    least = least_divergence(*(np.array([x]) for x in (order, epsilon, delta)))
    with ctx.workprec(200):
        p = arb(float(least.success[0]))
        q = (p - arb("1e-5")) / arb("8.07").exp()
        assert p - arb("8.07").exp() * q > arb("0.99999e-5")
        last = (p / q).log() / arb("1.25")
        assert float(last.mid()) < 8.0  # beyond, the largest loss is enough
        orders = [
            1 + arb(k) / 1000 for k in range(7001)
        ]  # to 8; D of order 1.001 is above that of 1
        for low, high in pairwise(orders):
            for first, second in ((p, q), (q, p)):
                assert divergence(high, first, second) <= arb("1.25") * low
    assert reference.bernoulli_divergence(order, float(p.mid()), float(q.mid())) < 1.25 * order
