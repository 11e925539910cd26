"""Processes that train together, forked from one that has imported torch for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def exit_codes(module: str, folder: Path, *groups: tuple[object, ...]) -> list[list[int]]:
    """Start a module that forks groups of ranks, one after the other; how each rank ended.

    Each group is its size and its tasks.
    """
    words = [":".join(map(str, group)) for group in groups]
    command = [sys.executable, "-m", module, str(folder), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


def fork(size: int, work: Callable[[int], None]) -> None:
    """Work as each of some ranks in a process of its own, and print how they ended."""
    started = []
    for rank in range(size):
        process = os.fork()
        if process == 0:
            try:
                work(rank)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)  # not into what follows, which is for the first process alone
        started.append(process)
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started]
    print(json.dumps(codes), flush=True)  # noqa: T201
