"""`sharpdp audit` reads tables, tests plans, and says with its exit code what it found."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import sharpdp as dp
from sharpdp import audit
from sharpdp.cli import main
from sharpdp.plans import Plan

SCHEME = dp.PoissonBatches(dataset_size=400, batch_size=40, epochs=3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    coins = rng.random(400) < 0.5
    table("loud.csv", "score,included", coins * 9.0 + rng.normal(size=400), coins.astype(int))
    table("blind.csv", "score,included", rng.normal(size=400), coins.astype(int))
    table("runs.csv", "with_record,without_record", rng.normal(3, size=200), rng.normal(size=200))
    for name, scheme in (
        ("poisson.csv", SCHEME),
        ("shuffled.csv", dp.ShuffledBatches(dataset_size=400, batch_size=40, epochs=3)),
    ):
        pairs = [(step, i) for step, batch in enumerate(scheme.batches(1)) for i in batch]
        table(name, "step,example", *zip(*pairs, strict=True))
    for name, noise in (("plan.json", 20.0), ("tight.json", 2.0)):
        run = dp.DPSGD(SCHEME, noise_multiplier=noise)
        Path(name).write_text(Plan(mechanism=run).to_json(), "utf-8")
    Path("gaussian.json").write_text(
        Plan(mechanism=dp.Gaussian(noise_multiplier=1.0)).to_json(), "utf-8"
    )
    return tmp_path


def table(name: str, head: str, *columns: object) -> None:
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    Path(name).write_text("\n".join([head, *lines]) + "\n", "utf-8")


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words)
    streams = capsys.readouterr()
    return code, streams.out, streams.err


@pytest.mark.parametrize(
    ("file", "plan", "code", "words"),
    [
        ("loud.csv", "plan.json", 1, "CONTRADICTS"),
        ("blind.csv", "plan.json", 0, "consistent with"),
        ("loud.csv", None, 0, "<= epsilon"),
        ("runs.csv", "gaussian.json", 1, "CONTRADICTS"),
        ("poisson.csv", "tight.json", 0, "consistent with"),
        ("shuffled.csv", "tight.json", 1, "could be shuffled batches"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_verdicts(file, plan, code, words, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["audit", file, *(["--plan", plan] if plan else [])]
    found, out, err = said(line, capsys)
    assert (found, err) == (code, "")
    assert words in " ".join(out.split())
    found, out, _ = said([*line, "--json"], capsys)
    data = json.loads(out)
    assert found == code
    assert data["answers"][0]["consistent"] is (None if plan is None else code == 0)


@pytest.mark.usefixtures("folder")
def test_a_picture_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    for file in ("runs.csv", "loud.csv"):
        code, _, err = said(["audit", file, "--plan", "gaussian.json", "-o", "rates.svg"], capsys)
        assert (code, err) == (1, "")
        assert "certified" in Path("rates.svg").read_text("utf-8")
    code, _, err = said(["audit", "poisson.csv", "--plan", "tight.json", "-o", "rates.svg"], capsys)
    assert code == 2
    assert "batches have none" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "first lines"),
        ("score\n1\n", "first lines"),
        ("score,included\n1,2\n3,0\n", "True or False"),
        ("score,included\nx,1\n", "in line 2"),
        ("score,included\n1,1,1\n", "2 cells"),
        ("score,included\nnan,1\n0,0\n", "numbers"),
        ("step,example\n0,1\n", "DP-SGD"),
        ("score,included\n1,\n,1\n", "in line 2"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_tables(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text(text, "utf-8")
    code, out, err = said(["audit", "bad.csv"], capsys)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("line", "cell"),
    [
        ("0,7.9", "'7.9'"),
        ("0,nan", "'nan'"),
        ("0,inf", "'inf'"),
        ("0,1e30", "'1e30'"),
        ("0,-1", "'-1'"),
        ("1e30,0", "'1e30'"),
        ("0.5,0", "'0.5'"),
        ("nan,0", "'nan'"),
        ("0,", "''"),
        (",0", "''"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_steps_and_examples_are_counted(
    line: str, cell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.csv").write_text(f"step,example\n0,1\n{line}\n", "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code, out, err = said(["audit", "bad.csv", "--plan", "plan.json"], capsys)
    assert (code, out) == (2, "")
    assert f"got {cell} in line 3" in err


@pytest.mark.usefixtures("folder")
def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(["audit", "nowhere.csv"], capsys)
    assert code == 2
    assert "nowhere.csv" in err


@pytest.mark.usefixtures("folder")
def test_empty_steps_count() -> None:
    table("sparse.csv", "step,example", [0, 0, 3], [1, 2, 1])
    scheme = dp.PoissonBatches(sample_rate=0.3, steps=4, dataset_size=5)
    guarantee = dp.account(dp.DPSGD(scheme, noise_multiplier=1.0))
    result = audit.audit_file("sparse.csv", guarantee=guarantee)
    assert isinstance(result, audit.SamplerAudit)
    assert any("0 to 2" in one.sentence for one in result.findings)
