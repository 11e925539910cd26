"""Runs with hardly any noise, and masses at infinite loss: quick, and sharp on both sides.

With little noise a record that takes part is seen: delta is the probability that it takes part, up to
far less than rounding, for every epsilon well below the loss of one participation.
"""

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition
from sharpdp.profile.discretize import first_look, lower, upper
from sharpdp.profile.engine import Thresholds
from sharpdp.profile.one_big_jump.expansion import JumpExpansion
from sharpdp.profile.planning import estimate


def _run(rate: float, steps: int, noise: float) -> dp.DPSGD:
    return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=noise)


@pytest.mark.parametrize("noise", [0.02, 0.012, 0.003])
@pytest.mark.parametrize("share", [0.3, 1.3])
def test_little_noise_reveals_who_took_part(noise: float, share: float) -> None:
    rate, one = 0.3, 0.5 / noise**2  # the loss of one participation is about this
    delta = dp.account(_run(rate, 2, noise)).delta(epsilon=share * one)
    expected = 1.0 - (1.0 - rate) ** 2 if share < 1.0 else rate**2
    assert delta.lower <= expected * (1.0 + 1e-9)
    assert delta.upper >= expected * (1.0 - 1e-9)
    assert delta.upper - delta.lower <= 2e-3 * delta.upper


@pytest.mark.parametrize(
    ("rate", "steps", "noise"),
    [(3.3031129020009306e-05, 19781, 0.014070977714475935), (1e-3, 10**6, 1e-3)],
)
def test_little_noise_at_epsilon_zero_and_one(rate: float, steps: int, noise: float) -> None:
    expected = -np.expm1(steps * np.log1p(-rate))
    for epsilon in (0.0, 1.0):
        delta = dp.account(_run(rate, steps, noise)).delta(epsilon=epsilon)
        assert delta.lower <= expected * (1.0 + 1e-9)
        assert expected * (1.0 - 1e-9) <= delta.upper


@pytest.mark.parametrize("mu", [1.0, 83.0, 1000.0])
def test_cells_wider_than_all_doubles_keep_their_masses(mu: float) -> None:
    pair = PoissonSampledPair(GaussianPair(mu), 0.3)
    for one in (pair, pair.reverse()):
        with np.errstate(all="ignore"):
            nodes = first_look(one, -200.0)
            for table in (lower(nodes), upper(nodes)):
                atoms = table.atoms
                assert np.exp(atoms.log_weights).sum() == pytest.approx(1.0, abs=1e-9)
                dual = np.exp(atoms.log_weights - atoms.points).sum() + atoms.dual_deficit
                assert dual == pytest.approx(1.0, abs=1e-9)


def test_how_fast_delta_falls_beside_a_mass_at_infinity() -> None:
    # 19 responses of which each reveals the record with probability 1/10, and a Gaussian
    step = AtomicPair.from_pmfs([0.1, 0.6, 0.3], [0.0, 0.3, 0.7])
    many = Composition(((step, 19), (GaussianPair(0.5), 1)))
    for epsilon in (1.0, 5.0, 12.0):
        log_delta, slope = estimate(many, epsilon)
        ends = [many.log_delta(epsilon + side, 1e-7) for side in (-1e-2, 1e-2)]
        low, high = (0.5 * (one + other) for one, other in ends)
        assert log_delta == pytest.approx(0.5 * (low + high), abs=0.05)
        assert slope == pytest.approx((low - high) / 2e-2, rel=0.1)


def test_work_on_jumps_serves_its_own_threshold() -> None:
    steps = ((PoissonSampledPair(GaussianPair(1.0 / 300.0), 1.5e-9), 2 * 10**11),)
    with np.errstate(all="ignore"):
        work = JumpExpansion.enclose(steps, Thresholds.at(2.7e-6), 0.02)
    low, high = (work.log_delta(2.7e-6, side) for side in (Side.LOWER, Side.UPPER))
    assert low <= high <= low + 0.08
