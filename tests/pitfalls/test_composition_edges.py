"""Regressions in the composition core: answers far out, engines that decline, and calls without end.

Expected values are sums in balls or exact fractions, written out here from the definitions.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.special import gammaln

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.curves import compose, termwise
from sharpdp.curves.compose import Composition
from sharpdp.curves.pair import GaussianPair
from sharpdp.curves.sampled import PoissonSampledPair
from sharpdp.curves.workings import Workings
from sharpdp.numerics.special import log_convexity_gap
from tests.reference import poisson_direct
from tests.reference.balls import precision

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
            work = Workings.for_threshold(steps, 0.029, 0.02)
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
    def test_f1_a_delta_below_the_smallest_double_is_answered_at_once(
        self, rate: float, steps: int, noise: float, epsilon: float, order: int
    ) -> None:
        assert renyi_log_delta(rate, 1.0 / noise, steps, min(epsilon, 1e6), order) < -745.2
        dp.account(poisson(0.01, 10, 1.0)).delta(epsilon=1e6)  # imports
        start = time.process_time()
        answer = dp.account(poisson(rate, steps, noise)).delta(epsilon=epsilon)
        assert time.process_time() - start < 1.0
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

    run = dp.ProfileMechanism(profile=profile(p, q), reverse=profile(q, p)) * 8
    answer = dp.account(run).delta(epsilon=0.8180319033896006)
    x, deltas = Fraction(math.exp(0.8180319033896006)), []
    for ahead, behind in ((p, q), (q, p)):
        (a, b), (c, d) = map(Fraction, ahead), map(Fraction, behind)
        masses = [
            math.comb(8, k) * (a**k * b ** (8 - k) - x * c**k * d ** (8 - k)) for k in range(9)
        ]
        deltas.append(sum(max(mass, Fraction(0)) for mass in masses))
    assert answer.lower <= float(max(deltas)) <= answer.upper


class TestDeclining:
    """Only `Declined` makes room for the next engine; every other exception is a defect and is seen."""

    @pytest.mark.parametrize("fault", [ValueError, IndexError, KeyError, TypeError])
    def test_build9_defects_of_an_engine_surface(
        self, fault: type[Exception], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise fault("a defect")

        monkeypatch.setattr(termwise, "make_plan", broken)
        with pytest.raises(fault, match="a defect"):
            dp.account(poisson(1e-4, 10, 0.3)).delta(epsilon=2.3)
        with pytest.raises(fault, match="a defect"):
            dp.account(poisson(1e-4, 10, 0.3)).epsilon(delta=1e-6)

    def test_build9_an_engine_that_declines_makes_room(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from sharpdp.curves.declined import Declined

        answer = dp.account(poisson(1e-4, 10, 0.3)).delta(epsilon=2.3)

        def declining(*_: object, **__: object) -> None:
            raise Declined("not today")

        monkeypatch.setattr(termwise, "make_plan", declining)
        other = dp.account(poisson(1e-4, 10, 0.3)).delta(epsilon=2.3)
        assert other.lower <= answer.upper
        assert answer.lower <= other.upper
        assert (other.lower, other.upper) != (answer.lower, answer.upper)

    def test_build9_what_is_known_stands_where_all_engines_decline(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from sharpdp.curves.declined import Declined

        run = poisson(1e-4, 10, 0.3)
        delta, epsilon = dp.account(run).delta(epsilon=2.3), dp.account(run).epsilon(delta=1e-6)

        def declining(*_: object, **__: object) -> None:
            raise Declined("not today")

        monkeypatch.setattr(compose, "_first_answer", declining)
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
