"""Results on disk, one file for each run: what is there is not run again.

They and the states of unfinished runs are in a folder that git ignores. The accuracies that pages show
are kept with the pages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OUT", "PAGES", "begun", "kept", "mean", "spread", "told"]

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "learning"
PAGES = ROOT / "docs" / "experiments"


def kept(name: str, run: Callable[[Path], Any]) -> Any:
    """The result of a run that was finished before, or of running it now.

    The run is given a path beside the result for whatever it needs to go on after a crash.
    """
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / f"{name}.json"
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
    """The state of a run that was cut short, or an empty one."""
    if not path.exists():
        return {}
    with np.load(path) as found:
        return dict(found)
