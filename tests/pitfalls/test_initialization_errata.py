"""Statements of Section 5 and Appendix D of wang2023, each checked at an example."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.mechanisms.sensitivity import SensitivityDistribution
from tests.reference.initialization import delta_of, record_mean


def renyi(order: float, variance: float, other: float, reach: float = 12.0) -> float:
    """The Renyi divergence of N(0, variance) from N(0, other), by quadrature over |x| <= reach."""

    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        p, q = (mpmath.npdf(x, 0, mpmath.sqrt(one)) for one in (variance, other))
        return p**order * q ** (1 - order)

    whole = mpmath.quad(integrand, np.linspace(-reach, reach, 9).tolist())
    return float(mpmath.log(whole) / (order - 1))


def test_the_renyi_divergence_said_to_be_infinite_is_finite() -> None:
    """R(N(0, 1) || N(0, 2)) is at most log sqrt 2 at every order; its reverse is the infinite one."""
    assert abs(renyi(2.0, 1.0, 2.0) - 0.143841) < 1e-6
    assert renyi(40.0, 1.0, 2.0) <= 0.5 * np.log(2.0)
    assert renyi(2.0, 2.0, 1.0, 40.0) > renyi(2.0, 2.0, 1.0, 20.0) + 0.5  # grows without end


def centered_advantage(ratio: float) -> float:
    """The total variation of two centered normal laws with variances of this ratio, in closed form."""
    edge = np.sqrt(ratio * np.log(ratio) / (ratio - 1.0))
    return float(2.0 * (ndtr(edge) - ndtr(edge / np.sqrt(ratio))))


def test_dropping_the_start_is_no_dominating_pair() -> None:
    """N(0, 1) and N(0, 2): three records with y = 0 (a = 0) leave N(0, 5) or N(0, 2), which differ more.

    The start I becomes I - 3 I or I - 2 I, plus noise of variance 1. Total variation has no direction.
    """
    variances = [(1.0 - records) ** 2 + 1.0 for records in (3, 2)]
    assert variances == [5.0, 2.0]
    printed, attained = centered_advantage(2.0), centered_advantage(variances[0] / variances[1])
    assert abs(printed - 0.16606) < 1e-5
    assert abs(attained - 0.21792) < 1e-5
    run = dp.RandomlyInitializedGD.least_squares(slope=0.0, clip=np.inf, claim="instance")
    assert dp.account(run).advantage().upper > attained


def hockey_stick(
    mean: float, variance: float, other_mean: float, other: float, x: np.ndarray
) -> np.ndarray:
    """H_x of two normal laws, the first with the larger variance, by the roots of the log ratio."""
    a = 0.5 * (1.0 / other - 1.0 / variance)
    b = mean / variance - other_mean / other
    c = 0.5 * (other_mean**2 / other - mean**2 / variance + np.log(other / variance)) - np.log(x)
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    left, right = (-b - root) / (2.0 * a), (-b + root) / (2.0 * a)

    def outside(mean: float, variance: float) -> np.ndarray:
        scale = np.sqrt(variance)
        return np.asarray(ndtr((left - mean) / scale) + ndtr((mean - right) / scale))

    return outside(mean, variance) - x * outside(other_mean, other)


def test_dropping_the_start_fails_with_the_slope_of_the_figure() -> None:
    """a = 1 and H_100: N(3, 5) and N(2, 2) are attained, N(1, 2) and N(0, 1) claimed."""
    ratio = np.array([100.0])
    assert hockey_stick(1.0, 2.0, 0.0, 1.0, ratio) == pytest.approx(0.0173876, abs=1e-6)
    assert hockey_stick(3.0, 5.0, 2.0, 2.0, ratio) == pytest.approx(0.0185942, abs=1e-6)


@pytest.mark.parametrize("variance", [1.0, 2.25, 4.0])
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_dropping_the_start_holds_but_for_some_numbers_of_records(
    slope: float, variance: float
) -> None:
    """The pair N(0, s) and N(a, 1 + s) is dominated unless 2 < n < 2 + 2s: three records for s = 1."""
    x = np.exp(np.linspace(-12.0, 12.0, 481))
    printed = hockey_stick(slope, 1.0 + variance, 0.0, variance, x)
    exceeding = set()
    for records in range(1, 13):
        narrow, wide = sorted(
            ((one - 1.0) ** 2 + variance, one * slope) for one in (records, records - 1)
        )
        attained = hockey_stick(wide[1], wide[0], narrow[1], narrow[0], x)
        if np.any(attained > printed * (1.0 + 1e-9) + 1e-14):
            exceeding.add(records)
    said = {records for records in range(1, 13) if 2 < records < 2 + 2 * variance}
    assert exceeding <= said
    assert 3 in exceeding
    if slope == 0.0:
        assert exceeding == said


def test_the_logistic_sensitivity_needs_the_factor_of_the_margin() -> None:
    """Printed: 1 / (1 + e^(-|I| M)). One record with x y = M = 3 reveals more than that allows."""
    margin, epsilon = 3.0, 1.0
    at_most = SensitivityDistribution(
        cdf=lambda m: np.clip(
            2.0 * ndtr(np.log(m / np.maximum(1.0 - m, 1e-300)) / margin) - 1.0, 0, 1
        ),
        interval=(0.5, 1.0),
    )
    printed = dp.account(dp.RandomlyInitializedGD(sensitivity=at_most, claim="worst-case"))
    truth = float(record_mean(lambda m: delta_of(m, epsilon), margin))
    assert printed.delta(epsilon=epsilon).upper < 0.5 * truth
    ours = dp.account(dp.RandomlyInitializedGD.logistic(margin=margin, claim="worst-case"))
    assert ours.delta(epsilon=epsilon).upper > truth


def test_the_random_start_amplifies_nothing_over_all_records() -> None:
    """64 records with x^2 = 1/64 and y = 0 cancel the start; one far record then shifts by the clip."""
    clip, count, epsilon = 1.0, 64, 1.0
    start = np.linspace(-9.0, 9.0, 1801)
    others = count * np.clip(start / count, -clip, clip)
    far = np.clip(start - 1e6, -clip, clip)
    without, with_record = start - others, start - others - far
    assert np.all(without == 0.0)
    assert np.all(with_record == clip)
    truth = float(delta_of(clip, epsilon))
    said = {"slope": 1.0, "clip": clip}
    instance = dp.account(dp.RandomlyInitializedGD.least_squares(**said, claim="instance"))
    worst = dp.account(dp.RandomlyInitializedGD.least_squares(**said, claim="worst-case"))
    assert instance.delta(epsilon=epsilon).upper < 0.7 * truth
    assert worst.delta(epsilon=epsilon).lower <= truth <= worst.delta(epsilon=epsilon).upper
