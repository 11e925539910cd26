"""The command line says what the API says, and meets a wrong line with one sentence."""

from __future__ import annotations

import importlib
import io
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.bounds import all_bounds
from sharpdp.cli import main
from sharpdp.cli.commands import COMMANDS, REMOVED
from sharpdp.cli.parser import UsageError
from sharpdp.cli.runs import SCHEMES, mechanism, training
from sharpdp.plots import bounds as contest

RUN = "dpsgd --noise-multiplier 1 --sample-rate 0.01 --steps 1000"
SHUFFLE = "shuffle --users 10000 --local-epsilon 1"
GAUSSIAN = 'account "gaussian noise_multiplier=1" --delta 1e-5'
FORMS = (
    "Give --sample-rate and --steps (and --dataset-size to draw batches), "
    "or --dataset-size, --batch-size and --epochs (or --steps)."
)
WRITE = 'Write, with the quotes, "gaussian noise_multiplier=2 x 10".'
LAST = "x must come last, before one count"
TARGETS = "Give a target: --epsilon and --delta, or --advantage, or --tpr and --fpr, or --mu."


def needs_matplotlib(line: str) -> None:
    if line.endswith(".svg"):
        pytest.importorskip("matplotlib")


def answered(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    words = shlex.split(line)
    needs_matplotlib(line)
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def data_of(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    loaded = json.loads(answered(f"{line} --json", capsys), parse_constant=pytest.fail)
    assert isinstance(loaded, dict)
    return loaded


def only_answer(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    data = data_of(line, capsys)
    answers = data["answers"]
    assert isinstance(answers, list)
    assert isinstance(answers[0], dict)
    return {**data, **answers[0]}


# The reference cases of the issue: (command line, independent value, a unit of its last digit,
# which may have been rounded or cut off).
REFERENCES = [
    (f"{RUN} --delta 1e-5", 1.8282367, 1e-7),
    (f"{RUN} --delta 1e-12", 3.914298, 1e-6),
    (f"{RUN} --delta 1e-20", 6.361700, 1e-6),
    (
        "dpsgd --noise-multiplier 0.8 --sample-rate 1e-3 --steps 1e4 --delta 1e-6",
        0.947195,
        1e-6,
    ),
    (
        "dpsgd --noise-multiplier 0.8 --sample-rate 1e-3 --steps 10000 --epsilon 1",
        5.3196e-7,
        1e-11,
    ),
    ('account "gaussian noise_multiplier=20 x 1000" --delta 1e-5', 7.5112759007, 1e-10),
    ('account "gaussian noise_multiplier=20 x 400" "gaussian noise_multiplier=20 x 600" --delta 1e-5',
     7.5112759007, 1e-10),
    (f"tradeoff {RUN.removeprefix('dpsgd ')} --fpr {10 / 999!r}", 0.970836, 1e-6),
    (f"tradeoff {RUN.removeprefix('dpsgd ')} --fpr {500 / 999!r}", 0.340958, 1e-6),
    # an epoch of all examples at once, and one of a hundred batches, are one Gaussian each
    (
        "dpsgd --noise-multiplier 1 --dataset-size 100 --batch-size 1 --epochs 1 --epsilon 0 "
        "--batches deterministic",
        math.erf(0.5 / math.sqrt(2)),
        1e-12,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "exact", "unit"), REFERENCES)
def test_answers_enclose_the_references(
    line: str, exact: float, unit: float, capsys: pytest.CaptureFixture[str]
) -> None:
    said = only_answer(line, capsys)
    lower, upper = said["lower"], said["upper"]
    assert isinstance(lower, float)
    assert isinstance(upper, float)
    assert lower <= exact + unit
    assert exact - unit <= upper
    assert upper - lower <= 1e-3 * upper


# What the specification has for the exact pair (upper) and for ternary randomized response (lower).
@pytest.mark.parametrize(
    ("line", "lower", "upper"),
    [
        (f"{SHUFFLE} --delta 1e-6", 0.0379981, 0.0432061581),
        (f"{SHUFFLE} --epsilon 0.04", None, 2.624107126e-6),
        (f"{SHUFFLE} --randomizer individual --delta 1e-6", 0.0379981, 0.0530053),
        (f"{SHUFFLE} --rounds 10 --delta 1e-6", None, 0.14847),
        ('account "shuffle users=10000 local_epsilon=4.444" --delta 3e-6', 0.49365, 0.49706913),
    ],
)
def test_shuffled_reports_are_between_the_references(
    line: str, lower: float | None, upper: float, capsys: pytest.CaptureFixture[str]
) -> None:
    said = only_answer(line, capsys)
    assert said["adjacency"] == "replace-one"
    assert said["upper"] == pytest.approx(upper, rel=1e-3 if "rounds" in line else 2e-6)
    if lower is not None:
        assert said["lower"] == pytest.approx(lower, rel=1e-5)


@pytest.mark.parametrize(
    ("line", "smallest", "largest"),
    [
        (
            "calibrate noise-multiplier --sample-rate 0.01 --steps 1000 --epsilon 1 --delta 1e-6",
            1.562666 - 5e-7,
            1.562667 * (1 + 1e-4),
        ),
        # 1000 steps have an advantage of 0.161018, so a little more allows 1000 or a few more
        (
            "calibrate steps --noise-multiplier 1 --sample-rate 0.01 --advantage 0.16102",
            1000,
            1000,
        ),
        (
            "calibrate sample-rate --noise-multiplier 1 --steps 1000 --epsilon 1.82824 --delta 1e-5",
            0.01 * (1 - 1e-4),
            0.01 * (1 + 1e-5),
        ),
        # epsilon at delta = 1e-6 is 0.0432061581 for 10000 users with local epsilon 1
        (
            "calibrate local-epsilon --users 10000 --epsilon 0.0432061581 --delta 1e-6",
            1 - 1e-4,
            1 + 1e-8,
        ),
        ("calibrate users --local-epsilon 1 --epsilon 0.0432061582 --delta 1e-6", 10_000, 10_000),
        # one user has nobody to hide behind: five times 0.1, and less only with delta
        (
            "calibrate rounds --users 1 --local-epsilon 0.1 --epsilon 0.55 --delta 1e-12",
            5,
            5,
        ),
    ],
)
def test_calibration_is_on_the_safe_side(
    line: str, smallest: float, largest: float, capsys: pytest.CaptureFixture[str]
) -> None:
    said = only_answer(line, capsys)
    value, upper = said["value"], said["upper"]
    assert isinstance(value, int | float)
    assert smallest <= value <= largest
    first = answered(line, capsys).splitlines()[0]
    assert first.startswith(f"{said['unknown']} = {value!r} ")
    target = said["target"]
    assert isinstance(target, dict)
    limit = target["advantage" if "advantage" in line else "epsilon"]
    assert isinstance(upper, float)
    assert isinstance(limit, int | float)
    assert upper <= limit


def test_the_first_line_is_the_bracket_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    plan = dp.PoissonBatches(sample_rate=0.01, steps=1000)
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=1.0))
    lines = answered(f"{RUN} --batches poisson --delta 1e-5 1e-6", capsys).splitlines()
    assert lines[0] == str(answer.epsilon(delta=1e-5))
    assert lines[1] == str(answer.epsilon(delta=1e-6))
    short = " ".join(" ".join(lines).split())
    detailed = " ".join(answered(f"{RUN} --delta 1e-5 --details", capsys).split())
    for one in answer.bounds:
        assert one.source in short
        assert all(part in short for part in one.holds_when.split("; "))
        assert one.source in detailed
        assert all(f"{title}: {words}" in detailed for title, words in one.conditions)


def test_what_several_theorems_need_is_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = "--dataset-size 1000 --batch-size 100 --epochs 2 --noise-multiplier 1"
    lines = answered(f"dpsgd --batches shuffled {sizes} --epsilon 1", capsys).splitlines()
    start = lines.index("  you must ensure:")
    items = [line for line in lines if line.startswith("    - ")]
    assert lines[start + 1 : start + 1 + len(items)] == items
    assert "    - a new order is drawn for every epoch and stays secret" in items
    assert len(set(items)) == len(items) > 3


@pytest.mark.parametrize("line", [f"{RUN} --delta 1e-5", f"{RUN} --epsilon 1"])
def test_json_says_all_there_is(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = only_answer(line, capsys)
    assert {"command", "plan", "answers", "version"} <= said.keys()
    assert {"quantity", "lower", "upper", "rigor", "confidence", "adjacency"} <= said.keys()
    assert {"mechanism", "holds_when", "sources", "bounds"} <= said.keys()
    assert said["command"] == "dpsgd"
    assert said["version"] == dp.__version__
    assert said["adjacency"] == "add/remove"
    assert said["rigor"] == "certified"


def test_several_questions_give_several_answers(capsys: pytest.CaptureFixture[str]) -> None:
    answers = data_of(f"{RUN} --delta 1e-5 1e-6", capsys)["answers"]
    assert isinstance(answers, list)
    assert [answer["delta"] for answer in answers] == [1e-5, 1e-6]
    assert answers[0]["upper"] < answers[1]["lower"]


# Every command that describes a run: its JSON has one shape, and its plan asks the same again.
SHAPES = [
    f"{RUN} --delta 1e-5",
    "shuffle --users 20 --local-epsilon 1 --population 50 --epsilon 0.1",
    "account 'gaussian noise_multiplier=2 x 3' 'laplace scale=4' --delta 1e-5",
    "tradeoff 'randomized-response local_epsilon=1' --fpr 0.1",
    "calibrate noise-multiplier --sample-rate 0.5 --steps 4 --epsilon 1 --delta 1e-5",
    "compare 'gaussian noise_multiplier=2' --delta 1e-5",
    "compare samplers --noise-multiplier 1 --dataset-size 100 --batch-size 100 --epochs 1 --delta 1e-3",
    "compare mixture 'finite-pair p=0.75,0.25 q=0.25,0.75' 'finite-pair p=0.5,0.5 q=0.5,0.5' "
    "--weights 0.5 0.5",
    "compare conversions --orders 2 8 --values 0.1 0.4 --delta 1e-5",
    "report 'gaussian noise_multiplier=1' --delta 1e-5",
]


@pytest.mark.parametrize("line", SHAPES)
def test_json_has_one_shape_and_its_plan_can_be_read(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = answered(f"{line} --json", capsys)
    data = json.loads(text, parse_constant=pytest.fail)
    assert list(data)[:3] == ["command", "plan", "answers"]
    assert data["command"] == line.split()[0]
    for answer in data["answers"]:
        assert {"quantity", "lower", "upper", "rigor", "confidence"} <= answer.keys()
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    again = data_of("account -", capsys)
    assert again["plan"] == data["plan"]
    (tmp_path / "answer.json").write_text(text, "utf-8")
    assert data_of(f"account {tmp_path / 'answer.json'}", capsys) == again
    if data["command"] in ("dpsgd", "account") and "delta" in data["answers"][0]:
        assert again["answers"] == data["answers"]


@pytest.mark.parametrize("line", ["bounds", "schema plan", "verify nothing.json"])
def test_documents_have_the_same_shape(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*line.split(), "--json"])
    data = json.loads(capsys.readouterr().out)
    assert list(data)[:3] == ["command", "plan", "answers"]
    assert data["plan"] is None
    assert isinstance(data["answers"], list)


def test_an_infinite_epsilon_is_valid_json(capsys: pytest.CaptureFixture[str]) -> None:
    said = only_answer('account "approximate-dp epsilon=1 delta=0.01" --delta 1e-3', capsys)
    assert said["lower"] == said["upper"] == "inf"


def test_options_reach_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    base = "dpsgd --noise-multiplier 1 --dataset-size 100 --batch-size 10 --epochs 2"
    line = f"{base} --batches deterministic --epsilon 1"
    once = only_answer(f"{line} --adjacency zero-out", capsys)
    twice = only_answer(f"{line} --adjacency replace-one", capsys)
    assert twice["adjacency"] == "replace-one"
    assert twice["lower"] > once["upper"]  # type: ignore[operator]
    fine = only_answer('account "laplace scale=1 x 20" --delta 1e-5 --relative-width 1e-6', capsys)
    assert fine["upper"] - fine["lower"] <= 1e-6 * fine["upper"]  # type: ignore[operator]


def test_bounds_lists_every_theorem(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(answered("bounds --details", capsys).split())
    table = " ".join(answered("bounds", capsys).split())
    listed = data_of("bounds", capsys)["answers"]
    assert isinstance(listed, list)
    assert [entry["name"] for entry in listed] == [one.name for one in all_bounds()]
    for one in all_bounds():
        assert f"{one.name} {one.subject}" in table
        assert f"{one.name}: {one.subject}" in text
        assert all(f"{title}: {words}" in text for title, words in one.conditions)
        assert one.source in text


def test_compare_says_what_the_api_says(capsys: pytest.CaptureFixture[str]) -> None:
    run = dp.ShuffledReports(users=300, local_epsilon=1)
    line = "compare shuffle --users 300 --local-epsilon 1"
    for question, found in (
        ("--delta 1e-6", dp.compare(run, delta=1e-6)),
        ("--order 8", dp.compare(run, order=8)),
    ):
        text = " ".join(answered(f"{line} {question} --details", capsys).split())
        assert all(f"{row.shown} {row.kind} {row.name}" in text for row in found.rows)
        assert all(row.condition in text for row in found.rows)
        answers = data_of(f"{line} {question}", capsys)["answers"]
        assert isinstance(answers, list)
        for entry, row in zip(answers, found.rows, strict=True):
            assert entry["name"] == row.name
            side = str(row.side) if row.rigor.proved else "estimate"
            assert entry[side] == row.value
            others = {"lower", "upper", "estimate"} - {side}
            assert all(entry[other] is None for other in others)


def test_compare_takes_any_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        f"compare {RUN} --delta 1e-5": "poisson_batches_tight",
        'compare "laplace scale=1 x 3" --delta 1e-5': "laplace_tight",
        'compare "shuffle users=100 local_epsilon=1" --delta 1e-5': "mixture_tradeoff_upper",
    }
    for line, name in lines.items():
        listed = data_of(line, capsys)["answers"]
        assert isinstance(listed, list)
        assert name in [entry["name"] for entry in listed]


def test_compare_draws(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "POINTS", 3)
    picture = tmp_path / "bounds.svg"
    line = f"compare shuffle --users 300 --local-epsilon 1 --delta 1e-6 --over users -o {picture}"
    monkeypatch.setitem(contest.RANGES, "users", (100, 1000))
    assert answered(line, capsys).splitlines()[-1] == f"drawn: {picture}"
    assert picture.read_text("utf-8").lstrip().startswith("<?xml")


NAMES = ", ".join(COMMANDS)

PLAN = """
delta = 1e-5
[mechanism]
kind = "DPSGD"
noise_multiplier = 0.8
[mechanism.batches]
kind = "PoissonBatches"
dataset_size = 600
batch_size = 6
epochs = 3
"""

REPORTS = """
delta = 1e-5
mechanism = { kind = "ShuffledReports", users = 100, local_epsilon = 1.0 }
"""

WRONG_LINES = [
    ("--json dpsgd", "sharpdp: --json comes after a command. See sharpdp --help."),
    ("samplers --delta 1e-5", "sharpdp samplers is now sharpdp compare samplers."),
    ("help compose", "sharpdp compose is now sharpdp account."),
    ("shuffle --days 30", "sharpdp shuffle: there is no option --days. Did you mean --rounds?"),
    ("design --dishonest 1", "sharpdp design: there is no option --dishonest. Did you mean --drop-outs?"),
    (
        "shuffle --users 200,000 --local-epsilon 1 --delta 1e-6",
        "sharpdp shuffle: --users must be a number; got '200,000'. Write 200000.",
    ),
    (
        "shuffle --users 200k --local-epsilon 1 --delta 1e-6",
        "sharpdp shuffle: --users must be a number; got '200k'. Write 200000.",
    ),
    (
        "shuffle --users 9 --local-epsilon 1 --randomizer laplac --delta 1e-6",
        "sharpdp: --randomizer must be shared, individual, randomized-response or laplace; "
        "got 'laplac'. Did you mean laplace?",
    ),
    (
        "shuffle --users 9 --local-epsilon 1 --categories 3 --delta 1e-6",
        "sharpdp: --categories must be left out unless the randomizer is randomized-response; got 3.",
    ),
    ("--hlep", "sharpdp: there is no option --hlep. Did you mean --help?"),
    ("dpsdg --delta 1e-5", "sharpdp: there is no command 'dpsdg'. Did you mean dpsgd?"),
    (
        "quux",
        "sharpdp: there is no command 'quux'. "
        f"There are: {NAMES}.",
    ),
    (
        "dpsgd --noise-multipler 1 --sample-rate 0.01 --steps 10 --delta 1e-5",
        "sharpdp dpsgd: there is no option --noise-multipler. Did you mean --noise-multiplier?",
    ),
    ("dpsgd --sigma 1", "sharpdp dpsgd: there is no option --sigma. Did you mean --noise-multiplier?"),
    ("dpsgd --q=0.1", "sharpdp dpsgd: there is no option --q. Did you mean --sample-rate?"),
    ("dpsgd --rounds 9", "sharpdp dpsgd: there is no option --rounds. Did you mean --steps?"),
    ("shuffle --steps 9", "sharpdp shuffle: there is no option --steps. Did you mean --rounds?"),
    ("shuffle --n 9", "sharpdp shuffle: there is no option --n. Did you mean --users?"),
    ("shuffle --eps0 1", "sharpdp shuffle: there is no option --eps0. Did you mean --local-epsilon?"),
    ("shuffel --users 9", "sharpdp: there is no command 'shuffel'. Did you mean shuffle?"),
    ("shuffle --users 9 --delta 1e-6", "sharpdp: --local-epsilon must be given; got none."),
    ("shuffle --local-epsilon 1 --delta 1e-6", "sharpdp: --users must be given; got none."),
    (
        f"{SHUFFLE} --users 0 --delta 1e-6",
        "sharpdp: --users must be a whole number, at least 1; got 0. "
        "It counts the reports that are mixed.",
    ),
    (
        f"{SHUFFLE} --randomizer common --delta 1e-6",
        "sharpdp: --randomizer must be shared, individual, randomized-response or laplace; "
        "got 'common'.",
    ),
    (SHUFFLE, "sharpdp: give --delta to ask for epsilon, or --epsilon to ask for delta; got neither."),
    (
        "compare --delta 1e-6",
        "sharpdp: compare what? Write samplers, mixture or conversions, or a run: dpsgd or shuffle with "
        "options, a mechanism in quotes, or a plan file.",
    ),
    (
        f"compare {SHUFFLE}",
        "sharpdp: give --delta to compare epsilon, or --order to compare Renyi divergences; "
        "got neither.",
    ),
    (
        f"compare {SHUFFLE} --delta 1e-6 --order 2",
        "sharpdp: give --delta to compare epsilon, or --order to compare Renyi divergences; got both.",
    ),
    (
        f"compare {SHUFFLE} --order 1",
        "sharpdp: --order must be greater than 1; got 1.0.",
    ),
    (
        f"compare {SHUFFLE} --steps 3 --delta 1e-6",
        "sharpdp: --steps does not go with 'shuffle'; leave it out.",
    ),
    (
        'compare "gaussian noise_multiplier=1" --rounds 3 --delta 1e-6',
        "sharpdp: --rounds does not go with 'gaussian noise_multiplier=1'; leave it out.",
    ),
    (
        "compare shufle --users 9 --delta 1e-6",
        "sharpdp: there is no mechanism 'shufle'. Did you mean shuffle?",
    ),
    (f"compare {SHUFFLE} --order 2 -o a.svg", "sharpdp: a picture shows epsilon; give --delta."),
    (
        f"compare {SHUFFLE} --delta 1e-6 --over users",
        "sharpdp: --over says what a picture varies; give --output as well.",
    ),
    (
        f"compare {SHUFFLE} --delta 1e-6 --over epochs -o a.svg",
        "sharpdp: --over must be local-epsilon, users, rounds, population; got 'epochs'.",
    ),
    ("dpsgd --eps 1", "sharpdp dpsgd: there is no option --eps. Did you mean --epsilon?"),
    ("dpsgd --frob 1", "sharpdp dpsgd: there is no option --frob. See sharpdp dpsgd --help."),
    ("bounds --jsn", "sharpdp bounds: there is no option --jsn. Did you mean --json?"),
    ("dpsgd 7 --delta 1e-5", "sharpdp dpsgd: unrecognized arguments: 7."),
    (f"{RUN} --delta", "sharpdp dpsgd: --delta: expected at least one argument."),
    (f"{RUN} --delta tiny", "sharpdp dpsgd: --delta must be a number; got 'tiny'."),
    (f"{RUN} --delta 2", "sharpdp: --delta must be in [0, 1); got 2."),
    (f"{RUN} --delta nan", "sharpdp: --delta must be in [0, 1); got nan. "
     "It is not a number: look for 0/0 or inf - inf before this call."),
    (f"{RUN} --epsilon -1e-3", "sharpdp: --epsilon must be a finite number, at least 0; got -0.001."),
    (RUN, "sharpdp: give --delta to ask for epsilon, or --epsilon to ask for delta; got neither."),
    (
        f"{RUN} --delta 1e-5 --epsilon 1",
        "sharpdp: give --delta to ask for epsilon, or --epsilon to ask for delta; got both.",
    ),
    (
        f"{RUN} --delta 1e-5 --relative-width 2",
        "sharpdp: --relative-width must be between 1e-09 and 0.5; got 2.0.",
    ),
    (
        "dpsgd --noise-multiplier 1 --batches fixed --dataset-size 10 --batch-size 2 --steps 3 "
        "--delta 1e-5 --adjacency add/remove",
        "sharpdp: adjacency add/remove has no theorem for DP-SGD (noise multiplier 1, fixed-size "
        "batches: 3 steps with 2 of 10 examples each, drawn without replacement). "
        "What exists: zero-out and replace-one.",
    ),
    (
        f"{RUN} --delta 1e-5 --adjacency next",
        "sharpdp: --adjacency must be one of 'add/remove', 'zero-out', 'replace-one', "
        "'neighboring inputs'; got 'next'.",
    ),
    (
        f"{RUN} --delta 1e-5 --batches posson",
        f"sharpdp: --batches must be {', '.join(list(SCHEMES)[:-1])} or truncated; got 'posson'. "
        "Did you mean poisson?",
    ),
    (
        f"{RUN} --delta 1e-5 --batches deterministic",
        "sharpdp: deterministic batches take --dataset-size, --batch-size, --epochs; "
        "got --sample-rate, --steps.",
    ),
    (f"{RUN} --delta 1e-5 -o a.gif", "sharpdp: --output must end in .svg, .png, .pdf; got 'a.gif'."),
    (
        f"{RUN} --delta 1e-5 -o no/such/folder/a.svg",
        "sharpdp: --output must be a file that can be written; got 'no/such/folder/a.svg': "
        "No such file or directory.",
    ),
    (
        "dpsgd --sample-rate 0.01 --steps 10 --delta 1e-5",
        "sharpdp: --noise-multiplier must be given; got none.",
    ),
    (
        "dpsgd --noise-multiplier -1 --sample-rate 0.01 --steps 10 --delta 1e-5",
        "sharpdp: --noise-multiplier must be at least 0; got -1. 0 is no noise at all.",
    ),
    (
        "dpsgd --noise-multiplier 1 --sample-rate 1.7 --steps 10 --delta 1e-5",
        "sharpdp: --sample-rate must be in [0, 1]; got 1.7. "
        "Did you mean --batch-size / --dataset-size?",
    ),
    (
        "dpsgd --noise-multiplier 1 --sample-rate 0.1 --steps 2.5 --delta 1e-5",
        "sharpdp: --steps must be a whole number, at least 0; got 2.5. "
        "It counts batches, over all epochs.",
    ),
    (
        "dpsgd --noise-multiplier 1 --sample-rate 0.1 --delta 1e-5",
        f"sharpdp: exactly one of --steps and --epochs must be given; got neither. {FORMS}",
    ),
    (
        "dpsgd --noise-multiplier 1 --dataset-size 10 --batch-size 20 --epochs 1 --delta 1e-5",
        "sharpdp: --batch-size must be at most --dataset-size = 10; got 20. Did you swap the two?",
    ),
    (
        "account --delta 1e-5",
        "sharpdp: name a plan file or mechanisms, or give the options of a DP-SGD run or of shuffled "
        "reports; got none. See sharpdp help account.",
    ),
    (
        'account "gausian noise_multiplier=1" --delta 1e-5',
        "sharpdp: there is no mechanism 'gausian'. Did you mean gaussian?",
    ),
    (
        'account "gaussian noise_multiplier=-1" --delta 1e-5',
        "sharpdp: in 'gaussian noise_multiplier=-1': noise_multiplier must be at least 0; got -1. "
        "0 is no noise at all.",
    ),
    (
        'account "pure-dp epsilon=-1" --delta 1e-5',
        "sharpdp: in 'pure-dp epsilon=-1': epsilon must be at least 0; got -1. "
        "0 is perfect privacy, and larger is less.",
    ),
    (
        "calibrate noise --sample-rate 0.1 --steps 10 --epsilon 1 --delta 1e-5",
        "sharpdp: 'noise' cannot be calibrated. Did you mean noise-multiplier?",
    ),
    (
        "calibrate noise-multiplier --noise-multiplier 1 --sample-rate 0.1 --steps 10 --advantage 0.1",
        "sharpdp: noise-multiplier is what is looked for; leave --noise-multiplier out.",
    ),
    (
        "calibrate noise-multiplier --sample-rate 0.1 --steps 10 --epsilon 1",
        f"sharpdp: --epsilon and --delta must be given together. {TARGETS}",
    ),
    (
        "calibrate noise-multiplier --sample-rate 0.1 --steps 10",
        f"sharpdp: exactly one target must be given; got 0. {TARGETS}",
    ),
    (
        "calibrate steps --sample-rate 0.1 --epsilon 1 --delta 1e-5",
        "sharpdp: --noise-multiplier must be given; got none.",
    ),
    (
        "calibrate steps --users 9 --epsilon 1 --delta 1e-5",
        "sharpdp: --users does not go with 'steps'; leave it out.",
    ),
    (
        "calibrate users --epsilon 1 --delta 1e-5",
        "sharpdp: --local-epsilon must be given; got none.",
    ),
    (
        "calibrate local-epsilom --users 9 --epsilon 1 --delta 1e-5",
        "sharpdp: 'local-epsilom' cannot be calibrated. Did you mean local-epsilon?",
    ),
    (
        "tradeoff",
        "sharpdp: name a plan file or mechanisms, or give the options of a DP-SGD run or of shuffled "
        "reports; got none. See sharpdp help tradeoff.",
    ),
    (
        'tradeoff "laplace scale=1" --noise-multiplier 1',
        "sharpdp: --noise-multiplier does not go with 'laplace scale=1'; leave it out.",
    ),
    (
        "tradeoff --noise-multiplier 1 --users 3",
        "sharpdp: name a plan file or mechanisms, or give the options of a DP-SGD run or of shuffled "
        "reports; got several. See sharpdp help tradeoff.",
    ),
    (
        "dpsgd plan.toml",
        "sharpdp dpsgd: unrecognized arguments: plan.toml. Did you mean --plan plan.toml?",
    ),
    (
        "account --delta 1e-5 plan.toml",
        "sharpdp account: --delta must be a number; got 'plan.toml'. "
        "Name the plan before the options, or by --plan.",
    ),
    ("report", "sharpdp: name a plan file or mechanisms, or give the options of a DP-SGD run or of "
     "shuffled reports; got none. See sharpdp help report."),
    ("report plan.toml --format htm",
     "sharpdp: --format must be text, markdown, html, json, model-card, registry; got 'htm'. "
     "Did you mean html?"),
    ("verify", "sharpdp verify: the following arguments are required: REPORT."),
    ("verify .", "sharpdp: the report must be a report file; got '.', which is no file."),
    ("schema plna", "sharpdp: the document must be plan or report; got 'plna'. Did you mean plan?"),
    ("account --plan .", "sharpdp: the plan must be a plan file; got '.', which is no file."),
    ("bounds gausian_tight", "sharpdp: there is no bound 'gausian_tight'. Did you mean gaussian_tight?"),
    ("bounds frob", "sharpdp: there is no bound 'frob'. See sharpdp bounds."),
    ("completion bsh", "sharpdp: the shell must be bash, zsh, fish, tcsh; got 'bsh'. Did you mean bash?"),
    ("compare samplers --delta 1e-5", "sharpdp: samplers needs --noise-multiplier, --dataset-size, "
     "--batch-size, --epochs, --delta; --noise-multiplier is missing."),
    ("compare sampler --epochs 3", "sharpdp: 'sampler' cannot be compared. Did you mean samplers?"),
    ("compare samplers --users 3", "sharpdp: --users does not go with 'samplers'; leave it out."),
    ("compare conversions --orders 2 --delta 1e-5",
     "sharpdp: give --orders and --values, one value at each order, or a plan."),
    (
        'tradeoff "laplace scale=1" --fpr 2',
        "sharpdp: --fpr must be in [0, 1]; got 2. It is the false-positive rate of an attack.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), WRONG_LINES, ids=[line for line, _ in WRONG_LINES])
def test_wrong_lines_get_a_sentence(
    line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_matplotlib(line)
    assert main(shlex.split(line)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"{sentence}\n"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("gaussian noise_multiplier=2", dp.Gaussian(2)),
        ("Gaussian noise-multiplier=2 x 10", dp.Gaussian(2) * 10),
        ("laplace scale=0.5 x 1e3", dp.Laplace(0.5) * 1000),
        ("randomized-response local_epsilon=1", dp.RandomizedResponse(local_epsilon=1)),
        (
            "randomized_response local_epsilon=1 categories=4 x 5",
            dp.RandomizedResponse(local_epsilon=1, categories=4) * 5,
        ),
        ("pure-dp epsilon=0.1", dp.PureDP(0.1)),
        ("approximate-dp delta=1e-6 epsilon=1", dp.ApproximateDP(epsilon=1, delta=1e-6)),
        ("finite-pair p=0.5,0.5 q=0.25,0.75", dp.FinitePair(p=[0.5, 0.5], q=[0.25, 0.75])),
        (
            "dpsgd noise_multiplier=1 sample_rate=0.01 steps=10 x 2",
            dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=10), noise_multiplier=1) * 2,
        ),
        ("shuffle users=1e4 local_epsilon=1", dp.ShuffledReports(users=10_000, local_epsilon=1)),
        (
            "shuffle users=9 local-epsilon=2 rounds=3 randomizer=individual x 2",
            dp.ShuffledReports(users=9, local_epsilon=2, rounds=3, randomizer="individual") * 2,
        ),
        (
            "dpsgd batches=deterministic dataset_size=9 batch_size=3 epochs=2 noise_multiplier=1",
            dp.DPSGD(
                dp.DeterministicBatches(dataset_size=9, batch_size=3, epochs=2), noise_multiplier=1
            ),
        ),
    ],
)
def test_mechanisms_are_read(text: str, meant: dp.Mechanism) -> None:
    assert mechanism(text) == meant


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", f"a mechanism must have a name; got an empty one. {WRITE}"),
        ("gaussian", f"gaussian needs noise_multiplier=. {WRITE}"),
        ("approximate-dp", f"approximate-dp needs epsilon= and delta=. {WRITE}"),
        ("gaussian 2", f"gaussian takes KEY=VALUE; got '2'. {WRITE}"),
        ("gaussian noise_multiplier=", f"gaussian takes KEY=VALUE; got 'noise_multiplier='. {WRITE}"),
        ("gaussian scale=1", "gaussian has no parameter scale. It takes noise_multiplier."),
        ("laplace scael=1", "laplace has no parameter scael. Did you mean scale=?"),
        ("laplace scale=1 scale=1", "laplace takes scale= once; got it twice."),
        ("laplace scale=one", "scale of laplace must be a number; got 'one'."),
        ("laplace scale=1 x", f"{LAST}; got 'laplace scale=1 x'. {WRITE}"),
        ("laplace x 2 scale=1", f"{LAST}; got 'laplace x 2 scale=1'. {WRITE}"),
        ("laplace scale=1 x two", "the count after x must be a number; got 'two'."),
        (
            "laplace scale=1 x -1",
            "in 'laplace scale=1 x -1': count must be a whole number, at least 0; got -1. "
            "It says how often the mechanism is run.",
        ),
        ("exponential scale=1", "there is no mechanism 'exponential'. There are: gaussian, laplace, "
         "randomized-response, pure-dp, approximate-dp, finite-pair, dpsgd, same-batches, correlated, "
         "shuffle."),
    ],
)  # fmt: skip
def test_wrong_mechanisms_get_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=rf"^{re.escape(sentence)}$"):
        mechanism(text)


def test_training_options_left_out_are_none() -> None:
    values = {"noise_multiplier": 1, "sample_rate": 0.5, "steps": 2, "epochs": None, "other": 3}
    assert training(values).parts()[0][1] == 1


EXAMPLES = [
    line.strip()
    for command in COMMANDS.values()
    for line in command.examples.replace("\\\n", "").splitlines()
    if line.strip().startswith("sharpdp ") and not {"|", ">"} & set(line)
]


# Others like these are run; each of these takes ten seconds or more.
LONG = (
    "sharpdp report plan.toml -o",
    "sharpdp report shuffle",
    "sharpdp calibrate population",
    "sharpdp tradeoff shuffle",
    "sharpdp shuffle --users 300",
)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.slow] if line.startswith(LONG) else [])
        for line in EXAMPLES
    ],
)
def test_examples_of_the_help_run(
    line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN, "utf-8")
    (tmp_path / "reports.toml").write_text(REPORTS, "utf-8")
    if "verify" in line:
        for form in ("json", "html"):
            report = dp.account(dp.Gaussian(noise_multiplier=1.0)).report(form)
            (tmp_path / f"report.{form}").write_text(report, "utf-8")
    words = shlex.split(line)
    if words[1] == "ledger" and words[2] != "init":
        dp.Ledger(tmp_path / "budget.jsonl", epsilon=1000.0, delta=1e-6, choice="fixed in advance")
        report = dp.account(dp.Gaussian(noise_multiplier=1.0)).report("json")
        (tmp_path / "report.json").write_text(report, "utf-8")
    if words[1] == "audit":
        scores = [f"{score},{score % 2}" for score in range(100)]
        (tmp_path / "scores.csv").write_text("\n".join(["score,included", *scores]), "utf-8")
        drawn = enumerate(dp.PoissonBatches(dataset_size=600, batch_size=6, epochs=3).batches(7))
        pairs = [f"{step},{example}" for step, batch in drawn for example in batch]
        (tmp_path / "batches.csv").write_text("\n".join(["step,example", *pairs]), "utf-8")
    if words[1] == "completion":
        pytest.importorskip("shtab")
    if words[1] == "explore":  # on a port that is free, and closed at once
        server = importlib.import_module("sharpdp.explore.server")
        monkeypatch.setattr(server.ExploreServer, "run", lambda self, browser: self.server_close())
        monkeypatch.setattr("sharpdp.explore.start", lambda port: server.start(port=0))
    answered(shlex.join(words[1:]), capsys)
    for name in (word for word in words if word.endswith(".svg")):
        assert (tmp_path / name).read_text("utf-8").lstrip().startswith("<?xml")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: sharpdp {command}".rstrip() in text
    assert "xample" in text
    assert main(["help", *command.split()]) == 0
    assert capsys.readouterr().out == text


def test_a_bare_call_prints_the_commands_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    text = answered("", capsys)
    assert text == answered("--help", capsys)
    for group in ("ask", "choose", "document", "explore"):
        assert f"\n{group}: " in text
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert len(COMMANDS) <= 17


@pytest.mark.parametrize("name", REMOVED)
def test_removed_commands_say_what_to_write(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    words = REMOVED[name].split()
    assert capsys.readouterr().err == f"sharpdp {name} is now {REMOVED[name]}.\n"
    assert main([*words[1:2], "--help"]) == 0
    assert all(word in capsys.readouterr().out for word in words[2:])


def test_help_shows_the_options_of_one_kind_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    for line, shown, hidden in (
        ("help tradeoff", (), ("--users INT", "--epochs INT")),
        ("help report shuffle", ("--users INT",), ("--epochs INT",)),
        ("help calibrate epochs", ("--noise-multiplier FLOAT",), ("--users INT",)),
        ("help compare samplers", ("--epochs INT",), ("--users INT", "--orders", "--weights")),
        ("help compare mixture", ("--weights PROB",), ("--users INT", "--epochs INT")),
        ("help dpsgd", ("--epochs INT", "--drop-last"), ()),
    ):
        text = answered(line, capsys)
        assert all(option in text for option in shown), line
        assert not any(option in text.partition("examples")[0] for option in hidden), line


def test_without_matplotlib_only_the_picture_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, name)
    assert answered(GAUSSIAN, capsys)
    assert main([*shlex.split(GAUSSIAN), "-o", "a.svg"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "sharpdp: matplotlib is needed to draw and is not installed: pip install matplotlib\n"
    )


def test_as_a_module_and_as_a_script() -> None:
    script = Path(sys.executable).parent / "sharpdp"
    for start in ([sys.executable, "-m", "sharpdp"], [str(script)]):
        done = subprocess.run([*start, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"sharpdp {dp.__version__}\n"
        wrong = subprocess.run([*start, "dpsdg"], capture_output=True, text=True, check=False)
        assert wrong.returncode == 2
        assert wrong.stderr == "sharpdp: there is no command 'dpsdg'. Did you mean dpsgd?\n"
