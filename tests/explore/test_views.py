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
from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.explore.collection_view import design, limit, picture
from sharpdp.explore.curves_view import bounds, curves, drawn, run_in_words
from sharpdp.explore.loader_line import read_loader
from sharpdp.explore.officer_view import ledger, reports, risk
from sharpdp.explore.questions import QUESTIONS, answering
from sharpdp.explore.snippets import snippets
from sharpdp.explore.training_view import loader, noise, schemes, slow_schemes
from sharpdp.plans import Plan
from sharpdp.questions.compare_samplers import schemes_for

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
    (only,) = (command for command in shown if command.startswith("sharpdp account"))
    assert isinstance(RUNS[shown.index(only)], dp.Sequence)


SEEDED = [
    ("torch.manual_seed(0)", "", "deterministic"),
    ("torch.manual_seed(-1)", "", "deterministic"),
    ("lightning.seed_everything(42)", "", "deterministic"),
    ("set_seed(2**40)", "", "shuffled"),
    (f"torch.manual_seed({2**32 - 1})", "", "deterministic"),
    (f"torch.manual_seed({2**32})", "", "shuffled"),
    ("torch.manual_seed(seed)", "", "shuffled"),
    (
        "torch.manual_seed(0)",
        ", generator=torch.Generator().manual_seed(secrets.randbits(63))",
        "shuffled",
    ),
    ("", ", generator=torch.Generator().manual_seed(7)", "deterministic"),
    ("g = torch.Generator().manual_seed(7)", ", generator=g", "deterministic"),
    ("g = torch.Generator(); g.manual_seed(7)", ", generator=g", "deterministic"),
    ("g = torch.Generator().manual_seed(7)", "", "shuffled"),
    ("g.manual_seed(0)", ", generator=None", "shuffled"),
]
"""What seeds, the generator of the loader, and what that makes of shuffle=True."""


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
            "DataLoader(d, batch_size=8, sampler=RandomSampler(d), drop_last=True)",
            {"batches": "shuffled", "drop_last": True, "batch_size": 8},
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
        (  # two lines from inside a function
            "data = load()\n    loader = DataLoader(data, batch_size=8, shuffle=True)",
            {"batches": "shuffled", "batch_size": 8},
        ),
        (
            "def make():\n    return DataLoader(data, batch_size=8, shuffle=True)",
            {"batches": "shuffled", "batch_size": 8},
        ),
        *(
            (f"{seeding}\nDataLoader(data, 8, True{generator})", {"batches": found, "batch_size": 8})
            for seeding, generator, found in SEEDED
        ),
        (
            "DataLoader(d, 8, sampler=RandomSampler(d, generator=torch.Generator().manual_seed(5)))",
            {"batches": "deterministic", "batch_size": 8},
        ),
        ("stream.shuffle(1000, seed=42).batch(32)", {"batches": "deterministic", "batch_size": 32}),
        ("torch.manual_seed(0); DataLoader(data, 8)", {"batches": "deterministic", "batch_size": 8}),
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
        ("DataLoader(data, sampler=RandomSampler(d, replacement=True))", "replacement=False"),
        ("DataLoader(data, **options)", "written out"),
        ("DataLoader(*parts, shuffle=True)", "written out"),
        ("engine.make_private(**options)", "written out"),
        ("engine.make_private(data_loader=l, poisson_sampling=False)", "paste its"),
        ("stream.shuffle(seed=0)", "buffer_size"),
        ("DataLoader(d, shuffle=True, generator=g)", "how it is seeded"),
        ("DataLoader(d, shuffle=True, generator=torch.Generator())", "never seeded"),
        ("torch.manual_seed(0); engine.make_private(data_loader=l)", "Poisson batches with seed 0"),
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
    quick = parts(schemes(fields), "row")
    slow = parts(slow_schemes({**fields, "loader": ""}), "row")
    rows = {row["name"]: row for row in (*quick, *slow)}
    table = dp.compare_samplers(**SIZES, noise_multiplier=1.0, delta=1e-5)
    assert len(rows) == len(quick) + len(slow)
    assert set(rows) == {row.name for row in table}
    for row in table:
        assert rows[row.name]["upper"] == pytest.approx(row.upper, rel=1e-6)
    # the scheme of the pasted loader is computed once, by the question about the loader
    beside = list(slow_schemes(fields))
    assert parts(beside, "same") == ["shuffled"]
    assert "shuffled" not in {row["name"] for row in parts(beside, "row")}
    (yours,) = parts(loader(fields), "row")
    assert yours == {**rows["shuffled"], "name": "your loader"}


@pytest.mark.slow
def test_the_noise_that_is_shown_meets_the_target() -> None:
    fields = {**SIZES, "delta": 1e-5, "target_epsilon": 2.0, "loader": "DataLoader(d, 60, True)"}
    needed = {entry["name"]: entry for entry in parts(noise(fields), "noise")}
    assert needed["your loader"] == {**needed["shuffled"], "name": "your loader"}
    for name, scheme in schemes_for(**SIZES, delta=1e-5).items():
        if name in ("Poisson", "deterministic", "shuffled"):
            run = dp.DPSGD(scheme, noise_multiplier=float(needed[name]["shown"]))
            assert float(dp.account(run, adjacency="zero-out").epsilon(delta=1e-5)) <= 2.0


def test_opacus_draws_at_one_over_the_batches_of_an_epoch() -> None:
    fields = {"dataset_size": 60_000, "batch_size": 512, "epochs": 1, "noise_multiplier": 1.0}
    line = "engine.make_private(module=m, optimizer=o, data_loader=l)"
    yours = next(
        part["row"] for part in loader({**fields, "delta": 1e-5, "loader": line}) if "row" in part
    )
    assert "118 steps at sample rate 0.00847458839" in yours["note"]


PEOPLE: dict[str, Any] = {
    "users": 1000, "rounds": 2, "categories": 3, "delta": 1e-6, "drop_outs": 0.1, "dishonest": 0.1,
}  # fmt: skip


def collected(local_epsilon: float) -> dp.Guarantee:
    randomizer = dp.RandomizedResponse(local_epsilon=local_epsilon, categories=3)
    return dp.account(dp.ShuffledReports(users=810, rounds=2, randomizer=randomizer))


def test_a_collection_counts_honest_users_only() -> None:
    (chosen,) = parts(design({**PEOPLE, "local_epsilon": 1.0}), "chosen")
    assert chosen["users"] == 810
    truth = collected(1.0).epsilon(delta=1e-6)
    assert chosen["upper"] == pytest.approx(float(truth), rel=3e-3)
    assert chosen["without_shuffler"]["upper"] >= 1.9


def test_the_picture_and_the_limit_of_a_collection_are_those_of_the_api() -> None:
    points = parts(picture(PEOPLE), "point")
    assert sorted(point["local_epsilon"] for point in points)[-1] == 5.6
    for point in points[:3]:
        truth = collected(point["local_epsilon"]).epsilon(delta=1e-6)
        assert point["lower"] <= float(truth)
        assert float(truth.lower) <= point["upper"]
    few = {**PEOPLE, "users": 5, "rounds": 1, "categories": 2}
    further = parts(picture({**few, "largest": 8}), "point")
    assert max(point["local_epsilon"] for point in further) == 8.0
    (most,) = parts(limit({**PEOPLE, "target_epsilon": 0.5}), "limit")
    assert float(collected(float(most["shown"])).epsilon(delta=1e-6)) <= 0.5
    assert float(most["shown"]) <= most["local_epsilon"]


def test_an_officer_sees_forged_reports_and_one_total(tmp_path: Path) -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=5.0))
    text = answer.report(format="json", delta=1e-5)
    upper = f"{float(answer.epsilon(delta=1e-5))!r}"
    assert upper in text
    dropped = [
        {"name": "a.json", "text": text},
        {"name": "forged.json", "text": text.replace(upper, "0.1")},
        {"name": "junk.json", "text": "{}"},
    ]
    fields = {"reports": dropped, "delta": 1e-5}
    said = list(reports(fields))
    assert [row["verdict"] for row in parts(said, "report")] == [
        "confirmed", "contradicted", "cannot be read",
    ]  # fmt: skip
    (total,) = parts(said, "total")
    both = dp.account(dp.Gaussian(noise_multiplier=5.0) * 2).epsilon(delta=1e-5)
    assert total["epsilon"]["upper"] == pytest.approx(float(both), rel=1e-3)
    (sentences,) = parts(risk({"plan": total["plan"], "prior": 0.25}), "risk")
    assert sentences[0].startswith("A guess that is right 75% of the time before the release")
    # a ledger takes the confirmed ones only, and is confirmed when it is dropped again
    (made,) = ledger({**fields, "budget": 2.0})
    assert len(made["made"]["lines"]) == 1
    assert len(made["refused"]) == 2
    again = {"reports": [{"name": "budget.jsonl", "text": made["file"]}], "delta": 1e-5}
    (kept,) = parts(reports(again), "ledger")
    assert kept["verdict"] == "confirmed"
    assert kept["epsilon"]["upper"] == pytest.approx(float(answer.epsilon(delta=1e-5)), rel=1e-3)
    again["reports"][0]["text"] = made["file"].replace("a.json", "b.json")
    (changed,) = parts(reports(again), "ledger")
    assert changed["verdict"] == "contradicted"


def test_the_total_is_about_groups_as_large_as_any_report_has() -> None:
    run = dp.Gaussian(noise_multiplier=20.0)
    one, five = (
        dp.account(run, group_size=size).report(format="json", delta=1e-5) for size in (1, 5)
    )
    dropped = [{"name": "one.json", "text": one}, {"name": "five.json", "text": five}]
    (total,) = parts(reports({"reports": dropped, "delta": 1e-5}), "total")
    truth = dp.account(run * 2, group_size=5).epsilon(delta=1e-5)
    assert total["epsilon"]["upper"] == pytest.approx(float(truth), rel=1e-3)
    assert "5" in total["neighbors"]


SHUFFLE = "shuffle users=2000 local_epsilon=1"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("gaussian noise_multiplier=2", "tradeoff"),
        ("gaussian noise_multiplier=2", "profile"),
        ("gaussian noise_multiplier=2", "renyi"),
        (SHUFFLE, "profile"),
    ],
)
def test_single_bounds_lie_outside_of_the_bracket(words: str, kind: str) -> None:
    (rows,) = parts(bounds({"run": words, "delta": 1e-6}), "bounds")
    names = [
        f"{row['side']} {row['name']}"
        for row in rows
        if row["kind"] != "estimate" and row["value"] is not None
    ]
    assert len(names) >= 2
    lines = parts(drawn({"run": words, "kind": kind, "bounds": names[:12]}), "line")
    assert len(lines) >= 2
    answer = dp.account(run_in_words(words))
    ask = {
        "tradeoff": lambda xs: answer.fnr(fpr=xs),
        "profile": lambda xs: answer.delta(epsilon=xs),
        "renyi": lambda xs: answer.renyi(order=xs),
    }[kind]
    for line in lines:
        some = [(x, y) for x, y in zip(line["x"], line["y"], strict=True) if y is not None][::7]
        assert some, line["name"]
        truth = ask([x for x, _ in some])
        above = line["name"].startswith("upper") != (kind == "tradeoff")
        for (_, y), low, high in zip(some, truth.lower, truth.upper, strict=True):
            assert (y >= low * (1 - 1e-9)) if above else (y <= high * (1 + 1e-9)), line["name"]


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


BAD: tuple[Any, ...] = (
    None, "", "many", True, -1, -0.5, 1e999, float("nan"), 10**30, [], {}, [1, 2], "' OR 1=1", "\x00",
)  # fmt: skip
RUN = {**SIZES, "delta": 1e-5, "loader": "DataLoader(d, batch_size=n, shuffle=True)"}
PLAN = Plan(dp.Gaussian(noise_multiplier=5.0), (1e-5,))
REPORT = {"name": "a.json", "text": PLAN.guarantee().report(format="json", delta=1e-5)}
GOOD: dict[str, dict[str, Any]] = {
    "training-loader": {**RUN, "noise_multiplier": 1.0},
    "training-schemes": {**RUN, "noise_multiplier": 1.0},
    "training-slow-schemes": {**RUN, "noise_multiplier": 1.0},
    "training-noise": {**RUN, "target_epsilon": 2.0},
    "collection-design": {**PEOPLE, "local_epsilon": 1.0},
    "collection-picture": {**PEOPLE, "largest": 5.6},
    "collection-limit": {**PEOPLE, "target_epsilon": 0.5},
    "curves": {"runs": ["gaussian noise_multiplier=2"], "kind": "profile", "delta": 1e-5},
    "curves-bounds": {"run": "gaussian noise_multiplier=2", "delta": 1e-5},
    "curves-drawn": {"run": SHUFFLE, "kind": "profile", "bounds": ["upper unshuffled_upper"]},
    "officer-reports": {"reports": [REPORT], "delta": 1e-5},
    "officer-risk": {"plan": PLAN.to_dict(), "prior": 0.5},
    "officer-ledger": {"reports": [REPORT], "delta": 1e-5, "budget": 3.0},
    "document": {"plan": PLAN.to_dict(), "format": "bibtex"},
}


def test_every_question_is_tried_with_bad_fields() -> None:
    assert set(GOOD) == set(QUESTIONS)


@pytest.mark.parametrize(("question", "field"), [(q, f) for q in GOOD for f in GOOD[q]])
def test_a_bad_field_gets_a_sentence(question: str, field: str) -> None:
    fine = 0
    for value in BAD:
        try:
            next(iter(answering(question)({**GOOD[question], field: value})))
        except SharpDPError as fault:
            said = str(fault)
            assert said.endswith((".", "?", ")")), (value, said)
            assert "\n" not in said, (value, said)
            assert len(said) < 600, (value, said)
        else:
            fine += 1
    # None or an empty text may stand for a default, and how far a picture goes is no claim
    assert fine <= (6 if field == "largest" else 4)
