"""Results on disk, by what they were computed from: whatever is stale or damaged is computed again.

A result is kept with the name of its function, the parameters, and a digest of all source that may
have a part in it. Each one is written when it is known, so that an interrupted run loses nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reproduce.sources import ROOT, digest, sources

__all__ = ["Shelf", "once", "shelf", "shelved"]

FOLDER = ROOT / "out" / "cache"
SHORT = 20
"""Hexadecimal digits of a file name: 80 bits."""


@dataclass
class Shelf:
    """Where results are kept, and what is known already in this run."""

    folder: Path = FOLDER
    fresh: bool = False
    known: dict[str, Any] = field(default_factory=dict)
    computed: int = 0

    def result(
        self, function: Callable[..., Any], parameters: tuple[Any, ...], also: tuple[str, ...] = ()
    ) -> Any:
        """What the function gives for the parameters, as JSON would have it."""
        name = f"{function.__module__}.{function.__qualname__}"
        asked = json.loads(json.dumps(parameters))
        key = {"function": name, "parameters": asked, "sources": sources(name, *also)}
        label = digest(f"{name}{asked}")[:SHORT]
        if label not in self.known:
            file = self.folder / f"{name.removeprefix('reproduce.')}-{label}.json"
            found = None if self.fresh else _read(file, key)
            if found is None:
                found = [json.loads(json.dumps(function(*parameters)))]
                _write(file, key, found)
                self.computed += 1
            self.known[label] = found[0]
        return self.known[label]


_SHELF: ContextVar[Shelf] = ContextVar("shelf")


def shelf() -> Shelf:
    """The shelf in use."""
    if _SHELF.get(None) is None:
        _SHELF.set(Shelf())
    return _SHELF.get()


@contextlib.contextmanager
def shelved(one: Shelf) -> Iterator[Shelf]:
    """Use this shelf for a while."""
    token = _SHELF.set(one)
    try:
        yield one
    finally:
        _SHELF.reset(token)


def once(function: Callable[..., Any], *parameters: Any, also: tuple[str, ...] = ()) -> Any:
    """The result of a function of this folder, computed at most once for these parameters.

    `also` names functions that it calls by a name which is one of its parameters.
    """
    return shelf().result(function, parameters, also)


def _read(file: Path, key: dict[str, Any]) -> list[Any] | None:
    """The kept result, alone in a list; None if there is none, or it is stale or damaged."""
    try:
        kept = json.loads(file.read_text("utf-8"))
        is_whole = kept["digest"] == digest(json.dumps(kept["result"]))
        return [kept["result"]] if is_whole and kept["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, key: dict[str, Any], found: list[Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = {"key": key, "digest": digest(json.dumps(found[0])), "result": found[0]}
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(kept), "utf-8")
    beside.replace(file)
