"""Known ways to be wrong, each as a question that somebody once got wrong.

The numbers are those of the list of pitfalls of the numerical method (they broke a prototype), then
the errors seen in other accountants. Where sharpdp's design has no such place, the situation that
exposed it is asked all the same.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from flint import arb

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.numerics.contour import Atoms
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition
from sharpdp.profile.contour_engine import ContourEvaluation
from sharpdp.profile.engine import Thresholds
from tests.numerics.test_contours import Plain, inside
from tests.reference import finite, gaussian, laplace, poisson, randomized
from tests.reference.balls import precision


def sampled(rate: float, sigma: float, direction: str) -> Pair:
    pair = PoissonSampledPair(GaussianPair(1.0 / sigma), rate)
    return pair if direction == "remove" else pair.reverse()


def check_poisson(
    rate: float, sigma: float, steps: int, direction: str, delta: float, width: float = 1e-6
) -> None:
    """The bracket of epsilon in one direction, judged by the reference's delta at both ends."""
    composition = Composition(((sampled(rate, sigma, direction), steps),))
    low, high = composition.epsilon(log(delta), width)
    known = ((rate, sigma, steps),)
    assert poisson.delta(known, direction, low, 12) >= arb(delta)
    assert poisson.delta(known, direction, high, 12) <= arb(delta)
    assert high - low <= 10.0 * width * high


def dpsgd(rate: float, sigma: float, steps: int) -> dp.DPSGD:
    return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=sigma)


class TestNumericalMethod:
    """Numbers as in the list; a star there means that it produced a wrong answer."""

    @pytest.mark.parametrize(
        ("rate", "sigma", "steps", "delta"),
        [
            (2.155616071285498e-05, 1.5369293236873705, 7527817, 9e-4),
            (1.5336782604614887e-06, 0.9727881808187613, 45371671, 2.3e-6),
        ],
    )
    def test_01_strip_of_the_quadrature_on_the_whole_line(
        self, rate: float, sigma: float, steps: int, delta: float
    ) -> None:
        """Rare, large ratios: on the shifted line the integrand grows beyond the real line's range."""
        check_poisson(rate, sigma, steps, "add", delta, 1e-8)

    def test_02_normalizations_are_covered_by_the_quadrature_at_strong_tilts(self) -> None:
        """In the add direction the tilt sits at s = -500 or so, while A(0) = A(1) = 1 is used."""
        check_poisson(1e-3, 5.0, 10_000, "add", 1e-60)
        check_poisson(0.02, 1.0, 2_000, "add", 1e-120)

    @pytest.mark.parametrize("scale", [1e-3, 1e-5])
    def test_03_moments_of_tiny_losses_keep_their_digits(self, scale: float) -> None:
        """log-sum-exp would lose count * 1e-16: here count times log M is about one."""
        pair = AtomicPair.pure(scale)
        atoms = Atoms(np.array(pair.losses), np.array(pair.log_p))
        count, theta = 1.0 / scale**2, 0.8
        with precision(300):
            e, s = arb(scale), arb(theta)
            truth = (((e * (s + 1)).exp() + (-e * s).exp()) / (1 + e.exp())).log() * count
            assert abs(truth - count * arb(atoms.log_moment(theta))) < 1e-12

    def test_03_a_hundred_million_steps_to_eight_digits(self) -> None:
        check_poisson(1e-4, 0.6, 10**8, "remove", 1e-6, 1e-8)

    def test_04_the_last_of_many_frequencies_is_as_good_as_the_first(self) -> None:
        """No recurrence in the frequency: every phase is taken directly."""
        rng = np.random.default_rng(4)
        weights = rng.random(50)
        atoms = Atoms(np.sort(rng.normal(size=50)), np.log(weights / weights.sum()))
        tilted = atoms.tilted(0.3)
        step, last = 0.01, 9_999
        many, claimed = tilted.psi_many(step, last + 1)
        direct, error = tilted.psi(np.array([step * last]))
        assert abs(many[last] - direct[0]) <= claimed[last] + error[0]
        assert claimed[last] < 1e-11

    @pytest.mark.parametrize("engine", ["lattice", "density"])
    def test_05_a_tilt_far_from_the_saddle_costs_width_never_truth(self, engine: str) -> None:
        """A contour made for one threshold answers at others, where images to the left dominate."""
        if engine == "lattice":
            steps, rounds = ((AtomicPair.pure(0.1), 400),), 400
            work = ContourEvaluation.enclose(steps, Thresholds.at(20.0), 1e-3)
            truths = {at: randomized.delta(0.1, rounds, at, 2, 20) for at in (0.0, 1.0, 9.0, 16.0)}
        else:
            steps = ((Plain(GaussianPair(0.05)), 400),)
            work = ContourEvaluation.enclose(steps, Thresholds.at(5.0), 1e-3)
            truths = {at: gaussian.delta(20.0, 400, at, 20) for at in (0.0, 0.5, 2.0, 4.0)}
        for at, truth in truths.items():
            low, high = work.log_delta(at, Side.LOWER), work.log_delta(at, Side.UPPER)
            assert inside(low, high, truth), (at, low, high)

    @pytest.mark.parametrize("delta", [0.3, 1e-10, 1e-250])
    def test_06_epsilons_beyond_the_range_of_exponentials(self, delta: float) -> None:
        """epsilon, and tilt times window, above 700: everything stays in logarithms."""
        for mechanism, truth in (
            (dp.PureDP(20.0) * 100, randomized.epsilon(20.0, 100, delta)),
            (dp.Laplace(0.05) * 60, None),
        ):
            bracket = dp.account(mechanism).epsilon(delta=delta)
            assert 700.0 < bracket.lower <= bracket.upper < 2001.0
            if truth is not None:
                assert arb(bracket.lower) <= truth
                # no epsilon is above the sum of all budgets, whatever the ball around it reaches
                assert truth <= arb(bracket.upper) or bracket.upper >= 100 * 20.0
        composition = Composition(((Plain(GaussianPair(2.0)), 500),))
        low, high = composition.epsilon(log(delta), 1e-4)
        truth = gaussian.epsilon(0.5, 500, delta)
        assert arb(low) <= truth <= arb(high)
        assert high - low < 1e-3 * high

    @pytest.mark.parametrize("rounds", [1, 2, 3])
    @pytest.mark.parametrize("local", [1e-3, 0.5, 8.0])
    def test_07_very_few_outcomes_and_frequencies(self, rounds: int, local: float) -> None:
        answer = dp.account(dp.RandomizedResponse(local_epsilon=local) * rounds)
        for share in (0.0, 0.3, 0.95):
            epsilon = share * local * rounds
            truth = randomized.delta(local, rounds, epsilon)
            bracket = answer.delta(epsilon=epsilon)
            assert arb(bracket.lower) <= truth <= arb(bracket.upper)
            assert bracket.relative_width < 2e-3

    def test_08_the_end_of_the_losses_next_to_zero_does_not_collapse_the_lower_side(self) -> None:
        """Added records lose at most -log(1 - q) = 1e-7 per step: right next to zero."""
        composition = Composition(((Plain(sampled(1e-7, 1.0, "add")), 1000),))
        low, high = composition.log_delta(2e-6, 1e-3)
        truth = poisson.delta(((1e-7, 1.0, 1000),), "add", 2e-6, 10)
        assert inside(low, high, truth)
        assert high - low < 0.01

    @pytest.mark.parametrize(
        ("mechanism", "truth"),
        [
            (dp.Laplace(3.0) * 30, laplace.epsilon(3.0, 30, 1e-6)),
            (dp.PureDP(0.37) * 61, randomized.epsilon(0.37, 61, 1e-6)),
        ],
    )
    def test_09_atoms_at_any_place_leave_the_lower_side_sharp(
        self, mechanism: dp.Mechanism, truth: arb
    ) -> None:
        bracket = dp.account(mechanism, relative_width=1e-4).epsilon(delta=1e-6)
        assert arb(bracket.lower) <= truth <= arb(bracket.upper)
        assert bracket.relative_width <= 1e-4

    def test_10_isolated_losses_very_close_together(self) -> None:
        """Two outcomes whose losses differ by 1e-9 beside a wide one: fine cells do no harm."""
        p = [0.2, 0.3, 0.5]
        q = [0.2 * (1 + 1e-9), 0.3, 0.5 - 0.2e-9]
        narrow = dp.FinitePair(p=p, q=q)
        both = dp.account(narrow * 3 + dp.Gaussian(2.0))
        alone = dp.account(dp.Gaussian(2.0))
        a, b = both.delta(epsilon=0.5), alone.delta(epsilon=0.5)
        assert a.lower <= b.upper * (1 + 1e-8)
        assert a.upper >= b.lower
        assert a.relative_width <= 2e-3

    @pytest.mark.parametrize("delta", [1e-5, 1e-6, 1e-7])
    def test_11_the_saddle_at_the_phase_transition(self, delta: float) -> None:
        """q = 1e-5, sigma = 0.4: the target is nearly vertical where big jumps take over."""
        bracket = dp.account(dpsgd(1e-5, 0.4, 10**5)).epsilon(delta=delta)
        assert bracket.relative_width <= 1e-3
        if delta == 1e-6:
            assert bracket.lower <= 2.9980458
            assert bracket.upper >= 2.9980388

    def test_12_beyond_the_transition_large_tilts_are_found(self) -> None:
        """The reference values of this case are brackets of a prototype at 1e-30."""
        bracket = dp.account(dpsgd(1e-5, 0.4, 10**5)).epsilon(delta=1e-30)
        assert bracket.lower <= 23.4819151533
        assert bracket.upper >= 23.4819148245
        assert bracket.relative_width <= 1e-2

    def test_13_the_worse_direction_may_change_with_the_count(self) -> None:
        """At e^epsilon = 3/2 one direction is worse up to three rounds, the other one at four."""
        p = [Fraction(3, 10), Fraction(2, 10), Fraction(5, 10)]
        q = [Fraction(2, 18), Fraction(8, 18), Fraction(8, 18)]
        mechanism = dp.FinitePair(p=[float(x) for x in p], q=[float(x) for x in q])
        worse = []
        for rounds in (1, 2, 3, 4):
            pairs = [(p, q)] * rounds
            forth = finite.delta(pairs, Fraction(3, 2))
            back = finite.delta(finite.reverse(pairs), Fraction(3, 2))
            worse.append("forth" if forth > back else "back")
            bracket = dp.account(mechanism * rounds).delta(epsilon=log(1.5))
            truth = float(max(forth, back))
            assert bracket.lower <= truth * (1 + 1e-12)
            assert bracket.upper >= truth * (1 - 1e-12)
        assert worse == ["back", "back", "back", "forth"]

    @pytest.mark.parametrize("rounds", [100, 3_000, 100_000])
    def test_14_delta_close_to_one(self, rounds: int) -> None:
        """1 - delta down to 1e-300 at epsilon = 0, where log delta carries nothing."""
        answer = dp.account(dp.RandomizedResponse(local_epsilon=0.4) * rounds)
        for epsilon in (0.0, 1e-6, 1.0):
            bracket = answer.delta(epsilon=epsilon)
            truth = randomized.delta(0.4, rounds, epsilon, 2, 25)
            assert arb(bracket.lower) <= truth
            assert truth.lower() <= bracket.upper <= 1.0
            assert bracket.relative_width <= 1e-3

    def test_14_tiny_epsilons(self) -> None:
        answer = dp.account(dpsgd(1e-3, 10.0, 100), relative_width=1e-5)
        bracket = answer.delta(epsilon=1e-6)
        truth = max(
            (poisson.delta(((1e-3, 10.0, 100),), way, 1e-6, 14) for way in ("remove", "add")),
            key=float,
        )
        assert arb(bracket.lower) <= truth <= arb(bracket.upper)
        assert bracket.relative_width <= 1e-4


class TestOtherAccountants:
    """Answers of released accountants that were wrong, asked again."""

    @pytest.mark.parametrize(("delta", "truth"), [(1e-12, 3.914298), (1e-20, 6.361700)])
    def test_small_deltas_are_neither_below_the_truth_nor_infinite(
        self, delta: float, truth: float
    ) -> None:
        bracket = dp.account(dpsgd(0.01, 1.0, 1000)).epsilon(delta=delta)
        assert bracket.lower - 5e-7 <= truth <= bracket.upper + 5e-7
        assert bracket.relative_width <= 1e-3

    def test_little_noise_is_inside_the_interval(self) -> None:
        """Case (h): sigma = 0.3, where an interval with error bars misses the truth."""
        bracket = dp.account(dpsgd(0.01, 0.3, 1000), relative_width=1e-5).epsilon(delta=1e-5)
        known = ((0.01, 0.3, 1000),)
        for end, sign in ((bracket.lower, 1), (bracket.upper, -1)):
            both = [poisson.delta(known, way, end, 12) for way in ("remove", "add")]
            assert sign * (max(both, key=float) - arb(1e-5)) >= 0
        assert bracket.relative_width <= 1e-4

    def test_repetitions_of_randomized_response_count(self) -> None:
        """Ten repetitions of ln 3: 10.99 in the limit, not 1.10."""
        ten = dp.RandomizedResponse(local_epsilon=log(3)) * 10
        bracket = dp.account(ten).epsilon(delta=1e-12)
        assert bracket.upper > 10.9
        truth = randomized.epsilon(log(3), 10, 1e-12)
        assert arb(bracket.lower) <= truth <= arb(bracket.upper)
        assert dp.account(ten).epsilon(delta=1e-300).upper >= 10.986

    def test_replace_one_is_the_same_by_either_way_of_counting(self) -> None:
        """Two gradients of length C in opposite directions: twice the sensitivity, once."""
        batches = dp.DeterministicBatches(dataset_size=100, batch_size=10, epochs=7)
        run = dp.DPSGD(batches, noise_multiplier=2.0)
        replaced = dp.account(run, adjacency="replace-one").epsilon(delta=1e-6)
        zeroed = dp.account(run, adjacency="zero-out").epsilon(delta=1e-6)
        double = dp.account(dp.Gaussian(1.0) * 7).epsilon(delta=1e-6)
        single = dp.account(dp.Gaussian(2.0) * 7).epsilon(delta=1e-6)
        assert replaced.lower <= double.upper
        assert double.lower <= replaced.upper
        assert zeroed.lower <= single.upper
        assert single.lower <= zeroed.upper
        assert zeroed.upper < replaced.lower

    def test_untilted_sums_stop_at_1e_16_and_tilted_ones_do_not(self) -> None:
        for delta in (1e-30, 1e-125, 1e-250):
            truth = randomized.epsilon(0.1, 1000, delta)
            bracket = dp.account(dp.PureDP(0.1) * 1000, relative_width=1e-5).epsilon(delta=delta)
            assert arb(bracket.lower) <= truth <= arb(bracket.upper)
            assert bracket.relative_width <= 1e-3

    def test_an_optimistic_side_that_is_of_use(self) -> None:
        """Rounding losses down costs O(h T) and gives zero; tangents stay within the width asked."""
        for rate, sigma, steps in ((1e-3, 0.8, 10_000), (1e-4, 0.6, 10**6)):
            bracket = dp.account(dpsgd(rate, sigma, steps)).epsilon(delta=1e-6)
            assert bracket.lower >= 0.999 * bracket.upper

    def test_lattice_free_laplace(self) -> None:
        assert LaplacePair(1.0).support == (-1.0, 1.0)
        bracket = dp.account(dp.Laplace(1.0)).delta(epsilon=0.5)
        assert bracket.lower <= 1 - exp(-0.25) <= bracket.upper
