"""Wrong things given to runs of clients and of blocks, and to randomizers: nothing is drawn for them."""

from __future__ import annotations

import hashlib
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.learn import (
    CLDPSGD,
    BlockRun,
    BlockSGD,
    ClientRun,
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    clipped,
)

BALL = PrivUnitBall(dimension=3, local_epsilon=1.0)
CLIENTS = CLDPSGD(randomizer=BALL, users=4, population=20, rounds=5)
BLOCKS = BlockSGD(records=20, blocks=5, epochs=4, local_epsilon=1.0, clip=1.0, dimension=3)
RAGGED = [[1.0], [1.0, 2.0]]


def zeros(_: Any, numbers: Any) -> Any:
    return np.zeros((len(numbers), 3))


def sealed(path: Path, payload: bytes) -> None:
    """Write a state file with a checksum that fits."""
    checksum = hashlib.blake2b(payload).hexdigest().encode()
    path.write_bytes(b"sharpdp-state-1 blake2b " + checksum + b"\n" + payload)


def payload_of(path: Path) -> bytes:
    return path.read_bytes().partition(b"\n")[2]


def run_of(kind: str, **changes: Any) -> Any:
    make, plan = {"clients": (ClientRun, CLIENTS), "blocks": (BlockRun, BLOCKS)}[kind]
    return make(**{"plan": plan, "gradients": zeros, "parameters": np.zeros(3), **changes})


WRONG = [
    ({"plan": None}, "plan must be a"),
    ({"plan": BALL}, "plan must be a"),
    ({"plan": CLDPSGD}, "plan must be a"),
    ({"gradients": None}, "gradients must be a function"),
    ({"gradients": np.zeros((4, 3))}, "gradients must be a function"),
    ({"gradients": np.ndarray}, "gradients must be a function"),
    ({"parameters": "abc"}, "parameters must be 3 finite numbers"),
    ({"parameters": ["a", "b", "c"]}, "parameters must be 3 finite numbers"),
    ({"parameters": [None] * 3}, "parameters must be 3 finite numbers"),
    ({"parameters": RAGGED}, "parameters must be 3 finite numbers"),
    ({"parameters": [1j, 0, 0]}, "parameters must be 3 finite numbers"),
    ({"parameters": [10**400, 0, 0]}, "parameters must be 3 finite numbers"),
    ({"parameters": [math.inf, 0, 0]}, "got inf as number 0"),
    ({"path": 3}, "path must be a path"),
    ({"path": "no/such/folder/run"}, "path must be in a folder that exists"),
    ({"path": ""}, "path must be the path of a file"),
    ({"rng": "x"}, "rng must be"),
    ({"rng": np.random}, "rng must be"),
    ({"rng": np.random.RandomState(1)}, "rng must be"),
    ({"rng": -1}, "rng must be"),
    ({"rng": True}, "rng must be"),
    ({"rng": (x for x in (1, 2))}, "rng must be"),
]


@pytest.mark.parametrize("kind", ["clients", "blocks"])
@pytest.mark.parametrize(("changes", "words"), WRONG, ids=range(len(WRONG)))
def test_runs_of_nothing(kind: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        run_of(kind, **changes)


@pytest.mark.parametrize("kind", ["clients", "blocks"])
@pytest.mark.parametrize(
    "bad",
    [
        None,
        "x",
        RAGGED,
        3.0,
        np.zeros(3),
        np.zeros((1, 3)),
        np.full((4, 3), math.nan),
        {},
        [["a"] * 3],
    ],
    ids=range(9),
)
def test_gradients_that_are_none(kind: str, bad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(kind, gradients=lambda *_: bad, strict=True)
    for randomizer in (PrivUnitBall, LatticeLaplace):  # neither may draw a report
        monkeypatch.setattr(randomizer, "reports", None)
    with pytest.raises(dp.InvalidArgument, match="gradients must"):
        run.run()
    np.testing.assert_array_equal(run.parameters, np.zeros(3))
    assert run.begun == (
        kind == "blocks"
    )  # an epoch counts from its start, a round from its reports


class Own(Exception):
    """What a function of the user raises."""


def test_what_gradients_raise_themselves_is_not_hidden_and_counts_what_was_begun() -> None:
    calls = []

    def failing(_: Any, numbers: Any) -> Any:
        calls.append(len(numbers))
        if len(calls) == 3:
            raise Own
        return np.ones((len(numbers), 3))

    blocks = run_of("blocks", gradients=failing)
    with pytest.raises(Own):
        blocks.run()
    assert (blocks.begun, blocks.finished) == (1, 0)
    assert blocks.run().mechanism.epochs == BLOCKS.epochs
    assert blocks.finished == BLOCKS.epochs - 1
    calls.clear()
    clients = run_of("clients", gradients=failing)
    with pytest.raises(Own):
        clients.run()
    assert (clients.begun, clients.finished) == (2, 2)


def test_a_projection_that_fails_spends_its_round() -> None:
    for bad in (
        lambda theta: None,
        lambda theta: "x",
        lambda theta: theta[:2],
        lambda theta: theta * math.nan,
    ):
        plan = CLDPSGD(randomizer=BALL, users=4, population=20, rounds=5, projection=bad)
        run = ClientRun(plan, zeros, np.zeros(3))
        with pytest.raises(dp.InvalidArgument, match="parameters must be 3"):
            run.step()
        assert (run.begun, run.finished) == (1, 0)
        np.testing.assert_array_equal(run.parameters, np.zeros(3))


@pytest.mark.parametrize("kind", ["clients", "blocks"])
def test_journals_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_of(kind, path=path).run(2)
    note = path.with_name("run.begun")
    kept, begun = path.read_bytes(), note.read_bytes()

    def resumed() -> Any:
        if kind == "clients":
            return ClientRun.resumed(CLIENTS, zeros, path=path)
        return BlockRun(BLOCKS, zeros, path=path)

    assert resumed().begun == 2
    told = json.loads(payload_of(note))
    notes = [b"", b"{", b"[]", b"null", b"\xff\xfe", json.dumps({**told, "begun": -1}).encode()]
    notes += [json.dumps({**told, "begun": value}).encode() for value in ("x", None, 1.5, 1e30)]
    for wrong in notes:
        sealed(note, wrong)
        with pytest.raises(dp.InvalidArgument, match="path must be that of a run"):
            resumed()
    note.write_bytes(begun)
    for wrong in (b"", b"hello", kept[: len(kept) // 2], bytes(len(kept))):
        sealed(path, wrong)
        with pytest.raises(dp.InvalidArgument, match="path must be that of a run"):
            resumed()
    arrays = {**told, "finished": 2, "parameters": np.zeros(3)}
    strange = {"parameters": [np.zeros(2), np.array([None]), np.array("x"), np.full(3, math.nan)]}
    strange |= {"finished": [-1, "x", np.zeros(2)], "plan": ["another plan"], "run": ["another"]}
    for name, values in strange.items():
        for value in values:
            buffer = io.BytesIO()
            np.savez(buffer, **{**arrays, name: value})
            sealed(path, buffer.getvalue())
            with pytest.raises(dp.InvalidArgument, match="must be"):
                resumed()
    note.unlink()
    with pytest.raises(dp.InvalidArgument, match="rounds would not be counted"):
        resumed()


def test_a_resumed_run_never_counts_less_than_was_begun(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_of("clients", path=path).run(3)
    note = path.with_name("run.begun")
    sealed(note, json.dumps({**json.loads(payload_of(note)), "begun": 1}).encode())  # an older one
    assert ClientRun.resumed(CLIENTS, zeros, path=path).begun == 3


@pytest.mark.parametrize(
    "norm",
    [10**400, 0.5, -1, math.nan, "2", None, True, 1j, np.complex128(2), [2], np.zeros(2)],
    ids=str,
)
def test_norms_that_are_none(norm: Any) -> None:
    with pytest.raises(dp.InvalidArgument, match=r"norm must be a number from 1 to math\.inf"):
        clipped([[1.0, 2.0]], radius=1.0, norm=norm)


SOME = [
    CoordinateSigns(dimension=2, local_epsilon=1.0),
    HadamardSigns(dimension=2, local_epsilon=1.0),
    LatticeLaplace(dimension=2, local_epsilon=1.0),
    PrivUnit(dimension=2, local_epsilon=1.0),
    PrivUnitBall(dimension=2, local_epsilon=1.0),
    RandomizedAnswers(local_epsilon=1.0),
]
STRANGE = [None, "x", RAGGED, {}, 3.0, 1j, np.array([None, "x"], dtype=object), np.array([1j, 2.0])]
STRANGE += [
    [10**400, 1],
    [["a", "b"]],
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    [math.nan, 1.0],
]


@pytest.mark.parametrize("randomizer", SOME, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("strange", STRANGE, ids=range(len(STRANGE)))
def test_records_and_reports_that_are_none(randomizer: Any, strange: Any) -> None:
    for method in (randomizer.reports, randomizer.variance):
        with pytest.raises(dp.InvalidArgument, match="records must"):
            method(strange)
    for method in (randomizer.estimates, randomizer.mean):
        with pytest.raises(dp.InvalidArgument, match="reports must"):
            method(strange)


def test_tables_that_would_not_fit_are_not_begun() -> None:
    wide = CoordinateSigns(dimension=10**8, local_epsilon=1.0)
    with pytest.raises(dp.InvalidArgument, match="reports must be few enough"):
        wide.estimates(np.zeros(1000, dtype=np.int64))
    many = RandomizedAnswers(local_epsilon=1.0, categories=10**9)
    for method in (many.estimates, many.mean):
        with pytest.raises(dp.InvalidArgument, match="reports must be few enough"):
            method([0])
    with pytest.raises(dp.InvalidArgument, match="reports"):
        SOME[0].estimates(np.array([2**63 + 1], dtype=np.uint64))


@pytest.mark.parametrize("order", [1.0, 0.5, math.nan, math.inf, "x", None, [2.0]])
def test_orders_of_the_printed_formula(order: Any) -> None:
    with pytest.raises(dp.InvalidArgument, match="order must be"):
        BLOCKS.published_renyi(order)
