"""Processes that train together, forked from one that has imported torch for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def exit_codes(module: str, folder: Path, size: int, *tasks: str) -> list[int]:
    """Start a module that forks its ranks; how each of them ended."""
    command = [sys.executable, "-m", module, str(folder), str(size), *tasks]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
    codes: list[int] = json.loads(done.stdout)
    return codes


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
    print(json.dumps(codes))  # noqa: T201
