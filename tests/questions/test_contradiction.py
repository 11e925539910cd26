"""Two theorems that exclude each other raise an alarm, which nothing takes for a refusal."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import sharpdp as dp
from sharpdp import cli
from sharpdp.bounds import registry
from sharpdp.explore import worker
from sharpdp.pairs.finite import AtomicPair
from sharpdp.plans import Plan
from sharpdp.report import verify

RUN = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=100), noise_multiplier=1.0)


@pytest.fixture
def wrong_theorem(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upper bound on DP-SGD over Poisson batches that forgets nearly all of it."""
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))

    def next_to_nothing_upper(mechanism: dp.DPSGD, adjacency: dp.Adjacency):
        """Upper side that is wrong."""
        return ((AtomicPair.pure(1e-9), 1),)

    next_to_nothing_upper.__module__ = "sharpdp.bounds.poisson"
    registry.bound(
        batch_scheme=dp.PoissonBatches,
        adjacency=tuple(dp.Adjacency),
        holds_when="never",
        source="dong2022",
    )(next_to_nothing_upper)


@pytest.mark.usefixtures("wrong_theorem")
@pytest.mark.parametrize(
    ("question", "given"),
    [
        ("epsilon", {"delta": 1e-5}),
        ("epsilon", {"delta": [1e-5, 1e-6]}),
        ("delta", {"epsilon": 0.5}),
        ("advantage", {}),
        ("tpr", {"fpr": 0.01}),
        ("fnr", {"fpr": 0.01}),
        ("renyi", {"order": 2.0}),
        ("mu", {}),
    ],
)
def test_both_theorems_are_named_with_their_values(question: str, given: dict) -> None:
    with pytest.raises(dp.Contradiction) as alarm:
        getattr(dp.account(RUN), question)(**given)
    words = str(alarm.value)
    lower, upper = words.index("poisson_batches_tight"), words.index("next_to_nothing_upper")
    # an attack misses more of a run that is said to be more private
    assert (lower > upper) == (question == "fnr")
    assert RUN.describe() in words
    assert "please report" in words
    assert not isinstance(alarm.value, dp.InvalidArgument | dp.NotCertified | dp.Unsupported)


def alarm(*_: object, **__: object) -> None:
    raise dp.Contradiction("first says 1, second says 2.")


SHUFFLED = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=2), noise_multiplier=1.0
)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: dp.account(SHUFFLED).suggestions(delta=1e-5),
        lambda: dp.account(RUN).risk(),
        lambda: dp.compare_samplers(
            dataset_size=10_000, batch_size=100, epochs=1, noise_multiplier=1.0, delta=1e-5
        ),
        lambda: dp.calibrate(
            lambda noise: dp.DPSGD(RUN.batches, noise_multiplier=noise), epsilon=1.0, delta=1e-5
        ),
        lambda: dp.account(RUN).report(format="json"),
        lambda: dp.account(RUN).tradeoff().fnr(fpr=0.01),
        lambda: Plan(RUN, delta=1e-5).guarantee().epsilon(delta=1e-5),
    ],
    ids=["suggestions", "risk", "samplers", "calibrate", "report", "curve", "plan"],
)
def test_nothing_takes_it_for_a_refusal(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp.Guarantee, "_ends", alarm)
    with pytest.raises(dp.Contradiction):
        ask()


def test_verification_does_not_call_it_unconfirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = dp.account(RUN).report(format="json", delta=1e-5)
    monkeypatch.setattr(dp.Guarantee, "_ends", alarm)
    with pytest.raises(dp.Contradiction):
        verify(text)


@pytest.mark.usefixtures("wrong_theorem")
def test_the_command_line_asks_for_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(Plan(RUN, delta=1e-5).to_json(), "utf-8")
    assert cli.main(["account", str(plan)]) == 1
    said = capsys.readouterr().err
    assert "this is an error in sharpdp, please report it" in said
    assert "next_to_nothing_upper" in said


def test_the_page_asks_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def answering(_: str):
        def ask(_: dict):
            raise dp.Contradiction("first says 1, second says 2.")
            yield

        return ask

    said: list[dict] = []

    class Out:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def say(self, **parts):
            said.append(parts)

    monkeypatch.setattr(worker, "answering", answering)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    worker.answer({"name": "any", "fields": {}}, Out())  # type: ignore[arg-type]
    assert said == [
        {"error": "this is an error in sharpdp, please report it: first says 1, second says 2."}
    ]


def test_brackets_made_by_hand_stay_arguments() -> None:
    with pytest.raises(dp.InvalidArgument, match="lower must be at most upper"):
        dp.Bracket(2.0, 1.0)
    with pytest.raises(dp.InvalidArgument):
        dp.Bracket(np.array([0.0, 2.0]), np.array([1.0, 1.0]))
