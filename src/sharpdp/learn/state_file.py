"""Files that hold the state of a run: locked while it runs, checksummed, and replaced whole.

A `StateFile` starts with a line that holds a checksum of all bytes after it. It is replaced only by a
process that holds the lock of the run, and only if it is still the file which that object read or wrote
last. So a counter in it cannot go down, whoever else has the run open.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import stat
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, WrongType

__all__ = ["RunLock", "StateFile", "free_path_of", "path_of"]


MAGIC = b"sharpdp-state-1 blake2b "
HEADER_BYTES = len(MAGIC) + 2 * hashlib.blake2b().digest_size + 1
"""Length of the first line: the magic, the checksum in hexadecimal digits and the end of the line."""

TEMPORARY = ".new"
"""Ending of a file that is not yet complete."""

_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Opening follows no link and waits for no pipe, on systems that can say so."""


def _header(payload: bytes) -> bytes:
    return MAGIC + hashlib.blake2b(payload).hexdigest().encode() + b"\n"


class StateFile:
    """One file of a run, written only under the run's lock and only over what this object knows.

    ``kind`` completes "path must be" in messages. The lock is that of ``run``, the path after which all
    files of a run are named; it is taken when it is first needed, and kept until `close`, or until this
    object is gone. Symbolic links are not followed.

    >>> folder = Path(tempfile.mkdtemp())
    >>> file = StateFile(folder / "run", "a counter")
    >>> file.write(b"1")
    >>> StateFile(folder / "run", "a counter").read()
    b'1'
    """

    def __init__(self, path: Path, kind: str, *, run: Path | None = None) -> None:
        """Look at nothing yet: the file may or may not be there."""
        folder = Path(os.path.realpath(path.parent))  # also if the process changes its folder
        self.path, self._kind = folder / path.name, kind
        self._run = folder / (path if run is None else run).name
        self._known: bytes | None = None
        self._lock: RunLock | None = None

    @property
    def lock(self) -> RunLock:
        """The lock of the run, held by this process."""
        if self._lock is None:
            self._lock = RunLock.at(self._run)
        self._lock.check()
        return self._lock

    def close(self) -> None:
        """Let go of the lock; the next use takes it again."""
        self._lock = None

    def exists(self) -> bool:
        """Whether there is anything at the path, a broken link included."""
        return os.path.lexists(self.path)

    def read(self) -> bytes:
        """Payload of the file, if it is exactly what was once written."""
        with self.lock.mutex:
            if not self.exists():
                raise self._refused("which does not exist")
            content = self._content()
            header, payload = content[:HEADER_BYTES], content[HEADER_BYTES:]
            if not header.startswith(MAGIC):
                raise self._refused(
                    "which is none: it is no file of sharpdp, or of a version that stored no checksum. "
                    "Begin a new run at another path"
                )
            if header != _header(payload):
                raise self._refused("which is none: it is damaged, and its checksum does not match")
            self._known = header
            return payload

    def write(self, payload: bytes) -> None:
        """Replace the file whole, down to the disk, if it is the one that is known here."""
        with self.lock.mutex:
            self.check()
            header = _header(payload)
            with _writable(self.path):
                _replace(self.path, header, payload)
            self._known = header

    def check(self) -> None:
        """An error unless this process has the lock and the file is the one that is known here."""
        with self.lock.mutex:
            content = self._content(HEADER_BYTES) if self.exists() else None
            if content == self._known:
                return
            if self._known is None:
                raise InvalidArgument(
                    f"path must be free for a new run; got {str(self.path)!r}, which exists. "
                    "Resume the run that was begun there, or choose another path."
                )
            raise InvalidArgument(
                f"path must be as this run left it; got {str(self.path)!r}, which was changed or removed "
                "since, by another run or by hand. Nothing was released; resume from the file."
            )

    def _content(self, most: int = -1) -> bytes:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | _SAFELY)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise self._refused("which is no regular file")
                return file.read(most)
        except OSError as fault:
            raise self._refused(f"which cannot be read: {fault.strerror or fault}") from fault

    def _refused(self, reason: str) -> InvalidArgument:
        return InvalidArgument(f"path must be {self._kind}; got {str(self.path)!r}, {reason}.")


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
        self.path, self.mutex, self._process = path, threading.RLock(), os.getpid()
        self._descriptor = _locked(path)
        weakref.finalize(self, _release, self._descriptor, path, self._process)

    @classmethod
    def at(cls, run: Path) -> RunLock:
        """The lock of the run at this path; what a killed process left half written is removed."""
        path = run.with_name(f"{run.name}.lock")
        with _at_once:
            lock = _locks.get(path)
            if lock is None:
                with _writable(run):
                    lock = cls(path)
                    _remove_leftovers(run)
                _locks[path] = lock
            return lock

    def check(self) -> None:
        """An error if this process does not hold the lock any more."""
        if self._process != os.getpid():
            raise InvalidArgument(
                f"path must be that of a run of this process; got {str(self.path)!r}, which process "
                f"{self._process} holds. A forked process cannot go on with a run of its parent."
            )
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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o600)
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
                raise InvalidArgument(
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
    pattern = re.compile(rf"{re.escape(run.name)}(\.begun)?\.[a-z0-9_]{{8}}{re.escape(TEMPORARY)}")
    for file in run.parent.iterdir():
        if pattern.fullmatch(file.name):
            file.unlink()


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise InvalidArgument(
            f"path must be one that can be written; got {str(path)!r}: {fault.strerror or fault}."
        ) from fault


def _replace(path: Path, *parts: bytes) -> None:
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
    if os.name == "posix":  # elsewhere a folder cannot be flushed; the file itself has been
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
