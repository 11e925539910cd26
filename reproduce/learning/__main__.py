"""The command `python -m reproduce.learning NAME [--quick | --full] [--mnist FILE]`."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from reproduce.learning import (
    budgets,
    clients,
    correlated,
    passes,
    releases,
    samplers,
    tuned,
    units,
)
from reproduce.learning.ledger import PAGES
from reproduce.learning.pictures import (
    drawn_budgets,
    drawn_clients,
    drawn_correlated,
    drawn_passes,
    drawn_releases,
    drawn_samplers,
    drawn_tuned,
    drawn_units,
)

EXPERIMENTS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], None]]] = {
    "clients": (clients.report, drawn_clients),
    "tuned": (tuned.report, drawn_tuned),
    "passes": (passes.report, drawn_passes),
    "budgets": (budgets.report, drawn_budgets),
    "correlated": (correlated.report, drawn_correlated),
    "units": (units.report, drawn_units),
    "releases": (releases.report, drawn_releases),
    "samplers": (samplers.report, drawn_samplers),
}


RECORDED = ("clients", "tuned")
"""Experiments all of whose accuracies are kept in docs/experiments, in a file NAME.csv."""


class _Both(io.TextIOBase):
    """Writes to the screen and keeps what was written."""

    def __init__(self) -> None:
        self.kept = io.StringIO()

    def write(self, text: str) -> int:
        """Write the text to both."""
        self.kept.write(text)
        return sys.__stdout__.write(text) if sys.__stdout__ else len(text)


def main() -> int:
    """Run one experiment; keep its table and its picture if it is larger than the quick one."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.learning", description=__doc__)
    parser.add_argument("name", choices=list(EXPERIMENTS))
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="digits, seconds")
    how.add_argument("--full", action="store_true", help="the sizes of the papers, hours")
    some = parser.add_mutually_exclusive_group()
    some.add_argument(
        "--recorded",
        action="store_true",
        help="clients and tuned, with --full: train nothing; table and picture again from the accuracies "
        "that are kept in docs/experiments",
    )
    some.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        metavar="SEED",
        help="clients: run these only and write no page, for several processes at once",
    )
    parser.add_argument(
        "--mnist",
        metavar="FILE",
        help="where MNIST lies, as .npz (or the environment variable MNIST; ../shared/data/mnist.npz)",
    )
    options = parser.parse_args()
    if options.mnist is not None:
        os.environ["MNIST"] = options.mnist
    if options.seeds and options.name != "clients":
        parser.error(f"--seeds is for clients; got {options.name}.")
    if options.recorded and not (options.full and options.name in RECORDED):
        parser.error(f"--recorded is for {' and '.join(RECORDED)} with --full.")
    size = "quick" if options.quick else "full" if options.full else "short"
    report, draw = EXPERIMENTS[options.name]
    screen = _Both()
    try:
        if options.seeds:
            clients.results(clients.size(size), size, seeds=options.seeds)
            return 0
        with contextlib.redirect_stdout(screen):
            found = report(size, recorded=True) if options.recorded else report(size)
    except FileNotFoundError as error:
        parser.error(str(error))
    if size == "quick":
        return 0
    PAGES.mkdir(parents=True, exist_ok=True)
    text = screen.kept.getvalue()
    words = text[text.index("\n\n") :].strip() if "\n\n" in text else text.strip()
    arguments = [options.name, *(["--full"] if options.full else [])]
    command = " ".join(["python -m reproduce.learning", *arguments])
    (PAGES / f"{options.name}.txt").write_text(f"$ {command}\n\n{words}\n", "utf-8")
    if "data" in found:
        (PAGES / f"{options.name}.csv").write_text("\n".join(found["data"]) + "\n", "utf-8")
    draw(found, PAGES / f"{options.name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
