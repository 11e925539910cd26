"""Shuffled batches without a vacancy: adversaries by enumeration, and populations of far types."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.bounds.shuffled_batches.far_types import far_types
from sharpdp.bounds.shuffled_batches.theorems import ratio_test_lower
from sharpdp.bounds.shuffled_batches.upper_envelope import VacantEpoch
from sharpdp.bounds.shuffled_batches.upper_envelope_full import FullEpoch
from sharpdp.pairs.finite import AtomicPair
from tests.reference.shuffled_epoch import (
    Adversary,
    assignments,
    divergences,
    divergences_of_known_others,
    vacancy_bound,
)

pytestmark = pytest.mark.underflows

RATIOS = np.array([1.0, 1.3, 2.0, 5.0])


def profile(distance: float, ratio: float) -> float:
    """H_x of two unit normal laws."""
    a = np.log(ratio) / distance
    return float(ndtr(0.5 * distance - a) - ratio * ndtr(-0.5 * distance - a))


def revealed_share(
    first: np.ndarray, sizes: tuple[int, ...], noise: float, count: int, eta: float
) -> float:
    """E_A int m r by enumeration, for contributions `first` of the others to step 1, on the line."""
    reach = 1.0 + 8.0 * noise
    grid = np.linspace(-reach, reach, 401)
    others = tuple(range(first.size))
    total, arrangements = 0.0, 0
    for batches in assignments(others, (sizes[0] - 1, *sizes[1:])):
        arrangements += 1
        rows = [np.array(batch, dtype=int) for batch in batches[1:]]
        density = np.exp(-0.5 * ((grid[:, None] - first) / noise) ** 2)
        density /= noise * np.sqrt(2.0 * np.pi)
        outside = np.concatenate(rows)
        m = density[:, outside].mean(axis=1)
        weights = np.array([density[:, row].sum(axis=1) for row in rows]) / (outside.size * m)
        excess = np.maximum(weights - (1.0 - eta) / count, 0.0).sum(axis=0)
        r = np.where(excess <= eta, excess, 1.0)
        total += float(np.sum(m * r)) * (grid[1] - grid[0])
    return total / arrangements


def bound_with(share: float, sizes: tuple[int, ...], noise: float, count: int) -> np.ndarray:
    """The right side of the theorem for both directions at all ratios, with r itself."""
    total = sum(sizes)
    rows = []
    for x in RATIOS:
        first = np.array(vacancy_bound((1,) * count, count, noise, float(x)))
        known = profile(1.0 / noise, float(x))
        extra = share * known + min(share * (x - 1.0), sizes[0] / total * known)
        rows.append(first + extra)
    return np.array(rows).T


def instance(
    rng: np.random.Generator, sizes: tuple[int, ...], *, alike: bool
) -> tuple[Adversary, float]:
    """An adaptive adversary and a noise; in step 1 all others are nearly alike, or anything."""
    noise, examples = float(rng.choice([0.5, 0.7, 1.0, 2.0])), sum(sizes)
    chosen = []
    for step in range(len(sizes)):
        values = rng.choice([-1.0, 1.0], (2**step, examples, 1))
        if rng.random() < 0.5:
            values[:, 1:] = values[:, 1:2]
        if step == 0 and alike:
            near = values[:, 1:2] + rng.normal(0.0, 0.05, (1, examples - 1, 1))
            values[:, 1:] = np.clip(near, -1.0, 1.0)
        values[:, 0] = 1.0
        chosen.append(values)
    null = tuple(np.zeros((2**step, 1)) for step in range(len(sizes)))
    return Adversary(tuple(chosen), null, np.sort(rng.normal(0.0, 1.5, 1))), noise


@pytest.mark.parametrize(
    ("sizes", "instances", "points"), [((1, 1, 1), 24, 41), ((2, 2, 2), 4, 31)]
)
def test_adversaries_by_enumeration_stay_below_the_theorem(
    sizes: tuple[int, ...], instances: int, points: int
) -> None:
    """All orders, and an attacker who knows where the others sat, who is the one the proof is about."""
    rng = np.random.default_rng(7)
    count, largest = len(sizes) - 1, 0.0
    for index in range(instances):
        adversary, noise = instance(rng, sizes, alike=index % 2 == 0)
        eta = float(rng.choice([0.05, 0.2, 0.4]))
        share = revealed_share(adversary.contributions[0][0, 1:, 0], sizes, noise, count, eta)
        known = divergences_of_known_others(adversary, sizes, noise, RATIOS, points)
        truth = divergences(adversary, sizes, noise, RATIOS, points)
        assert np.all(truth < known * (1.0 + 2e-2) + 1e-9)  # the grid's error
        largest = max(largest, float(np.max(known / bound_with(share, sizes, noise, count))))
    assert 0.45 < largest < 1.0 + 5e-3


@pytest.mark.parametrize("noise", [1.2, 2.0])
@pytest.mark.parametrize("count", [2, 3])
def test_uneven_weights_cost_no_more_than_their_excess(noise: float, count: int) -> None:
    """G(w) <= G_N + r h(x) for weights of three batches; without r it is false for some."""
    needed = 0
    for sizes in ((5, 1, 1), (3, 2, 1), (4, 4, 1), (18, 1, 1), (4, 3, 3)):
        weights = np.array(sizes) / sum(sizes)
        for x in RATIOS:
            value = np.array(vacancy_bound(sizes, sum(sizes), noise, float(x)))
            even = np.array(vacancy_bound((1,) * count, count, noise, float(x)))
            needed += int(np.any(value > 1.02 * even))
            for eta in (0.05, 0.2, 0.4):
                excess = float(np.maximum(weights - (1.0 - eta) / count, 0.0).sum())
                r = excess if excess <= eta else 1.0
                assert np.all(value < (even + r * profile(1.0 / noise, float(x))) * (1.0 + 2e-3))
    assert needed >= 2


def types(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of length at most one, and how frequent each is."""
    if kind == "rare":  # a far type that is rare
        rare = float(rng.choice([0.3, 0.1, 0.03, 0.01]))
        return np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0 - rare, rare])
    if kind == "fan":  # most at one point, others spread on the far side
        rare, lean = float(rng.choice([0.5, 0.2, 0.05])), float(rng.uniform(0.0, 0.8))
        angles = np.linspace(0.0, 2.0 * np.pi, 7)[:-1]
        side = np.sqrt(1.0 - lean**2)
        spread = [[-lean, side * np.cos(a), side * np.sin(a)] for a in angles]
        return np.array([[1.0, 0.0, 0.0], *spread]), np.array([1.0 - rare, *[rare / 6] * 6])
    if kind == "simplex":
        size = int(rng.choice([3, 10, 40]))
        return np.eye(size), np.full(size, 1.0 / size)
    vectors = rng.normal(size=(12, 3))
    return vectors / np.linalg.norm(vectors, axis=1)[:, None], rng.dirichlet(np.full(12, 0.5))


def ratios_of(
    vectors: np.ndarray, shares: np.ndarray, noise: float, rng: np.random.Generator, draws: int
) -> np.ndarray:
    """phi_v / m at draws from m, one column for each type."""
    y = vectors[rng.choice(shares.size, draws, p=shares)]
    y = y + noise * rng.normal(size=y.shape)
    log = (y @ vectors.T - 0.5 * np.sum(vectors**2, axis=1)) / noise**2
    a = np.exp(log - log.max(axis=1, keepdims=True))
    return a / (a @ shares)[:, None]


@pytest.mark.parametrize("kind", ["rare", "fan", "simplex", "random"])
def test_no_population_of_types_is_farther_than_the_lemma_says(kind: str) -> None:
    """The mean of H_K over types by simulation; six deviations are a false alarm of 1e-9."""
    rng = np.random.default_rng(11)
    for _ in range(6):
        noise = float(rng.choice([0.7, 1.0, 2.0]))
        log_cuts, bounds = far_types(noise)
        vectors, shares = types(kind, rng)
        a = ratios_of(vectors, shares, noise, rng, 100_000)
        for place in (4, 9, 14, 19):
            over = np.maximum(a - np.exp(log_cuts[place]), 0.0) @ shares
            assert over.mean() - 6.0 * over.std() / np.sqrt(over.size) < bounds[place]


def test_two_types_by_quadrature() -> None:
    """p at -e, all others at e: below the lemma, and zero from K = 1/p on."""
    noise, rare = 1.0, 0.1
    y = np.linspace(-9.0, 9.0, 20_001)
    near, far = (np.exp(-0.5 * (y - mean) ** 2) / np.sqrt(2.0 * np.pi) for mean in (1.0, -1.0))
    m = (1.0 - rare) * near + rare * far
    log_cuts, bounds = far_types(noise)
    for log_cut, bound in zip(log_cuts, bounds, strict=True):
        cut = np.exp(log_cut)
        over = (1.0 - rare) * np.maximum(near - cut * m, 0.0) + rare * np.maximum(
            far - cut * m, 0.0
        )
        value = float(np.sum(over) * (y[1] - y[0]))
        assert value <= bound
        assert value < 1e-9 or cut < 1.0 / rare


@pytest.mark.parametrize("kind", ["rare", "fan", "simplex", "random"])
def test_weights_of_large_batches_are_as_even_as_claimed(kind: str) -> None:
    """E int m r for 30 batches of 500 or 3,000 by simulation, in which few far types are most uneven."""
    rng = np.random.default_rng(13)
    for noise, batch_size in ((1.0, 3000), (2.0, 500), (2.0, 3000)):
        epoch = FullEpoch(noise, 31 * batch_size, batch_size)
        assert epoch.revealed
        for _ in range(3):
            vectors, shares = types(kind, rng)
            a = ratios_of(vectors, shares, noise, rng, 2000)
            counts = rng.multinomial(30 * batch_size, shares)  # as if m were known exactly
            seats = rng.multivariate_hypergeometric(counts, batch_size, size=30)
            weights = a @ seats.T / (30 * batch_size)
            weights /= weights.sum(axis=1, keepdims=True)
            for count, rho in epoch.revealed.items():
                excess = np.min(
                    [
                        np.where(over <= eta, over, 1.0)
                        for eta in (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4)
                        for over in [np.maximum(weights - (1.0 - eta) / count, 0.0).sum(axis=1)]
                    ],
                    axis=0,
                )
                assert excess.mean() - 6.0 * excess.std() / np.sqrt(excess.size) < rho


@pytest.mark.parametrize("adjacency", [dp.Adjacency.ZERO_OUT, dp.Adjacency.REPLACE_ONE])
def test_the_pair_is_above_what_is_attained_and_below_a_revealed_order(
    adjacency: dp.Adjacency,
) -> None:
    displaced = next(one for one in dp.all_bounds() if one.name == "displaced_example_upper")
    scheme = dp.ShuffledBatches(dataset_size=10**6 + 700, batch_size=10**4, epochs=1)
    run = dp.DPSGD(scheme, noise_multiplier=2.0)
    ((high, _),) = displaced(run, adjacency, width=1e-2)
    ((low, _),) = ratio_test_lower(run, adjacency)
    losses = np.array([0.0, 0.05, 0.1, 0.3, 0.6, 1.0])
    reach = 2.0 if adjacency is dp.Adjacency.REPLACE_ONE else 1.0
    revealed = np.array([profile(reach / 2.0, float(np.exp(loss))) for loss in losses])
    for upper, lower in ((high, low), (high.reverse(), low.reverse())):
        attained = np.exp(lower.log_hockey_stick(losses))
        bound = np.exp(upper.log_hockey_stick(losses)) + upper.infinite_p_ends[1]
        assert np.all(attained < bound)
        assert np.all(bound < 0.6 * revealed)


@pytest.mark.parametrize("ratio", [1.0, 1.2, 3.0])
def test_the_mean_of_some_copies_is_that_of_an_epoch_without_a_vacancy(ratio: float) -> None:
    """Two copies, by contours and by direct sums over cells of both variables."""
    epoch = VacantEpoch(1.5, 2, share=0.5, absent=0.0)
    exact = vacancy_bound((1, 1), 2, 1.5, ratio, nodes=6001)
    for kind, value in zip(("forward", "backward"), exact, strict=True):
        found = float(np.exp(epoch.log_value(float(np.log(ratio)), kind, 1e-4)))
        assert value * (1.0 - 1e-4) < found < value * (1.0 + 2e-2)


def test_small_batches_and_few_batches_are_declined() -> None:
    for size, batch in ((10_000, 10), (2000, 1000), (1000, 1000)):
        assert not FullEpoch(1.0, size, batch).revealed


def test_the_least_pair_keeps_what_is_revealed_in_one_direction_only() -> None:
    """A tenth of the mass of P at an infinite loss, none of Q: 0.15 is the total variation of both."""
    p, q = np.array([0.1, 0.7, 0.1]), np.array([0.2, 0.75, 0.05])
    logs = np.log(p), np.log(q)
    pair = AtomicPair(*(tuple(row.tolist()) for row in (logs[0] - logs[1], *logs)), 0.1, 0.0)
    least = FullEpoch(1.0, 100, 10)._least(pair, {}, replaced=False)
    for ratio in (1.0, 1.01, 1.3, 1.9):
        ahead = 0.1 + np.maximum(p - ratio * q, 0.0).sum()
        behind = np.maximum(q - ratio * p, 0.0).sum()
        for one, exact in ((least, ahead), (least.reverse(), behind)):
            log_value = one.log_hockey_stick(np.array([np.log(ratio)]))[0]
            value = float(np.exp(log_value)) + one.at_plus_infinity
            assert exact <= value <= exact + 1e-6
