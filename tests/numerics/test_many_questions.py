"""Arrays of questions are answered in one pass, and as well as one by one."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

import sharpdp as dp
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import sampled_gaussian
from sharpdp.profile import many_questions
from sharpdp.profile.composition import Composition
from sharpdp.profile.planning import prepare
from sharpdp.profile.sampled_gaussian.evaluation import SampledGaussianEvaluation
from tests.reference.shuffle import blanket_delta

RUNS = {
    "Poisson": dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0),
    "little noise": dp.DPSGD(dp.PoissonBatches(sample_rate=1e-3, steps=300), noise_multiplier=0.6),
    "Laplace and Gaussian": dp.Laplace(scale=10.0) * 50 + dp.Gaussian(noise_multiplier=5.0),
    "shuffled": dp.ShuffledReports(users=300, local_epsilon=1.0, rounds=30),
    "outcomes": dp.RandomizedResponse(local_epsilon=1.0) * 10,
    "mass at infinity": dp.ApproximateDP(epsilon=0.5, delta=1e-7) * 5,
    "Gaussian": dp.Gaussian(noise_multiplier=1.0),
    "reports": dp.ShuffledReports(
        users=1000, randomizer=dp.RandomizedResponse(local_epsilon=2.0, categories=2)
    ),
    "losses": dp.PrivacyLoss(losses=[-1.0, 0.0, 1.5], masses=[0.1, 0.5, 0.3], mass_at_infinity=0.1),
}

QUESTIONS = {
    "epsilon": ("delta", np.geomspace(1e-9, 0.3, 25)),
    "delta": ("epsilon", np.linspace(0.0, 4.0, 25)),
    "tpr": ("fpr", np.geomspace(1e-7, 0.95, 25)),
    "fnr": ("fpr", np.append(0.0, np.geomspace(1e-4, 1.0, 24))),
    "renyi": ("order", np.geomspace(1.1, 80.0, 25)),
}


@pytest.mark.parametrize("quantity", QUESTIONS)
@pytest.mark.parametrize("run", RUNS)
def test_arrays_agree_with_single_questions(run: str, quantity: str) -> None:
    argument, values = QUESTIONS[quantity]
    answer = dp.account(RUNS[run])
    many = getattr(answer, quantity)(**{argument: values})
    for index in (0, 7, 12, 19, 24):
        one = getattr(dp.account(RUNS[run]), quantity)(**{argument: float(values[index])})
        low, high = float(many.lower[index]), float(many.upper[index])
        assert low <= one.upper
        assert one.lower <= high
        if np.isfinite(one.upper):
            assert high - low <= 1.01 * max(1e-3 * high, one.upper - one.lower)


@pytest.mark.parametrize("run", ["Poisson", "little noise", "outcomes", "Gaussian", "losses"])
def test_many_answers_have_the_six_digits_of_one(run: str) -> None:
    """Where further questions cost next to nothing, arrays are as sharp as people read them."""
    for quantity in ("epsilon", "delta", "tpr", "fnr"):
        argument, values = QUESTIONS[quantity]
        answer = dp.account(RUNS[run])
        many = getattr(answer, quantity)(**{argument: values})
        widths = np.divide(
            many.width, many.upper, where=many.upper > 0.0, out=np.zeros(values.size)
        )
        for index in (1, 7, 12, 19, 23):
            one = getattr(dp.account(RUNS[run]), quantity)(**{argument: float(values[index])})
            if one.width <= 1e-6 * one.upper < np.inf:
                assert widths[index] <= 1.01e-6, (quantity, values[index])


def exact_delta(mu: float, epsilon: np.ndarray) -> np.ndarray:
    """delta of Gaussian noise, in closed form."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def test_gaussian_in_closed_form() -> None:
    # as steps of which an engine does not know that they are Gaussians: sampled at rate one
    steps, mu = 100, 0.1
    run = Composition(((sampled_gaussian(mu, 1.0 - 2.0**-53), steps),))
    epsilons = np.linspace(0.1, 4.0, 200)
    low, high = run.log_deltas(epsilons, 1e-3)
    truth = np.log(exact_delta(mu * math.sqrt(steps), epsilons))
    assert np.all(low - 1e-9 <= truth)
    assert np.all(truth <= high + 1e-9)
    assert np.all(high - low <= 1e-3)
    deltas = exact_delta(mu * math.sqrt(steps), epsilons)
    below, above = run.fresh().epsilons(np.log(deltas), 1e-3, deltas)
    assert np.all(below <= epsilons * (1 + 1e-9))
    assert np.all(epsilons * (1 - 1e-9) <= above)
    assert np.all(above - below <= 1e-3 * above)


def test_rates_of_one_gaussian_in_closed_form() -> None:
    run, alphas = Composition(((GaussianPair(1.5), 1),)), np.geomspace(1e-12, 0.999, 300)
    truth = ndtr(ndtri(1.0 - alphas) - 1.5)
    low, high = run.false_negative_rates(alphas, 1e-6)
    assert np.all(low <= truth * (1 + 1e-12))
    assert np.all(truth * (1 - 1e-12) <= high)
    tpr = ndtr(1.5 + ndtri(alphas))
    low, high = run.true_positive_rates(alphas, 1e-6)
    assert np.all(low <= tpr * (1 + 1e-12))
    assert np.all(tpr * (1 - 1e-12) <= high)
    assert np.all(high - low <= 1e-6 * high)


@pytest.mark.parametrize("alphas", [[1e-3], [1e-6, 0.01, 0.3], [1e-4, 0.02, 0.2, 0.5, 0.9]])
def test_rates_of_many_coins_in_closed_form(alphas: list[float]) -> None:
    """So many that they are composed: the best test counts heads, and tosses a coin at the border."""
    tosses, loss, rates = 30_000, 0.02, np.array(alphas)
    run = Composition(((AtomicPair.pure(loss), tosses),))
    assert run.single_pair is None
    q = binom(tosses, 1.0 / (1.0 + np.exp(loss)))
    p = binom(tosses, 1.0 / (1.0 + np.exp(-loss)))
    heads = q.isf(rates)
    share = (rates - q.sf(heads)) / q.pmf(heads)
    truth = p.sf(heads) + share * p.pmf(heads)
    low, high = run.true_positive_rates(rates, 1e-3)
    assert np.all(low <= truth * (1 + 1e-9))
    assert np.all(truth * (1 - 1e-9) <= high)
    assert np.all(high - low <= 1e-3 * high)
    low, high = run.false_negative_rates(rates, 1e-3)
    assert np.all(low <= (1 - truth) * (1 + 1e-9))
    assert np.all((1 - truth) * (1 - 1e-9) <= high)
    assert np.all(high - low <= 1e-3 * high)


def test_few_contours_serve_many_questions() -> None:
    answer = dp.account(RUNS["Poisson"])
    answer.epsilon(delta=np.geomspace(1e-12, 1e-2, 500))
    run = answer.upper_derivations[0].composition
    assert isinstance(run, Composition)
    assert len(run.kept.works) + len(run.reverse().kept.works) <= 12


def test_both_directions_share_their_work_and_a_copy_has_none() -> None:
    run = Composition(((sampled_gaussian(1.0, 0.01), 500),))
    alphas = np.linspace(0.01, 0.9, 50)
    other = run.reverse()
    assert other.reverse() is run
    first = run.false_negative_rates(alphas, 1e-3)
    assert run.kept.points.epsilons.size > 0
    assert np.array_equal(other.kept.points.epsilons, -run.kept.points.epsilons[::-1])
    copied = pickle.loads(pickle.dumps(run))
    assert copied == run
    assert not copied.kept.works
    assert not copied.kept.points.epsilons.size
    # what others left makes an answer no less true, and no wider than asked
    for ask in ("true_positive_rates", "false_negative_rates"):
        shared, alone = getattr(other, ask)(alphas, 1e-3), getattr(other.fresh(), ask)(alphas, 1e-3)
        assert np.all(np.maximum(shared[0], alone[0]) <= np.minimum(shared[1], alone[1]))
        assert np.all(shared[1] - shared[0] <= 1e-3 * shared[1])
    assert np.all(first[0] <= first[1])
    run.forget()
    assert not run.kept.points.epsilons.size
    assert not other.kept.points.epsilons.size


@pytest.mark.parametrize("noise", [0.5, 1.0, 2.0])
def test_contours_of_both_directions_together_are_those_of_each_alone(noise: float) -> None:
    run = Composition(((sampled_gaussian(noise, 0.01), 500),))
    epsilons = np.linspace(-0.3, 0.4, 24)
    prepare(run, epsilons)
    for together, own in ((run, epsilons[epsilons >= 0.0]), (run.reverse(), -epsilons)):
        (work,) = together.kept.works
        (alone,) = SampledGaussianEvaluation.enclose_each(
            [together.merged_steps], thresholds=np.array([work.saddle.threshold])
        )
        assert isinstance(alone, SampledGaussianEvaluation)
        thresholds = own[own >= 0.0]
        assert work.saddle.threshold in thresholds
        for ends, others in zip(
            work.log_deltas(thresholds), alone.log_deltas(thresholds), strict=True
        ):
            assert np.allclose(ends, others, rtol=0.0, atol=1e-7)
    before = list(run.kept.works)
    prepare(run, epsilons)
    assert run.kept.works == before


def test_a_rate_beside_a_sharp_bend_is_as_narrow_as_others() -> None:
    """With little noise a parabola misses where the line touches."""
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=0.3)
    for fpr in (1e-3, 0.1, 0.5):
        answer, finer = (dp.account(run, relative_width=w).fnr(fpr=fpr) for w in (1e-3, 1e-6))
        assert answer.upper - answer.lower <= 2e-6 * answer.upper
        assert answer.lower <= finer.upper
        assert finer.lower <= answer.upper


def test_a_crossing_that_is_not_seen_on_both_sides_is_no_answer() -> None:
    def vague(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = -((1.0 + epsilons) ** 2)
        return value - 0.05, value

    def too_good(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # the lower end drops away where the search does not look before it is done
        value = -((1.0 + epsilons) ** 2)
        return np.where(4.0 * epsilons == np.rint(4.0 * epsilons), value, -np.inf), value

    grid, wanted = np.arange(0.0, 4.01, 0.25), np.array([-5.0, -9.0])
    low, high = many_questions._crossings(vague, grid, wanted)
    assert np.all((1 + low) ** 2 + 0.05 <= -wanted + 1e-12)
    assert np.all((1 + high) ** 2 >= -wanted - 1e-12)
    low, high = many_questions._crossings(too_good, grid, wanted)
    assert not np.any(high - low < np.inf)


def test_renyi_divergences_of_sampled_gaussians_against_binomial_sums() -> None:
    # whole orders in closed form: sum of binomial terms (mironov2019 Section 3.3)
    rate, noise = 0.02, 0.9
    for order in (2, 3, 7, 20, 60):
        terms = [
            math.log(math.comb(order, k))
            + k * math.log(rate)
            + (order - k) * math.log1p(-rate)
            + k * (k - 1) / (2 * noise**2)
            for k in range(order + 1)
        ]
        truth = float(np.logaddexp.reduce(terms)) / (order - 1)
        run = Composition(((sampled_gaussian(1 / noise, rate), 1),))
        low, high = run.renyi(float(order), 1e-6)
        assert low <= truth * (1 + 1e-12)
        assert truth * (1 - 1e-12) <= high
        assert high - low <= 1e-6 * high


@pytest.mark.parametrize("rounds", [3, 40])
def test_one_contour_serves_a_range(rounds: int) -> None:
    """Reports of two users are a pair of few outcomes, whose sums are taken exactly in fractions."""
    pair = dp.FinitePair(p=[0.5, 0.375, 0.125], q=[0.25, 0.375, 0.375])
    ((step, _),) = dp.account(pair).upper_derivations[0].composition.merged_steps
    run = Composition(((step, rounds), (GaussianPair(0.3), 1)))
    epsilons = np.linspace(0.0, 3.0, 40)
    low, high = run.log_deltas(epsilons, 1e-4)
    assert np.all(high - low <= 1e-4)
    ways = [
        (i, j, math.comb(rounds, i) * math.comb(rounds - i, j))
        for i in range(rounds + 1)
        for j in range(rounds + 1 - i)
    ]
    for index in (0, 5, 13, 29, 39):
        total = 0.0
        for i, j, count in ways:
            k = rounds - i - j
            loss = i * math.log(2.0) - k * math.log(3.0)
            mass = count * 0.5**i * 0.375**j * 0.125**k
            total += mass * float(shifted_delta(0.3, float(epsilons[index]) - loss))
        assert low[index] - 1e-9 <= math.log(total) <= high[index] + 1e-9


def shifted_delta(mu: float, epsilon: float) -> float:
    """delta of Gaussian noise at any threshold, also below zero."""
    return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def test_epsilons_of_listed_losses_in_closed_form() -> None:
    """Of three losses the profile is a polyline in e^epsilon, which is inverted in exact numbers."""
    p, q = (
        [Fraction(1, 2), Fraction(3, 8), Fraction(1, 8)],
        [Fraction(1, 8), Fraction(3, 8), Fraction(1, 2)],
    )
    pair = dp.FinitePair(p=[float(x) for x in p], q=[float(x) for x in q])
    run = dp.account(pair).upper_derivations[0].composition
    assert isinstance(run, Composition)
    deltas = np.geomspace(1e-12, 0.3, 200)
    low, high = run.epsilons(np.log(deltas), 1e-3, deltas)
    # between ratios 1 and 4 only the first outcome counts: delta = 1/2 - x/8
    truth = np.log(4.0 - 8.0 * deltas)
    assert np.all(low <= truth * (1 + 1e-12))
    assert np.all(truth * (1 - 1e-12) <= high)
    assert np.all(high - low <= 1e-3 * high)


def test_epsilons_below_a_mass_at_infinity_are_infinite() -> None:
    pair = dp.FinitePair(p=[0.5, 0.25, 0.25], q=[0.25, 0.75, 0.0])
    run = dp.account(pair).upper_derivations[0].composition
    assert isinstance(run, Composition)
    deltas = np.geomspace(1e-3, 0.45, 60)
    low, high = run.epsilons(np.log(deltas), 1e-3, deltas)
    finite = deltas > 0.25
    assert np.all(np.isinf(low[~finite]))
    truth = np.log(2.0 - 4.0 * (deltas[finite] - 0.25))
    assert np.all(low[finite] <= truth * (1 + 1e-12))
    assert np.all(truth * (1 - 1e-12) <= high[finite])
    assert np.all(high[finite] - low[finite] <= 1e-3 * high[finite])


def test_deltas_beside_a_mass_at_infinity_that_share_a_logarithm() -> None:
    mass = 1e-6
    run = dp.ApproximateDP(epsilon=0.5, delta=mass) + dp.Laplace(scale=2.0)
    below = math.nextafter(mass, 0.0)
    after = [mass, *(mass + k * math.ulp(mass) for k in (1, 2))]
    assert {math.log(delta) for delta in after} == {math.log(below)}
    deltas = np.array([0.1, 0.01, below, *after, 1e-3, 0.2])
    for ordered in (deltas, deltas[::-1], np.sort(deltas)):
        found = dp.account(run).epsilon(delta=ordered)
        assert np.array_equal(np.isinf(found.lower), ordered < mass)


def test_epsilons_at_deltas_below_the_normal_doubles() -> None:
    # from loss zero on delta(epsilon) = 2^-1065 (32 - e^epsilon)
    pair = AtomicPair.from_pmfs([1.0, 2.0**-1060], [1.0, 2.0**-1065])
    counts = np.arange(1.0, 25.0)
    deltas = counts * 2.0**-1074
    low, high = Composition(((pair, 1),)).epsilons(np.log(deltas), 1e-3, deltas)
    truth = np.log(32.0 - counts / 512.0)
    assert np.all(low <= truth * (1 + 1e-15))
    assert np.all(truth * (1 - 1e-15) <= high)


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_rates_at_thresholds_whose_exponentials_are_no_doubles(noise: float) -> None:
    fprs = np.array([1e-90, 1e-9, 0.1, 0.5, 0.9, 1.0 - 2.0**-53])
    answer = dp.account(dp.Gaussian(noise_multiplier=noise))
    truth = ndtr(-ndtri(fprs) - 1.0 / noise)
    missed = answer.fnr(fpr=fprs)
    assert np.all(missed.lower <= truth * (1 + 1e-9))
    assert np.all(truth * (1 - 1e-9) <= missed.upper)
    hit = answer.tpr(fpr=fprs)
    assert np.all(hit.upper == 1.0)
    assert np.all(hit.lower >= 1.0 - 1e-11)  # from the table that the question before left


@pytest.mark.parametrize("quantity", QUESTIONS)
@pytest.mark.parametrize("run", ["mass at infinity", "outcomes", "losses"])
def test_answers_are_in_the_order_of_the_truth(run: str, quantity: str) -> None:
    argument, values = QUESTIONS[quantity]
    rng = np.random.default_rng(3)
    mixed = rng.permutation(np.append(values, values[:7]))
    answer = getattr(dp.account(RUNS[run]), quantity)(**{argument: mixed})
    sorted_values, first, index = np.unique(mixed, return_index=True, return_inverse=True)
    assert sorted_values.size < mixed.size
    sign = 1.0 if quantity in ("tpr", "renyi") else -1.0
    for ends in (answer.lower, answer.upper):
        assert np.array_equal(ends, ends[first][index])
        assert np.all(sign * ends[first][1:] >= sign * ends[first][:-1])


def test_where_nothing_is_learned_nothing_is_found() -> None:
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    for run in (Composition(()), Composition(((GaussianPair(0.0), 3),))):
        assert np.all(np.array(run.epsilons(np.log(values), 1e-3, values)) == 0.0)
        assert np.all(np.isneginf(run.log_deltas(values, 1e-3)))
        low, high = run.true_positive_rates(values, 1e-3)
        assert np.all(low <= values)
        assert np.all(values <= high)
        assert np.all(high - low <= 1e-3)
        assert run.epsilon(-3.0, 1e-3) == (0.0, 0.0)


def test_a_step_that_reveals_everything_is_all_there_is() -> None:
    revealed = dp.FinitePair(p=[0.0, 1.0], q=[1.0, 0.0])
    for run in (revealed * 2, revealed + dp.Gaussian(1.0), revealed * 2 + dp.PureDP(epsilon=1.0)):
        for epsilon in (1.0, [0.0, 1.0, 2.0]):
            delta = dp.account(run).delta(epsilon=epsilon)
            assert np.all(np.asarray(delta.lower) > 0.999999)
            assert np.all(np.asarray(delta.upper) == 1.0)


def test_few_rates_next_to_one_among_many_against_neyman_and_pearson() -> None:
    """The best test of a listed pair rejects by the ratio, and one outcome in part; both directions."""
    rng = np.random.default_rng(8)
    p, q = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(12))
    fprs = np.append(np.geomspace(1e-6, 0.03, 30), [0.3, 0.6, 0.9])

    def hits(ahead: np.ndarray, behind: np.ndarray) -> np.ndarray:
        order = np.argsort(-ahead / behind)
        rejected = np.append(0.0, np.cumsum(behind[order]))
        return np.interp(fprs, rejected, np.append(0.0, np.cumsum(ahead[order])))

    truth = np.maximum(hits(p, q), hits(q, p))
    answer = dp.account(dp.FinitePair(p=p.tolist(), q=q.tolist())).tpr(fpr=fprs)
    assert 0 < np.sum(truth > 0.5) <= many_questions.FEW
    assert np.all(answer.lower <= truth * (1.0 + 1e-12))
    assert np.all(truth * (1.0 - 1e-12) <= answer.upper)
    assert np.all(answer.upper - answer.lower <= 1.01e-3 * answer.upper)


def test_many_epsilons_of_a_million_users_against_balls() -> None:
    """Where all are asked at once a quicker pair answers, which is as safe and nearly as sharp."""
    deltas = np.geomspace(1e-9, 1e-3, 9)
    answer = dp.account(dp.ShuffledReports(users=1_000_000, local_epsilon=2.0))
    upper = np.asarray(answer.epsilon(delta=deltas).upper)
    for delta, epsilon in zip(deltas[::4], upper[::4], strict=True):
        assert float(blanket_delta(1_000_000, 2.0, float(epsilon)).upper()) <= delta
        before = float(epsilon) * (1.0 - 1e-3)
        assert float(blanket_delta(1_000_000, 2.0, before).lower()) > delta


def best_rates(p: list[float], q: list[float], copies: int, fprs: list[float]) -> list[float]:
    """The largest true-positive rates of all tests, by going through all results of three kinds."""
    results = []
    for first in range(copies + 1):
        for second in range(copies + 1 - first):
            times = (first, second, copies - first - second)
            ways = math.factorial(copies) // math.prod(map(math.factorial, times))
            hit, false = (
                ways * math.prod(mass**often for mass, often in zip(law, times, strict=True))
                for law in (p, q)
            )
            results.append((hit / false, hit, false))
    results.sort(reverse=True)
    hits = np.append(0.0, np.cumsum([hit for _, hit, _ in results]))
    falses = np.append(0.0, np.cumsum([false for *_, false in results]))
    return np.interp(fprs, falses, hits).tolist()


@pytest.mark.parametrize("fprs", [[1e-4], [0.3], [1e-3, 0.05, 0.6]])
@pytest.mark.parametrize("copies", [2, 9, 40])
def test_few_rates_of_a_repeated_pair(fprs: list[float], copies: int) -> None:
    """One table serves them, which also knows what is left next to one."""
    p, q = [0.5, 0.3, 0.2], [0.3, 0.25, 0.45]
    run = Composition(((AtomicPair.from_pmfs(p, q), copies),))
    low, high = run.true_positive_rates(np.array(fprs), 1e-3)
    truth = np.array(best_rates(p, q, copies, fprs))
    assert np.all(low <= truth * (1.0 + 1e-12))
    assert np.all(truth <= high * (1.0 + 1e-12))
    assert np.all(high - low <= 1e-3 * high)
    # not below one hundredth of the false negatives, where work can do it
    assert np.all((high - low <= 0.011 * (1.0 - truth)) | (truth < 0.5))
