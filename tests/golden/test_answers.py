"""sharpdp's brackets contain the golden values and are as narrow as asked."""

from __future__ import annotations

from fractions import Fraction
from math import log

import pytest
from flint import arb

import sharpdp as dp
from tests.golden.load import Golden, golden
from tests.reference import finite

WIDTHS = (1e-3, 1e-6)
OTHERS = ("few_steps", "gaussian", "randomized", "promises", "laplace")
QUICK = 12  # of the many other cases one in this many runs by default; all of them if slow


def mechanism(case: Golden) -> dp.Mechanism:
    """The public object that a golden line describes."""
    told = case.mechanism
    match told["kind"]:
        case "gaussian":
            return dp.Gaussian(noise_multiplier=told["noise_multiplier"]) * told["steps"]
        case "laplace":
            return dp.Laplace(scale=told["scale"]) * told["rounds"]
        case "randomized_response":
            one = dp.RandomizedResponse(
                local_epsilon=told["local_epsilon"], categories=told["categories"]
            )
            return one * told["rounds"]
        case "approximate_dp":
            if told["delta"] == 0:
                return dp.PureDP(epsilon=told["epsilon"]) * told["rounds"]
            one = dp.ApproximateDP(epsilon=told["epsilon"], delta=told["delta"])
            return one * told["rounds"]
        case "deterministic":
            sizes = {key: told[key] for key in ("dataset_size", "batch_size", "epochs")}
            plan = dp.DeterministicBatches(**sizes)
            return dp.DPSGD(plan, noise_multiplier=told["noise_multiplier"])
        case "poisson":
            parts = [
                dp.DPSGD(
                    dp.PoissonBatches(sample_rate=part["sample_rate"], steps=part["steps"]),
                    noise_multiplier=part["noise_multiplier"],
                )
                for part in told["parts"]
            ]
            return parts[0] if len(parts) == 1 else dp.Sequence(parts)
    raise AssertionError(told)


def bracket(case: Golden, width: float) -> tuple[float, float]:
    """The two ends of sharpdp's answer."""
    adjacency = case.mechanism.get("adjacency")
    answer = dp.account(mechanism(case), relative_width=width, adjacency=adjacency)
    quantity, argument = case.ask.values()
    if quantity == "tradeoff":
        curve = answer.tradeoff()
        return float(curve.lower(argument)), float(curve.upper(argument))
    found = {
        "epsilon": lambda: answer.epsilon(delta=argument),
        "delta": lambda: answer.delta(epsilon=argument),
        "renyi": lambda: answer.renyi(order=argument),
    }[quantity]()
    assert found.rigor.proved
    return found.lower, found.upper


def contains(case: Golden, ends: tuple[float, float]) -> bool:
    """Whether the truth may lie between the ends, as far as the golden radius tells."""
    return Fraction(ends[0]) <= case.upper and Fraction(ends[1]) >= case.lower


def narrow(ends: tuple[float, float], width: float) -> bool:
    return ends[1] - ends[0] <= width * ends[1] * (1 + 1e-9)


def questions(*families: str) -> list[Golden]:
    return [
        case
        for family in families
        for case in golden(family)
        if case.ask["quantity"] != "noise_multiplier"
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", questions("issue"), ids=str)
def test_reference_cases_are_enclosed_as_narrowly_as_asked(case, width):
    ends = bracket(case, width)
    assert contains(case, ends)
    assert narrow(ends, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "case", questions("poisson", "deterministic") + questions(*OTHERS)[::QUICK], ids=str
)
def test_golden_values_are_enclosed(case, width):
    assert contains(case, bracket(case, width))


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", questions("poisson", "deterministic", *OTHERS), ids=str)
def test_all_golden_values_are_enclosed_as_narrowly_as_asked(case, width):
    ends = bracket(case, width)
    assert contains(case, ends)
    assert narrow(ends, width)


FINITE = [
    ((0.5, 0.25, 0.25), (0.125, 0.375, 0.5)),
    ((0.5, 0.5, 0.0), (0.5, 0.25, 0.25)),
    ((0.25, 0.25, 0.25, 0.25), (0.0, 0.5, 0.25, 0.25)),
    ((0.75, 0.25), (0.25, 0.75)),
    ((0.9990234375, 0.0009765625), (0.0009765625, 0.9990234375)),
]


def exact(pairs):
    return [tuple([Fraction(x) for x in side] for side in pair) for pair in pairs]


def finite_mechanism(pairs):
    return dp.Sequence([dp.FinitePair(p=p, q=q) for p, q in pairs])


def finite_sequences():
    """One to four equal pairs, and a mixture of different ones."""
    repeated = [[pair] * rounds for pair in FINITE for rounds in (1, 2, 4)]
    return [*repeated, [FINITE[0], FINITE[3], FINITE[1]], FINITE[:4]]


@pytest.mark.parametrize("pairs", finite_sequences())
def test_finite_pairs_enclose_brute_force(pairs):
    answer = dp.account(finite_mechanism(pairs))
    ways = exact(pairs), finite.reverse(exact(pairs))
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        first, second = (finite.delta_ball(way, epsilon) for way in ways)
        found, truth = answer.delta(epsilon=epsilon), first.max(second)
        assert truth >= found.lower or truth.overlaps(arb(found.lower))
        assert truth <= found.upper or truth.overlaps(arb(found.upper))
    for delta in (0.5, 0.125, 2.0**-10):
        largest = [finite.exp_epsilon(way, Fraction(delta)) for way in ways]
        found = answer.epsilon(delta=delta)
        if None in largest:
            assert found.upper == float("inf")
        else:
            truth = finite.log_ball(max(largest))
            assert truth >= found.lower or truth.overlaps(arb(found.lower))
            assert truth <= found.upper or truth.overlaps(arb(found.upper))


@pytest.mark.parametrize("pairs", finite_sequences())
def test_finite_tradeoffs_enclose_brute_force(pairs):
    curve = dp.account(finite_mechanism(pairs)).tradeoff()
    ways = exact(pairs), finite.reverse(exact(pairs))
    for fpr in (2.0**-8, 0.125, 0.5, 0.875):
        truth = min(finite.tradeoff(way, Fraction(fpr)) for way in ways)
        assert Fraction(float(curve.lower(fpr))) <= truth <= Fraction(float(curve.upper(fpr)))


def test_calibrated_noise_is_safe_and_close():
    (case,) = [c for c in golden("issue") if c.ask["quantity"] == "noise_multiplier"]
    plan = dp.PoissonBatches(
        sample_rate=case.mechanism["sample_rate"], steps=case.mechanism["steps"]
    )
    noise = dp.calibrate(
        lambda s: dp.DPSGD(plan, noise_multiplier=s),
        epsilon=case.ask["epsilon"],
        delta=case.ask["delta"],
    )
    assert Fraction(float(noise)) >= case.lower
    assert float(noise) <= float(case.upper) * (1 + 1e-4)


def test_the_repeat_count_of_randomized_response_counts():
    """One released accountant reports 1.10 here: the epsilon of a single report."""
    answer = dp.account(dp.RandomizedResponse(local_epsilon=log(3)) * 10)
    assert answer.epsilon(delta=1e-6).lower > 10.9


def test_advantage_is_delta_at_zero():
    (case,) = [c for c in golden("issue") if c.ask == {"quantity": "delta", "epsilon": 0.0}]
    bracket = dp.account(mechanism(case)).advantage()
    assert Fraction(bracket.lower) <= case.upper
    assert Fraction(bracket.upper) >= case.lower
