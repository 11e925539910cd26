"""Plan files: everything that can be written is read back, and what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.plans import Plan, mechanism_from_data, to_data
from tests.laws.enrolled import MAKERS, Subject

FUNCTIONS = {dp.ProfileMechanism, dp.RenyiCurve, dp.TradeoffCurve, dp.RandomlyInitialisedGD}
"""Mechanisms that hold a function, or a curve, which no file can."""

TOML = """
delta = 1e-5
adjacency = "zero-out"

[mechanism]
kind = "DPSGD"
noise_multiplier = 0.8

[mechanism.batches]
kind = "ShuffledBatches"
dataset_size = 60000
batch_size = 512
epochs = 30
"""

GAUSSIAN = {"kind": "Gaussian", "noise_multiplier": 2.0}


@pytest.mark.parametrize("subject", [s for s in MAKERS if s[0] not in FUNCTIONS], ids=str)
def test_mechanisms_survive_being_written(subject: Subject) -> None:
    rng = np.random.default_rng(8)
    for _ in range(5):
        run = MAKERS[subject](rng)
        for each in (run, run * 3, run + dp.Gaussian(noise_multiplier=2.0)):
            text = json.dumps(to_data(each))
            assert mechanism_from_data(json.loads(text)) == each


def test_a_plan_of_the_api_in_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(TOML)
    plan = Plan.read(path)
    batches = dp.ShuffledBatches(dataset_size=60_000, batch_size=512, epochs=30)
    assert plan.mechanism == dp.DPSGD(batches, noise_multiplier=0.8)
    assert plan.delta == (1e-5,)
    assert plan.guarantee().adjacency is dp.Adjacency.ZERO_OUT


def test_plans_round_trip_and_hash_by_content(tmp_path: Path) -> None:
    plan = Plan(dp.Gaussian(noise_multiplier=2.0) * 4, (1e-6,), "replace-one", 1e-4)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.to_dict()))
    assert Plan.read(path) == plan
    assert Plan.read(path).hash == plan.hash
    assert Plan(plan.mechanism, (1e-7,)).hash != plan.hash


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "must have a mechanism"),
        ({"mechanism": 3}, "must be a mechanism; got 3"),
        ({"mechanism": {"noise_multiplier": 1.0}}, "must have a kind; got noise_multiplier"),
        ({"mechanism": {"kind": "Gausian"}}, "Did you mean 'Gaussian'?"),
        ({"mechanism": {"kind": "PoissonBatches", "sample_rate": 0.1, "steps": 3}}, "a mechanism"),
        ({"mechanism": {**GAUSSIAN, "noise_multiplyer": 1.0}}, "Did you mean 'noise_multiplier'?"),
        ({"mechanism": {"kind": "Gaussian"}}, "needs noise_multiplier"),
        ({"mechanism": {"kind": "Gaussian", "noise_multiplier": -1.0}}, "noise_multiplier must be"),
        ({"mechanism": GAUSSIAN, "delta": 2.0}, "delta must be"),
        ({"mechanism": GAUSSIAN, "deltas": [1e-5]}, "Did you mean 'delta'?"),
        ({"mechanism": {"kind": "Sequence", "mechanisms": [GAUSSIAN, {"kind": "X"}]}}, r"\[1\]"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(data: dict[str, object], words: str) -> None:
    with pytest.raises((dp.InvalidArgument, dp.WrongType), match=words.replace("?", r"\?")):
        Plan.from_dict(data)


def test_files_that_are_no_plans(tmp_path: Path) -> None:
    for name, text, words in (
        ("a.toml", "delta = ", "must be TOML"),
        ("a.json", "{", "must be JSON"),
        ("b.json", "[]", "must hold one object"),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(dp.InvalidArgument, match=words):
            Plan.read(path)
    with pytest.raises(dp.InvalidArgument, match="which is none"):
        Plan.read(tmp_path / "none.toml")


def test_functions_cannot_be_written() -> None:
    with pytest.raises(dp.Unsupported, match="a plan cannot hold"):
        to_data(dp.RenyiCurve.zcdp(rho=0.5))
