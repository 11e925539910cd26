"""Files of a run: chains that cannot be rewritten unseen, locks that keep others out, flushed writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.storage import run_lock
from sharpdp.storage.hash_chain import HashChain
from sharpdp.storage.run_lock import RunLock
from sharpdp.storage.state_file import StateFile
from tests.reference.hash_chain import chain_lines


def chain_of(path: Path, *records: dict[str, Any]) -> HashChain:
    chain = HashChain(path)
    for record in records:
        with chain.locked():
            chain.append(record)
    return chain


def lines_of(*records: dict[str, Any]) -> list[str]:
    return chain_lines(list(records))[0]


FIRST, SECOND = {"epsilon": 1.0}, {"note": "a"}


def test_the_last_hash_is_one_of_all_records(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "log", FIRST, SECOND)
    assert chain.path.read_text("ascii") == "".join(lines_of(FIRST, SECOND))
    assert chain.head == json.loads(lines_of(FIRST, SECOND)[-1])["hash"]


def test_a_chain_that_was_written_anew_is_not_the_one_that_its_head_has_seen(
    tmp_path: Path,
) -> None:
    path = chain_of(tmp_path / "log", FIRST, SECOND).path
    path.write_text("".join(lines_of({"epsilon": 9.0}, SECOND)), "ascii")
    found = HashChain(path).first_break()
    assert found is not None
    assert "not the line that log.head has seen" in found.why


def test_a_head_that_cannot_be_read_is_a_break(tmp_path: Path) -> None:
    path = chain_of(tmp_path / "log", FIRST, SECOND).path
    path.with_name("log.head").write_text("{}", "ascii")
    found = HashChain(path).first_break()
    assert found is not None
    assert "log.head cannot be read" in found.why


def test_what_another_program_appends_meanwhile_is_not_cut_off(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "log", FIRST)
    with chain.path.open("a", encoding="ascii") as file:
        file.write(lines_of(FIRST, SECOND)[-1])
    with chain.locked(), pytest.raises(dp.InvalidArgument, match="not be written by others"):
        chain.append({"note": "b"})
    assert chain.path.read_text("ascii") == "".join(lines_of(FIRST, SECOND))


def flushed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is brought to the disk from now on: the numbers of files, and their sizes then."""
    seen: list[tuple[int, int]] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        real(descriptor)
        status = os.fstat(descriptor)
        seen.append((status.st_ino, status.st_size))

    monkeypatch.setattr(os, "fsync", noted)
    return seen


def on_disk(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_size


def test_a_record_is_on_the_disk_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = chain_of(tmp_path / "log", FIRST)
    seen = flushed(monkeypatch)
    with chain.locked():
        chain.append(SECOND)
    assert on_disk(chain.path) in seen
    assert on_disk(tmp_path / "log.head") in seen


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be flushed")
def test_a_state_and_its_name_are_on_the_disk_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = flushed(monkeypatch)
    StateFile(tmp_path / "run", "a counter").write(b"1")
    assert on_disk(tmp_path / "run") in seen
    assert tmp_path.stat().st_ino in [number for number, _ in seen]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")
def test_a_forked_process_does_not_have_the_lock(tmp_path: Path) -> None:
    lock = RunLock.at(tmp_path / "run")
    lock.check()
    child = os.fork()
    if not child:
        try:
            lock.check()
        except dp.InvalidArgument as refusal:
            os._exit(17 if "in the process that made it" in str(refusal) else 18)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


@pytest.mark.skipif(os.name != "posix", reason="files that are open stay")
def test_a_lock_whose_file_is_gone_is_none(tmp_path: Path) -> None:
    lock = RunLock.at(tmp_path / "run")
    (tmp_path / "run.lock").unlink()
    with pytest.raises(dp.InvalidArgument, match="removed or replaced"):
        lock.check()


@pytest.mark.skipif(os.name != "posix", reason="files that are open stay")
def test_a_lock_on_a_file_that_was_just_removed_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last holder removes its file between our opening it and our locking it."""
    real, path, turns = run_lock._lock, tmp_path / "run.lock", iter(range(3))

    def removed_first(descriptor: int) -> bool:
        if next(turns) == 0:
            path.unlink()
        return real(descriptor)

    monkeypatch.setattr(run_lock, "_lock", removed_first)
    lock = RunLock.at(tmp_path / "run")
    lock.check()
    assert path.exists()
