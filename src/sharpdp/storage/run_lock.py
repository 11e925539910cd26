"""Locks between processes, files that are replaced whole, and paths: what survives a crash.

A lock is one of the operating system, so that it ends with its process. What is written is on the disk
when the call returns.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, WrongType

__all__ = [
    "SAFELY",
    "OwnProcess",
    "RunLock",
    "flush_folder",
    "free_path_of",
    "path_of",
    "replace_file",
    "writable",
]

TEMPORARY = ".new"
"""Ending of a file that is not yet complete."""

SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Opening follows no link and waits for no pipe, on systems that can say so."""


class InUse(InvalidArgument):
    """Another process holds the lock."""


class OwnProcess:
    """The process in which a run was made: a fork of it may not go on with the run.

    Both sides would have the same key and the same steps ahead, and each would count its own only.
    """

    def __init__(self) -> None:
        """Note this process."""
        self.number = os.getpid()

    def check(self) -> None:
        """An error in any other process."""
        if self.number != os.getpid():
            raise InvalidArgument(
                f"a run must go on in the process that made it, {self.number}; got process "
                f"{os.getpid()}, which was forked off. Nothing was released. Resume the run from its "
                "file, or make a run of its own there."
            )


class RunLock:
    """The right of this process to write the files of one run; no other process has it meanwhile.

    It is a lock of the operating system on the file ``path.lock``, so that it ends with the process,
    however that ends. All objects of a process that work on the same path share one lock: `mutex` keeps
    their threads apart. A process that is forked off does not have it.

    >>> path = Path(tempfile.mkdtemp()) / "run"
    >>> lock = RunLock.at(path)
    >>> lock is RunLock.at(path), path.with_name("run.lock").exists()
    (True, True)
    >>> del lock
    >>> path.with_name("run.lock").exists()
    False
    """

    def __init__(self, path: Path) -> None:
        """Take the lock, or say who has it; use `at`, which shares."""
        self.path, self.mutex, self._process = path, threading.RLock(), OwnProcess()
        self._descriptor = _locked(path)
        weakref.finalize(self, _release, self._descriptor, path, self._process.number)

    @classmethod
    def at(cls, run: Path, *, patience: float = 0.0) -> RunLock:
        """The lock of the run at this path; what a killed process left half written is removed.

        `patience` is for how many seconds a lock of another process is waited for.
        """
        path = run.with_name(f"{run.name}.lock")
        until = time.monotonic() + patience
        while True:
            try:
                return cls._taken(run, path)
            except InUse:
                if time.monotonic() >= until:
                    raise
            time.sleep(0.002)

    @classmethod
    def _taken(cls, run: Path, path: Path) -> RunLock:
        with _at_once:
            lock = _locks.get(path)
            if lock is None:
                with writable(run):
                    lock = cls(path)
                    _remove_leftovers(run)
                _locks[path] = lock
            return lock

    def check(self) -> None:
        """An error if this process does not hold the lock any more."""
        self._process.check()
        if not _is_at(self._descriptor, self.path):
            raise InvalidArgument(
                f"path must stay locked while a run goes on; got {str(self.path)!r}, which was removed "
                "or replaced. Nothing was released; resume from the file of the run."
            )

    def forget(self) -> None:
        """Close the descriptor that a forked process has inherited; its parent keeps the lock."""
        os.close(self._descriptor)


_at_once = threading.Lock()
_locks: weakref.WeakValueDictionary[Path, RunLock] = weakref.WeakValueDictionary()


def _forget_locks_of_parent() -> None:
    """In a forked process: the lock must not outlive the parent because of this process."""
    global _at_once
    _at_once = threading.Lock()
    for lock in list(_locks.values()):
        lock.forget()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks_of_parent)


def _locked(path: Path) -> int:
    """A descriptor of the lock file, locked; an error that names the holder if another one has it."""
    for _ in range(100):
        # who may read a file of a run: checkpoints hold the key, journals the parameters
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | SAFELY, 0o600)
        try:
            holder = os.read(descriptor, 1000)
            match = re.fullmatch(rb"(\d+) ([!-~]*)\n", holder)
            if holder and not match:
                raise InvalidArgument(
                    f"path must have room for a lock beside it; got {str(path)!r}, which is another file."
                )
            if not _lock(descriptor):
                who = "another one"
                if match:
                    who = f"process {match[1].decode()} on {match[2].decode()}"
                raise InUse(
                    "path must not be in use by another process; got "
                    f"{str(path.with_suffix(''))!r}, which {who} has locked. Wait until it ends, or "
                    "choose another path."
                )
            if _is_at(descriptor, path):  # else the last holder has just removed it
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(
                    descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode("ascii", "replace")
                )
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise InvalidArgument(f"path must be one that can be locked; got {str(path)!r}, which changes.")


try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    def _lock(descriptor: int) -> bool:
        """Lock a byte far behind the text, which others may go on reading; False if it is locked."""
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True

else:

    def _lock(descriptor: int) -> bool:
        """Lock the file; False if it is locked."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _release(descriptor: int, path: Path, process: int) -> None:
    """Remove the lock file and end the lock; nothing in a process that was forked off."""
    if process == os.getpid():
        if _is_at(descriptor, path):
            with suppress(OSError):  # Windows keeps files that are open
                path.unlink()
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one at the path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _remove_leftovers(run: Path) -> None:
    """Remove files that a killed process did not complete; the lock of the run must be held."""
    name, ending = re.escape(run.name), re.escape(TEMPORARY)
    pattern = re.compile(rf"{name}(\.begun|\.head)?\.[a-z0-9_]{{8}}{ending}")
    for file in run.parent.iterdir():
        if pattern.fullmatch(file.name):
            file.unlink()


@contextmanager
def writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise InvalidArgument(
            f"path must be one that can be written; got {str(path)!r}: {fault.strerror or fault}."
        ) from fault


def replace_file(path: Path, *parts: bytes) -> None:
    """Write the file whole or not at all, down to the disk."""
    # mkstemp: O_EXCL, O_NOFOLLOW, mode 0600 and a name that cannot be foreseen
    descriptor, name = tempfile.mkstemp(TEMPORARY, f"{path.name}.", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; where that cannot be done, files have been flushed."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def path_of(**argument: object) -> Path:
    """The argument as a path of a file, in whatever folder.

    >>> path_of(path="run").name
    'run'
    """
    ((name, value),) = argument.items()
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise WrongType(f"{name} must be a path; got {short_repr(value)}.")
    if not Path(text).name or "\0" in text:
        raise InvalidArgument(f"{name} must be the path of a file; got {short_repr(value)}.")
    return Path(text)


def free_path_of(**argument: object) -> Path:
    """The argument as a path at which a file can be written: its folder is there.

    >>> free_path_of(path="no such folder/run")
    Traceback (most recent call last):
    sharpdp.errors.InvalidArgument: path must be in a folder that exists; got 'no such folder/run'.
    """
    ((name, value),) = argument.items()
    path = path_of(**argument)
    if not path.parent.is_dir():
        raise InvalidArgument(f"{name} must be in a folder that exists; got {str(value)!r}.")
    if path.is_dir():
        raise InvalidArgument(f"{name} must be the path of a file; got the folder {str(value)!r}.")
    return path
