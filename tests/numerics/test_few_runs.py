"""Two and three runs of listed outcomes against sums over all outcomes in 60 digits."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair
from sharpdp.profile.composition import Composition
from sharpdp.profile.engine import Declined
from sharpdp.profile.few_runs import FewRuns


def exact_delta(pmfs: list[tuple[np.ndarray, np.ndarray]], epsilon: float) -> mpmath.mpf:
    """sum over all outcomes of (p - e^epsilon q)_+."""
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        scale = mpmath.e ** mpmath.mpf(epsilon)
        normed = [
            tuple([mpmath.mpf(float(x)) / math.fsum(masses) for x in masses] for masses in both)
            for both in pmfs
        ]
        for outcome in itertools.product(*(range(len(p)) for p, _ in normed)):
            p = mpmath.fprod(both[0][index] for both, index in zip(normed, outcome, strict=True))
            q = mpmath.fprod(both[1][index] for both, index in zip(normed, outcome, strict=True))
            total += max(p - scale * q, 0)
        return total


def random_pmfs(seed: int, size: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Masses whose ratios are e^spread apart; rare outcomes with large losses, some impossible."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(size, 0.3)) + 1e-9
    p = q * np.exp(spread * rng.standard_normal(size))
    if seed % 3 == 0:
        q[0] = 0.0
    if seed % 4 == 0:
        p[1] = 0.0
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("seed", range(12))
def test_ends_enclose_the_sum_over_all_outcomes(seed: int) -> None:
    spread = (0.01, 0.3, 2.0)[seed % 3]
    first, second = random_pmfs(seed, 7, spread), random_pmfs(seed + 100, 4, spread)
    pmfs = [[first, first], [first, second], [first, first, second]][seed // 4]
    steps = Composition(tuple((AtomicPair.from_pmfs(*both), 1) for both in pmfs)).merged_steps
    work = FewRuns.for_threshold(steps, -5.0, 1e-6)
    epsilons = np.array([0.0, 1e-3, 0.5 * spread, spread, 2.5 * spread])
    for epsilon, low, high in zip(epsilons, *work.log_deltas(epsilons), strict=True):
        truth = exact_delta(pmfs, float(epsilon))
        if truth < 1e-40:
            assert low == -math.inf
            continue
        assert low <= mpmath.log(truth) <= high
        assert high - low < 1e-9
        assert work.log_delta(float(epsilon), Side.LOWER) == low


def test_rare_large_losses_that_a_contour_does_not_resolve() -> None:
    # an outcome of mass 1e-7 with loss 12 beside many small ones, two runs: delta near 2e-7
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(40))
    p = q * np.exp(0.002 * rng.standard_normal(40))
    p, q = np.append(p * (1.0 - 1e-7) / p.sum(), 1e-7), np.append(q, 1e-7 * math.exp(-12.0))
    pair = AtomicPair.from_pmfs(p, q)
    low, high = Composition(((pair, 2),)).epsilon(math.log(1.9e-7), 1e-3)
    assert high - low < 1e-6 * high
    pmfs = [(p, q), (p, q)]
    assert exact_delta(pmfs, low) >= 1.9e-7 >= exact_delta(pmfs, high)


@pytest.mark.parametrize(
    "steps",
    [
        ((AtomicPair.pure(1.0), 4),),
        ((GaussianPair(1.0), 2),),
        ((AtomicPair.pure(1.0), 1), (GaussianPair(1.0), 1)),
        ((AtomicPair.pure(60.0), 2),),
    ],
)
def test_other_steps_are_left_to_other_engines(steps) -> None:
    with pytest.raises(Declined):
        FewRuns.for_threshold(steps, 0.5, 1e-3)
    with pytest.raises(Declined):
        FewRuns.for_value(steps, -10.0, 1e-3)


def test_a_step_that_reveals_everything_is_all_there_is() -> None:
    revealed = dp.FinitePair(p=[0.0, 1.0], q=[1.0, 0.0])
    for run in (revealed * 2, revealed + dp.Gaussian(1.0), revealed * 2 + dp.PureDP(epsilon=1.0)):
        for epsilon in (1.0, [0.0, 1.0, 2.0]):
            delta = dp.account(run).delta(epsilon=epsilon)
            assert np.all(np.asarray(delta.lower) > 0.999999)
            assert np.all(np.asarray(delta.upper) == 1.0)
