"""Several queries on the same batches: what they cost together, by integration over the plane.

Expected values are integrals of two-dimensional densities, or numbers of a reviewer's own program.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import exp, inf, nextafter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sharpdp as dp
from sharpdp.batches import WeightedPoissonBatches
from sharpdp.budget import Ledger
from sharpdp.cli import main
from sharpdp.cli.runs import mechanism
from sharpdp.mechanisms.composed import independently_drawn
from sharpdp.plans import Plan
from sharpdp.report import verify

Array = NDArray[np.float64]
Law = list[tuple[float, float, float]]
"""Probability, and the means of both results."""

NOISES = (1.5, 2.5)
RATE = 0.2
POISSON = dp.PoissonBatches(sample_rate=RATE, steps=1)
FIXED = dp.FixedSizeBatches(dataset_size=10, batch_size=2, steps=1)
KNOWN = dp.DeterministicBatches(dataset_size=4, batch_size=2, epochs=1)
WEIGHTED = WeightedPoissonBatches(weights=(2, 1, 1, 1, 1, 1, 1, 1, 1), batch_size=1, steps=1)
BANDED = dp.BandedStrategy(coefficients=(1.0,))


def queries(plan: object, noises: tuple[float, ...] = NOISES) -> dp.SameBatches:
    """Gradients, and a query on the same batches."""
    first, *others = noises
    return dp.SameBatches(
        [
            dp.DPSGD(plan, noise_multiplier=first),
            *(dp.BatchQueries(plan, noise_multiplier=noise) for noise in others),
        ]
    )


def density(law: Law) -> Array:
    """On a grid of the plane of both results, up to one factor for all laws."""
    x, y = (np.linspace(-14.0 * noise, 14.0 * noise, 1201) for noise in NOISES)
    total = np.zeros((x.size, y.size))
    for weight, first, second in law:
        rows = np.exp(-0.5 * ((x - first) / NOISES[0]) ** 2)
        total += weight * np.outer(rows, np.exp(-0.5 * ((y - second) / NOISES[1]) ** 2))
    return total


def delta(one: Law, other: Law, epsilon: float) -> float:
    """The larger of both directions, by a sum over the grid, which is off by 1e-4 of itself or less."""
    p, q = density(one), density(other)
    ways = (np.maximum(a - exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p)))
    return float(max(ways) / p.sum())


def drawn(value: float, rate: float = RATE, other: float = 0.0) -> Law:
    """Both queries of one record are the same number, and without it another one is in its place."""
    return [(rate, value, value), (1.0 - rate, other, other)]


CASES = [
    (POISSON, "add/remove", drawn(1.0), drawn(0.0)),
    (POISSON, "zero-out", drawn(1.0), drawn(0.0)),
    (POISSON, "replace-one", drawn(1.0), drawn(-1.0)),
    (WEIGHTED, "zero-out", drawn(1.0), drawn(0.0)),
    (WEIGHTED, "replace-one", drawn(1.0), drawn(-1.0)),
    (FIXED, "zero-out", drawn(1.0, other=-1.0), drawn(0.0, other=-1.0)),
    (KNOWN, "zero-out", drawn(1.0, 1.0), drawn(0.0)),
    (KNOWN, "replace-one", drawn(1.0, 1.0), drawn(-1.0, 1.0)),
]


@pytest.mark.parametrize(
    ("plan", "adjacency", "one", "other"),
    CASES,
    ids=[f"{type(plan).__name__} {adjacency}" for plan, adjacency, _, _ in CASES],
)
def test_both_results_together_are_one_run_with_less_noise(
    plan: object, adjacency: str, one: Law, other: Law
) -> None:
    for epsilon in (0.0, 0.2):
        answer = dp.account(queries(plan), adjacency=adjacency).delta(epsilon=epsilon)
        truth = delta(one, other, epsilon)
        assert answer.lower * (1 - 1e-4) <= truth <= answer.upper * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_no_other_records_are_told_apart_better(seed: int) -> None:
    """Whatever the record, its replacement and what is in its place contribute to both queries."""
    rng = np.random.default_rng(seed)
    epsilon = float(rng.choice([0.0, 0.1, 0.4]))
    values = rng.uniform(-1.0, 1.0, (3, 2))
    extreme = np.where(rng.random((3, 2)) < 0.5, np.sign(values), values)
    record, replaced, displaced = extreme.tolist()
    for plan, rest in ((POISSON, [0.0, 0.0]), (FIXED, displaced)):
        one, other = (
            [(RATE, *contribution), (1.0 - RATE, *rest)] for contribution in (record, replaced)
        )
        most = dp.account(queries(plan), adjacency="replace-one").delta(epsilon=epsilon).upper
        assert delta(one, other, epsilon) <= most * (1 + 1e-4)


def test_the_same_batches_cost_more_than_batches_of_their_own() -> None:
    """Opendp issue 2933; the truth is that of a reviewer's program."""
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.5)
    together = dp.account(dp.SameBatches([run, run])).epsilon(delta=1e-5)
    assert together.lower == pytest.approx(1.6238, abs=5e-5)
    assert together.upper == pytest.approx(1.6238, abs=5e-5)
    assert dp.account(run + run).epsilon(delta=1e-5).upper < 1.33


@pytest.mark.parametrize("seed", range(20))
def test_the_joint_noise_is_the_largest_double_that_is_not_too_large(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noises = (10.0 ** rng.uniform(-29, 30, int(rng.integers(1, 6)))).tolist()
    joint = queries(POISSON, tuple(noises)).noise_multiplier
    needed = 1 / sum(1 / Fraction(noise) ** 2 for noise in noises)
    assert Fraction(joint) ** 2 <= needed < Fraction(nextafter(joint, inf)) ** 2


def test_one_query_is_itself() -> None:
    run = dp.DPSGD(POISSON, noise_multiplier=0.7)
    alone = dp.SameBatches([run])
    assert alone.equivalent == run
    assert alone.holds_when == ()


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ([], dp.InvalidArgument, r"queries must be a list of at least one"),
        (dp.DPSGD(POISSON, noise_multiplier=1.0), TypeError, r"Use SameBatches\(\[a, b\]\)"),
        ([dp.Gaussian(1.0)], TypeError, r"queries\[0\] must be DPSGD or BatchQueries.*got Gaussian"),
        ([dp.DPSGD(POISSON, noise_multiplier=1.0) * 2], TypeError, r"queries\[0\] must be DPSGD"),
        (
            [dp.CorrelatedNoise(KNOWN, strategy=BANDED, noise_multiplier=1.0)],
            TypeError, r"queries\[0\] must be DPSGD or BatchQueries.*got correlated noise",
        ),
        (
            [dp.DPSGD(POISSON, noise_multiplier=1.0), dp.DPSGD(FIXED, noise_multiplier=1.0)],
            dp.InvalidArgument, r"queries\[1\] must have the batches of the others.*use a \+ b",
        ),
        (
            [dp.DPSGD(replace(POISSON, steps=steps), noise_multiplier=1.0) for steps in (1, 2)],
            dp.InvalidArgument, r"queries\[1\] must have the batches of the others",
        ),
        ([dp.DPSGD(POISSON, noise_multiplier=1e-30)] * 2, dp.InvalidArgument, "joint noise multiplier"),
    ],
)  # fmt: skip
def test_other_queries_are_refused(wrong: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        dp.SameBatches(wrong)


def test_they_are_written_read_composed_and_reported() -> None:
    whole = queries(dp.PoissonBatches(sample_rate=1.0, steps=1)) + dp.Gaussian(20.0)
    plan = Plan(whole)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert "2 queries on the same batches (noise multipliers 1.5, 2.5;" in whole.describe()
    answer = dp.account(whole)
    assert any("before any result on that batch is seen" in line for line in answer.holds_when)
    report = answer.report("json")
    assert verify(report).verdict.value == "confirmed"
    data = json.loads(report)
    assert "2 sums over the same batch are released" in data["in_words"][0]
    assert any("before any result on that batch" in line for line in data["checklist"])


def test_a_shorter_run_has_the_same_queries() -> None:
    run = queries(dp.PoissonBatches(sample_rate=0.01, steps=100)).stopped_after(40)
    assert run == queries(dp.PoissonBatches(sample_rate=0.01, steps=40))


TRAINING = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=10), noise_multiplier=1.0)
FIXED_ORDER = dp.DPSGD(KNOWN, noise_multiplier=1.0)
REPORTS = dp.ShuffledReports(users=100, local_epsilon=1.0, population=1000)


@pytest.mark.parametrize(
    ("composed", "what"),
    [
        (TRAINING * 3, "their batches"),
        (TRAINING + dp.BatchQueries(TRAINING.batches, noise_multiplier=2.0), "their batches"),
        (TRAINING + queries(TRAINING.batches), "their batches"),
        (dp.Sequence([TRAINING, dp.Laplace(scale=1.0), TRAINING]), "their batches"),
        (TRAINING + dp.PureDP(epsilon=0.1), "their batches and any samples"),
        (dp.PureDP(epsilon=0.1) * 2, "any samples"),
        (REPORTS + TRAINING, "their users and their orders and their batches"),
        (dp.BestOf(TRAINING, "geometric", mean=3.0), "their batches"),
        (
            dp.Mixture(components=[TRAINING, TRAINING], weights=[0.5, 0.5], index="released") * 2,
            "their batches",
        ),
    ],
)
def test_compositions_say_that_batches_are_drawn_independently(
    composed: dp.Mechanism, what: str
) -> None:
    condition = f"all parts, and all runs of one part, draw {what} independently of each other"
    assert condition in composed.holds_when


def test_the_condition_is_in_the_answer_its_report_and_its_model_card() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=1.0, steps=1), noise_multiplier=1.0)
    answer = dp.account(run * 3)
    words = "all parts, and all runs of one part, draw their batches independently of each other"
    assert words in answer.holds_when
    boxes = json.loads(answer.report("json"))["checklist"]
    assert f"A{words[1:]}." in boxes
    assert words in answer.report("model-card")
    assert f"[ ] A{words[1:45]}" in answer.report()


@pytest.mark.parametrize(
    "composed",
    [
        TRAINING,
        TRAINING + dp.Laplace(scale=1.0),
        FIXED_ORDER * 3,
        dp.Gaussian(1.0) * 3,
        queries(TRAINING.batches) + dp.Gaussian(1.0),
    ],
)
def test_nothing_is_said_where_batches_are_drawn_once_or_not_at_all(composed: dp.Mechanism) -> None:
    assert independently_drawn(composed.parts()) == ()


def test_a_ledger_refuses_the_key_of_other_batches(tmp_path: Path) -> None:
    path = tmp_path / "budget.jsonl"
    ledger = dp.Ledger(path, epsilon=100.0, delta=1e-5, choice="fixed in advance")
    key, other = b"k" * 16, b"l" * 16
    first = ledger.add(TRAINING, batches=key, cohort="north")
    text = path.read_text("utf-8")
    assert first.batches is not None
    assert key.hex() not in text
    assert first.batches in text
    opened = dp.Ledger(path)
    for cohort in ("north", "south", None):  # of other people as well: batches are the same
        with pytest.raises(dp.InvalidArgument, match=r"got that of release 1: DP-SGD.*SameBatches"):
            opened.add(TRAINING, batches=key, cohort=cohort)
    opened.add(TRAINING, batches=other, cohort="north")
    opened.add(TRAINING)  # nothing is known about its batches
    assert len(ledger.entries) == 3
    assert Ledger.verify(path) == ()
    with pytest.raises(dp.InvalidArgument, match="batches must have at least 16 bytes; got 3"):
        ledger.add(TRAINING, batches=b"abc")
    with pytest.raises(TypeError, match="batches must be bytes"):
        ledger.add(TRAINING, batches="k" * 16)


def test_a_ledger_says_what_all_releases_need_together(tmp_path: Path) -> None:
    ledger = dp.Ledger(
        tmp_path / "budget.jsonl", epsilon=100.0, delta=1e-5, choice="fixed in advance"
    )
    assert ledger.holds_when == ()
    independent = (
        "all parts, and all runs of one part, draw their batches independently of each other"
    )
    ledger.add(queries(TRAINING.batches), group_size=2)
    assert any("before any result on that batch" in line for line in ledger.holds_when)
    assert independent not in ledger.holds_when
    ledger.add(TRAINING)
    assert independent in ledger.holds_when
    ledger.add(dp.Laplace(scale=1.0))
    needed = " ".join(ledger.holds_when)
    assert "l1 sensitivity is at most 1 between data sets that differ in adding" in needed


def test_the_command_line_knows_them(capsys: pytest.CaptureFixture[str]) -> None:
    words = "same-batches noise_multipliers=1.5,2.5 sample_rate=0.2 steps=1"
    assert mechanism(words) == dp.SameBatches(
        [dp.DPSGD(POISSON, noise_multiplier=noise) for noise in NOISES]
    )
    main(["account", f"{words} x 2", "--delta", "1e-5"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "draw their batches independently of each other" in printed
    assert "before any result on that batch is seen" in printed


def test_a_query_without_noise_leaves_no_noise() -> None:
    plan = dp.PoissonBatches(sample_rate=0.1, steps=3)
    queries = [dp.DPSGD(plan, noise_multiplier=noise) for noise in (2.0, 0.0)]
    delta = dp.account(dp.SameBatches(queries)).delta(epsilon=1.0)
    assert delta.lower == pytest.approx(1.0 - 0.9**3, rel=1e-9)
    assert delta.upper == pytest.approx(1.0 - 0.9**3, rel=1e-9)
