"""k of T steps: the bounds on the mean of all products against quadrature, enumeration and simulation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, reduce
from itertools import combinations, product
from math import comb, exp, log

import numpy as np
import pytest

from sharpdp.bounds.allocation.several_steps_pair import several_allocated
from sharpdp.bounds.allocation.symmetric_mean import SymmetricMean, _log_most_likely
from sharpdp.bounds.allocation.symmetric_mean_profile import SeveralSteps
from sharpdp.bracket import Side
from sharpdp.pairs.pair import GaussianPair, Pair, epsilon_of, for_few_thresholds, log_delta_of
from tests.reference.allocation import confidence, deltas, sampled_ratios

Array = np.ndarray


@cache
def sides(noise: float, steps: int, participations: int) -> tuple[Pair, Pair]:
    """Pairs below and above, the same for all tests that look at them."""
    low, high = (several_allocated(noise, steps, participations, 1, side, 2e-3) for side in Side)
    return low, high


def ways(noise: float, steps: int, participations: int) -> list[tuple[Pair, Pair]]:
    """The same pairs, and what is asked in their place at few thresholds."""
    low, high = sides(noise, steps, participations)
    return [(low, high), (for_few_thresholds(low), for_few_thresholds(high))]


def plan_for(
    noise: float, steps: int, participations: int, loss: float, sign: float
) -> SymmetricMean:
    """The plan of the profile at a loss."""
    profile = SeveralSteps(1.0 / noise, steps, participations, sign, 2e-3)
    center = profile._center_at(sign * loss, -0.5)
    assert center is not None
    return profile._statistic(center, 1e-2)


@pytest.mark.parametrize(
    ("noise", "steps", "count", "error"),
    [(0.5, 3, 24, 1e-6), (1.0, 3, 24, 1e-6), (2.0, 3, 24, 1e-6), (1.0, 4, 6, 1e-3)],
)
def test_two_steps_by_quadrature(noise: float, steps: int, count: int, error: float) -> None:
    for (low, high), epsilon in product(ways(noise, steps, 2), (0.0, 0.7, 2.0, 4.0)):
        truth = deltas(noise, steps, 2, epsilon, count=count)
        for below, above, exact in zip(
            (low, low.reverse()), (high, high.reverse()), truth, strict=True
        ):
            least = exp(log_delta_of(below, epsilon)[0])
            most = exp(log_delta_of(above, epsilon)[1])
            assert least <= exact * (1.0 + error)
            assert exact * (1.0 - error) <= most
            if exact > 1e-3:
                assert least > 0.95 * exact
                assert most < 1.15 * exact


@pytest.mark.parametrize(
    ("noise", "steps", "participations", "epsilon"),
    [
        (1.0, 6, 3, 2.0),
        (0.6, 6, 3, 4.0),
        (1.0, 100, 10, 2.0),
        (2.0, 40, 20, 1.5),
        (0.5, 30, 3, 3.0),
    ],
)
def test_simulated_ratios(noise: float, steps: int, participations: int, epsilon: float) -> None:
    """False alarms: at most 1e-9 for each interval."""
    with_record, without = sampled_ratios(noise, steps, participations, 100_000, seed=steps)
    seen = [
        confidence(np.maximum(1.0 - exp(epsilon) / with_record, 0.0)),
        confidence(np.maximum(1.0 - exp(epsilon) * without, 0.0)),
    ]
    for low, high in ways(noise, steps, participations):
        for below, above, (least, most) in zip(
            (low, low.reverse()), (high, high.reverse()), seen, strict=True
        ):
            bottom = exp(log_delta_of(below, epsilon)[0])
            top = exp(log_delta_of(above, epsilon)[1])
            assert bottom <= most
            assert least <= top
            assert bottom > 0.9 * least
            assert top < 1.25 * most


@pytest.mark.parametrize(
    ("noise", "steps", "participations", "width"),
    [
        (1.0, 4, 2, 0.02),
        (1.0, 50, 2, 0.02),
        (1.0, 100, 10, 0.01),
        (0.5, 100, 50, 0.01),
    ],
)
def test_two_percent(noise: float, steps: int, participations: int, width: float) -> None:
    for (low, high), delta in product(ways(noise, steps, participations), (1e-2, 1e-6)):
        least = max(epsilon_of(one, log(delta))[0] for one in (low, low.reverse()))
        most = max(epsilon_of(one, log(delta))[1] for one in (high, high.reverse()))
        assert 0.0 < least <= most <= (1.0 + width) * least


def test_ten_of_a_hundred_is_close_to_a_simulation() -> None:
    """Importance sampling, 160,000 draws: 9.83 +- 0.02 at noise 0.8, 6.58 +- 0.03 at noise 1."""
    for noise, truth in ((0.8, 9.83), (1.0, 6.58)):
        for low, high in ways(noise, 100, 10):
            assert epsilon_of(low, log(1e-6))[0] < truth + 0.03
            assert epsilon_of(high, log(1e-6))[1] > truth - 0.03


@pytest.mark.parametrize("seed", range(12))
def test_every_plan_is_safe(seed: int) -> None:
    """Tilts, units, windows, kinds and grids at random: worse, but never wrong."""
    rng = np.random.default_rng(seed)
    noise, steps = float(rng.choice([0.6, 1.0, 2.0])), 3
    sign = float(rng.choice([1.0, -1.0]))
    losses = np.array([0.0, 0.7, 2.0])
    truth = np.log([deltas(noise, steps, 2, loss)[0 if sign > 0.0 else 1] for loss in losses])
    plan = plan_for(noise, steps, 2, 0.7, sign)
    places = int(plan.places * rng.uniform(0.2, 1.2))
    plan = replace(
        plan,
        log_x=plan.log_x + rng.normal(0.0, 1.0),
        tilt=plan.tilt + rng.normal(0.0, 0.5),
        saddle=plan.saddle + rng.normal(0.0, 0.5),
        unit=plan.unit * exp(rng.normal(1.0, 1.0)),
        first=plan.first + int(rng.normal(0.0, 0.1 * places)),
        places=places,
        middle=int(rng.integers(1, places - 1)),
        moves=plan.moves[:: int(rng.integers(1, 4))][: int(rng.integers(2, 30))],
        spread=plan.spread * exp(rng.normal(0.0, 0.5)),
        variance=plan.variance * exp(rng.normal(0.0, 1.0)),
        kinds=int(rng.choice([1, 3, 16])),
    )
    assert np.all(plan.log_upper(sign, losses) >= truth - 1e-6)
    q, p = plan.attacks(sign, losses)
    gains = p - np.exp(losses) * q if sign > 0.0 else q - np.exp(losses) * p
    assert np.all(gains <= np.exp(truth) * (1.0 + 1e-6))
    assert np.all(plan.log_lower(sign, losses) <= truth + 1e-6)
    assert np.allclose(np.exp(plan.log_lower(sign, losses)), np.maximum(gains, 0.0), atol=1e-12)


def test_masses_are_those_of_all_combinations_of_cells() -> None:
    """Three steps, two of them chosen, and few cells: sums over all triples."""
    plan = replace(plan_for(1.0, 3, 2, 1.0, 1.0), unit=1.0, first=0, places=64, middle=20, kinds=3)
    laws = [np.exp(logs) for logs in plan._log_laws]
    size = laws[0].size
    assert 8 < size < 64 // 3
    expected = np.zeros((3, plan.kinds, plan.places))
    for cells in np.ndindex(size, size, size):
        place, kind = sum(cells), int(sum(plan._kind[list(cells)])) % plan.kinds
        f = [[law[cell] for law in laws] for cell in cells]
        sets = list(combinations(range(3), 2))
        expected[0, kind, place] += f[0][0] * f[1][0] * f[2][0]
        expected[1, kind, place] += np.mean(
            [np.prod([f[t][int(t in chosen)] for t in range(3)]) for chosen in sets]
        )
        expected[2, kind, place] += np.mean(
            [
                np.prod([f[t][int(t in one) + int(t in other)] for t in range(3)])
                for one in sets
                for other in sets
            ]
        )
    for truth, law in zip(expected, (plan.without, plan.with_record, plan.squared), strict=True):
        unit = np.exp(law.log_unit - law.tilt * plan.offsets)
        assert np.all(truth <= (law.masses + law.error) * unit * (1.0 + 1e-11))
        assert np.all(truth >= (law.masses - law.lost) * unit * (1.0 - 1e-11))
        assert law.error < 1e-13


@pytest.mark.parametrize(("first", "places"), [(0, 10), (2, 12), (6, 16)])
def test_what_a_window_folds_in_is_lost(first: int, places: int) -> None:
    """As above, with a window that is too short: places see the mass of others, which does not count."""
    plan = plan_for(1.0, 3, 2, 1.0, 1.0)
    plan = replace(plan, unit=1.0, first=first, places=places, middle=5, kinds=1)
    laws = [np.exp(logs) for logs in plan._log_laws]
    whole = [reduce(np.convolve, [laws[k] for k in powers]) for powers in ((0, 0, 0), (0, 1, 1))]
    seen = 0
    for law, truth in zip((plan.without, plan.with_record), whole, strict=True):
        inside = truth[first : first + places]
        unit = np.exp(law.log_unit - law.tilt * plan.offsets)
        folded = law.masses[0] * unit
        assert np.all(inside <= (law.masses[0] + law.error) * unit * (1.0 + 1e-11))
        assert np.all(inside >= (law.masses[0] - law.lost) * unit * (1.0 - 1e-11))
        seen += int(np.sum(folded > 1.001 * inside))
    assert seen > 0


def test_masses_add_up() -> None:
    """Q and P have mass one, and E[L^2] = sum of H(m) e^{m mu^2}."""
    plan = plan_for(1.0, 20, 5, 1.0, 1.0)
    overlap = [comb(5, m) * comb(15, 5 - m) / comb(20, 5) * exp(m) for m in range(6)]
    for law, total in (
        (plan.without, 1.0),
        (plan.with_record, 1.0),
        (plan.squared, sum(overlap)),
    ):
        unit = np.exp(law.log_unit - law.tilt * plan.offsets)
        assert float(np.sum(law.masses * unit)) == pytest.approx(total, rel=1e-3)


def symmetric(u: Array) -> Array:
    """e_0, ..., e_T."""
    sums = np.zeros(u.size + 1)
    sums[0] = 1.0
    for value in u:
        sums[1:] += value * sums[:-1]
    return sums


@pytest.mark.parametrize("seed", range(40))
def test_the_ratio_is_between_its_bounds(seed: int) -> None:
    """Theorems 3 and 4 for values that spread over up to 20 orders of magnitude, some of them equal."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(2, 30))
    u = np.exp(rng.normal(0.0, rng.choice([0.1, 1.0, 5.0, 15.0]), steps))
    u[rng.random(steps) < 0.3] = 1.0
    log_x = np.linspace(-60.0, 60.0, 20_001)
    scores = np.sum(np.log1p(np.exp(log_x)[:, None] * u), axis=1)
    sums = symmetric(u)
    for k in range(1, steps):
        log_ratio = log(sums[k] / comb(steps, k))
        rate = k / steps
        log_k = k * log(rate) + (steps - k) * log(1.0 - rate)
        lowest = float(np.min(scores - k * log_x))
        assert log_ratio >= log_k + lowest - 1e-4  # the grid's own dip
        chance = 1.0 / (1.0 + 1.0 / (np.exp(log_x)[::500, None] * u))
        variance = np.sum(chance * (1.0 - chance), axis=1)
        log_chance = log(sums[k]) + k * log_x[::500] - scores[::500]
        for one, most in zip(log_chance, variance, strict=True):
            assert one <= _log_most_likely(float(most), steps) + 1e-9


def test_the_bound_on_the_likeliest_count_is_attained() -> None:
    """Half of the probabilities v and half 1 - v: the count k = T / 2 is as likely as the bound says."""
    for steps, v in ((2, 0.3), (6, 0.1), (10, 0.45)):
        half = steps // 2
        one = np.array([comb(half, j) * v**j * (1 - v) ** (half - j) for j in range(half + 1)])
        middle = float(np.convolve(one, one[::-1])[half])
        assert log(middle) == pytest.approx(_log_most_likely(steps * v * (1 - v), steps), abs=1e-8)


def test_equal_values_attain_the_lower_bound() -> None:
    """With all U equal the ratio is U^k, and so is the bound."""
    steps, k, u = 12, 5, 3.7
    w = k / ((steps - k) * u)
    bound = k * log(k / steps) + (steps - k) * log(1.0 - k / steps)
    bound += steps * log(1.0 + w * u) - k * log(w)
    assert bound == pytest.approx(k * log(u))


@pytest.mark.parametrize(("noise", "steps", "participations"), [(0.5, 100, 50), (1.0, 30, 29)])
def test_masses_that_underflow_are_in_no_event(
    noise: float, steps: int, participations: int
) -> None:
    """A Q-mass that is rounded to zero would show an epsilon above that of the revealed steps."""
    low = for_few_thresholds(several_allocated(noise, steps, participations, 1, Side.LOWER, 2e-3))
    revealed = GaussianPair(participations**0.5 / noise)
    most = epsilon_of(revealed, log(1e-300))[1]
    losses = np.linspace(0.0, 1.2 * most, 12)
    for one in (low, low.reverse()):
        below = one.log_hockey_stick(losses)
        assert np.all(below <= revealed.log_hockey_stick(losses) + 1e-9)


def test_answers_do_not_depend_on_earlier_questions() -> None:
    def fresh() -> Pair:
        return several_allocated(0.987, 40, 7, 1, Side.UPPER, 1e-2)

    alone = epsilon_of(for_few_thresholds(fresh()), log(1e-6))
    pair = fresh()
    for epsilon in (0.3, 4.0, 5.3, 5.5):
        log_delta_of(for_few_thresholds(pair), epsilon)
    assert log_delta_of(pair, 5.0)[1] < 0.0  # from a table
    assert epsilon_of(for_few_thresholds(pair), log(1e-6)) == alone


def test_without_a_plan_steps_are_revealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SeveralSteps, "_center_at", lambda *_: None)
    revealed = several_allocated(1.234, 8, 4, 2, Side.UPPER, 2e-3)
    assert revealed == GaussianPair(2.0 / 1.234)
    nothing = several_allocated(1.234, 8, 4, 2, Side.LOWER, 2e-3)
    assert epsilon_of(nothing, log(1e-6))[0] == 0.0
    exact = log_delta_of(GaussianPair(2.0 / 1.234), 2.0)[1]
    once, unknown = (
        several_allocated(1.234, 8, 4, 1, side, 2e-3) for side in (Side.UPPER, Side.LOWER)
    )
    for pair in (once, for_few_thresholds(once)):
        assert exact <= log_delta_of(pair, 2.0)[1] < exact + 1e-4
    for pair in (unknown, for_few_thresholds(unknown)):
        assert epsilon_of(pair, log(1e-6))[0] == 0.0


def test_a_table_reaches_as_deep_as_asked() -> None:
    """Newton's method alone went to and fro here, which ended the table at a delta of e^-25."""
    direction = SeveralSteps(1.0 / 1.3081977117426715, 10, 2, 1.0, 1e-3).direction(46.0)
    assert direction.log_high[-1] < -46.0
