"""Regressions in the composition core: answers far out, engines that decline, and calls without end.

Expected values are sums in balls or exact fractions, written out here from the definitions.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb
from scipy.special import gammaln

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.mechanisms import ProfileMechanism
from sharpdp.mechanisms.sensitivity import SensitivityDistribution
from sharpdp.numerics.special import log_convexity_gap
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile import composition as compose
from sharpdp.profile.composition import Composition
from sharpdp.profile.contour_engine import ContourEvaluation
from sharpdp.profile.engine import Thresholds
from sharpdp.profile.one_big_jump import expansion
from tests.reference import poisson_direct
from tests.reference.balls import precision
from tests.wild.exact import Exact

BITS = 320


def poisson(rate: float, steps: int, noise_multiplier: float) -> dp.DPSGD:
    batches = dp.PoissonBatches(sample_rate=rate, steps=steps)
    return dp.DPSGD(batches, noise_multiplier=noise_multiplier)


def log_tail(z: arb) -> arb:
    """log of the upper tail of the normal distribution, z > 0."""
    return (z / arb(2).sqrt()).erfc().log() - arb(2).log()


def log_delta_of_one_step(rate: float, mu: float, epsilon: float) -> float:
    """log delta of one Poisson-sampled Gaussian, the record present: P[y > c] - e^epsilon Q[y > c]."""
    with precision(4096):
        q, m, x = arb(rate), arb(mu), arb(epsilon).exp()
        c = ((x - 1 + q) / q).log() / m + m / 2
        near, far = log_tail(c - m).exp(), log_tail(c).exp()
        return float((q * near + (1 - q - x) * far).log())


def renyi_log_delta(rate: float, mu: float, steps: int, epsilon: float, order: int) -> float:
    """The bound on log delta from the moment of one integer order, the record present under P."""
    k = np.arange(order + 1.0)
    logs = gammaln(order + 1.0) - gammaln(k + 1.0) - gammaln(order - k + 1.0)
    logs += (order - k) * np.log1p(-rate) + k * np.log(rate) + 0.5 * k * (k - 1.0) * mu * mu
    return float(steps * np.logaddexp.reduce(logs) - (order - 1) * epsilon)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon at which N(mu, 1) against N(0, 1) has this delta, by bisection in balls."""
    with precision(4 * BITS):
        m = arb(mu)

        def excess(epsilon: float) -> float:
            a, b = arb(epsilon) / m - m / 2, arb(epsilon) / m + m / 2
            return float(log_tail(a).exp() - arb(epsilon).exp() * log_tail(b).exp() - arb(delta))

        low, high = 0.0, 1e4
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
        return high


def _not_needed(*_: object, **__: object) -> None:
    raise AssertionError("Chernoff's bound settles this question")


def gaussian_delta(mu: float, epsilon: float) -> arb:
    """delta of N(mu, 1) against N(0, 1)."""
    m, k = arb(mu), arb(epsilon)
    tails = [((k / m + side * m / 2) / arb(2).sqrt()).erfc() / 2 for side in (-1, 1)]
    return tails[0] - k.exp() * tails[1]


def binomial_delta(p: list[float], q: list[float], count: int, epsilon: float) -> float:
    """delta of many repetitions of two coins, an integral in place of the sum over the second face.

    With deviations of 10^7 and a summand that begins at zero the two differ by less than 1e-8 of it.
    """
    with precision(BITS):
        ahead, behind = ([arb(one) / sum(map(arb, pmf), arb(0)) for one in pmf] for pmf in (p, q))
        rise = (ahead[1] / behind[1]).log() - (ahead[0] / behind[0]).log()
        first = (arb(epsilon) - count * (ahead[0] / behind[0]).log()) / rise
        deviation, sign = arb(count).sqrt() / 2, 1 if rise > 0 else -1
        pieces, total = 4000, arb(0)
        for place in range(1, pieces + 1):
            faces = first + sign * 14 * deviation * place / pieces
            log_mass = (
                (arb(count) + 1).lgamma() - (faces + 1).lgamma() - (count - faces + 1).lgamma()
            )
            log_mass += faces * ahead[1].log() + (count - faces) * ahead[0].log()
            loss = count * (ahead[0] / behind[0]).log() + faces * rise
            weight = 1 if place == pieces else 4 if place % 2 else 2
            total += weight * log_mass.exp() * (1 - (epsilon - loss).exp())
        return float(total * 14 * deviation / pieces / 3)


class TestFarOut:
    RATE, STEPS, NOISE = 1.3499348383388528e-05, 1130 * 1197, 29.053838264333315

    def test_s9b_losses_below_the_smallest_double_stay_in_the_upper_side(self) -> None:
        """What the nodes leave out counts as infinite loss; as a double its mass was zero."""
        mu = 1.0 / self.NOISE
        steps = ((PoissonSampledPair(GaussianPair(mu), self.RATE), self.STEPS),)
        # all steps together reveal no less than the first one
        least = log_delta_of_one_step(self.RATE, mu, 4.5)
        assert least == pytest.approx(-104076.65, abs=0.01)
        with np.errstate(all="ignore"):
            work = ContourEvaluation.enclose(steps, Thresholds.at(0.029), 0.02)
        assert work.log_delta(4.5, Side.UPPER) >= least
        low, high = Composition(steps).log_delta(4.5, 1e-3)
        assert low <= least <= high

    def test_s9b_the_two_sides_do_not_cross(self) -> None:
        run = poisson(self.RATE, 1130, self.NOISE) * 1197
        answer = dp.account(run).delta(epsilon=18.0)
        order = 18_500
        assert renyi_log_delta(self.RATE, 1.0 / self.NOISE, self.STEPS, 18.0, order) < -332_000
        assert answer.lower == 0.0 < answer.upper < 3e-323

    @pytest.mark.parametrize(
        ("rate", "steps", "noise", "epsilon", "order"),
        [
            (1e-9, 10**12, 1e5, 1.0, 2000),
            (1e-9, 10**12, 1e5, 1e308, 2),
            (1e-6, 10**6, 10.0, 50.0, 100),
            (0.00018471687940312996, 1000, 12.321572930291017, 7.73196, 400),
            (0.001, 10_000, 5.0, 10.0, 200),
        ],
    )
    def test_f1_a_delta_below_the_smallest_double_is_answered_without_an_engine(
        self,
        rate: float,
        steps: int,
        noise: float,
        epsilon: float,
        order: int,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert renyi_log_delta(rate, 1.0 / noise, steps, min(epsilon, 1e6), order) < -745.2
        for engine in compose.ENGINES:
            monkeypatch.setattr(engine, "enclose", _not_needed)
        answer = dp.account(poisson(rate, steps, noise)).delta(epsilon=epsilon)
        assert answer.lower == 0.0 < answer.upper < 3e-323

    @pytest.mark.parametrize(("exponent", "x"), [(1e40, 1e-42), (1e30, -1e-32), (1e200, 1e-203)])
    def test_f7_moments_at_huge_tilts(self, exponent: float, x: float) -> None:
        """A power of the tilt alone left the range of doubles."""
        with precision(BITS * 8):
            s, y = arb(exponent), arb(x)
            exact = ((s * y).expm1() + s * (-y).expm1()).log()
        assert float(log_convexity_gap(exponent, np.array([x]))[0]) == pytest.approx(
            float(exact), rel=1e-13
        )


def test_crash_epsilon_is_not_halved_without_end() -> None:
    p, q = [6.276903044006427e-08, 0.9999999372309696], [5.505417587609035e-06, 0.9999944945824124]

    def profile(p: list[float], q: list[float]):
        ahead, behind = np.array(p), np.array(q)

        def value(epsilon: np.ndarray) -> np.ndarray:
            x = np.exp(np.minimum(epsilon, 600.0))[..., None]
            return np.clip(np.maximum(ahead - x * behind, 0.0).sum(-1), 0.0, 1.0)

        return value

    run = ProfileMechanism(profile=profile(p, q), reverse=profile(q, p)) * 8
    answer = dp.account(run).delta(epsilon=0.8180319033896006)
    x, deltas = Fraction(math.exp(0.8180319033896006)), []
    for ahead, behind in ((p, q), (q, p)):
        (a, b), (c, d) = map(Fraction, ahead), map(Fraction, behind)
        masses = [
            math.comb(8, k) * (a**k * b ** (8 - k) - x * c**k * d ** (8 - k)) for k in range(9)
        ]
        deltas.append(sum(max(mass, Fraction(0)) for mass in masses))
    assert answer.lower <= float(max(deltas)) <= answer.upper


RARE = poisson(1e-3, 20, 0.6)
"""One contour stays wider than asked here, so that jumps are asked as well."""


class TestDeclining:
    """Only `Declined` makes room for the next engine; every other exception is a defect and is seen."""

    @pytest.mark.parametrize("fault", [ValueError, IndexError, KeyError, TypeError])
    def test_build9_defects_of_an_engine_surface(
        self, fault: type[Exception], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise fault("a defect")

        monkeypatch.setattr(expansion, "make_plan", broken)
        with pytest.raises(fault, match="a defect"):
            dp.account(RARE).delta(epsilon=0.9)
        with pytest.raises(fault, match="a defect"):
            dp.account(RARE).epsilon(delta=1e-6)

    def test_build9_an_engine_that_declines_makes_room(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from sharpdp.profile.engine import Declined

        answer = dp.account(RARE).delta(epsilon=0.9)

        def declining(*_: object, **__: object) -> None:
            raise Declined("not today")

        monkeypatch.setattr(expansion, "make_plan", declining)
        other = dp.account(RARE).delta(epsilon=0.9)
        assert other.lower <= answer.upper
        assert answer.lower <= other.upper
        assert (other.lower, other.upper) != (answer.lower, answer.upper)

    def test_build9_what_is_known_stands_where_all_engines_decline(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from sharpdp.profile.engine import Declined

        run = poisson(1e-4, 10, 0.3)
        delta, epsilon = dp.account(run).delta(epsilon=2.3), dp.account(run).epsilon(delta=1e-6)

        def declining(*_: object, **__: object) -> None:
            raise Declined("not today")

        for engine in compose.ENGINES:
            monkeypatch.setattr(engine, "enclose", declining)
        known = dp.account(run).delta(epsilon=2.3)
        assert known.lower <= delta.lower <= delta.upper <= known.upper < 1.0
        known = dp.account(run).epsilon(delta=1e-6)
        assert known.lower <= epsilon.lower <= epsilon.upper <= known.upper < math.inf


class TestBoundedSteps:
    """Where delta is tiny, steps with bounded losses take their largest ones."""

    def test_f4_a_rarely_sampled_part_beside_a_finite_pair(self) -> None:
        rate, noise, goal = 1.5916881437512236e-09, 0.6631967167369035, 1.6902500598323646e-37
        p, q = [0.3974609375, 0.6025390625], [0.494140625, 0.505859375]
        run = dp.Sequence([poisson(rate, 2, noise), dp.FinitePair(p=p, q=q)])
        answer = dp.account(run).epsilon(delta=goal)

        def delta(epsilon: float) -> arb:
            """The larger direction; with results of the finite pair that lose more there is no need."""
            totals = []
            for direction, ahead, behind in (("remove", p, q), ("add", q, p)):
                total = arb(0)
                for a, b in zip(ahead, behind, strict=True):
                    with precision(BITS):
                        rest = float(arb(epsilon) - (arb(a) / arb(b)).log())
                    assert rest > 0.0
                    total += arb(a) * poisson_direct.two_steps(rate, noise, direction, rest)
                totals.append(total)
            return max(totals, key=float)

        assert delta(float(answer.lower)) >= goal * (1.0 - 1e-9)
        assert delta(float(answer.upper)) <= goal * (1.0 + 1e-9)
        assert answer.upper - answer.lower <= 1e-3 * answer.upper

    def test_an_approximate_step_without_epsilon_in_a_sequence(self) -> None:
        first, local, last = 6.293536740536905e-08, 1.5924356004197329, 0.0013826831026786295
        goal = 1.143942460105855e-06
        run = dp.Sequence(
            [
                dp.ApproximateDP(epsilon=0.0, delta=first),
                dp.ApproximateDP(epsilon=local, delta=0.0) * 20,
                dp.ApproximateDP(epsilon=last, delta=1e-06),
            ]
        )
        answer = dp.account(run).epsilon(delta=goal)

        def delta(epsilon: float) -> arb:
            with precision(BITS):
                keep = (1 - arb(first)) * (1 - arb(1e-6))
                total, odds, few = 1 - keep, arb(local).exp(), arb(last).exp()
                for ups in range(21):
                    for up in (0, 1):
                        mass = keep * math.comb(20, ups) * odds**ups / (1 + odds) ** 20
                        mass *= few**up / (1 + few)
                        loss = (2 * ups - 20) * arb(local) + (2 * up - 1) * arb(last)
                        total += mass * (1 - (arb(epsilon) - loss).exp()).max(arb(0))
                return total

        assert delta(float(answer.lower)) >= goal >= delta(float(answer.upper))
        assert answer.upper - answer.lower <= 1e-3 * answer.upper


class TestSeldom:
    """Jumps that are rare: their sum is taken one by one, whatever else is in the sequence."""

    def test_f4_two_rarely_sampled_steps_of_different_noise(self) -> None:
        """The losses of the second step end long before epsilon, and the first had to end there too."""
        first, second = (
            (9.44403240794248e-06, 1.016029253042858),
            (0.0020897134474884946, 16.57292560896007),
        )
        goal = 2.479242145867171e-37
        run = dp.Sequence([poisson(rate, 1, noise) for rate, noise in (first, second)])
        answer = dp.account(run, relative_width=1e-7).epsilon(delta=goal)

        def delta(epsilon: float) -> float:
            """The mean of the first step's delta over the losses of the second; the rule is exact."""
            rate, mu, step = second[0], 1.0 / second[1], 0.5
            y = np.arange(-10.0, 10.5, step)
            loss = np.log1p(rate * np.expm1(mu * y - 0.5 * mu * mu))
            density = np.exp(-0.5 * y * y + loss) / math.sqrt(2.0 * math.pi)
            values = [
                log_delta_of_one_step(first[0], 1.0 / first[1], epsilon - one) for one in loss
            ]
            return float(np.sum(density * np.exp(values)) * step)

        assert delta(answer.lower) >= goal * (1.0 - 1e-9)
        assert delta(answer.upper) <= goal * (1.0 + 1e-9)
        assert answer.upper - answer.lower <= 1e-7 * answer.upper

    @pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1])
    def test_width_of_a_rare_sensitivity(self, epsilon: float) -> None:
        rare, distance = 4.8e-6, 0.14537
        law = SensitivityDistribution(atoms=[(distance, rare), (0.0, 1.0 - rare)])
        step = dp.RandomlyInitializedGD(sensitivity=law, claim="instance", initialization="public")
        answer = dp.account(step * 2).delta(epsilon=epsilon)
        with precision(BITS):
            once, twice = (gaussian_delta(distance * math.sqrt(n), epsilon) for n in (1, 2))
            exact = float(2 * rare * (1 - arb(rare)) * once + arb(rare) ** 2 * twice)
        assert answer.lower <= exact <= answer.upper
        assert answer.upper - answer.lower <= 1e-3 * answer.upper

    @pytest.mark.parametrize("categories", [300, 10**4])
    @pytest.mark.parametrize("local_epsilon", [0.05, 1.0])
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_bounds_of_seldom_losses(
        self, categories: int, local_epsilon: float, count: int
    ) -> None:
        """Against all results of two kinds of steps together, in balls."""
        from sharpdp.profile.elementary_bounds import RareLosses

        shapes = [(local_epsilon, categories, count), (2.0 * local_epsilon, 3 * categories, 1)]
        steps = tuple((AtomicPair.randomized_response(e, k), n) for e, k, n in shapes)
        rare = RareLosses.of(steps)
        assert rare is not None
        with precision(BITS):
            results = [(arb(1), arb(0))]
            for e, k, n in shapes:
                odds = arb(e).exp()
                each = [(odds, arb(e)), (arb(1), -arb(e)), (arb(k - 2), arb(0))]
                for _ in range(n):
                    results = [
                        (mass * p / (odds + k - 1), loss + more)
                        for mass, loss in results
                        for p, more in each
                    ]
            for epsilon in (0.0, 0.3 * local_epsilon, 1.5 * local_epsilon, 2.5 * local_epsilon):
                gains = [mass * (1 - (arb(epsilon) - loss).exp()) for mass, loss in results]
                exact = float(sum((gain for gain in gains if gain > 0), arb(0)).log())
                low, high = rare.log_delta(epsilon)
                assert low <= exact <= high


class TestClosePairs:
    def test_width_of_close_pmfs_repeated_very_often(self) -> None:
        """Losses of 1e-8 are known relative to themselves, or 10^15 of them are not known at all."""
        apart, count, goal = 10.0**-7.5, 10**15, 1e-6
        p, q = [0.5, 0.5], [0.5 + apart / 4, 0.5 - apart / 4]
        answer = dp.account(dp.FinitePair(p=p, q=q) * count).epsilon(delta=goal)
        assert binomial_delta(p, q, count, answer.lower) >= goal * (1.0 - 1e-6)
        assert binomial_delta(p, q, count, answer.upper) <= goal * (1.0 + 1e-6)
        assert answer.upper - answer.lower <= 1e-3 * answer.upper

    def test_losses_to_a_few_units_of_themselves(self) -> None:
        rng = np.random.default_rng(7)
        for _ in range(200):
            p = rng.dirichlet(np.full(3, 0.2)) * rng.choice([1.0, 1.0 + 1e-10])
            moved = p * np.exp(rng.normal(0.0, 10.0 ** rng.uniform(-15.0, 1.0), 3))
            q = moved / moved.sum() if rng.random() < 0.7 else np.array([5e-324, 1e-300, 1.0])
            if not (p > 0.0).all():
                continue
            pair = AtomicPair.from_pmfs(p, q)
            with precision(4 * BITS):
                totals = [sum((arb(one) for one in masses), arb(0)) for masses in (p, q)]
                exact = sorted(
                    (arb(a) * totals[1] / (arb(b) * totals[0])).log()
                    for a, b in zip(p, q, strict=True)
                )
                worst = max(abs(one) for one in exact)
                for loss, truth in zip(pair.losses, exact, strict=True):
                    assert abs(arb(loss) - truth) <= 8 * 2.0**-53 * abs(truth)
            assert pair.loss_error <= 10 * 2.0**-53 * float(worst)


class TestRatesNextToOne:
    """Sampled always, the same steps reveal no less; what is wide is compared with that."""

    def test_f9_a_rate_next_to_one_is_as_sharp_as_one(self) -> None:
        run = poisson(0.9999999988765677, 2, 0.375907625702061)
        answer = dp.account(run).epsilon(delta=3.9571924411872046e-05)
        always = gaussian_epsilon(math.sqrt(2.0) / 0.375907625702061, 3.9571924411872046e-05)
        assert always == pytest.approx(21.24514, abs=1e-5)
        assert answer.lower <= always
        assert answer.upper <= always * (1.0 + 1e-3)

    def test_f4_a_rate_next_to_one_in_a_sequence(self) -> None:
        parts = [dp.Gaussian(0.6136028786689314), poisson(0.9999992223015306, 1, 1.766033386028563)]
        answer = dp.account(dp.Sequence(parts)).epsilon(delta=2.77e-207)
        mu = math.hypot(1.0 / 0.6136028786689314, 1.0 / 1.766033386028563)
        always = gaussian_epsilon(mu, 2.77e-207)
        assert answer.lower <= always
        assert answer.upper <= always * (1.0 + 1e-3)


class TestNextToTheMassAtInfinity:
    """A delta a hair above the mass that is revealed asks for a tilt that only rounding survives."""

    def test_a_tilt_whose_moment_is_lost_in_rounding(self) -> None:
        null = [0.0005501571756276746, 0.00023192468834132285, 0.0012463592177347493]
        null += [0.0017433596630755943, 0.9962281992552207, 0.0]
        alternative = [9.894129959775455e-11, 9.984901794268808e-12, 0.0008750897636371491]
        alternative += [0.0010108581886250079, 0.9961609269388116, 0.001953125]
        p = [0.000722528468031669, 0.21691172024384286, 0.011235447016588296]
        p += [0.6105582878644782, 0.16057201640705898]
        q = [0.000632212411233013, 0.18979776585047148, 0.009831501414964805]
        q += [0.5422314833394921, 0.2575070369838386]
        curve = dp.TradeoffCurve.from_pmfs(null=null, alternative=alternative)
        pure = math.log(3.0)
        parts = [dp.PureDP(epsilon=pure) * 9, curve, dp.FinitePair(p=p, q=q)]
        delta = 0.0019531250000913774
        answer = dp.account(dp.Sequence(parts)).epsilon(delta=delta)
        with precision(4 * BITS):
            masses = [[arb(one) for one in row] for row in (alternative, null, p, q)]
            masses = [[one / sum(row, arb(0)) for one in row] for row in masses]
            heavy = arb(pure).exp() / (arb(pure).exp() + 1)
            coin = ([heavy, 1 - heavy], [1 - heavy, heavy], 9)
            exact = Exact([coin, (masses[0], masses[1], 1), (masses[2], masses[3], 1)])
            assert exact.delta(float(answer.lower)) >= delta
            assert exact.delta(float(answer.upper)) <= delta
        assert answer.upper <= answer.lower * 1.001


@pytest.mark.parametrize("count", [10**9, 10**15])
def test_one_kind_of_outcome_many_times(count: int) -> None:
    """Listing the results of a pair with one finite loss took memory for every repetition."""
    answer = dp.account(dp.ApproximateDP(epsilon=0, delta=1e-15) * count).advantage()
    with mpmath.workdps(40):
        exact = 1 - (1 - mpmath.mpf(1e-15)) ** count
    assert answer.lower <= exact <= answer.upper
    assert answer.upper <= 1.000001 * answer.lower


@pytest.mark.parametrize("share", [0.999, 0.98, 0.96])
@pytest.mark.parametrize("count", [30_000, 100_001])
def test_deltas_just_below_that_at_zero_need_some_epsilon(count: int, share: float) -> None:
    """delta(0) of many coins, exactly: a delta that is a few percent smaller is not reached at zero."""
    loss, heads = 0.002, np.arange(count + 1.0)
    log_likely, log_rare = -np.logaddexp(0.0, -loss), -np.logaddexp(0.0, loss)
    ways = gammaln(count + 1.0) - gammaln(heads + 1.0) - gammaln(count - heads + 1.0)
    log_p = ways + heads * log_likely + (count - heads) * log_rare
    log_q = ways + heads * log_rare + (count - heads) * log_likely

    def exact(epsilon: float) -> float:
        return float(np.sum(np.maximum(np.exp(log_p) - np.exp(log_q + epsilon), 0.0)))

    delta = share * exact(0.0)
    answer = dp.account(dp.PureDP(loss) * count).epsilon(delta=delta)
    assert answer.upper > 0.0
    assert exact(float(answer.upper)) <= delta * (1.0 + 1e-7)
    assert exact(float(answer.lower)) >= delta * (1.0 - 1e-7)
