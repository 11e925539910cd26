"""Break the trust-critical code on purpose, one small change at a time, and see that tests notice.

    python -m tests.mutants [--only PATTERN] [--jobs 2] [--list]

`mutants.toml` has the changes. Each is made in a copy of the tree, never in the tree itself; then the
tests that should notice are run there, until the first of them fails. A change that no test notices is
printed as a survivor. The exit code is 1 if one survives without a reason in the data, if one that has
a reason is caught, if a text to change is not found once, if tests take too long, or if they fail
before anything is changed.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.entries import ROOT, Mutant, mutants

COPIED = ("src", "tests")
"""Folders that are copied, since mutants change files in them; the rest of the tree is linked."""

LEFT_OUT = {".git", ".venv", ".venv-peers", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
"""What no test reads."""


@dataclass(frozen=True)
class Result:
    """What tests said about one mutant.

    Args:
        mutant: The change.
        verdict: "caught", "survived", "timed out", or the exit code of pytest that is neither.
        by: The first test that failed.
        seconds: How long it took.
    """

    mutant: Mutant
    verdict: str
    by: str = ""
    seconds: float = 0.0

    @property
    def as_listed(self) -> bool:
        """Whether it is caught, or survives as the data say."""
        return self.verdict == ("survived" if self.mutant.survives else "caught")

    def line(self) -> str:
        """The result in one line."""
        why = f"by {self.by}" if self.by else self.mutant.survives
        return f"{self.verdict:9} {self.seconds:4.0f} s  {self.mutant.name}  {why}".rstrip()


def copy_tree(folder: Path) -> None:
    """A tree in which one file after the other may be changed."""
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, folder / path.name)  # with times, so that bytecode stays valid
        elif path.name not in LEFT_OUT:
            (folder / path.name).symlink_to(path)


def run_tests(tree: Path, tests: Iterable[str], limit: float) -> tuple[int | None, str]:
    """The exit code of pytest in a copy of the tree, None beyond the time limit; and what it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(
            tree / "src"
        ),  # before an installed package, in processes of tests as well
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfE"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # with all that the tests have started
        process.communicate()
        return None, ""
    return process.returncode, output


def judge(tree: Path, mutant: Mutant, limit: float) -> Result:
    """Apply one change, run the tests that should notice, and undo it."""
    path, begun = tree / mutant.file, time.monotonic()
    status, source = path.stat(), path.read_text("utf-8")
    path.write_text(mutant.applied_to(source), "utf-8")
    os.utime(
        path, (status.st_atime, status.st_mtime + 3600)
    )  # so that bytecode is not taken for it
    try:
        code, output = run_tests(tree, mutant.tests, limit)
    finally:
        path.write_text(source, "utf-8")
        os.utime(path, (status.st_atime, status.st_mtime))
    # 2: tests are made from what the code says, and that failed
    verdicts = {0: "survived", 1: "caught", 2: "caught", None: "timed out"}
    noticed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return Result(
        mutant,
        verdicts.get(code, f"pytest exit {code}"),
        noticed[1] if noticed else "",
        time.monotonic() - begun,
    )


def run(chosen: Sequence[Mutant], jobs: int, limit: float) -> list[Result]:
    """All results, each printed as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: queue.Queue[Path] = queue.Queue()
        for job in range(jobs):
            (tree := Path(folder, str(job))).mkdir()
            copy_tree(tree)
            trees.put(tree)
        tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
        code, output = run_tests(tree, tests, 10.0 * limit)
        if code != 0:
            raise SystemExit(f"Tests must pass before anything is changed.\n{output[-3000:]}")
        print(f"{len(tests)} tests pass before anything is changed", flush=True)  # noqa: T201
        printing = threading.Lock()

        def judged(mutant: Mutant) -> Result:
            tree = trees.get()
            try:
                result = judge(tree, mutant, limit)
            finally:
                trees.put(tree)
            with printing:
                print(result.line(), flush=True)  # noqa: T201
            return result

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(judged, chosen))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if every mutant is caught, or survives for a reason that is listed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", help="those whose name or file has this pattern")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default 1)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each (default 600)")
    parser.add_argument("--list", action="store_true", help="print them, and run nothing")
    asked = parser.parse_args(arguments)
    chosen = [m for m in mutants() if re.search(asked.only, f"{m.name} {m.file}")]
    if asked.list:
        for mutant in chosen:
            print(f"{mutant.name}  {mutant.file}: {mutant.why}")  # noqa: T201
        return 0
    misplaced = [fault for mutant in chosen if (fault := mutant.fault())]
    if misplaced:
        raise SystemExit("\n".join(misplaced))
    results = run(chosen, asked.jobs, asked.limit)
    caught = sum(result.verdict == "caught" for result in results)
    print(f"{len(results)} mutants, {caught} caught, {len(results) - caught} survived")  # noqa: T201
    surprises = [result for result in results if not result.as_listed]
    for result in surprises:
        print(f"not as listed: {result.line()}")  # noqa: T201
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
