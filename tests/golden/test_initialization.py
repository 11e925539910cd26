"""One step from a random start against the specification's table, quadrature, and true marginals."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from reproduce.wang2023 import starts

import sharpdp as dp
from sharpdp.bounds.random_start.gaussian_mixture import DistanceLaw, gaussian_mixture_pair
from sharpdp.pairs.pair import GaussianPair
from sharpdp.profile.composition import Composition
from tests.golden.printed import unit
from tests.reference.initialization import (
    delta_of,
    delta_of_densities,
    least_squares_mean,
    logistic_mean,
    marginals,
    record_mean,
    rejected,
    tradeoff_of,
)

RATES = (0.01, 0.05, 0.1, 0.3, 0.5)
FIGURE_2 = {  # clip: rates of the mixture, of Gaussian noise alone, fixed point, both deltas at 1
    0.5: (
        "0.9674454698 0.8795080309 0.7929486485 0.5319931831 0.3292290590",
        "0.9661010609 0.8738651018 0.7827609196 0.5097334303 0.3085375387",
        "0.4131696772",
        ("0.005374109993", "0.006829594983"),
    ),
    1.0: (
        "0.9225905875 0.7848882839 0.6768542822 0.4088340753 0.2197806382",
        "0.9076377519 0.7404889772 0.6108563084 0.3171798704 0.1586552539",
        "0.3536964315",
        ("0.07950220047", "0.1269367375"),
    ),
    2.0: (
        "0.8218114191 0.6603944170 0.5550738566 0.3069750862 0.1346929124",
        "0.6279194146 0.3612399687 0.2362404159 0.07002572143 0.02275013195",
        "0.3034855911",
        ("0.2037533995", "0.5098616601"),
    ),
    3.0: (
        "0.7939049575 0.6380872116 0.5358636982 0.2918875674 0.1224928370",
        "0.2502662525 0.08768546325 0.04285742617 0.006650634878 0.001349898032",
        "0.2959410715",
        ("0.2263463910", "0.7876007414"),
    ),
}
UNCLIPPED = "0.791993 0.636769 0.534761 0.291030 0.121799"
LOGISTIC = {
    1.0: "0.94708925 0.83035652 0.72564141 0.44050928 0.24990226",
    2.0: "0.76495610 0.53317733 0.39519096 0.15455129 0.05966876",
}


def least_squares(clip: float, slope: float = 1.0, start: str = "public") -> dp.Guarantee:
    return dp.account(
        dp.RandomlyInitializedGD.least_squares(
            slope=slope, clip=clip, claim="instance", initialization=start
        )
    )


def encloses(bracket: dp.Bracket, text: str, width: float) -> bool:
    """Whether the number behind a printed one lies inside, and the bracket is narrow."""
    half, value = 0.5 * float(unit(text)), float(text)
    inside = bracket.lower <= value + half and value - half <= bracket.upper
    return bool(inside and bracket.upper - bracket.lower <= width)


@pytest.mark.parametrize("clip", FIGURE_2)
def test_figure_2_on_both_sides(clip: float) -> None:
    rates, alone, fixed, (delta, delta_alone) = FIGURE_2[clip]
    answer, gaussian = least_squares(clip), dp.account(dp.Gaussian(1.0 / clip))
    for fpr, text, other in zip(RATES, rates.split(), alone.split(), strict=True):
        assert encloses(answer.fnr(fpr=fpr), text, 3e-7), fpr
        assert encloses(gaussian.fnr(fpr=fpr), other, 3e-7), fpr
    assert encloses(answer.fnr(fpr=float(fixed)), fixed, 3e-7)
    assert encloses(answer.delta(epsilon=1.0), delta, 1e-6)
    assert encloses(gaussian.delta(epsilon=1.0), delta_alone, 1e-6)


def test_figure_2_without_clipping() -> None:
    answer = least_squares(np.inf)
    for fpr, text in list(zip(RATES, UNCLIPPED.split(), strict=True))[::2]:
        assert encloses(answer.fnr(fpr=fpr), text, 3e-6), fpr


@pytest.mark.parametrize("margin", LOGISTIC)
def test_logistic_regression_over_all_records(margin: float) -> None:
    run = dp.RandomlyInitializedGD.logistic(margin=margin, claim="worst-case")
    answer = dp.account(run)
    for fpr, text in zip(RATES, LOGISTIC[margin].split(), strict=True):
        bound = answer.fnr(fpr=fpr).lower
        assert float(text) - 1e-6 < bound <= float(text) + 0.5 * float(unit(text)), fpr


@pytest.mark.parametrize(
    ("slope", "clip", "epsilon"),
    [(0.0, 0.3, 0.2), (-0.7, 1.3, 4.0), (2.5, 1.0, 3.0), (2.5, 6.0, 30.0), (0.1, 2.0, 0.0)],
)
def test_delta_is_the_mean_over_starts(slope: float, clip: float, epsilon: float) -> None:
    truth = least_squares_mean(lambda m: delta_of(m, epsilon), slope, clip, epsilon)
    found = least_squares(clip, slope).delta(epsilon=epsilon)
    assert found.lower <= float(truth) * (1.0 + 1e-14)
    assert found.upper >= float(truth) * (1.0 - 1e-14)
    assert found.upper - found.lower <= 1e-5 * found.upper
    hidden = least_squares(clip, slope, "hidden").delta(epsilon=epsilon)
    assert (hidden.lower, hidden.upper) == (0.0, found.upper)


@pytest.mark.parametrize("threshold", [-1.5, -0.2, 0.0, 0.8])
def test_rates_at_a_common_threshold_are_on_the_curve(threshold: float) -> None:
    fpr, fnr = (
        float(least_squares_mean(lambda m, t=t: rejected(m, mpmath.mpf(t)), 1.0, 1.5, t))
        for t in (threshold, -threshold)
    )
    found = least_squares(1.5).fnr(fpr=fpr)
    assert found.lower - 1e-12 <= fnr <= found.upper + 1e-12
    assert found.upper - found.lower < 1e-6


@pytest.mark.parametrize(("margin", "epsilon"), [(0.4, 0.1), (3.0, 2.0)])
def test_logistic_deltas_by_quadrature(margin: float, epsilon: float) -> None:
    worst = float(logistic_mean(lambda m: delta_of(m, epsilon), margin))
    one = float(record_mean(lambda m: delta_of(m, epsilon), margin))
    over_all, instance = (
        dp.account(
            dp.RandomlyInitializedGD.logistic(margin=margin, initialization="public", claim=claim)
        ).delta(epsilon=epsilon)
        for claim in ("worst-case", "instance")
    )
    assert worst * (1 - 1e-14) <= over_all.upper <= worst * (1 + 1e-5)
    assert one * (1 - 1e-5) <= over_all.lower <= one * (1 + 1e-14)
    assert instance.lower <= one * (1 + 1e-14)
    assert instance.upper >= one * (1 - 1e-14)


@pytest.mark.underflows
@pytest.mark.parametrize(
    ("cells", "low", "high"), [(200, 0.7847288, 0.7850472), (5000, 0.7848819, 0.7848947)]
)
def test_cells_by_their_ends_give_the_bracket_of_the_specification(
    cells: int, low: float, high: float
) -> None:
    """Section 6(c): clip 1, rate 0.05; the bracket holds 0.78488828 and shrinks like 1/K."""
    ends = np.linspace(0.0, 1.0, cells + 1)
    inside = [float(mpmath.ncdf(e - 1.0) - mpmath.ncdf(-e - 1.0)) for e in ends]
    mass = np.append(np.diff(inside), 1.0 - inside[-1])
    law = DistanceLaw(np.append(ends[:-1], 1.0), np.append(ends[1:], 1.0), mass, mass_error=1e-10)
    found = [
        Composition(((gaussian_mixture_pair(law, side), 1),)).false_negative_rates(
            np.array([0.05]), 1e-6
        )[i][0]
        for i, side in enumerate((dp.Side.UPPER, dp.Side.LOWER))
    ]
    assert found[0] <= 0.7848882839 <= found[1]
    assert np.allclose(found, [low, high], rtol=0.0, atol=2e-7)


@pytest.mark.parametrize("points", [1, 2])
@pytest.mark.parametrize("clip", [1.0, 2.0])
def test_true_marginals_are_what_both_sides_say(points: int, clip: float) -> None:
    """The start is hidden: both sides are those of the two laws of the result."""
    run = dp.RandomlyInitializedGD.least_squares(
        slope=1.0, clip=clip, points=points, claim="instance"
    )
    answer = dp.account(run)
    one, other, step = marginals(points, 1.0, clip)
    assert abs(np.sum(one) * step - 1.0) < 1e-12
    for fpr in (0.02, 0.5):
        ways = (tradeoff_of(one, other, step, fpr), tradeoff_of(other, one, step, fpr))
        found = answer.fnr(fpr=fpr)
        assert found.lower <= min(ways) + 1e-6
        assert min(ways) - 1e-6 <= found.upper <= min(ways) + 1e-4
    for epsilon in (0.0, 0.5, 1.5):
        ways = [delta_of_densities(*pair, step, epsilon) for pair in ((one, other), (other, one))]
        found = answer.delta(epsilon=epsilon)
        # the trapezoid rule for a positive part is off by the square of its step
        assert max(ways) * (1.0 - 1e-4) <= found.lower <= max(ways) + 2e-7
        assert max(ways) - 2e-7 <= found.upper <= max(ways) * (1.0 + 1e-3)


@pytest.mark.parametrize("points", [1, 2])
def test_a_hidden_start_without_clipping_has_a_closed_form(points: int) -> None:
    """N(a, 1) against N(0, 2) for one point, mirrored for two; the ratio passes e^k at two roots."""
    run = dp.RandomlyInitializedGD.least_squares(
        slope=0.6, clip=np.inf, points=points, claim="instance"
    )
    found = dp.account(run).delta(epsilon=1.0)
    narrow, wide = (0.6, 1.0), (0.0 if points == 1 else 1.2, mpmath.sqrt(2))
    # log of the wide over the narrow density is x^2/4 + ..., above 1 outside two roots
    a, b, c = (
        mpmath.mpf(1) / 4,
        wide[0] / mpmath.mpf(2) - narrow[0],
        narrow[0] ** 2 / 2 - wide[0] ** 2 / mpmath.mpf(4) - mpmath.log(2) / 2 - 1,
    )
    left, right = ((-b + sign * mpmath.sqrt(b * b - 4 * a * c)) / (2 * a) for sign in (-1, 1))
    tails = [
        mpmath.ncdf((left - mean) / sd) + mpmath.ncdf((mean - right) / sd)
        for mean, sd in (wide, narrow)
    ]
    truth = float(tails[0] - mpmath.e * tails[1])
    assert truth * (1.0 - 1e-4) <= found.lower <= truth * (1.0 + 1e-12)
    assert truth * (1.0 - 1e-12) <= found.upper <= truth * (1.0 + 1e-4)


def test_too_many_points_have_no_lower_side() -> None:
    run = dp.RandomlyInitializedGD.least_squares(
        slope=1.0, clip=1.0, points=10**9, claim="instance"
    )
    assert dp.account(run).lower_derivations == ()
    assert dp.account(run).delta(epsilon=1.0).lower == 0.0


def test_the_curve_is_symmetric_above_the_noise_alone_and_falls_with_the_clip() -> None:
    rates = np.array([0.03, 0.6])
    before = 1.0 - rates
    for clip in (0.2, 1.5, 4.0):
        answer = least_squares(clip)
        fnr = answer.fnr(fpr=rates)
        assert np.all(fnr.lower <= before)
        assert np.all(fnr.upper > dp.account(dp.Gaussian(1.0 / clip)).fnr(fpr=rates).lower)
        mirrored = answer.fnr(fpr=fnr.lower)
        assert np.all(mirrored.lower <= rates + 1e-6)
        assert np.all(mirrored.upper >= rates - 1e-6)
        before = fnr.upper


def test_far_slopes_leave_the_noise_alone() -> None:
    rates = np.array([0.2])
    alone = dp.account(dp.Gaussian(1.0)).fnr(fpr=rates)
    gaps = []
    for slope in (1.0, 3.0, 5.0, -60.0, 1e6):
        fnr = least_squares(1.0, slope).fnr(fpr=rates)
        assert np.all(fnr.upper >= alone.lower)
        gaps.append(float(np.max(fnr.lower - alone.upper)))
    assert gaps == sorted(gaps, reverse=True)
    assert abs(gaps[-1]) < 1e-6


def test_the_profile_is_the_conjugate_of_the_curve() -> None:
    answer = least_squares(1.5)
    fpr = np.linspace(0.05, 0.3, 6)
    fnr = answer.fnr(fpr=fpr)
    for epsilon in (0.3, 1.0):
        delta = answer.delta(epsilon=epsilon)
        reached = float(np.max(1.0 - fnr.lower - np.exp(epsilon) * fpr))
        # the supremum is attained between two of the rates
        assert delta.lower - 6e-3 < reached <= delta.upper + 1e-6


def test_the_curves_of_the_reproduced_figure() -> None:
    rates = np.array(RATES)
    assert np.allclose(
        starts.noise_alone(2.0, rates),
        np.array(FIGURE_2[2.0][1].split(), dtype=float),
        rtol=0.0,
        atol=1e-9,
    )
    # without clipping one and two points give N(a, 1) against N(0, 2), mirrored: 0.158 at 1/2
    hidden = starts.truth(2, np.inf, rates)
    assert abs(hidden[-1] - 0.158) < 1e-3
    assert np.all(hidden >= np.array(UNCLIPPED.split(), dtype=float))


def test_worst_case_least_squares_is_the_noise_alone() -> None:
    run = dp.RandomlyInitializedGD.least_squares(
        slope=1.0, clip=0.75, noise_deviation=1.5, claim="worst-case"
    )
    answer, alone = dp.account(run), dp.account(dp.Gaussian(2.0))
    assert answer.upper_derivations[0].composition.steps == ((GaussianPair(0.5), 1),)
    assert float(answer.epsilon(delta=1e-6)) == float(alone.epsilon(delta=1e-6))
    assert "amplifies nothing" in answer.report().replace("\n    ", " ")
