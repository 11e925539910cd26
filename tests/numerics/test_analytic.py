"""Moments of sampled Gaussians by quadrature, and the bounds that their contours rest on, in balls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from flint import acb, arb

from sharpdp.numerics.contour import Contour
from sharpdp.numerics.special import UNIT_ROUNDOFF, log_mixture
from sharpdp.pairs.pair import GaussianPair, Pair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.engine import ContourPlan, Declined, Thresholds
from sharpdp.profile.sampled_gaussian import evaluation
from sharpdp.profile.sampled_gaussian.characteristic_bounds import last_frequencies, layers_of
from sharpdp.profile.sampled_gaussian.evaluation import SampledGaussianEvaluation
from sharpdp.profile.sampled_gaussian.moments import (
    LOG_MOMENT_ERROR,
    IntegrandGrid,
    log_lift,
    log_moments,
)
from sharpdp.profile.sampled_gaussian.quick_bounds import MomentBounds, log_delta_bounds
from sharpdp.profile.sampled_gaussian.steps import StepKind, StepRows
from sharpdp.profile.sampled_gaussian.trapezoid_tables import QuadratureTable, tables
from tests.reference.balls import precision

BITS = 200
RARE = 1e-3
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
    (0.01, 0.3, 1e3, 1, -11.5),
    (0.01, 0.3, 1e3, -1, -11.5),
    (0.005, 1.2, 128.0, 1, -13.8),
]


# steps of very different kinds, which share tables of one shape
MIXED = [(1e-3, 0.7, 900.0), (0.2, 6.0, 40.0), (0.01, 1.2, 50.0), (0.5, 30.0, 300.0)]


@dataclass(frozen=True)
class Exact:
    """A(s + it) by a trapezoid rule far finer than any that is used, in balls."""

    part: StepKind

    def terms(self, power: float, last: float) -> tuple[list[arb], list[arb]]:
        """Weights w^power phi and log w at the nodes."""
        part = self.part
        y = np.linspace(-70.0, max(power, 1.0) * part.mu + 70.0, 40_001)
        height = power * log_mixture(part.rate, part.mu * y - part.mu**2 / 2.0) - 0.5 * y * y
        kept = y[height > np.max(height) - NATS]
        step = min(0.12, 0.25 / part.mu, 0.5 / (part.mu * np.sqrt(1.0 + abs(power) + last)))
        if part.rate > RARE:  # else w hardly turns where there is mass
            step = min(step, 2.5 / (part.mu * (1.0 + last)))
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

    def power(self, theta: float) -> float:
        return theta + 1.0 if self.part.sign > 0 else -theta


def prepared(case: tuple[float, float, float, int, float]) -> tuple[StepKind, ContourPlan, Contour]:
    rate, sigma, count, sign, log_delta = case
    part = StepKind(rate, 1.0 / sigma, sign, count)
    try:
        plan, contour = evaluation.prepared([part], log_value=log_delta)
    except Declined:
        pytest.skip("the engine declines")
    return part, plan, contour


def tables_of(parts: list[StepKind], plan: ContourPlan, last: float) -> list[QuadratureTable]:
    (grid,), _, _ = evaluation.moments_at([StepRows.of(parts)], [plan])
    made = tables(grid, plan.theta, last, np.log(1e-11 / grid.rows.count))
    return [table for table in made if table is not None]


def check(part: StepKind, table: QuadratureTable, contour: Contour) -> None:
    """log M(theta), and psi as the contour uses it, against the exact moments."""
    t = contour.frequencies
    picks = sorted({0, 1, 2, t.size // 4, t.size // 2, t.size - 1})
    psi, rounding = table.psi(t)
    direct, direct_rounding = table.psi(t[picks])
    claimed = rounding + table.weight_error(t) + table.weight_error(np.zeros(1))
    exact = Exact(part)
    with precision(BITS):
        weights, logs = exact.terms(exact.power(table.theta), float(t[-1]))
        total = sum(weights, arb(0))
        off = abs(total.log() - arb(table.log_moment))
        assert off <= table.log_moment_error, (float(off), table.log_moment_error)
        for k in picks:
            turned = acb(0)
            for weight, log_w in zip(weights, logs, strict=True):
                angle = arb(float(t[k])) * (part.sign * log_w - arb(table.center))
                turned += weight * acb(0, angle).exp()
            truth = turned / total - 1
            off = abs(truth - acb(float(psi[k].real), float(psi[k].imag)))
            assert off <= claimed[k], (k, float(off), float(claimed[k]))
        both = rounding[picks] + direct_rounding
        assert np.all(np.abs(psi[picks] - direct) <= both)
    gridded, gridded_rounding = table.psi_many(float(t[1]), t.size)
    assert np.all(np.abs(gridded - psi) <= rounding + gridded_rounding)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_by_quadrature_are_within_their_claim(
    case: tuple[float, float, float, int, float],
) -> None:
    part, plan, contour = prepared(case)
    (table,) = tables_of([part], plan, float(contour.frequencies[-1]))
    check(part, table, contour)


@pytest.mark.parametrize("sign", [1, -1])
def test_moments_of_different_steps_in_one_table(sign: int) -> None:
    parts = [StepKind(rate, 1.0 / sigma, sign, count) for rate, sigma, count in MIXED]
    plan, contour = evaluation.prepared(parts, log_value=-11.5)
    made = tables_of(parts, plan, float(contour.frequencies[-1]))
    for part, table in zip(parts, made, strict=True):
        check(part, table, contour)


@pytest.mark.parametrize("spread", [1e-6, 1e-2, 1.0])
def test_products_of_short_tables_round_as_little_as_claimed(spread: float) -> None:
    """psi from products against the exact sum over the same doubles."""
    rng = np.random.default_rng(7)
    offsets = spread * rng.standard_normal(700)
    weights = rng.random(offsets.size)
    weights /= np.sum(weights)
    offsets -= np.sum(weights * offsets)
    size = float(np.sum(weights * np.abs(offsets)))
    table = QuadratureTable(1.0, 0.0, 0.0, offsets, weights, size, 0.0, 0.0, 0.0)
    step, count = 0.01 / spread, 1_000
    psi, error = table.psi_by_products(step, count)
    with precision(BITS):
        for k in (0, 1, 8, 15, 17, 31, 32, 33, 500, 991, 998, 999):
            turned = acb(0)
            for weight, offset in zip(weights.tolist(), offsets.tolist(), strict=True):
                turned += arb(weight) * (acb(0, arb(step * k) * arb(offset)).exp() - 1)
            off = abs(turned - acb(float(psi[k].real), float(psi[k].imag)))
            assert off <= error[k], (k, float(off), float(error[k]))
    assert np.max(error) < 1e-12


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_for_chernoff_bounds_are_never_too_small(
    case: tuple[float, float, float, int, float],
) -> None:
    part, _, contour = prepared(case)
    chernoff, exact = contour.chernoff, Exact(part)
    tilts = np.concatenate([chernoff.right_tilts, -chernoff.left_tilts])
    given = np.concatenate([chernoff.right_log_moments, chernoff.left_log_moments])
    with precision(BITS):
        for tilt, value in zip(tilts.tolist(), given.tolist(), strict=True):
            weights, _ = exact.terms(exact.power(tilt), 0.0)
            truth = part.repetitions * sum(weights, arb(0)).log()
            assert truth <= value + 1e-6 * (1.0 + abs(value)), (tilt, value, float(truth))


@pytest.mark.parametrize("case", CASES[:9], ids=str)
def test_characteristic_functions_fall_as_fast_as_claimed(
    case: tuple[float, float, float, int, float],
) -> None:
    """Beyond the last frequency |M(z)/M(theta)|^count / t^2 integrates to no more than the bound."""
    part, plan, _ = prepared(case)
    (grid,), _, _ = evaluation.moments_at([StepRows.of([part])], [plan])
    s = grid.rows.exponent(plan.theta)
    layers = [layers_of(grid, s, log_moments(grid, s)[0])]
    found = last_frequencies(layers, np.array([[1e-9]]), np.array([[1e6]]))
    t, rest = (float(column[0, 0]) for column in found)
    if np.isnan(t):
        pytest.skip("no such frequency")
    power = Exact(part).power(plan.theta)
    y = np.linspace(-14.0, max(power, 0.0) * part.mu + 14.0, 20_001)
    log_w = log_mixture(part.rate, part.mu * y - part.mu**2 / 2.0)
    height = power * log_w - 0.5 * y * y
    weights = np.exp(height - np.max(height))
    weights /= np.sum(weights)
    frequencies = t * np.geomspace(1.0, 50.0, 400)
    if np.max(np.abs(np.diff(log_w))[weights[1:] > 1e-18] * frequencies[-1]) > 1.0:
        frequencies = t * np.geomspace(1.0, 4.0, 200)
    sizes = np.array([abs(np.sum(weights * np.exp(1j * at * log_w))) for at in frequencies])
    integrand = sizes**part.repetitions / frequencies**2
    seen = np.sum(0.5 * (integrand[1:] + integrand[:-1]) * np.diff(frequencies)) / np.pi
    assert seen <= rest * (1.0 + 1e-6) + 1e-14 / t


@pytest.mark.parametrize("seed", range(4))
def test_quick_bounds_are_never_below_the_contour(seed: int) -> None:
    """Chernoff's bound, and that from the sizes of terms at any tilt, on random compositions."""
    rng = np.random.default_rng(seed)
    seen = 0
    while seen < 60:
        steps = tuple(_random_step(rng) for _ in range(rng.integers(1, 4)))
        if rng.random() < 0.6:
            steps = tuple((pair.reverse(), count) for pair, count in steps)
        log_delta = float(-(10 ** rng.uniform(0.0, 2.3)))
        away = np.sqrt(max(-2.0 * log_delta, 1.0))
        with np.errstate(all="ignore"):
            try:
                work = SampledGaussianEvaluation.enclose(steps, Thresholds.of(log_delta), 1e-3)
                (chernoff,) = MomentBounds.of([steps], away, away)
                k = work.saddle.threshold * rng.uniform(0.9, 1.1)
                tilt = chernoff.best_tilt(k) * np.exp(0.1 * rng.normal())
                bound = log_delta_bounds([steps], np.array([tilt]), np.array([k]))[0]
            except Declined:
                continue
            assert bound >= work.contour.log_call(k)[0], (steps, k)
            epsilon, _ = work.epsilon_ends(log_delta, 1e-14)
            assert chernoff.epsilons(np.array([log_delta]))[0] >= epsilon, (steps, log_delta)
        seen += 1


def _random_step(rng: np.random.Generator) -> tuple[Pair, int]:
    rate, mu = min(10 ** rng.uniform(-5.0, 0.0), 0.999), np.exp(rng.uniform(-4.0, 1.1))
    return PoissonSampledPair(GaussianPair(float(mu)), float(rate)), int(
        10 ** rng.uniform(1.6, 6.0)
    )


def test_real_moments_at_zero_and_one_are_one() -> None:
    parts = [
        StepKind(rate, 1.0 / sigma, 1, 1.0)
        for rate in (1e-8, 0.01, 0.7, 1.0 - 1e-10)
        for sigma in (0.1, 1.0, 100.0)
    ]
    rows = StepRows.of(parts)
    grid = IntegrandGrid.covering(rows, np.zeros_like(rows.mu), np.ones_like(rows.mu))
    s = np.tile([0.0, 1.0], (len(parts), 1))
    assert np.max(np.abs(log_moments(grid, s)[0])) < LOG_MOMENT_ERROR


def test_the_edge_of_a_strip_is_bounded_by_its_middle() -> None:
    """|w(y + ib)^s| <= w(y)^s e^{lift - b^2/2}, for exponents of both signs."""
    rng = np.random.default_rng(3)
    rows = StepRows.of([StepKind(q, m, 1, 1.0) for q in (0.01, 0.9) for m in (0.3, 2.0)])
    y = rng.uniform(-8.0, 8.0, (4, 500))
    for power in (-30.0, -1.5, 0.5, 20.0):
        for fraction in (0.1, 0.6, 0.95):
            strip = fraction * np.pi / rows.mu
            a = rows.mu * (y + 1j * strip) - 0.5 * rows.mu**2
            edge = power * np.log(np.abs(1.0 - rows.rate + rows.rate * np.exp(a)))
            s = np.full_like(rows.mu, power)
            bound = s * rows.log_ratio(y) + log_lift(rows, s, strip) - 0.5 * strip**2
            assert np.all(edge <= bound + 1e-9)


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
