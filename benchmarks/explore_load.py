"""The local page under load: many people at once, each of whom moves a slider and waits or moves on.

    python benchmarks/explore_load.py --people 50 --seconds 60

A person opens the page, asks what one of its views asks, and looks at the answer for a moment; every
third time the person moves on before it is complete. Questions differ, so that few are in the cache.
Prints how many were answered, the waits until the first part and until the whole answer (of all, and of
each kind of question), the processor time of an answer, errors, and the memory of all processes.
"""

import argparse
import http.client
import json
import os
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sharpdp.explore import ExploreServer, start

THINKING = 1.0
"""Seconds that a person looks at an answer, on average."""


def questions(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """What a person asks: sliders somewhere, in one of the views."""
    noise = round(rng.uniform(0.5, 3.0), 2)
    sizes = {
        "dataset_size": 60_000,
        "batch_size": rng.choice([256, 512, 1024]),
        "epochs": rng.randint(1, 30),
        "delta": 1e-5,
    }
    people = {
        "users": rng.choice([10_000, 50_000, 200_000]),
        "rounds": rng.randint(1, 30),
        "categories": rng.randint(2, 20),
        "delta": 1e-7,
    }
    return rng.choice(
        [
            ("training-schemes", {**sizes, "noise_multiplier": noise, "loader": ""}),
            ("training-slow-schemes", {**sizes, "noise_multiplier": noise, "loader": ""}),
            (
                "training-loader",
                {
                    **sizes,
                    "noise_multiplier": noise,
                    "loader": "DataLoader(data, batch_size=n, shuffle=True)",
                },
            ),
            ("collection-design", {**people, "local_epsilon": round(rng.uniform(0.5, 5.0), 2)}),
            (
                "curves",
                {
                    "runs": [f"dpsgd noise_multiplier={noise} sample_rate=0.01 steps=1000"],
                    "kind": rng.choice(["tradeoff", "profile", "renyi"]),
                    "delta": 1e-5,
                },
            ),
            (
                "curves-bounds",
                {"run": f"gaussian noise_multiplier={noise} x {rng.randint(1, 99)}", "delta": 1e-5},
            ),
        ]
    )


@dataclass
class Waits:
    """What all people saw."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    by_name: dict[str, list[float]] = field(default_factory=dict)
    moved_on: int = 0
    errors: list[str] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """The numbers that count."""
        return {
            "answered": len(self.whole),
            "moved on": self.moved_on,
            "errors": len(self.errors),
            **{f"first part, p{p}": _quantile(self.first, p) for p in (50, 95)},
            **{f"whole answer, p{p}": _quantile(self.whole, p) for p in (50, 95)},
            **{
                f"{name}, p50 and p95": f"{_quantile(waits, 50)} {_quantile(waits, 95)}"
                for name, waits in sorted(self.by_name.items())
            },
        }


def _quantile(waits: list[float], percent: int) -> float:
    ordered = sorted(waits) or [0.0]
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 2)


def person(server: ExploreServer, number: int, until: float, waits: Waits) -> None:
    """One person, until the time is up; everybody asks at least once."""
    rng = random.Random(number)
    time.sleep(rng.uniform(0.0, THINKING))
    is_first = True
    while is_first or time.monotonic() < until:
        is_first = False
        name, fields = questions(rng)
        began, patience = time.monotonic(), 0.5 if rng.random() < 1 / 3 else 600.0
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/ask/{name}", json.dumps(fields), headers)
            seen = None
            for line in connection.getresponse():
                message = json.loads(line)
                if "error" in message:
                    waits.errors.append(f"{name}: {message['error']}")
                if "part" in message and seen is None:
                    seen = time.monotonic() - began
                    waits.first.append(seen)
                if message.get("done"):
                    waits.whole.append(time.monotonic() - began)
                    waits.by_name.setdefault(name, []).append(waits.whole[-1])
                elif time.monotonic() - began > patience:
                    waits.moved_on += 1
                    break
        except (OSError, ValueError, http.client.HTTPException) as fault:
            waits.errors.append(f"{name}: {fault!r}")
        finally:
            connection.close()
        time.sleep(rng.expovariate(1.0 / THINKING))


def megabytes(processes: tuple[int, ...]) -> float:
    """Resident memory of some processes (Linux); one that has just been replaced counts nothing."""
    total = 0.0
    for process in processes:
        status = Path(f"/proc/{process}/status")
        if status.exists():
            lines = status.read_text().splitlines()
            total += sum(float(line.split()[1]) / 1e3 for line in lines if "VmRSS" in line)
    return total


def load(people: int, seconds: float) -> dict[str, Any]:
    """The numbers of one run."""
    waits, peak = Waits(), 0.0
    before = os.times()
    with start(port=0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=person, args=(server, number, until, waits), daemon=True)
            for number in range(people)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.5)
            peak = max(peak, megabytes(server.pool.processes))
        server.shutdown()
    for error in waits.errors[:10]:
        print(error, file=sys.stderr)
    after = os.times()  # of the processes that have ended, as all have now; 0 on Windows
    computed = after.children_user - before.children_user
    return {
        **waits.report(),
        "processor seconds": round(computed, 1),
        "of these an answer": round(computed / max(1, len(waits.whole)), 2),
        "megabytes of all processes, at most": round(peak),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    for name, value in load(options.people, options.seconds).items():
        print(f"{name:38} {value}")


if __name__ == "__main__":
    main()
