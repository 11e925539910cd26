"""Sums of lognormal variables beyond thresholds: exact values, and plans that try to break the bounds."""

from __future__ import annotations

from dataclasses import replace
from math import log

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.allocation.capped_lognormal import CappedLognormal
from sharpdp.bounds.allocation.sum_contour import Stretch, Values
from sharpdp.bounds.allocation.sum_profile import Profile
from tests.reference.allocation import one_way_of_two

WIDTH = 4e-5


def stretches(mu: float, steps: int, sign: float, losses: list[float]) -> list[Stretch]:
    """Planned stretches that begin at these losses."""
    profile = Profile(mu, steps, sign, WIDTH)
    found = []
    for loss in losses:
        base = 0.0 if sign < 0.0 and loss > log(2.0) else 1.0
        gap = sign * (steps * np.exp(sign * loss) - base * steps)
        stretch = profile._next(base, gap, profile.deviation(mu), log(steps) - 5.0 * loss)
        assert stretch is not None
        found.append(stretch)
    return found


def read(values: Values, place: int) -> tuple[float, float, float]:
    return float(values.losses[place]), float(values.log_low[place]), float(values.log_high[place])


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_of_two_steps_to_depth_in_thirty_digits(mu: float, sign: float) -> None:
    values = Profile(mu, 2, sign, WIDTH).values(40.0)
    for place in np.linspace(0, values.losses.size - 1, 6).astype(int):
        loss, low, high = read(values, place)
        truth = log(one_way_of_two(1.0 / mu, loss, forward=sign > 0.0))
        assert low <= truth + 1e-12
        assert truth <= high + 1e-12
        assert high - low < (5e-3 if high > -30.0 else np.inf)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_profile_goes_on_where_it_ended(sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deeper values are those of a fresh profile, and no stretch is made twice."""
    expected = Profile(1.5, 50, sign, 1e-3).values(40.0)
    made: list[float] = []
    values = Stretch.values
    monkeypatch.setattr(Stretch, "values", lambda self: made.append(self.gap) or values(self))
    profile = Profile(1.5, 50, sign, 1e-3)
    short = profile.values(10.0)
    assert -20.0 < short.log_high[-1] < -10.0
    np.testing.assert_allclose(short.log_low, expected.log_low[: short.losses.size], rtol=1e-12)
    assert 1.0 < profile.depth_at(1.0) < profile.depth_at(1.3) < 40.0
    np.testing.assert_allclose(profile.values(40.0).log_high, expected.log_high, rtol=1e-12)
    assert len(set(made)) == len(made) > 2


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 12))]
)
def test_no_plan_breaks_the_bounds(sign: float, seed: int) -> None:
    """Tilt, window, smoothing and cap at random: brackets get wide, and stay right."""
    rng = np.random.default_rng(seed)
    mu = 1.0
    for stretch in stretches(mu, 2, sign, [0.0, 0.5, 2.0]):
        changed = replace(
            stretch,
            theta=stretch.theta * np.exp(rng.uniform(-1.0, 0.5)),
            window=stretch.window * np.exp(rng.uniform(-1.5, 0.5)),
            smoothing=stretch.smoothing * np.exp(rng.uniform(-1.0, 3.0)),
            top=stretch.top + rng.uniform(-1.5, 0.5),
            length=stretch.length * rng.uniform(0.2, 1.0),
        )
        values = changed.values()
        for place in (0, values.losses.size - 1):
            loss, low, high = read(values, place)
            truth = log(one_way_of_two(1.0 / mu, loss, forward=sign > 0.0))
            assert low <= truth + 1e-12
            assert truth <= high + 1e-12


@pytest.mark.parametrize(("mu", "steps"), [(1.25, 1000), (2.0, 10**6), (1.0, 10**7), (0.01, 100)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_resolutions_agree(mu: float, steps: int, sign: float) -> None:
    coarse, fine = (Profile(mu, steps, sign, width).values(30.0) for width in (1e-3, 5e-5))
    low, high = (
        np.interp(coarse.losses, fine.losses, ends) for ends in (fine.log_low, fine.log_high)
    )
    inside = coarse.losses < fine.losses[-1]
    # log profiles are concave or nearly straight between neighbors: interpolation is off by 1e-3 at most
    assert np.all(coarse.log_low[inside] <= high[inside] + 1e-3)
    assert np.all(low[inside] <= coarse.log_high[inside] + 1e-3)
    assert np.median(fine.log_high - fine.log_low) < 1e-3


@pytest.mark.parametrize(("sign", "base"), [(1.0, 1.0), (-1.0, 1.0), (-1.0, 0.0)])
@pytest.mark.parametrize("t", [0.0, 3.0, 40.0])
def test_moments_of_capped_lognormals(sign: float, base: float, t: float) -> None:
    mu, theta, top = 1.2, 0.8, 2.0 if sign > 0.0 else 5.0
    term = CappedLognormal(mu, base, sign, top, theta, 45.0, 20.0)
    _, values, weights = term.nodes
    found = complex(np.sum(weights * np.exp((theta + 1j * t) * values)))
    with mpmath.workdps(30):
        z = mpmath.mpc(theta, t)
        end = mpmath.mpf(top) if sign > 0.0 else mpmath.mpf(12)

        def integrand(y: mpmath.mpf) -> mpmath.mpc:
            value = sign * (mpmath.exp(mu * y - mpmath.mpf(mu) ** 2 / 2) - base)
            return mpmath.npdf(y) * mpmath.exp(z * value)

        marks = mpmath.linspace(-13, end, 60)
        exact = complex(mpmath.quad(integrand, marks))
    error = float(term.quadrature_errors(np.array([theta]), np.zeros(1))[0])
    assert abs(found - exact) <= error + 1e-13
    assert error < 1e-6


def test_a_rule_with_fewer_cells_is_less_certain() -> None:
    term = CappedLognormal(1.2, 1.0, 1.0, 2.0, 0.8, 45.0, 20.0)
    fewer = replace(term, room=60.0)
    assert fewer.nodes[0].size < 0.7 * term.nodes[0].size
    tilt, unit = np.array([0.8]), np.zeros(1)
    assert fewer.quadrature_errors(tilt, unit)[0] > 1e3 * term.quadrature_errors(tilt, unit)[0]


@pytest.mark.parametrize(
    ("steps", "epochs", "noise"),
    [(100, 1, 1.0), (1000, 30, 0.8), (10**6, 1, 0.5), (10**7, 1, 1.0), (10_000, 1, 0.6)],
)
@pytest.mark.parametrize("width", [1e-2, 1e-3, 1e-4, pytest.param(1e-5, marks=pytest.mark.slow)])
def test_brackets_are_as_narrow_as_asked(
    steps: int, epochs: int, noise: float, width: float
) -> None:
    plan = dp.RandomAllocation(steps=steps, participations=1, epochs=epochs)
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=noise), relative_width=width)
    for delta in (1e-3, 1e-6) if epochs > 1 else (1e-6, 1e-10):
        epsilon = answer.epsilon(delta=delta)
        assert epsilon.upper - epsilon.lower <= width * epsilon.upper
        assert "wider" not in str(epsilon)
