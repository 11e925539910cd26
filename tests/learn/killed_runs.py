"""Runs that are killed, doubled and damaged: counts steps released against steps counted.

    python -m tests.learn.killed_runs --kills 1000

One process forks off runs and kills them, half of them at a random time, half just before or after a
file is flushed or replaced. Runs tell what they release through shared memory. Numbers come out as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sharpdp as dp
from sharpdp.learn import CLDPSGD, ClientRun, PrivUnitBall

STEPS = 200_000
CLIENTS = CLDPSGD(
    randomizer=PrivUnitBall(dimension=2, local_epsilon=1.0), users=4, population=20, rounds=STEPS
)
LONGEST = 0.1
"""Seconds after which a run is killed at the latest."""


class Seen:
    """What all runs on one path have released, in memory that they share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * (STEPS + 10))

    def __getitem__(self, slot: int) -> int:
        value: int = struct.unpack_from("<q", self._memory, 8 * slot)[0]
        return value

    def __setitem__(self, slot: int, value: int) -> None:
        struct.pack_into("<q", self._memory, 8 * slot, value)

    def clear(self) -> None:
        self._memory[:] = bytes(len(self._memory))


STARTED, RELEASED, REPEATED, CHANGED, REFUSED, FIRST_DIGEST = 0, 1, 4, 5, 6, 10
"""Slots; RELEASED has one for each of two processes."""


def forked(work: Callable[[], object]) -> int:
    """The process that does this; one that is refused says so by its exit code."""
    process = os.fork()
    if process:
        return process
    try:
        work()
    except dp.InvalidArgument:
        os._exit(3)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(4)
    os._exit(0)


def dies_at_file_operation(number: int, *, after: bool) -> None:
    """Have this process killed at the so many-th flush or replacement of a file."""
    left = [number]

    def dying(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = operation(*arguments, **options)
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    os.fsync, os.replace, os.ftruncate = map(dying, (os.fsync, os.replace, os.ftruncate))


class Clients:
    """A run of clients: each round that draws reports is a release."""

    def __init__(self) -> None:
        self.seen = Seen()
        ClientRun(CLIENTS, _pull, np.zeros(2)).step()  # what is imported late is imported here

    def watch(self, part: int = 0) -> None:
        reports = PrivUnitBall.reports

        def reporting(randomizer: Any, records: Any, rng: Any = None) -> Any:
            drawn = reports(randomizer, records, rng)
            self.seen[RELEASED + part] += 1
            return drawn

        PrivUnitBall.reports = reporting  # type: ignore[method-assign]

    def go_on(self, path: Path, rng: np.random.Generator) -> None:
        every = int(rng.integers(1, 6))
        try:
            run = ClientRun.resumed(CLIENTS, _pull, path=path, every=every)
        except dp.InvalidArgument:
            run = ClientRun(CLIENTS, _pull, np.zeros(2), path=path, every=every)
        self.seen[STARTED] = 1
        run.run()

    def released(self) -> int:
        return self.seen[RELEASED] + self.seen[RELEASED + 1]

    def counted(self, path: Path) -> int:
        if not path.exists():
            return 0
        return ClientRun.resumed(CLIENTS, _pull, path=path).begun

    def read(self, path: Path) -> None:
        ClientRun.resumed(CLIENTS, _pull, path=path)


def _pull(theta: Any, clients: Any) -> Any:
    return np.tile(theta - 1.0, (len(clients), 1))


class Training:
    """A training run: a step is a release, and one that comes again must be the same."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self.seen = Seen()
        self._reader = self._made()
        self._made().advance()

    def _made(self) -> Any:
        import torch
        from torch import nn

        from sharpdp.learn import dpsgd

        torch.manual_seed(0)
        inputs = torch.randn(40, 3)
        plan = dp.PoissonBatches(dataset_size=40, batch_size=4, steps=STEPS)
        mechanism = dp.DPSGD(plan, noise_multiplier=1.0)
        loss, targets = nn.MSELoss(), inputs.sum(1, keepdim=True)
        return dpsgd.Training(mechanism, nn.Linear(3, 1), loss, inputs, targets, clip=1.0)

    def watch(self, part: int = 0) -> None:
        from sharpdp.learn.gaussian_noise import StepNoise

        added = StepNoise.added

        def adding(noise: Any, total: Any, step: int) -> Any:
            released = added(noise, total, step)
            whole = b"".join(value.numpy().tobytes() for value in released.values())
            digest = struct.unpack("<q", hashlib.blake2b(whole, digest_size=8).digest())[0]
            known = self.seen[FIRST_DIGEST + step]
            self.seen[REPEATED] += known != 0
            self.seen[CHANGED] += known not in (0, digest)
            self.seen[FIRST_DIGEST + step] = digest
            self.seen[RELEASED] = max(self.seen[RELEASED], step + 1)
            return released

        StepNoise.added = adding  # type: ignore[method-assign]

    def go_on(self, path: Path, rng: np.random.Generator) -> None:
        run = self._made()
        if path.exists():
            run.resume(path)
        self.seen[STARTED] = 1
        run.run(checkpoint=path, every=int(rng.integers(1, 12)), progress=False)

    def released(self) -> int:
        return self.seen[RELEASED]

    def counted(self, path: Path) -> int:
        if not path.exists():
            return 0
        counted: int = self._reader.resume(path).begun
        self._reader.close()
        return counted

    def read(self, path: Path) -> None:
        self._reader.resume(path)


def check(kind: Clients | Training, path: Path, found: Counter[str]) -> None:
    """Compare what was counted with what was released."""
    released, counted = kind.released(), kind.counted(path)
    found["checks"] += 1
    found["undercounted"] += counted < released
    found["most released"] = max(found["most released"], released)
    found["counted beyond released, summed over checks"] += counted - released


def note_repeats(kind: Clients | Training, found: Counter[str]) -> None:
    found["paths"] += 1
    found["steps released"] += kind.released()
    found["steps repeated"] += kind.seen[REPEATED]
    found["steps repeated otherwise"] += kind.seen[CHANGED]


def ended(process: int, found: Counter[str]) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    names = {-signal.SIGKILL: "killed", 0: "finished", 3: "refused"}
    found[names.get(code, "failed")] += 1


def kill(kind: Clients | Training, kills: int, rng: np.random.Generator, folder: Path) -> Any:
    """Kill a run so many times, on a new path after every forty or so."""
    found: Counter[str] = Counter(undercounted=0, failed=0)
    path = folder / "run"
    while found["killed"] < kills:
        if rng.random() < 0.025:
            path = folder / f"run{found['killed']}"
            note_repeats(kind, found)
            kind.seen.clear()
        kind.seen[STARTED] = 0
        planned, after = rng.random() < 0.5, bool(rng.random() < 0.5)
        number, wait = int(rng.integers(0, 40)), float(rng.uniform(0.0, LONGEST))

        def work(
            planned: bool = planned, number: int = number, after: bool = after, path: Path = path
        ) -> None:
            if planned:
                dies_at_file_operation(number, after=after)
            kind.watch()
            kind.go_on(path, rng)

        process = forked(work)
        if not planned:
            while not kind.seen[STARTED] and rng.random() > 0.001:
                time.sleep(0.0005)
            time.sleep(wait)
            os.kill(process, signal.SIGKILL)
        ended(process, found)
        check(kind, path, found)
    note_repeats(kind, found)
    left = [file.name for file in folder.iterdir() if file.suffix == ".new"]
    found["files left incomplete"] = len(left)  # of the last kill of each path, at most
    return found


def double(kind: Clients | Training, trials: int, rng: np.random.Generator, folder: Path) -> Any:
    """Start two processes on one path so many times, and kill both."""
    found: Counter[str] = Counter(undercounted=0, failed=0)
    kind.seen.clear()
    path = folder / "run"
    for _ in range(trials):
        kind.seen[STARTED] = 0
        patient = bool(rng.random() < 0.5)

        def work(part: int, patient: bool = patient) -> None:
            kind.watch(part)
            while True:
                try:
                    kind.go_on(path, np.random.default_rng())
                except dp.InvalidArgument:
                    if not patient:  # else it takes over when the other one is killed
                        raise
                    kind.seen[REFUSED] += 1

        processes = [forked(lambda part=part, work=work: work(part)) for part in range(2)]
        deadline = time.monotonic() + 10 * LONGEST  # each may have refused the other
        while not kind.seen[STARTED] and time.monotonic() < deadline:
            time.sleep(0.001)
        for process in rng.permutation(processes):
            time.sleep(float(rng.uniform(0.0, LONGEST)))
            os.kill(int(process), signal.SIGKILL)
            ended(int(process), found)
        check(kind, path, found)
    found["refused"] += kind.seen[REFUSED]
    note_repeats(kind, found)
    return found


def flip(kind: Clients | Training, folder: Path) -> Any:
    """Flip every bit of every file of a run, one at a time, and resume it."""
    found: Counter[str] = Counter(accepted=0)
    path = folder / "run"
    process = forked(lambda: (kind.watch(), kind.go_on(path, np.random.default_rng(0))))
    while kind.released() < 20:
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    kind.read(path)  # and keep the lock
    for file in sorted(folder.iterdir()):
        if file.suffix in {".lock", ".new"}:
            continue
        whole = file.read_bytes()
        with file.open("r+b", buffering=0) as raw:
            for place, byte in enumerate(whole):
                for bit in range(8):
                    raw.seek(place)
                    raw.write(bytes([byte ^ 1 << bit]))
                    found["flips"] += 1
                    try:
                        kind.read(path)
                        found["accepted"] += 1
                    except dp.InvalidArgument:
                        pass
                raw.seek(place)
                raw.write(bytes([byte]))
    kind.read(path)
    return found


def main(kills: int, seed: int) -> dict[str, Any]:
    """All of it for both kinds of runs."""
    found: dict[str, Any] = {"seed": seed}
    for kind in (Clients(), Training()):
        name, rng = type(kind).__name__, np.random.default_rng(seed)
        for part, work in {
            "kills": lambda folder: kill(kind, kills, rng, folder),  # noqa: B023
            "two processes": lambda folder: double(kind, kills // 5, rng, folder),  # noqa: B023
            "bit flips": lambda folder: flip(kind, folder),  # noqa: B023
        }.items():
            kind.seen.clear()
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                found[f"{name}: {part}"] = dict(work(Path(folder)))
                found[f"{name}: {part}"]["own cpu seconds"] = round(time.process_time() - start, 1)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sys.stdout.write(json.dumps(main(options.kills, options.seed), indent=1) + "\n")
