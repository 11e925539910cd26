"""Ex-post epsilon against every stopping rule: small trees of results, all rules listed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.budget import ExPostEpsilon, ex_post_epsilon

Masses = tuple[tuple[Fraction, Fraction], ...]
Leaves = tuple[tuple[Fraction, Fraction, int], ...]
"""Probabilities under P and Q of each history at which a rule stops, and its length."""

RARE: Masses = ((Fraction(1, 10), Fraction(1, 50)), (Fraction(9, 10), Fraction(49, 50)))
COIN: Masses = ((Fraction(2, 3), Fraction(1, 3)), (Fraction(1, 3), Fraction(2, 3)))
THREE: Masses = (
    (Fraction(1, 20), Fraction(1, 100)),
    (Fraction(9, 20), Fraction(39, 100)),
    (Fraction(1, 2), Fraction(3, 5)),
)


def swapped(masses: Masses) -> Masses:
    return tuple((q, p) for p, q in masses)


def steps_of(masses: Masses) -> Callable[[int], dp.Mechanism]:
    p, q = zip(*masses, strict=True)
    pair = dp.FinitePair(p=[float(value) for value in p], q=[float(value) for value in q])
    return lambda steps: pair * steps


def rules(
    masses: Masses,
    depth: int,
    history: tuple[Fraction, Fraction, int] = (Fraction(1), Fraction(1), 0),
) -> Iterator[Leaves]:
    """Every rule that stops after 1 to `depth` steps: each history has its own decision."""
    p, q, taken = history
    if taken:
        yield (history,)
    if taken < depth:
        later = [list(rules(masses, depth, (p * a, q * b, taken + 1))) for a, b in masses]
        for chosen in itertools.product(*later):
            yield tuple(itertools.chain.from_iterable(chosen))


def excess(leaves: Leaves, price: Callable[[int], float]) -> float:
    """The largest P[S] - E_Q[exp(price); S] over all sets S of results."""
    return math.fsum(
        max(float(p) - math.exp(price(taken)) * float(q), 0.0) for p, q, taken in leaves
    )


def best_rule(options: list[Masses], depth: int, price: Callable[[int], float]) -> float:
    """The largest excess of all rules, where each step may also be chosen among mechanisms by results."""

    def value(p: float, q: float, taken: int) -> float:
        stopped = max(p - math.exp(price(taken)) * q, 0.0) if taken else 0.0
        if taken == depth:
            return stopped
        return max(
            stopped,
            *(
                sum(value(p * float(a), q * float(b), taken + 1) for a, b in step)
                for step in options
            ),
        )

    return value(1.0, 1.0, 0)


@pytest.mark.parametrize(
    ("masses", "checkpoints"),
    [(RARE, (1, 2, 4)), (COIN, (1, 2, 3, 4)), (COIN, (2, 4)), (THREE, (1, 2)), (THREE, (2,))],
)
@pytest.mark.parametrize("delta", [0.02, 0.2])
@pytest.mark.parametrize("shares", ["equal", "rising"])
def test_no_stopping_rule_exceeds_delta(
    masses: Masses, checkpoints: tuple[int, ...], delta: float, shares: str
) -> None:
    weights = None if shares == "equal" else range(1, len(checkpoints) + 1)
    table = ex_post_epsilon(steps_of(masses), checkpoints=checkpoints, delta=delta, shares=weights)
    worst = []
    for direction in (masses, swapped(masses)):
        listed = list(rules(direction, checkpoints[-1]))
        found = max(excess(leaves, lambda taken: table.epsilon(steps=taken)) for leaves in listed)
        assert found <= delta
        by_induction = best_rule(
            [direction], checkpoints[-1], lambda taken: table.epsilon(steps=taken)
        )
        assert by_induction == pytest.approx(found, abs=1e-12)
        worst.append(found)
    # some rule needs a share and more, so that the bound is no empty one
    assert max(worst) > 0.5 * delta / len(checkpoints)


def test_rules_are_all_there() -> None:
    """With n steps left there are r(n) = 1 + r(n - 1)^2 rules, r(0) = 1; a first step is taken."""
    assert [len(list(rules(COIN, depth))) for depth in (1, 2, 3, 4)] == [1, 4, 25, 676]


@pytest.mark.parametrize("seed", range(6))
def test_steps_that_are_chosen_by_results_do_not_exceed_delta_either(seed: int) -> None:
    """Each step is any of some post-processings of the mechanism, chosen by the history."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    delta = float(rng.uniform(0.01, 0.3))
    pair = dp.FinitePair(p=p, q=q)
    table = ex_post_epsilon(lambda steps: pair * steps, checkpoints=(1, 3), delta=delta)
    channels = [np.eye(3), np.eye(3)[[0, 0, 2]], *rng.dirichlet(np.ones(2), size=(2, 3))]
    for first, second in ((p, q), (q, p)):
        options = [
            tuple(zip((first @ channel).tolist(), (second @ channel).tolist(), strict=True))
            for channel in channels
        ]
        assert best_rule(options, 3, lambda taken: table.epsilon(steps=taken)) <= delta


def test_whole_delta_at_the_step_reached_is_wrong() -> None:
    """Epsilon of the steps that were run, at the whole delta, fails for two checkpoints, exactly."""
    delta = Fraction(1, 25)
    two = [(p * a, q * b) for (p, q), (a, b) in itertools.product(RARE, RARE)]
    # exp(epsilon) of one step and of two: the largest sum of p - x q over sets is delta there
    one_x, two_x = Fraction(3), Fraction(125, 33)
    for x, results in ((one_x, RARE), (two_x, two)):
        sets = itertools.product((0, 1), repeat=len(results))
        gains = (
            sum(bit * (p - x * q) for bit, (p, q) in zip(bits, results, strict=True))
            for bits in sets
        )
        assert max(gains) == delta
    for steps, x in ((1, one_x), (2, two_x)):
        bracket = dp.account(steps_of(RARE)(steps)).epsilon(delta=float(delta))
        assert bracket.lower <= math.log(x) * (1 + 1e-12)
        assert bracket.upper >= math.log(x) * (1 - 1e-12)
    # stop if the rare result comes first, else go on
    (rare_p, rare_q), (common_p, common_q) = RARE
    claimed_wrongly = (rare_p - one_x * rare_q) + (common_p * rare_p - two_x * common_q * rare_q)
    assert claimed_wrongly > delta * Fraction(139, 100)
    wrong = {1: math.log(one_x), 2: math.log(two_x)}
    assert best_rule([RARE], 2, wrong.__getitem__) == pytest.approx(float(claimed_wrongly))
    assert max(excess(leaves, wrong.__getitem__) for leaves in rules(RARE, 2)) > float(delta)
    table = ex_post_epsilon(steps_of(RARE), checkpoints=(1, 2), delta=float(delta))
    assert table.epsilons[0] > wrong[1]
    assert best_rule([RARE], 2, lambda taken: table.epsilon(steps=taken)) <= float(delta)


def test_loss_above_epsilon_may_be_likelier_than_delta_but_not_by_far() -> None:
    """What is proved of the realized loss: above epsilon + t with probability delta / (1 - exp(-t))."""
    delta = 0.1
    table = ex_post_epsilon(steps_of(COIN), checkpoints=(1, 2, 3), delta=delta)
    likelier = False
    for leaves, t in itertools.product(rules(COIN, 3), (0.0, 0.1, 0.5, math.log(2), 2.0)):
        beyond = math.fsum(
            float(p) for p, q, taken in leaves if math.log(p / q) > table.epsilon(steps=taken) + t
        )
        likelier |= t == 0.0 and beyond > delta
        assert t == 0.0 or beyond <= delta / -math.expm1(-t)
    assert likelier


def test_one_checkpoint_is_the_plan() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    table = ex_post_epsilon(run.stopped_after, checkpoints=[1000], delta=1e-6)
    assert table.epsilons == (dp.account(run).epsilon(delta=1e-6).upper,)


def test_table() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    table = ex_post_epsilon(
        run.stopped_after,
        checkpoints=(200, 1000.0),
        delta=1e-6,
        shares=[1, 3],
        adjacency="zero-out",
    )
    assert table.checkpoints == (200, 1000)
    assert table.adjacency is dp.Adjacency.ZERO_OUT
    early, late = table.epsilons
    assert [table.epsilon(steps=steps) for steps in (1, 200, 201, 1000)] == [
        early,
        early,
        late,
        late,
    ]
    assert table.records()[1] == {"steps": 1000, "delta": table.shares[1], "epsilon_upper": late}
    assert "epsilon upper" in table.to_latex()
    assert (
        early
        == dp.account(run.stopped_after(200), adjacency="zero-out").epsilon(delta=2.5e-7).upper
    )
    assert str(table).count("\n") == 3
    pairs = ex_post_epsilon(run.stopped_after, checkpoints=[1000], delta=1e-6, group_size=2)
    assert pairs.epsilons[0] > late
    assert "groups of 2" in str(pairs)


@pytest.mark.parametrize("places", [1, 3, 7, 30])
@pytest.mark.parametrize("delta", [0.0, 5e-324, 1e-6, 0.1, 1 - 2**-53])
def test_shares_sum_to_at_most_delta(places: int, delta: float) -> None:
    table = ex_post_epsilon(
        lambda _: dp.PureDP(epsilon=0.1),
        checkpoints=range(1, places + 1),
        delta=delta,
        shares=[0.1] * places,
    )
    total = sum(map(Fraction, table.shares))
    assert total <= Fraction(delta)
    assert delta < 1e-300 or total >= Fraction(delta) * (1 - Fraction(1, 2**50))


def test_pure_dp_needs_no_delta() -> None:
    table = ex_post_epsilon(
        lambda steps: dp.PureDP(epsilon=0.5) * steps, checkpoints=[1, 4], delta=0.0
    )
    assert table.epsilons == pytest.approx((0.5, 2.0), rel=1e-3)


def test_hidden_results_are_refused() -> None:
    plan = dp.DeterministicBatches(dataset_size=100, batch_size=10, epochs=3)
    last = dp.LastIterate(plan, noise_multiplier=1.0)
    best = dp.BestOf(dp.PureDP(epsilon=0.1), repetitions="geometric", mean=5)
    for begun in (last.stopped_after, lambda _: best, lambda _: best + dp.Gaussian(1.0)):
        with pytest.raises(dp.Unsupported, match="results of its steps"):
            ex_post_epsilon(begun, checkpoints=[10, 20], delta=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"checkpoints": []}, "checkpoints must have at least one entry"),
        ({"checkpoints": [3, 3]}, "checkpoints must be rising"),
        ({"checkpoints": [0, 3]}, "checkpoints must be a whole number"),
        ({"checkpoints": 5}, "checkpoints must be a list"),
        ({"delta": 1.0}, "delta must be"),
        ({"shares": [1.0]}, "shares must be 2 numbers"),
        ({"shares": [0, 0]}, "shares must be 2 numbers"),
        ({"shares": [1, -1]}, "shares must be"),
        ({"checkpoints": [2, 5000]}, "steps must be at most the 1000"),
        ({"adjacency": "nearby"}, "adjacency"),
    ],
)
def test_bad_arguments(change: dict[str, object], message: str) -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    asked: dict[str, object] = {"checkpoints": [2, 4], "delta": 1e-6, **change}
    with pytest.raises(dp.SharpDPError, match=message):
        ex_post_epsilon(run.stopped_after, **asked)  # type: ignore[arg-type]


def test_bad_runs_and_questions() -> None:
    run = dp.Gaussian(noise_multiplier=3.0)
    for begun in (run, lambda _: 3):
        with pytest.raises(dp.SharpDPError, match="begun"):
            ex_post_epsilon(begun, checkpoints=[1], delta=1e-6)  # type: ignore[arg-type]
    table = ex_post_epsilon(lambda steps: run * steps, checkpoints=[1, 3], delta=1e-6)
    assert isinstance(table, ExPostEpsilon)
    for steps in (0, 4):
        with pytest.raises(dp.InvalidArgument, match="steps must be"):
            table.epsilon(steps=steps)
