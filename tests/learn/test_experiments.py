"""The experiments in their smallest form, on scikit-learn's digits: they run, learn, and are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reproduce.learning import __main__ as command
from reproduce.learning import (
    budgets,
    clients,
    correlated,
    ledger,
    passes,
    pictures,
    releases,
    samplers,
    units,
)

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


def test_correlated_noise_at_equal_epsilon(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = correlated.report("quick")
    assert len(found) == 4
    assert all(one[0]["accuracy"][0] > 5 * GUESSING for one in found.values())
    # at this epsilon every strategy leaves less noise in sums than independent noise does
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if " 8  " in line[:16]]
    errors = [float(row[-3]) for row in rows]
    assert len(errors) == 4
    assert max(errors[1:]) < errors[0]
    pictures.drawn_correlated(found, out / "correlated.svg")
    assert (out / "correlated.svg").stat().st_size > 0


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
    curves = found["curves"]
    assert curves[large]["ours"][-1] <= curves[small]["theorem"][-1]
    assert curves[small]["ours"][-1] < curves[small]["theorem"][-1] / 5
    assert found["accuracy"][small][0][-1] > 1.5 * GUESSING
    assert found["data"][1] == f"2,0,1,{found['accuracy'][small][0][0]:.4f}"
    pictures.drawn_clients(found, out / "clients.svg")
    assert "sharpdp" in capsys.readouterr().out


@pytest.mark.slow
def test_equal_epsilon(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = budgets.report("quick")
    assert all(one[0]["accuracy"][0] > 5 * GUESSING for one in found.values())
    pictures.drawn_budgets(found, out / "budgets.svg")
    printed = capsys.readouterr().out
    assert "epsilon spent, lower" in printed
    # noise for Poisson batches at 8 does not do for shuffled ones
    reported, _, lower, _ = printed.partition("upper\n")[2].split()[:4]
    assert float(lower) > float(reported)


def test_relu_units(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = units.report("quick")
    printed, program = (one["accuracy"][0] for one in found.values())
    assert GUESSING < printed < program
    pictures.drawn_units(found, out / "units.svg")
    assert "Algorithm 1" in capsys.readouterr().out


def test_the_mean_of_a_batch_is_clipped_by_column_sums() -> None:
    setting = units.Setting(units.PROGRAM, 0, "columns of the mean", 2.0)
    weights = np.array([[3.0, 0.0], [0.0, 40.0], [1.0, 1.0]], dtype=np.float32)

    class Found:
        def total(self) -> list[units.Floats]:
            return [weights]

    (step,) = units.step_of(Found(), setting, size=1, blocks=7)
    # the largest column sum is 40, the bias adds 2, and the clip is 10; the l1 norm is 45
    assert step == pytest.approx(weights * 10.0 / 42.0)
    (step,) = units.step_of(
        Found(), units.Setting(units.PROGRAM, 0, "l1 of the mean", 2.0), size=1, blocks=7
    )
    assert step == pytest.approx(weights * 10.0 / 45.0)


def test_a_run_goes_on_as_if_it_had_not_stopped(out: Path) -> None:
    scale = clients.size("quick")
    shorter = replace(scale, epochs=1)
    clients.trained(shorter, 2.0, 0, out / "resumed.state")
    resumed = clients.trained(scale, 2.0, 0, out / "resumed.state")
    assert resumed == clients.trained(scale, 2.0, 0, out / "whole.state")


def test_without_mnist_nothing_is_run_or_written(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PAGES", out / "docs")
    monkeypatch.setenv("MNIST", "overruled by the option")
    monkeypatch.setattr("sys.argv", ["learning", "passes", "--mnist", str(out / "none.npz")])
    with pytest.raises(SystemExit):
        command.main()
    said = capsys.readouterr().err
    assert "none.npz" in said
    assert "--quick" in said
    assert not (out / "docs").exists()
    monkeypatch.setattr("sys.argv", ["learning", "passes", "--quick"])
    assert command.main() == 0
    assert not (out / "docs").exists()
