"""Random numbers that users hand in, at their last bits: sums off by units, subnormals, equal rows.

Every answer is compared with the exact one for the doubles that were given: fractions, 320-bit balls
or sums of closed forms in 50 digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, log, nextafter

import mpmath
import numpy as np
import pytest
from flint import arb

import sharpdp as dp
from sharpdp.mechanisms import BlanketRandomizer, ProfileMechanism
from sharpdp.numerics.contour import Chernoff, Contour
from sharpdp.questions.estimate.confidence import SUM_ERROR
from sharpdp.questions.estimate.draws import Task
from sharpdp.questions.estimate.experiment import (
    PLAIN,
    STRENGTHS,
    Direction,
    Draws,
    GaussianRun,
    Product,
    Tilt,
)
from tests.wild.exact import Exact

mpmath.mp.dps = 50
Rng = np.random.Generator
Law = list[Fraction]

TINY = [5e-324, 1e-310, 2.2250738585072014e-308, 1e-200, 1e-60, 2.0**-53, 1e-12, 1e-6]
COUNTS = {"quick": range(3), "long": range(3, 60)}


def seeds(check: Callable[[int], None]) -> Callable[[int], None]:
    """The check for a few seeds, and for many more if slow tests are run."""
    many = [pytest.param(seed, marks=pytest.mark.slow) for seed in COUNTS["long"]]
    return pytest.mark.parametrize("seed", [*COUNTS["quick"], *many])(check)


def nudged(rng: Rng, value: float) -> float:
    """A double up to three units away, not below 0."""
    for _ in range(int(rng.integers(0, 4))):
        value = max(nextafter(value, float(rng.choice([0.0, 1.0]))), 0.0)
    return value


def masses(rng: Rng, size: int) -> list[float]:
    """Masses of very different sizes whose sum is one up to some units."""
    found = rng.dirichlet(np.full(size, float(rng.choice([0.3, 1.0, 5.0])))).tolist()
    for place in rng.permutation(size)[: int(rng.integers(0, size))].tolist():
        found[place] = float(rng.choice(TINY)) * float(rng.choice([1.0, 3.0]))
    largest = int(np.argmax(found))
    found[largest] = 1.0 - sum(found[:largest] + found[largest + 1 :])
    return [nudged(rng, one) for one in found]


def beside(rng: Rng, p: list[float]) -> list[float]:
    """Another law: the same up to units, close, or unrelated."""
    kind = rng.integers(0, 4)
    if kind == 0:
        return [nudged(rng, one) for one in p]
    if kind == 1:
        return masses(rng, len(p))
    spread = 10.0 ** -float(rng.uniform(0.0, 15.0))
    found = [one * exp(spread * float(rng.uniform(-1.0, 1.0))) for one in p]
    total = sum(found)
    found = [one / total for one in found]
    return found if kind == 2 else [nudged(rng, one) for one in found]


def settled(given: tuple[float, ...]) -> Law:
    """The masses divided by their sum, exactly."""
    whole = [Fraction(one) for one in given]
    return [one / sum(whole) for one in whole]


def ball(x: Fraction) -> arb:
    return arb(x.numerator) / arb(x.denominator)


def exactly(*steps: tuple[Law, Law, int]) -> Exact:
    Exact([])  # sets the precision
    return Exact([([*map(ball, p)], [*map(ball, q)], count) for p, q, count in steps])


def contains(bracket: dp.Bracket, truth: arb) -> bool:
    """Whether the truth may be inside: false only if it certainly is not."""
    return not (arb(float(bracket.lower)) > truth or arb(float(bracket.upper)) < truth)


def asked_of(rng: Rng, exact: Exact) -> list[float]:
    """Thresholds: zero, tiny, next to losses and between them."""
    losses = [abs(float((p / q).log())) for p, q in exact.whole if p > 0 and q > 0]
    chosen = [float(rng.choice(losses))] if losses else []
    near = [nextafter(one, way) for one in chosen for way in (0.0, inf)]
    return [0.0, 1e-17, *chosen, *near, float(rng.uniform(0.0, 3.0))]


def check_finite(answer: dp.Guarantee, exact: Exact, rng: Rng) -> None:
    for epsilon in asked_of(rng, exact):
        found = answer.delta(epsilon=epsilon)
        assert contains(found, exact.delta(epsilon)), (epsilon, found, exact.delta(epsilon))
    for fpr in (0.0, float(rng.uniform(0.0, 1.0)), 10.0 ** -float(rng.uniform(1.0, 300.0))):
        found = answer.tpr(fpr=fpr)
        assert contains(found, exact.tpr(fpr)), (fpr, found, exact.tpr(fpr))
    delta = float(exact.delta(float(rng.uniform(0.0, 1.0))).mid())
    for target in (delta, nextafter(delta, 0.0), float(rng.uniform(0.0, 0.5))):
        if not 0.0 < target < 1.0:
            continue
        found = answer.epsilon(delta=target)
        low, high = float(found.lower), float(found.upper)
        assert high == inf or not exact.delta(high) > arb(target), (target, found)
        if low > 0.0:
            before = low if low < inf else 2.0 * exact.largest_loss() + 1.0
            assert not exact.delta(nextafter(before, 0.0)) < arb(target), (target, found)


@seeds
def test_finite_pairs(seed: int) -> None:
    """Masses with sums off by units, subnormal ones, laws that differ by units; composed too."""
    rng = np.random.default_rng([seed, 101])
    steps, run = [], None
    for _ in range(1 if seed in COUNTS["quick"] else int(rng.choice([1, 1, 2]))):
        p = masses(rng, int(rng.integers(2, 5)))
        one = dp.FinitePair(p=p, q=beside(rng, p))
        count = int(rng.integers(1, 4))
        steps.append((settled(one.p), settled(one.q), count))
        run = one * count if run is None else run + one * count
    check_finite(dp.account(run), exactly(*steps), rng)


@seeds
def test_mixtures_of_finite_pairs(seed: int) -> None:
    """Weights whose sum is off by units: the largest one takes what is missing."""
    rng = np.random.default_rng([seed, 102])
    size, points = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    ps = [masses(rng, points) for _ in range(size)]
    parts = [dp.FinitePair(p=p, q=beside(rng, p)) for p in ps]
    weights = masses(rng, size)
    index = str(rng.choice(["hidden", "released"]))
    run = dp.Mixture(components=parts, weights=weights, index=index)
    shares = settled(run.weights)
    laws = [(settled(one.p), settled(one.q)) for one in parts]
    p, q = (
        [[w * m for m in law[side]] for w, law in zip(shares, laws, strict=True)] for side in (0, 1)
    )
    if index == "hidden":
        seen = [[sum(column) for column in zip(*side, strict=True)] for side in (p, q)]
    else:
        seen = [[m for row in side for m in row] for side in (p, q)]
    check_finite(dp.account(run), exactly((*seen, 1)), rng)


@seeds
def test_mixtures_of_gaussians(seed: int) -> None:
    """Released mixtures of Gaussian noise whose weights are off by units."""
    rng = np.random.default_rng([seed, 103])
    weights = masses(rng, int(rng.integers(2, 5)))
    noises = np.exp(rng.uniform(-1.5, 4.0, len(weights))).tolist()
    parts = [dp.Gaussian(one) for one in noises]
    run = dp.Mixture(components=parts, weights=weights, index="released")
    total = sum(map(mpmath.mpf, run.weights))
    for epsilon in (0.0, 1e-9, float(rng.uniform(0.0, 4.0))):
        parts_of = (
            w * gaussian_delta(1 / mpmath.mpf(s), epsilon)
            for w, s in zip(run.weights, noises, strict=True)
        )
        truth = sum(parts_of) / total
        found = dp.account(run).delta(epsilon=epsilon)
        assert found.lower <= truth <= found.upper, (epsilon, found, truth)


def gaussian_delta(mu: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    z, x = mpmath.mpf(epsilon) / mu, mpmath.exp(mpmath.mpf(epsilon))
    return mpmath.ncdf(mu / 2 - z) - x * mpmath.ncdf(-mu / 2 - z)


@seeds
def test_discrete_randomizers(seed: int) -> None:
    """One report, and few shuffled ones against all data sets of the others."""
    rng = np.random.default_rng([seed, 104])
    first = masses(rng, int(rng.integers(2, 4)))
    rows = [first, beside(rng, first), list(first)]  # the third is equal to the first
    matrix = [[max(one, 0.0) for one in row] for row in rows]
    try:
        randomizer = dp.DiscreteRandomizer(matrix)
    except dp.errors.InvalidArgument:  # some report is impossible for one record only
        return
    laws = [settled(row) for row in randomizer.matrix]
    pairs = list(itertools.permutations(laws[:2], 2))
    one = dp.account(randomizer)
    epsilons = [0.0, 1e-17, float(rng.uniform(0.0, 1.0)) * min(randomizer.local_epsilon, 3.0)]
    for epsilon in epsilons:
        truth = exactly((*pairs[0], 1)).delta(epsilon)
        assert contains(one.delta(epsilon=epsilon), truth), (epsilon, truth)
    if seed in COUNTS["quick"] or not 1e-6 <= randomizer.local_epsilon <= 30.0:
        return
    users = int(rng.integers(2, 4))
    shuffled = dp.account(dp.ShuffledReports(users=users, randomizer=randomizer))
    for epsilon in epsilons:
        worst = arb(0)
        for others in itertools.combinations_with_replacement(laws[:2], users - 1):
            p, q = (multisets([held, *others]) for held in laws[:2])
            worst = worst.max(exactly(([p[k] for k in p], [q[k] for k in p], 1)).delta(epsilon))
        found = shuffled.delta(epsilon=epsilon)
        # the lower end is that of one data set; the upper one holds for all
        assert not arb(float(found.upper)) < worst, (epsilon, found, worst)
        assert not arb(float(found.lower)) > worst, (epsilon, found, worst)


def multisets(rows: list[Law]) -> dict[tuple[int, ...], Fraction]:
    """The law of the reports in any order."""
    found: dict[tuple[int, ...], Fraction] = {}
    for reports in itertools.product(range(len(rows[0])), repeat=len(rows)):
        chance = Fraction(1)
        for row, report in zip(rows, reports, strict=True):
            chance *= row[report]
        key = tuple(sorted(reports))
        found[key] = found.get(key, Fraction(0)) + chance
    return found


@seeds
def test_renyi_lists(seed: int) -> None:
    """Exact divergences of a pair, rounded up, as a list: no answer is below that of the pair."""
    rng = np.random.default_rng([seed, 105])
    p = [max(one, 1e-12) for one in masses(rng, 3)]
    q = [max(one, 1e-12) for one in beside(rng, p)]
    pair = dp.FinitePair(p=p, q=q)
    law = settled(pair.p), settled(pair.q)
    alone = exactly((*law, 1))
    orders = sorted({*(1.0 + 10.0 ** rng.uniform(-2.0, 2.0, 5)).tolist(), 2.0})
    values = [max(nextafter(float(alone.renyi(one).mid()), inf), 0.0) for one in orders]
    values = np.maximum.accumulate(values).tolist()  # those of equal laws are what balls leave
    curve = dp.RenyiCurve(orders=orders, values=[nextafter(one, inf) for one in values])
    for order in (*orders, float(rng.uniform(orders[0], orders[-1]))):
        assert not arb(float(curve.renyi(order=order).upper)) < alone.renyi(order)
    count = int(rng.integers(1, 4))
    for answer, exact in (
        (dp.account(curve * count), exactly((*law, count))),
        (dp.account(curve * count + pair), exactly((*law, count + 1))),
    ):
        for epsilon in (0.0, float(rng.uniform(0.0, 2.0))):
            assert not arb(float(answer.delta(epsilon=epsilon).upper)) < exact.delta(epsilon)
        target = 10.0 ** -float(rng.uniform(0.5, 12.0))
        high = float(answer.epsilon(delta=target).upper)
        assert high == inf or not exact.delta(high) > arb(target)


def laplace_stick(size: float) -> Callable[[mpmath.mpf, bool], mpmath.mpf]:
    """H at e^k of Laplace noise of scale 1/size, any k; the same in both directions."""
    e = 1 / mpmath.mpf(size)

    def stick(k: mpmath.mpf, forward: bool) -> mpmath.mpf:
        if k < 0:
            return 1 - mpmath.exp(k) + mpmath.exp(k) * stick(-k, forward)
        return max(-mpmath.expm1((k - e) / 2), mpmath.mpf(0))

    return stick


def poisson_stick(rate: float, noise: float) -> Callable[[mpmath.mpf, bool], mpmath.mpf]:
    """H at e^k of (1 - r) N(0) + r N(mu) against N(0), or of the reverse."""
    r, mu = mpmath.mpf(rate), 1 / mpmath.mpf(noise)

    def stick(k: mpmath.mpf, forward: bool) -> mpmath.mpf:
        if not forward:
            # H_x(Q||P) = 1 - x + x H_{1/x}(P||Q)
            return 1 - mpmath.exp(k) + mpmath.exp(k) * stick(-k, True)
        level = mpmath.exp(k) - 1 + r
        if level <= 0:
            return 1 - mpmath.exp(k)
        y = mpmath.log(level / r) / mu + mu / 2
        return (1 - r - mpmath.exp(k)) * mpmath.ncdf(-y) + r * mpmath.ncdf(mu - y)

    return stick


@seeds
def test_given_profiles_beside_laplace_and_poisson(seed: int) -> None:
    """A profile of two or three outcomes, then other noise: a sum over the outcomes, exactly."""
    rng = np.random.default_rng([seed, 106])
    local, reveal = float(rng.uniform(0.05, 2.0)), float(rng.choice([0.0, 1e-9, 1e-3]))
    largest = float(rng.choice([local, inf]))

    def profile(epsilon: np.ndarray) -> np.ndarray:
        bounded = -np.expm1(np.minimum(epsilon, local) - local) / (1 + exp(-local))
        return np.asarray(reveal + (1 - reveal) * bounded)

    given = ProfileMechanism(profile=profile, largest_loss=largest)
    if rng.integers(0, 2):
        scale = float(rng.uniform(0.5, 20.0))
        other: dp.Mechanism = dp.Laplace(scale)
        stick = laplace_stick(scale)
    else:
        rate, noise = 10.0 ** -float(rng.uniform(0.3, 4.0)), float(rng.uniform(0.5, 5.0))
        plan = dp.PoissonBatches(sample_rate=rate, steps=1)
        other = dp.DPSGD(plan, noise_multiplier=noise)
        stick = poisson_stick(rate, noise)
    e = mpmath.mpf(local)
    top = 1 / (1 + mpmath.exp(-e))
    answer = dp.account(given + other)

    def truth(epsilon: float) -> mpmath.mpf:
        k = mpmath.mpf(epsilon)
        ways = [top * stick(k - e, way) + (1 - top) * stick(k + e, way) for way in (True, False)]
        return mpmath.mpf(reveal) + (1 - mpmath.mpf(reveal)) * max(ways)

    for epsilon in (0.0, local, float(rng.uniform(0.0, 3.0))):
        found = answer.delta(epsilon=epsilon)
        assert found.lower <= truth(epsilon) <= found.upper, (epsilon, found, truth(epsilon))
    target = max(10.0 ** -float(rng.uniform(1.0, 8.0)), 2.0 * reveal)
    found = answer.epsilon(delta=target)
    assert found.upper == inf or truth(float(found.upper)) <= target
    assert found.lower == 0.0 or truth(float(found.lower)) >= target


@pytest.mark.parametrize(
    ("local_epsilon", "blanket"),
    [
        (6.236019563311163e-15, 0.999999999999998),
        (7.64507901467114e-14, 0.9999999999999838),
        (5.678624261229205e-10, 0.9999999999881429),
        (4.295821532239056e-07, 0.9999998754323214),
        (2.3725520119536535e-05, 0.9999938511382697),
    ],
)
def test_total_variation_of_tiny_budgets(local_epsilon: float, blanket: float) -> None:
    """At epsilon 0 no threshold makes up for the rounding of losses: a blanket's delta is 1 - G."""
    one = BlanketRandomizer(local_epsilon=local_epsilon, blanket=blanket)
    truth = 1 - mpmath.mpf(blanket)
    assert truth <= mpmath.tanh(mpmath.mpf(local_epsilon) / 2)
    found = dp.account(one).delta(epsilon=0.0)
    assert found.lower <= truth <= found.upper


def test_listed_results_of_many_users() -> None:
    """The loss of so many reports is below what each ratio is rounded by: delta at 0 covers that."""
    from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, listed
    from sharpdp.bracket import Side
    from sharpdp.pairs.pair import log_delta_of

    users, mean = 10**11, 300
    rare, more, less = mean / users, 3 * mean / users, mean / users / 2
    rows = [[1 - more, more], [1 - less, less], [1 - rare, rare]]
    reports = Reports.others_hold(rows, 0, 1, 2, users)
    n, r, x, y = users - 1, *map(mpmath.mpf, (rare, more, less))
    chances = [mpmath.binomial(n, t) * r**t * (1 - r) ** (n - t) for t in range(900)]
    # P - Q at t reports is (x - y) times the fall of the chances from t - 1 to t
    falls = (
        max(before - here, 0) for before, here in itertools.pairwise([mpmath.mpf(0), *chances])
    )
    truth = mpmath.log((x - y) * sum(falls))
    for side in Side:
        pair = listed(reports, side)
        assert pair is not None
        low, high = log_delta_of(pair, 0.0)
        assert low <= truth <= high, (side, low, truth, high)


def test_running_sums_lose_nothing() -> None:
    """Thousands of logarithms are added to within two units, whatever their number."""
    from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import _running_sums

    values = [log(10**7 - i) for i in range(6000)]
    sums = _running_sums(values)
    exact = Fraction(0)
    for place, value in enumerate(values):
        exact += Fraction(value)
        assert abs(Fraction(sums[place + 1]) - exact) <= Fraction(2.0**-52) * exact


@pytest.mark.parametrize("fpr", [0.1, 0.3140838530272413, 0.7])
def test_true_positives_of_laws_that_differ_by_units(fpr: float) -> None:
    """fpr plus the total variation is more than fpr, however small that is."""
    given = dp.FinitePair(p=[1e-3, 0.999], q=[nextafter(1e-3, 1.0), 0.999])
    exact = exactly((settled(given.p), settled(given.q), 1))
    assert contains(dp.account(given).tpr(fpr=fpr), exact.tpr(fpr))


@pytest.mark.parametrize(("gamma", "rest"), [(20.0, 1e-8), (12.0, 1.3e-5), (30.0, 1e-12)])
def test_pure_guarantees_at_deltas_near_one(gamma: float, rest: float) -> None:
    """Randomized response has e^epsilon = e^gamma (1 - delta) - delta: no difference from one there."""
    delta = 1.0 - rest
    d = mpmath.mpf(delta)
    truth = mpmath.log(mpmath.exp(gamma) * (1 - d) - d)
    curve = dp.RenyiCurve(orders=[inf], values=[gamma])
    found = dp.account(curve).epsilon(delta=delta).upper
    assert truth <= found <= truth * (1 + 1e-9)


@pytest.mark.parametrize(
    ("trials", "hits", "rate"),
    [(4263558, 34457, 0.006546046468339723), (257659, 31163, 0.09855438177510538)],
)
def test_binomial_masses_far_from_the_mean(trials: int, hits: int, rate: float) -> None:
    """Ratios to the mean are rounded, and multiplied by the count: not where that shows."""
    from sharpdp.numerics.counts import MASS_ERROR, log_mass

    r, n, k = mpmath.mpf(rate), trials, hits
    with mpmath.workprec(160):
        ways = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        truth = ways + k * mpmath.log(r) + (n - k) * mpmath.log1p(-r)
        found = float(log_mass(np.array([float(n)]), np.array([float(k)]), rate)[0])
        assert abs(found - truth) <= MASS_ERROR


def test_positive_parts_that_are_rare_or_not_known_to_be_positive() -> None:
    """No upper side is zero where a value may be positive; n E[g_+] bounds sums of rare ones."""
    from sharpdp.numerics.expected_positive_part import Sums

    weights = np.tile([3e-310, 1.0], (3, 1))
    values = np.array([[2.0, -1e-3], [0.0, -1e-3], [-1.0, -1e-3]])
    errors = np.array([[0.0, 0.0], [1e-16, 0.0], [0.5, 0.0]])
    sums = Sums(weights, values, errors, np.full(3, 3.0))
    tilts = sums.tilts()
    ceilings = sums.log_ceilings(tilts)
    lows, highs = sums.log_values(tilts, 1e-3)
    # one copy is at its largest value, up to squares of its weight
    rare = mpmath.log(3 * mpmath.mpf(3e-310))
    for place, most in enumerate((rare + mpmath.log(mpmath.mpf(1.998)), rare + log(1e-16))):
        high = min(highs[place], float(ceilings[place]))
        assert lows[place] <= most <= high <= most + 0.01
        assert highs[place] >= most
    assert (lows[2], highs[2]) == (-inf, -inf)


@pytest.mark.parametrize("epsilon", [0.37, 3.1, 9.7])
def test_tests_of_crowds_next_to_the_largest_loss(epsilon: float) -> None:
    """(1 - w) - l w is small there: it comes from the distance of the losses."""
    from sharpdp.bounds.shuffle_model.all_datasets import _best_tests

    losses = epsilon * (1.0 - 2.0 ** -np.arange(8.0, 30.0))
    found = _best_tests(np.ones(1), epsilon, losses)
    for loss, value in zip(losses.tolist(), found.tolist(), strict=True):
        ratio = mpmath.exp(mpmath.mpf(epsilon))
        truth = (ratio - mpmath.exp(mpmath.mpf(loss))) / (ratio + 1)
        assert truth <= value <= truth * (1 + 1e-10)


def test_full_batches_below_all_doubles() -> None:
    """A probability of 1e-331 is not zero, and next to the end of the doubles digits are few."""
    from sharpdp.bounds.fixed_size.truncation import Overflow

    for room in (180, 196, 250):
        low, high = Overflow(population=10_000, rate=1e-4, room=room).full(10_000)
        with mpmath.workprec(120):
            r = mpmath.mpf(1e-4)
            terms = (
                mpmath.binomial(10_000, k) * r**k * (1 - r) ** (10_000 - k)
                for k in range(room, room + 40)
            )
            truth = mpmath.fsum(terms)
        assert low <= truth <= high


def test_moments_of_clones_below_all_doubles() -> None:
    """High moments are large where clones are few: masses down to e^-1000 count."""
    from sharpdp.bounds.shuffle_model.published.sampled_renyi import _clone_table, _Numbers

    users, epsilon, j = 9665, 1.0, 4096
    found = float(_clone_table(_Numbers(users, epsilon), j)[j])
    with mpmath.workprec(160):
        share, others = mpmath.exp(-mpmath.mpf(epsilon)), users - 1
        reach = 2 * mpmath.sinh(mpmath.mpf(epsilon))
        usual = mpmath.log(j) + mpmath.loggamma(mpmath.mpf(j) / 2)
        total = mpmath.mpf(0)
        log_mass = others * mpmath.log1p(-share)
        odds = mpmath.log(share) - mpmath.log1p(-share)
        for m in range(2000):
            part = usual + mpmath.mpf(j) / 2 * mpmath.log(2 * reach**2 / (m + 1))
            total += mpmath.exp(log_mass + min(j * mpmath.log(reach), part))
            log_mass += mpmath.log(mpmath.mpf(others - m) / (m + 1)) + odds
        assert found >= mpmath.log(total)


@pytest.mark.parametrize(("users", "local"), [(10**9, 1e-6), (10**8, 1e-5), (5000, 0.4)])
def test_bennett_form_for_tiny_budgets(users: int, local: float) -> None:
    """b and c are small differences there; the formula holds at the epsilon that is returned."""
    from sharpdp.bounds.shuffle_model.published.epsilon import blanket_bennett_upper

    delta = 1e-6
    found = blanket_bennett_upper(dp.ShuffledReports(users=users, local_epsilon=local), delta)
    with mpmath.workprec(200):
        large, g = mpmath.exp(mpmath.mpf(local)), mpmath.exp(mpmath.mpf(found))
        a, b = g - 1, large - g / large
        c = large * (g * g + 1) - 2 * g / large**3
        u = a * b / c
        phi = (1 + u) * mpmath.log1p(u) - u
        share = 1 - mpmath.exp(-c * phi / b**2)
        truth = b / (users / large * mpmath.log1p(u)) * (1 - share / large) ** users
        assert truth <= delta


def _log_put(mu: float, threshold: mpmath.mpf) -> mpmath.mpf:
    """log E_Q[(e^k - X)_+] of two unit normals at distance mu, k < 0."""
    a = -threshold / mu - mpmath.mpf(mu) / 2
    return mpmath.log(mpmath.exp(threshold) * mpmath.ncdf(-a) - mpmath.ncdf(-a - mpmath.mpf(mu)))


@pytest.mark.parametrize(("rate", "mu"), [(0.3, 0.19), (0.9, 0.19), (0.5, 0.25), (0.99, 0.5)])
def test_sampled_pairs_next_to_their_smallest_loss(rate: float, mu: float) -> None:
    """Values at thresholds that are said to be resolved have the accuracy that is stated."""
    from sharpdp.pairs.pair import GaussianPair
    from sharpdp.pairs.subsampled import PoissonSampledPair

    pair = PoissonSampledPair(GaussianPair(mu), rate)
    end = pair.accurate_range[0]
    for step in range(12):
        loss = end * (1.0 - step * 1e-4 * (1.0 - rate))
        value = float(pair.log_hockey_stick(np.array([loss]))[0])
        with mpmath.workdps(400):
            base = mpmath.log1p(mpmath.expm1(mpmath.mpf(loss)) / mpmath.mpf(rate))
            truth = _log_put(mu, base) + mpmath.log(mpmath.mpf(rate))
        assert abs(value - truth) <= pair.accuracy


def test_sampled_pairs_at_rates_below_all_doubles() -> None:
    """1/rate overflows, and the record is still seen once in 1e309 times."""
    from sharpdp.pairs.pair import GaussianPair
    from sharpdp.pairs.subsampled import PoissonSampledPair

    value = float(
        PoissonSampledPair(GaussianPair(100.0), 1e-309).log_hockey_stick(np.array([1.0]))[0]
    )
    assert abs(value - log(1e-309)) < 1e-9


def test_many_released_pairs_at_small_values() -> None:
    """Thousands of terms below the last digit of a logarithm add up to more than one of its units."""
    from sharpdp.pairs.pair import LaplacePair
    from sharpdp.pairs.released_index import LabeledMixturePair

    loss, weight, most = 0.5, 1e-60, 2000
    pairs = [LaplacePair(0.25), *(LaplacePair(1.0 + k * 1e-9) for k in range(most + 1))]
    weights = [1.0, weight, *[weight * 1e-14] * most]
    pair = LabeledMixturePair(tuple(pairs), tuple(weights))
    value = float(pair.log_hockey_stick(np.array([loss]))[0])
    truth = mpmath.log(
        mpmath.fsum(
            mpmath.mpf(w) * -mpmath.expm1((mpmath.mpf(loss) - mpmath.mpf(one.epsilon)) / 2)
            for w, one in zip(weights[1:], pairs[1:], strict=True)
        )
    )
    assert abs(value - truth) <= pair.accuracy < 5e-12


def test_moments_below_all_doubles() -> None:
    """The square of a shift of 1e-170 is not zero."""
    from sharpdp.pairs.pair import GaussianPair
    from sharpdp.pairs.released_index import ReleasedGaussians

    for mu in (1e-170, 3e-161, 1e-153):
        low, high = GaussianPair(mu).log_moment(2.0)
        assert low <= mpmath.mpf(mu) ** 2 <= high
        low, high = ReleasedGaussians((mu,), (0.5,), still=0.5).log_moment(2.0)
        assert low <= mpmath.log1p(mpmath.expm1(mpmath.mpf(mu) ** 2) / 2) <= high


@pytest.mark.parametrize("epsilon", [0.3, 7.7, 41.3, 200.1])
def test_masses_of_binned_noise(epsilon: float) -> None:
    """Exponents of any size are not rounded: masses are right to five units."""
    from sharpdp.bounds.shuffle_model.laplace_reports import binned_noise

    rows = binned_noise(epsilon)
    cells, s = len(rows[0]) - 2, mpmath.mpf(epsilon)
    for value, row in zip((0.0, 1.0, 0.0, 0.25, 0.5), rows, strict=True):

        def below(y: mpmath.mpf, value: float = value) -> mpmath.mpf:
            fall = mpmath.exp(-s * abs(y - value)) / 2
            return fall if y <= value else 1 - fall

        edges = [mpmath.mpf(k) / cells for k in range(cells + 1)]
        truths = [below(edges[0])]
        with mpmath.workdps(150):
            truths += [below(b) - below(a) for a, b in itertools.pairwise(edges)]
            truths.append(mpmath.exp(-s * (1 - mpmath.mpf(value))) / 2)
        for mass, truth in zip(row, truths, strict=True):
            assert abs(mass / truth - 1) <= 5.0 * 2.0**-53


def test_normal_mixtures_where_the_other_mass_underflows() -> None:
    """Under P there is e^-230 at losses up to 600, where Q has less than e^-745."""
    from sharpdp.bracket import Side
    from sharpdp.pairs.line_densities import NormalMixture, normal_mixture_pair

    rare = exp(-200.0)
    p, q = NormalMixture((1.0, rare), (0.0, 0.0), (1.0, 5.0)), NormalMixture((1.0,), (0.0,), (1.0,))
    pair = normal_mixture_pair(p, q, Side.UPPER)
    losses, masses = np.array(pair.losses), np.exp(np.array(pair.log_p))
    found = float(np.sum(masses[(losses > 520.0) & (losses < 595.0)]))
    # log p/q = x^2/2 (1 - 1/25) - log 5 + log rare in the tails
    ends = [mpmath.sqrt((k + mpmath.log(5) + 200) / mpmath.mpf("0.48")) for k in (525, 590)]
    truth = 2 * mpmath.mpf(rare) * (mpmath.ncdf(-ends[0] / 5) - mpmath.ncdf(-ends[1] / 5))
    assert found >= truth > 0


def test_normal_mixtures_far_from_the_origin() -> None:
    """Places are rounded by units of the length of the line, not of their distance from zero."""
    from sharpdp.bracket import Side
    from sharpdp.pairs.line_densities import NormalMixture, normal_mixture_pair

    for side in Side:
        far = 2.0**40
        pair = normal_mixture_pair(
            NormalMixture((1.0,), (far + 1.0,), (1.0,)), NormalMixture((1.0,), (far,), (1.0,)), side
        )
        total = float(np.sum(np.exp(np.array(pair.log_q)))) + pair.infinite_q
        assert abs(total - 1.0) < 1e-11


def test_small_frequencies_are_damped_by_no_more_than_they_are() -> None:
    """1 - sin x / x is x^2/6 where both are below the last digit of one."""
    from sharpdp.profile.sampled_gaussian.characteristic_bounds import _missing

    x = 10.0 ** np.arange(-12.0, 0.0, 0.125)
    for place, found in zip(x.tolist(), _missing(x).tolist(), strict=True):
        truth = 1 - mpmath.sin(mpmath.mpf(place)) / mpmath.mpf(place)
        assert truth * (1 - 1e-6) <= found <= truth * (1 + 1e-12)


@pytest.mark.parametrize("units", [2**31 + 1, 2**31 + 12345, 2**32 + 7])
def test_local_epsilon_of_nearly_equal_rows(units: int) -> None:
    """log(large / small) next to 0 lost ten digits, and the upper side was 5e-11 below the truth."""
    Exact([])  # sets the precision
    move = units * 2.0**-52
    coin = dp.DiscreteRandomizer([[0.5 + move, 0.5 - move], [0.5 - move, 0.5 + move]])
    truth = (arb(0.5 + move) / arb(0.5 - move)).log()
    assert not arb(coin.local_epsilon) < truth
    assert not arb(coin.local_epsilon) > truth * (1 + arb(2) ** -48)
    # at so small a delta the epsilon of one report is that of the randomizer
    found = dp.account(dp.ShuffledReports(users=1, randomizer=coin)).epsilon(delta=1e-30)
    assert not arb(float(found.upper)) < truth * (1 - arb(10) ** -22)
    assert not arb(float(found.lower)) > truth


@pytest.mark.parametrize("seed", range(8))
def test_local_epsilon_covers_the_sums_of_rows(seed: int) -> None:
    """Rows whose sums differ by units stand for the laws proportional to them."""
    Exact([])  # sets the precision
    rng = np.random.default_rng([seed, 131])
    share = [float(x) for x in rng.dirichlet(np.ones(int(rng.integers(2, 5))))]
    near = [one * exp(1e-6 * float(rng.uniform(-1.0, 1.0))) for one in share]
    rows = [[nudged(rng, one / sum(row)) for one in row] for row in (share, near)]
    matrix = dp.DiscreteRandomizer(rows).matrix
    laws = [settled(row) for row in matrix]
    truth = max(ball(x / y) for p, q in (laws, laws[::-1]) for x, y in zip(p, q, strict=True)).log()
    assert not arb(dp.DiscreteRandomizer(matrix).local_epsilon) < truth


@pytest.mark.parametrize("seed", range(8))
def test_no_weighted_payoff_of_a_tilt_is_cut(seed: int) -> None:
    """Payoffs are cut at the range of a tilt, which was rounded to nearest: it must not be too small."""
    rng = np.random.default_rng([seed, 132])
    mu, order = float(rng.uniform(0.1, 3.0)), float(rng.choice(STRENGTHS))
    epsilon, count = float(rng.uniform(0.1, 60.0)), int(rng.integers(1, 9))
    product = Product(((GaussianRun(mu), count),))
    a, m = mpmath.mpf(order), mpmath.mpf(mu)
    peak = a * mpmath.log(a) - (1 + a) * mpmath.log(1 + a)
    truth = count * a * (1 + a) * m * m / 2 - a * mpmath.mpf(epsilon) + peak
    found = product.log_range(Direction.WITH_RECORD, Tilt(order), epsilon)
    assert truth <= mpmath.mpf(found) <= truth + mpmath.mpf("1e-7")


@pytest.mark.parametrize("seed", range(8))
def test_losses_of_any_size_are_within_their_stated_error(seed: int) -> None:
    """Little noise has losses in the millions, whose rounding is above that of a thousand."""
    rng = np.random.default_rng([seed, 133])
    mu, count = float(10.0 ** rng.uniform(0.0, 4.0)), int(rng.integers(1, 9))
    product = Product(((GaussianRun(mu), count),))
    task = Task(product, Direction.WITH_RECORD, PLAIN, Errors(), seed, (0,), 16)
    loss, error = task.run()
    stream = np.random.SeedSequence(seed, spawn_key=(0,))
    normal = np.random.Generator(np.random.SFC64(stream)).standard_normal(16)
    square = count * mpmath.mpf(mu) ** 2
    for got, within, y in zip(loss, error, normal, strict=True):
        truth = square / 2 + mpmath.sqrt(square) * mpmath.mpf(float(y))
        if truth > 0:
            assert abs(mpmath.mpf(float(got)) - truth) <= mpmath.mpf(float(within))


@dataclass(frozen=True)
class Errors:
    """Losses and the errors that are allowed for them, instead of sums."""

    def sums(self, draws: Draws, rng: Rng, error: np.ndarray) -> np.ndarray:
        return np.array([draws.loss, np.broadcast_to(error, draws.loss.shape)])


@pytest.mark.parametrize("seed", range(3))
def test_bets_next_to_one_are_within_the_stated_error(seed: int) -> None:
    """log(1 - b m) is off by 72 units for b = 0.999 and means next to one."""
    rng = np.random.default_rng([seed, 134])
    bet, worst = 0.999, mpmath.mpf(0)
    for mean in 1.0 - 1e-4 * rng.random(300):
        truth = mpmath.log(1 - mpmath.mpf(bet) * mpmath.mpf(float(mean)))
        worst = max(worst, abs(mpmath.mpf(float(np.log1p(-bet * mean))) / truth - 1))
    assert 16 * mpmath.mpf(2) ** -53 < worst <= SUM_ERROR


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_images_carry_the_error_of_the_scale(sign: float) -> None:
    """A scale that is off moves the images in its units: what is left of a difference must allow it.

    A loss of 5 for certain, at the threshold 4, with as large an error of the scale as is stated and
    images of a thousand times the value.
    """
    error, theta, window, at, loss = 1e-9, 1.0, 0.001, 4.0, 5.0
    truth = float(1 - mpmath.exp(at - loss))
    images = 1.0 / np.expm1(theta * window)
    size, step = 1 << 14, 2.0 * np.pi / window
    nothing = Chernoff(np.array([2.0]), np.array([-1e6]), np.array([1.0]), np.array([-1e6]))
    flat = Contour(
        theta=theta,
        window=window,
        smoothing=0.0,
        damping=0.0,
        beyond=0.0,
        log_scale=theta * at + sign * error,
        log_scale_error=error,
        center=at,
        center_size=at,
        frequencies=step * np.arange(size),
        # one frequency with all of value and images
        values=np.append((truth + images) * window * theta * (theta + 1.0), np.zeros(size - 1)),
        errors=np.zeros(size),
        log_finite=0.0,
        chernoff=nothing,
    )
    low, high = flat.log_call(at)
    assert low <= log(truth) <= high
