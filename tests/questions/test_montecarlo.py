"""Estimates from draws: they cover the truth as often as stated, and do not depend on who draws.

Unless said otherwise a check has confidence 1 - 1e-10, which is its false-alarm probability; seeds are
fixed.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from statistics import NormalDist

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

import sharpdp as dp
from sharpdp.questions.estimate import allocated_epoch
from sharpdp.questions.estimate.allocated_epoch import (
    AllocationRun,
    log_symmetric_mean,
    log_symmetric_mean_by_coins,
)
from sharpdp.questions.estimate.confidence import Bets, best_bets, counted, mean_lower, mean_upper
from sharpdp.questions.estimate.draws import Counts, DrawCache, Task, Weights, payoff
from sharpdp.questions.estimate.estimates import Estimation, _default_samples
from sharpdp.questions.estimate.experiment import (
    Direction,
    Draws,
    GaussianRun,
    PoissonRun,
    Product,
    Tilt,
)
from sharpdp.questions.estimate.pairs import product_of
from sharpdp.questions.estimate.shuffled import ShuffledRun
from sharpdp.questions.estimate.single_precision import ERROR, single_normals
from sharpdp.questions.estimate.tokens_in_bins import log_moments, tokens

SURE = 1 - 1e-10
PHI = NormalDist().cdf


def gaussian_delta(mu: float, epsilon: float) -> float:
    return PHI(mu / 2 - epsilon / mu) - math.exp(epsilon) * PHI(-mu / 2 - epsilon / mu)


def call(mean: float, deviation: float, strike: float) -> float:
    """E (c U - K)_+ for a lognormal c U of mean `mean`."""
    if strike <= 0:
        return mean - strike
    d = (math.log(mean / strike) + deviation**2 / 2) / deviation
    return mean * PHI(d) - strike * PHI(d - deviation)


def one_of_two(mu: float, epsilon: float) -> tuple[float, float]:
    """Both directions for one of two steps: the first normal by quadrature, the second in closed form."""

    def density(y: float) -> float:
        return math.exp(-y * y / 2) / math.sqrt(2 * math.pi)

    def half(y: float) -> float:
        return 0.5 * math.exp(mu * y - mu * mu / 2)

    level = math.exp(epsilon)

    def removed(y: float) -> float:
        return density(y) * call(0.5, mu, level - half(y))

    def added(y: float) -> float:  # a put by parity: (K - x)_+ = (x - K)_+ + K - x
        strike = 1 - level * half(y)
        return density(y) * (call(level * 0.5, mu, strike) + strike - level * 0.5)

    kinks = [(math.log(2 * level) + mu * mu / 2) / mu, (math.log(2 / level) + mu * mu / 2) / mu]
    found = [
        quad(one, -12, 14, points=kinks, epsabs=1e-14, limit=400)[0] for one in (removed, added)
    ]
    return found[0], found[1]


def balls(bins: int, noise: float, epochs: int = 1) -> dp.DPSGD:
    plan = dp.BallsAndBins(dataset_size=10 * bins, batch_size=10, epochs=epochs)
    return dp.DPSGD(plan, noise_multiplier=noise)


def allocated(steps: int, participations: int, noise: float) -> dp.DPSGD:
    plan = dp.RandomAllocation(steps=steps, participations=participations)
    return dp.DPSGD(plan, noise_multiplier=noise)


def poisson(rate: float, steps: int, noise: float) -> dp.DPSGD:
    return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=noise)


@pytest.mark.parametrize("method", ["weights", "counts"])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.5])
def test_gaussian_noise_in_closed_form(epsilon: float, method: str) -> None:
    answer = dp.estimate(
        dp.Gaussian(1.0), epsilon=epsilon, samples=20_000, confidence=SURE, rng=3, method=method
    )
    assert gaussian_delta(1.0, epsilon) in answer
    assert answer.rigor is dp.Rigor.MONTE_CARLO
    assert answer.confidence == SURE
    assert answer.relative_width < (0.2 if method == "weights" else 0.7)


def test_bets_are_narrower_than_counts() -> None:
    widths = [
        dp.estimate(dp.Gaussian(1.0), epsilon=2.0, samples=20_000, rng=3, method=method).width
        for method in ("weights", "counts")
    ]
    assert 3 * widths[0] < widths[1]


@pytest.mark.parametrize("epsilon", [10.0, 22.0])
def test_tiny_deltas(epsilon: float) -> None:
    """One bin hides nothing: Gaussian noise, whose delta is 4e-6 and 5e-24 there; by mpmath."""
    with mpmath.workdps(60):
        mu = mpmath.mpf(2)
        near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        exact = float(mpmath.ncdf(near) - mpmath.exp(epsilon) * mpmath.ncdf(far))
    product = Product(((AllocationRun(1, 1, 2.0), 1),))
    quiet = Estimation(product, 3, 10_000, -25.0, DrawCache(), None, lambda *_: None, "weights")
    low, high = quiet._delta(Direction.WITH_RECORD, epsilon)
    assert low < exact < high < 1.5 * low
    answer = dp.estimate(dp.Gaussian(0.5), epsilon=epsilon, samples=10_000, confidence=SURE, rng=3)
    assert exact in answer
    assert answer.relative_width < 0.5


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
def test_one_of_two_steps_by_quadrature(epsilon: float) -> None:
    answer = dp.estimate(balls(2, 0.8), epsilon=epsilon, samples=20_000, confidence=SURE, rng=5)
    assert max(one_of_two(1.25, epsilon)) in answer
    assert answer.relative_width < 0.3


@pytest.mark.parametrize("epsilon", [0.1, 0.7])
def test_every_tilt_of_both_directions_is_unbiased(epsilon: float) -> None:
    """Seven standard errors: 2.6e-12 each, among at most 300."""
    run = AllocationRun(2, 1, 1.25)
    for direction, exact in zip(Direction, one_of_two(1.25, epsilon), strict=True):
        product = Product(((run, 1),))
        tried = 0
        for place, tilt in enumerate(run.tilts(direction)):
            log_top = product.log_range(direction, tilt, epsilon)
            if log_top > math.log(30 * exact):
                continue  # hardly any draw would matter
            draws = product.draw(np.random.default_rng(place), 4000, direction, tilt)
            paid = payoff(draws, epsilon, 0.0)
            assert np.max(paid) <= math.exp(log_top) * (1 + 1e-9), tilt
            assert abs(np.mean(paid) - exact) < 7 * np.std(paid) / math.sqrt(4000), tilt
            tried += 1
        assert tried >= 4


def test_all_of_the_steps_are_gaussian_noise() -> None:
    answer = dp.estimate(allocated(3, 3, 2.0), epsilon=0.8, samples=20_000, confidence=SURE, rng=1)
    assert gaussian_delta(math.sqrt(3) / 2, 0.8) in answer


@pytest.mark.parametrize(("delta", "value", "width"), [(1e-2, 2.5975, 0.03), (1e-6, 5.681, 0.06)])
def test_two_of_four_steps(delta: float, value: float, width: float) -> None:
    """The specification, 5.2: quasi Monte Carlo over 2^24 points."""
    answer = dp.estimate(allocated(4, 2, 1.0), delta=delta, samples=40_000, confidence=SURE, rng=2)
    assert value in answer
    assert answer.relative_width < width


@pytest.mark.parametrize(
    ("bins", "noise", "epochs", "lower", "upper"),
    [
        (1000, 0.35, 1, 10.16866, 10.16939),
        (1000, 0.8, 1, 0.450005, 0.450093),
        (1000, 1.0, 10, 0.540039, 0.540074),
    ],
)
def test_balls_and_bins_of_the_specification(
    bins: int, noise: float, epochs: int, lower: float, upper: float
) -> None:
    """The specification, 6.2: brackets by convex order. Neither may lie beside the other."""
    run = balls(bins, noise, epochs)
    answer = dp.estimate(run, delta=1e-6, samples=1_000, confidence=SURE, rng=4)
    assert answer.lower < upper
    assert answer.upper > lower
    assert answer.relative_width < 0.3


@pytest.mark.parametrize(
    ("noise", "delta", "value"), [(0.8, 1e-6, 0.467690), (0.7, 1e-5, 0.6089493)]
)
def test_poisson_batches_of_the_specification(noise: float, delta: float, value: float) -> None:
    run = poisson(1e-3, 1000, noise)
    answer = dp.estimate(run, delta=delta, samples=2_000, confidence=SURE, rng=6)
    assert value in answer


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (allocated(100, 5, 1.0), 1e-6),
        (allocated(10, 3, 0.7), 1e-3),
        (balls(20, 0.6, 3), 1e-4),
        (poisson(0.05, 40, 0.9), 1e-5),
        (
            dp.DPSGD(
                dp.ShuffledBatches(dataset_size=40, batch_size=4, epochs=1), noise_multiplier=1.0
            ),
            1e-4,
        ),
        (
            dp.DPSGD(
                dp.ShuffledBatches(
                    dataset_size=23, batch_size=5, epochs=2, order="kept", drop_last=True
                ),
                noise_multiplier=1.5,
            ),
            1e-3,
        ),
    ],
    ids=["5 of 100", "3 of 10", "balls", "Poisson", "shuffled", "kept"],
)
def test_certified_brackets_and_intervals_agree(run: dp.DPSGD, delta: float) -> None:
    """They enclose one number, so neither lies beside the other."""
    certified = dp.account(run, adjacency="zero-out").epsilon(delta=delta)
    drawn = dp.estimate(
        run, delta=delta, samples=8_000, confidence=SURE, rng=9, adjacency="zero-out"
    )
    assert drawn.lower <= certified.upper
    assert drawn.upper >= certified.lower
    assert drawn.lower > 0.75 * certified.lower


def test_intervals_cover_as_often_as_stated() -> None:
    """Of 30 intervals of confidence 0.9 so many miss with probability 1e-10 at most."""
    known = {
        "gaussian": (dp.Gaussian(1.0), gaussian_delta(1.0, 1.5)),
        "balls": (balls(2, 0.8), max(one_of_two(1.25, 1.5))),
    }
    for method, (run, exact) in itertools.product(("weights", "counts"), known.values()):
        missed = sum(
            exact
            not in dp.estimate(
                run, epsilon=1.5, samples=1000, confidence=0.9, rng=seed, method=method
            )
            for seed in range(30)
        )
        assert missed <= most_missed(30, 0.1), method


def most_missed(runs: int, risk: float) -> int:
    """The number of misses that is exceeded with probability 1e-10 at most."""
    tail, number = 1.0, -1
    while tail > 1e-10:
        number += 1
        tail -= math.comb(runs, number) * risk**number * (1 - risk) ** (runs - number)
        tail = max(tail, 0.0)
    return number


def test_epsilons_cover_as_often_as_stated() -> None:
    missed = 0
    for seed in range(15):
        answer = dp.estimate(dp.Gaussian(1.0), delta=1e-3, samples=1000, confidence=0.9, rng=seed)
        low, high = (gaussian_delta(1.0, float(end)) for end in (answer.lower, answer.upper))
        missed += not high <= 1e-3 <= low
    assert missed <= most_missed(15, 0.1)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_workers_do_not_matter(pool: type[Executor]) -> None:
    alone = dp.estimate(balls(20, 0.7, 2), delta=1e-4, samples=5000, rng=8)
    with pool(2) as executor:  # type: ignore[call-arg]
        together = dp.estimate(
            balls(20, 0.7, 2), delta=1e-4, samples=5000, rng=8, executor=executor
        )
    assert alone == together


def test_an_interrupted_run_goes_on() -> None:
    whole = dp.estimate(balls(20, 0.7), epsilon=1.0, samples=9000, rng=8)
    cache, seen = dp.montecarlo.DrawCache(), []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if done == 8192:
            raise KeyboardInterrupt

    given = {"epsilon": 1.0, "samples": 9000, "rng": 8}
    with pytest.raises(KeyboardInterrupt):
        dp.estimate(balls(20, 0.7), cache=cache, progress=stop, **given)  # type: ignore[arg-type]
    assert len(cache) == 2
    assert dp.estimate(balls(20, 0.7), cache=cache, **given) == whole  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match="cache must belong to the same question"):
        dp.estimate(balls(20, 0.7), epsilon=1.1, samples=9000, rng=8, cache=cache)


@pytest.mark.parametrize("rng", [8, None])
def test_what_was_drawn_before_an_interruption_is_kept(rng: int | None) -> None:
    """Without a cache, too: the same call draws only what is missing."""
    run, seen = balls(20, 0.7), []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if done == 8192:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dp.estimate(run, epsilon=1.0, samples=9000, rng=rng, progress=stop)
    other = dp.estimate(run, epsilon=1.0, samples=500, rng=rng, progress=lambda *_: None)
    assert "500 draws" in str(other)
    seen.clear()
    again = dp.estimate(
        run, epsilon=1.0, samples=9000, rng=rng, progress=lambda *a: seen.append(a[0])
    )
    assert seen[0] == 9000
    if rng is not None:
        assert again == dp.estimate(run, epsilon=1.0, samples=9000, rng=rng)


@pytest.mark.parametrize(
    ("run", "draws"),
    [
        (dp.Gaussian(1.0), 100_000),
        (balls(1000, 1.0), 100_000),
        (allocated(2000, 655, 10.0), 4_000),
        (poisson(1e-3, 10**4, 1.0), 8_000),
        (balls(8 * 10**6, 1.0), 1_000),
    ],
)
def test_the_default_work_is_bounded(run: dp.DPSGD, draws: int) -> None:
    product = product_of(run, run.adjacency(None))
    assert _default_samples(product) == draws
    assert draws == 1000 or draws * product.work <= 5e8


def test_normals_in_single_precision_are_near_real_ones() -> None:
    """By the same words in double precision, at both ends of what the bits not drawn may be."""
    size = 2**18
    found = single_normals(np.random.Generator(np.random.SFC64(5)), 2 * size).astype(float)
    same = np.random.Generator(np.random.SFC64(5))
    words = np.asarray(same.bit_generator.random_raw(size)).view(np.uint32).astype(np.int64)
    radial, angles = words[:size] >> 1, words[size:]
    extreme = (radial < 2**23) | (radial > 2**31 - 2**25)
    rest = np.where(extreme, 0.0, 0.5)
    upper = radial[extreme] >= 2**30
    drawn = 1.0 - same.random(int(extreme.sum()))
    rest[extreme] = np.where(upper, 1.0 - drawn, drawn)
    worst = 0.0
    for radial_end, angle_end in itertools.product((-0.5, 0.5), (0.0, 1.0)):
        share = (radial + rest + np.where(extreme, 0.0, radial_end)) * 2.0**-31
        radius = np.sqrt(-2.0 * np.log(np.clip(share, 2.0**-90, None)))
        angle = 2.0 * math.pi * (angles + angle_end) * 2.0**-32
        exact = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        worst = max(worst, float(np.max(np.abs(found - exact))))
    assert 2.0**-22 < worst < ERROR / 2
    assert abs(np.mean(found)) < 7 / math.sqrt(2 * size)
    assert abs(np.mean(found**2) - 1.0) < 7 * math.sqrt(2.0 / (2 * size))
    assert abs(np.mean(found**4) - 3.0) < 7 * math.sqrt(96.0 / (2 * size))


def test_extreme_words_draw_further_bits() -> None:
    """u next to 0 gives large normals, next to 1 small ones; neither end is reached."""

    class Words:
        def __init__(self, word: int) -> None:
            self.word, self.rng = word, np.random.default_rng(3)
            self.bit_generator = self

        def random_raw(self, size: int) -> np.ndarray:  # type: ignore[type-arg]
            return np.full(size, self.word, dtype=np.uint64)

        def random(self, size: int) -> np.ndarray:  # type: ignore[type-arg]
            return self.rng.random(size)

    small = np.abs(single_normals(Words(2**64 - 1), 2000))  # type: ignore[arg-type]
    large = single_normals(Words(0), 2000)  # type: ignore[arg-type]
    assert np.unique(large).size > 900
    assert 6.5 < np.max(np.abs(large)) < 8.0
    assert 0.0 < np.max(small) < 5e-5


@pytest.mark.parametrize("direction", list(Direction))
def test_single_and_double_precision_draw_from_one_law(
    direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven standard errors for tilts of every order, and of many cuts, whose payoffs are not rare."""
    # so many that the steps which a tilt leaves alone are drawn in single precision for most of them
    steps = allocated_epoch.FEWEST_SINGLES + 48
    product, epsilon, tried = Product(((AllocationRun(steps, 1, 0.8), 2),)), 0.1, 0
    ranges = product.ranges(direction, epsilon)
    apart = 1 + len(ranges) // 100  # neighboring cuts differ by little
    for place, tilt in list(enumerate(ranges))[::apart]:
        if ranges[tilt] > min(ranges.values()) + math.log(30):
            continue  # hardly any draw would matter
        draws = product.draw(np.random.Generator(np.random.SFC64(place)), 4000, direction, tilt)
        monkeypatch.setattr(allocated_epoch, "FEWEST_SINGLES", 10**9)
        double = product.draw(np.random.default_rng(place), 4000, direction, tilt)
        monkeypatch.undo()
        assert np.all(np.asarray(double.error) == 0.0)
        paid, other = payoff(draws, epsilon, 0.0), payoff(double, epsilon, 0.0)
        error = math.sqrt((np.var(paid) + np.var(other)) / 4000)
        assert abs(np.mean(paid) - np.mean(other)) < 7 * error, tilt
        assert np.mean(np.isinf(draws.error)) < 0.01
        tried += bool(np.any(np.asarray(draws.error) > 0.0))  # in single precision
    assert tried >= 4


def test_draws_of_which_nothing_is_known_widen_the_interval() -> None:
    """They count as nothing below, and as the whole range above."""
    bets = Bets((0.5,), (1.0,))
    score = Weights((1.0,), (0.0,), 2.0, (bets,), (bets,))
    draws = Draws(np.array([2.0, 2.0]), np.zeros(2), 0.0)
    gain, loss = score.sums(draws, np.random.default_rng(1), np.array([0.0, np.inf]))[0]
    paid = 1.0 - math.exp(-1.0)
    assert gain == pytest.approx(math.log1p(0.5 * paid), rel=1e-12)
    assert loss == pytest.approx(math.log1p(-0.5 * paid) + math.log1p(-0.5), rel=1e-12)
    low, high = Counts((1.0,)).sums(draws, np.random.default_rng(4), np.array([0.0, np.inf]))[0]
    assert high >= low + 1 or (low, high) == (0.0, 1.0)


def test_tokens_are_counted_right() -> None:
    """All ways to throw three tokens into three bins, the first with a token in it."""
    mu = 0.7
    ways = itertools.product(range(3), repeat=3)
    counts = [[1 + way.count(0), way.count(1), way.count(2)] for way in ways]
    weights = [math.exp(mu**2 * sum(n * (n - 1) / 2 for n in one)) for one in counts]
    found = float(log_moments(bins=3, marked=1, last=3, mu=mu)[3])
    assert found == pytest.approx(math.log(sum(weights)), rel=1e-12)
    expected = sum(w for w, one in zip(weights, counts, strict=True) if one[0] == 1) / sum(weights)
    draws = 400_000
    drawn = tokens(bins=3, marked=1, thrown=3, mu=mu).draw(np.random.default_rng(1), draws)
    assert (drawn.sum(axis=1) == 4).all()
    share = np.mean(drawn[:, 0] == 1)
    assert abs(share - expected) < 7 * math.sqrt(expected * (1 - expected) / draws)


@pytest.mark.parametrize("size", [1.0, 300.0])
def test_symmetric_means_of_any_size(size: float) -> None:
    rows = size * np.random.default_rng(2).normal(size=(4, 7))
    for chosen in (1, 2, 5, 7):
        every = [
            [sum(row[list(c)]) for c in itertools.combinations(range(7), chosen)] for row in rows
        ]
        expected = [np.logaddexp.reduce(one) - math.log(len(one)) for one in every]
        assert log_symmetric_mean(rows, chosen) == pytest.approx(np.array(expected), rel=1e-12)
        if chosen < 7:
            by_coins = log_symmetric_mean_by_coins(rows, chosen)
            assert by_coins == pytest.approx(np.array(expected), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("steps", "chosen"), [(40, 17), (300, 290), (400, 131), (2000, 655)])
@pytest.mark.parametrize("size", [0.05, 1.0, 4.0])
def test_symmetric_means_of_many_numbers(steps: int, chosen: int, size: float) -> None:
    """By the recursion in logarithms, which is slow and has only positive terms."""
    rows = size * np.random.default_rng(steps).normal(size=(2, steps))
    means = np.full((chosen + 1, 2), -np.inf)
    means[0] = 0.0
    j = np.arange(1.0, chosen + 1.0)[:, None]
    for t in range(1, steps + 1):
        with np.errstate(divide="ignore"):
            stay, join = np.log(np.maximum(1.0 - j / t, 0.0)), np.log(np.minimum(j / t, 1.0))
        means[1:] = np.logaddexp(stay + means[1:], join + rows[:, t - 1] + means[:-1])
        means[t + 1 :] = -np.inf
    error = 64 * 2.0**-53 * (1024 + steps * chosen)
    found = log_symmetric_mean(rows, chosen)
    assert np.max(np.abs(found - means[chosen])) < error + 1e-13 * np.max(np.abs(found))


def test_symmetric_means_where_heads_are_rare() -> None:
    """17 sure heads and 1000 coins that show one: Poisson tails. The sums are exact fractions of e^60."""
    rows = np.concatenate([np.full(17, 60.0), np.zeros(1000)])[None, :]
    # e_18 = C(17, 17) e^1020 1000 + C(17, 16) e^960 C(1000, 2) + ...
    terms = [
        math.log(math.comb(17, 17 - j)) + 60.0 * (17 - j) + math.log(math.comb(1000, 1 + j))
        for j in range(4)
    ]
    expected = np.logaddexp.reduce(terms) - math.log(math.comb(1017, 18))
    assert log_symmetric_mean(rows, 18)[0] == pytest.approx(expected, abs=2e-11)


@pytest.mark.parametrize("slowness", [0.02, 0.6], ids=["few refused", "many refused"])
def test_kept_ratios_have_their_law(slowness: float) -> None:
    """E U e^(-s U) / E e^(-s U) by quadrature; seven standard errors of 4 million numbers."""
    mu, rows, steps = 1.0, 4000, 1000

    def integral(power: int) -> float:
        def integrand(y: float) -> float:
            u = math.exp(mu * y - mu * mu / 2)
            return u**power * math.exp(-slowness * u - y * y / 2)

        return float(quad(integrand, -12, 12, epsabs=1e-13, limit=300)[0])

    whole, mean, square = (integral(power) for power in range(3))
    rng = np.random.Generator(np.random.SFC64(7))
    log_mean, error = allocated_epoch._kept(rng, mu, np.full(rows, slowness), steps)
    deviation = math.sqrt((square / whole - (mean / whole) ** 2) / (rows * steps))
    assert abs(np.mean(np.exp(log_mean)) - mean / whole) < 7 * deviation
    # single precision cannot decide some, and says so; in double precision all is decided
    assert (0 < np.count_nonzero(np.isinf(error)) < 60) == (slowness == 0.02)
    assert np.all(error > 0.0) == (slowness == 0.02)


def test_errors_of_draws_reach_the_sums() -> None:
    class Unknown:
        loss_error = 0.0

        def draw(self, rng: object, samples: int, *_: object) -> Draws:
            return Draws(np.full(samples, 5.0), np.zeros(samples), np.full(samples, np.inf))

    bets = Bets((0.5,), (1.0,))
    score = Weights((1.0,), (0.0,), 0.0, (bets,), (bets,))
    task = Task(Unknown(), Direction.WITH_RECORD, Tilt(0.0), score, 1, (0,), 8)  # type: ignore[arg-type]
    assert task.run().tolist() == [[0.0, pytest.approx(8 * math.log(0.5))]]


def test_shuffled_batches_of_one_step_hide_nothing() -> None:
    """With one batch the pair is N(2 mu, 1) against N(mu, 1), whatever the tilt."""
    run = Product(((ShuffledRun(1, 1.0, 1.0, 1.0), 1),))
    for tilt in run.tilts(Direction.WITH_RECORD)[:6]:
        draws = run.draw(np.random.default_rng(3), 20_000, Direction.WITH_RECORD, tilt)
        paid = payoff(draws, 1.0, 0.0)
        assert abs(np.mean(paid) - gaussian_delta(1.0, 1.0)) < 7 * np.std(paid) / math.sqrt(20_000)


def test_the_interval_of_clopper_and_pearson() -> None:
    """Printed in tables: 5 of 20 at 95 % is 0.0866 to 0.4910."""
    lower, upper = counted(5, 20, math.log(0.025))
    assert (lower, upper) == pytest.approx((0.0866, 0.4910), abs=5e-5)
    assert counted(20, 20, math.log(0.5))[1] == 1.0


def test_betting_on_coins_is_as_good_as_chernoff() -> None:
    """For coins the best bet gives the bound exp(-draws kl(mean, m)); others only cost log 24."""
    draws, heads, log_risk = 10_000, 100, math.log(1e-3)
    coins = np.zeros(draws)
    coins[:heads] = 1.0
    lower, upper = best_bets(coins, draws, log_risk)
    ends = [
        mean_lower(log_sums(coins, lower, 1), lower, draws, log_risk),
        mean_upper(log_sums(coins, upper, -1), upper, draws, log_risk),
    ]
    mean = heads / draws
    for end in ends:
        entropy = mean * math.log(mean / end) + (1 - mean) * math.log((1 - mean) / (1 - end))
        assert -log_risk <= draws * entropy <= -log_risk + math.log(24) + 0.2
    assert ends[0] < mean < ends[1]


def log_sums(draws: np.ndarray, bets: Bets, sign: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([np.sum(np.log1p(sign * amount * draws)) for amount in bets.amounts])


def test_moments_of_poisson_steps() -> None:
    """E w^2 = 1 + q^2 (e^(mu^2) - 1), and E w^-a by quadrature."""
    run = PoissonRun(0.2, 1.5)
    second = run.log_moment(Direction.WITH_RECORD, Tilt(1.0))
    assert second == pytest.approx(math.log1p(0.04 * math.expm1(2.25)), rel=1e-12)

    def integrand(y: float) -> float:
        w = 0.8 + 0.2 * math.exp(1.5 * y - 1.125)
        return float(w**-2.5 * math.exp(-y * y / 2) / math.sqrt(2 * math.pi))

    exact = quad(integrand, -12, 12, epsabs=1e-14, limit=200)[0]
    assert run.log_moment(Direction.WITHOUT_RECORD, Tilt(2.5)) == pytest.approx(
        math.log(exact), abs=1e-10
    )
    assert GaussianRun(0.5).log_moment(Direction.WITHOUT_RECORD, Tilt(3.0)) == 1.5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epsilon": None}, "exactly one of epsilon and delta must be given; got neither"),
        ({"delta": 1e-5}, "exactly one of epsilon and delta must be given; got both"),
        ({"epsilon": math.nan}, "epsilon must be a finite number, at least 0; got nan"),
        ({"epsilon": -1.0}, "epsilon must be a finite number, at least 0; got -1.0"),
        ({"epsilon": None, "delta": 1.0}, "delta must be in"),
        ({"samples": 3}, "samples must be a whole number, at least 100; got 3"),
        ({"samples": 1e3 + 0.5}, "samples must be a whole number"),
        ({"confidence": 1.0}, "confidence must be in"),
        ({"confidence": "0.9"}, "confidence must be in"),
        ({"method": "guess"}, "method must be weights or counts; got 'guess'"),
        ({"rng": "seed"}, "rng must be a seed"),
        ({"rng": -1}, "rng must be a seed .* Leave the sign out"),
        ({"cache": {}}, "cache must be a DrawCache; got {}"),
        ({"mechanism": 3}, "mechanism must be a mechanism; got 3"),
        ({"mechanism": dp.Laplace(1.0)}, "no draws are known for Laplace"),
        ({"mechanism": balls(5, 1e-3)}, "draws need a noise multiplier from 0.05"),
        ({"mechanism": balls(10**9, 1.0)}, "at most 8388608 steps in an epoch"),
    ],
)
def test_wrong_questions(change: dict[str, object], sentence: str) -> None:
    given = {"mechanism": dp.Gaussian(1.0), "epsilon": 1.0, **change}
    with pytest.raises(dp.SharpDPError, match=sentence):
        dp.estimate(given.pop("mechanism"), **given)  # type: ignore[arg-type]


def test_the_answer_says_how_sure_it_is() -> None:
    text = str(dp.estimate(dp.Gaussian(1.0), epsilon=1.0, samples=1000, rng=1))
    assert text.endswith("neighboring inputs, 1000 draws, Monte Carlo with confidence 0.99")
