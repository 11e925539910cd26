"""Compositions against exact answers: every bracket of every engine must contain the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from flint import arb

from sharpdp.bracket import Side
from sharpdp.numerics.contour import TrapezoidTerms
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition
from sharpdp.profile.contour_engine import ContourEvaluation
from sharpdp.profile.engine import Thresholds
from tests.reference import gaussian, laplace, poisson, randomized


@dataclass(frozen=True)
class Plain(Pair):
    """The same pair without its name, so that no closed form and no special engine is used."""

    pair: Pair

    @property
    def accuracy(self) -> float:
        return self.pair.accuracy

    @property
    def support(self) -> tuple[float, float]:
        return self.pair.support

    @property
    def accurate_range(self) -> tuple[float, float]:
        return self.pair.accurate_range

    @property
    def symmetric(self) -> bool:
        return self.pair.symmetric

    def reverse(self) -> Pair:
        return self if self.symmetric else Plain(self.pair.reverse())

    def log_hockey_stick(self, loss: np.ndarray) -> np.ndarray:
        return self.pair.log_hockey_stick(loss)

    def log_tail_q(self, loss: np.ndarray) -> np.ndarray:
        return self.pair.log_tail_q(loss)

    def log_tail_p(self, loss: np.ndarray) -> np.ndarray:
        return self.pair.log_tail_p(loss)


def inside(low: float, high: float, truth: arb) -> bool:
    """Whether the log of the truth lies between two doubles (a truth of zero below everything)."""
    if truth > 0:
        return bool(arb(low) <= truth.log() <= arb(high))
    return low == -np.inf


def check_workings(steps: tuple[tuple[Pair, int], ...], epsilon: float, truth_at: object) -> float:
    """One round of work answers at and around its threshold; the width at it, in nats."""
    work = ContourEvaluation.enclose(steps, Thresholds.at(epsilon), 1e-4)
    theta = work.saddle.theta
    for shift in (-3.0, -0.7, 0.0, 0.4, 2.0):
        at = max(epsilon + shift / theta, 0.0)
        low, high = work.log_delta(at, Side.LOWER), work.log_delta(at, Side.UPPER)
        assert inside(low, high, truth_at(at)), (at, low, high)  # type: ignore[operator]
    return work.log_delta(epsilon, Side.UPPER) - work.log_delta(epsilon, Side.LOWER)


@pytest.mark.parametrize(
    ("sigma", "rounds", "epsilon"),
    [(20.0, 1000, 7.5), (5.0, 12, 4.0), (1.0, 2, 0.3), (300.0, 10**6, 40.0), (80.0, 10**8, 9e3)],
)
def test_composed_gaussians_without_their_closed_form(
    sigma: float, rounds: int, epsilon: float
) -> None:
    steps = ((Plain(GaussianPair(1.0 / sigma)), rounds),)
    width = check_workings(steps, epsilon, lambda at: gaussian.delta(sigma, rounds, at, 25))
    assert width < 2e-3


@pytest.mark.parametrize(
    ("local", "rounds", "share"),
    [(0.1, 1000, 0.1), (1.0, 20, 0.6), (1e-3, 50_000, 0.01), (3.0, 7, 0.5), (0.02, 10_000, 0.05)],
)
def test_composed_randomized_responses(local: float, rounds: int, share: float) -> None:
    steps = ((AtomicPair.pure(local), rounds),)
    epsilon = share * local * rounds
    check_workings(steps, epsilon, lambda at: randomized.delta(local, rounds, at, 2, 25))


@pytest.mark.parametrize("categories", [3, 40])
def test_composed_k_ary_responses(categories: int) -> None:
    steps = ((AtomicPair.randomized_response(1.5, categories), 40),)
    check_workings(steps, 12.0, lambda at: randomized.delta(1.5, 40, at, categories, 25))


@pytest.mark.parametrize(
    ("scale", "rounds", "epsilon"), [(1.0, 10, 5.0), (0.2, 3, 9.0), (9.0, 20, 1.1)]
)
def test_composed_laplace(scale: float, rounds: int, epsilon: float) -> None:
    steps = ((LaplacePair(1.0 / scale), rounds),)
    check_workings(steps, epsilon, lambda at: laplace.delta(scale, rounds, at, 20))


POISSON = [
    (0.01, 1.0, 1000, "remove", 1.8),
    (0.01, 1.0, 1000, "add", 1.2),
    (1e-3, 0.8, 10_000, "remove", 0.9),
    (1e-4, 0.6, 10**6, "add", 0.9),
    (0.3, 5.0, 50, "remove", 3.0),
    (1e-6, 2.0, 10**8, "remove", 0.06),
]


@pytest.mark.parametrize("engine", ["plain", "named"])
@pytest.mark.parametrize(("rate", "sigma", "steps", "direction", "epsilon"), POISSON)
def test_composed_sampled_gaussians(
    engine: str, rate: float, sigma: float, steps: int, direction: str, epsilon: float
) -> None:
    pair: Pair = PoissonSampledPair(GaussianPair(1.0 / sigma), rate)
    pair = pair if direction == "remove" else pair.reverse()
    pair = pair if engine == "named" else Plain(pair)
    known = ((rate, sigma, steps),)
    work = ContourEvaluation.enclose(((pair, steps),), Thresholds.at(epsilon), 1e-4)
    low, high = work.log_delta(epsilon, Side.LOWER), work.log_delta(epsilon, Side.UPPER)
    # 1/sigma is rounded: the reference takes sigma exactly, the pair takes its inverse
    truth = poisson.delta(known, direction, epsilon, 16)
    assert inside(low - 1e-15, high + 1e-15, truth), (low, high, float(truth.log()))
    assert high - low < 2e-3


# (rate, sigma, steps, direction, log delta) at which earlier versions were wrong, and why
ONCE_WRONG = [
    (1.5336782604614887e-06, 0.9727881808187613, 45371671, "add", -12.962552459348979),  # log w
    (6.0164348860547796e-06, 0.5725133055425492, 54612303, "add", -19.0996),
    (0.9999999730342225, 0.22139973930823809, 142, "add", -14.76),
]


@pytest.mark.parametrize(("rate", "sigma", "steps", "direction", "log_delta"), ONCE_WRONG)
def test_answers_that_were_wrong_once(
    rate: float, sigma: float, steps: int, direction: str, log_delta: float
) -> None:
    pair: Pair = PoissonSampledPair(GaussianPair(1.0 / sigma), rate)
    composition = Composition((((pair if direction == "remove" else pair.reverse()), steps),))
    low, high = composition.epsilon(log_delta, 1e-9)
    target = arb(log_delta).exp()
    known = ((rate, sigma, steps),)
    assert poisson.delta(known, direction, low, 14) >= target
    assert poisson.delta(known, direction, high, 14) <= target


@pytest.mark.parametrize("count", [21, 61, 200, 1003])
def test_sums_by_products_keep_within_the_units_of_direct_ones(count: int) -> None:
    rng = np.random.default_rng(count)
    t = 0.37 * np.arange(float(count))
    sizes = np.exp(-rng.uniform(0.0, 20.0, count))
    phases = rng.uniform(0.0, 6.0, count)
    real, imag = sizes * np.cos(phases), sizes * np.sin(phases)
    turns = np.append(rng.uniform(-30.0, 30.0, 20), 0.0)
    found = TrapezoidTerms(real, imag, 0.0, 0.0).at(t, turns)
    for turn, value in zip(turns.tolist(), found.tolist(), strict=True):
        terms = (
            arb(a) * (arb(turn) * arb(f)).cos() - arb(b) * (arb(turn) * arb(f)).sin()
            for a, b, f in zip(real.tolist(), imag.tolist(), t.tolist(), strict=True)
        )
        exact = sum(terms, arb(0))
        allowed = UNIT_ROUNDOFF * float(np.sum(sizes * (64.0 + 4.0 * t * abs(turn))))
        assert abs(float(arb(value) - exact)) <= allowed
