"""idx, the format of MNIST: two zeros, a type, the number of axes, their lengths (big-endian), the values."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np

from onlinehash import checks
from onlinehash.datasets.dataset import Dataset, as_labels
from onlinehash.datasets.files import as_float32, check_size, size_of
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.progress import progress_bar

ELEMENTS = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
NAME = re.compile(r"\.idx$|idx\d-ubyte(\.gz)?$")
MOST_AXES = 4
BLOCK_BYTES = 1 << 20


def read(path: Path) -> np.ndarray:
    """The array of a file, plain or .gz."""
    size_of(path)
    is_compressed = path.suffix == ".gz"
    try:
        with cast(IO[bytes], gzip.open(path, "rb") if is_compressed else open(path, "rb")) as file:
            shape, element, header_bytes = _header(file, path)
            n_bytes = math.prod(shape) * element.itemsize
            if is_compressed:
                checks.unpacked(path, path.stat().st_size, n_bytes)
            else:
                check_size(path, header_bytes + n_bytes, f"{shape} values")
            return np.frombuffer(_body(file, n_bytes, path), element).reshape(shape)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path} is not a sound gzip file: {error}; download it again.") from None


def read_set(path: Path, labels: Path | None = None) -> Dataset:
    """Images as vectors of their pixels, 0 to 255, with the labels of the given file or the one beside it."""
    images = read(path)
    if images.ndim < 2:
        raise InvalidInput(f"{path} holds labels, not images; give the file of images.")
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if labels is None and beside != path and beside.exists():
        labels = beside
    y = None if labels is None else as_labels(read(labels), len(images), str(labels))
    return Dataset(path.name.split(".")[0], as_float32(images.reshape(len(images), -1), path.name), y)


def read_mnist(folder: Path, name: str) -> Dataset:
    """The 60,000 images to learn from and, after them, the 10,000 to test with."""
    parts = [read_set(_plain_or_gz(folder / f"{part}-images-idx3-ubyte")) for part in ("train", "t10k")]
    if any(part.y is None for part in parts):
        raise InvalidInput(f"the labels of {name} are not in {folder}, beside the images.")
    labels = [part.y for part in parts if part.y is not None]
    return Dataset(name, np.concatenate([part.X for part in parts]), np.concatenate(labels))


def _plain_or_gz(path: Path) -> Path:
    return path if path.exists() else path.with_name(path.name + ".gz")


def _header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], np.dtype, int]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in ELEMENTS or not 1 <= start[3] <= MOST_AXES:
        raise FormatError(where=path, expected="an idx file, which begins with two zeros and a type", got=repr(start))
    lengths = file.read(4 * start[3])
    if len(lengths) < 4 * start[3]:
        raise FormatError(f"{path} is truncated: the lengths of its {start[3]} axes are missing.")
    shape = tuple(int(length) for length in np.frombuffer(lengths, ">u4"))
    return shape, np.dtype(ELEMENTS[start[2]]), 4 + len(lengths)


def _body(file: IO[bytes], n_bytes: int, path: Path) -> bytearray:
    """Read in blocks, because only reading tells how large a compressed file becomes."""
    body = bytearray()
    with progress_bar(n_bytes) as show:
        while len(body) < n_bytes and (block := file.read(min(BLOCK_BYTES, n_bytes - len(body)))):
            body += block
            show(len(body), f"reading {path.name}")
    if len(body) < n_bytes or file.read(1):
        wrong = "truncated" if len(body) < n_bytes else "too long"
        raise FormatError(f"{path} is {wrong}: expected {n_bytes:,} bytes after the header; download it again.")
    return body
