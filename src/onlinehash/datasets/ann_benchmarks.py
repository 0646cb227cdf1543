"""The HDF5 files of ann-benchmarks.com: train, test, and for each test vector its neighbours among train."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onlinehash.datasets import hdf5
from onlinehash.datasets.dataset import Dataset
from onlinehash.datasets.files import as_float32


def read_set(path: Path, rows: int | None = None) -> Dataset:
    """Vectors to search among, queries and neighbours; for a part of the vectors there are no neighbours."""
    with hdf5.opened(path) as file:
        base = as_float32(hdf5.mapped(hdf5.matrix(file, "train", path), path, rows), path.name)
        queries = as_float32(hdf5.mapped(hdf5.matrix(file, "test", path), path), path.name)
        neighbours = None
        if rows is None and "neighbors" in file:
            neighbours = np.asarray(hdf5.mapped(hdf5.matrix(file, "neighbors", path), path))
        metric = str(file.attrs["distance"]) if neighbours is not None and "distance" in file.attrs else None
        return Dataset(path.stem, base, None, queries, neighbours, None, metric)
