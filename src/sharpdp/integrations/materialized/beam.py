"""Materialized batches by Apache Beam, on whatever runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import numpy as np

from sharpdp._validate.extras import optional_packages

with optional_packages("beam", "apache_beam", "pyarrow"):
    import apache_beam as beam
    import pyarrow as pa
    from apache_beam.io.filesystems import FileSystems
    from pyarrow import ipc

from sharpdp._validate import count
from sharpdp.batches.scheme import BatchScheme
from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.integrations.materialized.layout import Key, Layout, key_of
from sharpdp.integrations.materialized.manifest import MANIFEST, BatchFile, Manifest, file_name
from sharpdp.integrations.materialized.records import (
    INDEX,
    PAIRS,
    needed_records,
    plain,
    plain_schema,
    routed,
)
from sharpdp.integrations.materialized.writer import Piece, file_of_batches

__all__ = ["MaterializeBatches", "read_piece"]

POSITIONS_PER_CELL = 2**18
"""Input is joined with what files need by ranges of so many positions, however it comes in pieces."""


class MaterializeBatches(beam.PTransform):  # type: ignore[misc]  # Beam's types are not followed
    """From records to files of batches, the same as `materialize` writes, and their manifest.

    The input are pairs of the position of a first record and an Arrow record batch of it and those that
    follow; `read_piece` makes them of `pieces_of(files)`. They may come in any order and of any sizes, as
    long as every record comes once. The output is the manifest, a single element, once all is written.

    Args:
        plan: The batch scheme.
        key: The key of the run, which then is part of the pipeline; or a function that every worker calls
            to fetch it.
        folder: Where to write: a path, or an address that Beam's file systems know. It must be new or
            empty.
        schema: Columns of the records, an Arrow schema.
        records: How many records there are; None for the ``dataset_size`` of the plan.
        rows_per_file: About how many rows to write to one file; None for the default of `materialize`.
        physical_batch_size: Rows of every batch on disk; None as for `materialize`.

    Raises:
        InvalidArgument: An argument is out of range, or the folder is in use.
        WrongType: An argument has the wrong type.
        MissingExtra: apache-beam is not installed.
    """

    def __init__(
        self,
        plan: BatchScheme,
        key: Key,
        folder: str,
        *,
        schema: Any,
        records: int | None = None,
        rows_per_file: int | None = None,
        physical_batch_size: int | None = None,
    ) -> None:
        """Check the plan and the folder; nothing is read yet."""
        super().__init__()
        total = plan.dataset_size if records is None else count(records=records)
        if total is None:
            raise InvalidArgument(
                "records must be given for a plan without a dataset_size; got None."
            )
        self._layout = Layout.of(plan, total, rows_per_file, physical_batch_size)
        self._key, self._schema, self._folder = key, plain_schema(schema), str(folder)
        if any(match.metadata_list for match in FileSystems.match([f"{self._folder}/*"])):
            raise InvalidArgument(
                f"folder must be new or empty; got {self._folder!r}, which is not."
            )

    def expand(self, records: Any) -> Any:
        """The moves of `records`, with Beam's shuffles in between."""
        layout, key, schema = self._layout, self._key, self._schema
        pieces = records | "plain columns" >> beam.Map(_plain, schema)
        total = pieces | "sizes" >> beam.Map(lambda piece: piece[2]) | beam.CombineGlobally(sum)
        numbers = records.pipeline | "files" >> beam.Create(range(layout.files))
        if layout.plan.finds_steps:
            rows = pieces | "route" >> beam.FlatMap(_route, layout, key)
        else:
            cells = pieces | "cut" >> beam.FlatMap(_cut)
            needed = numbers | "needed" >> beam.FlatMap(_needed, layout, key)
            joined = {"records": cells, "needed": needed} | beam.CoGroupByKey()
            rows = joined | "join" >> beam.FlatMap(_join, layout, key)
        # a file without rows is written, too
        seats = numbers | "empty files" >> beam.Map(lambda number: (number, b""))
        grouped = (rows, seats) | beam.Flatten() | "by file" >> beam.GroupByKey()
        files = grouped | "write" >> beam.Map(_write, layout, key, schema, self._folder)
        return (
            files
            | "all files" >> beam.combiners.ToList()
            | beam.Map(_manifest, layout, key, schema, self._folder, beam.pvalue.AsSingleton(total))
        )


def read_piece(piece: Piece, schema: Any) -> tuple[int, Any]:
    """The records of a piece, as `MaterializeBatches` takes them.

    Args:
        piece: One of `pieces_of`.
        schema: The columns that `pieces_of` gave with it.

    Returns:
        The position of the first record, and a record batch.
    """
    return piece.first, piece.read(schema)


def _packed(batch: Any) -> bytes:
    """A record batch as bytes, columns included."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _unpacked(contents: Iterable[bytes]) -> Iterator[Any]:
    for content in contents:
        if content:
            yield ipc.open_stream(content).read_next_batch()


def _plain(piece: tuple[int, Any], schema: Any) -> tuple[int, bytes, int]:
    first, records = piece
    return first, _packed(plain(records, schema)), records.num_rows


def _route(piece: tuple[int, bytes, int], layout: Layout, key: Key) -> Iterator[tuple[int, bytes]]:
    for records in _unpacked([piece[1]]):
        for number, rows in routed(layout, key_of(layout.plan, key), piece[0], records):
            yield number, _packed(rows)


def _cut(piece: tuple[int, bytes, int]) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """The records of a piece, cut where cells end."""
    first, content, rows = piece
    for records in _unpacked([content]):
        start = 0
        while start < rows:
            cell = (first + start) // POSITIONS_PER_CELL
            stop = min((cell + 1) * POSITIONS_PER_CELL - first, rows)
            yield cell, (first + start, _packed(records.slice(start, stop - start)))
            start = stop


def _needed(number: int, layout: Layout, key: Key) -> Iterator[tuple[int, bytes]]:
    starts = np.arange(0, layout.records, POSITIONS_PER_CELL, dtype=np.int64)
    for cell, pairs in needed_records(layout, key_of(layout.plan, key), number, starts):
        yield cell, _packed(pairs)


def _join(
    joined: tuple[int, dict[str, Any]], layout: Layout, key: Key
) -> Iterator[tuple[int, bytes]]:
    """Rows of one cell, from its records and what all files need of it."""
    known = key_of(layout.plan, key)
    pairs = pa.Table.from_batches(_unpacked(joined[1]["needed"]), schema=PAIRS)
    positions = pairs[INDEX].to_numpy()
    for first, content in joined[1]["records"]:
        for records in _unpacked([content]):
            inside = (positions >= first) & (positions < first + records.num_rows)
            needed = pairs.filter(pa.array(inside)).to_batches()
            for number, rows in routed(layout, known, first, records, needed):
                yield number, _packed(rows)


def _write(
    grouped: tuple[int, Iterable[bytes]], layout: Layout, key: Key, schema: Any, folder: str
) -> BatchFile:
    number, rows = grouped[0], list(_unpacked(grouped[1]))
    known = key_of(layout.plan, key)

    def save(content: Any) -> None:
        _saved(folder, file_name(number), content)

    return file_of_batches(layout, known, number, rows, schema, save)


def _saved(folder: str, name: str, content: Any) -> None:
    """Under a name of its own until it is whole: Beam may run a bundle again."""
    if not FileSystems.exists(folder):
        with suppress(OSError):  # another worker made it
            FileSystems.mkdirs(folder)
    own = FileSystems.join(folder, f"unfinished-{uuid4().hex}")
    with FileSystems.create(own, mime_type="application/octet-stream") as file:
        file.write(memoryview(content))
    target = FileSystems.join(folder, name)
    if FileSystems.exists(target):
        FileSystems.delete([target])
    FileSystems.rename([own], [target])


def _manifest(
    files: list[BatchFile], layout: Layout, key: Key, schema: Any, folder: str, total: int
) -> Manifest:
    if total != layout.records:
        raise SharpDPError(f"records must be {layout.records}, each once; got {total}.")
    manifest = Manifest.of(layout, key_of(layout.plan, key), schema, files)
    _saved(folder, MANIFEST, manifest.to_json().encode())
    return manifest
