"""What a run has begun and what it has finished, on disk: a crash loses no round that was counted.

Two files. ``path`` holds the parameters after the rounds that were finished, ``path.begun`` how many
rounds were begun; the latter is written before a round draws its first report. Both are replaced whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from sharpdp._validate import count, shown
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.randomizers.randomness import Floats

__all__ = ["Journal", "free_path_of", "path_of", "replaced"]


@dataclass(frozen=True)
class Journal:
    """The two files of a run whose plan is told by ``plan``, in words; None for a run that keeps none.

    >>> Journal(None, "a plan").begin(1)
    """

    path: Path | None
    plan: str

    @classmethod
    def at(cls, path: object, plan: str) -> Journal:
        """The journal at this path, in a folder that exists; one that keeps nothing for None."""
        return cls(None if path is None else free_path_of(path=path), plan)

    def begin(self, rounds: int) -> None:
        """Note that so many rounds were begun; it is on the disk when this returns."""
        if self.path is not None:
            text = json.dumps({"begun": rounds, "plan": self.plan}).encode()
            replaced(self._begun, lambda file: _written(file, text))

    def store(self, rounds: int, parameters: Floats) -> None:
        """Keep the parameters after so many rounds."""
        if self.path is not None:
            replaced(
                self.path,
                lambda file: np.savez(file, parameters=parameters, finished=rounds, plan=self.plan),
            )

    def fresh(self) -> None:
        """Refuse a path at which a run was begun before."""
        if self.path is not None and (self.path.exists() or self._begun.exists()):
            raise InvalidArgument(
                f"path must be free for a new run; got {str(self.path)!r}, where one was begun. "
                "Resume that one, or choose another path."
            )

    def restored(self) -> tuple[int, int, Floats]:
        """Rounds begun, rounds finished, and the parameters after those."""
        path = self.path
        if path is None or not path.exists() or not self._begun.exists():
            raise InvalidArgument(
                f"path must be that of a run that was begun; got {str(path)!r}. Both {str(path)!r} "
                "and its neighbour with the ending .begun are needed: without the latter, rounds "
                "would not be counted."
            )
        try:
            note = json.loads(self._begun.read_text("utf-8"))
            begun, told = count(least=0, begun=note["begun"]), str(note["plan"])
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                finished = count(least=0, finished=kept["finished"])
                plan, parameters = str(kept["plan"]), kept["parameters"].astype(np.float64)
        except Exception as fault:  # json, numpy and zip each have their own
            raise InvalidArgument(
                f"path must be that of a run that was begun; got {str(path)!r}, which cannot be read, "
                "or its neighbour with the ending .begun cannot."
            ) from fault
        for found in (told, plan):
            if found != self.plan:
                raise InvalidArgument(
                    f"path must be that of a run with the same plan; got one with {found}, "
                    f"and the plan is {self.plan}."
                )
        return max(begun, finished), finished, parameters

    @property
    def _begun(self) -> Path:
        assert self.path is not None
        return self.path.with_name(f"{self.path.name}.begun")


def _written(file: BinaryIO, text: bytes) -> None:
    file.write(text)


def path_of(**argument: object) -> Path:
    """The argument as a path of a file, in whatever folder.

    >>> path_of(path="run").name
    'run'
    """
    ((name, value),) = argument.items()
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise WrongType(f"{name} must be a path; got {shown(value)}.")
    if not Path(text).name or "\0" in text:
        raise InvalidArgument(f"{name} must be the path of a file; got {shown(value)}.")
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


def replaced(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write the file whole or not at all, down to the disk."""
    try:
        _replace(path, write)
    except OSError as fault:
        raise InvalidArgument(
            f"path must be one that can be written; got {str(path)!r}: {fault.strerror or fault}."
        ) from fault


def _replace(path: Path, write: Callable[[BinaryIO], None]) -> None:
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    if os.name == "posix":  # elsewhere a folder cannot be flushed; the file itself has been
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
