"""Compositions of rarely jumping steps: cells, the decomposition, and the sums, against other routes."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from math import comb, exp, log
from pathlib import Path

import numpy as np
import pytest
from flint import acb, arb

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition
from sharpdp.profile.engine import Declined, Steps, Thresholds
from sharpdp.profile.one_big_jump import jump_plans
from sharpdp.profile.one_big_jump.expansion import JumpExpansion
from sharpdp.profile.one_big_jump.far_tail import FarTail, find_far_tail
from sharpdp.profile.one_big_jump.jump_patterns import LossPartition, make_partition
from sharpdp.profile.one_big_jump.loss_cells import (
    SampledGaussianStep,
    core_atoms,
    grid,
    integrated_cells,
    jump_atoms,
    y_at_loss,
)
from tests.reference import lattice, poisson_direct
from tests.reference.balls import normal_upper, precision

BITS = 160
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "poisson.json"


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with np.errstate(all="ignore"):
        yield


def steps_of(rate: float, noise_multiplier: float, count: int) -> Steps:
    return ((PoissonSampledPair(GaussianPair(1.0 / noise_multiplier), rate), count),)


def sides(work: JumpExpansion, epsilon: float) -> tuple[float, float]:
    return work.log_delta(epsilon, Side.LOWER), work.log_delta(epsilon, Side.UPPER)


def exact_moment(step: SampledGaussianStep, power: float, low: float, high: float) -> arb:
    """E_Q[w^power; low < y < high] in balls."""
    q, mu, s = arb(step.rate), arb(step.mu), arb(power)

    def integrand(y: acb, analytic: bool) -> acb:
        log_w = (1 - q + q * (mu * y - mu * mu / 2).exp()).log(analytic=analytic)
        return (s * log_w - y * y / 2).exp()

    total = arb(0)
    for left, right in pairwise(np.linspace(low, high, int(4 * (high - low)) + 2).tolist()):
        total += acb.integral(integrand, acb(left), acb(right)).real
    return total / (2 * arb.pi()).sqrt()


class TestCells:
    STEPS = (
        SampledGaussianStep(1e-4, 1.0),
        SampledGaussianStep(8.9e-8, 1.081),
        SampledGaussianStep(1e-3, 5.0),
        SampledGaussianStep(0.1, 0.01),
    )

    @pytest.mark.parametrize("step", STEPS)
    @pytest.mark.parametrize(("low", "high"), [(2.0, 3.0), (6.0, 9.0), (30.0, 31.0)])
    def test_masses_of_a_stretch_are_as_accurate_as_claimed(
        self, step: SampledGaussianStep, low: float, high: float
    ) -> None:
        cells = integrated_cells(step, grid(step, low, high))
        with precision(BITS):
            q, mu = arb(step.rate), arb(step.mu)
            of_q = normal_upper(arb(low)) - normal_upper(arb(high))
            exact = (1 - q) * of_q + q * (normal_upper(low - mu) - normal_upper(high - mu))
            for side in Side:
                _, log_mass = jump_atoms(cells, side)
                error = abs(arb(log_mass) - exact.log())
                assert error < 2.0 * cells.accuracy + 1e-15 * abs(log_mass)

    @pytest.mark.parametrize("step", STEPS)
    @pytest.mark.parametrize("theta", [0.5, 3.0, 40.0])
    def test_moments_are_enclosed(self, step: SampledGaussianStep, theta: float) -> None:
        core, stretch = (
            integrated_cells(step, grid(step, a, 4.0 + b)) for a, b in ((-np.inf, 0), (4, 1))
        )
        with precision(BITS):
            of_core = exact_moment(step, 1.0 + theta, -20.0, 4.0).log()
            of_stretch = exact_moment(step, 1.0 + theta, 4.0, 5.0).log()
        slack = 1e-13 * (1.0 + theta)
        low, high = (core_atoms(core, side).log_moment(theta) for side in (Side.LOWER, Side.UPPER))
        assert low - slack * abs(low) <= of_core <= high + slack * abs(high)
        low, high = (
            atoms.log_moment(theta) + log_mass
            for atoms, log_mass in (jump_atoms(stretch, side) for side in (Side.LOWER, Side.UPPER))
        )
        assert low - slack * abs(low) <= of_stretch <= high + slack * abs(high)

    def test_finer_cells_are_closer(self) -> None:
        step = SampledGaussianStep(1e-3, 2.0)
        gaps = []
        for pieces in (1, 4):
            edges = np.linspace(2.0, 4.0, 16 * pieces + 1)
            cells = integrated_cells(step, edges)
            both = [sum_of(jump_atoms(cells, side), 5.0) for side in (Side.UPPER, Side.LOWER)]
            gaps.append(both[0] - both[1])
        assert 0.0 < gaps[1] < 0.08 * gaps[0]

    @pytest.mark.parametrize("loss", [1e-9, 1e-3, 1.0, 30.0])
    def test_places_have_their_losses(self, loss: float) -> None:
        step = SampledGaussianStep(3e-5, 1.7)
        assert float(step.log_ratio(np.array(y_at_loss(step, loss)))) == pytest.approx(
            loss, rel=1e-9
        )


def sum_of(table: tuple[object, float], theta: float) -> float:
    atoms, log_mass = table
    return atoms.log_moment(theta) + log_mass  # type: ignore[attr-defined]


class TestDecomposition:
    def test_draws_are_the_multinomial_theorem(self) -> None:
        step, count = SampledGaussianStep(1e-3, 1.0), 5
        partition = partition_of(step, count, epsilon=0.3)
        core = Fraction(3, 7)
        stretches = [Fraction(2, 5 + k) for k in range(len(partition.stretches[0]))]
        assert len(stretches) > 1
        total = Fraction(0)
        for jumps in range(count + 1):
            kinds = len(stretches) - 1
            assert (
                len(partition.patterns(jumps))
                == partition.pattern_count(jumps)
                == comb(jumps + kinds, jumps)
            )
            for pattern in partition.patterns(jumps):
                ways = round(exp(pattern.log_ways))
                value = Fraction(ways) * core ** (count - jumps)
                for (_, k), times in pattern.jumps:
                    value *= stretches[k] ** times
                total += value
        assert total == (core + sum(stretches)) ** count

    def test_no_draw_has_more_jumps_than_steps(self) -> None:
        partition = partition_of(SampledGaussianStep(1e-3, 1.0), 2, epsilon=0.3)
        assert partition.patterns(3) == []
        assert partition.moments_beyond(2).log_bound(0.3) == -np.inf

    @pytest.mark.parametrize("jumps", [0, 1, 2])
    def test_the_bound_beyond_covers_the_draws(self, jumps: int) -> None:
        partition = partition_of(SampledGaussianStep(1e-2, 1.0), 50, epsilon=0.5)
        beyond = partition.moments_beyond(jumps).logs
        for more in range(jumps + 1, jumps + 4):
            some = [partition.moments(pattern).logs for pattern in partition.patterns(more)]
            assert np.all(np.logaddexp.reduce(some) <= beyond + 1e-9 * np.abs(beyond))

    def test_closer_tilts_only_sharpen(self) -> None:
        partition = partition_of(SampledGaussianStep(2.8e-6, 0.84), 1_439_997, epsilon=13.7)
        for pattern in partition.patterns(1):
            coarse, fine = partition.moments(pattern), partition.zoomed(pattern, 13.7)
            assert fine.log_bound(13.7) <= coarse.log_bound(13.7)
            assert np.all(np.diff(fine.tilts) >= 0.0)
            # log of a generating function: convex in the tilt, up to the slack that is added
            kept = np.flatnonzero(np.diff(fine.tilts) > 0.0)
            tilts, logs = fine.tilts[kept], fine.logs[kept]
            slopes = np.diff(logs) / np.diff(tilts)
            assert np.all(np.diff(slopes) >= -1e-5 * np.abs(slopes[1:]) - 1e-3)

    def test_no_bound_beyond_the_largest_loss(self) -> None:
        partition = partition_of(SampledGaussianStep(1e-3, 1.0), 2, epsilon=0.3)
        (alone,) = partition.patterns(0)
        assert partition.moments(alone).largest < 0.3
        assert partition.moments(alone).log_bound(0.3) == -np.inf

    def test_the_core_ends_where_stretches_begin_and_they_where_far_does(self) -> None:
        steps = ((SampledGaussianStep(1e-3, 1.0), 40.0), (SampledGaussianStep(1e-4, 0.7), 90.0))
        far = find_far_tail(steps, 0.4, 1e-3)
        partition = make_partition(far, 0.4, 0.47)
        for core, stretches, end in zip(
            partition.core, partition.stretches, far.starts, strict=True
        ):
            cells = [core, *stretches]
            for one, two in pairwise(cells):
                assert one.edges[-1] == two.edges[0]
            assert np.isneginf(core.edges[0])
            assert cells[-1].edges[-1] == end


def partition_of(step: SampledGaussianStep, count: int, epsilon: float) -> LossPartition:
    far = find_far_tail(((step, float(count)),), epsilon, 1e-2)
    return make_partition(far, epsilon, 0.33)


class TestFar:
    @pytest.mark.parametrize(
        ("rate", "mu", "count", "y", "threshold"),
        [
            (1e-4, 1.0, 1000, 11.0, 0.2),
            (0.05, 2.0, 30, 4.0, 0.5),
            (8.9e-8, 1.081, 58479, 8.6, 4.6e-4),
            (1e-6, 0.7, 10**6, 34.0, 3.0),
            (0.1, 0.01, 7, 5.0, 1e-3),
            (1e-8, 10.0, 3, 20.0, 90.0),
        ],
    )
    def test_masses_in_balls(
        self, rate: float, mu: float, count: int, y: float, threshold: float
    ) -> None:
        step = SampledGaussianStep(rate, mu)
        loss = float(step.log_ratio(np.array(y)))
        no_remainder = np.array([2.0]), np.array([-np.inf])
        far = FarTail(((step, float(count)),), (y,), (loss,), *no_remainder)
        low, high = far.log_value(threshold)
        with precision(1200):
            q, m, place = arb(rate), arb(mu), arb(y)
            none_q = (1 - normal_upper(place)) ** count
            of_p = (1 - q) * normal_upper(place) + q * normal_upper(place - m)
            none_p = (1 - of_p) ** count
            value = (1 - none_p) - arb(threshold).exp() * (1 - none_q)
            truth = value.log()
        assert low <= truth <= high
        assert high - low < 1e-7

    def test_the_remainder_covers_what_the_difference_leaves_out(self) -> None:
        # two steps, far from y = 1 on, and a threshold above far's loss: the difference is negative
        step = SampledGaussianStep(0.15, 1.0)
        far = find_far_tail(((step, 2.0),), 0.2, 1e-2)
        near = FarTail(
            far.steps, (1.0,), (float(step.log_ratio(np.array(1.0))),), far.orders, far.log_moments
        )
        with precision(BITS):
            within = exact_moment(step, 1.0, -20.0, 1.0)
            p_far = 1 - within**2
        exact = float(poisson_direct.two_steps(0.15, 1.0, "remove", 0.2))
        assert exp(near.log_value(0.2)[1]) >= exact - float(within) ** 2
        assert near.log_probability >= float(p_far.log())


def golden_epsilon(
    rate: float, noise_multiplier: float, count: int, delta: float
) -> tuple[Fraction, Fraction]:
    """The enclosure of epsilon where the record is present under P."""
    part = {"sample_rate": rate, "noise_multiplier": noise_multiplier, "steps": count}
    for entry in json.loads(GOLDEN.read_text()):
        asked = entry["ask"] == {"quantity": "epsilon", "delta": delta}
        if asked and entry["mechanism"]["parts"] == [part]:
            found = entry["directions"]["remove"]
            value, radius = Fraction(found["value"]), Fraction(found["radius"])
            return value - radius, value + radius
    raise LookupError(f"no golden value for {part}")


class TestSums:
    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize(
        ("rate", "noise_multiplier", "epsilon"),
        [
            (1e-8, 0.5, 1e-4),
            (1e-8, 1.0, 1.0),
            (1e-3, 0.5, 10.0),
            (1e-3, 1.0, 0.1),
            (0.1, 0.5, 1.0),
            (0.1, 1.0, 10.0),
            (0.1, 0.1, 0.1),
        ],
    )
    def test_one_and_two_steps(
        self, rate: float, noise_multiplier: float, epsilon: float, count: int
    ) -> None:
        work = JumpExpansion.enclose(
            steps_of(rate, noise_multiplier, count), Thresholds.at(epsilon), 1e-4
        )
        low, high = sides(work, epsilon)
        reference = {1: poisson_direct.one_step, 2: poisson_direct.two_steps}[count]
        truth = reference(rate, noise_multiplier, "remove", epsilon).log()
        assert low <= truth <= high
        assert high - low <= 4e-4

    @pytest.mark.parametrize(
        ("rate", "count", "noise_multiplier", "epsilon", "cells", "highest"),
        [
            (5.313e-4, 26, 0.895, 0.013358, 100, 0.3),
            (1e-4, 10, 0.3, 3.3825, 300, 14.0),
            (1.564e-6, 37, 0.998, 9.413149e-4, 200, 0.006),
            (6e-8, 50, 0.48, 0.035245, 60, 1.0),
            (1e-3, 30, 0.6, 1.5, 300, 9.0),
            (2e-3, 45, 0.5, 6.0, 500, 25.0),
            (1e-2, 20, 1.2, 2.0, 800, 6.0),
        ],
    )
    def test_few_steps_on_a_lattice(
        self,
        rate: float,
        count: int,
        noise_multiplier: float,
        epsilon: float,
        cells: int,
        highest: float,
    ) -> None:
        work = JumpExpansion.enclose(
            steps_of(rate, noise_multiplier, count), Thresholds.at(epsilon), 1e-4
        )
        low, high = sides(work, epsilon)
        least, most = lattice.log_delta(rate, noise_multiplier, count, epsilon, cells, highest)
        assert low <= most + 1e-6
        assert high >= least - 1e-6
        assert high - low <= 4e-4
        assert most - least < 0.01

    @pytest.mark.parametrize(
        ("rate", "noise_multiplier", "count", "delta"),
        [
            (1e-5, 0.4, 100_000, 1e-6),
            (1e-5, 0.4, 100_000, 1e-30),
            (1e-4, 0.6, 100_000_000, 1e-6),
            (1e-3, 0.8, 10_000, 1e-30),
            (1e-3, 0.8, 10_000, 1e-100),
            (0.01, 1.0, 1000, 1e-300),
            (0.1, 1.0, 100, 1e-9),
        ],
    )
    def test_golden_values_of_many_steps(
        self, rate: float, noise_multiplier: float, count: int, delta: float
    ) -> None:
        least, most = golden_epsilon(rate, noise_multiplier, count, delta)
        work = JumpExpansion.enclose(
            steps_of(rate, noise_multiplier, count), Thresholds.of(log(delta)), 1e-4
        )
        rounding = 1e-15 * abs(log(delta))
        low = work.epsilon(log(delta) + rounding, Side.LOWER)
        high = work.epsilon(log(delta) - rounding, Side.UPPER)
        assert Fraction(low) <= most
        assert Fraction(high) >= least
        assert high - low <= 1e-3 * high

    @pytest.mark.parametrize(
        ("rate", "count", "noise_multiplier", "epsilon"),
        [
            (8.9e-8, 58479, 0.925, 4.6423e-4),
            (7.7e-8, 366995, 1.43, 4.9766),
            (0.0011, 928, 4.3, 0.37283),
            (4.718771187506568e-05, 822, 0.809190019859833, 1.55397),
            (1e-5, 100_000, 0.4, 23.48),
        ],
    )
    def test_other_cuts_give_the_same(
        self,
        rate: float,
        count: int,
        noise_multiplier: float,
        epsilon: float,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        brackets = []
        for core in (0.33, 0.47, 0.7):
            monkeypatch.setattr(jump_plans, "_CORES", (core,))
            work = JumpExpansion.enclose(
                steps_of(rate, noise_multiplier, count), Thresholds.at(epsilon), 1e-3
            )
            brackets.append(sides(work, epsilon))
        assert max(low for low, _ in brackets) <= min(high for _, high in brackets)
        assert all(high - low <= 4e-3 for low, high in brackets)

    def test_dropped_draws_stay_in_the_upper_side(self) -> None:
        steps, epsilon = steps_of(1.564e-6, 0.998, 37), 9.4e-4
        fine = JumpExpansion.enclose(steps, Thresholds.at(epsilon), 1e-5)
        coarse = JumpExpansion.enclose(steps, Thresholds.at(epsilon), 1e-1)
        assert len(coarse.terms) < len(fine.terms)
        assert coarse.log_delta(epsilon, Side.UPPER) >= fine.log_delta(epsilon, Side.LOWER)
        assert coarse.log_delta(epsilon, Side.LOWER) <= fine.log_delta(epsilon, Side.UPPER)

    def test_steps_that_do_not_jump_are_left_to_others(self) -> None:
        with pytest.raises(Declined):
            JumpExpansion.enclose(((GaussianPair(1.0), 5),), Thresholds.at(1.0), 1e-3)
        with pytest.raises(Declined):
            JumpExpansion.enclose(steps_of(0.9, 1.0, 5), Thresholds.at(1.0), 1e-3)
        with pytest.raises(Declined):
            JumpExpansion.enclose(steps_of(1e-3, 1.0, 5), Thresholds.at(0.0), 1e-3)
        reversed_step = ((steps_of(1e-3, 1.0, 5)[0][0].reverse(), 5),)
        with pytest.raises(Declined):
            JumpExpansion.enclose(reversed_step, Thresholds.at(1e-3), 1e-3)


class TestAnswers:
    @pytest.mark.parametrize(
        ("rate", "count", "noise_multiplier", "delta"),
        [
            (8.9e-8, 58479, 0.925, 6e-17),
            (6e-8, 50, 0.48, 3.7e-14),
            (7.7e-8, 366995, 1.43, 1.4e-203),
            (0.0011, 928, 4.3, 5.9e-147),
            (1.5e-6, 1192, 0.444, 2.8e-12),
            (6.1e-7, 4059, 0.437, 8e-10),
            (4.718771187506568e-05, 822, 0.809190019859833, 4.26e-20),
            (1.564e-6, 37, 0.998, 1.58e-14),
            (5.313e-4, 26, 0.895, 5.25e-5),
            (2.66e-7, 66298, 1.461, 8.2e-100),
            (1e-4, 10, 0.3, 1e-5),
            (3.359e-8, 3308803, 0.1817, 1.17e-258),  # e^epsilon overflows
            (5.0861e-5, 59, 1.0983, 1.2124e-18),  # closed moments lead astray
            (6.4982e-4, 356951, 1.98467, 2.8066e-259),  # the core must not jump itself
        ],
    )
    def test_one_big_jump_is_answered_sharply(
        self, rate: float, count: int, noise_multiplier: float, delta: float
    ) -> None:
        run = dp.DPSGD(
            dp.PoissonBatches(sample_rate=rate, steps=count), noise_multiplier=noise_multiplier
        )
        rough, fine = (
            dp.account(run, relative_width=width).epsilon(delta=delta) for width in (1e-3, 1e-5)
        )
        assert float(rough.relative_width) <= 1e-3
        assert float(fine.relative_width) <= 1e-5
        assert max(rough.lower, fine.lower) <= min(rough.upper, fine.upper)

    @pytest.mark.parametrize(
        ("rate", "count", "noise_multiplier", "delta"),
        [(2.84e-5, 10, 0.369, 1.7e-234), (0.0657, 4, 0.304, 1.4e-18), (0.011, 2, 0.312, 1e-6)],
    )
    def test_next_to_the_largest_loss(
        self, rate: float, count: int, noise_multiplier: float, delta: float
    ) -> None:
        pair = PoissonSampledPair(GaussianPair(1.0 / noise_multiplier), rate).reverse()
        added = Composition(((pair, count),))
        low, high = added.epsilon(log(delta), 1e-3)
        largest = -count * np.log1p(-rate)
        assert (1.0 - 1e-3) * high <= low <= high <= largest * (1.0 + 1e-14)
        if count == 2:
            at_low, at_high = (
                poisson_direct.two_steps(rate, noise_multiplier, "add", end) for end in (low, high)
            )
            assert at_low >= delta >= at_high

    def test_work_for_jumps_is_not_sharp_beyond_where_far_begins(self) -> None:
        work = JumpExpansion.enclose(steps_of(1e-4, 0.3, 10), Thresholds.at(2.3), 1e-3)
        low, high = work.log_deltas(np.array([2.3, 1.001 * work.far.loss]))
        assert high[0] - low[0] <= 1e-3
        assert high[1] - low[1] > 1e-3
        # some nats of room were left for neighbors
        assert (work.far.loss - 2.3) * work.saddle.theta > 0.5
        # else this trade-off point took half a minute and stayed wide
        run = dp.DPSGD(dp.PoissonBatches(sample_rate=1e-4, steps=10), noise_multiplier=0.3)
        fnr = dp.account(run).fnr(fpr=1e-6)
        assert fnr.upper - fnr.lower < 5e-6

    def test_zero_is_seen_quickly(self) -> None:
        # the total variation of the sum is far below the sum of total variations
        run = dp.DPSGD(dp.PoissonBatches(sample_rate=2.1e-7, steps=641_551), noise_multiplier=21.1)
        bracket = dp.account(run).epsilon(delta=2.07e-3)
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)

    def test_delta_next_to_one_after_many_repetitions(self) -> None:
        pair = dp.FinitePair(p=[0.627, 0.3142, 0.0588], q=[0.0252, 0.929, 0.0458])
        delta = dp.account(pair * 5_166_980).delta(epsilon=8_007_222.4)
        assert delta.lower > 1.0 - 1e-12
        parts = [
            dp.Laplace(65.88) * 59,
            dp.DPSGD(dp.PoissonBatches(sample_rate=0.00685, steps=734), noise_multiplier=0.3098),
            dp.Gaussian(0.188) * 15_023,
        ]
        delta = dp.account(dp.Sequence(parts)).delta(epsilon=190_000.0)
        assert delta.lower > 1.0 - 1e-12
