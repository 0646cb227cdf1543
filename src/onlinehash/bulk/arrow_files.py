"""Partitions of Parquet files, which are made of row groups, and of Arrow IPC files, which are made of batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.bulk.partitions import BLOCK_BYTES, PARTITION_BYTES, Columns, Partition, Rows, rows_in
from onlinehash.errors import FormatError, InvalidInput, MissingExtra
from onlinehash.io.arrow_messages import unpacked_size
from onlinehash.streams.array_tables import from_arrow, open_parquet, rows_at_once

VECTOR_NAMES = ("vector", "x")
LABEL_NAMES = ("label", "y")


def need_pyarrow() -> None:
    """Raise early if pyarrow is missing, here and on workers."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtra("bulk work", "pyarrow", "parquet") from None


@dataclass(frozen=True)
class ParquetGroups(Partition):
    """Consecutive row groups of a Parquet file."""

    columns: Columns
    groups: tuple[int, ...]

    def blocks(self) -> Iterator[Rows]:
        at, names = self.first, [self.columns.vector, *self.columns.others.values()]
        with _readable(self.path), open_parquet(self.path) as file:
            size = rows_in(BLOCK_BYTES, _vector_bytes(file.schema_arrow.field(self.columns.vector).type))
            size = rows_at_once(self.path, size)
            for batch in file.iter_batches(size, list(self.groups), names, use_threads=False):
                yield _rows(batch, self, at)
                at += batch.num_rows


@dataclass(frozen=True)
class IpcBatches(Partition):
    """Consecutive record batches of an Arrow IPC file, which is mapped."""

    columns: Columns
    batches: range

    def blocks(self) -> Iterator[Rows]:
        import pyarrow

        at = self.first
        with _readable(self.path), pyarrow.memory_map(self.path) as mapped:
            file = pyarrow.ipc.open_file(mapped, options=pyarrow.ipc.IpcReadOptions(use_threads=False))
            size = rows_in(BLOCK_BYTES, _vector_bytes(file.schema.field(self.columns.vector).type))
            for number in self.batches:
                batch = file.get_batch(number)
                batch.validate(full=True)  # which believes no offset in it; an array that leads out of itself aborts
                for start in range(0, batch.num_rows, size):
                    block = batch.slice(start, size)
                    yield _rows(block, self, at)
                    at += block.num_rows


def parquet_partitions(
    path: str, identity: str, first: int, columns: Columns, n_rows: int | None
) -> Iterator[ParquetGroups]:
    """Row groups, small ones combined."""
    with _readable(path), open_parquet(path) as file:
        vector_bytes = _vector_bytes(file.schema_arrow.field(columns.vector).type)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    for groups, start, stop in _together(sizes, n_rows or rows_in(PARTITION_BYTES, vector_bytes)):
        yield ParquetGroups(path, f"{identity}:{start}:{stop}", first + start, stop - start, columns, tuple(groups))


def ipc_partitions(path: str, identity: str, first: int, columns: Columns, n_rows: int | None) -> Iterator[IpcBatches]:
    """Record batches, small ones combined."""
    import pyarrow

    with _readable(path), pyarrow.memory_map(path) as mapped:
        checks.unpacked(path, mapped.size(), unpacked_size(memoryview(mapped.read_buffer()).cast("B")))
        schema = pyarrow.ipc.open_file(mapped).schema
        plain = [number for number, field in enumerate(schema) if not hasattr(field.type, "value_type")]
        # One column is enough to know the lengths of batches, which may be compressed.
        options = pyarrow.ipc.IpcReadOptions(included_fields=(plain or [0])[:1], use_threads=False)
        file = pyarrow.ipc.open_file(mapped, options=options)
        sizes = [file.get_batch(number).num_rows for number in range(file.num_record_batches)]
        vector_bytes = _vector_bytes(schema.field(columns.vector).type)
    for batches, start, stop in _together(sizes, n_rows or rows_in(PARTITION_BYTES, vector_bytes)):
        yield IpcBatches(path, f"{identity}:{start}:{stop}", first + start, stop - start, columns, batches)


def columns_of(path: str, format: str, wanted: Columns) -> Columns:
    """The columns of a file: the given names, or else the default names, ignoring case.

    Without a column of a default name, the only column that holds lists is that of the vectors.
    """
    import pyarrow

    with _readable(path):
        schema = _schema(path, format)
        names = {name.lower(): name for name in reversed(schema.names)}

    def found(name: str | None, usual: Sequence[str]) -> str | None:
        if name and name.lower() not in names:
            raise InvalidInput(
                where=path, expected=f"a column {name}", got=f"the columns {', '.join(schema.names[:6])}"
            )
        return next((names[n] for n in ([name.lower()] if name else usual) if n in names), None)

    vector = found(wanted.vector, VECTOR_NAMES)
    if vector is None:
        lists = [field.name for field in schema if hasattr(field.type, "value_type")]
        if len(lists) != 1:
            raise InvalidInput(
                where=path,
                expected="a column vector of lists of numbers",
                got=f"the columns {', '.join(schema.names[:6])}",
                hint="name it with open_source(..., vector=NAME) or --column NAME",
            )
        vector = lists[0]
    kind = getattr(schema.field(vector).type, "value_type", None)
    if kind is not None and not pyarrow.types.is_primitive(kind):  # lists of strings, or of lists
        raise InvalidInput(where=path, expected=f"lists of numbers in the column {vector}", got=f"lists of {kind}")
    return Columns(vector, found(wanted.id, ("id",)), found(wanted.label, LABEL_NAMES))


def _schema(path: str, format: str) -> Any:
    import pyarrow
    from pyarrow import parquet

    if format == "parquet":
        return parquet.read_schema(path)
    with pyarrow.memory_map(path) as mapped:
        return pyarrow.ipc.open_file(mapped).schema


@contextmanager
def _readable(path: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError, struct.error) as error:
        raise FormatError(f"{path} is not a readable Parquet or Arrow IPC file: {str(error).rstrip('.')}.") from None


def _rows(batch: Any, partition: ParquetGroups | IpcBatches, first: int) -> Rows:
    columns = partition.columns
    X = from_arrow(batch.column(columns.vector))
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        raise InvalidInput(
            f"{partition.path}: the column {columns.vector} has missing vectors, or vectors of "
            f"unequal length, among rows {first} to {first + batch.num_rows - 1} of the source."
        )
    return Rows(X, first, {ours: batch.column(name) for ours, name in columns.others.items()})


def _vector_bytes(kind: object) -> int:
    """About how many bytes a vector has; a list that does not say its length counts as 512 numbers."""
    size = getattr(kind, "list_size", 512)
    return int(size * getattr(getattr(kind, "value_type", None), "bit_width", 32) // 8)


def _together(sizes: Sequence[int], at_most: int) -> Iterator[tuple[range, int, int]]:
    """Pieces one after the other, taken together as long as they have no more rows: which, and their rows."""
    begin = start = stop = 0
    for piece, size in enumerate(sizes):
        if stop > start and stop - start + size > at_most:
            yield range(begin, piece), start, stop
            begin, start = piece, stop
        stop += size
    if stop > start:
        yield range(begin, len(sizes)), start, stop
