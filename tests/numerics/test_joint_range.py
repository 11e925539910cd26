"""Joint ranges of f-divergences: closed forms of others, Theorem 3 of asoodeh2020, and random pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.curves.renyi import FDivergence, joint_range
from sharpdp.curves.renyi.conversion import delta_from, forcing_level
from sharpdp.errors import WrongType

TV, KL, CHI = FDivergence.total_variation(), FDivergence.kl(), FDivergence.chi_squared()
REVERSE, HELLINGER = FDivergence.reverse_kl(), FDivergence.squared_hellinger()
EVERY = (
    TV,
    FDivergence.hockey_stick(x=2.0),
    KL,
    REVERSE,
    CHI,
    HELLINGER,
    FDivergence.renyi(order=0.5),
    FDivergence.renyi(order=2.0),
    FDivergence.chi_power(order=3.0),
    FDivergence.renyi(order=7.5),
)
PLACES = (1e-9, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.95)


def assert_is(bracket: dp.Bracket, truth: np.ndarray, relative: float = 1e-11) -> None:
    """Between the ends, and the ends close together."""
    lower, upper = np.ravel(bracket.lower), np.ravel(bracket.upper)
    assert np.all(upper - lower <= relative * upper)
    assert np.all(np.abs(lower - truth) <= relative * truth)


def test_chi_squared_and_hellinger_by_total_variation() -> None:
    """4 v^2 up to 1/2 and v / (1 - v) from there; 1 - sqrt(1 - v^2)."""
    v = np.array(PLACES)
    truth = np.where(v <= 0.5, 4.0 * v * v, v / (1.0 - v))
    assert_is(joint_range(TV, CHI).least(at=v), truth)
    truth = v * v / (1.0 + np.sqrt(1.0 - v * v))
    assert_is(joint_range(TV, HELLINGER).least(at=v), truth)
    # Le Cam's other half: at most the total variation
    assert_is(joint_range(TV, HELLINGER).largest(at=v), v)


@pytest.mark.parametrize("kind", [KL, REVERSE], ids=["KL", "reverse KL"])
def test_the_sharp_pinsker_inequality(kind: FDivergence) -> None:
    """Fedotov, Harremoes and Topsoe 2003, Theorem 1: both as functions of t > 0."""
    t = np.array([0.01, 0.3, 1.0, 2.0, 5.0, 20.0])
    coth, sinh = 1.0 / np.tanh(t), np.sinh(t)
    variation = 0.5 * t * (1.0 - (coth - 1.0 / t) ** 2)
    least = np.log(t / sinh) + t * coth - (t / sinh) ** 2
    assert_is(joint_range(TV, kind).least(at=variation), least, relative=2e-11)
    largest = joint_range(kind, TV).largest(at=least)
    assert_is(largest, variation, relative=2e-11)
    assert np.all(largest.upper < np.sqrt(1.0 - np.exp(-least)))  # Bretagnolle and Huber
    assert np.all(largest.upper < np.sqrt(0.5 * least))  # Pinsker


@pytest.mark.parametrize(
    ("order", "epsilon", "delta"),
    [
        (2, 0.5, 0.01),
        (2, 1.0, 1e-5),
        (10, 1.0, 1e-5),
        (1.2, 2.0, 0.1),
        (4, 1.0, 0.3),
        (50, 3.0, 1e-10),
    ],
)
def test_theorem_3_is_the_range_of_a_hockey_stick(
    order: float, epsilon: float, delta: float
) -> None:
    stick, renyi = (
        FDivergence.hockey_stick(x=math.exp(epsilon)),
        FDivergence.renyi(order=order),
    )
    level = float(forcing_level(order, math.log(float(stick.stick or 0)), delta))
    found = joint_range(stick, renyi).least(at=delta)
    assert level <= float(found.upper)  # both are lower bounds, and the upper end is attained
    assert_is(found, np.array([level]))
    back = joint_range(renyi, stick).largest(at=level)
    assert_is(back, np.array([delta]), relative=1e-10)
    assert float(back.lower) <= float(delta_from(order, level, epsilon)) * (1.0 + 1e-13)
    chi = FDivergence.chi_power(order=order)
    of_chi = joint_range(stick, chi).least(at=delta)
    assert_is(of_chi, np.array([math.expm1((order - 1) * level) / (order - 1)]), relative=1e-9)


def test_a_hockey_stick_bounds_the_hellinger_distance_from_above() -> None:
    """Likelihood ratios 0, x and infinity attain it; here x = 2, E_2 = 1/2, masses 3/4 and 1/4 of Q."""
    stick = FDivergence.hockey_stick(x=2.0)
    truth = 1.0 - math.sqrt(0.25 * 0.5)  # P: 0, 1/2, 1/2; Q: 3/4, 1/4, 0
    assert_is(joint_range(stick, HELLINGER).largest(at=0.5), np.array([truth]))
    assert_is(joint_range(HELLINGER, stick).least(at=truth), np.array([0.5]))


def test_two_hockey_sticks_and_two_powers() -> None:
    two, three = (FDivergence.hockey_stick(x=x) for x in (2.0, 3.0))
    assert_is(joint_range(two, three).least(at=0.5), np.array([0.25]))  # 1 - (1/2)(3/2)
    assert_is(joint_range(two, three).largest(at=0.5), np.array([0.5]))
    assert_is(joint_range(three, two).largest(at=0.25), np.array([0.5]))
    assert joint_range(two, three).least(at=0.1).upper == 0.0
    # chi^2 >= e^KL - 1, and Renyi divergences rise with the order
    assert_is(joint_range(KL, CHI).least(at=0.7), np.array([math.expm1(0.7)]))
    assert_is(joint_range(CHI, KL).largest(at=math.expm1(0.7)), np.array([0.7]))
    rising = joint_range(FDivergence.renyi(order=1.5), FDivergence.renyi(order=8.0))
    assert_is(rising.least(at=0.4), np.array([0.4]))
    assert rising.largest(at=0.4).lower == math.inf
    # with P and Q exchanged: order 1/2 of both is the same, reverse KL is at least it
    assert_is(joint_range(FDivergence.renyi(order=0.5), REVERSE).least(at=0.4), np.array([0.4]))
    assert joint_range(REVERSE, CHI).least(at=3.0).upper == 0.0


def computed(kind: FDivergence) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The divergence of distributions along the last axis, in doubles."""
    if kind.stick is not None:
        x = float(kind.stick)
        return lambda p, q: np.maximum(p - x * q, 0.0).sum(-1)
    a = float(kind.order or 0.0)
    if a == 1.0:
        return lambda p, q: (p * np.log(p / q)).sum(-1)
    if a == 0.0:
        return lambda p, q: (q * np.log(q / p)).sum(-1)
    if kind.is_renyi:
        return lambda p, q: np.log((p**a * q ** (1.0 - a)).sum(-1)) / (a - 1.0)
    scale = float(kind.scale) / (a * (a - 1.0))
    return lambda p, q: scale * ((p**a * q ** (1.0 - a)).sum(-1) - 1.0)


@pytest.mark.parametrize("f", EVERY, ids=lambda kind: kind.name)
def test_random_pairs_are_inside(f: FDivergence) -> None:
    rng = np.random.default_rng(41)
    for g in EVERY:
        p, q = rng.dirichlet(np.full(3, 0.5), (2, 2)) * 0.999 + 0.001 / 3.0
        first, second = computed(f)(p, q), computed(g)(p, q)
        edges = joint_range(f, g)
        slack = 1e-12 + 1e-9 * second  # of the doubles here
        assert np.all(edges.least(at=np.maximum(first, 0.0)).lower <= second + slack)
        assert np.all(second <= edges.largest(at=np.maximum(first, 0.0)).upper + slack)


def test_coins_come_close_to_every_edge() -> None:
    """On a grid of coins, so that a bound that is too weak would show."""
    logits = np.linspace(-9.0, 9.0, 700)
    heads = 1.0 / (1.0 + np.exp(-logits))
    one, other = np.meshgrid(heads, heads)
    p, q = (np.stack([side, 1.0 - side], -1) for side in (one, other))
    for f, g in itertools.product((TV, FDivergence.hockey_stick(x=1.5)), (KL, REVERSE, CHI)):
        first, second = computed(f)(p, q), computed(g)(p, q)
        for at in (0.05, 0.3, 0.6):
            near = (first >= at) & (first <= at * 1.02)
            least = float(joint_range(f, g).least(at=at).lower)
            assert least <= float(second[near].min()) <= 1.1 * least


def test_ends_and_wrong_questions() -> None:
    assert joint_range(TV, KL).least(at=0.0).upper == 0.0
    assert joint_range(TV, KL).least(at=1.0).lower == math.inf
    assert joint_range(TV, HELLINGER).least(at=1.0).upper == 1.0
    assert joint_range(KL, TV).largest(at=0.0).upper == 0.0
    assert joint_range(KL, TV).largest(at=1e300).upper == 1.0
    assert joint_range(TV, KL).least(at=[[0.1, 0.2]]).lower.shape == (1, 2)
    with pytest.raises(dp.InvalidArgument, match="at must be at most 1"):
        joint_range(TV, KL).least(at=1.5)
    with pytest.raises(dp.InvalidArgument, match="at must be a finite number, at least 0"):
        joint_range(TV, KL).largest(at=-0.1)
    with pytest.raises(WrongType, match="generator of your own cannot be certified"):
        joint_range(TV, lambda t: t * t)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match="x must be at least 1"):
        FDivergence.hockey_stick(x=0.5)
