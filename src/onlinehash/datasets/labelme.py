"""22K LabelMe and other sets in Matlab's .mat files: a matrix of descriptors, and maybe labels."""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.datasets import hdf5
from onlinehash.datasets.dataset import Dataset, as_labels, as_vectors
from onlinehash.datasets.files import BLOCK_BYTES, inflated, size_of
from onlinehash.errors import FormatError, InvalidInput

#: What the descriptors are called, in this order; letter case does not matter.
VECTORS = ("gist", "gists", "x", "fea", "features", "data")
LABELS = ("labels", "label", "gnd", "y")

HDF5_MARK = b"\x89HDF\r\n\x1a\n"

#: Kinds of Matlab's arrays that hold numbers, and nothing that is read along with them, as cells and objects do.
NUMBERS = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}

#: Of files of version 5: the length of their head, types of elements, how numbers are stored, the classes of arrays
#: of numbers with the flag of those that are complex, and the most bytes of a name.
HEAD_BYTES, MATRIX, COMPRESSED, LONGEST_PART = 128, 14, 15, 1024
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES, COMPLEX = range(6, 16), 0x800


def read_set(path: Path, variable: str | None = None) -> Dataset:
    """The matrix of that name, or of one of the usual names; an image a row.

    Since version 7.3, Matlab writes HDF5, which needs the extra `hdf5`.
    """
    size_of(path)
    with open(path, "rb") as file:
        start = file.read(520)
    read = _read_hdf5 if HDF5_MARK in (start[:8], start[512:520]) else _read_classic
    vectors, labels = read(path, VECTORS if variable is None else (variable.lower(),))
    X = as_vectors(vectors, str(path))
    y = None if labels is None or labels.size != len(X) else as_labels(labels.reshape(-1), len(X), str(path))
    return Dataset(path.stem, X, y)


def _read_classic(path: Path, wanted: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import MatReadError, matfile_version

    try:
        if matfile_version(path)[0] == 1:
            return _read_version_5(path, wanted)
        shapes = {name: shape for name, shape, kind in whosmat(path) if kind in NUMBERS}
        name, label = _choose(shapes, wanted, path)
        arrays = loadmat(path, variable_names=[name] if label is None else [name, label])
    except InvalidInput:
        raise
    except (MatReadError, ValueError, TypeError, KeyError, IndexError, OSError, EOFError, MemoryError) as error:
        raise _unreadable(path, error) from None
    except (NotImplementedError, struct.error, zlib.error) as error:
        raise _unreadable(path, error) from None
    return arrays[name], None if label is None else arrays[label]


# ------------------------------------------------------------------ version 5, of which SciPy believes too much


def _read_version_5(path: Path, wanted: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    """Matrices by name, of which no more is unpacked than their shapes need.

    SciPy crashes where a type or a length is wrong, and unpacks whatever there is.
    """
    with open(path, "rb") as file:
        found = {matrix.name: matrix for matrix in _matrices(file)}
        name, label = _choose({name: matrix.shape for name, matrix in found.items()}, wanted, path)
        arrays = [found[one].read(file, path) for one in (name, label) if one is not None]
    return arrays[0], None if label is None else arrays[1]


class _Matrix(NamedTuple):
    """A matrix of numbers, and where in the file the element lies that holds it."""

    name: str
    shape: tuple[int, ...]
    order: str
    start: int

    def read(self, file: BinaryIO, path: Path) -> np.ndarray:
        """Its numbers, in the type in which they are stored."""
        _, element = _element(file, self.order, self.start)
        for _ in range(3):
            element.part()
        kind, n_bytes = element.tag()
        number = np.dtype(self.order + STORED[kind])
        if n_bytes != math.prod(self.shape) * number.itemsize:
            raise ValueError(f"{self.name} has {n_bytes} bytes of numbers")
        checks.unpacked(path, size_of(path), n_bytes)
        data = element.read(n_bytes)
        return np.frombuffer(data, number).reshape(self.shape, order="F")


def _matrices(file: BinaryIO) -> Iterator[_Matrix]:
    """The matrices of real numbers in a file."""
    file.seek(HEAD_BYTES - 2)
    order, at, size = "<" if file.read(2) == b"IM" else ">", HEAD_BYTES, os.fstat(file.fileno()).st_size
    while at < size:
        start, (n_bytes, element) = at, _element(file, order, at)
        at += 8 + n_bytes
        flags, shape, name = (element.part() for _ in range(3))
        kind, *_ = struct.unpack(f"{order}2I", flags)
        if kind & 0xFF in CLASSES and not kind & COMPLEX and len(shape) == 8:
            yield _Matrix(bytes(name).decode("latin1"), struct.unpack(f"{order}2I", shape), order, start)


def _element(file: BinaryIO, order: str, start: int) -> tuple[int, _Element]:
    """The length of an element of the file, and what is in it: a matrix, compressed or not."""
    file.seek(start)
    kind, n_bytes = struct.unpack(f"{order}2I", file.read(8))
    pieces = _pieces(file, n_bytes)
    element = _Element(inflated(pieces) if kind == COMPRESSED else pieces, order)
    if kind == COMPRESSED:
        kind, _ = element.tag()
    if kind != MATRIX:
        raise ValueError(f"an element of type {kind}")
    return n_bytes, element


class _Element:
    """A matrix that is read from its beginning on: parts, each after a tag with its type and length."""

    def __init__(self, blocks: Iterator[bytes], order: str) -> None:
        self._blocks, self._order, self._left, self._ahead = blocks, order, b"", b""

    def read(self, n_bytes: int) -> bytearray:
        """The next bytes."""
        found = bytearray(self._ahead[:n_bytes])
        self._ahead = self._ahead[n_bytes:]
        while len(found) < n_bytes:
            self._left = self._left or next(self._blocks, b"")
            if not self._left:
                raise EOFError("it ends too early")
            taken = n_bytes - len(found)
            found += self._left[:taken]
            self._left = self._left[taken:]
        return found

    def tag(self) -> tuple[int, int]:
        """The type and length of the next part; the bytes of a short one are in its tag."""
        kind, n_bytes = struct.unpack(f"{self._order}2I", self.read(8))
        if kind >> 16:
            self._ahead = struct.pack(f"{self._order}I", n_bytes)[: min(kind >> 16, 4)]
            return kind & 0xFFFF, kind >> 16
        return kind, n_bytes

    def part(self) -> bytearray:
        """One of the first parts, which are short: flags, shape and name."""
        _, n_bytes = self.tag()
        if n_bytes > LONGEST_PART:
            raise ValueError(f"a name or shape of {n_bytes} bytes")
        is_short = bool(self._ahead)
        found = self.read(n_bytes)
        if not is_short:
            self.read(-n_bytes % 8)
        return found


def _pieces(file: BinaryIO, n_bytes: int) -> Iterator[bytes]:
    """The next bytes of a file, block by block."""
    while n_bytes > 0 and (piece := file.read(min(BLOCK_BYTES, n_bytes))):
        n_bytes -= len(piece)
        yield piece


def _read_hdf5(path: Path, wanted: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    with hdf5.opened(path) as file:
        shapes = {name: hdf5.shape(file, name) for name in file}
        name, label = _choose(shapes, wanted, path)
        # Matlab's columns are the rows of HDF5.
        vectors = np.asarray(hdf5.mapped(hdf5.matrix(file, name, path), path)).T
        return vectors, None if label is None else np.asarray(hdf5.mapped(hdf5.matrix(file, label, path), path))


def _choose(shapes: dict[str, tuple[int, ...]], wanted: tuple[str, ...], path: Path) -> tuple[str, str | None]:
    """The names of the vectors and, if there are any, of the labels."""
    names = {name.lower(): name for name, shape in shapes.items() if len(shape) == 2}
    found = next((names[name] for name in wanted if name in names), None)
    if found is None:
        got = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
        raise InvalidInput(
            where=path, expected=f"a matrix {' or '.join(wanted)}", got=got, hint="name it with variable="
        )
    return found, next((names[name] for name in LABELS if name in names and names[name] != found), None)


def _unreadable(path: Path, error: Exception) -> FormatError:
    return FormatError(f"{path} is not a readable Matlab file: {str(error).rstrip('.')}.")
