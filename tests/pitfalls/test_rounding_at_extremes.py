"""Regressions found by an audit of the shuffle pairs and of sums over jumps, each with its own exact sum.

Every expected value is a finite sum of positive terms in balls, written out here from the definition of
the pair; what the sum leaves out is below 1e-40 of it.
"""

import math

import pytest
from flint import arb

from sharpdp import DPSGD, FinitePair, PoissonBatches, ShuffledReports, account
from sharpdp.bounds.shuffle_model.any_randomizer import individual_clones_upper, shared_clones_upper
from sharpdp.bounds.shuffle_model.response_pairs import BinaryResponsePair
from sharpdp.mechanisms import Adjacency
from sharpdp.pairs.pair import Pair, log_delta_of
from tests.reference.balls import precision

BITS = 320
MOST = 90


def clones_delta(users: int, local: float, epsilon: float, randomizer: str) -> arb:
    """delta of the pair of clones from its definition, for a number of clones that is small."""
    odds, x = arb(local).exp(), arb(epsilon).exp()
    rate = 2 / (odds + 1) if randomizer == "shared" else 1 / odds
    heavy, light = odds / (odds + 1), 1 / (odds + 1)
    mass, total = ((users - 1) * (1 - rate).log()).exp(), arb(0)
    for c in range(MOST):
        if c:
            mass = mass * (users - c) / c * rate / (1 - rate)
        for a in range(c + 2):
            ahead = math.comb(c, a - 1) if a else 0
            behind = math.comb(c, a)
            p, q = heavy * ahead + light * behind, heavy * behind + light * ahead
            total += mass * (p - x * q).max(arb(0)) / arb(2) ** c
    return total


def ones_delta(users: int, local: float, epsilon: float, victim: int) -> arb:
    """delta of the number of ones, the victim holding this record and else the other one."""
    odds, x = arb(local).exp(), arb(epsilon).exp()
    mass, total = (-users * (1 / odds).log1p()).exp(), arb(0)
    for ones in range(min(users, MOST) + 1):
        if ones:
            mass = mass * (users - ones + 1) / ones / odds
        ratio = 1 / odds + (odds - 1 / odds) * ones / users
        total += mass * (ratio - x if victim else 1 - x * ratio).max(arb(0))
    return total


@pytest.mark.parametrize(
    ("local", "epsilon"),
    [(25.36374341034413, 1.5), (26.87009089971222, 1.5), (27.47787756461434, 1.5)],
)
@pytest.mark.parametrize("randomizer", ["shared", "individual"])
def test_clone_counts_keep_their_digits_at_tiny_rates(
    local: float, epsilon: float, randomizer: str
) -> None:
    # 1 - (1 - rate) has few digits of a rate of 1e-12, so that the law of C was off by 1e-5
    users = 10**12
    mechanism = ShuffledReports(users=users, local_epsilon=local, randomizer=randomizer)
    upper = shared_clones_upper if randomizer == "shared" else individual_clones_upper
    pair = upper(mechanism, Adjacency.REPLACE_ONE)[0][0]
    with precision(BITS):
        truth = clones_delta(users, local, epsilon, randomizer).log()
        assert truth <= arb(log_delta_of(pair, epsilon)[1])


def test_both_sides_meet_at_tiny_rates() -> None:
    # the lower side is a real data set: an upper side below it is wrong without any reference
    answer = account(ShuffledReports(users=10**12, local_epsilon=26.87009089971222)).delta(
        epsilon=1.5
    )
    with precision(BITS):
        assert clones_delta(10**12, 26.87009089971222, 1.5, "shared") <= arb(float(answer.upper))


@pytest.mark.parametrize(
    ("users", "local", "epsilon"),
    [
        (10**12, 24.701596229784187, 0.5),
        (10**12, 25.52995495243228, 1.0),
        (10**12, 24.636596229784185, 1.0),
    ],
)
def test_few_ones_keep_their_digits_at_tiny_rates(users: int, local: float, epsilon: float) -> None:
    check(BinaryResponsePair(users, local).reverse(), users, local, epsilon, victim=0)


@pytest.mark.parametrize(
    ("users", "local", "epsilon"),
    [
        (1000, 15.0, 8.785391901624175),
        (10**5, 20.0, 10.278834004257797),
        (1000, 30.0, 23.785391901577707),
        (10**11, 30.0, 6.617474126120611),
    ],
)
def test_next_to_a_count_of_ones_with_large_local_epsilon(
    users: int, local: float, epsilon: float
) -> None:
    # at the loss of a count all but e^-local_epsilon of gap and slope cancels
    check(BinaryResponsePair(users, local), users, local, epsilon, victim=1)


def check(pair: Pair, users: int, local: float, epsilon: float, victim: int) -> None:
    """Both ends of log delta around the exact sum."""
    with precision(BITS):
        truth = ones_delta(users, local, epsilon, victim).log()
        low, high = log_delta_of(pair, epsilon)
        assert arb(low) <= truth <= arb(high)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"),
    [(1e-3, 10.0, 4, 1.0), (1e-3, 10.0, 100, 10.0), (1e-8, 8.4, 43129, 3.0), (0.01, 1.0, 10, 1e3)],
)
def test_a_delta_below_all_doubles_is_no_error(
    rate: float, noise: float, steps: int, epsilon: float
) -> None:
    # some step must lose epsilon / steps: y > log(1 + expm1(epsilon / steps) / rate) noise
    least = math.log1p(math.expm1(epsilon / steps) / rate) * noise
    batches = PoissonBatches(sample_rate=rate, steps=steps)
    answer = account(DPSGD(batches, noise_multiplier=noise)).delta(epsilon=epsilon)
    with precision(BITS):
        # delta <= P[some step loses that much]
        bound = steps * (arb(least - 1 / noise) / arb(2).sqrt()).erfc() / 2
        assert bound < arb(2) ** -1074
    assert answer.lower == 0.0


def test_the_largest_loss_of_rounded_masses_has_its_rounding() -> None:
    # q sums to 1 + 1e-17: losses of 1e-6 that are rounded logarithms may be off in the tenth digit
    p = [0.08364273192969521, 0.03417268251103039, 0.15998379972679497]
    p += [0.6928303587789103, 0.029370427053569133]
    q = [0.08364274649222411, 0.03417261042690532, 0.15998361477187936]
    q += [0.6928306249816426, 0.029370403327348606]
    answer = account(FinitePair(p=p, q=q) * 9).epsilon(delta=2.481993788529782e-122)
    with precision(BITS):
        ratios = [arb(a) / arb(b) for a, b in zip(p, q, strict=True)]
        total = sum(map(arb, q), arb(0)) / sum(map(arb, p), arb(0))
        # so small a delta is reached only next to nine times the largest loss
        truth = 9 * (max(ratios, key=float) * total).log()
        assert arb(float(answer.lower)) <= truth <= arb(float(answer.upper))
    assert answer.relative_width < 1e-7


@pytest.mark.parametrize("local_epsilon", [4.0, 8.0])
def test_thresholds_that_no_search_reaches_do_not_raise_the_lower_side(
    local_epsilon: float,
) -> None:
    # among 10^9 users the largest losses have chances of e^-10^10, where differences are not found
    reports = ShuffledReports(users=10**9, local_epsilon=local_epsilon, rounds=10)
    for delta in (1e-6, 1e-100):
        answer = account(reports).epsilon(delta=delta)
        assert 0.9 * answer.upper < answer.lower <= answer.upper
