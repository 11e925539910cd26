"""Normal laws on the line, mixed with a hidden index: against closed forms in balls and a fine grid."""

from __future__ import annotations

from math import exp, inf, nan, sqrt

import mpmath
import numpy as np
import pytest
from flint import arb

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.mechanisms import NormalPair
from sharpdp.pairs.line_densities import (
    NormalMixture,
    _edges,
    _ranges,
    _steepest,
    normal_mixture_pair,
)
from tests.reference import gaussian
from tests.reference.balls import normal_upper, precision

AWAY, BACK = NormalPair(mean=1.0), NormalPair(mean=0.0, other_mean=1.0)
STILL = NormalPair(mean=0.0)
THREE = (
    NormalMixture((0.5, 0.3, 0.2), (0.0, 1.5, -2.0), (1.0, 0.5, 0.8)),
    NormalMixture((0.25, 0.75), (0.5, -1.0), (1.2, 0.7)),
)
FAR_APART = NormalMixture((0.5, 0.5), (-3.0, 3.0), (1.0, 1.0))


def stick(log_ratio: arb) -> arb:
    """H of N(1, 1) against N(0, 1) at e^log_ratio, of either sign: H_x = 1 - x + x H_{1/x}."""
    if log_ratio < 0:
        x = log_ratio.exp()
        return 1 - x + x * gaussian.delta_of_mu(arb(1), -log_ratio)
    return gaussian.delta_of_mu(arb(1), log_ratio)


def assert_encloses(bracket: dp.Bracket, truth: arb, width: float = 1e-3) -> None:
    assert arb(bracket.lower) <= truth <= arb(bracket.upper)
    assert bracket.upper - bracket.lower <= width * bracket.upper + 1e-40


@pytest.mark.parametrize("w", [0.125, 0.25, 0.4375])
def test_swapped_normal_laws_have_a_closed_form(w: float) -> None:
    """(1-w-wx) H_y(N(1) || N(0)), y = ((1-w) x - w) / (1-w-wx): the mixing identity."""
    answer = dp.account(dp.Mixture(components=[AWAY, BACK], weights=[1 - w, w]))
    with precision(200):
        for epsilon in (0.0, 0.0625, 0.125, 0.25):
            x = arb(epsilon).exp()
            share = 1 - w - w * x
            truth = share * stick((((1 - w) * x - w) / share).log())
            # close to the largest loss, where delta is tiny, a rung is a larger part of what is left
            width = 1e-3 if truth > 1e-3 else 1.0
            assert_encloses(answer.delta(epsilon=epsilon), truth, width)
    far = dp.account(dp.Mixture(components=[AWAY, BACK], weights=[0.5, 0.5]))
    assert far.advantage().upper < 1e-4


@pytest.mark.parametrize("q", [0.01, 0.5])
def test_a_sampled_step_is_a_mixture(q: float) -> None:
    """(1-q) N(0) + q N(1) against N(0), both directions in closed form."""
    answer = dp.account(dp.Mixture(components=[STILL, AWAY], weights=[1 - q, q]))
    with precision(200):
        for epsilon in (0.0, 0.125, 0.5):
            x = arb(epsilon).exp()
            forth = q * stick((1 + (x - 1) / q).log())
            rest = 1 - x * (1 - q)
            back = rest * stick((x * q / rest).log()) if rest > 0 else arb(0)
            assert_encloses(answer.delta(epsilon=epsilon), max(forth, back))


def test_repetitions_agree_with_poisson_batches() -> None:
    mixed = dp.account(dp.Mixture(components=[STILL, AWAY], weights=[0.99, 0.01]) * 100)
    batches = dp.PoissonBatches(sample_rate=0.01, steps=100)
    sampled = dp.account(dp.DPSGD(batches, noise_multiplier=1.0)).epsilon(delta=1e-5)
    bracket = mixed.epsilon(delta=1e-5)
    assert bracket.lower <= sampled.upper
    assert sampled.lower <= bracket.upper
    assert bracket.upper / bracket.lower < 1.002


@pytest.mark.parametrize("deviation", [0.5, 1.25, 3.0])
def test_two_deviations(deviation: float) -> None:
    """N(0, 1) against N(0, s^2): the ratio is monotone in |x|, so the best test is an interval."""
    answer = dp.account(NormalPair(mean=0.0, other_deviation=deviation))
    for epsilon in (0.0, 0.25, 1.0):
        with precision(200):
            truth = max(
                interval_stick(1.0, deviation, epsilon), interval_stick(deviation, 1.0, epsilon)
            )
        assert_encloses(answer.delta(epsilon=epsilon), truth)


def interval_stick(here: float, there: float, epsilon: float) -> arb:
    """H_x(N(0, here^2) || N(0, there^2)): log p/q = log(there/here) - (1/here^2 - 1/there^2) z^2/2."""
    gap = 1 / arb(here) ** 2 - 1 / arb(there) ** 2
    square = 2 * ((arb(there) / arb(here)).log() - epsilon) / gap
    if not square > 0:
        return arb(0) if gap > 0 else 1 - arb(epsilon).exp() * 1
    inside = [1 - 2 * normal_upper(square.sqrt() / one) for one in (here, there)]
    p, q = inside if gap > 0 else [1 - one for one in inside]
    return p - arb(epsilon).exp() * q


def test_other_weights_and_many_components() -> None:
    """Three laws against two, on a grid of 300 000 points."""
    p, q = THREE
    x = np.linspace(-20.0, 20.0, 300_001)
    here, there = (np.exp(one.log_density(x)) for one in THREE)
    pairs = [normal_mixture_pair(p, q, side) for side in (Side.LOWER, Side.UPPER)]
    for loss in (-1.0, -0.25, 0.0, 0.5, 2.0):
        ratio = exp(loss)
        gain = (here - ratio * there) if loss >= 0 else (ratio * there - here)
        truth = float(np.sum(np.maximum(gain, 0.0)) * (x[1] - x[0]))
        low, high = (float(np.exp(pair.log_hockey_stick(np.array([loss]))[0])) for pair in pairs)
        assert low <= truth * (1 + 1e-7)
        assert truth <= high * (1 + 1e-7)
        assert high - low < (1e-3 if truth > 1e-2 else 1e-2) * high


def test_masses_of_cells_are_right_far_out() -> None:
    law = THREE[0]
    edges = np.array([-15.0, -14.9, -6.0001, -6.0, 0.0, 0.05, 9.0, 9.1])
    found = law.log_masses(edges)
    with mpmath.workdps(120):  # digits that a difference of distribution functions loses
        for place in (0, 2, 4, 6):
            low, high = mpmath.mpf(edges[place]), mpmath.mpf(edges[place + 1])
            truth = sum(
                mpmath.mpf(w) * (mpmath.ncdf(high, m, s) - mpmath.ncdf(low, m, s))
                for w, m, s in zip(law.weights, law.means, law.deviations, strict=True)
            )
            assert abs(float(mpmath.log(truth)) - found[place]) < 1e-11


def test_the_loss_stays_in_the_range_of_its_cell() -> None:
    p, q = THREE
    edges, _ = _edges(p, q)
    low, high = _ranges(p, q, edges, 1e-12)
    rng = np.random.default_rng(3)
    for share in (0.0, 1.0, *rng.random(6)):
        x = edges[:-1] + share * np.diff(edges)
        loss = p.log_density(x) - q.log_density(x)
        assert np.all(low <= loss + 1e-11)
        assert np.all(loss <= high + 1e-11)
    assert np.median(high - low) < 0.05


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize("laws", [THREE, (NormalMixture((1.0,), (0.0,), (1.0,)), FAR_APART)])
def test_no_slope_is_steeper_than_the_chords_say(
    laws: tuple[NormalMixture, NormalMixture], way: int
) -> None:
    """Cells from a thousandth to a whole deviation wide, against differences over tiny steps."""
    p, q = laws[::way]
    for width in (0.001, 0.1, 1.0):
        edges = np.arange(-6.0, 6.0, width)
        steepest = _steepest(p, q, edges)
        for share in (0.0, 0.3, 0.7, 1.0):
            x, step = edges[:-1] + share * width, 1e-5
            loss = [p.log_density(at) - q.log_density(at) for at in (x - step, x + step)]
            slope = np.abs(loss[1] - loss[0]) / (2 * step)
            assert np.all(slope <= steepest + 1e-8)
            assert width > 0.01 or np.all(slope >= steepest - 0.05)


def test_alone_it_is_gaussian_noise() -> None:
    answer = dp.account(NormalPair(mean=3.0, other_mean=1.0, deviation=2.0))
    assert_encloses(answer.delta(epsilon=1.0), gaussian.delta_of_mu(arb(1), arb(1)), 1e-9)
    assert dp.account(NormalPair(mean=2.0, other_mean=2.0)).advantage().upper == 0.0


def test_released_normal_laws_do_not_care_where_they_are() -> None:
    apart = dp.Mixture(
        components=[
            NormalPair(mean=1.0),
            NormalPair(mean=500.0, other_mean=500.5),
        ],
        weights=[0.5, 0.5],
        index="released",
    )
    with precision(200):
        truth = (
            gaussian.delta_of_mu(arb(1), arb(0.5)) + gaussian.delta_of_mu(arb(0.5), arb(0.5))
        ) / 2
    assert_encloses(dp.account(apart).delta(epsilon=0.5), truth, 1e-6)


def test_hiding_the_index_helps() -> None:
    weights = [0.75, 0.25]
    kept = dp.account(dp.Mixture(components=[AWAY, BACK], weights=weights))
    told = dp.account(dp.Mixture(components=[AWAY, BACK], weights=weights, index="released"))
    assert kept.delta(epsilon=0.5).upper < 0.2 * told.delta(epsilon=0.5).lower


def test_different_weights_of_the_same_laws() -> None:
    """P = (3/4, 1/4), Q = (1/4, 3/4) of N(0) and N(mu): far apart it is a coin."""
    parts = [
        NormalPair(mean=0.0, other_mean=0.0),
        NormalPair(mean=40.0, other_mean=40.0),
    ]
    run = dp.Mixture(components=parts, weights=[0.75, 0.25], other_weights=[0.25, 0.75])
    assert_encloses(dp.account(run).delta(epsilon=0.25), arb(0.75) - arb(0.25).exp() * arb(0.25))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mean": nan}, "mean must be a finite number"),
        ({"mean": inf}, "mean must be a finite number"),
        ({"mean": "1"}, "Pass the number without quotes"),
        ({"mean": 1.0, "deviation": 0.0}, "deviation must be greater than 0"),
        ({"mean": 1.0, "deviation": -1.0}, "deviation must be greater than 0"),
        ({"mean": 1.0, "other_deviation": 0.0}, "other_deviation must be greater than 0"),
        ({"mean": 1e9}, "mean must be at most 10.6 deviations from 0"),
        ({"mean": 0.0, "other_mean": -1e9}, "other_mean must be at most"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=message):
        NormalPair(**fields)


def test_laws_too_far_apart_are_refused() -> None:
    run = dp.Mixture(components=[AWAY, NormalPair(mean=1e4)], weights=[0.5, 0.5])
    with pytest.raises(dp.Unsupported, match="release the index"):
        dp.account(run)
    narrow = NormalPair(mean=0.0, deviation=1e-3, other_deviation=sqrt(2.0))
    with pytest.raises(dp.Unsupported, match="within 400 of their smallest deviation"):
        dp.account(narrow)
