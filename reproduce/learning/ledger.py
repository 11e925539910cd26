"""Results on disk, one file for each run: what is there is not run again.

Runs that take hours have their states in the repository too, so that another machine can go on with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OUT", "PAGES", "STATES", "begun", "kept", "mean", "noted", "spread", "stored", "told"]

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "learning"
PAGES = ROOT / "docs" / "experiments"
STATES = ROOT / "reproduce" / "learning" / "states"


def kept(name: str, run: Callable[[Path], Any], *, so_far: bool = False) -> Any:
    """The result of a run that was finished before, or of running it now.

    The run is given a path beside the result for whatever it needs to go on after a crash. With
    ``so_far`` nothing is run, and the result is what the state of a run that was cut short has.
    """
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / f"{name}.json"
    if so_far and not file.exists():
        return noted(OUT / f"{name}.state")
    if not file.exists():
        result = run(OUT / f"{name}.state")
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(result), "utf-8")
        beside.replace(file)
    return json.loads(file.read_text("utf-8"))


def mean(values: list[float]) -> float:
    """The mean over seeds.

    >>> mean([0.5, 0.75])
    0.625
    """
    return sum(values) / len(values)


def spread(values: list[float]) -> str:
    """Mean and standard deviation over seeds, in percent.

    >>> spread([0.5, 0.52])
    '51.0 ± 1.4'
    """
    middle = mean(values)
    if len(values) == 1:
        return f"{100 * middle:.1f}"
    variance = sum((one - middle) ** 2 for one in values) / (len(values) - 1)
    return f"{100 * middle:.1f} ± {100 * variance**0.5:.1f}"


def told(path: Path, words: str) -> None:
    """Say how far a run is, on the screen and in a file beside its state."""
    print(f"  {words}", flush=True)
    with path.with_suffix(".log").open("a", encoding="utf-8") as file:
        file.write(f"{words}\n")


def begun(path: Path) -> dict[str, NDArray[Any]]:
    """The state of a run: that at this path, or else that in the repository, or else an empty one."""
    for one in (path, _in_repository(path)):
        if one.exists():
            with np.load(one) as found:
                return dict(found)
    return {}


def noted(path: Path) -> list[float]:
    """The accuracies that the state of a run has so far."""
    return [float(one) for one in begun(path).get("accuracies", [])]


def stored(name: str) -> None:
    """Copy the state of a run, if this machine has one, into the repository."""
    path = OUT / f"{name}.state"
    if path.exists():
        STATES.mkdir(exist_ok=True)
        _in_repository(path).write_bytes(path.read_bytes())


def _in_repository(path: Path) -> Path:
    return STATES / f"{path.stem}.npz"
