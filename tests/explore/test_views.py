"""What the views answer, against the API; and that what they offer to paste is the same question."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.cli.commands import parsed
from sharpdp.cli.runs import run_of
from sharpdp.errors import InvalidArgument
from sharpdp.explore.collection_view import collection
from sharpdp.explore.curves_view import curves, run_in_words
from sharpdp.explore.loader_line import read_loader
from sharpdp.explore.officer_view import officer
from sharpdp.explore.snippets import snippets
from sharpdp.explore.training_view import training
from sharpdp.plans import Plan

SIZES: dict[str, Any] = {"dataset_size": 600, "batch_size": 60, "epochs": 2}
RUNS = [
    dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=100), noise_multiplier=1.0),
    dp.DPSGD(dp.ShuffledBatches(**SIZES), noise_multiplier=0.8),
    dp.DPSGD(dp.ShuffledBatches(**SIZES, left_out=1), noise_multiplier=0.8),
    dp.DPSGD(dp.ShuffledBatches(**SIZES, order="kept"), noise_multiplier=0.8),
    dp.DPSGD(dp.BallsAndBins(**SIZES), noise_multiplier=0.8),
    dp.DPSGD(dp.BallsAndBins(**SIZES, order="kept"), noise_multiplier=0.8),
    dp.DPSGD(dp.DeterministicBatches(**SIZES), noise_multiplier=2.0),
    dp.DPSGD(dp.FixedSizeBatches(dataset_size=600, batch_size=60, steps=20), noise_multiplier=2.0),
    dp.DPSGD(dp.BufferedShuffle(**SIZES, buffer_size=100), noise_multiplier=0.8),
    dp.DPSGD(dp.TruncatedPoissonBatches(**SIZES, physical_batch_size=90), noise_multiplier=0.8),
    dp.ShuffledReports(users=1000, local_epsilon=2.0, rounds=3),
    dp.ShuffledReports(users=1000, local_epsilon=2.0, population=5000, rounds=30),
    dp.ShuffledReports(
        users=1000, randomizer=dp.RandomizedResponse(local_epsilon=2.0, categories=4)
    ),
    dp.Sequence([dp.Gaussian(noise_multiplier=2.0) * 3, dp.Laplace(scale=2.0)]),
    dp.DPSGD(
        dp.batches.CyclicPoissonBatches(sample_rate=0.1, steps=20, cycle_length=2),
        noise_multiplier=1.0,
    ),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.label)
def test_what_is_pasted_is_the_same_question(run: dp.Mechanism, tmp_path: Path) -> None:
    plan = Plan(run, (1e-6,))
    forms = snippets(plan)
    lines = forms["python"].replace("answer = dp.account", "#")
    space: dict[str, Any] = {}
    exec(lines.partition("print")[0], space)
    assert space["run"] == run
    file = tmp_path / "plan.toml"
    file.write_text(forms["plan.toml"], "utf-8")
    assert Plan.read(file) == plan
    words = shlex.split(forms["command"])[1:]
    if words == ["account", "plan.toml"]:
        words = ["account", str(file)]
    options: argparse.Namespace = parsed(words, "")
    assert run_of(options).plan(options.delta) == plan


def test_options_are_used_where_they_can_say_the_run() -> None:
    shown = [snippets(Plan(run))["command"] for run in RUNS]
    assert (
        sum(command.startswith("sharpdp account") for command in shown) == 2
    )  # a sequence, and a known randomizer


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("DataLoader(data, batch_size=512, shuffle=True)", {"batches": "shuffled", "batch_size": 512}),
        ("x = torch.utils.data.DataLoader(data, 64, True)", {"batches": "shuffled", "batch_size": 64}),
        ("DataLoader(data, batch_size=n)", {"batches": "deterministic"}),
        ("DataLoader(data)", {"batches": "deterministic", "batch_size": 1}),
        (
            "DataLoader(d, batch_size=8, shuffle=True, drop_last=True)",
            {"batches": "shuffled", "drop_last": True, "batch_size": 8},
        ),
        (
            "DataLoader(d, batch_size=8, sampler=RandomSampler(d, replacement=True))",
            {"batches": "fixed-replaced", "batch_size": 8},
        ),
        ("engine.make_private(module=m, data_loader=l)", {"batches": "poisson"}),
        (
            "engine.make_private(data_loader=DataLoader(d, 9, shuffle=True), poisson_sampling=False)",
            {"batches": "shuffled", "batch_size": 9},
        ),
        (
            "stream.shuffle(buffer_size=1000).batch(32)",
            {"batches": "buffered", "buffer_size": 1000, "batch_size": 32},
        ),
    ],
)  # fmt: skip
def test_lines_of_code_are_read(line: str, words: dict[str, Any]) -> None:
    assert read_loader(line).words == words


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("DataLoader(data, shuffle=flag)", "shuffle=True or shuffle=False"),
        ("DataLoader(data, batch_sampler=mine)", "scheme_of"),
        ("DataLoader(data, sampler=WeightedRandomSampler(w, 10))", "scheme_of"),
        ("DataLoader(data, sampler=RandomSampler(d, num_samples=5))", "num_samples"),
        ("engine.make_private(data_loader=l, poisson_sampling=False)", "paste its"),
        ("stream.shuffle(seed=0)", "buffer_size"),
        ("train(data)", "none of them"),
        ("DataLoader(", "must be a line of Python"),
        ("x" * 3000, "at most 2000 characters"),
    ],
)
def test_lines_that_settle_nothing_are_refused(line: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        read_loader(line)


def test_code_is_never_executed(tmp_path: Path) -> None:
    file = tmp_path / "made"
    read_loader(f"DataLoader(open({str(file)!r}, 'w'), batch_size=3, shuffle=True)")
    assert not file.exists()


def parts(answer: Any, name: str) -> list[Any]:
    return [part[name] for part in answer if name in part]


def test_training_rows_are_those_of_the_table() -> None:
    fields = {**SIZES, "noise_multiplier": 1.0, "delta": 1e-5, "loader": "DataLoader(d, 60, True)"}
    answer = list(training(fields))
    rows = {row["name"]: row for row in parts(answer, "row")}
    table = dp.compare_samplers(**SIZES, noise_multiplier=1.0, delta=1e-5)
    assert set(rows) == {"your loader", *(row.name for row in table)}
    for row in table:
        assert rows[row.name]["upper"] == pytest.approx(row.upper, rel=1e-6)
    assert rows["your loader"]["note"] == rows["shuffled"]["note"]
    assert parts(answer, "scheme") == ["your loader"]


def test_opacus_draws_at_one_over_the_batches_of_an_epoch() -> None:
    fields = {"dataset_size": 60_000, "batch_size": 512, "epochs": 1, "noise_multiplier": 1.0}
    line = "engine.make_private(module=m, optimizer=o, data_loader=l)"
    answer = training({**fields, "delta": 1e-5, "loader": line})
    rows = (part["row"] for part in answer if "row" in part)
    yours = next(row for row in rows if row["name"] == "your loader")
    assert "118 steps at sample rate 0.00847458839" in yours["note"]


def test_a_collection_counts_honest_users_only() -> None:
    fields = {
        "users": 1000, "rounds": 2, "categories": 3, "delta": 1e-6, "local_epsilon": 1.0,
        "drop_outs": 0.1, "dishonest": 0.1,
    }  # fmt: skip
    chosen = next(part["chosen"] for part in collection(fields))
    randomizer = dp.RandomizedResponse(local_epsilon=1.0, categories=3)
    truth = dp.account(dp.ShuffledReports(users=810, rounds=2, randomizer=randomizer))
    assert chosen["users"] == 810
    assert chosen["upper"] == pytest.approx(float(truth.epsilon(delta=1e-6)), rel=1e-3)
    assert chosen["without_shuffler"]["upper"] >= 1.9


def test_an_officer_sees_forged_reports_and_one_total() -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=5.0))
    text = answer.report(format="json", delta=1e-5)
    upper = f"{float(answer.epsilon(delta=1e-5))!r}"
    assert upper in text
    reports = [
        {"name": "a.json", "text": text},
        {"name": "forged.json", "text": text.replace(upper, "0.1")},
        {"name": "junk.json", "text": "{}"},
    ]
    said = list(officer({"reports": reports, "delta": 1e-5}))
    assert [row["verdict"] for row in parts(said, "report")] == [
        "confirmed", "contradicted", "cannot be read",
    ]  # fmt: skip
    (total,) = parts(said, "total")
    (risk,) = parts(said, "risk")
    assert risk[0].startswith("A guess that is right 50% of the time before the release")
    both = dp.account(dp.Gaussian(noise_multiplier=5.0) * 2).epsilon(delta=1e-5)
    assert total["epsilon"]["upper"] == pytest.approx(float(both), rel=1e-3)


def test_curves_enclose_the_truth() -> None:
    for kind in ("tradeoff", "profile", "renyi"):
        said = list(curves({"runs": ["gaussian noise_multiplier=2"], "kind": kind, "delta": 1e-5}))
        (curve,) = parts(said, "curve")
        ends = [
            pair for pair in zip(curve["lower"], curve["upper"], strict=True) if None not in pair
        ]
        assert all(low <= high for low, high in ends)
        if kind == "renyi":
            for order, low, high in zip(curve["x"], curve["lower"], curve["upper"], strict=True):
                assert low <= order / 8 <= high  # of noise two
    assert run_in_words('{"mechanism": {"kind": "Gaussian", "noise_multiplier": 1.0}}').label
