"""What users hand in: profiles, laws of a sensitivity and points, composed and at their edges.

Every expected value is a finite sum or an integral of the definition, in 50 digits or in fractions.
"""

import itertools
import math
import warnings
from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

import sharpdp as dp
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms import ProfileMechanism
from sharpdp.mechanisms.sensitivity import SensitivityDistribution

mpmath.mp.dps = 50


def holds(bracket, truth) -> bool:
    """Whether the bracket contains the truth."""
    low, high = mpmath.mpf(float(bracket.lower)), mpmath.mpf(float(bracket.upper))
    return bool(low <= truth <= high)


def response(epsilon: float):
    """The profile of binary randomized response."""

    def profile(x):
        return np.maximum(0.0, -np.expm1(np.minimum(x, epsilon) - epsilon)) / (1 + np.exp(-epsilon))

    return profile


def laplace(epsilon: float):
    """The profile of Laplace noise of scale 1/epsilon."""
    return lambda x: np.where(x < epsilon, -np.expm1((np.minimum(x, epsilon) - epsilon) / 2), 0.0)


def gaussian(mu: float):
    """The profile of N(mu, 1) against N(0, 1), without cancellation in the exponent."""

    def profile(x):
        far = 0.5 * mu + x / mu
        return np.maximum(ndtr(mu - far) - np.exp(x + log_ndtr(-far)), 0.0)

    return profile


def listed(p, q):
    """The profile of two pmfs, written as everybody would."""
    p, q = np.array(p), np.array(q)

    def profile(x):
        return np.clip(np.maximum(p - np.exp(np.minimum(x, 600))[..., None] * q, 0).sum(-1), 0, 1)

    return profile


def power(p, q, times: int):
    """The law of (P^times, Q^times) in 50 digits, as (p, q) of every vector of counts."""
    p, q = [mpmath.mpf(float(x)) for x in p], [mpmath.mpf(float(x)) for x in q]
    result = []
    for counts in itertools.product(range(times + 1), repeat=len(p) - 1):
        left = times - sum(counts)
        if left < 0:
            continue
        ways, left_over = 1, times
        for count in counts:
            ways *= comb(left_over, count)
            left_over -= count
        here = there = mpmath.mpf(ways)
        for count, a, b in zip((*counts, left), p, q, strict=True):
            here, there = here * a**count, there * b**count
        result.append((here, there))
    return result


def delta_of(outcomes, epsilon):
    """delta of a finite pair, in 50 digits."""
    x = mpmath.exp(mpmath.mpf(epsilon))
    return mpmath.fsum(max(p - x * q, mpmath.mpf(0)) for p, q in outcomes)


def delta_both(outcomes, epsilon):
    """The larger delta of both directions."""
    return max(delta_of(outcomes, epsilon), delta_of([(q, p) for p, q in outcomes], epsilon))


def epsilon_of(outcomes, delta):
    """The smallest epsilon of a finite pair without infinite losses, in both directions."""
    low, high = mpmath.mpf(0), mpmath.mpf(10000)
    if delta_both(outcomes, 0) <= delta:
        return low
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_both(outcomes, middle) <= delta else (middle, high)
    return high


def tpr_of(outcomes, fpr):
    """The largest true-positive rate at a false-positive rate: Neyman and Pearson."""
    used, found = mpmath.mpf(0), mpmath.mpf(0)
    for p, q in sorted(outcomes, key=lambda one: -one[0] / one[1]):
        share = min(mpmath.mpf(1), (mpmath.mpf(fpr) - used) / q)
        used, found = used + share * q, found + share * p
        if share < 1:
            break
    return found


def halves(epsilon: float):
    """Binary randomized response, in 50 digits."""
    truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    return [truth, 1 - truth], [1 - truth, truth]


def run_of(epsilon: float, times: int):
    """So many binary responses, in 50 digits."""
    (p, other), _ = halves(epsilon)
    return [
        (comb(times, k) * p**k * other ** (times - k), comb(times, k) * other**k * p ** (times - k))
        for k in range(times + 1)
    ]


def test_v1_profile_with_largest_loss_composed():
    answer = dp.account(ProfileMechanism(profile=response(0.5), largest_loss=0.5) * 20)
    outcomes = run_of(0.5, 20)
    found = answer.epsilon(delta=1e-3)
    assert holds(found, epsilon_of(outcomes, mpmath.mpf(1e-3)))
    assert found.upper - found.lower < 1e-3 * found.upper
    assert holds(answer.tpr(fpr=0.01), tpr_of(outcomes, 0.01))
    for epsilon in (0.0, 1e-9, 5.0, 9.999999, 9.9999999999, 10.0):
        assert holds(answer.delta(epsilon=epsilon), delta_of(outcomes, epsilon))
    moment = mpmath.log(mpmath.fsum(p**3 / q**2 for p, q in run_of(0.5, 1))) * 20 / 2
    assert holds(answer.renyi(order=3.0), moment)
    assert answer.mu().upper < 2.26


def test_v1_laplace_profile_with_largest_loss_composed():
    given = dp.account(ProfileMechanism(profile=laplace(1.0), largest_loss=1.0) * 20)
    known = dp.account(dp.Laplace(1.0) * 20)
    one, other = given.epsilon(delta=1e-4), known.epsilon(delta=1e-4)
    assert one.lower <= other.upper
    assert other.lower <= one.upper < 18.1


@pytest.mark.parametrize("seed", range(6))
def test_v1_random_responses_composed(seed):
    rng = np.random.default_rng([seed, 1])
    epsilon = float(np.exp(rng.uniform(np.log(0.01), np.log(8.0))))
    times = int(rng.choice([2, 5, 20]))
    kind = {} if rng.random() < 0.3 else {"largest_loss": epsilon}
    answer = dp.account(ProfileMechanism(profile=response(epsilon), **kind) * times)
    outcomes = run_of(epsilon, times)
    for share in (0.0, 0.3, 0.99, 1.0 - 1e-12, 1.0):
        at = share * times * epsilon
        assert holds(answer.delta(epsilon=at), delta_of(outcomes, at)), (epsilon, times, at)
    delta = float(10 ** rng.uniform(-9, -1))
    assert holds(answer.epsilon(delta=delta), epsilon_of(outcomes, mpmath.mpf(delta)))


def test_v2_profile_that_is_no_number_far_out():
    def naive(e):
        with np.errstate(all="ignore"):
            return norm.cdf(16.5 - e / 33) - np.exp(e) * norm.cdf(-16.5 - e / 33)

    def exact(e):
        return mpmath.ncdf(mpmath.mpf(33) / 2 - mpmath.mpf(e) / 33) - mpmath.exp(e) * mpmath.ncdf(
            -mpmath.mpf(33) / 2 - mpmath.mpf(e) / 33
        )

    answer = dp.account(ProfileMechanism(profile=naive))
    delta = answer.delta(epsilon=600.0)
    assert delta.lower <= exact(600.0) <= delta.upper
    found = answer.epsilon(delta=1e-5)
    assert found.lower <= found.upper < 684.31
    assert exact(found.upper) <= 1e-5 <= exact(found.lower)
    for epsilon in (500.0, 600.0, 690.0, 800.0):
        assert holds(answer.delta(epsilon=epsilon), exact(epsilon))
    assert answer.delta(epsilon=800.0).lower == 0.0
    twice = dp.account(ProfileMechanism(profile=naive) * 2).delta(epsilon=1000.0)
    both = dp.account(dp.Gaussian(1.0 / 33.0) * 2).delta(epsilon=1000.0)
    assert twice.lower <= both.upper
    assert both.lower <= twice.upper


def rare(atoms):
    """delta(1) of the uniform distance on [4, 5] with what atoms at zero leave, in 50 digits."""
    rest = 1 - sum(Fraction(share) for _, share in atoms)

    def delta(m):
        return mpmath.ncdf(m / 2 - 1 / m) - mpmath.e * mpmath.ncdf(-m / 2 - 1 / m)

    return mpmath.mpf(rest.numerator) / rest.denominator * mpmath.quad(delta, [4, 4.5, 5])


@pytest.mark.parametrize(
    "atoms",
    [
        [(0.0, 0.07)] * 14 + [(0.0, 0.02 - 1e-10)],
        [(0.0, 0.3), (0.0, 0.3), (0.0, 0.4 - 1e-13)],
        [(0.0, 0.1)] * 9 + [(0.0, 0.1 - 1e-12)],
        [(0.0, 0.3), (0.0, 0.3), (0.0, 0.39999999999999997)],
    ],
)
def test_v3_rare_rest_of_a_sensitivity_law(atoms):
    law = SensitivityDistribution(
        atoms=atoms, cdf=lambda x: np.clip(x - 4, 0, 1), interval=(4.0, 5.0)
    )
    run = dp.RandomlyInitializedGD(sensitivity=law, claim="instance", initialization="public")
    found = dp.account(run, relative_width=1e-6).delta(epsilon=1.0)
    assert holds(found, rare(atoms))
    assert found.upper - found.lower < 1e-5 * found.upper


def test_v3_atoms_above_one_are_divided_by_their_sum():
    more = [(0.5, 0.5 + 3e-10), (1.0, 0.5 + 2e-10)]
    total = sum(Fraction(share) for _, share in more)
    law = SensitivityDistribution(
        atoms=more, cdf=lambda x: np.clip(x - 4, 0, 1), interval=(4.0, 5.0)
    )
    run = dp.RandomlyInitializedGD(sensitivity=law, claim="instance", initialization="public")
    found = dp.account(run, relative_width=1e-9).delta(epsilon=0.0)

    def share(m, mass):
        part = Fraction(mass) / total
        tv = 2 * mpmath.ncdf(mpmath.mpf(m) / 2) - 1
        return mpmath.mpf(part.numerator) / part.denominator * tv

    assert holds(found, mpmath.fsum(share(*one) for one in more))


def test_v_recursion_of_a_profile_with_tiny_masses():
    p, q = [6.276903044006427e-08, 0.9999999372309696], [5.505417587609035e-06, 0.9999944945824124]
    run = ProfileMechanism(profile=listed(p, q), reverse=listed(q, p)) * 8
    found = dp.account(run).delta(epsilon=0.8180319033896006)
    assert holds(found, delta_both(power(p, q, 8), 0.8180319033896006))
    assert found.upper - found.lower < 1e-3 * found.upper


def test_v_width_of_a_profile_that_reaches_zero_without_largest_loss():
    answer = dp.account(ProfileMechanism(profile=response(0.6588)) * 2)
    for epsilon in (1.4, 9.39):
        found = answer.delta(epsilon=epsilon)
        assert found.lower == 0.0
        assert found.upper < 1e-299


def test_v_width_of_a_profile_of_two_outcomes():
    p, q = [1e-5, 1 - 1e-5], [1e-4, 1 - 1e-4]
    run = ProfileMechanism(profile=listed(p, q), reverse=listed(q, p)) * 2
    found = dp.account(run).delta(epsilon=2.5)
    assert holds(found, delta_both(power(p, q, 2), 2.5))
    assert found.upper - found.lower < 1e-2 * found.upper


def test_v_tpr_of_composed_profiles_ends():
    given = dp.account(ProfileMechanism(profile=laplace(0.975)) * 2).tpr(fpr=4.18e-4)
    known = dp.account(dp.Laplace(1 / 0.975) * 2).tpr(fpr=4.18e-4)
    assert given.lower <= known.upper
    assert known.lower <= given.upper


def test_v_no_warning_escapes_from_allocation():
    batches = dp.RandomAllocation(steps=3, participations=2, epochs=5)
    run = dp.DPSGD(batches, noise_multiplier=0.6678745146385302)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dp.account(run).delta(epsilon=0.0)
    assert 0.0 < found.lower <= found.upper <= 1.0


def noisy(profile, size):
    rng = np.random.default_rng(5)
    return lambda x: np.clip(profile(x) * (1 + size * rng.uniform(-1, 1, np.shape(x))), 0, 1)


WRONG = {
    "noise": ({"profile": noisy(gaussian(1.0), 1e-6)}, "profile must fall, convex"),
    "rises": (
        {"profile": lambda x: gaussian(1.0)(x) + 0.01 * ((x > 1.1) & (x < 1.2))},
        "profile must fall, convex",
    ),
    "concave": ({"profile": lambda x: np.maximum(0.1 - 0.001 * x * x, 0)}, "profile must"),
    "nan between": (
        {"profile": lambda x: np.where((x > 0.9) & (x < 0.99), np.nan, gaussian(1.0)(x))},
        "profile must fall, convex",
    ),
    "negative between": (
        {"profile": lambda x: gaussian(1.0)(x) - 0.2 * ((x > 0.4) & (x < 0.6))},
        "profile must fall, convex",
    ),
    "another reverse": (
        {"profile": gaussian(1.0), "reverse": gaussian(1.1)},
        "reverse must begin at the same delta",
    ),
    "too steep at zero": (
        {"profile": lambda x: np.maximum(0.5 - x, 0), "largest_loss": 0.5},
        "profile must",
    ),
    "losses beyond the largest": (
        {"profile": gaussian(1.0), "largest_loss": 1.0},
        "largest_loss must be where delta has reached",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_profiles_are_refused(case):
    given, message = WRONG[case]
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        dp.account(ProfileMechanism(**given) * 3).epsilon(delta=1e-3)


def test_noise_in_the_tail_is_left_out():
    def profile(x):  # 1 - cdf: rounded at 1e-16, which e^x magnifies
        with np.errstate(all="ignore"):
            return 1 - ndtr(x - 0.5) - np.exp(x) * (1 - ndtr(x + 0.5))

    answer, known = (
        dp.account(ProfileMechanism(profile=profile)),
        dp.account(dp.Gaussian(1.0)),
    )
    for delta in (1e-3, 1e-5):
        one, other = answer.epsilon(delta=delta), known.epsilon(delta=delta)
        assert one.lower <= other.lower
        assert other.upper <= one.upper < other.upper * 1.001
    assert answer.epsilon(delta=1e-30).upper == np.inf  # nothing is known there
    assert answer.epsilon(delta=1e-30).lower < known.epsilon(delta=1e-30).upper


def test_mass_at_infinite_loss_of_a_profile():
    """0.9 of randomized response, 0.1 revealed: both sides, with and without largest_loss."""
    part = response(1.0)

    def profile(x):
        return 0.1 + 0.9 * part(x)

    truth = 1 / (1 + mpmath.exp(-1))
    tenth = mpmath.mpf(0.1)
    keep = 1 - tenth
    outcomes = [
        (tenth, mpmath.mpf(0)),
        (keep * truth, keep * (1 - truth)),
        (keep * (1 - truth), keep * truth),
        (mpmath.mpf(0), tenth),
    ]
    twice = [(a * c, b * d) for a, b in outcomes for c, d in outcomes]
    for kind in ({}, {"largest_loss": 1.0}):
        once = dp.account(ProfileMechanism(profile=profile, **kind))
        again = dp.account(ProfileMechanism(profile=profile, **kind) * 2)
        for epsilon in (0.0, 0.5, 1.0, 2.0, 5.0):
            assert holds(once.delta(epsilon=epsilon), delta_of(outcomes, epsilon))
            assert holds(again.delta(epsilon=epsilon), delta_of(twice, epsilon))
        assert once.epsilon(delta=0.09).lower == np.inf
        assert once.epsilon(delta=0.11).upper < 1.0


def random_pmfs(rng, size: int):
    """Two pmfs whose ratios reach from tame to wild."""
    spread = float(rng.choice([0.1, 1.0, 4.0]))
    p, q = np.exp(spread * rng.normal(size=size)), np.exp(spread * rng.normal(size=size))
    return (p / p.sum()).tolist(), (q / q.sum()).tolist()


def check_random_pair(seed):
    """One random finite pair, handed in as a profile, alone, composed and in company."""
    rng = np.random.default_rng([seed, 2])
    p, q = random_pmfs(rng, int(rng.integers(2, 4)))
    total_p, total_q = mpmath.fsum(p), mpmath.fsum(q)
    p_exact, q_exact = [mpmath.mpf(x) / total_p for x in p], [mpmath.mpf(x) / total_q for x in q]
    outcomes = list(zip(p_exact, q_exact, strict=True))
    largest = max(abs(mpmath.log(a / b)) for a, b in outcomes)
    kind = {} if rng.random() < 0.5 else {"largest_loss": float(largest) * (1 + 1e-15)}
    mine = ProfileMechanism(profile=listed(p, q), reverse=listed(q, p), **kind)
    times = int(rng.choice([1, 2, 3, 6]))
    run, laws = mine * times, power(p_exact, q_exact, times)
    if rng.random() < 0.5:
        other, there = random_pmfs(rng, 2)
        run = run + dp.FinitePair(p=other, q=there)
        extra = list(zip(map(mpmath.mpf, other), map(mpmath.mpf, there), strict=True))
        laws = [(a * c, b * d) for a, b in laws for c, d in extra]
    answer = dp.account(run)
    top = float(max(abs(mpmath.log(a / b)) for a, b in laws))
    places = [0.0, 0.3 * top, 0.9 * top, top * (1 - 1e-9), np.nextafter(top, 0), top, 1.1 * top]
    for epsilon in places:
        truth = delta_both(laws, epsilon)
        assert holds(answer.delta(epsilon=float(epsilon)), truth), (seed, epsilon, truth)
    delta = float(10 ** rng.uniform(-8, -0.5))
    truth = epsilon_of(laws, mpmath.mpf(delta))
    assert holds(answer.epsilon(delta=delta), truth), (seed, delta, truth)
    fpr = float(10 ** rng.uniform(-4, -0.3))
    truth = max(tpr_of(laws, fpr), tpr_of([(b, a) for a, b in laws], fpr))
    assert holds(answer.tpr(fpr=fpr), truth), (seed, fpr, truth)


@pytest.mark.parametrize("seed", range(4))
def test_random_pairs_handed_in_as_profiles(seed):
    check_random_pair(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 64))
def test_more_random_pairs_handed_in_as_profiles(seed):
    check_random_pair(seed)


def check_gaussian_company(seed):
    """A Gaussian profile composed with Gaussian noise: the distances add up in squares."""
    rng = np.random.default_rng([seed, 3])
    mu, other = np.exp(rng.uniform(np.log(0.02), np.log(3.0), size=2)).tolist()
    times = int(rng.choice([1, 3, 50]))
    run = ProfileMechanism(profile=gaussian(mu)) * times + dp.Gaussian(1.0 / other)
    total = mpmath.sqrt(times * mpmath.mpf(mu) ** 2 + (1 / mpmath.mpf(1.0 / other)) ** 2)
    answer = dp.account(run)

    def delta(epsilon):
        z, x = mpmath.mpf(epsilon) / total, mpmath.exp(mpmath.mpf(epsilon))
        return mpmath.ncdf(total / 2 - z) - x * mpmath.ncdf(-total / 2 - z)

    for share in (0.0, 1.0, 4.0):
        epsilon = float(total * (total / 2 + share))
        assert holds(answer.delta(epsilon=epsilon), delta(epsilon)), (seed, epsilon)
    found = answer.epsilon(delta=1e-7)
    assert delta(found.upper) <= 1e-7
    assert found.lower == 0.0 or delta(found.lower) >= 1e-7
    assert found.upper - found.lower <= 2e-3 * found.upper


@pytest.mark.parametrize("seed", range(2))
def test_gaussian_profiles_for_composition(seed):
    check_gaussian_company(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 40))
def test_more_gaussian_profiles_for_composition(seed):
    check_gaussian_company(seed)


def gaussian_delta(mu, epsilon):
    """delta of N(mu, 1) against N(0, 1), in 50 digits."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    if mu == 0:
        return mpmath.mpf(0)
    far = mu / 2 + epsilon / mu
    return mpmath.ncdf(mu - far) - mpmath.exp(epsilon) * mpmath.ncdf(-far)


def check_law(seed):
    """A random law of the sensitivity, alone or beside Gaussian noise: a mean over distances."""
    rng = np.random.default_rng([seed, 4])
    shares = rng.dirichlet(np.ones(int(rng.integers(1, 5))))
    beside = bool(rng.random() < 0.6)
    shares *= 1.0 - 10.0 ** rng.uniform(-6, -0.3) if beside else 1.0
    atoms = [(float(rng.uniform(0, 3)), float(share)) for share in shares]
    low = float(rng.uniform(0.2, 2))
    high = low + float(rng.uniform(0.1, 2))
    more = {"cdf": lambda x: np.clip((x - low) / (high - low), 0, 1), "interval": (low, high)}
    law = SensitivityDistribution(atoms=atoms, **(more if beside else {}))
    run = dp.RandomlyInitializedGD(sensitivity=law, claim="instance", initialization="public")
    extra = float(rng.choice([0.0, 0.5]))
    run = run + dp.Gaussian(1 / extra) if extra else run
    total = sum(Fraction(share) for _, share in atoms)
    exact = [(m, Fraction(share) / (1 if beside else total)) for m, share in atoms]
    rest = max(1 - total, Fraction(0)) if beside else Fraction(0)
    for epsilon in (0.0, 0.7, 3.0):

        def delta(m, epsilon=epsilon):
            return gaussian_delta(mpmath.sqrt(mpmath.mpf(m) ** 2 + mpmath.mpf(extra) ** 2), epsilon)

        truth = mpmath.fsum(
            mpmath.mpf(one.numerator) / one.denominator * delta(m) for m, one in exact
        )
        if rest:
            mean = mpmath.quad(delta, [low, high]) / (mpmath.mpf(high) - mpmath.mpf(low))
            truth += mpmath.mpf(rest.numerator) / rest.denominator * mean
        assert holds(dp.account(run).delta(epsilon=epsilon), truth), (seed, epsilon)


@pytest.mark.parametrize("seed", range(3))
def test_random_sensitivity_laws(seed):
    check_law(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 40))
def test_more_random_sensitivity_laws(seed):
    check_law(seed)


@pytest.mark.parametrize("seed", range(2))
def test_renyi_functions_that_are_not_monotone(seed):
    """Every value is a promised upper bound, however the function wiggles between the orders."""
    rng = np.random.default_rng([seed, 5])
    mu, rate = float(np.exp(rng.uniform(-2, 1))), float(rng.uniform(1, 50))

    def above(orders):
        return mu * mu / 2 * orders * (1 + 0.3 * np.sin(rate * orders) ** 2)

    curve = dp.RenyiCurve(function=above)
    alone, twice = curve, dp.account(curve + dp.Gaussian(1 / mu))
    for delta in (1e-3, 1e-9):
        assert gaussian_delta(mu, alone.epsilon(delta=delta).upper) <= delta
        total = mpmath.sqrt(mpmath.mpf(mu) ** 2 + 1 / mpmath.mpf(1 / mu) ** 2)
        assert gaussian_delta(total, twice.epsilon(delta=delta).upper) <= delta


@pytest.mark.parametrize("seed", range(2))
def test_points_of_a_curve_composed(seed):
    """Points on the profile of a Gaussian, rounded up: no answer of its repetitions is below it."""
    rng = np.random.default_rng([seed, 6])
    mu, times = float(np.exp(rng.uniform(-1.5, 0.7))), int(rng.integers(1, 5))
    epsilons = np.append(0.0, np.sort(rng.uniform(0, 4 * mu + mu * mu, 5)))
    deltas = [float(gaussian_delta(mu, float(one))) * (1 + 1e-15) for one in epsilons]
    curve = dp.TradeoffCurve.from_points(epsilons=epsilons.tolist(), deltas=deltas)
    answer = dp.account(curve * times)
    total = mpmath.sqrt(times) * mpmath.mpf(mu)
    for epsilon in (0.0, float(epsilons[1]), mu * times):
        assert answer.delta(epsilon=epsilon).upper >= gaussian_delta(total, epsilon)


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-160])
@pytest.mark.parametrize("other", [([1.5, 0.1], [0.5, 0.5]), ([1.5, 0.5], [0.9, 0.1])])
def test_losses_next_to_zero_end(tiny: float, other: tuple[list[float], list[float]]) -> None:
    """Masses beyond all doubles have no sign, and the search for a chord went on."""
    nearly_none = dp.PrivacyLoss(losses=[tiny], masses=[1.0], rounding="pessimistic")
    losses, masses = other
    table = dp.PrivacyLoss(
        losses=losses, masses=masses, rounding="pessimistic", reverse=nearly_none
    )
    exact = sum(
        mass * max(1.0 - math.exp(1.0 - loss), 0.0) for loss, mass in zip(*other, strict=True)
    )
    # P exceeds Q nowhere if Q exceeds P nowhere: anything up to the table's own delta is an upper end
    assert 0.0 <= dp.account(table).delta(epsilon=1.0).upper <= exact * (1.0 + 1e-9)
    swapped = dp.PrivacyLoss(
        losses=[tiny],
        masses=[1.0],
        rounding="pessimistic",
        reverse=dp.PrivacyLoss(losses=losses, masses=masses, rounding="pessimistic"),
    )
    assert 0.0 <= dp.account(swapped).delta(epsilon=1.0).upper <= exact * (1.0 + 1e-9)
