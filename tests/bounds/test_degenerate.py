"""Runs that use no record reveal nothing; without noise, a record is revealed if it takes part."""

from __future__ import annotations

import itertools
import math
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sharpdp as dp
from sharpdp import cli
from sharpdp.batches import CyclicPoissonBatches, WeightedPoissonBatches
from sharpdp.mechanisms.composed import Grouped
from sharpdp.plans import Plan

SIZES = {"dataset_size": 6, "batch_size": 2}
LOSS = dp.SmoothLoss.logistic(feature_norm=1.0, regularization=0.1)
BANDS = dp.BandedStrategy(coefficients=(1.0, 0.5))


def trained(scheme: object, noise: float = 1.0) -> dp.DPSGD:
    return dp.DPSGD(scheme, noise_multiplier=noise)  # type: ignore[arg-type]


NOTHING: dict[str, dp.Mechanism] = {
    "no mechanism": dp.Sequence([]),
    "zero times": dp.Gaussian(1.0) * 0,
    "zero times without noise": 0 * trained(dp.PoissonBatches(sample_rate=0.1, steps=3), 0.0),
    "nothing in a sequence": dp.Sequence([dp.Sequence([]), dp.Laplace(1.0) * 0]),
    "rate 0": trained(dp.PoissonBatches(sample_rate=0, steps=10)),
    "rate 0 without noise": trained(dp.PoissonBatches(sample_rate=0.0, steps=10), 0.0),
    "batch 0": trained(dp.PoissonBatches(dataset_size=6, batch_size=0, steps=10)),
    "no steps": trained(dp.PoissonBatches(sample_rate=0.5, steps=0)),
    "no steps without noise": trained(dp.PoissonBatches(sample_rate=0.5, steps=0), 0.0),
    "cyclic at rate 0": trained(CyclicPoissonBatches(sample_rate=0, steps=4, cycle_length=2)),
    "empty fixed-size batches": trained(
        dp.FixedSizeBatches(dataset_size=6, batch_size=0, steps=10)
    ),
    "truncated, no epochs": trained(
        dp.TruncatedPoissonBatches(**SIZES, physical_batch_size=4, epochs=0)
    ),
    "weighted, no steps": trained(
        WeightedPoissonBatches(weights=(1.0, 2.0, 2.0), batch_size=1, steps=0)
    ),
    "allocation, no epochs": trained(dp.RandomAllocation(steps=3, epochs=0)),
    "buffered, no epochs": trained(dp.BufferedShuffle(**SIZES, epochs=0, buffer_size=2)),
    **{
        f"{kind.__name__}, no epochs": trained(kind(**SIZES, epochs=0))
        for kind in (dp.DeterministicBatches, dp.ShuffledBatches, dp.BallsAndBins)
    },
    "queries without steps": dp.BatchQueries(
        dp.PoissonBatches(sample_rate=0.5, steps=0), noise_multiplier=1.0
    ),
    "last iterate, no epochs": dp.LastIterate(
        dp.DeterministicBatches(**SIZES, epochs=0),
        noise_multiplier=1.0,
        learning_rate=0.5,
        loss=LOSS,
    ),
    "correlated, no epochs": dp.CorrelatedNoise(
        dp.DeterministicBatches(**SIZES, epochs=0), noise_multiplier=1.0, strategy=BANDS
    ),
    "stopped before the first step": trained(
        dp.DeterministicBatches(**SIZES, epochs=3)
    ).stopped_after(0),
    "best of no runs": dp.BestOf(dp.Gaussian(1.0), "poisson", mean=0),
    "best of zero runs": dp.BestOf(dp.Gaussian(1.0), 0),
    "best of empty runs": dp.BestOf(dp.Sequence([]), "geometric", mean=3),
}

REVEALED: dict[str, tuple[dp.Mechanism, float]] = {
    "no noise": (dp.Gaussian(0), 1.0),
    "no Laplace noise": (dp.Laplace(scale=0.0) * 3, 1.0),
    "nothing is promised": (dp.ApproximateDP(epsilon=0.0, delta=1.0), 1.0),
    "noise later": (dp.Gaussian(0) + dp.Gaussian(2.0), 1.0),
    "Poisson": (trained(dp.PoissonBatches(sample_rate=0.1, steps=3), 0), 1 - 0.9**3),
    "Poisson at rate 1": (trained(dp.PoissonBatches(sample_rate=1, steps=3), 0), 1.0),
    "rare": (trained(dp.PoissonBatches(sample_rate=1e-9, steps=3000), 0), 2.9999955015044974e-06),
    "queries": (
        dp.BatchQueries(dp.PoissonBatches(sample_rate=0.1, steps=3), noise_multiplier=0),
        1 - 0.9**3,
    ),
    "twice": (trained(dp.PoissonBatches(sample_rate=0.1, steps=3), 0) * 2, 1 - 0.9**6),
    "fixed size": (
        trained(dp.FixedSizeBatches(dataset_size=10, batch_size=3, steps=3), 0),
        1 - 0.7**3,
    ),
    "the whole data set": (
        trained(dp.FixedSizeBatches(dataset_size=10, batch_size=10, steps=1), 0),
        1.0,
    ),
    "with replacement": (
        trained(dp.FixedSizeBatches(dataset_size=4, batch_size=2, steps=3, replacement=True), 0),
        1 - 0.75**6,
    ),
    "one left out": (
        trained(dp.ShuffledBatches(**SIZES, epochs=2, left_out=1), 0),
        1 - (1 / 6) ** 2,
    ),
    "one left out for good": (
        trained(dp.ShuffledBatches(**SIZES, epochs=2, left_out=1, order="kept"), 0),
        5 / 6,
    ),
    "shuffled": (trained(dp.ShuffledBatches(**SIZES, epochs=2), 0), 1.0),
    "deterministic": (trained(dp.DeterministicBatches(**SIZES, epochs=2), 0), 1.0),
    "balls and bins": (trained(dp.BallsAndBins(**SIZES, epochs=2), 0), 1.0),
    "allocation": (trained(dp.RandomAllocation(steps=4, participations=2), 0), 1.0),
    "buffered": (trained(dp.BufferedShuffle(**SIZES, epochs=1, buffer_size=2), 0), 1.0),
    "correlated": (
        dp.CorrelatedNoise(
            CyclicPoissonBatches(sample_rate=0.25, steps=5, cycle_length=2),
            noise_multiplier=0,
            strategy=BANDS,
        ),
        1 - 0.75**3,
    ),
    "last iterate": (
        dp.LastIterate(dp.PoissonBatches(sample_rate=0.1, steps=3), noise_multiplier=0),
        1 - 0.9**3,
    ),
}


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("group_size", [1, 3])
def test_what_uses_no_record_reveals_nothing(name: str, group_size: int) -> None:
    run = NOTHING[name]
    covered = Grouped(run.parts()[0][0], group_size).adjacencies  # those of groups may be fewer
    for notion in run.adjacencies:
        if notion not in covered and dp.Adjacency.NEIGHBORS not in covered:
            continue
        answer = dp.account(run, adjacency=notion, group_size=group_size)
        assert (answer.epsilon(delta=[0.0, 1e-5]).upper == 0.0).all()
        assert (answer.delta(epsilon=[0.0, 1.0]).upper == 0.0).all()
        assert answer.advantage().upper == answer.renyi(order=2.0).upper == 0.0
        assert answer.mu().upper < 1e-12
        for rate in (0.0, 0.1, 1.0):
            assert answer.tpr(fpr=rate).upper == pytest.approx(rate, abs=1e-12)
            assert answer.fnr(fpr=rate).lower == pytest.approx(1 - rate, abs=1e-12)
        assert answer.rigor is dp.Rigor.CERTIFIED


@pytest.mark.parametrize("name", REVEALED)
def test_without_noise_a_record_is_revealed_if_it_takes_part(name: str) -> None:
    run, chance = REVEALED[name]
    for notion in run.adjacencies:
        answer = dp.account(run, adjacency=notion)
        for epsilon in (0.0, 3.0, 300.0):
            delta = answer.delta(epsilon=epsilon)
            assert delta.lower <= chance * (1 + 1e-12)
            assert delta.upper >= chance * (1 - 1e-12)
            assert delta.upper - delta.lower < 1e-11
        assert answer.epsilon(delta=0.5 * chance).lower == math.inf
        assert answer.renyi(order=1.5).lower == math.inf
        assert answer.tpr(fpr=0.0).upper == pytest.approx(chance, rel=1e-9)
        below = min(chance * (1 + 1e-6), 1.0)
        if below < 1.0 and len(run.parts()) == 1:
            assert answer.epsilon(delta=below).upper < 1e-5


def test_the_curve_of_poisson_batches_without_noise_is_exact() -> None:
    """The better of two attacks: accuse who was seen, and some others; or clear who was not seen."""
    run, chance = REVEALED["Poisson"]
    rates = np.array([0.0, 0.01, 0.1, 0.5, 0.72, 0.9])
    truth = np.minimum((1 - chance) * (1 - rates), np.maximum(1 - rates / (1 - chance), 0.0))
    answer = dp.account(run)
    fnr = answer.fnr(fpr=rates)
    assert np.allclose(fnr.lower, truth, atol=1e-10)
    assert np.allclose(fnr.upper, truth, atol=1e-10)
    # a record with another value is as certain to be told either way
    both = dp.account(run, adjacency="replace-one").fnr(fpr=rates)
    assert np.allclose(both.lower, np.maximum(1 - chance - rates, 0.0), atol=1e-10)


# --- small runs, outcome by outcome -------------------------------------------------------

Draw = tuple[tuple[int, ...], ...]
"""The batches of a run, with the examples in them; 0 is the record."""


def poisson_draws(n: int, rate: float, steps: int) -> Iterator[tuple[float, Draw]]:
    coins = list(itertools.product([0, 1], repeat=n))
    for run in itertools.product(coins, repeat=steps):
        weight = math.prod(rate if coin else 1 - rate for step in run for coin in step)
        yield weight, tuple(tuple(i for i in range(n) if step[i]) for step in run)


def subset_draws(n: int, size: int, steps: int) -> Iterator[tuple[float, Draw]]:
    every = list(itertools.combinations(range(n), size))
    for run in itertools.product(every, repeat=steps):
        yield len(every) ** -steps, run


def replaced_draws(n: int, size: int, steps: int) -> Iterator[tuple[float, Draw]]:
    every = list(itertools.product(range(n), repeat=size))
    for run in itertools.product(every, repeat=steps):
        yield len(every) ** -steps, run


def truncated_draws(n: int, rate: float, most: int) -> Iterator[tuple[float, Draw]]:
    for weight, (drawn,) in poisson_draws(n, rate, 1):
        kept = list(itertools.combinations(drawn, min(most, len(drawn))))
        for batch in kept:
            yield weight / len(kept), (batch,)


def shuffled_draws(n: int, size: int, left_out: int) -> Iterator[tuple[float, Draw]]:
    for order in itertools.permutations(range(n)):
        seats = order[: n - left_out]
        batches = tuple(tuple(sorted(seats[i : i + size])) for i in range(0, len(seats), size))
        yield 1 / math.factorial(n), batches


def seen(
    draws: Iterator[tuple[float, Draw]], members: int, value: str, *, others: bool
) -> dict[object, float]:
    """The law of exact sums of batches: examples below ``members`` contribute a value, or nothing.

    Others contribute vectors of their own, so that sums tell which of them there are, or nothing.
    """
    law: dict[object, float] = defaultdict(float)
    for weight, run in draws:
        shown = tuple(
            tuple(
                sorted(
                    f"{value}{i}" if i < members else f"other{i}"
                    for i in batch
                    if (value if i < members else others)
                )
            )
            for batch in run
        )
        law[shown] += weight
    return law


def hockey_stick(p: dict[object, float], q: dict[object, float], epsilon: float) -> float:
    return sum(max(mass - math.exp(epsilon) * q.get(key, 0.0), 0.0) for key, mass in p.items())


SMALL = {
    "Poisson": (
        dp.PoissonBatches(sample_rate=0.3, steps=2, dataset_size=3),
        lambda: poisson_draws(3, 0.3, 2),
    ),
    "fixed size": (
        dp.FixedSizeBatches(dataset_size=4, batch_size=2, steps=2),
        lambda: subset_draws(4, 2, 2),
    ),
    "with replacement": (
        dp.FixedSizeBatches(dataset_size=3, batch_size=2, steps=2, replacement=True),
        lambda: replaced_draws(3, 2, 2),
    ),
    "truncated": (
        dp.TruncatedPoissonBatches(dataset_size=4, batch_size=2, physical_batch_size=2, steps=1),
        lambda: truncated_draws(4, 0.5, 2),
    ),
    "truncated, never": (
        dp.TruncatedPoissonBatches(dataset_size=4, batch_size=2, physical_batch_size=4, steps=1),
        lambda: truncated_draws(4, 0.5, 4),
    ),
    "shuffled, one left out": (
        dp.ShuffledBatches(dataset_size=5, batch_size=2, epochs=1, left_out=1),
        lambda: shuffled_draws(5, 2, 1),
    ),
    "shuffled": (
        dp.ShuffledBatches(dataset_size=4, batch_size=2, epochs=1),
        lambda: shuffled_draws(4, 2, 0),
    ),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("notion", ["zero-out", "replace-one"])
@pytest.mark.parametrize("group_size", [1, 2])
def test_brackets_hold_the_worst_of_small_runs_by_enumeration(
    name: str, notion: str, group_size: int
) -> None:
    scheme, draws = SMALL[name]
    answer = dp.account(trained(scheme, 0), adjacency=notion, group_size=group_size)
    worst = {0.0: 0.0, 0.7: 0.0, 4.0: 0.0}
    best_fnr = 1.0
    for others in (False, True):
        p = seen(draws(), group_size, "a", others=others)
        q = seen(draws(), group_size, "b" if notion == "replace-one" else "", others=others)
        for first, second in ((p, q), (q, p)):
            for epsilon in worst:
                worst[epsilon] = max(worst[epsilon], hockey_stick(first, second, epsilon))
            # outcomes from the largest ratio on, the last in part
            ratios = sorted(
                ((first[key], second.get(key, 0.0)) for key in first),
                key=lambda masses: masses[1] / masses[0],
            )
            left, power = 0.1, 0.0
            for mass, other in ratios:
                share = 1.0 if other <= left else left / other
                power, left = power + share * mass, left - share * other
            best_fnr = min(best_fnr, 1.0 - power)
    for epsilon, delta in worst.items():
        bracket = answer.delta(epsilon=epsilon)
        assert bracket.upper >= delta * (1 - 1e-12)
        assert bracket.lower <= delta * (1 + 1e-12)
        if name not in ("truncated",) and group_size == 1:
            assert bracket.lower == pytest.approx(delta, rel=1e-9)
            assert bracket.upper == pytest.approx(delta, rel=1e-9)
    fnr = answer.fnr(fpr=0.1)
    assert fnr.lower <= best_fnr + 1e-12
    assert fnr.upper >= best_fnr - 1e-12


def test_a_group_over_poisson_batches_is_revealed_by_any_of_its_records() -> None:
    run = trained(dp.PoissonBatches(sample_rate=0.1, steps=3), 0)
    answer = dp.account(run, group_size=4).delta(epsilon=2.0)
    assert answer.lower == pytest.approx(1 - 0.9**12, rel=1e-10)
    assert answer.upper == pytest.approx(1 - 0.9**12, rel=1e-10)
    assert Grouped(run, 4).degenerate


def test_a_known_loss_keeps_the_upper_side_only() -> None:
    """How much of a record the last model shows is not known; that of all steps is no less."""
    plan = dp.PoissonBatches(sample_rate=0.1, steps=3, dataset_size=100)
    run = dp.LastIterate(plan, noise_multiplier=0, learning_rate=0.5, loss=LOSS)
    delta = dp.account(run).delta(epsilon=1.0)
    assert delta.lower == 0.0
    assert delta.upper == pytest.approx(1 - 0.9**3, rel=1e-9)


def test_a_run_of_nothing_costs_nothing_beside_others() -> None:
    noise = dp.Gaussian(1.0)
    alone = dp.account(noise).epsilon(delta=1e-5)
    for nothing in NOTHING.values():
        assert dp.account(noise + nothing).epsilon(delta=1e-5).upper == alone.upper
    mixed = dp.Mixture(components=[dp.Sequence([]), noise], weights=[0.5, 0.5], index="released")
    half = dp.account(mixed).delta(epsilon=1.0)
    assert half.upper == pytest.approx(0.5 * 0.12693673750664393, rel=1e-9)


# --- surfaces -------------------------------------------------------------------------------

CORNERS = {
    **{name: NOTHING[name] for name in ("no mechanism", "zero times", "rate 0", "no steps")},
    **{name: REVEALED[name][0] for name in ("no noise", "Poisson", "shuffled", "fixed size")},
    "nothing is promised": REVEALED["nothing is promised"][0],
}


@pytest.mark.parametrize("name", CORNERS)
def test_reports_plans_and_ledgers_take_them(name: str, tmp_path: Path) -> None:
    run = CORNERS[name]
    answer = dp.account(run)
    assert answer.suggestions(delta=1e-5) == ()
    assert dp.compare(run, delta=1e-5).best(dp.Side.UPPER) is not None
    assert str(dp.compare(run, order=2.0))
    for form in ("text", "markdown", "html", "json", "model-card", "registry"):
        text = answer.report(form)
        assert text
        if form in ("html", "json"):
            assert dp.Guarantee.from_json(text).mechanism == run
    assert Plan.from_dict(Plan(run).to_dict()).mechanism == run
    answer.risk()
    is_free = name in NOTHING
    for choice in ("adaptive", "fixed"):
        ledger = dp.Ledger(tmp_path / choice, epsilon=3.0, delta=1e-6, choice=choice)
        assert ledger.would_exceed(run) is not is_free
        if is_free:
            ledger.add(run)
            assert ledger.total().lower == 0.0
        else:
            with pytest.raises(dp.errors.BudgetExceeded, match="would exceed the budget"):
                ledger.add(run)
    budget = dp.Budget(epsilon=3.0, delta=1e-6)
    assert (budget.affordable(run) == 0) is not is_free


def test_words_say_what_happened() -> None:
    texts = {name: dp.account(run).report() for name, run in CORNERS.items()}
    assert "Nothing is released." in texts["no mechanism"]
    assert "(0, 1e-05)-DP" in texts["rate 0"]
    assert "No record enters a result." in " ".join(texts["rate 0"].split())
    assert "Epsilon is infinite at delta=1e-05" in texts["Poisson"]
    assert "what is released is exact" in " ".join(texts["Poisson"].split())


def test_sweeps_and_tables_pass_through_the_corners() -> None:
    noise = dp.sweep(
        lambda s: trained(dp.PoissonBatches(sample_rate=0.01, steps=100), s), s=[0.0, 1.0]
    ).epsilon(delta=1e-5)
    assert noise.lower[0] == math.inf
    assert noise.upper[1] < 2.0
    rates = dp.sweep(
        lambda q: trained(dp.PoissonBatches(sample_rate=q, steps=10)), q=[0.0, 1.0]
    ).epsilon(delta=1e-5)
    assert rates.upper[0] == 0.0
    sizes = {"dataset_size": 100, "batch_size": 10, "delta": 1e-5}
    still = dp.compare_samplers(noise_multiplier=1.0, epochs=0, **sizes)
    bare = dp.compare_samplers(noise_multiplier=0.0, epochs=1, **sizes)
    for table, value in ((still, 0.0), (bare, math.inf)):
        assert {row.lower for row in table} == {row.upper for row in table} == {value}
        assert all(row.ratio is None for row in table)
        assert str(value if value else 0) in str(table)
        assert table._repr_html_()


def test_calibration_says_that_there_is_nothing_to_find() -> None:
    for template in (
        lambda s: trained(dp.PoissonBatches(sample_rate=0.0, steps=10), s),
        lambda s: trained(dp.PoissonBatches(sample_rate=1e-7, steps=1), s),
    ):
        with pytest.raises(dp.InvalidArgument, match="met by any value"):
            dp.calibrate(template, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("dpsgd --sample-rate 0 --steps 9 --noise-multiplier 1 --delta 1e-5", "0 <= epsilon <= 0"),
        ("dpsgd --sample-rate 1 --steps 9 --noise-multiplier 0 --delta 1e-5", "inf <= epsilon"),
        ("account 'gaussian noise_multiplier=0' --delta 1e-5", "inf <= epsilon <= inf"),
        ("account 'gaussian noise_multiplier=1 x 0' --delta 1e-5", "0 <= epsilon <= 0"),
    ],
)
def test_the_command_line_answers(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(shlex.split(line)) == 0
    assert answer in capsys.readouterr().out


def test_samplers_draw_empty_batches_and_none() -> None:
    empty = dp.PoissonBatches(sample_rate=0, steps=3, dataset_size=5)
    assert [batch.size for batch in empty.batches(0)] == [0, 0, 0]
    assert empty.steps_of(2, rng=0).size == 0
    assert empty.overflow(1) == 0.0
    subsets = dp.FixedSizeBatches(dataset_size=5, batch_size=0, steps=2)
    assert [batch.size for batch in subsets.batches(0)] == [0, 0]
    for scheme in (
        dp.PoissonBatches(sample_rate=0.5, steps=0, dataset_size=5),
        dp.ShuffledBatches(dataset_size=5, batch_size=2, epochs=0),
        dp.BallsAndBins(dataset_size=5, batch_size=2, epochs=0),
        dp.BufferedShuffle(dataset_size=5, batch_size=2, epochs=0, buffer_size=2),
    ):
        assert list(scheme.batches(0)) == []
        assert scheme.steps_of(2, rng=0).size == 0
        assert scheme.overflow(1) in (0.0, 1.0)
    streamed = dp.PoissonBatches(sample_rate=0.5, steps=0)
    assert streamed.steps_of("record", rng=0).size == 0


def test_draws_say_that_there_is_nothing_to_draw() -> None:
    with pytest.raises(dp.Unsupported, match="Use account instead"):
        dp.montecarlo.estimate(NOTHING["rate 0"], epsilon=1.0, samples=100)
    with pytest.raises(dp.Unsupported, match="Use account instead"):
        dp.montecarlo.estimate(REVEALED["Poisson"][0], epsilon=1.0, samples=100)


def test_empty_batches_fill_no_epoch() -> None:
    with pytest.raises(dp.InvalidArgument, match="Empty batches fill no epoch"):
        dp.PoissonBatches(dataset_size=10, batch_size=0, epochs=1)
