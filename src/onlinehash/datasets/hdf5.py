"""HDF5 files, through the optional package h5py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.datasets.files import size_of
from onlinehash.errors import FormatError, MissingExtra


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file, open for reading."""
    try:
        import h5py
    except ImportError:
        raise MissingExtra("reading HDF5", "h5py", "hdf5") from None
    size_of(path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise FormatError(f"{path} is not a readable HDF5 file: {error}.") from None
    with file:
        yield file


def matrix(file: Any, name: str, path: Path) -> Any:
    """A two-dimensional array of numbers in the file, not read yet."""
    import h5py

    found = file.get(name)
    if not isinstance(found, h5py.Dataset) or found.ndim != 2 or found.dtype.kind not in "biuf":
        raise FormatError(where=path, expected=f"a matrix {name} of numbers", got=", ".join(file) or "nothing")
    if found.external or found.is_virtual or found.file.filename != file.filename:
        raise FormatError(f"{path}: {name} lies in another file, which is not read; store the numbers in one file.")
    return found


def mapped(array: Any, path: Path, rows: int | None = None) -> np.ndarray:
    """Its first rows, memory-mapped if the file stores them contiguously."""
    n = len(array) if rows is None else min(rows, len(array))
    offset = array.id.get_offset()
    if offset is not None and array.dtype.isnative:
        end = offset + array.size * array.dtype.itemsize
        if end > size_of(path):
            raise FormatError(
                where=f"{path} is truncated",
                expected=f"{end:,} bytes",
                got=f"{size_of(path):,}",
                hint="download it again",
            )
        return np.memmap(path, array.dtype, "r", offset, (n, array.shape[1]))
    checks.unpacked(path, size_of(path), n * array.shape[1] * array.dtype.itemsize)
    try:
        return np.asarray(array[:n])
    except OSError as error:
        raise FormatError(f"{path}: the array {array.name} is damaged: {error}; download the file again.") from None
    except MemoryError:
        n_bytes = n * array.shape[1] * array.dtype.itemsize
        raise FormatError(f"{path}: {array.name} needs {n_bytes:,} bytes of memory; read fewer rows.") from None
