"""Answers as Python values: short in a notebook, equal by their data, with a hint for a bare number."""

from __future__ import annotations

import pytest

import sharpdp as dp

LONGEST = 400
RUN = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)


def test_no_answer_prints_pages() -> None:
    answer = dp.account(RUN)
    coin = dp.FinitePair(p=[0.75, 0.25], q=[0.25, 0.75])
    mixture = dp.Mixture(components=[coin, coin], weights=[0.75, 0.25])
    values = [
        answer,
        answer.tradeoff(),
        answer.renyi_curve(),
        dp.TradeoffCurve.gaussian(mu=1.0).lower_polyline,
        dp.compare(dp.Gaussian(1.0), delta=1e-5),
        dp.compare_mixture(mixture, fpr=0.1),
        dp.compare_samplers(
            noise_multiplier=1.0, dataset_size=100, batch_size=100, epochs=1, delta=1e-5
        ),
    ]
    assert max(len(repr(value)) for value in values) < LONGEST


@pytest.mark.parametrize(
    "make",
    [
        lambda mu: dp.TradeoffCurve.gaussian(mu=mu),
        lambda mu: dp.TradeoffCurve.from_knots(fpr=[0, mu / 4, 1], fnr=[1, mu / 4, 0]),
        lambda mu: dp.account(dp.Gaussian(1 / mu)).tradeoff(),
        lambda mu: dp.account(dp.RenyiCurve.zcdp(rho=mu)).tradeoff(),
        lambda mu: dp.RenyiCurve(orders=[2.0, 3.0], values=[mu, mu]),
        lambda mu: dp.RenyiCurve.zcdp(rho=mu) * 3,
    ],
)
def test_curves_are_equal_by_their_data(make: object) -> None:
    assert callable(make)
    one, same, other = make(1.0), make(1.0), make(0.5)
    assert one is not same
    assert one == same
    assert hash(one) == hash(same)
    assert one != other


@pytest.mark.parametrize(
    ("value", "method", "call"),
    [
        (dp.account(dp.Gaussian(1.0)), "epsilon", r"epsilon\(delta=1e-05\)"),
        (dp.account(dp.Gaussian(1.0)), "tpr", r"tpr\(fpr=1e-05\)"),
        (dp.TradeoffCurve.gaussian(mu=1.0), "delta", r"delta\(epsilon=1e-05\)"),
        (dp.RenyiCurve.zcdp(rho=1.0), "renyi", r"renyi\(order=1e-05\)"),
    ],
)
def test_a_bare_number_is_answered_with_its_name(value: object, method: str, call: str) -> None:
    with pytest.raises(TypeError, match=call):
        getattr(value, method)(1e-5)
