"""What each choice of batches costs: the table, its picture, and batch schemes on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.cli import main
from sharpdp.cli.runs import scheme_of
from sharpdp.questions.compare_samplers import SamplerComparison, padded_size

NAMES = {
    "deterministic",
    "shuffled",
    "shuffled, one left out",
    "Poisson",
    "truncated Poisson",
    "balls-and-bins",
    "kept bins",
    "random allocation",
    "fixed size",
    "with replacement",
}
SPLIT = "--dataset-size 1000 --batch-size 100 --epochs 2"


@pytest.fixture(scope="module")
def table() -> SamplerComparison:
    return dp.compare_samplers(
        noise_multiplier=1.0, dataset_size=1000, batch_size=100, epochs=2, delta=1e-5
    )


def said(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*line.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_every_scheme_has_its_own_answer(table: SamplerComparison) -> None:
    assert {row.name for row in table.rows} == NAMES
    for row in table.rows:
        if row.epsilon is None:
            assert row.reason, row.name
            continue
        assert row.scheme is not None
        run = dp.DPSGD(row.scheme, noise_multiplier=1.0)
        answer = dp.account(run, adjacency="zero-out").epsilon(delta=1e-5)
        assert (row.lower, row.upper) == (answer.lower, answer.upper)


def test_the_order_that_theory_knows(table: SamplerComparison) -> None:
    """Shuffled batches are at least as private as deterministic ones, which cost most here."""
    assert table["shuffled"].upper <= table["deterministic"].upper * (1 + 1e-9)
    assert table["Poisson"].upper < table["deterministic"].lower
    assert table["balls-and-bins"].upper < table["deterministic"].lower
    uppers = [row.upper for row in table.rows if row.epsilon is not None]
    assert uppers == sorted(uppers)


def test_ratios_enclose_those_of_the_ends(table: SamplerComparison) -> None:
    basis = table["Poisson"]
    assert basis.ratio is not None
    assert (basis.ratio.lower, basis.ratio.upper) == (1.0, 1.0)
    for row in table.rows:
        if row.ratio is not None and row is not basis:
            assert row.ratio.lower <= row.lower / basis.upper
            assert row.ratio.upper >= row.upper / basis.lower


def test_the_table_is_aligned(table: SamplerComparison) -> None:
    lines = str(table).splitlines()
    assert lines[0].startswith("epsilon at delta=1e-05 | DP-SGD, noise multiplier 1, 2 epochs over")
    column = lines[1].index("neighbors")
    for line in lines[2 : 2 + len(NAMES)]:
        assert line[column:].startswith("zero-out")
    assert all(len(line) <= 100 for line in lines)


def test_the_table_as_data(table: SamplerComparison) -> None:
    data = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert {entry["name"] for entry in data["samplers"]} == NAMES
    assert data["delta"] == 1e-5


def test_noise_for_the_same_epsilon(table: SamplerComparison) -> None:
    """Two epochs of deterministic batches are one Gaussian of noise s / sqrt(2); it needs 3.73063."""
    found = table.smallest_noise("deterministic", epsilon=1.0)
    assert found == pytest.approx(3.73063 * math.sqrt(2), rel=1.1e-3)
    with pytest.raises(dp.InvalidArgument, match=r"name must be one of .* got 'sideways'"):
        table.smallest_noise("sideways", epsilon=1.0)
    with pytest.raises(dp.InvalidArgument, match="epsilon must be a finite number"):
        table.smallest_noise("Poisson", epsilon=math.nan)


def test_the_size_that_batches_are_padded_to() -> None:
    """The specification, 7: 1000 batches overflow 1225 with probability 7e-9 / 2.6, 1250 with 1e-11."""
    given = {"dataset_size": 10**6, "batch_size": 1000, "steps": 1000}
    assert 1200 < padded_size(**given, delta=1e-6) < 1225
    assert 1225 < padded_size(**given, delta=1e-8) < 1250
    assert padded_size(dataset_size=5, batch_size=5, steps=9, delta=1e-6) == 5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"noise_multiplier": -1.0}, "noise_multiplier must be at least 0; got -1.0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier must be at least 0; got nan"),
        ({"dataset_size": 0}, "dataset_size must be a whole number, at least 1; got 0"),
        ({"batch_size": 2000}, "batch_size must be at most dataset_size = 1000; got 2000"),
        ({"epochs": -1}, "epochs must be a whole number, at least 0; got -1"),
        ({"epochs": 1.5}, "epochs must be a whole number, at least 0; got 1.5"),
        ({"delta": 1.0}, "delta must be in"),
        ({"delta": "1e-5"}, "delta must be in .* Pass the number without quotes"),
        ({"adjacency": "sideways"}, "adjacency must be one of"),
    ],
)
def test_wrong_numbers_are_named_once(change: dict[str, object], sentence: str) -> None:
    given = {"noise_multiplier": 1.0, "dataset_size": 1000, "batch_size": 100, "epochs": 2}
    with pytest.raises(dp.InvalidArgument, match=sentence):
        dp.compare_samplers(**{"delta": 1e-5, **given, **change})  # type: ignore[arg-type]


def test_a_notion_that_a_scheme_lacks_is_said_in_its_row() -> None:
    table = dp.compare_samplers(
        noise_multiplier=1.0,
        dataset_size=100,
        batch_size=10,
        epochs=1,
        delta=1e-5,
        adjacency="add/remove",
    )
    assert table["shuffled"].epsilon is None
    assert "adjacency add/remove has no theorem" in table["shuffled"].reason
    assert table["Poisson"].epsilon is not None


def test_the_command_says_what_the_function_says(
    table: SamplerComparison, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "samplers.svg"
    line = f"compare samplers --noise-multiplier 1 {SPLIT} --delta 1e-5 -o {picture}"
    found = said(line, capsys)
    answers = found["answers"]
    assert isinstance(answers, list)
    for answer, row in zip(answers, table.to_dict()["samplers"], strict=True):
        assert {**answer, **row} == answer
    assert found["drawn"] == str(picture)
    assert "balls-and-bins" in picture.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "scheme"),
    [
        ("shuffled", dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=2)),
        (
            "shuffled-once",
            dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=2, order="kept"),
        ),
        ("deterministic", dp.DeterministicBatches(dataset_size=1000, batch_size=100, epochs=2)),
        ("balls-and-bins", dp.BallsAndBins(dataset_size=1000, batch_size=100, epochs=2)),
        (
            "buffered",
            dp.BufferedShuffle(dataset_size=1000, batch_size=100, epochs=2, buffer_size=50),
        ),
        (
            "balls-and-bins-once",
            dp.BallsAndBins(dataset_size=1000, batch_size=100, epochs=2, order="kept"),
        ),
        ("allocation", dp.RandomAllocation(steps=10, epochs=2, dataset_size=1000)),
        ("fixed", dp.FixedSizeBatches(dataset_size=1000, batch_size=100, steps=20)),
        (
            "fixed-replaced",
            dp.FixedSizeBatches(dataset_size=1000, batch_size=100, steps=20, replacement=True),
        ),
        (
            "truncated",
            dp.TruncatedPoissonBatches(
                dataset_size=1000, batch_size=100, epochs=2, physical_batch_size=170
            ),
        ),
        (
            "cyclic-poisson",
            dp.batches.CyclicPoissonBatches(
                dataset_size=1000, batch_size=100, epochs=2, cycle_length=4
            ),
        ),
        (
            "weighted-poisson",
            dp.batches.WeightedPoissonBatches(
                weights=[1.0] * 999 + [2.0], batch_size=100, epochs=2
            ),
        ),
        ("poisson", dp.PoissonBatches(dataset_size=1000, batch_size=100, epochs=2)),
    ],
)
def test_schemes_in_words(words: str, scheme: dp.batches.BatchScheme) -> None:
    sizes = {"dataset_size": 1000, "batch_size": 100, "epochs": 2}
    more = {
        "truncated": {"physical_batch_size": 170},
        "cyclic-poisson": {"cycle_length": 4},
        "buffered": {"buffer_size": 50},
        "weighted-poisson": {"example_weights": [1.0] * 999 + [2.0], "dataset_size": None},
    }
    assert scheme_of({"batches": words, **sizes, **more.get(words, {})}) == scheme


@pytest.mark.parametrize(
    "batches",
    [
        "deterministic",
        "fixed",
        pytest.param("truncated", marks=pytest.mark.slow),
        pytest.param("balls-and-bins", marks=pytest.mark.slow),
        pytest.param("allocation", marks=pytest.mark.slow),
        pytest.param("shuffled", marks=pytest.mark.slow),
    ],
)
def test_runs_and_calibrations_over_schemes(
    batches: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(
        f"calibrate noise-multiplier {SPLIT} --batches {batches} --epsilon 2 --delta 1e-5", capsys
    )
    noise = found["value"]
    assert isinstance(noise, float)
    for factor, meets in ((1.0, True), (1 - 3e-3, False)):
        line = f"dpsgd --noise-multiplier {noise * factor} {SPLIT} --batches {batches} --epsilon 2"
        (answer,) = said(line, capsys)["answers"]  # type: ignore[misc]
        delta = answer["upper"]
        assert isinstance(delta, float)
        assert (delta <= 1.001e-5) is meets


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            f"dpsgd --noise-multiplier 1 {SPLIT} --batches shufled --delta 1e-5",
            "got 'shufled'. Did you mean shuffled?",
        ),
        (
            f"dpsgd --noise-multiplier 1 {SPLIT} --sample-rate 0.1 --batches balls-and-bins "
            "--delta 1e-5",
            "balls-and-bins batches take --dataset-size, --batch-size, --epochs; got",
        ),
        (
            "dpsgd --noise-multiplier 1 --dataset-size 9 --epochs 1 --batches shuffled --delta 1e-5",
            "shuffled batches take --dataset-size, --batch-size, --epochs, --drop-last, --left-out; got",
        ),
        (
            f"dpsgd --noise-multiplier 1 {SPLIT} --batches truncated --physical-batch-size 50 "
            "--delta 1e-5",
            "--physical-batch-size must be from --batch-size 100 to --dataset-size 1000; got 50.",
        ),
        (
            "dpsgd --noise-multiplier 1 --steps 9 --batches allocation --participations 10 "
            "--delta 1e-5",
            "--participations must be at most the 9 steps of an epoch; got 10.",
        ),
        (
            "dpsgd --noise-multiplier 1 --steps 9 --batch-size 3 --batches allocation --delta 1e-5",
            "allocation batches take --steps of one epoch, or --dataset-size and --batch-size",
        ),
        (
            f"dpsgd --noise-multiplier 1 {SPLIT} --batches poisson --drop-last --delta 1e-5",
            "poisson batches take --sample-rate, --steps,",
        ),
        (
            "compare samplers --noise-multiplier 1 --dataset-size 9 --batch-size 3 --delta 1e-5",
            "samplers needs --noise-multiplier, --dataset-size, --batch-size, --epochs, --delta; "
            "--epochs is missing.",
        ),
        (
            "compare samplers --noise-multiplier 1 --dataset-size 3 --batch-size 9 --epochs 1 "
            "--delta 1e-5",
            "--batch-size must be at most --dataset-size 3; got 9.",
        ),
    ],
)
def test_what_is_said_about_wrong_words(
    line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert sentence in " ".join(capsys.readouterr().err.split()).replace(" = ", " ")
