"""Command lines and plans with random mistakes: an answer, or one sentence; never anything else."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from sharpdp.cli import main
from sharpdp.cli.commands import COMMANDS, command_parser

LINES = [
    "dpsgd --noise-multiplier 1 --sample-rate 0.1 --steps 3 --delta 1e-5",
    "dpsgd --noise-multiplier 1 --dataset-size 100 --batch-size 50 --epochs 1 --epsilon 1 "
    "--batches deterministic --adjacency zero-out",
    "dpsgd --plan plan.toml --noise-multiplier 2",
    "shuffle --users 20 --local-epsilon 1 --delta 1e-5",
    "shuffle --plan plan.json --rounds 2",
    "account 'gaussian noise_multiplier=2 x 3' 'pure-dp epsilon=1' --delta 1e-5",
    "account 'laplace scale=1' plan.json --epsilon 1",
    "account plan.toml",
    "account plan.json --epsilon 1",
    "compare 'gaussian noise_multiplier=2' --delta 1e-5",
    "compare plan.json --delta 1e-5",
    "tradeoff 'finite-pair p=0.5,0.5 q=0.25,0.75' --fpr 0.1",
    "compare conversions --orders 2 8 --values 0.1 0.4 --delta 1e-5",
    "compare mixture 'finite-pair p=0.9,0.1 q=0.1,0.9' 'finite-pair p=0.5,0.5 q=0.5,0.5' "
    "--weights 0.1 0.9",
    "bounds gaussian_tight --bibtex",
    "bounds laplace_tight",
    "report --noise-multiplier 1 --sample-rate 1 --steps 2 --format json",
    "verify plan.json",
    "schema plan",
]
PLANS: list[dict[str, Any]] = [
    {
        "delta": 1e-5,
        "mechanism": {
            "kind": "DPSGD",
            "noise_multiplier": 1.0,
            "batches": {"kind": "PoissonBatches", "sample_rate": 0.5, "steps": 2},
        },
    },
    {
        "delta": [1e-5, 1e-3],
        "adjacency": "zero-out",
        "mechanism": {
            "kind": "DPSGD",
            "noise_multiplier": 1.0,
            "batches": {
                "kind": "DeterministicBatches",
                "dataset_size": 100,
                "batch_size": 10,
                "epochs": 2,
            },
        },
    },
    {"mechanism": {"kind": "ShuffledReports", "users": 20, "local_epsilon": 1.0}},
    {"mechanism": {"kind": "Repeated", "count": 3, "mechanism": {"kind": "PureDP", "epsilon": 2}}},
    {
        "mechanism": {"kind": "Sequence", "mechanisms": [{"kind": "Gaussian", "noise_multiplier": 2}]},
        "relative_width": 0.01,
    },
    {"mechanism": {"kind": "RenyiCurve", "orders": [2, 8], "values": [0.1, 0.4]}},
]  # fmt: skip
NUMBERS = ["0", "-1", "1e-300", "1e300", "nan", "inf", "-inf", "9" * 5000, "1e400", "abc", "5e-324"]
WORDS = ["", "\x00", "\x1b[31m", "ü", "\udcff", "a" * 3000, "--", "-", "x", "plan.toml", "=", "."]
JUNK: list[Any] = [
    None, True, 0, -1, 1.5, float("nan"), float("inf"), "", "x", "Gaussian", [], [1], [[1]], {},
    {"kind": "Gaussian"}, {"kind": 3}, 10**30, "a" * 500, [None], "add/remove", "\x00",
]  # fmt: skip
OPTIONS = [word for name in COMMANDS for word in command_parser(name)._option_string_actions]
ROUNDS = 320


def mistaken_line(rng: random.Random) -> list[str]:
    """A line that is right but for a few words."""
    words = shlex.split(rng.choice(LINES))
    for _ in range(rng.choice([0, 1, 1, 2])):
        place = rng.randrange(len(words))
        match rng.randrange(6):
            case 0:
                words[place] = rng.choice(NUMBERS)
            case 1:
                words[place] = rng.choice(WORDS)
            case 2:
                del words[place]
            case 3:
                words.insert(place, rng.choice([*OPTIONS, *WORDS]))
            case 4:
                words[place] = words[place][:-1]
            case _:
                words += [rng.choice(OPTIONS), rng.choice([*NUMBERS, *WORDS])]
        words = words or ["x"]
    return [word for word in words if word not in ("-o", "--output")]


def mistaken_plan(rng: random.Random) -> Any:
    """A plan that is right but for a field."""
    plan = json.loads(json.dumps(rng.choice(PLANS)))
    node: Any = plan
    while rng.random() < 0.8:
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        place = rng.choice(places)
        if isinstance(node[place], dict | list) and node[place] and rng.random() < 0.7:
            node = node[place]
            continue
        if isinstance(node, dict) and rng.random() < 0.4:
            node[f"{place}z"] = node.pop(place)
        else:
            node[place] = rng.choice(JUNK)
        break
    return plan


def as_toml(value: Any) -> str:
    """The value as TOML has it; None, which it has not, as a mistake."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(name)} = {as_toml(one)}" for name, one in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def damaged(rng: random.Random, text: str) -> str:
    """The text, now and then with a character too many or without its end."""
    if rng.random() > 0.15:
        return text
    place = rng.randrange(len(text))
    return text[:place] + rng.choice(["", "{", "]", '"', "=", "\x00", "é" + text[place:]])


@pytest.mark.parametrize("seed", range(2))
def test_mistakes_get_a_sentence(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHARPDP_TRACEBACK", "1")  # what is unforeseen is raised
    rng = random.Random(seed)
    codes = []
    for _ in range(ROUNDS // 2):
        plan = mistaken_plan(rng)
        toml = "\n".join(f"{json.dumps(name)} = {as_toml(one)}" for name, one in plan.items())
        Path("plan.json").write_text(damaged(rng, json.dumps(plan)), "utf-8")
        Path("plan.toml").write_text(damaged(rng, toml), "utf-8")
        words = mistaken_line(rng)
        codes.append(main(words))
        said = capsys.readouterr()
        if codes[-1] == 0:
            assert said.err == "", words
            assert said.out, words
        else:
            assert said.out == "", words
            assert said.err.startswith("sharpdp"), words
            assert said.err.count("\n") == 1, words
            assert said.err.strip().isprintable(), words
    assert codes.count(0) > ROUNDS // 16  # the lines are not all nonsense
    assert codes.count(2) > ROUNDS // 8
