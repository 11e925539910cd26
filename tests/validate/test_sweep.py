"""Every public call with every wrong value, one at a time: an error of sharpdp that names an argument.

A call that takes a wrong value for a good one (a fraction for a number) may answer; what it may not do
is fail in a way of Python, numpy or torch, or warn.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import sharpdp as dp
from tests.validate import sweep

LONG = ("Budget", "MixtureComparison.plot")
"""Calls that take ten seconds and more with all wrong values; `make test-slow` has them."""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=call.name, marks=[pytest.mark.slow] if call.name in LONG else [])
        for call in sweep.calls()
    ],
)
def test_wrong_values_get_a_sentence(
    call: sweep.Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some calls write files
    assert sweep.faults(call) == []


def test_the_sweep_finds_what_is_new() -> None:
    """A function that fails in a raw way is caught, and so is one that names nothing."""

    def raw(*, delta: float) -> float:
        return delta + 1.0

    def nameless(*, delta: float) -> float:
        raise dp.InvalidArgument("something is wrong.")

    for function, words in ((raw, "TypeError"), (nameless, "no argument is named")):
        given = tuple(inspect.signature(function).parameters.values())
        assert any(words in fault for fault in sweep.faults(sweep.Call("new", function, given)))


def test_the_sweep_reaches_every_public_name() -> None:
    swept = {call.name.partition(".")[0] for call in sweep.calls()}
    fixed = {name for name in dp.__all__ if sweep.is_fixed(getattr(dp, name))}
    assert set(dp.__all__) - swept - fixed == set()
