"""Answers of runs whose key or seed was given say so: whoever knows it knows every draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.learn import CLDPSGD, BlockRun, BlockSGD, ClientRun, PrivUnitBall
from sharpdp.randomness.given_secret import GIVEN_KEY, SEEDED, conditions_on
from sharpdp.report import verify
from sharpdp.report.verification import Verdict

CLIENTS = CLDPSGD(
    randomizer=PrivUnitBall(dimension=2, local_epsilon=1.0), users=20, population=50, rounds=4
)
BLOCKS = BlockSGD(records=40, blocks=10, epochs=4, local_epsilon=1.0, clip=1.0, dimension=2)


def to_ones(theta: Any, numbers: Any) -> Any:
    return np.tile(theta - 1.0, (len(numbers), 1))


def clients(**options: Any) -> ClientRun:
    return ClientRun(CLIENTS, to_ones, np.zeros(2), **options)


def blocks(**options: Any) -> BlockRun:
    return BlockRun(BLOCKS, to_ones, np.zeros(2), **options)


@pytest.mark.parametrize("run", [clients, blocks])
@pytest.mark.parametrize("rng", [0, np.random.default_rng(3)])
def test_seeds_are_conditions(run: Any, rng: Any) -> None:
    seeded, fresh = run(rng=rng).run(1).guarantee, run().run(1).guarantee
    assert seeded.holds_when[-1] == SEEDED
    assert SEEDED not in fresh.holds_when
    assert seeded.epsilon(delta=1e-5) == fresh.epsilon(delta=1e-5)
    assert "under 1 condition of the run" in str(seeded)


def test_resumed_clients_remember_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    begun = clients(path=path, rng=1).run(1)
    begun.close()
    resumed = ClientRun.resumed(CLIENTS, to_ones, path=path)
    resumed.run(1)
    assert SEEDED in resumed.guarantee.holds_when


def test_resumed_blocks_remember_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    begun = blocks(path=path, rng=1).run(1)
    begun.close()
    resumed = BlockRun(BLOCKS, to_ones, path=path).run(1)
    assert SEEDED in resumed.guarantee.holds_when


def test_reports_and_cards_have_the_condition() -> None:
    answer = clients(rng=0).run(1).guarantee
    line = f"{SEEDED[0].upper()}{SEEDED[1:]}."
    data = json.loads(answer.report("json", delta=1e-5))
    assert data["conditions"] == [SEEDED]
    assert line in data["checklist"]
    for kind in ("markdown", "html", "model-card"):
        assert line in answer.report(kind, delta=1e-5)
    assert SEEDED in answer.report("registry", delta=1e-5)
    words = " ".join(answer.report("text", delta=1e-5).split())
    assert line in words
    assert f"You must also ensure: {SEEDED}." in words


def test_conditions_are_verified_as_recorded() -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0)).provided("the key stays secret")
    text = answer.report("json", delta=1e-5)
    found = verify(text)
    assert found.verdict is Verdict.CONFIRMED
    assert "/conditions/0 (the key stays secret)" in found.unchecked
    assert dp.Guarantee.from_json(text) == answer
    data = json.loads(text)
    del data["conditions"]  # but not the line of the checklist
    assert verify(json.dumps(data)).verdict is Verdict.CONTRADICTED


def test_conditions_are_clauses() -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    assert answer.provided() == answer
    assert answer.provided("a", "a").provided("a").conditions == ("a",)
    for wrong in ("", " ", "two\nlines"):
        with pytest.raises(dp.InvalidArgument, match="condition must be"):
            answer.provided(wrong)
    with pytest.raises(WrongType, match="condition must be"):
        answer.provided(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [None, 7, b"k" * 32])
def test_samplers_know_whether_their_key_was_given(key: Any) -> None:
    from sharpdp.integrations.torch import BatchSampler

    plan = dp.PoissonBatches(sample_rate=0.5, steps=3, dataset_size=2)
    expected = {None: (), 7: (SEEDED,), b"k" * 32: (GIVEN_KEY,)}[key]
    assert BatchSampler(plan, key).conditions == expected == conditions_on(key)
