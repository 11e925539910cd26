"""The worst policy of all other examples: options, recursion and brackets against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.shuffled_batches import worst_policy
from sharpdp.bounds.shuffled_batches.vacant_seat import VacantEpoch
from sharpdp.bounds.shuffled_batches.worst_policy import WorstPolicy

KINDS = ["forward", "backward"]


def plane(noise: float, angle: float, points: int) -> tuple[np.ndarray, ...]:
    """Densities of record, null record and others on a grid of the plane, times the area of its cells.

    The others contribute v = (1, 0), the record u at the angle.
    """
    axis, step = np.linspace(-8.0 * noise - 1.0, 8.0 * noise + 1.0, points, retstep=True)

    def density(mean: tuple[float, float]) -> np.ndarray:
        parts = [np.exp(-((axis - m) ** 2) / (2.0 * noise**2)) for m in mean]
        return np.outer(*parts).ravel() * step**2 / (2.0 * np.pi * noise**2)

    return density((angle, math.sqrt(1.0 - angle**2))), density((0.0, 0.0)), density((1.0, 0.0))


def difference(
    noise: float, x: float, kind: str, angle: float, points: int
) -> tuple[np.ndarray, ...]:
    """The two terms whose difference is Z times the density of the others, and that density."""
    record, null, others = plane(noise, angle, points)
    return (record - x * null if kind == "forward" else null - x * record), others


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.8, 2.0])
@pytest.mark.parametrize("angle", [-1.0, -0.965, -0.6, 0.5, 1.0])
def test_options_are_just_above_integrals(noise: float, angle: float, kind: str) -> None:
    """Calls and puts are integrals of positive parts of differences of three normal densities."""
    policy = WorstPolicy(noise, math.log(1.2), kind, 10, 0.0)
    strikes = np.array([-1.5, -0.5, -0.1, 0.0, 0.1, 0.5, 2.0])
    price = worst_policy._edge_options if abs(angle) == 1.0 else worst_policy._options
    upper = price(policy, angle, strikes)
    z, others = difference(noise, 1.2, kind, angle, 801)
    exact = [
        float(np.sum(np.maximum((z - c * others) * (1.0 if c >= 0.0 else -1.0), 0.0)))
        for c in strikes
    ]
    assert upper == pytest.approx(exact, rel=3e-3, abs=1e-5)
    assert np.all(upper > np.array(exact) - 2e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("noise", "ratio"), [(1.0, 1.3), (2.0, 1.0), (2.0, 2.0)])
def test_two_batches_are_just_above_the_recursion(noise: float, ratio: float, kind: str) -> None:
    """After the first result one batch is left, whose worst case is one of the two ends."""
    shift = 0.2 * (ratio - 1.0) / 0.4
    sums = np.linspace(-20.0, 20.0, 401)
    last = np.zeros(sums.size)
    for end in (-1.0, 1.0):
        z, others = difference(noise, ratio, kind, end, 201)
        values = [float(np.sum(np.maximum(z + s * others, 0.0))) for s in sums]
        last = np.maximum(last, values)
    worst = 0.0
    for angle in (-1.0, -0.9, -0.5, 0.0, 0.5, 0.9, 1.0):
        z, others = difference(noise, ratio, kind, angle, 301)
        reached = z / others - shift
        value = np.interp(reached, sums, last) + np.maximum(reached - sums[-1], 0.0)
        worst = max(worst, float(value @ others))
    epoch = VacantEpoch(noise, 2, share=0.4, absent=0.2)
    bound = math.exp(epoch.log_worst_value(math.log(ratio), kind)) / 0.4
    assert worst * (1.0 - 2e-3) < bound < worst * 1.15 + 3e-3
    assert bound < math.exp(epoch.log_value(math.log(ratio), kind, 1e-3)) / 0.4 * 1.005


def test_the_recursion_contains_the_counterexample_to_conjecture_3_2() -> None:
    """Without a vacancy it bounds from below: two batches, noise 1, x = 1.3, 0.286713 is attained."""
    bound = math.exp(WorstPolicy(1.0, math.log(1.3), "forward", 2, 0.0).log_value()) / 2.0
    assert 0.286713 < bound < 0.2905


@pytest.mark.parametrize(
    ("noise", "batches", "kind", "ratio", "all_against"),
    [  # all others at -u, and the largest excess of the worst policy over it, by trial on fine grids
        (2.0, 1000, "forward", 1.0, 1.0527e-2),
        (2.0, 1000, "forward", 1.05, 4.650e-4),
        (2.0, 1000, "backward", 1.05, 2.69e-4),
        (4.0, 1000, "forward", 1.01, 6.34e-4),
        (4.0, 1000, "backward", 1.01, 6.23e-4),
        (4.0, 1000, "forward", 1.03, 1.52e-6),
    ],
)
def test_many_batches_are_a_little_above_all_others_against_the_record(
    noise: float, batches: int, kind: str, ratio: float, all_against: float
) -> None:
    value = math.exp(WorstPolicy(noise, math.log(ratio), kind, batches, 0.0).log_value()) / batches
    assert 0.998 * all_against < value < 1.09 * all_against


def test_a_lattice_that_would_be_too_large_gives_no_number() -> None:
    assert WorstPolicy(4.0, 0.1, "forward", 10**7, 0.0).log_value() == math.inf


@pytest.mark.parametrize(
    ("noise", "epochs", "width"), [(2.0, 1, 0.05), (2.0, 10, 0.05), (2.0, 100, 0.05)]
)
def test_brackets_of_noisy_runs_are_narrow(noise: float, epochs: int, width: float) -> None:
    sizes = {"dataset_size": 1_000_000, "batch_size": 1_000, "epochs": epochs}
    run = dp.DPSGD(dp.ShuffledBatches(**sizes, left_out=1, drop_last=True), noise_multiplier=noise)
    answer = dp.account(run).epsilon(delta=1e-6)
    assert answer.lower < answer.upper < (1.0 + width) * answer.lower
