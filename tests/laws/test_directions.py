"""The worse of both directions is the answer, however close they are: against sums over all outcomes."""

from __future__ import annotations

import math
from itertools import combinations

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln

import sharpdp as dp
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition

Law = list[float]


def counts_of(kinds: int, total: int) -> np.ndarray:
    """How often each outcome may occur, a row for each possibility."""
    bars = np.array(list(combinations(range(total + kinds - 1), kinds - 1)))
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, total + kinds - 1)))
    return np.diff(ends, axis=1) - 1


def epsilon(p: Law, q: Law, rounds: int, delta: float) -> float:
    """The smallest epsilon of P against Q, right to about 1e-11, from all results of all rounds."""
    counts = counts_of(len(p), rounds)
    log_ways = gammaln(rounds + 1.0) - gammaln(counts + 1.0).sum(axis=1)
    log_p, log_q = (log_ways + counts @ np.log(law) for law in (p, q))
    order = np.argsort(log_q - log_p)
    losses = (log_p - log_q)[order]
    above, below = (np.cumsum(np.exp(logs[order])) for logs in (log_p, log_q))
    # delta(epsilon) = above - e^epsilon below, over the outcomes whose loss is larger than epsilon
    enough = above > delta
    candidates = np.log((above[enough] - delta) / below[enough])
    between = candidates >= np.append(losses[1:], -np.inf)[enough] - 1e-12
    return max(float(candidates[between][0]), 0.0)


def nearly_mirrored(seed: int) -> tuple[Law, Law]:
    """Two laws of which each is about the other one read backwards: both directions are close."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 2000, 4).astype(float)
    q = p[::-1].copy()
    q[rng.integers(4)] *= 1.0 + 0.02 * rng.random()
    return (p / p.sum()).tolist(), (q / q.sum()).tolist()


@pytest.mark.parametrize("seed", [4, 5, 15, 79])
@pytest.mark.parametrize("given_first", ["p", "q"])
def test_the_worse_of_two_close_directions_is_the_answer(seed: int, given_first: str) -> None:
    p, q = nearly_mirrored(seed)
    delta, rounds = 1e-5, 51  # more results than are listed one by one
    truth = max(epsilon(p, q, rounds, delta), epsilon(q, p, rounds, delta))
    pair = dp.FinitePair(p=p, q=q) if given_first == "p" else dp.FinitePair(p=q, q=p)
    answer = dp.account(pair * rounds).epsilon(delta=delta)
    assert answer.lower * (1.0 - 1e-9) <= truth <= answer.upper * (1.0 + 1e-9)
    assert answer.upper - answer.lower < 2e-3 * truth


P, Q = (np.array(law) / 128.0 for law in ([104, 14, 4, 4, 2], [104, 7, 1, 8, 8]))
"""Losses 0, log 2, log 4, -log 2, -log 4: the same both ways, with other masses."""


def test_mirrored_losses_do_not_make_a_pair_symmetric() -> None:
    assert not AtomicPair.from_pmfs(P, Q).symmetric
    directions = [epsilon(one.tolist(), two.tolist(), 20, 1e-3) for one, two in ((P, Q), (Q, P))]
    assert abs(directions[0] - directions[1]) > 0.01
    for one, two in ((P, Q), (Q, P)):
        pair = dp.FinitePair(p=one.tolist(), q=two.tolist())
        answer = dp.account(pair * 20).epsilon(delta=1e-3)
        assert answer.lower <= max(directions) * (1.0 + 1e-9)
        assert answer.upper >= max(directions) * (1.0 - 1e-9)


@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.05])
def test_records_that_are_added_and_removed_by_chance(threshold: float) -> None:
    """(1 - rate) N(0, 1) + rate N(1, 1) against N(0, 1), and N(0, 1) against that, by integrals."""
    rate, x = 0.1, math.exp(threshold)

    def density(y: mpmath.mpf) -> mpmath.mpf:
        return mpmath.npdf(y)

    def mixed(y: mpmath.mpf) -> mpmath.mpf:
        return (1 - rate) * density(y) + rate * density(y - 1)

    # the densities' ratio rises with y: it passes x, and 1/x, once
    removed = 0.5 + math.log((x - 1.0 + rate) / rate)
    added = 0.5 + math.log((1.0 / x - 1.0 + rate) / rate)
    with mpmath.workdps(30):
        values = (
            mpmath.quad(lambda y: mixed(y) - x * density(y), [removed, removed + 5, 20]),
            mpmath.quad(lambda y: density(y) - x * mixed(y), [-20, added - 5, added]),
        )
    assert values[0] > values[1] * (1.0 if threshold == 0.0 else 1.01) - 1e-12
    pair = PoissonSampledPair(GaussianPair(1.0), rate)
    for one, truth in ((pair, values[0]), (pair.reverse(), values[1])):
        found = float(np.exp(one.log_hockey_stick(np.array([threshold]))[0]))
        assert found == pytest.approx(float(truth), rel=1e-9)


def missed(p: Law, q: Law, rounds: int, rate: float) -> float:
    """The smallest share of P that a test misses which hits this share of Q (Neyman and Pearson)."""
    counts = counts_of(len(p), rounds)
    log_ways = gammaln(rounds + 1.0) - gammaln(counts + 1.0).sum(axis=1)
    log_p, log_q = (log_ways + counts @ np.log(law) for law in (p, q))
    order = np.argsort(log_q - log_p)
    hit, told = (np.append(0.0, np.cumsum(np.exp(logs[order]))) for logs in (log_q, log_p))
    return 1.0 - float(np.interp(rate, hit, told))


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_error_rates_on_both_sides_of_the_diagonal(rate: float, is_reversed: bool) -> None:
    """Where the curve is flatter than the diagonal, it is read from the other direction."""
    p, q = (Q.tolist(), P.tolist()) if is_reversed else (P.tolist(), Q.tolist())
    run = Composition(((AtomicPair.from_pmfs(p, q), 30),))
    assert run.single_pair is None
    truth = missed(p, q, 30, rate)
    low, high = (float(end[0]) for end in run.false_negative_rates(np.array([rate]), 1e-3))
    assert low * (1.0 - 1e-9) <= truth <= high * (1.0 + 1e-9)
    assert high - low <= 0.01 * truth
