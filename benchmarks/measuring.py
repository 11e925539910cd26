"""How every benchmark with peers measures: one process per answer, one thread, best CPU time.

`measured` times a method, `in_process` runs one measurement of a script in a process of its own, and
`python` is the interpreter that has the peers: this one, or that of .venv-peers, which `setup` makes.
`printed` runs a few lines of code, without peers.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import venv
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv-peers"
LIMIT = 90  # CPU seconds for one measurement with its warm-up; slower ones are reported as such
LONG, LONGER = 2.0, 8.0  # CPU seconds beyond which one call, and the warm-up, must do
SHORT = 0.2  # CPU seconds that the calls of one repetition should take together
REPEATS = 3
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

Call = Callable[[float], Any]
"""A question whose noise is changed by this relative amount, so that no cache can answer."""


def measured(call: Call) -> tuple[Any, float]:
    """The answer and the best of some CPU times, after a warm-up that imports what is needed.

    Every call changes the question a little. One that takes long is not repeated.
    """
    warnings.simplefilter("ignore")
    start = time.process_time()
    answer = call(1e-9)
    taken = time.process_time() - start
    if taken > LONGER:
        return answer, taken
    start = time.process_time()
    answer = call(0.0)
    first = time.process_time() - start
    calls = min(100, int(SHORT / max(first, 1e-9)) + 1)  # the CPU clock may tick in 4 ms
    times = [first] if calls == 1 else []
    for repeat in range(REPEATS if first < LONG else 0):
        start = time.process_time()
        for i in range(calls):
            call((repeat * calls + i + 1) * 1e-12)
        times.append((time.process_time() - start) / calls)
    return answer, min(times)


def worker(call: Call) -> None:
    """What a process of its own does: measure under a limit of CPU time, and print JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    (lower, upper), seconds = measured(call)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"lower": lower, "upper": upper, "seconds": seconds, "megabytes": peak}))


def in_process(script: str, *words: str) -> dict[str, Any]:
    """Run `script --worker words` with the peers' Python and this source tree.

    What the worker printed, or {"failed": the reason}.
    """
    environment = {**os.environ, **THREADS, "PYTHONPATH": str(ROOT / "src")}
    command = [str(python()), script, "--worker", *words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=10 * LIMIT,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {10 * LIMIT} s"}
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"failed": f"more than {LIMIT} CPU s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return {"failed": lines[-1][:120]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def printed(code: str, limit: int, source: Path = ROOT / "src", *, one_thread: bool = True) -> str:
    """What lines of code print in a process of their own, with the sources of some tree.

    On one thread, or on as many as numpy takes by itself.

    Raises:
        RuntimeError: The code fails, or takes more than the limit of CPU seconds.
    """

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))

    threads = THREADS if one_thread else {}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **threads, "PYTHONPATH": str(source)},
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode < 0:
        raise RuntimeError(f"stopped after {limit} s")
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1][:120])
    return done.stdout


def python() -> Path:
    """The Python that has the peers."""
    if find_spec("riskcal"):
        return Path(sys.executable)
    return PEERS / "bin" / "python"


def require_peers() -> None:
    """Stop with a sentence where there is no Python with the peers."""
    if not python().exists():
        sys.exit("no peers here yet: make bench, or python benchmarks/peers.py --setup")


def setup() -> None:
    """Make .venv-peers; the constraint keeps pip away from gigabytes of CUDA packages."""
    venv.create(PEERS, with_pip=True)
    pip = [str(PEERS / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    constraint = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *constraint, "--editable", f"{ROOT}[peers]"], check=True)
