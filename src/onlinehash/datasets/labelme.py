"""22K LabelMe and other sets in Matlab's .mat files: a matrix of descriptors, and maybe labels."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from onlinehash import checks
from onlinehash.datasets import hdf5
from onlinehash.datasets.dataset import Dataset, as_labels, as_vectors
from onlinehash.datasets.files import BLOCK_BYTES, inflated_size, size_of
from onlinehash.errors import FormatError, InvalidInput

#: What the descriptors are called, in this order; letter case does not matter.
VECTORS = ("gist", "gists", "x", "fea", "features", "data")
LABELS = ("labels", "label", "gnd", "y")

HDF5_MARK = b"\x89HDF\r\n\x1a\n"

#: Kinds of Matlab's arrays that hold numbers, and nothing that is read along with them, as cells and objects do.
NUMBERS = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}

#: Of files of version 5: the length of their head, and the type of compressed elements.
HEAD_BYTES, COMPRESSED = 128, 15


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
        if matfile_version(path)[0] == 1:  # version 4 compresses nothing
            _check_elements(path)
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


def _check_elements(path: Path) -> None:
    """Refuse a file whose elements, which may say anything of their size, unpack to far more than it is."""
    packed, total, at = size_of(path), 0, HEAD_BYTES
    with open(path, "rb") as file:
        file.seek(HEAD_BYTES - 2)
        order = "<" if file.read(2) == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, n_bytes = struct.unpack(f"{order}2I", tag)
            at += 8 + n_bytes
            if kind == COMPRESSED:
                total += inflated_size(_pieces(file, n_bytes), checks.most_unpacked(packed) - total)
                checks.unpacked(path, packed, total)
            file.seek(at)


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
