"""One record with two values: opposite gradients where they are the worst, else through a null record."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.bounds import bounds_for
from sharpdp.mechanisms.composed import Grouped
from sharpdp.pairs.chained import chained
from sharpdp.pairs.opposed import OpposedPair, opposed
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair

POISSON = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
BINS = dp.DPSGD(dp.BallsAndBins(dataset_size=1000, batch_size=100, epochs=2), noise_multiplier=1.5)
TWO_OF_SIX = dp.DPSGD(dp.RandomAllocation(steps=6, participations=2), noise_multiplier=2.0)
ORDERS = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=2), noise_multiplier=3.0
)
CUT = dp.DPSGD(
    dp.TruncatedPoissonBatches(
        dataset_size=1000, batch_size=100, steps=30, physical_batch_size=110
    ),
    noise_multiplier=3.0,
)
EVERY = [POISSON, BINS, TWO_OF_SIX, ORDERS, CUT]


def delta_of(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)))


def value(pair: OpposedPair, threshold: float) -> float:
    return float(np.exp(pair.log_hockey_stick(np.array([threshold]))[0]))


def test_poisson_has_the_value_of_a_peer() -> None:
    """2.8434458 is what dp-accounting gave for this run under REPLACE_ONE at an interval of 1e-4."""
    bracket = dp.account(POISSON, adjacency="replace-one", relative_width=1e-5).epsilon(delta=1e-5)
    assert bracket.lower <= 2.8434459
    assert bracket.upper >= 2.8434458 * (1 - 1e-4)
    assert bracket.upper <= 2.8434458 * (1 + 1e-4)


def test_poisson_agrees_with_dp_accounting() -> None:
    peer = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting.pld import PLDAccountant

    books = PLDAccountant(peer.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3)
    books.compose(peer.PoissonSampledDpEvent(0.05, peer.GaussianDpEvent(1.5)), 100)
    theirs = books.get_epsilon(1e-5)  # pessimistic
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.05, steps=100), noise_multiplier=1.5)
    ours = dp.account(run, adjacency="replace-one", relative_width=1e-4).epsilon(delta=1e-5)
    assert ours.lower <= theirs <= ours.upper * 1.005


def test_one_poisson_step_by_quadrature() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.3, steps=1), noise_multiplier=1.25)
    edges = np.linspace(-15.0, 15.0, 300_001)

    def law(mean: float) -> np.ndarray:
        return np.diff(0.7 * ndtr(edges / 1.25) + 0.3 * ndtr((edges - mean) / 1.25))

    answer = dp.account(run, adjacency="replace-one")
    for epsilon in (0.0, 0.3, 1.0):
        bracket = answer.delta(epsilon=epsilon)
        exact = delta_of(law(1.0), law(-1.0), epsilon)
        assert bracket.lower == pytest.approx(exact, rel=1e-6)
        assert bracket.upper == pytest.approx(exact, rel=1e-6)


def test_the_pair_is_as_accurate_as_it_says() -> None:
    rng = np.random.default_rng(3)
    for _ in range(15):
        pair = OpposedPair(float(np.exp(rng.uniform(-4, 1))), float(np.exp(rng.uniform(-8, -0.05))))
        losses = np.array(
            [0.0, *np.exp(rng.uniform(-8, 2.5, 4)), *-np.exp(rng.uniform(-8, 2.5, 2))]
        )
        got = [pair.log_hockey_stick(losses), pair.log_tail_q(losses), pair.log_tail_p(losses)]
        with mpmath.workdps(50):
            mu, rate = mpmath.mpf(pair.mu), mpmath.mpf(pair.rate)
            for index, loss in enumerate(losses):
                k, sign = mpmath.mpf(float(loss)), -1 if loss >= 0 else 1
                odds = (1 - rate) / rate * mpmath.exp(mu * mu / 2)
                z = (k / 2 + mpmath.asinh(odds * mpmath.sinh(k / 2))) / mu

                def tail(mean: mpmath.mpf, z: mpmath.mpf = z, sign: int = sign) -> mpmath.mpf:
                    return mpmath.erfc(-sign * (z - mean) / mpmath.sqrt(2)) / 2

                p, q = ((1 - rate) * tail(0) + rate * tail(mean) for mean in (mu, -mu))
                exact = (-sign * (p - mpmath.exp(k) * q), q, p)
                for values, truth in zip(got, exact, strict=True):
                    if truth > mpmath.exp(-800):
                        assert abs(float(values[index]) - float(mpmath.log(truth))) <= pair.accuracy


def test_the_tail_rate_is_a_lower_bound() -> None:
    pair = OpposedPair(0.5, 0.1)
    for loss in (0.5, 2.0, 6.0):
        farther = loss + np.linspace(0.0, 5.0, 50)
        falls = -np.diff(pair.log_hockey_stick(farther)) / np.diff(farther)
        assert pair.hints.tail_rate(loss) <= np.min(falls) * (1 + 1e-9)
    assert pair.hints.tail_rate(6.0) > 0.0


def test_the_chain_through_a_null_record_is_the_pair() -> None:
    for mu, rate in ((1.0, 0.01), (0.4, 0.3)):
        link = PoissonSampledPair(GaussianPair(mu), rate)
        chain, pair = chained([link, link.reverse()], 1e-6), OpposedPair(mu, rate)
        for threshold in (0.0, 0.05, 0.5, 2.0):
            exact = value(pair, threshold)
            assert exact * (1 - 1e-12) <= value(chain, threshold) <= exact * 1.001


def test_opposite_gradients_are_the_worst_in_the_plane() -> None:
    """Brute force: two gradients of length at most one in any directions, by quadrature."""
    rng = np.random.default_rng(8)
    axis = np.linspace(-9.0, 9.0, 721)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    cell = (axis[1] - axis[0]) ** 2
    reached = 0
    for trial in range(40):
        rate, mu = rng.uniform(0.05, 0.95), rng.uniform(0.2, 2.0)
        angles, lengths = rng.uniform(0.0, 2.0 * math.pi, 2), rng.uniform(0.3, 1.0, 2)
        if trial % 8 == 0:
            angles, lengths = np.array([0.0, math.pi]), np.ones(2)
        laws = []
        for angle, length in zip(angles, lengths, strict=True):
            a, b = mu * length * math.cos(angle), mu * length * math.sin(angle)
            kinds = ((1 - rate, 0.0, 0.0), (rate, a, b))
            laws.append(
                sum(w * np.exp(-0.5 * ((x - m) ** 2 + (y - n) ** 2)) for w, m, n in kinds)
                * (cell / (2.0 * math.pi))
            )
        for threshold in (0.0, 0.3, 1.0):
            limit = value(OpposedPair(float(mu), float(rate)), threshold)
            for p, q in (laws, laws[::-1]):
                assert delta_of(p, q, threshold) <= limit + 1e-4
                reached += abs(delta_of(p, q, threshold) - limit) < 1e-3 * limit
    assert reached >= 10


def test_two_bins_by_quadrature() -> None:
    """Balls-and-bins with two bins: what opposite gradients attain lies below the upper side."""
    noise = 1.5
    axis = np.linspace(-9.0, 9.0, 1201)
    density = {m: np.exp(-0.5 * ((axis - m) / noise) ** 2) for m in (-1.0, 0.0, 1.0)}
    density = {m: one / one.sum() for m, one in density.items()}

    def law(m: float) -> np.ndarray:
        return 0.5 * (np.outer(density[m], density[0.0]) + np.outer(density[0.0], density[m]))

    plan = dp.BallsAndBins(dataset_size=4, batch_size=2, epochs=1)
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=noise), adjacency="replace-one")
    for epsilon in (0.0, 0.3, 1.0):
        found, bracket = delta_of(law(1.0), law(-1.0), epsilon), answer.delta(epsilon=epsilon)
        assert bracket.lower <= found * 1.001
        assert found <= bracket.upper * 1.0001


@pytest.mark.parametrize("run", EVERY, ids=lambda run: run.label)
def test_a_replaced_record_is_between_one_and_two_that_are_zeroed_out(run: dp.DPSGD) -> None:
    one, two = (dp.account(run, group_size=size, adjacency="zero-out") for size in (1, 2))
    replaced = dp.account(run, adjacency="replace-one")
    assert replaced.adjacency is dp.Adjacency.REPLACE_ONE
    for delta in (1e-3, 1e-6):
        bracket = replaced.epsilon(delta=delta)
        assert bracket.lower <= bracket.upper
        assert one.epsilon(delta=delta).lower <= bracket.lower * (1 + 1e-3)
        assert bracket.lower <= two.epsilon(delta=delta).upper


def test_fallbacks_say_so_and_exact_pairs_do_not() -> None:
    names = {one.name for one in dp.account(BINS, adjacency="replace-one").bounds}
    assert {"through_null_record_upper", "random_allocation_upper", "opposed_sum_lower"} <= names
    assert {one.name for one in dp.account(POISSON, adjacency="replace-one").bounds} == {
        "poisson_replaced_tight"
    }


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_a_bound_is_converted_for_other_runs_even_if_it_outdoes_its_conversion(
    adjacency: str,
) -> None:
    """Groups and last iterates ask for bounds on another run; only a null record would ask again."""

    def converted(run: dp.Mechanism) -> list[str]:
        return [one.base.name for one in bounds_for(run, adjacency) if one.base is not None]

    scheme = dp.ShuffledBatches(dataset_size=100, batch_size=9, epochs=2, drop_last=True)
    run = dp.DPSGD(scheme, noise_multiplier=2.0)
    assert "vacant_seat_upper" not in converted(run)
    assert "vacant_seat_upper" in converted(Grouped(run, 2))
    assert "vacant_seat_upper" in converted(dp.LastIterate(scheme, noise_multiplier=2.0))


def test_replaced_groups_of_poisson_batches_have_close_sides() -> None:
    bracket = dp.account(POISSON, adjacency="replace-one", group_size=2).epsilon(delta=1e-5)
    assert 6.28 < bracket.lower <= bracket.upper < 6.30
    assert opposed(0.25, 1.0) == GaussianPair(0.5)


def test_a_survey_and_a_training_run_compose() -> None:
    survey = dp.ShuffledReports(users=10_000, local_epsilon=1.0)
    for run in (POISSON, BINS, ORDERS):
        both = dp.account(survey + run)
        assert both.adjacency is dp.Adjacency.REPLACE_ONE
        alone = dp.account(run, adjacency="replace-one")
        total, part = both.epsilon(delta=1e-5), alone.epsilon(delta=1e-5)
        assert part.lower <= total.upper
        assert part.upper <= total.upper * (1 + 2e-3)
        assert total.upper <= part.upper + dp.account(survey).epsilon(delta=1e-7).upper + 0.1
