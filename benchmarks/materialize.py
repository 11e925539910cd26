"""Batches of a plan written to files: CPU seconds, and the most memory that a worker held.

    PYTHONPATH=. python benchmarks/materialize.py [RECORDS [WORKERS]]

Records are a number and 32 bytes each, in Parquet row groups of a million. Then the moves of one worker
among 10^9 and 10^10 records, of which it reads one piece: what it holds does not grow with them. Needs
pyarrow; every line is a process of its own, so that memory is that line's.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import sharpdp as dp

KEY = b"k" * 32
ROWS_PER_PIECE = 10**6
LINE = "{:<34} {:>8} {:>8} {:>10} {:>12}"


def plan_of(name: str, records: int, batch_size: int = 10_000) -> Any:
    """One epoch of batches."""
    sizes = {"dataset_size": records, "batch_size": batch_size, "epochs": 1}
    return {
        "Poisson": dp.PoissonBatches,
        "shuffled": dp.ShuffledBatches,
        "balls-and-bins": dp.BallsAndBins,
    }[name](**sizes)


def write_records(folder: Path, records: int) -> list[Path]:
    """Files of records, one row group each."""
    import pyarrow as pa
    from pyarrow import parquet

    paths = []
    for first in range(0, records, ROWS_PER_PIECE):
        rows = min(ROWS_PER_PIECE, records - first)
        payload = np.random.default_rng(first).bytes(32 * rows)
        binary = pa.Array.from_buffers(pa.binary(32), rows, [None, pa.py_buffer(payload)])
        table = pa.table({"value": np.arange(first, first + rows), "payload": binary})
        paths.append(folder / f"records-{first}.parquet")
        parquet.write_table(table, paths[-1], row_group_size=ROWS_PER_PIECE)
    return paths


def megabytes(who: int) -> float:
    """The most memory that this process, or one of its children, has held."""
    return resource.getrusage(who).ru_maxrss / 1024


def whole_run(name: str, records: int, workers: int) -> str:
    """All records of a data set, by a pool of processes."""
    from sharpdp.integrations.materialized import materialize

    with TemporaryDirectory() as folder:
        paths = write_records(Path(folder), records)
        begin, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            manifest = materialize(paths, plan_of(name, records), KEY, f"{folder}/o", executor=pool)
        wall = time.perf_counter() - wall
    end, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    cpu = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    cpu += children.ru_utime + children.ru_stime
    words = f"{name}, {records:.0e}, {workers} workers"
    worker = megabytes(resource.RUSAGE_CHILDREN)
    return LINE.format(
        words, f"{cpu:.1f}", f"{wall:.1f}", len(manifest.files), f"{worker:.0f} MB a worker"
    )


def one_worker(name: str, records: int) -> str:
    """One piece of the input and one output file, of very many."""
    import pyarrow as pa

    from sharpdp.integrations.materialized import records as moves
    from sharpdp.integrations.materialized.layout import Layout

    plan = plan_of(name, records, batch_size=max(records // 10**4, 10_000))
    layout = Layout.of(plan, records, 2**20, None)
    before, start = megabytes(resource.RUSAGE_SELF), time.process_time()
    if plan.finds_steps:
        values = pa.record_batch({"value": np.arange(ROWS_PER_PIECE)})
        rows = sum(part.num_rows for _, part in moves.routed(layout, KEY, records // 2, values))
    else:
        starts = np.arange(0, records, ROWS_PER_PIECE)
        rows = sum(part.num_rows for _, part in moves.needed_records(layout, KEY, 7, starts))
    cpu, held = time.process_time() - start, megabytes(resource.RUSAGE_SELF) - before
    words = f"{name}, a piece of {records:.0e}"
    return LINE.format(words, f"{cpu:.1f}", "", f"{rows:,}", f"{held:.0f} MB more")


def main(task: str = "", *words: str) -> None:
    """All lines, or one of them."""
    if task == "run":
        print(whole_run(words[0], int(words[1]), int(words[2])), flush=True)
        return
    if task == "piece":
        print(one_worker(words[0], int(words[1])), flush=True)
        return
    records, workers = task or str(10**7), words[0] if words else "2"
    own = [sys.executable, __file__]
    print(LINE.format("records", "CPU s", "wall s", "files/rows", "memory"), flush=True)
    for name in ("Poisson", "shuffled", "balls-and-bins"):
        subprocess.run([*own, "run", name, records, workers], check=True)
    for size in (10**9, 10**10):
        for name in ("Poisson", "shuffled", "balls-and-bins"):
            subprocess.run([*own, "piece", name, str(size)], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
