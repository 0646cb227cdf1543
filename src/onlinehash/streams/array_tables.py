"""Binary files as tables: npy by mapping, npz array by array, parquet by record batches."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from onlinehash import checks
from onlinehash.arraylike import is_numeric, matrix_of
from onlinehash.errors import InvalidInput, MissingExtra, OnlineHashError
from onlinehash.streams.tables import Table, lower_names, plain_names

#: What an npz may hold; other arrays in it are left alone.
ARRAYS = ("a", "b", "id_a", "id_b", "similar", "weight", "x", "y", "label", "id")


def read_npy(path: str, size: int, labels: np.ndarray | None = None) -> Iterator[Table]:
    """A matrix, as the column x; labels from elsewhere become the column label."""
    matrix = map_matrix(path)
    columns = {"x": matrix}
    if labels is not None:
        if labels.shape != (len(matrix),):
            raise InvalidInput(expected=f"{len(matrix)} labels, one per row of {path}", got=f"{labels.shape}")
        columns["label"] = labels
    yield from _slices(path, "npy", columns, size)


def read_npz(path: str, size: int) -> Iterator[Table]:
    """Arrays of one length; those with names of ours are read."""
    with open_archive(path, InvalidInput) as arrays:
        names = dict(zip(lower_names(arrays.files, path), arrays.files, strict=True))
        columns = {name: np.atleast_1d(arrays[names[name]]) for name in ARRAYS if name in names}
    if not columns:
        raise InvalidInput(where=path, expected="the arrays A, B, similar or X, y", got=f"{', '.join(names)}")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"{path}: the arrays must have equal lengths, got {lengths}.")
    yield from _slices(path, "npz", columns, size)


@contextmanager
def open_archive(path: str | os.PathLike[str], refusal: type[OnlineHashError]) -> Iterator[NpzFile]:
    """The arrays of an npz, to be read one by one. Nothing in it is ever unpickled; what is no npz is refused."""
    try:
        with open(path, "rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if isinstance(arrays, np.ndarray):
                raise ValueError("a single array, whose file ends in .npy")
            check_archive(path, arrays)
            yield arrays
    except FileNotFoundError:
        raise InvalidInput(f"no such file: {path}.") from None
    except OnlineHashError:
        raise
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise refusal(f"cannot read {path} as named arrays of numbers or text: {error}.") from None


def check_archive(path: str | os.PathLike[str], arrays: NpzFile) -> None:
    """Refuse an npz that is opened, but would unpack to far more than it is."""
    assert arrays.zip is not None  # as long as it is open
    checks.unpacked(path, os.path.getsize(path), sum(entry.file_size for entry in arrays.zip.infolist()))


def read_parquet(path: str, size: int) -> Iterator[Table]:
    """Record batches; a column of lists of numbers becomes a matrix."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("reading parquet", "pyarrow", "parquet") from None
    try:
        with parquet.ParquetFile(path) as file:
            names = lower_names(file.schema_arrow.names, path)
            written = dict(zip(names, plain_names(file.schema_arrow.names), strict=True))
            _check_groups(path, file.metadata)
            done, total = 0, file.metadata.num_rows
            for batch in file.iter_batches(size):
                columns = dict(zip(names, map(from_arrow, batch.columns), strict=True))
                numbers = range(done, done + batch.num_rows)
                done += batch.num_rows
                yield Table(path, "parquet", "row", numbers, columns, done / total, written)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(f"{path} is not a readable parquet file: {str(error).rstrip('.')}.") from None


def _check_groups(path: str, metadata: Any) -> None:
    """Refuse a group of rows, of which batches are made, that would unpack to far more than the file is.

    A value that repeats takes next to no room in a file, compressed or not, so values are counted.
    """
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = [group.column(number) for number in range(group.num_columns)]
        size = sum(max(8 * column.num_values, column.total_uncompressed_size) for column in columns)
        checks.unpacked(path, os.path.getsize(path), size)


def from_arrow(array: Any) -> Any:
    """A NumPy array where the values are numbers and none is missing, a list of Python values otherwise."""
    if array.null_count == 0 and is_numeric(array.type):
        return array.to_numpy(zero_copy_only=False)
    matrix = matrix_of(array)
    if matrix is not None:
        return matrix
    return array.to_pylist()


def _slices(path: str, format: str, columns: dict[str, np.ndarray], size: int) -> Iterator[Table]:
    total = len(next(iter(columns.values())))
    for start in range(0, total, size):
        numbers = range(start, min(start + size, total))
        block = {name: np.array(values[start : numbers.stop]) for name, values in columns.items()}
        yield Table(path, format, "row", numbers, block, numbers.stop / total)


def map_matrix(path: str) -> np.ndarray:
    """The matrix of an npy, left on the disk until rows of it are asked for."""
    matrix = map_array(path)
    if matrix.ndim != 2:
        raise InvalidInput(where=path, expected="a matrix with one vector per row", got=f"shape {matrix.shape}")
    return matrix


def map_array(path: str) -> np.ndarray:
    """The array of an npy, left on the disk."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OSError) as error:
        raise InvalidInput(f"cannot read {path} as an array of numbers or text: {error}.") from None
