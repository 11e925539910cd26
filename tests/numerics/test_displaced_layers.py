"""Shuffled batches without a vacancy by layers: adversaries and populations by enumeration."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import sharpdp as dp
from sharpdp.bounds.shuffled_batches.theorems import ratio_test_lower
from sharpdp.bounds.shuffled_batches.upper_envelope_layers import LayeredEpoch
from sharpdp.bounds.shuffled_batches.worst_batches import WorstBatches
from sharpdp.numerics.hull import lower_hull
from sharpdp.pairs.pair import GaussianPair
from tests.numerics.test_displaced_example import instance, profile, ratios_of, types
from tests.reference.shuffled_epoch import (
    Adversary,
    divergences,
    divergences_of_known_others,
    vacancy_bound,
)

pytestmark = pytest.mark.underflows

RATIOS = np.array([1.0, 1.3, 2.0, 5.0])


@cache
def value_of(counts: tuple[int, ...], noise: float, ratio: float) -> tuple[float, float]:
    """E(sum N_t W_t)_+ for given counts, in both directions."""
    used = tuple(sorted(count for count in counts if count))
    if not used:
        return 0.0, 0.0
    nodes = 2001 if len(used) < 3 else 1201
    both = vacancy_bound(used, sum(used), noise, ratio, nodes=nodes)
    return sum(used) * both[0], sum(used) * both[1]


def exact_layer(size: int, seats: tuple[int, ...], noise: float, ratio: float) -> np.ndarray:
    """gamma(size / n'): the mean over all ways to put so many examples into batches of these sizes."""
    total, ways = np.zeros(2), comb(sum(seats), size)
    for counts in product(*(range(seat + 1) for seat in seats)):
        if sum(counts) == size:
            chance = np.prod([comb(seat, n) for seat, n in zip(seats, counts, strict=True)]) / ways
            total += chance * np.array(value_of(counts, noise, ratio))
    return total / sum(seats)


def concave(values: np.ndarray) -> np.ndarray:
    """The least concave function above these values at even places."""
    places = np.arange(values.size)
    corners = lower_hull([(float(p), -float(v)) for p, v in zip(places, values, strict=True)])
    return np.interp(places, places[corners], values[corners])


def shares_above(
    first: np.ndarray, sizes: tuple[int, ...], noise: float, cuts: np.ndarray
) -> np.ndarray:
    """P(a > K) for contributions `first` of the others to step 1, on the line, by enumeration."""
    grid = np.linspace(-1.0 - 8.0 * noise, 1.0 + 8.0 * noise, 401)
    density = np.exp(-0.5 * ((grid[:, None] - first) / noise) ** 2)
    density /= noise * np.sqrt(2.0 * np.pi)
    total, sets = np.zeros(cuts.size), 0
    for inside in combinations(range(first.size), sizes[0] - 1):
        outside = np.array([j for j in range(first.size) if j not in inside])
        m = density[:, outside].mean(axis=1)
        a = density[:, outside] / m[:, None]
        above = np.array([(a > cut).mean(axis=1) @ m for cut in cuts])
        total += above * (grid[1] - grid[0])
        sets += 1
    return total / sets


def theorem(adversary: Adversary, sizes: tuple[int, ...], noise: float) -> np.ndarray:
    """The right side of the theorem in both directions at all ratios, with P(a > K) itself."""
    seats, examples = sizes[1:], sum(sizes)
    others = sum(seats)
    cuts = np.concatenate([np.arange(0.0, 2.0, 0.02), np.geomspace(2.0, 4.0 * others, 60)])
    shares = shares_above(adversary.contributions[0][0, 1:, 0], sizes, noise, cuts[:-1])
    rows = []
    for x in RATIOS:
        gamma = np.array([exact_layer(n, seats, noise, float(x)) for n in range(others + 1)])
        both = [
            float(np.diff(cuts) @ np.interp(others * shares, np.arange(others + 1), concave(one)))
            for one in gamma.T
        ]
        first = sizes[0] / examples * profile(1.0 / noise, float(x))
        rows.append(first + others / examples * np.array(both))
    return np.array(rows).T


def check_adversaries(sizes: tuple[int, ...], instances: int, points: int, seed: int) -> float:
    """The largest share of the theorem's bound that an attacker reaches."""
    rng = np.random.default_rng(seed)
    largest = 0.0
    for index in range(instances):
        adversary, noise = instance(rng, sizes, alike=index % 2 == 0)
        known = divergences_of_known_others(adversary, sizes, noise, RATIOS, points)
        truth = divergences(adversary, sizes, noise, RATIOS, points)
        assert np.all(truth < known * (1.0 + 2e-2) + 1e-9)  # the grid's error
        bound = theorem(adversary, sizes, noise)
        if np.any(known > 0.998 * bound):  # a finer grid tells
            finer = (4 if len(sizes) == 2 else 2) * points
            known = divergences_of_known_others(adversary, sizes, noise, RATIOS, finer)
        largest = max(largest, float(np.max(known / bound)))
    return largest


@pytest.mark.parametrize(
    ("sizes", "instances", "points"),
    [((1, 1), 30, 61), ((3, 3), 6, 61), ((2, 1), 10, 61), ((1, 1, 1), 8, 41), ((2, 2, 1), 3, 31)],
)
def test_adversaries_by_enumeration_stay_below_the_theorem(
    sizes: tuple[int, ...], instances: int, points: int
) -> None:
    """All orders, and an attacker who knows where the others sat."""
    largest = check_adversaries(sizes, instances, points, seed=3)
    assert 0.4 < largest < 1.0 + 2e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "instances", "points"),
    [
        ((1, 1), 5500, 61),
        ((2, 2), 3000, 61),
        ((3, 3), 600, 61),
        ((4, 4), 150, 61),
        ((6, 5), 10, 61),
        ((1, 1, 1), 700, 41),
        ((2, 2, 2), 40, 31),
        ((3, 2, 1), 40, 31),
    ],
)
def test_many_adversaries_stay_below_the_theorem(
    sizes: tuple[int, ...], instances: int, points: int
) -> None:
    largest = check_adversaries(sizes, instances, points, seed=5)
    assert largest < 1.0 + 2e-3


KINDS = ("rare", "fan", "simplex", "random")


def population(rng: np.random.Generator, kind: str, size: int) -> tuple[np.ndarray, float]:
    """a_j of so many examples at one first result, and the noise."""
    noise = float(rng.choice([0.5, 0.8, 1.0, 2.0]))
    vectors, shares = types(kind, rng)
    chosen = vectors[rng.choice(shares.size, size, p=shares)]
    a = ratios_of(chosen, np.full(size, 1.0 / size), noise, rng, 1)[0]
    return a, noise


def layers_of(a: np.ndarray, gamma: np.ndarray) -> float:
    """The sum over all layers of a population of gamma(p), its share."""
    rising = np.sort(a)
    return float(np.diff(rising, prepend=0.0) @ gamma[np.arange(a.size, 0, -1)])


@pytest.mark.parametrize("kind", KINDS)
def test_layers_bound_random_populations(kind: str) -> None:
    """E over places of Gamma(w) by enumeration, at 250 first results: two batches of two to five."""
    rng = np.random.default_rng(17)
    close = 0.0
    for _ in range(250):
        b = int(rng.integers(2, 6))
        a, noise = population(rng, kind, 2 * b)
        x = float(rng.choice(RATIOS))
        weights = np.linspace(0.0, 1.0, 41)
        table = [pair_value(float(w), noise, x) for w in weights]
        sums = [a[list(some)].sum() / a.sum() for some in combinations(range(2 * b), b)]
        # chords of a convex function, which they exceed a little
        left = float(np.mean(np.interp(sums, weights, table)))
        gamma = np.array([exact_layer(n, (b, b), noise, x)[0] for n in range(2 * b + 1)])
        right = layers_of(a, gamma)
        assert left < right * (1.0 + 3e-3)
        close = max(close, left / right)
    assert close > 0.98


@cache
def pair_value(weight: float, noise: float, ratio: float) -> float:
    """E(w W_1 + (1 - w) W_2)_+, forward."""
    return vacancy_bound((weight, 1.0 - weight), 1, noise, ratio)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "batches"), [(3, 2), (5, 2), (2, 3), (6, 2)])
def test_binomial_counts_bound_layers_of_one_size(size: int, batches: int) -> None:
    """gamma(p) / p <= (R(q) - tau gamma(1)) / (1 - tau) with everything enumerated."""
    seats = (size,) * batches
    others = size * batches
    for noise, x in ((0.8, 1.0), (0.8, 3.0), (2.0, 1.2)):
        gamma = np.array([exact_layer(n, seats, noise, x)[0] for n in range(others + 1)])
        assert np.all(np.diff(gamma[1:] / np.arange(1, others + 1)) < 1e-12)
        for q in (0.2, 0.5, 0.8):
            mean = binomial_mean(seats, noise, x, q)
            for n in range(1, others + 1):
                tau = float(binom.sf(n - 1, others - 1, q)) if n < others else 0.0
                if tau < 0.95:
                    bound = (mean - tau * gamma[-1]) / (1.0 - tau)
                    assert gamma[n] * others / n < bound * (1.0 + 1e-9)


def binomial_mean(seats: tuple[int, ...], noise: float, ratio: float, q: float) -> float:
    """R(q) by enumeration of all counts."""
    total = 0.0
    for counts in product(*(range(seat + 1) for seat in seats)):
        chance = np.prod([binom.pmf(n, seat, q) for n, seat in zip(counts, seats, strict=True)])
        total += float(chance) * value_of(counts, noise, ratio)[0]
    return total / (sum(seats) * q)


@pytest.mark.parametrize(("size", "batches"), [(5, 2), (40, 2)])
@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_means_of_binomial_counts_are_enumerated_ones(
    size: int, batches: int, noise: float
) -> None:
    """R(q) on the grid of values, by contours, and by enumeration of both counts."""
    epoch = LayeredEpoch(noise, size * (batches + 1), size)
    losses = np.log(np.array([1.0, 1.5]))
    law, _ = epoch._law("forward", losses, np.full(2, 1e-3))
    for place in (0, epoch._rates.size // 2, epoch._rates.size - 1):
        rates, rows = np.full(2, place), np.arange(2)
        found = epoch._mean(law, rates, rows, np.full(2, 1e-4))
        for row, loss in enumerate(losses):
            exact = few_counts_mean(
                size, batches, noise, float(np.exp(loss)), float(epoch._rates[place])
            )
            assert exact * (1.0 - 5e-4) < found[row] < exact * (1.0 + 1e-2)


def few_counts_mean(size: int, batches: int, noise: float, ratio: float, q: float) -> float:
    """R(q) by enumeration of all likely counts of two batches."""
    chances = binom.pmf(np.arange(size + 1), size, q)
    likely = np.flatnonzero(chances > 1e-7)
    total = 0.0
    for pair in product(likely.tolist(), repeat=batches):
        if pair[0] >= pair[1]:
            ways = (1.0 if pair[0] == pair[1] else 2.0) * float(np.prod(chances[list(pair)]))
            if ways > 1e-8:
                total += ways * value_of(pair, noise, ratio)[0]
    return total / (batches * size * q)


@pytest.mark.parametrize("kind", ["forward", "backward", "replaced"])
def test_the_law_on_a_grid_keeps_its_mean_and_all_calls(kind: str) -> None:
    losses = np.log(np.array([1.0, 4.0]))
    batches = WorstBatches(1.0, kind, losses, np.full(2, 50.0), np.zeros(2))
    coarse, fine = (
        batches.spread(np.tile(np.exp(np.arange(-7.0, 12.0, step)), (2, 1))) for step in (0.1, 0.01)
    )
    for law in (coarse, fine):
        means = np.sum(law.weights * law.values, axis=1) + law.beyond
        np.testing.assert_allclose(np.sum(law.weights, axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(means, -np.expm1(losses), atol=3e-5)
    for strike in (-3.0, -0.5, 0.0, 0.1, 2.0, 50.0):
        high, low = (
            np.sum(law.weights * np.maximum(law.values - strike, 0.0), axis=1) + law.beyond
            for law in (coarse, fine)
        )
        assert np.all(low <= high + 1e-9)
        assert np.all(high < low * 1.02 + 2e-3)
    known = GaussianPair(2.0 if kind == "replaced" else 1.0)
    calls = np.sum(fine.weights * np.maximum(fine.values, 0.0), axis=1) + fine.beyond
    np.testing.assert_allclose(calls, np.exp(known.log_hockey_stick(losses)), rtol=1e-6)


@pytest.mark.parametrize("kind", ["forward", "backward", "replaced"])
def test_weights_on_a_grid_are_right_to_rounding_at_large_losses(kind: str) -> None:
    """Masses and means of the negative part in closed form; the cell next to zero is wide there."""
    noise, cells = 0.6, 160
    mu = (2.0 if kind == "replaced" else 1.0) / noise
    losses = mu * (8.7 + 0.5 * mu) * np.linspace(0.0, 1.0, 5)
    batches = WorstBatches(noise, kind, losses, np.full(5, 1000.0), np.zeros(5))
    sizes = 0.02 * np.exp(losses)[:, None] * np.exp(0.07 * np.arange(cells))
    law = batches.spread(sizes)
    np.testing.assert_allclose(np.sum(law.weights, axis=1), 1.0, rtol=1e-13)
    first, second = {"forward": (0, 1), "backward": (1, 2), "replaced": (0, 2)}[kind]
    # first - x second is below zero from here on
    start = 0.5 * (first + second) / noise - noise * losses / (second - first)
    stop = batches._places((first, second), sizes)[:, -1]
    shares = [ndtr(stop - one / noise) - ndtr(start - one / noise) for one in (first, second)]
    exact = shares[0] - np.exp(losses) * shares[1] - sizes[:, -1] * ndtr(-stop)
    below = np.sum(law.weights * np.minimum(law.values, 0.0), axis=1)
    np.testing.assert_allclose(below, exact, rtol=1e-11)


def test_layers_are_those_of_the_slopes() -> None:
    """The integral over K with the slopes of the hull, in place of the least p K + I(K) for each p."""
    epoch = LayeredEpoch(0.8, 60_000, 512)
    known = 0.468
    means = 0.251 + 0.2 / (1.0 + 10.0 * 512 * epoch._rates)
    found = epoch._layered(known, means, 0.245)
    cuts, excess = epoch._excess
    corners = np.array(lower_hull(list(zip(cuts.tolist(), excess.tolist(), strict=True))))
    slopes = -np.diff(excess[corners]) / np.diff(cuts[corners])
    tau = epoch._unlikely
    with np.errstate(divide="ignore"):
        ends = np.where(tau < 0.7, (means - tau * 0.245) / (1.0 - tau), known).min(axis=1)
    steps = np.minimum(np.append(known, ends), known)
    shares = np.append(epoch._shares, 1.0)
    fine = np.append(0.0, shares)
    values = np.append(0.0, shares * steps)
    hull = lower_hull([(float(p), -float(v)) for p, v in zip(fine, values, strict=True)])
    gamma = np.interp(slopes, fine[hull], values[hull])
    left = excess[-1] * values[hull][1] / fine[hull][1]
    assert found == pytest.approx(np.diff(cuts[corners]) @ gamma + left, rel=1e-6)


def test_one_threshold_by_another_algorithm() -> None:
    """R(q) for 100 batches of 1,000 at q = 0.003, noise 1, by powers of a transform on an even grid.

    An even grid of 2^18 places from -500 to 2,100 for the sum, with B as it is, and W in cells of 1/1000
    of its normal variable.
    """
    epoch = LayeredEpoch(1.0, 101_000, 1000)
    place = int(np.argmin(np.abs(np.log(epoch._rates / 0.003))))
    q = float(epoch._rates[place])
    losses = np.log(np.array([1.0, 1.5]))
    law, least = epoch._law("forward", losses, np.full(2, 1e-3))
    found = epoch._mean(law, np.full(2, place), np.arange(2), np.full(2, 1e-4))
    for row, x in enumerate((1.0, 1.5)):
        exact = mean_by_transform(1.0, x, 1000, 100, q)
        assert exact * (1.0 - 1e-4) < found[row] < exact * (1.0 + 2e-3)
        plain = mean_by_transform(1.0, x, 1, 100, 1.0)
        assert 0.9 * plain < least[row] < plain


def mean_by_transform(noise: float, x: float, size: int, batches: int, q: float) -> float:
    """R(q) from the law of B W rounded to an even grid, and its power by a transform."""
    length, step = 1 << 18, 0.01
    z = np.linspace(-9.0, 12.0, 20_001)
    middle = 0.5 * (z[1:] + z[:-1])
    mass = np.exp(-0.5 * middle**2) / np.sqrt(2.0 * np.pi) * np.diff(z)
    one = np.exp(middle / noise - 0.5 / noise**2)
    two = np.exp(2.0 * middle / noise - 2.0 / noise**2)
    above, below = two - x * one, 1.0 - x * one
    values = np.concatenate([above[above > 0.0], below[below < 0.0]])
    masses = np.concatenate([mass[above > 0.0], mass[below < 0.0]])
    law, beyond = np.zeros(length), 0.0
    counts = np.arange(size + 1)
    chances = binom.pmf(counts, size, q)
    for count in counts[chances > 1e-14]:
        moved = values * (count / (size * q)) / step
        cap = 0.6 * length  # one large value decides by itself
        beyond += chances[count] * float(masses @ np.maximum(moved - cap, 0.0))
        moved = np.clip(moved, -0.2 * length, cap)
        low = np.floor(moved).astype(int)
        up = moved - low
        for places, share in ((low, 1.0 - up), (low + 1, up)):
            law += chances[count] * np.bincount(places % length, masses * share, length)
    law[0] += 1.0 - law.sum()
    total = np.fft.irfft(np.fft.rfft(law) ** batches, length)
    sums = np.arange(length, dtype=float)
    sums[int(0.8 * length) :] -= length
    return (float(np.maximum(sums, 0.0) @ total) / batches + beyond) * step


def test_layers_are_below_a_revealed_order_and_above_what_is_without_a_first_batch() -> None:
    """Larger batches hide more; no batches hide more than those with a vacancy."""
    losses, known = np.array([0.0, 0.5, 1.5]), GaussianPair(1.0)
    count, tolerances = np.full(3, 100.0), np.full(3, 1e-3)
    vacancy = WorstBatches(1.0, "forward", losses, count, np.zeros(3))
    least = np.exp(vacancy.log_values(tolerances, np.full(3, -40.0))) / 100.0
    last = np.exp(known.log_hockey_stick(losses))
    for size in (10, 100, 1000, 100_000):
        value = LayeredEpoch(1.0, 101 * size, size).log_values("forward", known, losses, tolerances)
        assert np.all(np.exp(value) < last)
        last = np.exp(value)
    assert np.all(last > least)
    assert np.all(last < 1.1 * least)


@pytest.mark.parametrize("noise", [0.8, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_many_batches_stay_below_their_layers(kind: str, noise: float) -> None:
    """E over places and results of Gamma(w) by simulation, 20 batches of 50, six deviations of it."""
    rng = np.random.default_rng(23)
    batches, size = 20, 50
    epoch = LayeredEpoch(noise, size * (batches + 1), size)
    known = GaussianPair(1.0 / noise)
    loss = np.zeros(1)
    bound = float(np.exp(epoch.log_values("forward", known, loss, np.full(1, 1e-3))[0]))
    bound -= float(np.exp(known.log_hockey_stick(loss)[0])) / (batches + 1)
    vectors, shares = types(kind, rng)
    a = ratios_of(vectors, shares, noise, rng, 4000)
    counts = rng.multinomial(batches * size, shares)
    seats = rng.multivariate_hypergeometric(counts, size, size=(4000, batches))
    weights = np.einsum("ij,itj->it", a, seats)
    weights /= weights.sum(axis=1, keepdims=True)
    values = np.maximum(np.sum(weights * draws_of(noise, weights.shape, rng), axis=1), 0.0)
    left = values.mean() - 6.0 * values.std() / np.sqrt(values.size)
    assert left < bound / (1.0 - 1.0 / (batches + 1))


def draws_of(noise: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Independent W at x = 1, forward: its two signs are apart, at either end of a normal variable."""
    z = rng.normal(size=shape)
    one = np.exp(np.abs(z) / noise - 0.5 / noise**2)
    two = np.exp(2.0 * np.abs(z) / noise - 2.0 / noise**2)
    return np.where(z > 0.0, np.maximum(two - one, 0.0), np.minimum(1.0 - one, 0.0))


@pytest.mark.parametrize("batches", [2, 3, 10])
@pytest.mark.parametrize("adjacency", [dp.Adjacency.ZERO_OUT, dp.Adjacency.REPLACE_ONE])
def test_few_batches_are_above_what_is_attained(batches: int, adjacency: dp.Adjacency) -> None:
    """With the first batch, which is a large share of few; the last one of three is smaller."""
    scheme = dp.ShuffledBatches(
        dataset_size=batches * 1000 - batches % 2, batch_size=1000, epochs=1
    )
    ((attained, _),) = ratio_test_lower(dp.DPSGD(scheme, noise_multiplier=2.0), adjacency)
    replaced = adjacency is dp.Adjacency.REPLACE_ONE
    known = GaussianPair((2.0 if replaced else 1.0) / 2.0)
    epoch = LayeredEpoch(2.0, scheme.dataset_size, 1000)
    losses = np.array([0.0, 0.1, 0.5, 1.0])
    for pair, kind in ((attained, "forward"), (attained.reverse(), "backward")):
        kind = "replaced" if replaced else kind
        upper = epoch.log_values(kind, known, losses, np.full(4, 1e-2))
        assert np.all(pair.log_hockey_stick(losses) < upper)
        assert np.all(upper < known.log_hockey_stick(losses) + 0.2)
