"""What a run has begun and what it has finished, on disk: a crash loses no round that was counted.

Two files. ``path`` holds the parameters after the rounds that were finished, ``path.begun`` how many
rounds were begun; the latter is written before a round draws its first report, and first of all. Both
are files of `sharpdp.storage.state_file`: locked, checksummed and replaced whole.
"""

from __future__ import annotations

import io
import json
import secrets
import threading
from typing import Any

import numpy as np

from sharpdp._validate import count, flag
from sharpdp.errors import InvalidArgument
from sharpdp.randomness.system_stream import Floats
from sharpdp.storage.run_lock import OwnProcess, free_path_of
from sharpdp.storage.state_file import StateFile

__all__ = ["Journal"]

_KIND = "that of a run that was begun"


class Journal:
    """Counts the rounds that a run has begun, in two files or, without a path, in memory only.

    ``plan`` says in words what must stay the same. `begun` never goes down, and rounds are counted one
    by one whatever threads and processes ask: a journal that is not up to date refuses to count. `run` is
    a random name that a restored journal shares with the one that was created. ``seeded`` says whether a
    seed or a generator was given, now or before the run was resumed.

    >>> journal = Journal(None, "a plan")
    >>> journal.begin()
    >>> journal.begun
    1
    """

    def __init__(self, path: object, plan: str, *, seeded: bool = False) -> None:
        """A journal at this path, in a folder that exists; `create` or `restore` comes next."""
        self.plan, self.begun, self.seeded = plan, 0, seeded
        self.run = secrets.token_hex(16)
        self._mutex, self._process = threading.Lock(), OwnProcess()
        self._parameters: StateFile | None = None
        self._note: StateFile | None = None
        if path is not None:
            run = free_path_of(path=path)
            self._parameters = StateFile(run, _KIND)
            self._note = StateFile(run.with_name(f"{run.name}.begun"), _KIND, run=run)

    def create(self, parameters: Floats) -> None:
        """Begin a new run; refuse a path at which a round was begun before."""
        if self._note is not None and self._parameters is not None:
            with self._note.lock.mutex:
                if self._parameters.exists() or (self._note.exists() and self._noted()["begun"]):
                    raise InvalidArgument(
                        f"path must be free for a new run; got {str(self._parameters.path)!r}, where one "
                        "was begun. Resume that one, or choose another path."
                    )
                self._note.write(self._text(0))
                self.store(0, parameters)

    def begin(self) -> None:
        """Count one more round; that is on the disk when this returns."""
        self._process.check()
        with self._mutex:
            if self._note is not None:
                self._note.write(self._text(self.begun + 1))
            self.begun += 1

    def store(self, finished: int, parameters: Floats) -> None:
        """Keep the parameters after so many rounds."""
        if self._parameters is not None:
            buffer = io.BytesIO()
            np.savez(buffer, parameters=parameters, finished=finished, plan=self.plan, run=self.run)
            self._parameters.write(buffer.getvalue())

    def restore(self) -> tuple[int, Floats]:
        """Go on with the run at the path: the rounds it finished, and the parameters after those."""
        assert self._note is not None
        assert self._parameters is not None
        with self._note.lock.mutex:
            path = str(self._parameters.path)
            if not self._note.exists() or not self._parameters.exists():
                raise InvalidArgument(
                    f"path must be {_KIND}; got {path!r}. Both {path!r} and its neighbor with the ending "
                    ".begun are needed: without the latter, rounds would not be counted."
                )
            note, payload = self._noted(), self._parameters.read()
            try:
                with np.load(io.BytesIO(payload), allow_pickle=False) as kept:
                    finished = count(least=0, finished=kept["finished"])
                    plan, run = str(kept["plan"]), str(kept["run"])
                    parameters = kept["parameters"].astype(np.float64)
            except Exception as fault:  # numpy and zip each have their own
                raise InvalidArgument(
                    f"path must be {_KIND}; got {path!r}, which is none."
                ) from fault
        for written_plan in (note["plan"], plan):
            if written_plan != self.plan:
                raise InvalidArgument(
                    f"path must be that of a run with the same plan; got one with {written_plan}, "
                    f"and the plan is {self.plan}."
                )
        if note["run"] != run:
            raise InvalidArgument(
                f"path must be that of one run; got {path!r}, which was written by another run than its "
                "neighbor with the ending .begun."
            )
        self.run, self.begun = run, max(note["begun"], finished)
        self.seeded = self.seeded or note["seeded"]
        return finished, parameters

    def close(self) -> None:
        """Let go of the lock; the next round takes it again."""
        for file in (self._note, self._parameters):
            if file is not None:
                file.close()

    def _text(self, begun: int) -> bytes:
        note = {"begun": begun, "plan": self.plan, "run": self.run, "seeded": self.seeded}
        return json.dumps(note).encode()

    def _noted(self) -> dict[str, Any]:
        """Data of the file that ends in .begun."""
        assert self._note is not None
        payload = self._note.read()
        try:
            note = json.loads(payload)
            begun = count(least=0, begun=note["begun"])
            seeded = flag(seeded=note.get("seeded", False))  # earlier versions did not say
            return {
                "begun": begun,
                "plan": str(note["plan"]),
                "run": str(note["run"]),
                "seeded": seeded,
            }
        except Exception as fault:  # whatever is not there or of another kind
            raise InvalidArgument(
                f"path must be {_KIND}; got {str(self._note.path)!r}, which is none."
            ) from fault
