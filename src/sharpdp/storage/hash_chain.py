"""A file of JSON lines that is only appended to, each line bound to all lines before it by a hash.

A line holds a record and the hash of (the hash of the line before, the record). So a changed, removed or
inserted line is found, with its number. Lines that are cut off at the end leave a chain that is whole;
they are found by a second file, which ends in .head and holds the number of lines and the last hash. It
is there before the second line is: where it is missing beside several lines, somebody removed it. There
is no secret in a chain, so whoever can write both files can write another one; only a hash of the last
line that is kept elsewhere tells.

Lines are appended by one process at a time, under a lock, and are on the disk when the call returns. A
process that is killed may leave an unfinished last line, whose record nobody was told to be kept: it is
left out, and removed by the next one that appends, unless all of it but its end of line is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sharpdp.errors import InvalidArgument
from sharpdp.storage.run_lock import SAFELY, RunLock, flush_folder, replace_file, writable

__all__ = ["Break", "HashChain"]

Record = dict[str, Any]

START = hashlib.sha256(b"sharpdp hash chain 1").hexdigest()
"""What stands for the hash before the first line."""

State: TypeAlias = tuple[int, int, int, int]
"""Which file it is, how long, and when it was last written."""

PATIENCE = 60.0
"""Seconds for which another process is waited for."""


@dataclass(frozen=True)
class Break:
    """Where a chain breaks, and why.

    Args:
        line: Number of the line, from 1 on.
        why: What is wrong with it.
        unfinished: Whether it is a last line that was not finished: an append that was interrupted.
    """

    line: int
    why: str
    unfinished: bool = False

    def __str__(self) -> str:
        """The break in one sentence."""
        before = f"lines 1 to {self.line - 1} are intact" if self.line > 1 else "no line is intact"
        return f"line {self.line}: {self.why}; {before}"


class HashChain:
    """The chain in one file; it knows the records that it has read, and reads on where it stopped.

    >>> from tempfile import mkdtemp
    >>> chain = HashChain(Path(mkdtemp()) / "log.jsonl")
    >>> with chain.locked():
    ...     chain.append({"first": 1})
    >>> HashChain(chain.path).read()
    [{'first': 1}]
    """

    def __init__(self, path: Path) -> None:
        """Look at nothing yet: the file may or may not be there."""
        folder = Path(os.path.realpath(path.parent))
        self.path = folder / path.name
        self._head_path = self.path.with_name(f"{self.path.name}.head")
        self._forget()

    def _forget(self) -> None:
        self.records: list[Record] = []
        self.hashes: list[str] = []
        self._size, self._known = 0, hashlib.sha256()
        self._state: State = (0, 0, 0, 0)
        self._tail, self._endless = b"", False

    @property
    def head(self) -> str:
        """The hash of the last line; whoever keeps it can tell that no line before it was changed."""
        return self.hashes[-1] if self.hashes else START

    def exists(self) -> bool:
        """Whether there is anything at the path, a broken link included."""
        return os.path.lexists(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock between processes, and between threads of this one."""
        lock = RunLock.at(self.path, patience=PATIENCE)
        with lock.mutex:
            lock.check()
            yield

    def read(self) -> list[Record]:
        """All records, if the chain is whole; an unfinished last line is left out."""
        self._check(self.first_break())
        return self.records

    def _check(self, found: Break | None) -> None:
        if found is not None and not found.unfinished:
            raise InvalidArgument(
                f"path must be a whole chain of records; got {str(self.path)!r}, which breaks at {found}."
            )

    def first_break(self) -> Break | None:
        """Read what was appended since, and say where the chain breaks; None if it is whole."""
        seen = self._head_seen()  # first: what is appended meanwhile must not look lost
        if self._is_as_left():
            return self._lost_lines(seen)
        content, state = self._content()
        if state[:2] != self._state[:2] or len(content) < self._size:
            self._forget()
        self._state = state
        broken = self._extend(content)
        if broken is not None or self._endless:
            self._state = (*state[:2], 0, 0)
        return broken if broken is not None else self._lost_lines(seen)

    def _is_as_left(self) -> bool:
        """Whether the file is the one that was read or written last, to its size and time.

        Then it is not read again, so that appending costs the same however long a chain is. A change that
        leaves both as they were is found when the chain is read next.
        """
        try:
            return bool(self._size) and _state(os.lstat(self.path)) == self._state
        except OSError:
            return False

    def lacks_head(self) -> bool:
        """Whether several lines are there that were read, and the file that ends in .head is not."""
        return len(self.records) > 1 and not os.path.lexists(self._head_path)

    def keep_head(self) -> None:
        """Write the file that ends in .head, for the lines that were read."""
        kept = {"hash": self.head, "lines": len(self.records)}
        replace_file(self._head_path, json.dumps(kept).encode("ascii"))

    def _content(self) -> tuple[bytes, State]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | SAFELY)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise InvalidArgument(
                        f"path must be a regular file; got {str(self.path)!r}, which is none."
                    )
                return file.read(), _state(status)
        except OSError as fault:
            raise InvalidArgument(
                f"path must be a file that can be read; got {str(self.path)!r}: "
                f"{fault.strerror or fault}."
            ) from fault

    def _extend(self, content: bytes) -> Break | None:
        """Read lines beyond those that are known; those are compared byte by byte through their hash."""
        if self._endless:  # counted, but its line is read again
            self.records.pop()
            self.hashes.pop()
        if hashlib.sha256(content[: self._size]).digest() != self._known.digest():
            self._forget()
        position = self._size
        self._tail, self._endless = b"", False
        try:
            return self._parsed(content, position)
        finally:
            self._known.update(content[position : self._size])

    def _parsed(self, content: bytes, position: int) -> Break | None:
        while position < len(content):
            end = content.find(b"\n", position)
            line = content[position:] if end < 0 else content[position:end]
            number = len(self.records) + 1
            record, why = _checked(line, self.head)
            if record is None:
                if end < 0:
                    self._tail = line
                    why = f"the last line is unfinished ({len(line)} bytes)"
                    return Break(number, why, unfinished=True)
                return Break(number, why)
            self.records.append(record)
            self.hashes.append(json.loads(line)["hash"])
            if end < 0:  # whole but for its end of line
                self._tail, self._endless = line, True
                return None
            position = self._size = end + 1
        return None

    def _head_seen(self) -> tuple[int, str]:
        """How many lines the file that ends in .head has seen, and the last hash; -1 if it is damaged."""
        try:
            kept = json.loads(self._head_path.read_text("ascii"))
            lines, head = kept["lines"], kept["hash"]
        except FileNotFoundError:
            return 0, START
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return -1, ""
        return (lines, head) if type(lines) is int and isinstance(head, str) else (-1, "")

    def _lost_lines(self, seen: tuple[int, str]) -> Break | None:
        """A break behind the last line, if the file that ends in .head has seen more of them."""
        lines, head = seen
        if lines < 0:
            return Break(len(self.records) + 1, f"{self._head_path.name} cannot be read")
        name = self._head_path.name
        gone = f"{self.path.name} was replaced or deleted; if on purpose, delete {name}, too"
        if lines > len(self.records):
            missing = lines - len(self.records)
            return Break(
                len(self.records) + 1,
                f"{missing} line{'s are' if missing > 1 else ' is'} missing at the end, which "
                f"{self._head_path.name} has seen" + ("" if self.records else f": {gone}"),
            )
        if lines and self.hashes[lines - 1] != head:
            return Break(
                lines, f"this is not the line that {self._head_path.name} has seen: {gone}"
            )
        return None

    def append(self, record: Record) -> None:
        """Append one record; it is on the disk when this returns. The lock must be held, all be read."""
        self._check(self._lost_lines(self._head_seen()))
        text = _text(record)
        digest = _digest(self.head, text)
        line = f'{{"hash":"{digest}","previous":"{self.head}","record":{text}}}\n'.encode("ascii")
        fresh = not self.exists()
        with writable(self.path):
            if len(self.records) == 1 and not os.path.lexists(self._head_path):
                self.keep_head()  # the first append was killed before it could
            flags = os.O_RDWR | os.O_CREAT | SAFELY | (os.O_EXCL if fresh else 0)
            descriptor = os.open(self.path, flags, 0o600)
            try:
                self._write(descriptor, line)
                written = _state(os.fstat(descriptor))
            finally:
                os.close(descriptor)
            if fresh:
                flush_folder(self.path.parent)
        self._take(line, json.loads(text), digest, written)
        with suppress(OSError):  # the line is kept; the head is behind, which is no harm
            self.keep_head()

    def _take(self, line: bytes, record: Record, digest: str, written: State) -> None:
        """Know the line that was just written, as if it had been read."""
        added = self._tail + b"\n" + line if self._endless else line
        self.records.append(record)
        self.hashes.append(digest)
        self._known.update(added)
        self._size += len(added)
        self._state = written
        self._tail, self._endless = b"", False

    def _write(self, descriptor: int, line: bytes) -> None:
        """Write at the end of the last whole line, or leave the file as it was."""
        end = os.fstat(descriptor).st_size
        if end != self._size + len(self._tail):
            raise InvalidArgument(
                f"path must not be written by others meanwhile; got {str(self.path)!r}, which changed "
                "while it was locked."
            )
        start = self._size
        if self._endless:
            line, start = b"\n" + line, end
        os.ftruncate(descriptor, start)
        os.lseek(descriptor, start, os.SEEK_SET)
        try:
            written = 0
            while written < len(line):
                written += os.write(descriptor, line[written:])
            os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(descriptor, start)
                os.fsync(descriptor)
            raise


def _state(status: os.stat_result) -> State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _text(record: Record) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode("ascii")).hexdigest()


def _checked(line: bytes, previous: str) -> tuple[Record | None, str]:
    """The record of a line that follows on this hash, or why there is none."""
    try:
        data = json.loads(line)
        record, digest = data["record"], data["hash"]
        text = _text(record)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, "it is no record of a chain"
    if not isinstance(record, dict):
        return None, "it is no record of a chain"
    if data.get("previous") != previous:
        return None, "it does not follow on the line before it: lines were removed or inserted"
    expected = f'{{"hash":"{digest}","previous":"{previous}","record":{text}}}'
    if digest != _digest(previous, text) or line != expected.encode("ascii", "replace"):
        return None, "its hash does not match: it was changed"
    return record, ""
