"""What to change for a smaller epsilon."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import sharpdp as dp
from sharpdp.cli import main

SHUFFLED = dp.ShuffledBatches(dataset_size=6_000, batch_size=60, epochs=2)


def answer(scheme: dp.batches.BatchScheme) -> dp.Guarantee:
    """A rough one, since sharp answers about a vacancy take long."""
    return dp.account(dp.DPSGD(scheme, noise_multiplier=1.0), relative_width=0.05)


@pytest.mark.parametrize("order", ["redrawn", "kept"])
def test_a_vacancy_is_suggested_with_numbers_that_account_gives(order: str) -> None:
    scheme = replace(SHUFFLED, order=order)
    bins, sentence = answer(scheme).suggestions(delta=1e-5)
    same = dp.BallsAndBins(dataset_size=6_000, batch_size=60, epochs=2)
    (claimed,) = map(float, re.findall(r"at most ([\d.]+) at", bins))
    assert claimed == pytest.approx(answer(same).epsilon(delta=1e-5).upper, rel=1e-3)
    assert "left_out=1" in sentence
    assert ('order="redrawn"' in sentence) == (order == "kept")
    new, present = map(float, re.findall(r"at most ([\d.]+) at .* not ([\d.]+)\.", sentence)[0])
    sharper = answer(replace(SHUFFLED, left_out=1)).epsilon(delta=1e-5)
    assert sharper.upper <= new <= 1.05 * sharper.upper
    now = answer(scheme).epsilon(delta=1e-5)
    assert now.upper <= present <= 1.001 * now.upper


@pytest.mark.parametrize(
    "scheme",
    [
        dp.ShuffledBatches(dataset_size=500, batch_size=500, epochs=2),
        dp.PoissonBatches(dataset_size=6_000, batch_size=60, epochs=2),
    ],
    ids=["one batch", "Poisson"],
)
def test_nothing_is_suggested_without_a_gain(scheme: dp.batches.BatchScheme) -> None:
    assert answer(scheme).suggestions(delta=1e-5) == ()


def test_nothing_is_suggested_if_epsilon_is_zero() -> None:
    run = dp.DPSGD(SHUFFLED, noise_multiplier=1e9)
    assert dp.account(run, relative_width=0.05).suggestions(delta=1e-5) == ()


@pytest.mark.parametrize(
    "scheme",
    [
        replace(SHUFFLED, left_out=1),
        dp.ShuffledBatches(dataset_size=6_010, batch_size=60, epochs=2, drop_last=True),
    ],
    ids=["vacancy", "dropped"],
)
def test_a_shuffle_with_a_vacancy_has_only_another_sampler_to_gain(
    scheme: dp.batches.BatchScheme,
) -> None:
    (sentence,) = answer(scheme).suggestions(delta=1e-5)
    assert "dp.BallsAndBins" in sentence


def test_delta_is_checked() -> None:
    with pytest.raises(dp.InvalidArgument, match="delta must be"):
        dp.account(dp.Gaussian(1.0)).suggestions(delta=0.0)


def test_reports_and_the_command_line_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--noise-multiplier 1 --dataset-size 6000 --batch-size 60 --epochs 2 --delta 1e-5"
    assert main(["dpsgd", *words.split(), "--batches", "shuffled"]) == 0
    assert "sit out every epoch" in capsys.readouterr().out
    rough = dp.account(dp.DPSGD(SHUFFLED, noise_multiplier=1.0), relative_width=0.1)
    assert "sit out every epoch" in rough.report("markdown", delta=1e-5)
