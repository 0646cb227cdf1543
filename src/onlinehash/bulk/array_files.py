"""Partitions of npy files, by rows, and of Zarr arrays, by chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.bulk.arrow_files import LABEL_NAMES, VECTOR_NAMES
from onlinehash.bulk.partitions import BLOCK_BYTES, PARTITION_BYTES, Columns, Partition, Rows, rows_in
from onlinehash.errors import FormatError, InvalidInput, MissingExtra
from onlinehash.streams.array_tables import map_array, map_matrix

#: Files beside NAME.npy that hold a value for each of its rows: NAME.ids.npy, NAME.labels.npy.
BESIDE = {"id": ".ids.npy", "label": ".labels.npy"}


@dataclass(frozen=True)
class NpyRows(Partition):
    """Consecutive rows of an npy file, which is mapped."""

    start: int

    def blocks(self) -> Iterator[Rows]:
        matrix, others = map_matrix(self.path), _beside(self.path)
        size = rows_in(BLOCK_BYTES, matrix.shape[1] * matrix.dtype.itemsize)
        for at in range(0, self.n_rows, size):
            rows = slice(self.start + at, self.start + min(at + size, self.n_rows))
            values = {name: np.asarray(array[rows]) for name, array in others.items()}
            yield Rows(np.asarray(matrix[rows]), self.first + at, values)


@dataclass(frozen=True)
class ZarrChunks(Partition):
    """Consecutive chunks of a Zarr array, or of those of a group."""

    columns: Columns
    start: int

    def blocks(self) -> Iterator[Rows]:
        matrix, others = _zarr_arrays(self.path, self.columns)
        size = rows_in(BLOCK_BYTES, matrix.shape[1] * matrix.dtype.itemsize, _chunk_rows(matrix))
        for at in range(0, self.n_rows, size):
            rows = slice(self.start + at, self.start + min(at + size, self.n_rows))
            yield Rows(matrix[rows], self.first + at, {name: array[rows] for name, array in others.items()})


def npy_partitions(path: str, identity: str, first: int, columns: Columns, n_rows: int | None) -> Iterator[NpyRows]:
    """Partitions of the given number of rows, or of at most a partition's bytes."""
    matrix = map_matrix(path)
    for name, values in _beside(path).items():
        if values.shape != (len(matrix),):
            raise InvalidInput(
                where=path, expected=f"{len(matrix)} values in its file of {name}s", got=f"{values.shape}"
            )
    size = n_rows or rows_in(PARTITION_BYTES, matrix.shape[1] * matrix.dtype.itemsize)
    for start in range(0, len(matrix), size):
        stop = min(start + size, len(matrix))
        yield NpyRows(path, f"{identity}:{start}:{stop}", first + start, stop - start, start)


def zarr_partitions(path: str, identity: str, first: int, columns: Columns, n_rows: int | None) -> Iterator[ZarrChunks]:
    """Whole chunks, small ones combined."""
    matrix, others = _zarr_arrays(path, columns)
    for array in (matrix, *others.values()):
        _check_unpacked(path, array)
    n, chunk = matrix.shape[0], _chunk_rows(matrix)
    for name, values in others.items():
        if values.shape != (n,):
            raise InvalidInput(where=path, expected=f"{n} values in its array {name}", got=f"{values.shape}")
    row_bytes = matrix.shape[1] * matrix.dtype.itemsize
    size = rows_in(n_rows, 1, chunk) if n_rows else rows_in(PARTITION_BYTES, row_bytes, chunk)
    for start in range(0, n, size):
        stop = min(start + size, n)
        yield ZarrChunks(path, f"{identity}:{start}:{stop}", first + start, stop - start, columns, start)


def _check_unpacked(path: str, array: Any) -> None:
    """Refuse an array that would unpack to far more than its folder holds: chunks that lack are made up."""
    packed = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    shapes = (array.shape, array.chunks, getattr(array, "shards", None) or ())
    checks.unpacked(path, packed, max(map(math.prod, shapes)) * array.dtype.itemsize)


def zarr_columns(path: str, wanted: Columns) -> Columns:
    """The arrays of a group: those that are named, or those of the usual names. A single array has no name."""
    thing = _open_zarr(path)
    if hasattr(thing, "shape"):
        return Columns("")
    names = sorted(thing.array_keys())

    def found(name: str | None, usual: tuple[str, ...]) -> str | None:
        if name and name not in names:
            raise InvalidInput(where=path, expected=f"an array {name}", got=", ".join(names) or "none")
        return name or next((n for n in usual if n in names), None)

    vector = found(wanted.vector, (*VECTOR_NAMES, "X"))
    if vector is None:
        raise InvalidInput(
            where=path,
            expected="an array vector",
            got=", ".join(names) or "none",
            hint="name it with open_source(..., vector=NAME) or --column NAME",
        )
    return Columns(vector, found(wanted.id, ("id",)), found(wanted.label, LABEL_NAMES))


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr array or group, of format 3 or 2."""
    return any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))


def is_beside(path: Path) -> bool:
    """Whether this is a file of ids or labels that belongs to another."""
    return path.name.lower().endswith(tuple(BESIDE.values()))


def files_beside(path: Path) -> dict[str, Path]:
    """The files of ids and labels that belong to an npy file."""
    places = {name: path.with_suffix(ending) for name, ending in BESIDE.items()}
    return {name: place for name, place in places.items() if place.exists()}


def _beside(path: str) -> dict[str, np.ndarray]:
    return {name: map_array(str(place)) for name, place in files_beside(Path(path)).items()}


def _zarr_arrays(path: str, columns: Columns) -> tuple[Any, dict[str, Any]]:
    thing = _open_zarr(path)
    matrix = thing[columns.vector] if columns.vector else thing
    if getattr(matrix, "ndim", 0) != 2 or matrix.dtype.kind not in "biuf":
        raise InvalidInput(where=path, expected="a matrix of numbers with one vector per row", got=f"{matrix}")
    return matrix, {ours: thing[name] for ours, name in columns.others.items()}


def _open_zarr(path: str) -> Any:
    try:
        import zarr
    except ImportError:
        raise MissingExtra("reading Zarr", "zarr", "zarr") from None
    try:
        return zarr.open(path, mode="r")
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is not a Zarr array or group: {error}.") from None


def _chunk_rows(matrix: Any) -> int:
    """Rows that are read together: of a shard, where chunks are in shards."""
    return int((getattr(matrix, "shards", None) or matrix.chunks)[0])
