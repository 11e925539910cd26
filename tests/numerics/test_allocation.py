"""Pairs of random allocation: brute quadrature, simulation, published brackets, and their own order."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest

from sharpdp.bounds.allocation.ratio_law import allocated
from sharpdp.bounds.allocation.sum_test import _Terms, sum_test_pair
from sharpdp.bracket import Side
from sharpdp.pairs.finite import AtomicPair, TabulatedPair
from sharpdp.pairs.pair import GaussianPair, Pair, epsilon_of, for_few_thresholds, log_delta_of
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition
from tests.reference.allocation import confidence, deltas, one_of_two, sampled_ratios


def bracket(
    noise: float, steps: int, epsilon: float, width: float = 2e-5
) -> list[tuple[float, float]]:
    """delta between the two sides, in both directions."""
    low, high = (allocated(noise, steps, 1, side, width) for side in Side)
    return [
        (
            float(np.exp(log_delta_of(below, epsilon)[0])),
            float(np.exp(log_delta_of(above, epsilon)[1])),
        )
        for below, above in ((low, high), (low.reverse(), high.reverse()))
    ]


def from_below(pair: Pair, epsilon: float) -> list[float]:
    return [float(np.exp(log_delta_of(one, epsilon)[0])) for one in (pair, pair.reverse())]


@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 0.0), (1.0, 4.2), (0.5, 3.0)])
def test_two_steps_in_thirty_digits(noise: float, epsilon: float) -> None:
    found, truth = bracket(noise, 2, epsilon), one_of_two(noise, epsilon)
    for (low, high), exact in zip(found, truth, strict=True):
        assert low <= exact <= high <= low * (1.0 + 2e-3)
    assert found[0][1] <= found[0][0] * (1.0 + 5e-4)


@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 0.0), (1.0, 4.2), (0.5, 3.0), (0.5, 12.0)])
def test_a_table_that_ends_early_in_thirty_digits(noise: float, epsilon: float) -> None:
    """Where few thresholds are asked, tables end a little below the delta that is asked for."""
    truth = one_of_two(noise, epsilon)
    low, high = (allocated(noise, 2, 1, side, 2e-5) for side in Side)
    for log_delta, largest in ((log(truth[0]), np.inf), (0.0, epsilon)):
        below, above = (for_few_thresholds(pair, log_delta, largest) for pair in (low, high))
        assert len(above.outcomes.losses) <= len(high.outcomes.losses)
        if truth[0] > 1e-8:
            assert len(above.outcomes.losses) < len(high.outcomes.losses)
        least, most = log_delta_of(below, epsilon)[0], log_delta_of(above, epsilon)[1]
        assert np.exp(least) <= truth[0] <= np.exp(most) <= np.exp(least) * (1.0 + 5e-4)
        # the other direction is smaller, and only bounded
        least = log_delta_of(below.reverse(), epsilon)[0]
        most = log_delta_of(above.reverse(), epsilon)[1]
        assert np.exp(least) <= truth[1] <= np.exp(most) < truth[1] * 1.002 + 1e-4 * truth[0]


def test_the_two_quadratures_agree() -> None:
    assert deltas(0.5, 2, 1, 3.0) == pytest.approx(one_of_two(0.5, 3.0), rel=1e-13)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
def test_three_steps(epsilon: float) -> None:
    reference = deltas(1.0, 3, 1, epsilon, count=48)  # converged to 2e-5
    for (low, high), truth in zip(bracket(1.0, 3, epsilon), reference, strict=True):
        assert low * (1.0 - 3e-5) <= truth <= high * (1.0 + 3e-5)
        assert high <= low * (1.0 + 1e-3)


@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 0.0), (1.0, 2.0), (1.0, 5.0), (3.0, 0.4)])
@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_two_of_three_steps_from_below(noise: float, epsilon: float, share: float) -> None:
    truth = deltas(noise, 3, 2, epsilon)
    found = from_below(sum_test_pair(noise, 3, 2, share * 2 / 3, np.inf), epsilon)
    for low, exact in zip(found, truth, strict=True):
        assert 0.1 * exact <= low <= exact * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("noise", "steps", "participations", "epsilon"),
    [(0.5, 50, 1, 2.0), (1.0, 20, 3, 0.5), (0.6, 12, 2, 2.0)],
)
def test_simulated_ratios(noise: float, steps: int, participations: int, epsilon: float) -> None:
    """False alarms: at most 1e-9 for each of the six intervals."""
    with_record, without = sampled_ratios(noise, steps, participations, 100_000, seed=steps)
    seen = [
        confidence(np.maximum(1.0 - np.exp(epsilon) / with_record, 0.0)),
        confidence(np.maximum(1.0 - np.exp(epsilon) * without, 0.0)),
    ]
    if participations == 1:
        for (low, high), (least, most) in zip(bracket(noise, steps, epsilon), seen, strict=True):
            assert least <= high
            assert low <= most
            assert high - low < 0.2 * (most - least)
        return
    rate = participations / steps
    found = from_below(sum_test_pair(noise, steps, participations, rate, 8.0), epsilon)
    for low, (_, most) in zip(found, seen, strict=True):
        assert low <= most
    assert found[0] > 0.8 * seen[0][0]


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta", "least", "most"),
    [
        (0.35, 1000, 1, 1e-6, 10.16866, 10.16939),
        (0.8, 1000, 1, 1e-6, 0.450005, 0.450093),
        (1.0, 10_000, 1, 1e-6, 0.045821, 0.045825),
        (0.4, 100_000, 1, 1e-6, 2.98940, 2.99028),
        (1.0, 1000, 10, 1e-6, 0.540039, 0.540074),
        (1.0, 1_000_000, 1000, 1e-8, 0.196108, 0.196139),
    ],
)
def test_known_brackets(
    noise: float, steps: int, epochs: int, delta: float, least: float, most: float
) -> None:
    """Brackets of another program, by laws in the convex order: ours overlap them, and are narrow."""
    low, high = (Composition(((allocated(noise, steps, epochs, side), epochs),)) for side in Side)
    found = low.epsilon(log(delta), 1e-4)[0], high.epsilon(log(delta), 1e-4)[1]
    assert found[0] <= most
    assert least <= found[1]
    assert found[1] - found[0] <= 1e-3 * found[1]


def test_a_known_delta() -> None:
    low, high = bracket(0.35, 1000, 10.0)[0]
    assert low <= 1.33166e-6
    assert high >= 1.33122e-6
    assert high <= low * 1.001


@pytest.mark.parametrize(("noise", "steps"), [(0.2, 2), (0.2, 1_000_000), (50.0, 1_000_000)])
@pytest.mark.parametrize("delta", [1e-3, 1e-15])
def test_extremes_are_ordered_and_close(noise: float, steps: int, delta: float) -> None:
    low, high = (allocated(noise, steps, 1, side) for side in Side)
    for below, above in ((low, high), (low.reverse(), high.reverse())):
        least, most = epsilon_of(below, log(delta))[0], epsilon_of(above, log(delta))[1]
        assert least <= most < 52.0  # epsilon of the Gaussian with noise 0.2, at 1e-15
        assert most <= max(epsilon_of(GaussianPair(1.0 / noise), log(delta))[1], 0.0)
    least, most = epsilon_of(low, log(delta))[0], epsilon_of(high, log(delta))[1]
    assert most - least <= 1e-3 * most


@pytest.mark.parametrize("side", list(Side))
def test_one_step_is_a_gaussian(side: Side) -> None:
    assert allocated(3.0, 1, 7, side) == GaussianPair(1 / 3.0)


def test_more_steps_are_more_private() -> None:
    """The mean of more independent ratios is below that of fewer, in the convex order."""
    for epsilon in (0.0, 0.3, 4.0):
        before, after = bracket(0.8, 100, epsilon), bracket(0.8, 1000, epsilon)
        assert all(x[1] >= y[0] for x, y in zip(before, after, strict=True))


def test_close_to_poisson_sampling() -> None:
    """One of T steps against each step with probability 1 / T: 2.9899 and 2.9980 in the literature."""
    poisson = Composition(((PoissonSampledPair(GaussianPair(1.25), 1e-3), 1000),))
    reference = poisson.epsilon(log(1e-6), 1e-6)
    low, high = (allocated(0.8, 1000, 1, side) for side in Side)
    assert 0.9 * reference[0] < epsilon_of(low, log(1e-6))[0]
    assert epsilon_of(high, log(1e-6))[1] < reference[0]


def test_masses_of_a_sum_are_exact_up_to_what_is_said() -> None:
    rng = np.random.default_rng(5)
    masses = [np.exp(-np.abs(rng.normal(0.0, 30.0, 9))) for _ in range(2)]
    laws = [
        _Terms(first, mass / mass.sum(), 0.0, 0.0)
        for first, mass in zip((-3, 2), masses, strict=True)
    ]
    found = laws[0].times(3).plus(laws[1])
    truth = {0: Fraction(1)}
    for law in (laws[0], laws[0], laws[0], laws[1]):
        step: dict[int, Fraction] = {}
        for place, mass in truth.items():
            for offset, share in enumerate(law.masses.tolist()):
                at = place + law.first + offset
                step[at] = step.get(at, Fraction(0)) + mass * Fraction(share)
        truth = step
    error, missing = Fraction(found.error), Fraction(0)
    for place, mass in truth.items():
        inside = 0 <= place - found.first < found.masses.size
        seen = Fraction(float(found.masses[place - found.first])) if inside else Fraction(0)
        assert seen <= mass * (1 + error)
        missing += max(mass * (1 - error) - seen, Fraction(0))
    assert missing <= Fraction(found.lost)
    assert found.lost < 1e-50


def test_the_record_may_be_obvious() -> None:
    """P and Q hardly overlap: few cells are left, and the answer is a valid small one."""
    pair = sum_test_pair(0.3, 1000, 600, 0.6, 8.0).outcomes
    assert np.exp(pair.log_p).sum() == pytest.approx(1.0, abs=1e-6)
    assert np.exp(pair.log_q).sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta"),
    [(0.85, 3000, 15, 1e-12), (0.5, 100_000, 10, 1e-6), (0.35, 10_000, 5, 1e-6)],
)
def test_few_large_losses_of_many_epochs(
    noise: float, steps: int, epochs: int, delta: float
) -> None:
    """Where one tilt does not suit all losses: the two sides still meet."""
    low, high = (Composition(((allocated(noise, steps, epochs, side), epochs),)) for side in Side)
    least, most = low.epsilon(log(delta), 4e-4)[0], high.epsilon(log(delta), 4e-4)[1]
    assert 0.0 < most - least < 1e-3 * most
    # no more than that of every step revealed, no less than that of one epoch
    assert epsilon_of(allocated(noise, steps, epochs, Side.LOWER), log(delta))[0] < most
    assert least < Composition(((GaussianPair(1 / noise), epochs),)).epsilon(log(delta), 1e-6)[1]


@pytest.mark.parametrize("seed", range(5))
def test_a_table_reads_like_its_outcomes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(40, 0.3)) + 1e-12
    q = rng.dirichlet(np.full(40, 0.3)) + 1e-12
    p[:2], q[-2:] = 0.0, 0.0
    outcomes = AtomicPair.from_pmfs(p, q)
    table = TabulatedPair(outcomes)
    ends = np.array(outcomes.losses)
    losses = np.sort(
        np.concatenate([ends, rng.normal(0.0, 4.0, 50), ends + 1e-9, [0.0, -60.0, 60.0]])
    )
    for read in ("log_hockey_stick", "log_tail_q", "log_tail_p"):
        found, expected = getattr(table, read)(losses), getattr(outcomes, read)(losses)
        assert np.array_equal(np.isneginf(found), np.isneginf(expected))
        seen = np.isfinite(expected)
        assert found[seen] == pytest.approx(expected[seen], abs=table.accuracy)
    assert (table.infinite_p, table.infinite_q) == (outcomes.infinite_p, outcomes.infinite_q)
