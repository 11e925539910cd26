"""Moments of sampled Gaussians by quadrature, and the bounds that their contours rest on, in balls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from flint import acb, arb

from sharpdp.curves import analytic
from sharpdp.curves.plan import Plan
from sharpdp.curves.sampled_gaussian import SampledGaussian, last_frequency, log_moments
from sharpdp.numerics.contour import Contour
from sharpdp.numerics.special import UNIT_ROUNDOFF, log_mixture
from tests.reference.balls import precision

BITS = 200
NATS = 80.0  # beyond this below the largest value, the exact sums leave terms out

# rate, sigma, repetitions, sign, log delta: usual ones, then those where something once broke
CASES = [
    (0.01, 1.0, 1e3, 1, -11.5),
    (0.01, 1.0, 1e3, -1, -11.5),
    (1e-3, 0.8, 1e4, 1, -13.8),
    (1e-4, 0.6, 1e6, -1, -13.8),
    (0.3, 5.0, 50.0, 1, -69.0),
    (0.9, 2.0, 400.0, -1, -23.0),
    (1.5336782604614887e-06, 0.9727881808187613, 45371671.0, -1, -12.962552459348979),
    (6.0164348860547796e-06, 0.5725133055425492, 54612303.0, -1, -19.0996),
    (0.9999999730342225, 0.22139973930823809, 142.0, -1, -14.76),
    (8.470672601403425e-05, 8.29525081423493, 41295805.0, 1, -275.3),
    (2.475066981722101e-05, 38.605720721624586, 16218181.0, -1, -295.2),
    (1.0 - 1e-6, 2.4, 238.0, -1, -27.7),
]


@dataclass(frozen=True)
class Exact:
    """A(s + it) by a trapezoid rule far finer than any that is used, in balls."""

    part: SampledGaussian

    def terms(self, power: float, last: float) -> tuple[list[arb], list[arb]]:
        """Weights w^power phi and log w at the nodes."""
        part = self.part
        y = np.linspace(-70.0, max(power, 1.0) * part.mu + 70.0, 40_001)
        height = power * part.log_ratio(y) - 0.5 * y * y
        kept = y[height > np.max(height) - NATS]
        step = min(0.12, 0.25 / part.mu, 0.5 / (part.mu * np.sqrt(1.0 + abs(power) + last)))
        step = 2.0 ** np.floor(np.log2(step))
        first, final = int(kept[0] / step) - 1, int(kept[-1] / step) + 1
        mu, rate, s = arb(part.mu), arb(part.rate), arb(power)
        weights, logs = [], []
        for j in range(first, final + 1):
            place = arb(float(step)) * j
            log_w = (1 - rate + rate * (mu * place - mu * mu / 2).exp()).log()
            scale = arb(float(step)) / (2 * arb.pi()).sqrt()
            weights.append((s * log_w - place * place / 2).exp() * scale)
            logs.append(log_w)
        return weights, logs


def prepared(case: tuple[float, float, float, int, float]) -> tuple[SampledGaussian, Plan, Contour]:
    rate, sigma, count, sign, log_delta = case
    part = SampledGaussian(rate, 1.0 / sigma, sign, count)
    result = analytic.prepared([part], log_value=log_delta)
    if result is None:
        pytest.skip("the engine declines")
    return part, *result


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_by_quadrature_are_within_their_claim(
    case: tuple[float, float, float, int, float],
) -> None:
    part, plan, contour = prepared(case)
    last = float(contour.frequencies[-1])
    table = analytic._table(part, plan, last)
    assert table is not None
    size = contour.frequencies.size
    picks = contour.frequencies[sorted({0, 1, 2, size // 4, size // 2, size - 1})]
    psi, rounding = table.psi(picks)
    claimed = rounding + table.weight_error(picks) + table.weight_error(np.zeros(1))
    with precision(BITS):
        weights, logs = Exact(part).terms(float(part.exponent(plan.theta)), last)
        total = sum(weights, arb(0))
        off = abs(total.log() - arb(table.log_moment))
        assert off <= table.log_moment_error, (float(off), table.log_moment_error)
        for t, value, error in zip(picks.tolist(), psi, claimed, strict=True):
            turned = acb(0)
            for weight, log_w in zip(weights, logs, strict=True):
                turned += weight * acb(0, arb(t) * (part.sign * log_w - arb(table.centre))).exp()
            exact = turned / total - 1
            off = abs(exact - acb(float(value.real), float(value.imag)))
            assert off <= error, (t, float(off), float(error))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_for_chernoff_bounds_are_never_too_small(
    case: tuple[float, float, float, int, float],
) -> None:
    part, _, contour = prepared(case)
    chernoff = contour.chernoff
    tilts = np.concatenate([chernoff.right_tilts, -chernoff.left_tilts])
    given = np.concatenate([chernoff.right_log_moments, chernoff.left_log_moments])
    with precision(BITS):
        for tilt, value in zip(tilts.tolist(), given.tolist(), strict=True):
            weights, _ = Exact(part).terms(float(part.exponent(tilt)), 0.0)
            truth = part.count * sum(weights, arb(0)).log()
            assert truth <= value + 1e-6 * (1.0 + abs(value)), (tilt, value, float(truth))


@pytest.mark.parametrize("case", CASES[:9], ids=str)
def test_characteristic_functions_fall_as_fast_as_claimed(
    case: tuple[float, float, float, int, float],
) -> None:
    """Beyond the last frequency |M(z)/M(theta)|^count / t^2 integrates to no more than the bound."""
    part, plan, _ = prepared(case)
    found = last_frequency([part], plan.theta, 1e-9)
    if found is None:
        pytest.skip("no such frequency")
    t, rest = found
    power = float(part.exponent(plan.theta))
    y = np.linspace(-14.0, max(power, 0.0) * part.mu + 14.0, 20_001)
    height = power * part.log_ratio(y) - 0.5 * y * y
    weights = np.exp(height - np.max(height))
    weights /= np.sum(weights)
    log_w = part.log_ratio(y)
    frequencies = t * np.geomspace(1.0, 50.0, 400)
    if np.max(np.abs(np.diff(log_w))[weights[1:] > 1e-18] * frequencies[-1]) > 1.0:
        frequencies = t * np.geomspace(1.0, 4.0, 200)
    sizes = np.array([abs(np.sum(weights * np.exp(1j * at * log_w))) for at in frequencies])
    integrand = sizes**part.count / frequencies**2
    seen = np.sum(0.5 * (integrand[1:] + integrand[:-1]) * np.diff(frequencies)) / np.pi
    assert seen <= rest * (1.0 + 1e-6) + 1e-14 / t


def test_real_moments_at_zero_and_one_are_one() -> None:
    for rate in (1e-8, 0.01, 0.7, 1.0 - 1e-10):
        for sigma in (0.1, 1.0, 100.0):
            part = SampledGaussian(rate, 1.0 / sigma, 1, 1.0)
            assert np.max(np.abs(log_moments(part, np.array([0.0, 1.0])))) < analytic._SUM_ERROR


def test_the_ratio_keeps_its_digits_everywhere() -> None:
    """log(1 - q + q e^a), also where q e^a is tiny beside one, and where q is nearly one."""
    rng = np.random.default_rng(41)
    rates = [1e-12, 1e-6, 0.1, 0.5, 0.9, 1.0 - 1e-6, 1.0 - 2.0**-40]
    a = np.concatenate(
        [rng.uniform(-60.0, 60.0, 60), rng.normal(size=20) * 1e-6, [1.0, -1.0, 600.0]]
    )
    with precision(BITS):
        for rate in rates:
            values = log_mixture(rate, a)
            for at, value in zip(a.tolist(), np.asarray(values).tolist(), strict=True):
                truth = (1 - arb(rate) + arb(rate) * arb(at).exp()).log()
                allowed = 16 * UNIT_ROUNDOFF * abs(truth)
                assert abs(truth - arb(value)) <= allowed, (rate, at, value)
