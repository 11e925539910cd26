"""Each margin of a step by itself: the noise against the plan, the clip against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.learn.checkpoint import fingerprint
from sharpdp.learn.correlated_step_noise import CorrelatedStepNoise
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.learn.gradients import ClippedGradients
from sharpdp.learn.randomizers.lattice_laplace import FINENESS, steps_of
from sharpdp.learn.randomizers.privunit_cap import allowance, cap_of
from sharpdp.mechanisms.strategies import BandedStrategy
from sharpdp.randomness.system_stream import SystemStream

KEY = b"k" * 32


@pytest.mark.parametrize(("multiplier", "clip"), [(1.0, 1.0), (0.3, 0.1), (7.7, 1e-3)])
def test_noise_is_longer_than_planned_by_what_rounding_needs(
    multiplier: float, clip: float
) -> None:
    planned = Fraction(multiplier) * Fraction(clip)
    for noise in (
        StepNoise(noise_multiplier=multiplier, clip=clip, key=KEY),
        CorrelatedStepNoise(
            strategy=BandedStrategy(coefficients=(1.0, 0.5)),
            steps=10,
            noise_multiplier=multiplier,
            clip=clip,
            key=KEY,
        ),
    ):
        longer = Fraction(noise.deviation) / planned - 1
        assert Fraction(1, 2**20) * Fraction(999, 1000) <= longer <= Fraction(1, 2**19)


def test_parameters_have_noise_of_their_own() -> None:
    """Equal noise on two sums would show their difference."""
    noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
    sums = {name: torch.zeros(1000, dtype=torch.float64) for name in ("first", "second")}
    released = noise.added(sums, 0)
    same = torch.isclose(released["first"], released["second"], atol=1e-3)
    assert int(same.sum()) < 20  # one in 1,800 by chance


def test_sums_that_differ_in_further_digits_have_noise_of_their_own() -> None:
    total = {"a": torch.ones(1000, dtype=torch.float64)}

    def released(digits: float) -> torch.Tensor:
        lower = {"a": torch.full((1000,), digits, dtype=torch.float64)}
        noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
        return noise.added(total, 0, lower=lower)["a"]

    assert torch.equal(released(2.0**-60), released(2.0**-60))
    same = torch.isclose(released(2.0**-60), released(2.0**-61), atol=1e-3)
    assert int(same.sum()) < 20


def test_strategies_whose_rounding_no_noise_pays_for_are_refused() -> None:
    """In 30 steps, each off by 2^-56 of a noise of 1e12 clips, neighbors are 1.5e-4 clips too far apart.

    The longer noise pays for 2^-21.
    """
    with pytest.raises(dp.InvalidArgument, match="for rounding not to matter"):
        CorrelatedStepNoise(
            strategy=BandedStrategy(coefficients=(1.0, 0.5)),
            steps=30,
            noise_multiplier=1e12,
            clip=1.0,
            key=KEY,
        )


def product(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output * target).sum()


def test_many_entries_that_are_all_rounded_up_keep_the_clip() -> None:
    """Eight million equal entries, whose number of grid steps is just above a half: all round up.

    Each would be half a step of 2^-30 too long, all together 1.3e-6 of the clip.
    """
    grid = 2**30
    entries = next(
        count
        for count in range(2**23, 2**23 + 1000)
        if 0.5 < math.modf(grid * (1.0 - 2.0**-20 - count * 2.0**-53) / math.sqrt(count))[0] < 0.54
    )
    model = nn.Linear(entries, 1, bias=False)
    nn.init.zeros_(model.weight)
    take = ClippedGradients(model, product, clip=1.0)
    total = take.sum(torch.ones(1, entries), torch.ones(1, 1))["weight"]
    value = float(total[0, 0])
    assert bool((total == value).all())
    assert Fraction(9999, 10000) < entries * Fraction(value) ** 2 <= 1


def test_a_gradient_is_clipped_over_all_parameters_together() -> None:
    model = nn.Linear(3, 2)
    take = ClippedGradients(model, product, clip=1.0)
    total = take.sum(torch.full((1, 3), 50.0), torch.full((1, 2), 50.0))
    square = sum(Fraction(x) ** 2 for value in total.values() for x in value.flatten().tolist())
    assert Fraction(999, 1000) < square <= 1


def test_no_more_records_are_summed_than_a_double_holds() -> None:
    """An entry has up to 2^31 grid steps, and whole numbers are exact up to 2^53."""
    take = ClippedGradients(nn.Linear(1, 1), product, clip=1.0)
    many = torch.zeros(1, 1).expand(2**22 + 1, 1)
    with pytest.raises(dp.InvalidArgument, match="at most 4194304 examples"):
        take.sum(many, many)


def test_fingerprints_tell_shapes_and_types_apart() -> None:
    zeros = [
        torch.zeros(2, 3),
        torch.zeros(3, 2),
        torch.zeros(3, dtype=torch.float64),
        torch.zeros(6, dtype=torch.int32),
    ]
    assert len({fingerprint("run", one) for one in zeros}) == 4


def test_minus_zero_is_drawn_again() -> None:
    """Else zero would come twice as often as its neighbors allow."""
    words = [0, 2**63 + 1, 2**63, 1]  # the first place with a minus, then one in the middle

    def draw(count: int) -> np.ndarray:
        some, words[:] = words[:count], words[count:]
        return np.array(some, dtype=np.uint64)

    (drawn,) = steps_of().drawn(1, SystemStream(draw)).tolist()
    assert 0 < drawn < FINENESS
    assert words == []


@pytest.mark.parametrize("budget", [0.5, 2.0, 6.0])
def test_the_cap_is_hit_no_more_often_than_the_budget_allows(budget: float) -> None:
    """In three dimensions the cap above height c is (1 - c) / 2 of the sphere.

    With probability beta a report is drawn from the cap, else from everywhere: its density in the cap
    is 1 + beta / ((1 - beta) q) times that outside, and a little less of that is for points in doubles.
    """
    cap = cap_of(3, budget, 0.25)
    with mpmath.workdps(50):
        beta, share = mpmath.mpf(cap.coin) / 2**64, (1 - mpmath.mpf(0.25)) / 2
        kappa = mpmath.mpf(allowance(3))
        ratio = 1 + beta * mpmath.exp(kappa) / ((1 - beta) * share)
        assert ratio <= mpmath.exp(mpmath.mpf(budget)) <= ratio * (1 + mpmath.mpf("1e-10"))
        assert mpmath.mpf(cap.blanket) <= 1 - beta
