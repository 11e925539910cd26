"""Batches written by this process, or by any executor of `concurrent.futures`."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from sharpdp._validate.extras import optional_packages

with optional_packages("arrow", "pyarrow"):
    import pyarrow as pa
    from pyarrow import ipc, parquet

from sharpdp._validate import has_entries, short_repr
from sharpdp.batches.scheme import BatchScheme
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.integrations.materialized.layout import Key, Layout, key_of
from sharpdp.integrations.materialized.manifest import MANIFEST, BatchFile, Manifest, file_name
from sharpdp.integrations.materialized.records import (
    INDEX,
    assembled,
    needed_records,
    plain,
    plain_schema,
    routed,
    written_schema,
)
from sharpdp.storage.run_lock import replace_file

__all__ = ["Piece", "file_of_batches", "materialize", "pieces_of"]

UNFINISHED = "unfinished"
"""Folder inside that of the batches for rows on their way."""


@dataclass(frozen=True)
class Piece:
    """A part of a file of records that is read at once: a row group of Parquet, a batch of Arrow.

    Args:
        path: The file.
        group: Number of the row group or batch in it.
        first: Position of its first record in the data set.
        rows: How many records it has.
    """

    path: Path
    group: int
    first: int
    rows: int

    def read(self, schema: Any) -> Any:
        """Its records as one record batch."""
        if _is_parquet(self.path):
            with parquet.ParquetFile(self.path) as file:
                table = file.read_row_group(self.group, use_threads=False).combine_chunks()
            batches = table.to_batches()
            records = batches[0] if batches else pa.record_batch([], schema=table.schema)
        else:
            with pa.memory_map(str(self.path)) as source:
                records = ipc.open_file(source).get_batch(self.group)
        if records.num_rows != self.rows:
            raise InvalidArgument(
                f"{self.path.name} must have {self.rows} records in part {self.group}, as its footer "
                f"said; got {records.num_rows}."
            )
        return plain(records, schema)


def pieces_of(files: Sequence[str | Path]) -> tuple[list[Piece], Any]:
    """The pieces of files of records, in the order of positions, and the plain columns of all of them.

    Only footers are read.
    """
    if isinstance(files, str | Path) or not has_entries(files) or not list(files):
        raise WrongType(f"records must be a list of files; got {short_repr(files)}.")
    pieces: list[Piece] = []
    schema, first = None, 0
    for name in files:
        path = Path(name)
        if not path.is_file():
            raise InvalidArgument(f"records must be files; got {str(path)!r}, which is none.")
        found, sizes = _footer(path)
        if schema is not None and plain_schema(found) != schema:
            raise InvalidArgument(
                f"records must all have the same columns; got others in {path.name}."
            )
        schema = plain_schema(found)
        for group, rows in enumerate(sizes):
            pieces.append(Piece(path, group, first, rows))
            first += rows
    return pieces, schema


def _footer(path: Path) -> tuple[Any, list[int]]:
    """Columns of a file, and how many rows its parts have."""
    if _is_parquet(path):
        with parquet.ParquetFile(path) as file:
            groups = range(file.num_row_groups)
            sizes = [file.metadata.row_group(group).num_rows for group in groups]
            return file.schema_arrow, sizes
    with pa.memory_map(str(path)) as source:
        arrow = ipc.open_file(source)
        sizes = [arrow.get_batch(group).num_rows for group in range(arrow.num_record_batches)]
        return arrow.schema, sizes


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def materialize(
    records: Sequence[str | Path],
    plan: BatchScheme,
    key: Key,
    folder: str | Path,
    *,
    executor: Executor | None = None,
    rows_per_file: int | None = None,
    physical_batch_size: int | None = None,
) -> Manifest:
    """Write the batches of a plan to files, one after the other, with a manifest.

    The files are Arrow files with one record batch for each step, empty ones included. They are the same,
    byte for byte, for any executor, number of workers and division of the records into files. A worker
    holds one piece of the input or one output file at a time.

    Args:
        records: Parquet or Arrow files, which make up the data set in this order. A row group, or a
            record batch, is read at once.
        plan: The batch scheme, of as many examples as there are records. Poisson batches without a
            ``dataset_size`` take any number: every record flips coins of its own.
        key: The key of the run; a function is called by every worker to fetch it; None where nothing is
            drawn.
        folder: Where to write; it must be new or empty.
        executor: Runs the work, for one a `ProcessPoolExecutor`, whose workers see the same files; None
            for this process.
        rows_per_file: About how many rows to write to one file, at least 1; None for 32 times the root of
            all rows, at least 2^16.
        physical_batch_size: Rows of every batch on disk, the last ones padding; None for that of
            `TruncatedPoissonBatches`, and for batches as long as they are otherwise.

    Returns:
        The manifest, which is in the folder as well.

    Raises:
        InvalidArgument: The records are not as many as the plan has, have different columns, the folder
            is in use, or a batch is larger than physical_batch_size.
        WrongType: An argument has the wrong type.
        MissingExtra: pyarrow is not installed.
    """
    pieces, schema = pieces_of(records)
    total = pieces[-1].first + pieces[-1].rows if pieces else 0
    layout = Layout.of(plan, total, rows_per_file, physical_batch_size)
    known = key_of(plan, key)
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InvalidArgument(f"folder must be new or empty; got {str(place)!r}, which is not.")
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = place / UNFINISHED
    work.mkdir(mode=0o700)
    run = executor.map if executor is not None else map
    job = _Job(layout, key, schema, place, work, tuple(pieces))
    if not plan.finds_steps:  # type: ignore[attr-defined]  # checked by Layout.of
        _finish(run(job.find_needed, range(layout.files)))
    _finish(run(job.route, range(len(pieces))))
    manifest = Manifest.of(layout, known, schema, run(job.assemble, range(layout.files)))
    shutil.rmtree(work)
    replace_file(place / MANIFEST, manifest.to_json().encode())
    return manifest


def _finish(results: Iterator[None]) -> None:
    """Wait for all of them; the first error is raised."""
    for _ in results:
        pass


@dataclass(frozen=True)
class _Job:
    """The moves of `records` with files in between; what is pickled for workers."""

    layout: Layout
    key: Key
    schema: Any
    folder: Path
    work: Path
    pieces: tuple[Piece, ...]

    def find_needed(self, number: int) -> None:
        starts = np.array([piece.first for piece in self.pieces], dtype=np.int64)
        found = needed_records(self.layout, key_of(self.layout.plan, self.key), number, starts)
        _hand_over(self.work / f"needed-{number}", found)

    def route(self, number: int) -> None:
        piece, key = self.pieces[number], key_of(self.layout.plan, self.key)
        needed = None
        if not self.layout.plan.finds_steps:
            needed = _taken_over(self.work, "needed", self.layout.files, number)
        found = routed(self.layout, key, piece.first, piece.read(self.schema), needed)
        _hand_over(self.work / f"rows-{number}", found)

    def assemble(self, number: int) -> BatchFile:
        rows = _taken_over(self.work, "rows", len(self.pieces), number)
        key = key_of(self.layout.plan, self.key)
        save = partial(replace_file, self.folder / file_name(number))
        return file_of_batches(self.layout, key, number, rows, self.schema, save)


def _hand_over(path: Path, parts: Iterable[tuple[int, Any]]) -> None:
    """Write parts for other workers, and then a list of their numbers.

    Under a name of its own until it is whole: an executor may run a task again.
    """
    own = path.with_name(f"{path.name}.{uuid4().hex}")
    numbers: list[int] = []
    writer = None
    for number, part in parts:
        writer = writer or ipc.new_file(str(own), part.schema)
        writer.write_batch(part)
        numbers.append(number)
    if writer is not None:
        writer.close()
        own.replace(path)
    np.save(f"{own}.npy", np.array(numbers, dtype=np.int64))
    Path(f"{own}.npy").replace(f"{path}.npy")


def _taken_over(work: Path, kind: str, count: int, number: int) -> Iterator[Any]:
    """The parts of one number, from all files of a kind."""
    for source in range(count):
        path = work / f"{kind}-{source}"
        numbers = np.load(f"{path}.npy")
        place = int(np.searchsorted(numbers, number))
        if place < numbers.size and numbers[place] == number:
            with pa.OSFile(str(path)) as file:
                yield ipc.open_file(file).get_batch(place)


def file_of_batches(
    layout: Layout,
    key: bytes | int | None,
    number: int,
    rows: Iterable[Any],
    schema: Any,
    save: Callable[[bytes], object],
) -> BatchFile:
    """Assemble one output file, save it, and say what it is."""
    sink = pa.BufferOutputStream()
    kept = 0
    with ipc.new_file(sink, written_schema(schema)) as writer:
        for batch in assembled(layout, key, number, rows, schema):
            writer.write_batch(batch)
            kept += int(np.count_nonzero(batch[INDEX].to_numpy() >= 0))
    content = sink.getvalue()
    save(content)
    span = layout.steps_of_file(number)
    digest = hashlib.sha256(content).hexdigest()
    return BatchFile(file_name(number), span.start, len(span), kept, content.size, digest)
