"""Each rounding margin by itself: where the nearest double is on the wrong side, the bound is not.

Margins of one answer overlap, so that no answer shows which of them is needed. Here every quantity is
compared with itself in fifty digits, in balls or as a fraction, at inputs at which nothing but its own
margin makes up for its rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import acb, arb

from sharpdp.bracket import Side
from sharpdp.numerics import contour as contours
from sharpdp.numerics.contour import (
    Atoms,
    Contour,
    beyond_last,
    log_call_constant,
    log_power,
    log_strip_error,
)
from sharpdp.numerics.roots import certified_crossing
from sharpdp.numerics.special import (
    at_least_once,
    down,
    one_minus_ends,
    probability_ends,
    up,
)
from sharpdp.pairs.finite import AtomicPair, TabulatedPair, rational_pair
from sharpdp.pairs.pair import (
    GaussianPair,
    LaplacePair,
    beside_mass,
    log_delta_of,
)
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition, EpsilonQuestion
from sharpdp.profile.contour_engine import ContourEvaluation
from sharpdp.profile.discretize import Nodes, exact, first_look, upper
from sharpdp.profile.elementary_bounds import ChernoffUpper, LargestLossLower, RareLosses
from sharpdp.profile.enclosed import depths, heights
from sharpdp.profile.engine import Engine, Saddle, Thresholds
from sharpdp.profile.renyi import NodeMoments, divergences
from sharpdp.profile.sampled_gaussian.characteristic_bounds import _missing, layers_of
from sharpdp.profile.sampled_gaussian.moments import (
    IntegrandGrid,
    log_moments,
    moments_by_quadrature,
)
from sharpdp.profile.sampled_gaussian.quick_bounds import MomentBounds
from sharpdp.profile.sampled_gaussian.steps import StepKind, StepRows
from sharpdp.profile.sampled_gaussian.trapezoid_tables import tables
from tests.numerics.test_analytic import Exact
from tests.reference.balls import precision
from tests.reference.digits import DIGITS, mp

# --- elementary operations ---


def test_fractions_are_rounded_outwards() -> None:
    rng = np.random.default_rng(0)
    for over, under in rng.integers(1, 10**15, (200, 2)).tolist():
        value = Fraction(over, under)
        for one in (value, -value):
            assert Fraction(down(one)) <= one <= Fraction(up(one))
            assert up(one) <= math.nextafter(down(one), math.inf)


def test_ends_of_probabilities_are_rounded_outwards() -> None:
    logs = -np.random.default_rng(1).uniform(0.0, 40.0, 300)
    low, high = probability_ends(logs, logs)
    with mpmath.workdps(DIGITS):
        for log, below, above in zip(logs.tolist(), low.tolist(), high.tolist(), strict=True):
            assert mp(below) < mpmath.exp(mp(log)) < mp(above)


def test_ends_of_complements_are_rounded_outwards() -> None:
    values = 10.0 ** -np.random.default_rng(2).uniform(0.0, 20.0, 300)
    below, above = one_minus_ends(values, values)
    for value, low, high in zip(values.tolist(), below.tolist(), above.tolist(), strict=True):
        assert Fraction(low) <= 1 - Fraction(value) <= Fraction(high)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_crossing_is_on_the_side_that_is_asked_for(sign: float) -> None:
    """Next to the crossing the function is flat: excesses of 1e-9 are on the wrong side of it."""

    def excess(x: float) -> float:
        return -((x - 2.0) ** 3)

    found = certified_crossing(excess, 2.0 - 5e-4 * sign, 1.0, sign)
    assert sign * excess(found) <= 0.0


# --- masses at infinite loss ---

MASSES = (10.0 ** -np.random.default_rng(3).uniform(1.0, 12.0, 40)).tolist()


def log_any_of(mass: float, times: int) -> mpmath.mpf:
    """log(1 - (1 - mass)^times)."""
    return mpmath.log(-mpmath.expm1(times * mpmath.log1p(-mp(mass))))


def revealing(mass: float, loss: float = 1e-3) -> AtomicPair:
    return AtomicPair.approximate(loss, mass)


@pytest.mark.parametrize("times", [2, 7, 1000])
def test_a_mass_that_is_drawn_often_is_enclosed(times: int) -> None:
    for mass in MASSES:
        low, high = at_least_once([((mass, mass), times)])
        with mpmath.workdps(DIGITS):
            assert mp(low) <= mpmath.exp(log_any_of(mass, times)) <= mp(high)


def test_the_mass_of_a_contour_is_enclosed() -> None:
    """Thirteen deviations out finite losses add 1e-35 to delta, and what is left is the mass."""
    for mass in MASSES[:12]:
        work = ContourEvaluation.enclose(((revealing(mass), 1000),), Thresholds.at(0.4), 1e-2)
        low, high = (work.log_delta(0.4, side) for side in (Side.LOWER, Side.UPPER))
        with mpmath.workdps(DIGITS):
            truth = log_any_of(mass, 1000)
            assert mp(low) <= truth <= mp(high)
            assert mp(high) - mp(low) < 1e-9


def test_the_mass_of_a_chernoff_bound_is_not_below_the_truth() -> None:
    for mass in MASSES:
        bound = ChernoffUpper.of(((revealing(mass), 1000),))
        with mpmath.workdps(DIGITS):
            assert mp(bound.log_infinite) >= log_any_of(mass, 1000)


ENDS = (0.1, 0.3)


class PartlyRevealing(GaussianPair):
    """A pair whose mass at infinity is known to be between two numbers."""

    @property
    def infinite_p(self) -> float:
        return 0.2

    @property
    def infinite_p_ends(self) -> tuple[float, float]:
        return ENDS


def test_each_side_has_its_end_of_the_mass_at_infinity() -> None:
    listed = replace(revealing(0.2), infinite_ends=(ENDS, ENDS))
    found = [exact(listed, side).infinite_p for side in (Side.LOWER, Side.UPPER)]
    assert found == pytest.approx(ENDS)
    chords = upper(first_look(PartlyRevealing(1.0), -40.0))
    assert chords.infinite_p >= ENDS[1]


def test_between_the_ends_of_a_mass_nothing_is_certain() -> None:
    asked = (0.05, 0.2, 0.4)
    answers = [beside_mass(ENDS, math.log(delta), delta) for delta in asked]
    assert answers == [(True, False), (False, False), (False, True)]


def test_masses_of_rational_pairs_are_rounded_outwards() -> None:
    for under in range(3, 200, 2):
        part = Fraction(1, under)
        pair = rational_pair([part, 1 - part, Fraction(0)], [Fraction(0), 1 - part, part])
        for low, high in (pair.infinite_p_ends, pair.infinite_q_ends):
            assert Fraction(low) < part < Fraction(high)


# --- listed losses ---


def test_losses_of_rational_pairs_are_within_their_error() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        over = rng.integers(1, 10**6, 4).tolist()
        p = [Fraction(x, sum(over)) for x in over]
        pair = rational_pair(p, p[::-1])
        ratios = sorted({a / b for a, b in zip(p, p[::-1], strict=True)})
        with mpmath.workdps(DIGITS):
            errors = [
                abs(mp(loss) - mpmath.log(mp(ratio)))
                for loss, ratio in zip(pair.losses, ratios, strict=True)
            ]
            assert 0 < max(errors) <= mp(pair.loss_error)


def test_repeated_outcomes_are_within_their_errors() -> None:
    """Sums of 10,000 losses and logarithms of their binomial masses, against fifty digits."""
    times = 10_000
    one = AtomicPair.from_pmfs([0.3, 0.7], [0.6, 0.4])
    many = one.repeated(times)
    with mpmath.workdps(DIGITS):
        totals = [mp(0.3) + mp(0.7), mp(0.6) + mp(0.4)]
        logs = [
            [mpmath.log(mp(x) / total) for x in law]
            for law, total in zip(([0.3, 0.7], [0.6, 0.4]), totals, strict=True)
        ]
        wrong_losses, wrong_masses = [], []
        for index in range(0, times + 1, 97):
            counts = (times - index, index)  # the first outcome has the smaller loss
            log_p = mpmath.log(mpmath.binomial(times, index))
            log_p += sum(n * log for n, log in zip(counts, logs[0], strict=True))
            loss = sum(n * (a - b) for n, a, b in zip(counts, *logs, strict=True))
            wrong_losses.append(abs(mp(many.losses[index]) - loss))
            wrong_masses.append(abs(mp(many.log_p[index]) - log_p))
        assert max(wrong_losses) <= mp(many.loss_error)
        assert max(wrong_masses) <= mp(many.accuracy)
        # which those of one outcome would not cover
        assert max(wrong_losses) > mp(one.loss_error)
        assert max(wrong_masses) > mp(one.accuracy)


def test_rare_losses_enclose_what_two_steps_may_lose() -> None:
    """Coins that are hardly ever tossed: both sides against the sum over all outcomes."""
    rate, loss, times = 1e-4, 1.0, 300
    heads = 1.0 / (1.0 + math.exp(-loss))
    p = np.array([rate * heads, 1.0 - rate, rate * (1.0 - heads)])
    log_p = np.log(p)
    pair = AtomicPair((-loss, 0.0, loss), tuple(log_p[::-1].tolist()), tuple(log_p.tolist()))
    bounds = RareLosses.of(((pair, times),))
    assert bounds is not None
    with mpmath.workdps(DIGITS):
        a, none, b = (mp(x) for x in p.tolist())
        for epsilon in (0.5, 1.5):
            truth = mpmath.mpf(0)
            for up_, down_ in ((1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (4, 0)):
                gap = up_ - down_
                if gap <= epsilon:
                    continue
                ways = mpmath.binomial(times, up_) * mpmath.binomial(times - up_, down_)
                mass = ways * a**up_ * b**down_ * none ** (times - up_ - down_)
                truth += mass * -mpmath.expm1(mp(epsilon) - gap)
            low, high = bounds.log_delta(epsilon)
            assert mpmath.mpf(low) <= mpmath.log(truth) <= mp(high)


def test_the_largest_losses_all_at_once_are_not_overstated() -> None:
    loss, times = 0.5, 40
    pair = AtomicPair.pure(loss)
    bound = LargestLossLower.of(((pair, times),)).log_delta(0.99 * times * loss)
    with mpmath.workdps(DIGITS):
        heads = 1 / (1 + mpmath.exp(-mp(loss)))
        top = mp(times * loss)
        truth = heads**times * -mpmath.expm1(mp(0.99 * times * loss) - top)
        assert mp(bound) <= mpmath.log(truth)


def test_epsilon_is_zero_only_if_delta_at_zero_is_small_enough() -> None:
    """Coins of three kinds, more outcomes than are listed: delta(0) is the sum over all of them."""
    biases, times = (0.001, 0.002, 0.003), 30
    total = np.zeros(1)
    weights = np.zeros((2, 1))
    for bias in biases:  # log masses of so many heads, up to the same factor under both laws
        heads = np.arange(times + 1.0)
        ways = np.array(
            [
                math.lgamma(times + 1) - math.lgamma(h + 1) - math.lgamma(times - h + 1)
                for h in heads
            ]
        )
        fair = -times * math.log(2.0 * math.cosh(0.5 * bias))
        own = [ways + fair + sign * bias * (heads - 0.5 * times) for sign in (1.0, -1.0)]
        weights = np.stack([np.add.outer(weights[i], own[i]).ravel() for i in (0, 1)])
        total = np.add.outer(total, bias * (2.0 * heads - times)).ravel()
    p, q = np.exp(weights)
    assert p.size > 20_000
    at_zero = float(np.sum(np.maximum(p - q, 0.0)))
    run = Composition(tuple((AtomicPair.pure(bias), times) for bias in biases))
    for share, is_zero in ((0.97, False), (0.999, False), (1.01, True)):
        delta = share * at_zero
        low, high = run.epsilon(math.log(delta), 1e-3, delta)
        assert (high == 0.0) is is_zero
        if not is_zero:  # delta at the ends of epsilon is around the delta that was asked
            at_ends = [float(np.sum(np.maximum(p - math.exp(k) * q, 0.0))) for k in (low, high)]
            assert at_ends[0] * (1.0 + 1e-9) >= delta >= at_ends[1] * (1.0 - 1e-9)


# --- one pair ---


@pytest.mark.parametrize("mu", [300.0, 3000.0, 30_000.0])
def test_gaussians_with_hardly_any_noise_are_enclosed(mu: float) -> None:
    """Where k/mu - mu/2 cancels, values are off by far more than library functions are."""
    pair, worst = GaussianPair(mu), 0.0
    for away in (3.0, 20.0, 35.0):
        epsilon = mu * (0.5 * mu + away)
        epsilon += math.ulp(epsilon)
        low, high = log_delta_of(pair, epsilon)
        with precision(300):
            k, m = arb(epsilon), arb(mu)
            a = k / m - m / 2
            root = arb(2).sqrt()
            tail, other = ((x / root).erfc() / 2 for x in (a, a + m))
            truth = (tail - k.exp() * other).log()
            assert arb(low) <= truth <= arb(high), away
            value = arb(float(pair.log_hockey_stick(np.array([epsilon]))[0]))
            worst = max(worst, float(abs(value - truth)))
    assert worst > 4e-12 or mu < 30_000.0  # so that the smaller error of others would not do


MOMENTS = [(1.0 / 3.0, 1.1), (0.7, 2.3), (1.9, 7.7), (0.013, 31.1), (5.3, 1.01)]


def test_gaussian_moments_are_enclosed() -> None:
    for mu, order in MOMENTS:
        low, high = GaussianPair(mu).log_moment(order)
        exactly = Fraction(order) * (Fraction(order) - 1) * Fraction(mu) ** 2 / 2
        assert Fraction(low) < exactly < Fraction(high)


def laplace_moment(epsilon: float, order: float) -> mpmath.mpf:
    a, e = mp(order), mp(epsilon)
    total = a * mpmath.exp((a - 1) * e) + (a - 1) * mpmath.exp(-a * e)
    return mpmath.log(total / (2 * a - 1))


def test_laplace_moments_are_enclosed() -> None:
    with mpmath.workdps(DIGITS):
        for epsilon, order in MOMENTS:
            low, high = LaplacePair(epsilon).log_moment(order)
            assert mp(low) < laplace_moment(epsilon, order) < mp(high)


def test_laplace_losses_are_within_their_error() -> None:
    """The epsilon of a pair is one over the scale, rounded."""
    for scale in (0.3, 3.0, 7.0, 49.0):
        pair = LaplacePair(1.0 / scale)
        assert 0 < abs(Fraction(pair.epsilon) - 1 / Fraction(scale)) <= Fraction(pair.loss_error)


def test_divergences_of_many_parts_that_all_round_down_are_enclosed() -> None:
    """Of many Laplace pairs those whose moment is rounded down when it is added to the others."""
    order, total, chosen = 5.0, 0.0, []
    for epsilon in np.random.default_rng(5).uniform(1.0, 1.1, 2000).tolist():
        pair = LaplacePair(epsilon)
        more = pair.log_moment(order)[1]
        if not chosen or Fraction(total + more) < Fraction(total) + Fraction(more):
            total, chosen = total + more, [*chosen, pair]
    steps = tuple((pair, 1) for pair in chosen)
    low, high = divergences(Composition(steps), np.array([order]), 1e-3)
    with mpmath.workdps(DIGITS):
        truth = sum(laplace_moment(pair.epsilon, order) for pair in chosen) / (order - 1)
        assert mp(float(low[0])) <= truth <= mp(float(high[0]))
        assert mp(total / (order - 1.0)) < truth  # the sum itself is too small


@pytest.mark.parametrize("order", [1e13, 1e15])
def test_divergences_of_huge_orders_are_enclosed(order: float) -> None:
    """A loss of log 2 that has a probability of 1e-9: 20 / order short of it."""
    p = [2e-9, 1.0 - 3e-9, 1e-9]
    q = [1e-9, 1.0 - 3e-9, 2e-9]
    run = Composition(((AtomicPair.from_pmfs(p, q), 3),))
    low, high = (float(end[0]) for end in divergences(run, np.array([order]), 1e-3))
    with mpmath.workdps(DIGITS):
        a, totals = mp(order), (sum(map(mp, p)), sum(map(mp, q)))
        # all other outcomes are below all doubles beside the first
        largest = a * mpmath.log(mp(p[0]) / totals[0]) + (1 - a) * mpmath.log(mp(q[0]) / totals[1])
        assert mp(low) <= 3 * largest / (a - 1) <= mp(high)


def test_moments_beyond_the_last_node_count() -> None:
    """Losses of a Gaussian up to 1.5 only: the chords hold a part of the moment."""
    pair, s = GaussianPair(1.0), 1.0
    nodes = Nodes.at(pair, np.linspace(-1.5, 1.5, 61))
    low, high = NodeMoments(pair, nodes).ends(s)
    assert low <= 0.5 * s * (s + 1.0) <= high


def test_moments_of_chords_are_rounded_outwards() -> None:
    """Chords through all outcomes have just their moments: only rounding is left."""
    below = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        losses = np.sort(rng.normal(size=6)) * 0.3
        p = np.exp(losses / 2.0) * np.array([1.0, 3.0, 5.0, 4.0, 2.0, 1.0])
        q = np.exp(-losses / 2.0) * np.array([1.0, 3.0, 5.0, 4.0, 2.0, 1.0])
        pair = AtomicPair.from_pmfs(p, q)
        moments = NodeMoments(TabulatedPair(pair), Nodes.at(TabulatedPair(pair), _with_zero(pair)))
        s = float(rng.uniform(0.5, 4.0))
        low, high = moments.ends(s)
        with mpmath.workdps(DIGITS):
            totals = [sum(map(mp, law.tolist())) for law in (p, q)]
            truth = mpmath.log(
                sum(
                    mp(a) / totals[0] * (mp(a) / totals[0] / (mp(b) / totals[1])) ** mp(s)
                    for a, b in zip(p.tolist(), q.tolist(), strict=True)
                )
            )
            assert mp(low) <= truth <= mp(high)
            below += mp(moments.nodes.chords.atoms.log_moment(s)) < truth
    assert below > 5  # without the margin some would be too small


def _with_zero(pair: AtomicPair) -> np.ndarray:
    return np.unique(np.append(np.array(pair.losses), 0.0))


def test_values_of_sampled_pairs_are_within_their_accuracy() -> None:
    """Next to the left end, log(1 - rate), thresholds of the base have lost their digits."""
    rate, worst = 0.3, 0.0
    pair = PoissonSampledPair(GaussianPair(0.2), rate)
    for share in (1.0 - 10.0 ** -np.linspace(0.05, 8.0, 80)).tolist():
        threshold = share * pair.accurate_range[0]
        found = float(pair.log_hockey_stick(np.array([threshold]))[0])
        with mpmath.workdps(DIGITS):
            q, mu = mp(rate), mp(0.2)
            base = mpmath.log1p(mpmath.expm1(mp(threshold)) / q)
            a = -base / mu - mu / 2
            put = mpmath.exp(base) * mpmath.ncdf(-a) - mpmath.ncdf(-a - mu)
            worst = max(worst, float(abs(mpmath.log(q * put) - mp(found))))
    assert 4e-13 < worst <= 2.0 * pair.accuracy


# --- contours ---


def a_contour() -> Contour:
    pair = PoissonSampledPair(LaplacePair(1.0), 0.2)
    return ContourEvaluation.enclose(((pair, 50),), Thresholds.at(1.0), 1e-2).contours[Side.UPPER]


THRESHOLDS = np.array([0.5, 1.0, 1.5])


def encloses(wide: Contour, other: Contour) -> bool:
    """Whether the ends of one contour are around the values of another one, which has no errors."""
    low, high = wide.log_calls(THRESHOLDS)
    exactly = replace(
        other, errors=np.zeros_like(other.errors), log_scale_error=0.0, dropped=(0.0, 0.0)
    )
    value = np.mean(exactly.log_calls(THRESHOLDS), axis=0)
    return bool(np.all((low < value) & (value < high)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_scale_that_is_off_by_its_error_is_enclosed(sign: float) -> None:
    contour = replace(a_contour(), log_scale_error=0.5)
    moved = replace(contour, log_scale=contour.log_scale + sign * 0.49)
    assert encloses(contour, moved)


def test_values_that_are_off_by_their_errors_are_enclosed() -> None:
    contour = a_contour()
    sizes = 0.02 * np.abs(contour.values)
    phases = np.exp(1j * np.random.default_rng(6).uniform(0.0, 2.0 * np.pi, sizes.size))
    phases[0] = 1.0
    wide = replace(contour, errors=contour.errors + sizes)
    for sign in (0.99, -0.99):
        moved = replace(contour, values=contour.values + sign * sizes * phases)
        assert encloses(wide, moved)


def test_frequencies_that_are_trimmed_are_counted() -> None:
    contour = a_contour()
    short = contour.trimmed(negligible=0.003)
    assert 2 < short.frequencies.size < 0.5 * contour.frequencies.size
    low, high = short.log_calls(THRESHOLDS)
    full_low, full_high = contour.log_calls(THRESHOLDS)
    assert np.all((low <= full_low) & (full_high <= high))


@pytest.mark.parametrize(("damping", "last", "step"), [(0.3, 5.0, 0.1), (1.0, 2.0, 0.5)])
def test_frequencies_beyond_the_last_are_bounded(damping: float, last: float, step: float) -> None:
    t = last + step * np.arange(1.0, 2000.0)
    size = np.exp(-0.5 * (damping * t) ** 2) * step / np.pi
    more, more_density = beyond_last(damping, last, step)
    assert np.sum(size / t**2) <= more < 30.0 * np.sum(size / t**2)
    assert np.sum(size) <= more_density < 30.0 * np.sum(size)


@pytest.mark.parametrize("step", [1.0, 1.3, 2.0])
def test_the_trapezoid_rule_is_off_by_its_bound_for_gaussians(step: float) -> None:
    """Its sum over a normal density is 1 + 2 sum_m e^{-2 (pi m / step)^2}, the bound of one strip."""
    strip = 2.0 * math.pi / step
    bound = float(log_strip_error(strip, step, 0.5 * strip**2))
    with mpmath.workdps(DIGITS):
        h = mp(step)
        error = h * mpmath.nsum(lambda j: mpmath.npdf(j * h), [-mpmath.inf, mpmath.inf]) - 1
        assert mpmath.log(error) - 1e-12 <= mp(bound) <= mpmath.log(error) + 1e-3


def test_gridding_is_off_by_no_more_than_cut_off_gaussians_and_aliases() -> None:
    """The sum over the grid for one point, in fifty digits, so that nothing is rounded."""
    size, count = 256, 65
    growth, claimed = contours._gridding_error(size, count)
    worst = 0.0
    with mpmath.workdps(DIGITS):
        decay = mpmath.pi**2 / mp(contours._WIDTH)
        scale = mpmath.sqrt(mpmath.pi / mp(contours._WIDTH))
        for place in (0.0, 0.25, 0.5, 0.999):
            position = mp(place)
            angle = 2 * mpmath.pi * position / size
            for k in (0, 32, 64):
                turned = sum(
                    mpmath.exp(-decay * (position - shift) ** 2)
                    * mpmath.expj(2 * mpmath.pi * k * shift / size)
                    for shift in contours._SHIFTS.tolist()
                )
                grown = mpmath.exp(mp(contours._WIDTH) * k * k / mp(size) ** 2)
                off = abs(turned * grown * scale - mpmath.expj(k * angle))
                assert off <= mp(float(claimed[k])), (place, k)
                worst = max(worst, float(off / mp(float(claimed[k]))))
        assert grown == pytest.approx(float(growth[64]), rel=1e-12)
    assert worst > 0.1


def test_powers_are_off_by_as_much_as_their_factors() -> None:
    psi = np.array([-0.1 + 0.2j, -0.5 - 0.3j, 1e-3j])
    error, count = np.full(3, 1e-4), 1000.0
    log_value, log_error, log_bound = log_power(psi, error, count)
    for turn in np.exp(1j * np.linspace(0.0, 2.0 * np.pi, 16)):
        moved = psi + 0.999 * error * turn
        assert np.all(np.abs(count * np.log(1.0 + moved) - log_value) <= log_error)
        assert np.all(count * np.log(np.minimum(np.abs(1.0 + moved), 1.0)) <= log_bound)


def some_atoms(**noise: object) -> Atoms:
    points = np.array([-1.0, 0.2, 1.5])
    return Atoms(points, np.log([0.2, 0.5, 0.3]), **noise)  # type: ignore[arg-type]


def moved_transform(weights: np.ndarray, points: np.ndarray, z: complex, scale: float) -> complex:
    return complex(np.sum(weights * np.exp(z * points))) / scale


@pytest.mark.parametrize("t", [0.0, 1.0, 7.0])
def test_noise_of_slopes_and_points_moves_moments_by_no_more_than_claimed(t: float) -> None:
    theta, size = 0.7, 1e-4
    plain = some_atoms()
    z, scale = theta + 1j * t, math.exp(plain.log_moment(theta))
    weights = np.exp(plain.log_weights)
    before = moved_transform(weights, plain.points, z, scale)
    noisy = some_atoms(noise_points=plain.points, log_noise=np.log(np.full(3, size)))
    shifted = some_atoms(point_error=size)
    for signs in ((1, 1, 1), (1, -1, 1), (-1, 1, 1), (-1, -1, 1)):
        moves = size * np.array(signs)
        off = abs(moved_transform(weights + moves, plain.points, z, scale) - before)
        assert off <= float(noisy.tilted(theta).weight_error(np.array([t]))[0])
        off = abs(moved_transform(weights, plain.points + moves, z, scale) - before)
        assert off <= float(shifted.tilted(theta).weight_error(np.array([t]))[0]) * (1.0 + size)


@pytest.mark.parametrize("s", [0.1, 1.0, 20.0])
def test_the_constant_of_chernoff_is_the_largest_value(s: float) -> None:
    x = np.linspace(1e-4, 20.0 / min(s, 1.0), 200_001)
    largest = float(np.max(np.log(-np.expm1(-x)) - s * x))
    constant = float(log_call_constant(np.array(s)))
    assert largest <= constant + 1e-12
    assert constant == pytest.approx(largest, abs=1e-6)


@dataclass(frozen=True)
class Straight(Engine):
    """log delta = -epsilon, without any error: what is left is the rounding of log delta."""

    @classmethod
    def enclose(cls, *arguments: object) -> Straight:  # type: ignore[override]
        raise NotImplementedError

    @property
    def size(self) -> int:
        return 1

    def log_delta(self, epsilon: float, side: Side) -> float:
        return -epsilon

    def epsilon(self, log_delta: float, side: Side) -> float:
        return -log_delta


def test_epsilon_is_that_of_delta_and_not_of_its_rounded_logarithm() -> None:
    work = Straight(Saddle(1.0, 1.0, -1.0), 1e-9, exhausted=True)
    for delta in MASSES:
        low, high = EpsilonQuestion(float(np.log(delta)), 1e-3).bracket(work)
        with mpmath.workdps(DIGITS):
            assert mp(low) < -mpmath.log(mp(delta)) < mp(high)


# --- moments of sampled Gaussians ---


@pytest.mark.parametrize(("rate", "mu"), [(0.01, 1.0), (0.3, 0.4), (1e-4, 2.0)])
def test_moments_by_quadrature_are_enclosed(rate: float, mu: float) -> None:
    """At whole orders the moment is a sum over how often the record is drawn."""
    orders = np.array([2.0, 3.0, 5.0, 8.0, 13.0, 21.0])
    rows = StepRows.of([StepKind(rate, mu, 1, 1.0)])
    low, high = (end[0] for end in moments_by_quadrature(rows, (orders - 1.0)[None]))
    with mpmath.workdps(DIGITS):
        q, square = mp(rate), mp(mu) ** 2
        for order, below, above in zip(orders.tolist(), low.tolist(), high.tolist(), strict=True):
            n = int(order)
            truth = mpmath.log(
                sum(
                    mpmath.binomial(n, k)
                    * (1 - q) ** (n - k)
                    * q**k
                    * mpmath.exp(k * (k - 1) * square / 2)
                    for k in range(n + 1)
                )
            )
            assert mp(below) < truth < mp(above)


def test_quick_bounds_have_the_upper_ends_of_moments() -> None:
    """The lead of each tilt, log of c(s) M(s)^n, is not below that of whole orders."""
    steps = ((PoissonSampledPair(GaussianPair(1.0), 0.01), 100_000),)
    (bounds,) = MomentBounds.of([steps], 2.0, 6.0)
    rows = StepRows.of([StepKind(0.01, 1.0, 1, 1e5)])
    low, high = moments_by_quadrature(rows, bounds.tilts[None])
    least = log_call_constant(bounds.tilts) + 1e5 * 0.5 * (low + high)[0]
    assert np.all(bounds.leads >= least + 0.4e5 * (high - low)[0])


@pytest.mark.parametrize(("rate", "mu", "s"), [(0.1, 1.0, 3.0), (0.5, 2.0, -1.0)])
@pytest.mark.parametrize("nats", [2.0, 5.0, 9.0])
def test_what_is_outside_of_a_range_is_bounded(
    rate: float, mu: float, s: float, nats: float
) -> None:
    rows = StepRows.of([StepKind(rate, mu, 1, 1.0)])
    one = np.array([[s]])
    grid = IntegrandGrid.covering(rows, np.minimum(one, 0.0), np.maximum(one, 1.0))
    low, high = grid.range(one, one, nats)
    y = np.linspace(-40.0, 40.0 + abs(s) * mu, 400_001)
    height = s * rows.log_ratio(y[None])[0] - 0.5 * y * y
    mass = np.exp(height - height.max())
    outside = float(mass[(y < low[0, 0]) | (y > high[0, 0])].sum() / mass.sum())
    assert 0.0 < outside <= float(grid.left_out(one, one, nats)[0, 0])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("aim", [1e-2, 1e-4])
def test_coarse_tables_are_off_by_no_more_than_they_say(sign: int, aim: float) -> None:
    """With so few nodes the error of the trapezoid rule is far above that of rounding."""
    part, theta, last = StepKind(0.2, 1.0, sign, 1.0), 3.0, 12.0
    s = Exact(part).power(theta)
    one = np.array([[s]])
    grid = IntegrandGrid.covering(StepRows.of([part]), np.minimum(one, 0.0), np.maximum(one, 1.0))
    (table,) = tables(grid, theta, last, np.full((1, 1), math.log(aim)))
    assert table is not None
    t, worst = np.linspace(0.0, last, 7), 0.0
    psi, rounding = table.psi(t)
    claimed = rounding + table.weight_error(t) + table.weight_error(np.zeros(1))
    with precision(200):
        weights, logs = Exact(part).terms(s, last)
        total = sum(weights, arb(0))
        for index in range(t.size):
            turned = acb(0)
            for weight, log_w in zip(weights, logs, strict=True):
                angle = arb(float(t[index])) * (part.sign * log_w - arb(table.center))
                turned += weight * acb(0, angle).exp()
            off = abs(turned / total - 1 - acb(complex(psi[index])))
            assert off <= claimed[index]
            worst = max(worst, float(off))
    assert worst > 1e-13


@pytest.mark.parametrize(("rate", "mu", "s"), [(0.1, 1.0, 3.0), (0.01, 0.5, 8.0), (0.5, 2.0, 1.0)])
def test_layers_lie_below_the_law_of_the_loss(rate: float, mu: float, s: float) -> None:
    """Their heights are below the largest density, the variance that they prove below the true one."""
    rows, one = StepRows.of([StepKind(rate, mu, 1, 1.0)]), np.array([[s]])
    grid = IntegrandGrid.covering(rows, np.minimum(one, 0.0), np.maximum(one, 1.0))
    layers = layers_of(grid, one, log_moments(grid, one)[0])
    y = np.linspace(-40.0, 40.0 + s * mu, 400_001)
    log_w = rows.log_ratio(y[None])[0]
    height = s * log_w - 0.5 * y * y
    mass = np.exp(height - height.max())
    mass /= mass.sum()
    masses, lengths = layers.masses[0], layers.lengths[0]
    assert np.all(masses >= 0.0)
    assert 0.3 < masses.sum() < 1.0
    variance = float(mass @ log_w**2 - (mass @ log_w) ** 2)
    assert float(masses @ lengths**2) / 12.0 < variance
    some = mass > 1e-9
    density = mass[some] / np.gradient(log_w, y)[some] / (y[1] - y[0])
    assert float((masses / lengths).sum()) <= float(np.max(density))


def test_what_layers_take_away_is_no_more_than_sinc() -> None:
    y = np.linspace(1e-3, 60.0, 60_001)
    largest = np.maximum.accumulate(np.abs(np.sinc(y / np.pi))[::-1])[::-1]
    assert np.all(_missing(y) <= 1.0 - largest + 1e-12)


# --- error rates ---


def test_lines_and_points_of_error_rates_are_rounded_outwards() -> None:
    """1 - H_x and H_x, delta being known without error, on both sides of x = 1."""
    epsilons = np.concatenate([np.linspace(-3.0, -0.05, 20), np.linspace(0.05, 2.0, 20)])
    logs = -np.random.default_rng(10).uniform(0.5, 6.0, epsilons.size)
    missed = depths(epsilons, logs, logs)
    hit = heights(epsilons, logs, logs)
    with mpmath.workdps(DIGITS):
        for index, epsilon in enumerate(epsilons.tolist()):
            x, delta = mpmath.exp(mp(epsilon)), mpmath.exp(mp(float(logs[index])))
            stick = delta if epsilon > 0.0 else 1 - x + x * delta
            truths = (1 - stick, stick)
            for (low, high), truth in zip((missed, hit), truths, strict=True):
                assert mp(float(low[index])) < truth < mp(float(high[index]))


def test_a_rate_below_all_others_hits_no_more_than_is_said() -> None:
    """At a false-positive rate of 1e-305 a Gaussian at distance 10 is hit with probability 1e-165."""
    run = Composition(((GaussianPair(10.0), 1),))
    low, high = (float(end[0]) for end in run.true_positive_rates(np.array([1e-305]), 1e-3))
    with mpmath.workdps(400):
        place = mpmath.findroot(
            lambda z: mpmath.log(mpmath.ncdf(-z)) - mpmath.log(mpmath.mpf("1e-305")), 37.3
        )
        assert mp(low) <= mpmath.ncdf(10 - place) <= mp(high)


def test_epsilon_is_infinite_where_a_mass_at_infinity_may_be_above_delta() -> None:
    """delta is between the two ends of the mass: no finite epsilon is certain."""
    listed = replace(revealing(0.2, 0.5), infinite_ends=(ENDS, ENDS))
    run = Composition(((listed, 1), (LaplacePair(0.1), 1)))
    assert run.single_pair is None
    assert run.epsilon(math.log(0.2), 1e-3, 0.2)[1] == math.inf
    assert run.epsilon(math.log(0.4), 1e-3, 0.4)[1] < math.inf


def test_the_other_direction_has_the_other_mass_at_infinity() -> None:
    """A record that is sampled may be revealed where it is, never where it is not."""
    pair = PoissonSampledPair(revealing(0.2, 0.5), 0.5)
    assert log_delta_of(pair, 5.0)[0] == pytest.approx(math.log(0.1), abs=1e-9)
    assert log_delta_of(pair.reverse(), 5.0)[1] == -math.inf


def test_masses_that_do_not_add_up_to_one_are_enclosed_either_way() -> None:
    """As given, or divided by their sum."""
    for seed in range(20):
        p = np.random.default_rng(seed).dirichlet(np.ones(6))
        pair = AtomicPair.from_pmfs(p, np.append(p[:4] / p[:4].sum(), [0.0, 0.0]))
        exactly = [Fraction(mass) for mass in p.tolist()]
        some = sum(exactly[4:])
        for truth in (some, some / sum(exactly)):
            low, high = pair.infinite_p_ends
            assert Fraction(low) <= truth <= Fraction(high)
