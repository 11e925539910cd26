"""Plans on the command line: what a file says is run, options change it, and typos are named by place."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.cli import main
from sharpdp.plans import Plan

TRAINING = """\
delta = [1e-5, 1e-6]
[mechanism]
kind = "DPSGD"
noise_multiplier = 1.0
[mechanism.batches]
kind = "PoissonBatches"
dataset_size = 1000
batch_size = 100
epochs = 3
"""
REPORTS = '{"mechanism": {"kind": "ShuffledReports", "users": 100, "local_epsilon": 1.0}}'
NOISE = 'delta = [1e-5, 1e-6]\nmechanism = { kind = "Gaussian", noise_multiplier = 1.0 }\n'
CURVE = (
    'delta = 1e-6\nmechanism = { kind = "RenyiCurve", orders = [2, 8], values = [0.01, 0.05] }\n'
)
KNOWN = """\
[mechanism]
kind = "ShuffledReports"
users = 100
randomizer = { kind = "RandomizedResponse", local_epsilon = 1.0, categories = 4 }
"""
MIXTURE = """\
[mechanism]
kind = "Mixture"
weights = [0.75, 0.25]
components = [
  { kind = "FinitePair", p = [0.75, 0.25], q = [0.25, 0.75] },
  { kind = "FinitePair", p = [0.25, 0.75], q = [0.75, 0.25] },
]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {
        "run.toml": TRAINING,
        "reports.json": REPORTS,
        "known.toml": KNOWN,
        "curve.toml": CURVE,
        "noise.toml": NOISE,
        "mixture.toml": MIXTURE,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def data_of(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*shlex.split(line), "--json"]) == 0, capsys.readouterr().err
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    assert isinstance(found, dict)
    return found


def refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(shlex.split(line)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err.strip()


# A plan, and the options that say the same.
SAME = [
    ("account run.toml", "dpsgd RUN --delta 1e-5 1e-6"),
    ("account --plan run.toml --delta 1e-4", "dpsgd RUN --delta 1e-4"),
    ("dpsgd --plan run.toml --epsilon 1", "dpsgd RUN --epsilon 1"),
    ("dpsgd --plan run.toml --noise-multiplier 2", "dpsgd RUN2 --delta 1e-5 1e-6"),
    (
        "account run.toml --steps 4 --delta 1e-5",
        "dpsgd --noise-multiplier 1 --dataset-size 1000 --batch-size 100 --steps 4 --delta 1e-5",
    ),
    (
        "account run.toml --sample-rate 0.2 --steps 4 --delta 1e-5",
        "dpsgd --noise-multiplier 1 --dataset-size 1000 --sample-rate 0.2 --steps 4 --delta 1e-5",
    ),
    (
        "account run.toml --batches deterministic --adjacency replace-one --delta 1e-5",
        "dpsgd RUN --batches deterministic --adjacency replace-one --delta 1e-5",
    ),
    ("shuffle --plan reports.json --rounds 3 --delta 1e-5",
     "shuffle --users 100 --local-epsilon 1 --rounds 3 --delta 1e-5"),
    ("shuffle --plan reports.json --population 500 --delta 1e-5",
     "shuffle --users 100 --local-epsilon 1 --population 500 --delta 1e-5"),
    ("account dpsgd --plan run.toml", "dpsgd RUN --delta 1e-5 1e-6"),
    ("account --plan reports.json --epsilon 0.1",
     "shuffle --users 100 --local-epsilon 1 --epsilon 0.1"),
    ("account reports.json 'pure-dp epsilon=0.5' --delta 1e-5",
     "account 'shuffle users=100 local_epsilon=1' 'pure-dp epsilon=0.5' --delta 1e-5"),
    ("compare run.toml", "compare dpsgd RUN --delta 1e-5"),
    ("compare --plan reports.json --delta 1e-6",
     "compare shuffle --users 100 --local-epsilon 1 --delta 1e-6"),
    ("compare shuffle --plan reports.json --users 50 --order 3",
     "compare shuffle --users 50 --local-epsilon 1 --order 3"),
    ("tradeoff run.toml --fpr 0.1", "tradeoff RUN --fpr 0.1"),
    ("tradeoff --plan reports.json --fpr 0.1",
     "tradeoff --users 100 --local-epsilon 1 --fpr 0.1"),
    ("compare samplers --plan run.toml", "compare samplers RUN --delta 1e-5"),
    ("calibrate steps --plan run.toml --epsilon 2",
     "calibrate steps --noise-multiplier 1 --dataset-size 1000 --batch-size 100 --epsilon 2 "
     "--delta 1e-5"),
    ("calibrate users --plan reports.json --epsilon 0.5 --delta 1e-5",
     "calibrate users --local-epsilon 1 --epsilon 0.5 --delta 1e-5"),
    ("compare conversions --plan curve.toml",
     "compare conversions --orders 2 8 --values 0.01 0.05 --delta 1e-6"),
    ("compare mixture --plan mixture.toml",
     "compare mixture 'finite-pair p=0.75,0.25 q=0.25,0.75' 'finite-pair p=0.25,0.75 q=0.75,0.25' "
     "--weights 0.75 0.25"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        pytest.param(
            planned, said, id=planned, marks=[pytest.mark.slow] if "samplers" in planned else []
        )
        for planned, said in SAME
    ],
)
def test_a_plan_says_what_options_say(
    planned: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "--dataset-size 1000 --batch-size 100 --epochs 3"
    said = said.replace("RUN2", f"--noise-multiplier 2 {run}")
    said = said.replace("RUN", f"--noise-multiplier 1 {run}")
    planned_data, said_data = data_of(planned, capsys), data_of(said, capsys)
    for name in (
        "command",
        "plan",
    ):  # what was not asked may stand in the one plan and not the other
        del planned_data[name], said_data[name]
    assert planned_data == said_data


def test_the_plan_is_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    from sharpdp.plans import Plan

    plan = Plan.read("run.toml")
    assert data_of("account run.toml", capsys)["plan"] == plan.to_dict()
    changed = Plan(plan.mechanism, delta=(1e-3,))
    assert data_of("account run.toml --delta 1e-3", capsys)["plan"] == changed.to_dict()


def test_a_report_is_written_and_printed(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    for ending, start in (
        (".txt", "Privacy"),
        (".md", "## "),
        (".html", "<!doctype"),
        (".json", "{"),
    ):
        name = f"report{ending}"
        assert main(["report", "noise.toml", "-o", name]) == 0
        assert capsys.readouterr().out == f"written: {name}\n"
        assert (folder / name).read_text("utf-8").startswith(start)
    assert main(["report", "noise.toml"]) == 0
    assert capsys.readouterr().out.strip() == (folder / "report.txt").read_text("utf-8").strip()
    recorded = json.loads((folder / "report.json").read_text("utf-8"))
    assert main(["report", "noise.toml", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == recorded
    data = data_of("report noise.toml", capsys)
    assert data["plan"] == recorded["plan"]
    assert data["hash"] == recorded["hash"]
    answers = data["answers"]
    assert isinstance(answers, list)
    first = recorded["epsilon"][0]
    assert {name: answers[0][name] for name in first} == first
    # a report holds its plan
    assert data_of("account report.json", capsys)["plan"] == recorded["plan"]


def test_a_report_takes_options_of_a_run(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    line = "report --noise-multiplier 1 --sample-rate 1 --steps 3 --delta 1e-5 --format markdown"
    assert main(line.split()) == 0
    text = capsys.readouterr().out
    batches = dp.PoissonBatches(sample_rate=1, steps=3)
    answer = dp.account(dp.DPSGD(batches, noise_multiplier=1.0))
    assert text.strip() == answer.report("markdown", delta=[1e-5]).strip()
    assert main([*line.replace("report", "report dpsgd").split()]) == 0
    assert capsys.readouterr().out == text


CLASHES = [
    ("shuffle --plan run.toml", "sharpdp shuffle takes a plan that runs ShuffledReports; run.toml "
     "runs DPSGD. Try sharpdp account run.toml."),
    ("dpsgd --plan reports.json", "sharpdp dpsgd takes a plan that runs DPSGD; reports.json runs "
     "ShuffledReports. Try sharpdp account reports.json."),
    ("compare samplers --plan reports.json",
     "sharpdp: compare samplers takes a plan that runs DPSGD; reports.json runs ShuffledReports."),
    ("compare conversions --plan run.toml",
     "sharpdp: compare conversions takes a plan that runs a RenyiCurve; run.toml runs DPSGD."),
    ("compare conversions --plan curve.toml --orders 2", "sharpdp: give --orders or a plan; got both."),
    ("compare mixture --plan run.toml",
     "sharpdp: compare mixture takes a plan that runs a Mixture; run.toml runs DPSGD."),
    ("compare mixture --plan mixture.toml --weights 1",
     "sharpdp: give components and --weights, or a plan; got both."),
    ("account run.toml --users 3", "sharpdp: --users does not go with the DPSGD of run.toml."),
    ("account run.toml --participations 3",
     "sharpdp: --participations does not go with the PoissonBatches of run.toml."),
    ("account reports.json --epochs 3",
     "sharpdp: --epochs does not go with the ShuffledReports of reports.json."),
    ("calibrate epochs --plan reports.json --epsilon 1 --delta 1e-5",
     "sharpdp: --epochs does not go with the ShuffledReports of reports.json."),
    ("account run.toml --delta 1e-5 --epsilon 1",
     "sharpdp: give --delta to ask for epsilon, or --epsilon to ask for delta; got both."),
    ("account run.toml --noise-multiplier -1 --delta 1e-5",
     "sharpdp: in run.toml, line 4, with --noise-multiplier, with --delta: mechanism: "
     "noise_multiplier must be at least 0; got -1. 0 is no noise at all."),
    ("report run.toml --format text -o report.md",
     "sharpdp: give --output, whose ending says the format, or --format; got both."),
    ("compare samplers --plan run.toml --delta 2", "sharpdp: --delta must be in (0, 1); got 2."),
    ("report run.toml -o report.pdf", "sharpdp: --output must end in .txt, .md, .html, .json; got "
     "'report.pdf'. The ending says how the report is written."),
    ("report run.toml -o no/report.md", "sharpdp: --output must be a file that can be written; got "
     "'no/report.md': No such file or directory."),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), CLASHES, ids=[line for line, _ in CLASHES])
def test_clashes_get_a_sentence(
    line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(line, capsys) == sentence


# (what stands in the plan, what stands there by mistake, what the sentence says)
TYPOS = [
    ("DPSGD", "DPSDG", "in run.toml, line 3: mechanism.kind must be known; got 'DPSDG'. "
     "Did you mean DPSGD?"),
    ("epochs = 3", "epochz = 3", "in run.toml, line 9: mechanism.batches: PoissonBatches has no field "
     "'epochz'. Did you mean epochs?"),
    ("delta =", "dleta =", "in run.toml, line 1: a plan has no field 'dleta'. Did you mean delta?"),
    ("batch_size = 100", "batch_size = 1001", "in run.toml, line 8: mechanism.batches: batch_size must "
     "be at most dataset_size = 1000; got 1001. Did you swap the two?"),
    ("noise_multiplier = 1.0", "noise_multiplier = nan", "in run.toml, line 4: mechanism: "
     "noise_multiplier must be at least 0; got nan. It is not a number: look for 0/0 or inf - inf "
     "before this call."),
    ("noise_multiplier = 1.0", "noise_multiplier = -inf", "in run.toml, line 4: mechanism: "
     "noise_multiplier must be at least 0; got -inf. 0 is no noise at all."),
    ("[1e-5, 1e-6]", "[1e-5, 2]", "in run.toml: delta[1] must be in [0, 1); got 2."),
    ("epochs = 3", "epochs = ", "run.toml must be TOML; Invalid value (at line 9, column 10)."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"), TYPOS, ids=[wrong for _, wrong, _ in TYPOS]
)
def test_typos_are_named_with_their_place(
    right: str, wrong: str, sentence: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert TRAINING.count(right) == 1
    (folder / "run.toml").write_text(TRAINING.replace(right, wrong), "utf-8")
    assert refused("account run.toml", capsys) == f"sharpdp: {sentence}"


UNREADABLE: dict[str, bytes] = {
    "empty.toml": b"",
    "empty.json": b"",
    "list.json": b"[]",
    "binary.toml": bytes(range(256)),
    "zeros.toml": bytes(100),
    "deep.toml": b"a = " + b"[" * 100_000,
    "deep.json": b'{"mechanism": ' + b"[" * 900 + b"]" * 900 + b"}",
    "deeper.json": b'{"mechanism": ' + b"[" * 100_000,
    "long.toml": b"delta = " + b"9" * 5000,
    "long.json": b'{"delta": ' + b"9" * 5000 + b"}",
    "huge.json": b" " * (10**7 + 1),
    "date.toml": b"delta = 2020-02-30",
    "twice.json": b'{"mechanism": 1, "mechanism": 2}',
}


@pytest.mark.parametrize("name", [*UNREADABLE, ".", "missing.toml", "", "x" * 5000, "/dev/null"])
def test_unreadable_plans_get_a_sentence(
    name: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    if name in UNREADABLE:
        (folder / name).write_bytes(UNREADABLE[name])
    sentence = refused(shlex.join(["account", "--plan", name]), capsys)
    assert sentence.startswith("sharpdp: ")
    assert "Error" not in sentence
    assert len(sentence) < 300


def test_a_plan_that_is_no_mechanism_at_all(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "run.toml").write_text("mechanism = 3\n", "utf-8")
    for line in (
        "account run.toml",
        "account run.toml --epochs 3 --delta 1e-5",
        "compare run.toml",
    ):
        assert "mechanism must be a mechanism; got 3" in refused(line, capsys)
    (folder / "run.toml").write_text("delta = 1e-5\n", "utf-8")
    for line in ("account run.toml", "dpsgd --plan run.toml --epochs 3"):
        assert "a plan must have a mechanism" in refused(line, capsys)


def test_reports_of_plans_are_those_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    assert main(["report", "noise.toml"]) == 0
    assert capsys.readouterr().out.strip() == answer.report(delta=[1e-5, 1e-6]).strip()


@pytest.mark.parametrize(
    ("line", "randomizer"),
    [
        ("shuffle --plan known.toml", dp.RandomizedResponse(local_epsilon=1, categories=4)),
        (
            "shuffle --plan known.toml --categories 3",
            dp.RandomizedResponse(local_epsilon=1, categories=3),
        ),
        (
            "shuffle --plan known.toml --local-epsilon 2",
            dp.RandomizedResponse(local_epsilon=2, categories=4),
        ),
        ("shuffle --plan known.toml --randomizer laplace", dp.LocalLaplace(1)),
        ("shuffle --plan known.toml --randomizer shared", "shared"),
        ("shuffle --plan reports.json --randomizer laplace", dp.LocalLaplace(1)),
        ("account 'shuffle users=9 local_epsilon=1 randomizer=laplace'", dp.LocalLaplace(1)),
    ],
)
def test_options_name_and_change_the_randomizer(
    line: str, randomizer: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """A randomizer that options can name is made from them, in place of that of the plan."""
    found = data_of(f"{line} --delta 1e-3", capsys)
    assert Plan.from_dict(found["plan"]).mechanism.randomizer == randomizer  # type: ignore[attr-defined, arg-type]
