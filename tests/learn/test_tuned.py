"""The tuned experiments in their smallest form: features, schedules, what is chosen on which images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from reproduce.learning import __main__ as command
from reproduce.learning import (
    budgets,
    gradients,
    ledger,
    pictures,
    simulation,
    training_size,
    tuned,
)
from reproduce.learning.features import LENGTH, oriented_gradients
from reproduce.learning.gradients import Gradients
from reproduce.learning.images import digits
from reproduce.learning.models import linear
from reproduce.learning.tuned import CHOOSING, TESTING, Run, Setting

from sharpdp.learn import PrivUnitBall

GUESSING = 0.1


@pytest.fixture(autouse=True)
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(ledger, "OUT", tmp_path)
    return tmp_path


def test_an_edge_has_one_direction() -> None:
    image = np.zeros((1, 1, 28, 28), dtype=np.float32)
    image[:, :, :, 12:] = 1.0  # brighter to the right, so that the gradient is in direction 0
    found = oriented_gradients(image).reshape(7, 7, 8)
    turned = oriented_gradients(image.transpose(0, 1, 3, 2)).reshape(7, 7, 8)  # brighter below
    background = found.min()
    assert np.allclose(found[:, :, 1:], background)
    assert np.all(found[:, 2:4, 0] > 0.1)
    assert np.allclose(found[:, [0, 1, 4, 5, 6], 0], background, atol=1e-6)
    assert np.allclose(turned[:, :, 2], found[:, :, 0].T, atol=1e-6)


def test_features_do_not_see_brightness_or_other_images() -> None:
    pixels = digits().train[:5]
    found = oriented_gradients(pixels)
    assert found.shape == (5, 128)
    assert np.linalg.norm(found, axis=1) == pytest.approx(LENGTH, rel=1e-5)
    assert np.allclose(found, oriented_gradients(2.5 * pixels + 1.0), atol=1e-4)
    assert np.allclose(found[3:4], oriented_gradients(pixels[3:4]), atol=1e-6)
    assert np.all(oriented_gradients(np.ones_like(pixels)) == 0.0)


def test_held_out_images_are_training_images() -> None:
    images = digits()
    some = images.for_choosing()
    assert np.array_equal(np.concatenate([some.train, some.test]), images.train)
    labels = np.concatenate([some.train_labels, some.test_labels])
    assert np.array_equal(labels, images.train_labels)
    assert len(some.test) == 250


def test_steps_rise_and_fall() -> None:
    setting = Setting(clip=0.5, step=3.0)
    rates = [setting.learning_rate(number, 100) for number in range(100)]
    assert rates[:2] == pytest.approx([0.12, 2 * 0.12 * 0.99])  # a fifth of 3 (1 - 0.9) / 0.5
    assert max(rates) == rates[4] == pytest.approx(0.6 * 0.96)
    assert np.diff(rates[4:]) == pytest.approx(-0.006)
    assert rates[-1] == pytest.approx(0.006)


def test_the_limit_has_mean_and_variance_of_the_reports() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 8))
    rows *= (np.array([0.3, 1.0, 4.0]) / np.linalg.norm(rows, axis=1))[:, None]
    ball, held = PrivUnitBall(dimension=8, local_epsilon=3.0), torch.from_numpy(rows).float()

    def vectors(which: NDArray[np.int64]) -> Iterator[Gradients]:
        yield Gradients([held[which]])

    source = torch.Generator().manual_seed(0)
    drawn = np.array(
        [simulation.gaussian_limit(ball, vectors, 3, rng, source).numpy() for _ in range(4000)]
    )
    rows[2] /= 4.0  # clipped to the radius
    variance = 3.0 * ball.largest_variance / 8.0
    assert np.allclose(drawn.mean(0), rows.sum(0), atol=5.0 * (variance / 4000) ** 0.5)
    assert np.allclose(np.cov(drawn.T), variance * np.eye(8), atol=0.15 * variance)


def test_inner_products_of_the_shortest_gradients() -> None:
    """Gradients of 1e-21 have squares below single precision; their directions must be right."""
    model = linear(20)
    weights = torch.randn(9, 20, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        model[0].bias[0] = 52.0
        model[0].weight[1:] = weights
    inputs = torch.randn(30, 20, generator=torch.Generator().manual_seed(2))
    found = gradients.gradients(model, inputs, torch.zeros(30, dtype=torch.long))
    gram = found.gram().numpy()
    gram /= np.sqrt(np.outer(np.diagonal(gram), np.diagonal(gram)))
    scores = (inputs.double() @ weights.double().T).numpy()
    sent = np.exp(scores)  # the right class is sent 0, the difference from 1 in single precision
    sent /= np.linalg.norm(sent, axis=1, keepdims=True)
    held = np.hstack([inputs.double().numpy(), np.ones((30, 1))])
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    assert np.allclose(gram, (sent @ sent.T) * (held @ held.T), atol=1e-4)


def test_the_largest_local_epsilon_in_hundredths(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, model) = tuned.models("full")
    assert tuned.keeps(model, 3.15, tuned.BY_ORDER)  # an independent search found 3.151
    assert not tuned.keeps(model, 3.16, tuned.BY_ORDER)
    (_, small) = tuned.models("quick")
    assert tuned.keeps(small, 5.43, 5.8)
    assert not tuned.keeps(small, 5.44, 5.8)
    monkeypatch.setattr(tuned, "keeps", lambda model, local, budget: local <= budget)
    assert tuned.largest_local(small, 3.456, Path()) == 3.45


def test_both_models_tuned(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuned, "largest_local", lambda model, budget, path: 5.43)
    found = tuned.report("quick")
    runs = [Run.from_row(dict(zip(tuned.HEADINGS, row.split(","), strict=True)))
            for row in found["data"][1:]]  # fmt: skip
    assert [run.row() for run in runs] == found["data"][1:]
    for model in tuned.models("quick"):
        (point,) = found["points"][model.name]
        some = [run for run in runs if run.model == model.name]
        tried = [run for run in some if run.images == CHOOSING]
        assert {run.setting for run in tried} == set(model.settings())
        best = max(tried, key=lambda run: run.accuracy)
        tests = [run for run in some if run.images == TESTING]
        assert [run.setting for run in tests] == [best.setting]
        assert point["accuracy"] == [pytest.approx(tests[0].accuracy, abs=1e-4)]
        assert point["accuracy"][0] > 5 * GUESSING
        assert 5.75 < point["spent"][1] <= 5.8
    found["paper"] = {"theorem": [5.8], "ours": [0.6], "accuracy": [[0.9, 0.91]]}
    pictures.drawn_tuned(found, out / "tuned.svg")
    assert (out / "tuned.svg").stat().st_size > 0
    assert "never on test images" in " ".join(capsys.readouterr().out.split())


def test_test_images_have_no_part_in_a_choice(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    """Labels of test images that are all wrong change no choice."""
    images = digits()
    wrong = replace(images, test_labels=(images.test_labels + 1) % 10)
    (_, model) = tuned.models("quick")
    chosen = tuned.trained(model, CHOOSING, 4.0, model.settings()[0], 0, out / "one.state")
    held = replace(model, images=lambda: replace(model.images(), test_labels=wrong.test_labels))
    assert tuned.trained(held, CHOOSING, 4.0, model.settings()[0], 0, out / "one.state") == chosen
    assert tuned.trained(held, TESTING, 4.0, model.settings()[0], 0, out / "one.state") < 0.5

    scale = training_size.EqualEpsilonSize(wrong, 60, 2, 1, (8.0,), (0.01, 1.0))
    smaller = scale.for_choosing()
    assert [one.steps for one in smaller.schemes()] == [one.steps for one in scale.schemes()]
    plan, fewer = scale.schemes()[2], smaller.schemes()[2]
    best, accuracies = scale.best_rate(
        "one",
        lambda rate, seed, path: budgets.trained(smaller, fewer, 0.5, rate, seed, path),
        lambda rate, seed, path: budgets.trained(scale, plan, 0.5, rate, seed, path),
    )
    assert best == 1.0
    assert accuracies[0] < 2 * GUESSING


@pytest.mark.slow
def test_pages_again_from_the_accuracies_that_are_kept(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is trained, and MNIST is not needed."""
    monkeypatch.setenv("MNIST", str(out / "none.npz"))
    pages = ledger.PAGES
    monkeypatch.setattr(command, "PAGES", out / "docs")
    monkeypatch.setattr("sys.argv", ["learning", "tuned", "--full", "--recorded"])
    assert command.main() == 0
    kept, again = (folder / "tuned.csv" for folder in (pages, out / "docs"))
    assert again.read_text("utf-8") == kept.read_text("utf-8")
    assert (out / "docs" / "tuned.svg").exists()
    monkeypatch.setattr("sys.argv", ["learning", "units", "--recorded"])
    with pytest.raises(SystemExit):
        command.main()
    assert "clients and tuned" in capsys.readouterr().err
