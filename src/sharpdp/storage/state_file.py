"""Files that hold the state of a run: locked while it runs, checksummed, and replaced whole.

A `StateFile` starts with a line that holds a checksum of all bytes after it. It is replaced only by a
process that holds the lock of the run, and only if it is still the file which that object read or wrote
last. So a counter in it cannot go down, whoever else has the run open.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from sharpdp.errors import InvalidArgument
from sharpdp.storage.run_lock import SAFELY, RunLock, replace_file, writable

__all__ = ["StateFile"]


MAGIC = b"sharpdp-state-1 blake2b "
HEADER_BYTES = len(MAGIC) + 2 * hashlib.blake2b().digest_size + 1
"""Length of the first line: the magic, the checksum in hexadecimal digits and the end of the line."""


def _header(payload: bytes) -> bytes:
    return MAGIC + hashlib.blake2b(payload).hexdigest().encode() + b"\n"


class StateFile:
    """One file of a run, written only under the run's lock and only over what this object knows.

    ``kind`` completes "path must be" in messages. The lock is that of ``run``, the path after which all
    files of a run are named; it is taken when it is first needed, and kept until `close`, or until this
    object is gone. Symbolic links are not followed.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
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
            with writable(self.path):
                replace_file(self.path, header, payload)
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
            descriptor = os.open(self.path, os.O_RDONLY | SAFELY)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise self._refused("which is no regular file")
                return file.read(most)
        except OSError as fault:
            raise self._refused(f"which cannot be read: {fault.strerror or fault}") from fault

    def _refused(self, reason: str) -> InvalidArgument:
        return InvalidArgument(f"path must be {self._kind}; got {str(self.path)!r}, {reason}.")
