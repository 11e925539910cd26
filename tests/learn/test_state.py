"""Files of runs: one process at a time, no count that goes down, no damaged byte that is believed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.learn import CLDPSGD, BlockRun, BlockSGD, ClientRun, PrivUnitBall

BALL = PrivUnitBall(dimension=2, local_epsilon=1.0)
CLIENTS = CLDPSGD(randomizer=BALL, users=4, population=20, rounds=20)
BLOCKS = BlockSGD(records=20, blocks=5, epochs=20, local_epsilon=1.0, clip=1.0, dimension=2)
KINDS = ["clients", "blocks"]


def zeros(_: Any, numbers: Any) -> Any:
    return np.zeros((len(numbers), 2))


def new(kind: str, path: Path) -> Any:
    if kind == "clients":
        return ClientRun(CLIENTS, zeros, np.zeros(2), path=path)
    return BlockRun(BLOCKS, zeros, np.zeros(2), path=path)


def resumed(kind: str, path: Path) -> Any:
    if kind == "clients":
        return ClientRun.resumed(CLIENTS, zeros, path=path)
    return BlockRun(BLOCKS, zeros, path=path)


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# --- two handles, two processes


@pytest.mark.parametrize("kind", KINDS)
def test_s3_two_handles_on_one_journal(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    old = new(kind, path)
    recent = resumed(kind, path).run(9)
    with pytest.raises(dp.InvalidArgument, match="path must be as this run left it"):
        old.run(1)
    assert (old.begun, resumed(kind, path).begun) == (0, 9)
    assert recent.run(1).begun == resumed(kind, path).begun == 10


@pytest.mark.parametrize("kind", KINDS)
def test_s3_two_handles_in_turn(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    handles = [new(kind, path), resumed(kind, path)]
    drawn = 0
    for _ in range(5):
        for handle in handles:
            try:
                drawn += handle.run(1) is handle
            except dp.InvalidArgument:
                continue
    assert drawn == resumed(kind, path).begun == 5


@pytest.mark.parametrize("kind", KINDS)
def test_s3_a_count_never_goes_down(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    old, recent = new(kind, path), resumed(kind, path)
    recent.run(9)
    with contextlib.suppress(dp.InvalidArgument):
        old.run(1)
    assert resumed(kind, path).begun >= 9


def test_s3_threads_that_share_a_run_are_counted() -> None:
    run = ClientRun(CLIENTS, zeros, np.zeros(2))
    drawn: list[int] = []
    reports = PrivUnitBall.reports

    def counting(self: Any, records: Any, rng: Any = None) -> Any:
        drawn.append(1)
        return reports(self, records, rng)

    def rounds() -> None:
        for _ in range(20):
            try:
                run.step()
            except dp.InvalidArgument:
                return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivUnitBall, "reports", counting)
        threads = [threading.Thread(target=rounds) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(drawn) == run.begun >= 20


RUN = """
import os, sys
import numpy as np
import sharpdp as dp
from pathlib import Path
{before}
from sharpdp.learn import CLDPSGD, ClientRun, PrivUnitBall
ball = PrivUnitBall(dimension=2, local_epsilon=1.0)
plan = CLDPSGD(randomizer=ball, users=4, population=20, rounds=20)
path = Path(sys.argv[1])
run = ClientRun(plan, lambda _, who: np.zeros((len(who), 2)), np.zeros(2), path=path)
again = lambda: ClientRun.resumed(plan, run._gradients, path=path)
{after}
"""

HOLDER = """
run.run(3)
print("ready", flush=True)
sys.stdin.readline()
"""

FORKED = """
child = os.fork()
if not child:
    refused = 0
    for attempt in (lambda: run.run(1), again):
        try:
            attempt()
        except dp.InvalidArgument:
            refused += 1
    sys.exit(refused)  # not os._exit: what is registered for the exit must not end the lock
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), path.with_name("run.lock").exists())
print(run.run(1).begun)
"""

NO_FCNTL = """
import subprocess, types  # scipy imports it, and takes msvcrt for Windows
locked = []
def locking(descriptor, mode, size):
    if locked:
        raise PermissionError(13, "Permission denied")
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
sys.modules["fcntl"] = None
"""

REFUSED = """
print(run.run(2).begun)
run.close()
locked.append(True)
try:
    again()
except dp.InvalidArgument as fault:
    print(fault)
"""


def command(path: Path, before: str = "", after: str = "") -> list[str]:
    return [sys.executable, "-c", RUN.format(before=before, after=after), str(path)]


def told(words: list[str]) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout


def test_s3_two_processes_on_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "run"
    pipe = subprocess.PIPE
    with subprocess.Popen(command(path, after=HOLDER), stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        for attempt in (resumed, new):
            with pytest.raises(dp.InvalidArgument, match=f"process {other.pid} on .* has locked"):
                attempt("clients", path)
        other.kill()
    again = resumed("clients", path)  # the lock ended with the process
    assert again.run(1).begun == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_s3_a_forked_process_has_no_part_in_the_run(tmp_path: Path) -> None:
    assert told(command(tmp_path / "run", after=FORKED)).split() == ["2", "True", "1"]


def test_s3_lock_where_fcntl_is_missing(tmp_path: Path) -> None:
    lines = told(command(tmp_path / "run", before=NO_FCNTL, after=REFUSED)).splitlines()
    assert lines[0] == "2"
    assert lines[1].startswith("path must not be in use by another process")


def test_s3_the_lock_lasts_as_long_as_the_run(tmp_path: Path) -> None:
    path, lock = tmp_path / "run", tmp_path / "run.lock"
    run = new("clients", path).run(2)
    assert lock.exists()
    lock.unlink()
    with pytest.raises(dp.InvalidArgument, match="path must stay locked"):
        run.run(1)
    assert run.begun == 2
    run.close()
    assert run.run(1).begun == 3  # it takes the lock again, and nobody has written meanwhile
    assert lock.exists()
    run.run()
    assert (run.left, files(tmp_path)) == (0, ["run", "run.begun"])


def test_s3_a_file_that_is_no_lock_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.lock").write_text("my own\n")
    with pytest.raises(dp.InvalidArgument, match="path must have room for a lock"):
        new("clients", tmp_path / "run")
    assert (tmp_path / "run.lock").read_text() == "my own\n"
    assert files(tmp_path) == ["run.lock"]


# --- damaged files


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["run", "run.begun"])
def test_s9_every_byte_of_a_journal_is_checked(kind: str, name: str, tmp_path: Path) -> None:
    path, file = tmp_path / "run", tmp_path / name
    run = new(kind, path).run(3)
    whole = file.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [
        whole[:place] + bytes([byte ^ 1 << int(rng.integers(8))]) + whole[place + 1 :]
        for place, byte in enumerate(whole)
        if name == "run.begun" or place < 160 or place % 10 == 0  # all in killed_runs.py
    ]
    damaged += [whole[:length] for length in range(0, len(whole), 30)]
    damaged += [whole + b"\n", whole + b"\0", whole + whole, b"\n" + whole]
    for wrong in damaged:
        file.write_bytes(wrong)
        with pytest.raises(dp.InvalidArgument, match="path must be that of a run that was begun"):
            resumed(kind, path)
    file.write_bytes(whole)
    assert resumed(kind, path).begun == run.begun == 3


def test_s9_journals_without_a_checksum_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    new("clients", path).run(2)
    for file in (path, tmp_path / "run.begun"):
        file.write_bytes(file.read_bytes().partition(b"\n")[2])  # as sharpdp 1.0 wrote them
    with pytest.raises(dp.InvalidArgument, match="a version that stored no checksum"):
        resumed("clients", path)


def test_s9_files_of_two_runs_are_not_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    new("clients", one).run(5)
    new("clients", other).run(1)
    (tmp_path / "one.begun").write_bytes((tmp_path / "other.begun").read_bytes())
    with pytest.raises(dp.InvalidArgument, match="written by another run"):
        resumed("clients", one)


def test_s9_the_checksum_is_blake2b(tmp_path: Path) -> None:
    new("clients", tmp_path / "run").run(1)
    for name in ("run", "run.begun"):
        first, _, rest = (tmp_path / name).read_bytes().partition(b"\n")
        assert first.split()[-1].decode() == hashlib.blake2b(rest).hexdigest()


# --- how files are written


@pytest.mark.parametrize("name", ["run.new", "run.begun.new", "run", "run.begun"])
def test_s13_planted_links_are_not_followed(name: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"of somebody else")
    path = tmp_path / "run"
    (tmp_path / name).symlink_to(target)
    try:
        new("clients", path).run(1)
    except dp.InvalidArgument:
        assert not name.endswith(".new")
    else:
        assert name.endswith(".new")
        assert not path.is_symlink()
    assert target.read_bytes() == b"of somebody else"


def test_s13_files_are_their_owners_alone(tmp_path: Path) -> None:
    run = new("clients", tmp_path / "run").run(1)
    assert files(tmp_path) == ["run", "run.begun", "run.lock"]
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
    assert run.begun == 1


def test_s13_files_that_were_not_completed_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    run = new("clients", path).run(1)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(dp.InvalidArgument, match="No space left on device"):
            run.run(1)
    assert run.begun == 1
    assert files(tmp_path) == ["run", "run.begun", "run.lock"]
    assert run.run(1).begun == 2
    run.close()
    for name in ("run.a1b2_3d4.new", "run.begun.a1b2_3d4.new"):  # of a process that was killed
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "run.other.new").write_bytes(b"of somebody else")
    assert resumed("clients", path).run().begun == 20
    assert files(tmp_path) == ["run", "run.begun", "run.other.new"]


class Killed(BaseException):
    """Not an Exception: nothing in the library may catch it."""


@pytest.mark.parametrize("kind", KINDS)
def test_s13_killed_while_a_run_is_created(kind: str, tmp_path: Path) -> None:
    flush, left = os.fsync, [0]

    def flushing(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        flush(handle)

    outcomes = []
    for moments in range(5):
        path, left[0] = tmp_path / str(moments), moments
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", flushing)
            with contextlib.suppress(Killed):
                new(kind, path).close()
        try:
            run = resumed(kind, path)
        except dp.InvalidArgument:
            run = new(kind, path)
            outcomes.append("begun")
        else:
            outcomes.append("resumed")
        assert run.run(1).begun == 1
    assert outcomes == ["begun"] * 3 + ["resumed"] * 2


def test_s13_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = new("clients", Path("run")).run(1)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run.run(1).begun == 2
    assert files(tmp_path / "elsewhere") == []
    assert resumed("clients", tmp_path / "run").begun == 2
