"""Plain arrays: npz (X and y), npy (X, with labels beside it), and tables that `streams` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onlinehash.datasets.dataset import Dataset, as_labels, as_vectors
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.progress import progress_bar
from onlinehash.streams import points
from onlinehash.streams.array_tables import map_array, map_matrix, open_archive

#: What an npz may hold; other arrays in it are left alone.
ARRAYS = ("x", "y", "scale", "offset")

#: Rows of a table that are read at a time.
TABLE_ROWS = 4096


def read_npz(path: Path) -> Dataset:
    """The arrays X and y. Where there are `scale` and `offset`, the vectors are X * scale + offset.

    The latter is how bytes stand for numbers: one scale and offset for each dimension, or one for all.
    """
    arrays = _load(path)
    if "x" not in arrays:
        raise InvalidInput(where=path, expected="an array X", got=", ".join(arrays) or "none")
    X = as_vectors(arrays["x"], str(path))
    if "scale" in arrays or "offset" in arrays:
        X = X.copy() if X is arrays["x"] else X
        for name, change in (("scale", np.multiply), ("offset", np.add)):
            change(X, _per_dimension(arrays, name, X.shape[1], path), out=X)
        X = as_vectors(X, str(path))
    y = as_labels(arrays["y"], len(X), str(path)) if "y" in arrays else None
    return Dataset(path.stem, X, y)


def read_npy(path: Path, labels: Path | None = None) -> Dataset:
    """The matrix, left on the disk if it is float32; labels from the given file, or from NAME.labels.npy."""
    X = map_matrix(str(path))
    if X.dtype != np.float32 or not X.flags.c_contiguous:
        X = as_vectors(X, str(path))
    beside = path.with_suffix(".labels.npy")
    if labels is None and beside.exists():
        labels = beside
    y = None if labels is None else as_labels(map_array(str(labels)), len(X), str(labels))
    return Dataset(path.stem, X, y)


def read_table(path: Path) -> Dataset:
    """A parquet, csv or jsonl file of vectors (x or vector) and labels (label or y)."""
    X, y = [], []
    with progress_bar() as show:
        for block in points(path, size=TABLE_ROWS):
            X.append(as_vectors(block.X, str(path)))
            if block.y is not None:
                y.append(block.y)
            show(None, f"reading {path.name}, {len(X) * TABLE_ROWS:,} rows")
    if not X:
        raise InvalidInput(f"{path} has no rows.")
    together = np.concatenate(X)
    return Dataset(path.stem, together, as_labels(np.concatenate(y), len(together), str(path)) if y else None)


def _load(path: Path) -> dict[str, np.ndarray]:
    """The arrays by lower-case name."""
    with open_archive(path, FormatError) as arrays:
        return {name.lower(): arrays[name] for name in arrays.files if name.lower() in ARRAYS}


def _per_dimension(arrays: dict[str, np.ndarray], name: str, n_features: int, path: Path) -> np.ndarray:
    if name not in arrays:
        raise InvalidInput(f"{path}: scale and offset belong together, and {name} is missing.")
    values = arrays[name]
    if values.dtype.kind not in "iuf" or values.size not in (1, n_features):
        raise InvalidInput(where=path, expected=f"{name} to be one number or {n_features}", got=f"shape {values.shape}")
    return values.reshape(-1).astype(np.float32)
