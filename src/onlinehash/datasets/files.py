"""What all readers do first: check that there is a file, and that it is as long as its header says."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from onlinehash.errors import FormatError, InvalidInput
from onlinehash.progress import progress_bar

#: Vectors converted at a time.
BLOCK_ROWS = 8192
#: Bytes read and inflated at a time.
BLOCK_BYTES = 1 << 16


def size_of(path: Path) -> int:
    """The length of a file in bytes."""
    if not path.is_file():
        raise InvalidInput(f"{path} is a folder; give a file." if path.is_dir() else f"no such file: {path}.")
    return path.stat().st_size


def check_size(path: Path, expected: int, what: str) -> None:
    """Refuse a file of the wrong length, before memory is allocated for what its header promises."""
    size = size_of(path)
    if size != expected:
        wrong = "truncated" if size < expected else "too long"
        raise FormatError(
            where=f"{path} is {wrong}",
            expected=f"{expected:,} bytes for {what}",
            got=f"{size:,}",
            hint="download it again",
        )


def inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What zlib makes of these, block by block; who has seen enough need not take the rest."""
    stream = zlib.decompressobj()
    for piece in pieces:
        while piece and not stream.eof:
            yield stream.decompress(piece, BLOCK_BYTES)
            piece = stream.unconsumed_tail


def as_float32(rows: np.ndarray, name: str) -> np.ndarray:
    """Numbers of another type as float32, block by block, so that a file is read only once and in order."""
    if rows.dtype == np.float32:
        return rows
    converted = np.empty(rows.shape, np.float32)
    with progress_bar(len(rows)) as show:
        for start in range(0, len(rows), BLOCK_ROWS):
            converted[start : start + BLOCK_ROWS] = rows[start : start + BLOCK_ROWS]
            show(start, f"reading {name}")
    return converted
