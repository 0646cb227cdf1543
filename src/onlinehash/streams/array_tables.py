"""Binary files as tables: npy by mapping, npz array by array, parquet by record batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from onlinehash import checks
from onlinehash.arraylike import is_numeric, matrix_of
from onlinehash.errors import InvalidInput, MissingExtra, OnlineHashError
from onlinehash.streams import parquet_chunks
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
    except Exception as error:  # a damaged zip makes its reader raise almost anything
        raise refusal(f"cannot read {path} as named arrays of numbers or text: {error}.") from None


def check_archive(path: str | os.PathLike[str], arrays: NpzFile) -> None:
    """Refuse an npz that is opened, but would unpack to far more than it is."""
    assert arrays.zip is not None  # as long as it is open
    checks.unpacked(path, os.path.getsize(path), sum(entry.file_size for entry in arrays.zip.infolist()))


def read_parquet(path: str, size: int) -> Iterator[Table]:
    """Record batches; a column of lists of numbers becomes a matrix."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtra("reading parquet", "pyarrow", "parquet") from None
    try:
        with open_parquet(path) as file:
            names = lower_names(file.schema_arrow.names, path)
            written = dict(zip(names, plain_names(file.schema_arrow.names), strict=True))
            done, total = 0, file.metadata.num_rows
            for batch in file.iter_batches(rows_at_once(path, size)):
                columns = dict(zip(names, map(from_arrow, batch.columns), strict=True))
                numbers = range(done, done + batch.num_rows)
                done += batch.num_rows
                yield Table(path, "parquet", "row", numbers, columns, done / total, written)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not a readable parquet file: {str(error).rstrip('.')}.") from None


def open_parquet(path: str, **options: Any) -> Any:
    """A parquet file that is open, unless it would unpack to far more than it is.

    A value that repeats takes next to no room in a file, compressed or not, so values are counted.
    """
    from pyarrow import parquet

    file = parquet.ParquetFile(path, **options)
    try:
        widths = [max(8, file.schema.column(number).length) for number in range(file.metadata.num_columns)]
        values = sum(max(widths[chunk.number] * chunk.n_values, chunk.n_bytes) for chunk in parquet_chunks.chunks(path))
        rows = 8 * file.metadata.num_rows * sum(_numbers_in(field.type) for field in file.schema_arrow)
        checks.unpacked(path, os.path.getsize(path), max(values, rows))
    except BaseException:
        file.close()
        raise
    return file


def rows_at_once(path: str, size: int) -> int:
    """`size`, or fewer rows where a long text that a parquet file holds once may stand in each of so many."""
    most = checks.most_unpacked(os.path.getsize(path))
    for chunk in parquet_chunks.chunks(path):
        if chunk.is_text and min(size, chunk.n_values) * chunk.n_bytes > most:
            # Texts that begin as others do are not listed.
            longest = chunk.n_bytes if chunk.has_prefixes else _longest_listed(path, chunk.group, chunk.path)
            if not chunk.has_prefixes:  # a row may have all values but one of each other row
                in_a_row = max(1, chunk.n_values - chunk.n_rows + 1)
                checks.unpacked(path, os.path.getsize(path), in_a_row * longest)
            size = min(size, max(1, most // max(1, longest)))
    return size


def _longest_listed(path: str, group: int, name: str) -> int:
    """The length of the longest text that a part of a column lists once, to be named by number; 0 if it has no list."""
    from pyarrow import compute, parquet

    with parquet.ParquetFile(path, read_dictionary=[name]) as file:
        batch = next(file.iter_batches(1, [group], [name]), None)
    array = None if batch is None else batch.column(0)
    while array is not None and not hasattr(array, "dictionary"):
        array = array.field(0) if hasattr(array, "field") else array.values if hasattr(array, "values") else None
    return 0 if array is None else compute.max(compute.binary_length(array.dictionary)).as_py() or 0


def _numbers_in(kind: Any) -> int:
    """How many numbers a row of lists of fixed length has, which are there even where the file has no list."""
    return kind.list_size * _numbers_in(kind.value_type) if hasattr(kind, "list_size") else 1


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
