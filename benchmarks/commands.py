"""CPU seconds of every documented command, its start included: those of the pages and those of the help.

    python benchmarks/commands.py                    all of them
    python benchmarks/commands.py how-to reports     pages whose path has one of the words
    python benchmarks/commands.py help               the examples of `sharpdp help`

Every command runs in a process of its own, in a folder with the files that its page makes, one thread.
Only those that take more than two seconds are listed one by one; the rest are counted.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sharpdp.cli.commands import COMMANDS  # noqa: E402
from tests.docs.pages import blocks_of, pages  # noqa: E402
from tests.docs.test_pages import commands  # noqa: E402

ALLOWED = 2.0
"""CPU seconds that a command may take."""

PLAN = """\
delta = [1e-5, 1e-6]
[mechanism]
kind = "DPSGD"
noise_multiplier = 1.0
[mechanism.batches]
kind = "PoissonBatches"
dataset_size = 60000
batch_size = 600
epochs = 10
"""
REPORTS = """\
delta = 1e-6
[mechanism]
kind = "ShuffledReports"
users = 1000
local_epsilon = 1.0
"""


def seconds(command: str) -> tuple[float, int]:
    """CPU seconds of a command line of a shell, all its processes together, and its exit code."""
    started = f"{shlex.quote(sys.executable)} -m sharpdp"
    line = re.sub(r"(^|\| |<\()sharpdp\b", rf"\1{started}", command)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "MPLBACKEND": "Agg",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
    code = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, check=False
    ).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, code


def of_page(path: Path) -> list[tuple[str, float, int]]:
    """Every command of a page, run where its Python blocks ran before it."""
    measured = []
    namespace: dict[str, object] = {"__name__": "__page__"}
    for block in blocks_of(path):
        if block.language in ("python", "pycon") and "sharpdp " in path.read_text("utf-8"):
            text = block.text
            if block.language == "pycon":
                text = "\n".join(
                    line[4:] for line in text.splitlines() if line.startswith((">>> ", "... "))
                )
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                exec(text, namespace)
        if block.language != "console":
            continue
        for command, shown in commands(block.text):
            words = shlex.split(command)
            if words[0] == "cat" and shown:
                Path(words[1]).write_text(shown, "utf-8")
            if words[0] == "sharpdp" and words[1:2] != ["explore"]:
                measured.append((command, *seconds(command)))
    return measured


def of_help() -> list[tuple[str, float, int]]:
    """Every example of the help for which the files are there."""
    Path("plan.toml").write_text(PLAN, "utf-8")
    Path("reports.toml").write_text(REPORTS, "utf-8")
    for name in ("report.html", "report.json"):
        seconds(f'sharpdp report "gaussian noise_multiplier=9" --delta 1e-6 -o {name}')
    measured = []
    for command in COMMANDS.values():
        lines = command.examples.partition("examples:\n")[2].replace("\\\n", " ").splitlines()
        for line in lines:
            text = " ".join(line.split())
            if text.startswith(("sharpdp explore", "sharpdp audit", "source")) or not text:
                continue
            measured.append((text, *seconds(text)))
    return measured


def main(words: list[str]) -> None:
    """Print what is slow, and how many are not."""
    chosen: list[tuple[str, Path | None]] = [
        (str(path.relative_to(ROOT)), path) for path in pages() if "$ sharpdp" in path.read_text()
    ]
    chosen.append(("help", None))
    if words:
        chosen = [entry for entry in chosen if any(word in entry[0] for word in words)]
    total, slow = 0, 0
    for name, path in chosen:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            measured = of_help() if path is None else of_page(path)
        total += len(measured)
        for command, cpu, code in measured:
            if cpu > ALLOWED:
                slow += 1
                sys.stdout.write(f"{cpu:6.2f}  {name}: {command}\n")
            if code not in (0, 1, 2):
                sys.stdout.write(f"  exit code {code}  {name}: {command}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{total - slow} of {total} commands take at most {ALLOWED:g} CPU seconds\n")


if __name__ == "__main__":
    main(sys.argv[1:])
