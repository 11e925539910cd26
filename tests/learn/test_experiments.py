"""The experiments in their smallest form, on scikit-learn's digits: they run, learn, and are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from reproduce.learning import clients, ledger, passes, pictures, releases, samplers

GUESSING = 0.1


@pytest.fixture(autouse=True)
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(ledger, "OUT", tmp_path)
    return tmp_path


def test_four_ways_to_draw_batches(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = samplers.report("quick")
    assert all(one["accuracy"][0] > 5 * GUESSING for one in found.values())
    assert found["Poisson batches"]["upper"] < found["shuffled batches"]["lower"]
    before = {file: file.stat().st_mtime_ns for file in out.glob("*.json")}
    capsys.readouterr()
    assert samplers.report("quick") == found
    assert {file: file.stat().st_mtime_ns for file in out.glob("*.json")} == before
    pictures.drawn_samplers(found, out / "samplers.svg")
    assert (out / "samplers.svg").stat().st_size > 0


@pytest.mark.slow
def test_every_step_or_the_last_model(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = releases.report("quick")
    assert found["cyclic"]["last"][0] > 2 * found["cyclic"]["every"][0] > GUESSING
    assert found["full"]["last"][0] > 6 * GUESSING
    pictures.drawn_releases(found, out / "releases.svg")
    assert "at epsilon = 1" in capsys.readouterr().out


def test_passes_over_blocks(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = passes.report("quick")
    published, ours = found["published noise 2"], found["noise for blocks 30"]
    assert published["accuracy"][0] > 1.5 * GUESSING
    # two epochs of a budget of 2 each are worth about 4, not what the formula prints
    assert 3.5 < published["record"] < 4.0 + 1e-6
    assert ours["record"] < 4.0 + 1e-6
    pictures.drawn_passes(found, out / "passes.svg")
    assert "Theorem 3" in capsys.readouterr().out


@pytest.mark.slow
def test_clients_with_a_larger_budget(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = clients.report("quick")
    small, large = found["accuracy"]
    assert small == 2.0 < large
    assert found["epsilon"][large][-1] <= found["paper"][-1]
    assert found["epsilon"][small][-1] < found["paper"][-1] / 5
    assert found["accuracy"][small][0][-1] > 1.5 * GUESSING
    pictures.drawn_clients(found, out / "clients.svg")
    assert "sharpdp" in capsys.readouterr().out
