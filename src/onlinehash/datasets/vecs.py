"""fvecs, bvecs and ivecs, the formats of SIFT1M, GIST1M and SIFT1B (corpus-texmex.irisa.fr).

Each vector is an int32, its dimension, and then so many float32, bytes or int32; all little-endian.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onlinehash.datasets.dataset import Dataset
from onlinehash.datasets.files import as_float32, size_of
from onlinehash.errors import FormatError, InvalidInput

ELEMENTS: dict[str, np.dtype] = {".fvecs": np.dtype("<f4"), ".bvecs": np.dtype("u1"), ".ivecs": np.dtype("<i4")}

#: Above this a header is taken for that of another format.
MOST_DIMENSIONS = 1_000_000

#: Dimensions that are looked at; all of a large file's would have to be fetched from all over the disk.
LOOKED_AT = 10_000


def read(path: Path, rows: int | None = None) -> np.ndarray:
    """The vectors of a file, or its first `rows`, left on the disk until they are used."""
    element = ELEMENTS.get(path.suffix.lower())
    if element is None:
        raise InvalidInput(expected=f"a file that ends in {', '.join(ELEMENTS)}", got=f"{path}")
    size = size_of(path)
    if size < 4:
        raise FormatError(f"{path} is truncated: {size} bytes do not hold the dimension of a vector.")
    dimension = int(np.fromfile(path, "<i4", 1)[0])
    if not 1 <= dimension <= MOST_DIMENSIONS:
        raise FormatError(where=path, expected="the dimension of a vector at its beginning", got=f"{dimension}")
    row_bytes = 4 + dimension * element.itemsize
    if size % row_bytes:
        raise FormatError(
            where=f"{path} is truncated",
            expected=f"vectors of {row_bytes} bytes",
            got=f"{size % row_bytes} bytes after the last",
        )
    n = size // row_bytes if rows is None else min(rows, size // row_bytes)
    file = np.memmap(path, np.uint8, "r", shape=(n, row_bytes))
    _check_dimensions(file, dimension, path)
    return file[:, 4:].view(element)


def read_set(path: Path, rows: int | None = None) -> Dataset:
    """A file of vectors as a data set; float32 stays on the disk."""
    if path.suffix.lower() == ".ivecs":
        raise InvalidInput(f"{path} holds neighbours, not vectors; read them with datasets.vecs.read.")
    return Dataset(path.stem, as_float32(read(path, rows), path.name))


def read_task(folder: Path, prefix: str, rows: int | None = None) -> Dataset:
    """PREFIX_base, PREFIX_query, PREFIX_learn and PREFIX_groundtruth of a folder.

    The neighbours are those among all vectors, so there are none for a part of them.
    """
    base, queries, learning = (
        read(folder / f"{prefix}_{part}.fvecs", limit)
        for part, limit in (("base", rows), ("query", None), ("learn", None))
    )
    neighbours = read(folder / f"{prefix}_groundtruth.ivecs") if rows is None else None
    metric = None if neighbours is None else "euclidean"
    return Dataset(prefix, base, None, queries, neighbours, learning, metric)


def _check_dimensions(file: np.ndarray, expected: int, path: Path) -> None:
    looked_at = np.unique(np.linspace(0, len(file) - 1, min(len(file), LOOKED_AT)).astype(np.int64))
    found = np.ascontiguousarray(file[looked_at, :4]).view("<i4")[:, 0]
    if (found != expected).any():
        at = int(np.argmax(found != expected))
        raise FormatError(
            where=path,
            expected=f"{expected} as the dimension of every vector",
            got=f"{found[at]} for vector {looked_at[at]}",
        )
