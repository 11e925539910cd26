"""Sampled users on the command line and in pictures: words reach the API, wrong ones are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.cli import main
from sharpdp.plots.bounds import _values

MNIST = "--users 2000 --population 60000 --local-epsilon 2 --rounds 6000"


def said(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*line.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_run_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    """The specification: .667129 for the exact pair, .608446 for ternary randomized response."""
    data = said(f"shuffle {MNIST} --delta 1e-5", capsys)
    (answer,) = data["answers"]  # type: ignore[misc]
    assert 0.608446 < answer["upper"] < 0.667129  # what a looser theorem says
    assert answer["lower"] == pytest.approx(0.608446, rel=1e-3)
    assert data["adjacency"] == "replace-one"


def test_compare_names_the_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    table = said(f"compare shuffle {MNIST} --delta 1e-5", capsys)
    bounds = {entry["name"]: entry for entry in table["answers"]}  # type: ignore[attr-defined]
    printed = {
        "sampled_moments_epsilon_upper": 5.794552,
        "amplified_moments_epsilon_upper": 6.06228,
    }
    for name, value in printed.items():
        assert bounds[name]["upper"] == pytest.approx(value, rel=1e-5)
    assert bounds["clones_strong_composition_upper"]["upper"] is None
    assert "it needs about" in bounds["clones_strong_composition_upper"]["reason"]


@pytest.mark.parametrize(
    ("unknown", "given", "template", "grows"),
    [
        ("rounds", {"users": 20, "population": 400, "local_epsilon": 1.0}, 1, False),
        ("local-epsilon", {"users": 20, "population": 400, "rounds": 9}, 1e-4, False),
        ("population", {"users": 20, "local_epsilon": 1.0, "rounds": 9}, 1, True),
        ("users", {"population": 40, "local_epsilon": 1.0, "rounds": 9}, 1, False),
    ],
)
def test_calibrated_values_just_meet_the_target(
    unknown: str,
    given: dict[str, float],
    template: float,
    grows: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = " ".join(f"--{word.replace('_', '-')} {value}" for word, value in given.items())
    found = said(f"calibrate {unknown} {options} --epsilon 0.5 --delta 1e-4", capsys)
    value = found["value"]
    assert isinstance(value, int | float)
    # the next one on the other side misses it: by a step of one, or by the stated error
    step = template if isinstance(template, int) else 2 * template * value
    beyond = value - step if grows else value + step
    uppers = []
    for one in (value, beyond):
        run = dp.ShuffledReports(**{**given, unknown.replace("-", "_"): one})  # type: ignore[arg-type]
        answer = dp.account(run, relative_width=1e-5)
        uppers.append(answer.epsilon(delta=1e-4).upper)
    assert uppers[0] <= 0.5 * (1 + 1e-4)
    assert uppers[1] > 0.5 * (1 - 1e-4)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "shuffle --users 9 --population 8 --local-epsilon 1 --delta 1e-6",
            "--population must be at least the 9 users of one round; got 8.",
        ),
        (
            "shuffle --users 1 --population 1 --local-epsilon 1 --delta 1e-6",
            "--population must be a whole number, at least 2; got 1.",
        ),
        (
            "shuffle --users 9 --population 20.5 --local-epsilon 1 --delta 1e-6",
            "--population must be a whole number, at least 2; got 20.5.",
        ),
        (
            "shuffle --users 9 --population 20 --rounds 0 --local-epsilon 1 --delta 1e-6",
            "--rounds must be a whole number, at least 1; got 0.",
        ),
        (
            "shuffle --users 9 --population 20 --local-epsilon 1e-9 --delta 1e-6",
            "--local-epsilon must be 0, or between 1e-06 and 30; got 1e-09.",
        ),
        (
            "shuffle --users 9 --population-size 20 --local-epsilon 1 --delta 1e-6",
            "there is no option --population-size. Did you mean --population?",
        ),
        (
            "calibrate population --population 9 --users 3 --epsilon 1 --delta 1e-6",
            "population is what is looked for; leave --population out.",
        ),
        (
            "compare dpsgd --population 9 --delta 1e-6",
            "--population does not go with 'dpsgd'; leave it out.",
        ),
    ],
)
def test_what_is_said_about_wrong_words(
    line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) != 0
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_mechanism_in_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    text = "shuffle users=5 local_epsilon=1 population=20 rounds=2"
    assert main(["account", text, "--delta", "1e-3"]) == 0
    assert "2 rounds of 5 shuffled reports from 20 users" in capsys.readouterr().out


def test_what_pictures_vary() -> None:
    run = dp.ShuffledReports(users=1000, local_epsilon=1.0, population=10**6, rounds=100)
    for over, low, high in (
        ("population", 1e3, 1e9),
        ("users", 1e2, 1e6),
        ("rounds", 1, 1e5),
        ("local_epsilon", 0.1, 8.0),
    ):
        own, places = _values(run, over)
        assert own == getattr(run, over)
        assert places[0] == pytest.approx(low)
        assert places[-1] == pytest.approx(high)
    whole = dp.ShuffledReports(users=1000, local_epsilon=1.0)
    with pytest.raises(dp.InvalidArgument, match="over must be local_epsilon, users, rounds for"):
        _values(whole, "population")


@pytest.mark.slow
def test_a_picture_over_the_population(tmp_path: Path) -> None:
    picture = tmp_path / "population.svg"
    line = (
        f"compare shuffle --users 50 --population 900 --local-epsilon 1 --delta 1e-5 -o {picture}"
    )
    assert main([*line.split(), "--over", "population"]) == 0
    assert picture.stat().st_size > 0
