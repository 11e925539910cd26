"""Records to batches in three moves, for any engine: Arrow record batches in, Arrow record batches out.

1. `needed_records`: the steps of one output file tell which records they need, piece by piece of the
   input. Plans that find the steps of a record by itself skip this move.
2. `routed`: a piece of the input, a range of positions, becomes rows for the output files.
3. `assembled`: the rows of one output file become its batches, each compared with the plan's.

What comes out depends on the plan, the key, the records and the layout: not on the pieces of the input,
nor on who makes which move, where and when. Each move holds one piece of the input or one output file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate.extras import optional_packages

with optional_packages("arrow", "pyarrow"):
    import pyarrow as pa

from sharpdp.batches.scheme import PADDING, Finder, Indices
from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.integrations.materialized.layout import Layout

__all__ = [
    "INDEX",
    "PAIRS",
    "STEP",
    "assembled",
    "needed_records",
    "plain",
    "plain_schema",
    "routed",
    "routed_schema",
    "written_schema",
]

INDEX = "sharpdp_index"
"""The column with positions in the data set; -1 in rows that are padding."""

STEP = "sharpdp_step"
"""The column with the step that a row is on its way to."""

PAIRS = pa.schema([(STEP, pa.int64()), (INDEX, pa.int64())])

RecordKey = bytes | int | None


def plain_schema(schema: Any) -> Any:
    """The columns of the records without dictionaries and metadata, which differ between files."""
    fields = []
    for field in schema:
        if field.name in (INDEX, STEP):
            raise InvalidArgument(
                f"records must have no column {field.name!r}, which is made here; got one. Rename it."
            )
        fields.append(pa.field(field.name, _plain_type(field.type), nullable=True))
    return pa.schema(fields)


def _plain_type(kind: Any) -> Any:
    """The type without dictionaries, and with one name for the entries of lists: Parquet has its own."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain_type(field.type)) for field in kind])
    return kind


def plain(records: Any, schema: Any) -> Any:
    """A record batch with the columns of `plain_schema`; another one is an error."""
    if plain_schema(records.schema) != schema:
        raise InvalidArgument(
            f"records must all have the columns of the first: {_words(schema)}; got "
            f"{_words(records.schema)}."
        )
    columns = [
        column.cast(kind) for column, kind in zip(records.columns, schema.types, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def _words(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def routed_schema(schema: Any) -> Any:
    """Columns of rows on their way: step, position, and those of the records."""
    return pa.schema([*PAIRS, *schema])


def written_schema(schema: Any) -> Any:
    """Columns of a file: position, and those of the records."""
    return pa.schema([PAIRS.field(INDEX), *schema])


def needed_records(
    layout: Layout, key: RecordKey, number: int, starts: Indices
) -> Iterator[tuple[int, Any]]:
    """Which records the steps of a file need, for each piece of the input.

    Args:
        layout: The files of the run.
        key: The key of the run.
        number: The file.
        starts: Position of the first record of every piece of the input, ascending from 0.

    Returns:
        Pieces by their number, ascending, each with a record batch of steps and positions.
    """
    steps = layout.steps_of_file(number)
    batches = layout.plan.batches(key, start=steps.start)
    drawn = [batch for _, batch in zip(steps, batches, strict=False)]
    indices = np.concatenate(drawn)
    at = np.repeat(np.arange(steps.start, steps.stop), [batch.size for batch in drawn])
    pieces = np.searchsorted(starts, indices, side="right") - 1
    for piece, rows in _groups(pieces):
        yield piece, pa.record_batch([at[rows], indices[rows]], schema=PAIRS)


def routed(
    layout: Layout, key: RecordKey, first: int, records: Any, needed: Iterable[Any] | None = None
) -> Iterator[tuple[int, Any]]:
    """The rows that some records become, for each output file.

    Args:
        layout: The files of the run.
        key: The key of the run.
        first: Position of the first record.
        records: A record batch of `plain` columns.
        needed: What `needed_records` said of this piece, from all files; None to ask the plan, which must
            find steps by itself.

    Returns:
        Files by their number, ascending, each with a record batch of rows.
    """
    if first < 0 or first + records.num_rows > layout.records:
        raise InvalidArgument(
            f"records must have positions from 0 to below {layout.records}; got those from {first} to "
            f"{first + records.num_rows - 1}."
        )
    if records.num_rows == 0:
        return
    if needed is None:
        positions = np.arange(first, first + records.num_rows, dtype=np.int64)
        where, steps = _finder(layout.plan, key)(positions)
    else:
        pairs = pa.Table.from_batches(needed, schema=PAIRS)
        steps, where = pairs[STEP].to_numpy(), pairs[INDEX].to_numpy() - first
    for number, rows in _groups(steps // layout.steps_per_file):
        taken = records.take(pa.array(where[rows]))
        columns = [pa.array(steps[rows]), pa.array(where[rows] + first), *taken.columns]
        yield number, pa.record_batch(columns, schema=routed_schema(records.schema))


def assembled(
    layout: Layout, key: RecordKey, number: int, pieces: Iterable[Any], schema: Any
) -> Iterator[Any]:
    """The batches of one output file, each the one that the plan draws.

    Args:
        layout: The files of the run.
        key: The key of the run.
        number: The file.
        pieces: What `routed` gave for this file, from all pieces of the input, in any order.
        schema: The plain columns of the records.

    Returns:
        One record batch for each step, rows by position, padded to the places of the layout.

    Raises:
        SharpDPError: The rows are not those of the plan: a piece is missing, came twice or is of another
            plan.
        InvalidArgument: A batch has more rows than there are places.
    """
    table = pa.Table.from_batches(pieces, schema=routed_schema(schema))
    steps, indices = table[STEP].to_numpy(), table[INDEX].to_numpy()
    order = np.lexsort((indices, steps))
    steps, indices = steps[order], indices[order]
    span = layout.steps_of_file(number)
    if steps.size and not (span.start <= steps[0] and steps[-1] < span.stop):
        raise SharpDPError(f"the rows of file {number} must be of steps {span}; got others.")
    rows = table.select(schema.names).take(pa.array(order)).combine_chunks()
    ends = np.searchsorted(steps, np.arange(span.start, span.stop + 1))
    for step, planned in _planned(layout, key, span):
        begin, end = ends[step - span.start], ends[step - span.start + 1]
        batch = indices[begin:end]
        right = np.all(np.diff(batch) > 0) if planned is None else np.array_equal(batch, planned)
        if not right:
            raise SharpDPError(
                f"the batch of step {step} must be the one that the plan draws; got {batch.size} other "
                "rows. Was a piece of the records left out, given twice or in another order?"
            )
        yield _written(rows, batch, int(begin), layout, schema)


def _planned(layout: Layout, key: RecordKey, span: range) -> Iterator[tuple[int, Indices | None]]:
    """The batches of the plan; None for a stream, which has no other law than that of its records."""
    if layout.plan.dataset_size is None:
        yield from ((step, None) for step in span)
        return
    yield from zip(span, layout.plan.batches(key, start=span.start), strict=False)


def _written(rows: Any, batch: Indices, begin: int, layout: Layout, schema: Any) -> Any:
    """One batch as it is written."""
    kept = rows.slice(begin, batch.size)
    if layout.places is None:
        indices, take = batch, np.arange(batch.size)
    else:
        if batch.size > layout.places:
            raise InvalidArgument(
                f"physical_batch_size must be at least {batch.size}, the rows of a batch; got "
                f"{layout.places}. overflow(size) of the plan tells how likely a batch is larger."
            )
        indices = layout.plan.padded(batch, physical_batch_size=layout.places)
        take = np.where(indices >= 0, np.arange(indices.size), PADDING)
    # null where nobody is: a reader that takes padding for a record finds no values
    places = pa.array(take, mask=take < 0)
    columns = [_whole(kept[name], places, schema.field(name).type) for name in schema.names]
    return pa.record_batch([pa.array(indices), *columns], schema=written_schema(schema))


def _whole(column: Any, places: Any, kind: Any) -> Any:
    """A chunked column as one array of its own."""
    taken = column.take(places)
    return pa.concat_arrays([pa.array([], kind), *taken.chunks])


def _groups(numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each number that is there, ascending, with the rows at which it is, in their order."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for rows in np.split(order, cuts):
        if rows.size:
            yield int(numbers[rows[0]]), rows


@lru_cache(maxsize=2)
def _finder(plan: Any, key: RecordKey) -> Finder:
    """Kept for the next piece: what is found for one, such as the ends of bins, serves all."""
    finder: Finder = plan._finder(key)
    return finder
