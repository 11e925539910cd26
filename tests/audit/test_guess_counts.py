"""Right guesses about canaries: the bound holds for the worst mechanism that a linear program finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from sharpdp.audit import guess_counts
from sharpdp.audit.claims import Claim
from sharpdp.audit.guess_counts import Levels, tail_upper

GAUSSIAN = Claim.gaussian(1.0)
FEW = Claim(GAUSSIAN.epsilons[::16], GAUSSIAN.deltas[::16])
CLAIMS = [
    Claim.of_point(0.0, 0.0),
    Claim.of_point(1.0, 0.0),
    Claim.of_point(0.5, 0.1),
    Claim.of_point(2.0, 0.3),
    Claim(np.array([0.0, 1.0]), np.array([0.3, 0.05])),
    FEW,
]


def worst(inputs: list, neighbors: list, outputs: list, right, reached: int, claim: Claim) -> float:
    """The largest chance that `reached` or more guesses are right, over all such mechanisms."""
    places = {
        (i, o): n
        for n, (i, o) in enumerate(itertools.product(range(len(inputs)), range(len(outputs))))
    }
    lines = list(zip(claim.epsilons, claim.deltas, strict=True))
    hinges = len(places)
    size = hinges + len(neighbors) * len(lines) * len(outputs)
    rows, limits = [], []
    for pair, (s, t) in enumerate(neighbors):
        for number, (epsilon, delta) in enumerate(lines):
            total = np.zeros(size)
            for o in range(len(outputs)):
                hinge = hinges + (pair * len(lines) + number) * len(outputs) + o
                row = np.zeros(size)
                row[places[s, o]], row[places[t, o]], row[hinge] = 1.0, -np.exp(epsilon), -1.0
                rows.append(row)
                limits.append(0.0)
                total[hinge] = 1.0
            rows.append(total)
            limits.append(delta)
    sums = np.zeros((len(inputs), size))
    aim = np.zeros(size)
    for (s, o), n in places.items():
        sums[s, n] = 1.0
        aim[n] = -(right(inputs[s], outputs[o]) >= reached) / len(inputs)
    found = linprog(
        aim, np.array(rows), limits, sums, np.ones(len(inputs)), bounds=(0, None), method="highs"
    )
    return float(-found.fun)


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (2, 2), (2, 1), (3, 3), (3, 2)])
def test_no_mechanism_does_better(canaries: int, guesses: int, claim: Claim) -> None:
    inputs = list(itertools.product((-1, 1), repeat=canaries))
    neighbors = [
        (i, j)
        for i, s in enumerate(inputs)
        for j, t in enumerate(inputs)
        if sum(a != b for a, b in zip(s, t, strict=True)) == 1
    ]
    outputs = [
        o for o in itertools.product((-1, 0, 1), repeat=canaries) if sum(map(abs, o)) == guesses
    ]

    def right(s: tuple, o: tuple) -> int:
        return sum(a == b for a, b in zip(s, o, strict=True))

    for reached in range(1, guesses + 1):
        true = worst(inputs, neighbors, outputs, right, reached, claim)
        bound = tail_upper(Levels.of_coins(canaries, guesses), reached, claim)
        assert bound >= true - 1e-7, (reached, bound, true)
        if canaries == 1:
            assert bound == pytest.approx(true, rel=1e-3)


@pytest.mark.parametrize("claim", CLAIMS[1:4])
def test_no_mechanism_does_better_on_halves(claim: Claim) -> None:
    canaries, size = 4, 2
    inputs = list(itertools.combinations(range(canaries), size))
    neighbors = [
        (i, j)
        for i, s in enumerate(inputs)
        for j, t in enumerate(inputs)
        if len(set(s) & set(t)) == size - 1
    ]
    levels = Levels.of_fixed_size(canaries, size)
    for reached in (1, 2):
        true = worst(inputs, neighbors, inputs, lambda s, o: len(set(s) & set(o)), reached, claim)
        assert tail_upper(levels, reached, claim) >= true - 1e-7


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_pure_dp_is_the_binomial_tail(epsilon: float) -> None:
    """Randomized response of every canary attains it, so that nothing smaller could be true."""
    levels = Levels.of_coins(200, 80)
    for right in (40, 60, 75, 80):
        exact = stats.binom.sf(right - 1, 80, 1.0 / (1.0 + np.exp(-epsilon)))
        bound = tail_upper(levels, right, Claim.of_point(epsilon, 0.0))
        assert exact <= bound <= max(exact * 1.01, 1.01e-12)


def steinke(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The p-value of the paper, written down from its formula."""
    rate = 1.0 / (1.0 + np.exp(-epsilon))
    tail = stats.binom.sf(right - 1, guesses, rate)
    moved = np.arange(1, right + 1)
    sums = stats.binom.sf(right - moved - 1, guesses, rate) - tail
    return float(tail + max(np.max(sums / moved), 0.0) * 2.0 * canaries * delta)


@pytest.mark.parametrize("delta", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize(("guesses", "right"), [(100, 70), (100, 99), (400, 260), (30, 30)])
def test_never_above_the_published_bound(guesses: int, right: int, delta: float) -> None:
    for epsilon in (0.1, 0.5, 1.0):
        bound = tail_upper(Levels.of_coins(400, guesses), right, Claim.of_point(epsilon, delta))
        assert bound <= steinke(400, guesses, right, epsilon, delta) * 1.01


def test_a_bound_on_some_sets_of_levels_is_the_linear_program() -> None:
    """Both bounds are relaxations of one program; no feasible law exceeds them."""
    levels, reached = Levels.of_coins(40, 20), 17
    claim = Claim.of_point(0.5, 1e-3)
    size = 21
    rows = np.zeros((21, size + 20))
    for level in range(1, 21):
        rows[level - 1, level] = levels.rights[level]
        rows[level - 1, level - 1] = -np.exp(0.5) * levels.wrongs[level - 1]
        rows[level - 1, size + level - 1] = -1.0
    rows[20, size:] = 1.0
    limits = np.append(np.zeros(20), 40 * 1e-3)
    aim = np.zeros(size + 20)
    aim[reached:size] = -1.0
    whole = np.append(np.ones(size), np.zeros(20))[None, :]
    best = -linprog(aim, rows, limits, whole, [1.0], bounds=(0, None)).fun
    bound = guess_counts._zoomed(lambda x: guess_counts._by_lines(levels, reached, claim, x))
    assert best * (1 - 1e-9) <= bound <= best * 1.01
    assert guess_counts._by_curve(levels, reached, claim) >= best * (1 - 1e-9)


def test_more_right_guesses_are_less_likely_and_weaker_claims_allow_more() -> None:
    levels = Levels.of_coins(100, 50)
    tails = [tail_upper(levels, right, GAUSSIAN) for right in range(30, 51, 4)]
    assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(tails))
    by_mu = [tail_upper(levels, 42, Claim.gaussian(mu)) for mu in (0.1, 0.3, 1.0, 2.0)]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(by_mu))
