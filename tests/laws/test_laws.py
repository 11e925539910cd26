"""Laws that hold for every mechanism with a bound, checked on random ones of each kind.

Brackets are compared as brackets: a law is broken only if they prove it broken.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import Inapplicable
from sharpdp.pairs.pair import Pair
from tests.laws.registered import Subject, log_uniform, repetitions, some, subjects

DELTAS = [0.3, 1e-5, 1e-12]
EXAMPLES = 2
LONG = ("Grouped", "DPSGD-CyclicPoissonBatches", "DPSGD-BufferedShuffle", "DPSGD-FixedSizeBatches")
"""Kinds that take long and have tests of their own."""


def name(subject: Subject) -> str:
    return "-".join(kind.__name__ for kind in subject if kind)


def with_examples(
    seed: int, count: int = EXAMPLES, slow: tuple[str, ...] = ()
) -> pytest.MarkDecorator:
    """Parametrize over random mechanisms of every registered kind.

    `make test-slow` runs the second ones, and the kinds named, which take long.
    """
    cases = [
        pytest.param(
            mechanism,
            id=f"{name(subject)}-{i}",
            marks=[pytest.mark.slow] if i > 0 or name(subject) in (*LONG, *slow) else [],
        )
        for subject in subjects()
        for i, mechanism in enumerate(some(subject, seed, count))
    ]
    return pytest.mark.parametrize("mechanism", cases)


def overlap(a: dp.Bracket, b: dp.Bracket) -> bool:
    return bool(np.all(a.lower <= b.upper) and np.all(b.lower <= a.upper))


def may_exceed(large: dp.Bracket, small: dp.Bracket) -> bool:
    """Whether large >= small is possible."""
    return bool(np.all(large.upper >= small.lower))


def rng_of(mechanism: dp.Mechanism) -> np.random.Generator:
    return np.random.default_rng(len(mechanism.describe()))


@with_examples(1)
def test_composing_more_never_helps(mechanism: dp.Mechanism) -> None:
    once = dp.account(mechanism).epsilon(delta=1e-7)
    for count in (2, 9, 64):
        more = dp.account(mechanism * count).epsilon(delta=1e-7)
        assert may_exceed(more, once)
        once = more


@with_examples(2)
def test_adding_a_mechanism_never_helps(mechanism: dp.Mechanism) -> None:
    other = dp.Gaussian(3.0)
    if not set(mechanism.adjacencies) & set(other.adjacencies) and dp.Adjacency.NEIGHBORS not in (
        *mechanism.adjacencies,
        *other.adjacencies,
    ):
        pytest.skip("no common notion of neighbors")
    both = dp.account(mechanism + other)
    for alone in (mechanism, other):
        assert may_exceed(both.epsilon(delta=1e-6), dp.account(alone).epsilon(delta=1e-6))


@with_examples(3)
def test_delta_falls_and_is_convex_in_the_exponential_of_epsilon(mechanism: dp.Mechanism) -> None:
    answer = dp.account(repetitions(mechanism, rng_of(mechanism)))
    top = float(answer.epsilon(delta=1e-9))
    if not np.isfinite(top) or top == 0.0:
        top = 1.0
    x = 1.0 + np.expm1(min(top, 20.0)) * np.array([0.0, 0.02, 0.1, 0.4, 1.0])
    delta = answer.delta(epsilon=np.log(x))
    assert np.all(delta.lower <= delta.upper)
    assert np.all(delta.lower[1:] <= delta.upper[:-1])
    for i in range(1, x.size - 1):
        share = (x[i] - x[i - 1]) / (x[i + 1] - x[i - 1])
        chord = (1.0 - share) * delta.upper[i - 1] + share * delta.upper[i + 1]
        assert delta.lower[i] <= chord * (1.0 + 1e-12)


@with_examples(4)
def test_epsilon_and_delta_are_inverse_to_each_other(mechanism: dp.Mechanism) -> None:
    answer = dp.account(repetitions(mechanism, rng_of(mechanism)))
    for delta in DELTAS:
        epsilon = answer.epsilon(delta=delta)
        if np.isfinite(epsilon.upper):
            assert answer.delta(epsilon=epsilon.upper).lower <= delta
        if 0.0 < epsilon.lower < np.inf:
            assert answer.delta(epsilon=epsilon.lower).upper >= delta * (1.0 - 1e-12)


@with_examples(5)
def test_epsilon_falls_with_delta(mechanism: dp.Mechanism) -> None:
    epsilon = dp.account(mechanism * 5).epsilon(delta=np.array(DELTAS))
    assert np.all(epsilon.lower[:-1] <= epsilon.upper[1:])


@pytest.mark.slow
@with_examples(6)
def test_brackets_of_two_widths_overlap(mechanism: dp.Mechanism) -> None:
    run = repetitions(mechanism, rng_of(mechanism))
    wide, narrow = dp.account(run, relative_width=0.05), dp.account(run, relative_width=1e-5)
    for delta in (0.1, 1e-5, 1e-15):
        assert overlap(wide.epsilon(delta=delta), narrow.epsilon(delta=delta))
    assert overlap(wide.delta(epsilon=0.5), narrow.delta(epsilon=0.5))


@with_examples(7)
def test_repetitions_multiply(mechanism: dp.Mechanism) -> None:
    twelve = dp.account(mechanism * 12).epsilon(delta=1e-5)
    assert overlap(twelve, dp.account((mechanism * 3) * 4).epsilon(delta=1e-5))
    assert overlap(twelve, dp.account(4 * (mechanism * 3)).epsilon(delta=1e-5))
    assert overlap(twelve, dp.account(mechanism * 7 + mechanism * 5).epsilon(delta=1e-5))


@with_examples(8)
def test_the_order_of_a_sequence_does_not_matter(mechanism: dp.Mechanism) -> None:
    other = some((type(mechanism), None), 80, 1) if type(mechanism) is not dp.DPSGD else []
    then = other[0] if other else mechanism * 2
    forth, back = dp.account(mechanism + then), dp.account(then + mechanism)
    assert overlap(forth.epsilon(delta=1e-6), back.epsilon(delta=1e-6))
    assert overlap(forth.delta(epsilon=1.0), back.delta(epsilon=1.0))


@with_examples(9)
def test_renyi_adds_up_and_rises_with_the_order(mechanism: dp.Mechanism) -> None:
    orders = np.array([1.1, 1.5, 2.0, 8.0, 64.0])
    once = dp.account(mechanism).renyi(order=orders)
    many = dp.account(mechanism * 17).renyi(order=orders)
    assert np.all(once.lower[:-1] <= once.upper[1:] * (1.0 + 1e-12))
    finite = np.isfinite(once.upper)
    assert np.all(many.lower[finite] <= 17.0 * once.upper[finite] * (1.0 + 1e-12))
    assert np.all(17.0 * once.lower[finite] <= many.upper[finite] * (1.0 + 1e-12))
    assert np.all(np.isinf(many.upper[~finite]))


@with_examples(10)
def test_epsilon_is_below_what_renyi_implies(mechanism: dp.Mechanism) -> None:
    answer = dp.account(mechanism * 6)
    delta = 1e-6
    epsilon = answer.epsilon(delta=delta).lower
    for order in (1.5, 4.0, 20.0):
        implied = answer.renyi(order=order).upper + np.log(1.0 / delta) / (order - 1.0)
        assert epsilon <= implied * (1.0 + 1e-12)


@with_examples(11)
def test_advantage_is_delta_at_zero(mechanism: dp.Mechanism) -> None:
    answer = dp.account(repetitions(mechanism, rng_of(mechanism)))
    advantage, delta = answer.advantage(), answer.delta(epsilon=0.0)
    assert overlap(advantage, delta)
    assert 0.0 <= advantage.lower <= advantage.upper <= 1.0


SLOW_CURVES = ("ShuffledBlocks", "SampledReports", "DPSGD-ShuffledBatches")
"""Kinds whose error rates take long."""


@with_examples(12, 1, slow=SLOW_CURVES)
def test_tradeoff_is_convex_falling_and_below_the_diagonal(mechanism: dp.Mechanism) -> None:
    answer = dp.account(repetitions(mechanism, rng_of(mechanism)))
    fpr = np.array([0.01, 0.2, 0.5, 0.9])
    fnr = answer.fnr(fpr=fpr)
    assert np.all(fnr.upper <= 1.0 - fpr + 1e-15)
    assert np.all(fnr.lower[1:] <= fnr.upper[:-1])
    for i in range(1, fpr.size - 1):
        share = (fpr[i] - fpr[i - 1]) / (fpr[i + 1] - fpr[i - 1])
        chord = (1.0 - share) * fnr.upper[i - 1] + share * fnr.upper[i + 1]
        # the smaller of both directions need not be convex, each direction is
        if dp.account(mechanism).upper_derivations[0].composition.symmetric:
            assert fnr.lower[i] <= chord + 1e-15
    tpr = answer.tpr(fpr=fpr)
    assert np.all(tpr.lower <= 1.0 - fnr.lower)
    assert np.all(tpr.upper >= 1.0 - fnr.upper)


@pytest.mark.slow
@with_examples(23, 1)
def test_the_worse_tradeoff_is_its_own_inverse(mechanism: dp.Mechanism) -> None:
    answer = dp.account(repetitions(mechanism, rng_of(mechanism)))
    for fpr in (0.05, 0.3):
        fnr = answer.fnr(fpr=fpr)
        if fnr.upper > 0.0:
            assert answer.fnr(fpr=fnr.upper).lower <= fpr
        if fnr.lower > 0.0:
            assert answer.fnr(fpr=fnr.lower).upper >= fpr


@with_examples(14, 1, slow=SLOW_CURVES)
def test_tradeoff_and_advantage_agree(mechanism: dp.Mechanism) -> None:
    """1 - fpr - fnr is at most the advantage, at every false-positive rate."""
    answer = dp.account(repetitions(mechanism, rng_of(mechanism)))
    advantage = answer.advantage().upper
    for fpr in (0.05, 0.2, 0.5):
        assert 1.0 - fpr - answer.fnr(fpr=fpr).upper <= advantage + 1e-12


@pytest.mark.underflows
@with_examples(15)
def test_reversing_twice_changes_nothing(mechanism: dp.Mechanism) -> None:
    thresholds = np.array([-2.0, -0.1, -1e-5, 0.0, 1e-5, 0.1, 2.0])
    pairs: list[tuple[Pair, int]] = []
    for bound in dp.all_bounds():
        if not bound.applies_to(mechanism):
            continue
        with suppress(Inapplicable):
            pairs += bound(mechanism, bound.adjacency[0])
    for pair, _ in pairs:
        twice = pair.reverse().reverse()
        assert np.array_equal(twice.log_hockey_stick(thresholds), pair.log_hockey_stick(thresholds))
        assert np.array_equal(twice.log_tail_q(thresholds), pair.log_tail_q(thresholds))
        assert twice.support == pair.support
        assert (twice.infinite_p, twice.infinite_q) == (pair.infinite_p, pair.infinite_q)


@pytest.mark.slow
@with_examples(16, 1)
def test_a_gaussian_of_the_upper_mu_is_no_more_private(mechanism: dp.Mechanism) -> None:
    answer = dp.account(mechanism)
    if np.isinf(answer.epsilon(delta=1e-12).upper):
        pytest.skip("a revealing outcome: no Gaussian is worse at small rates")
    mu = answer.mu(smallest_fpr=1e-3)
    worse = dp.account(dp.Gaussian(1.0 / mu.upper))
    for fpr in (1e-3, 0.02, 0.3):
        assert worse.fnr(fpr=fpr).lower <= answer.fnr(fpr=fpr).upper


def test_merging_outcomes_never_hurts() -> None:
    rng = np.random.default_rng(17)
    for _ in range(6):
        size = int(rng.integers(3, 7))
        p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        whole = dp.account(dp.FinitePair(p=p.tolist(), q=q.tolist()) * 4)
        p[1], q[1] = p[0] + p[1], q[0] + q[1]
        merged = dp.account(dp.FinitePair(p=p[1:].tolist(), q=q[1:].tolist()) * 4)
        for epsilon in (0.0, 0.7, 3.0):
            assert merged.delta(epsilon=epsilon).lower <= whole.delta(epsilon=epsilon).upper
        assert merged.epsilon(delta=1e-3).lower <= whole.epsilon(delta=1e-3).upper


def test_gaussians_compose_to_one_gaussian() -> None:
    rng = np.random.default_rng(18)
    for _ in range(8):
        sigma, count = log_uniform(rng, 0.5, 100.0), int(log_uniform(rng, 2, 1e6))
        many = dp.account(dp.Gaussian(sigma) * count, relative_width=1e-6)
        one = dp.account(dp.Gaussian(sigma / np.sqrt(count)), relative_width=1e-6)
        a, b = many.epsilon(delta=1e-8), one.epsilon(delta=1e-8)
        # the noise of the one is itself rounded
        assert a.lower <= b.upper * (1 + 1e-14)
        assert b.lower <= a.upper * (1 + 1e-14)


def test_a_rate_near_one_is_no_sampling_and_a_tiny_one_leaves_nothing() -> None:
    plain = dp.account(dp.Gaussian(2.0) * 40).epsilon(delta=1e-6)
    for rate in (1.0, 1.0 - 1e-9, 1.0 - 1e-12):
        batches = dp.PoissonBatches(sample_rate=rate, steps=40)
        sampled = dp.account(dp.DPSGD(batches, noise_multiplier=2.0)).epsilon(delta=1e-6)
        # sampling never hurts, and a rate of 1 - x helps by about that part
        assert may_exceed(plain, sampled)
        assert sampled.upper >= plain.lower * (1.0 - 10.0 * (1.0 - rate))
    tiny = dp.PoissonBatches(sample_rate=1e-9, steps=40)
    assert dp.account(dp.DPSGD(tiny, noise_multiplier=2.0)).epsilon(delta=1e-6).upper < 1e-6


def test_sampling_less_never_hurts() -> None:
    last = None
    for rate in (0.5, 0.1, 0.01, 1e-3, 1e-5):
        batches = dp.PoissonBatches(sample_rate=rate, steps=100)
        now = dp.account(dp.DPSGD(batches, noise_multiplier=1.1)).epsilon(delta=1e-7)
        assert last is None or may_exceed(last, now)
        last = now


def test_pure_dp_is_binary_randomized_response() -> None:
    for epsilon, count in ((0.1, 50), (1.0, 7), (3.0, 3), (1e-3, 10_000)):
        promise = dp.account(dp.PureDP(epsilon) * count)
        response = dp.account(dp.RandomizedResponse(local_epsilon=epsilon) * count)
        assert overlap(promise.epsilon(delta=1e-5), response.epsilon(delta=1e-5))
        assert overlap(promise.delta(epsilon=0.1), response.delta(epsilon=0.1))
        nothing = dp.account(dp.ApproximateDP(epsilon=epsilon, delta=0.0) * count)
        assert overlap(promise.epsilon(delta=1e-5), nothing.epsilon(delta=1e-5))
