"""22K LabelMe and other sets in Matlab's .mat files: a matrix of descriptors, and maybe labels."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from onlinehash.datasets import hdf5
from onlinehash.datasets.dataset import Dataset, as_labels, as_vectors
from onlinehash.datasets.files import size_of
from onlinehash.errors import FormatError, InvalidInput

#: What the descriptors are called, in this order; letter case does not matter.
VECTORS = ("gist", "gists", "x", "fea", "features", "data")
LABELS = ("labels", "label", "gnd", "y")

HDF5_MARK = b"\x89HDF\r\n\x1a\n"


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
    from scipy.io.matlab import MatReadError

    try:
        shapes = {name: shape for name, shape, _ in whosmat(path)}
        name, label = _choose(shapes, wanted, path)
        arrays = loadmat(path, variable_names=[name] if label is None else [name, label])
    except InvalidInput:
        raise
    except (MatReadError, ValueError, TypeError, KeyError, IndexError, OSError, EOFError, MemoryError) as error:
        raise _unreadable(path, error) from None
    except (NotImplementedError, struct.error, zlib.error) as error:
        raise _unreadable(path, error) from None
    return arrays[name], None if label is None else arrays[label]


def _read_hdf5(path: Path, wanted: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    with hdf5.opened(path) as file:
        shapes = {name: getattr(file[name], "shape", ()) for name in file}
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
