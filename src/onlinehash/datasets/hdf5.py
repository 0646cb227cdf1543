"""HDF5 files, through the optional package h5py."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.datasets.files import BLOCK_BYTES, inflated, size_of
from onlinehash.errors import FormatError, MissingExtra

#: How many times its size a stream of zlib unpacks to, at most.
MOST_OF_ZLIB = 1032


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


def shape(file: Any, name: str) -> tuple[int, ...]:
    """The lengths of an array's axes; none for what is no array, or is elsewhere, which is not looked up."""
    import h5py

    found = file.get(name) if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    return found.shape or () if isinstance(found, h5py.Dataset) else ()


def matrix(file: Any, name: str, path: Path) -> Any:
    """A two-dimensional array of numbers in the file, not read yet."""
    import h5py

    if isinstance(file.get(name, getlink=True), h5py.ExternalLink):
        raise _elsewhere(path, name)  # before that file is opened
    found = file.get(name)
    if not isinstance(found, h5py.Dataset) or found.ndim != 2 or found.dtype.kind not in "biuf":
        raise FormatError(where=path, expected=f"a matrix {name} of numbers", got=", ".join(file) or "nothing")
    if found.external or found.is_virtual or found.file.filename != file.filename:
        raise _elsewhere(path, name)
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
    _check_chunks(array, path)
    try:
        return np.asarray(array[:n])
    except OSError as error:
        raise FormatError(f"{path}: the array {array.name} is damaged: {error}; download the file again.") from None
    except MemoryError:
        n_bytes = n * array.shape[1] * array.dtype.itemsize
        raise FormatError(f"{path}: {array.name} needs {n_bytes:,} bytes of memory; read fewer rows.") from None


def _elsewhere(path: Path, name: str) -> FormatError:
    return FormatError(f"{path}: {name} lies in another file, which is not read; store the numbers in one file.")


def _check_chunks(array: Any, path: Path) -> None:
    """Refuse chunks that would fill the memory, as each is unpacked as a whole, however little of it is in the array.

    HDF5 unpacks whatever is stored, even if it becomes larger than a chunk, and again where a filter is named twice.
    """
    from h5py import h5z

    stored, packed = array.id.get_create_plist(), size_of(path)
    filters = [stored.get_filter(number)[0] for number in range(stored.get_nfilters())]
    known = (h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE, h5z.FILTER_LZF, h5z.FILTER_FLETCHER32)
    if filters != [one for one in known if one in filters] or {h5z.FILTER_DEFLATE, h5z.FILTER_LZF} <= set(filters):
        raise FormatError(
            where=f"{path}: {array.name}", expected="gzip or lzf, once, as compression", got=f"the filters {filters}"
        )
    if array.chunks is None:
        return
    most = math.prod(array.chunks) * array.dtype.itemsize
    checks.unpacked(path, packed, most)
    if h5z.FILTER_DEFLATE not in filters:  # lzf cannot make a hundred of one
        return
    skipped = 1 << filters.index(h5z.FILTER_DEFLATE)
    large: list[tuple[int, ...]] = []

    def note(chunk: Any) -> None:
        if not chunk.filter_mask & skipped and chunk.size * MOST_OF_ZLIB > checks.most_unpacked(packed):
            large.append(chunk.chunk_offset)

    array.id.chunk_iter(note)
    for offset in large:
        chunk = array.id.read_direct_chunk(offset)[1]
        pieces = (chunk[at : at + BLOCK_BYTES] for at in range(0, len(chunk), BLOCK_BYTES))
        size = 0
        try:
            for block in inflated(pieces):
                size += len(block)
                if size > most:
                    raise FormatError(f"{path}: a chunk of {array.name} would unpack to more than its {most} bytes.")
        except zlib.error as error:
            raise FormatError(f"{path}: the array {array.name} is damaged: {error}; download the file again.") from None
