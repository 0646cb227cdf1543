"""Points from files: one vector a row, with or without a label.

    x (or vector), label (or y)    a column of vectors; in csv a JSON list in a cell
    anything, label (or y)         one number a column; every column but label and id is part of the vector
    X, y                           the arrays of an npz; an npy is X alone

In a csv that names no label, the last column is it where labels are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from onlinehash.streams import columns
from onlinehash.streams.from_files import BLOCK_ROWS, FilePath, read_tables
from onlinehash.streams.tables import Table

VECTOR_NAMES = ("x", "vector")
LABEL_NAMES = ("label", "y")


class Points(NamedTuple):
    """Aligned arrays, a row per point; `y` is None where the file gives no labels.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import streams
    >>> np.savez("points.npz", X=np.eye(2), y=[7, 8])
    >>> X, y = next(streams.points("points.npz"))
    >>> X.shape, y
    ((2, 2), array([7, 8]))
    """

    X: np.ndarray
    y: np.ndarray | None


def points(
    path: FilePath,
    labels: FilePath | None = None,
    format: str | None = None,
    size: int = BLOCK_ROWS,
    *,
    labelled: bool = True,
) -> Iterator[Points]:
    """Read the points of a file as arrays of up to `size` rows: what `partial_fit` takes.

    Parameters
    ----------
    path : str or path-like
        jsonl, csv, parquet, npz or npy.
    labels : str or path-like, optional
        A file of labels for an npy.
    format : str, optional
        The format, if the file name does not tell.
    size : int, default=4096
    labelled : bool, default=True
        False makes an unnamed last column of a csv part of the vector.

    Returns
    -------
    iterator of Points

    Raises
    ------
    InvalidInput
        If there is no such file, or it has no points.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import streams
    >>> np.save("points.npy", np.eye(3))
    >>> [block.X.shape for block in streams.points("points.npy", size=2)]
    [(2, 3), (1, 3)]
    """
    reader = PointReader(labelled=labelled)
    return (reader(table) for table in read_tables(path, format, size, labels))


class PointReader:
    """Turns the tables of a stream into points; the first says which columns make the vector, in what order.

    Where `n_features` is known, an unnamed last column of a csv is a label only if it is one too many.
    """

    def __init__(self, n_features: int | None = None, *, labelled: bool = True) -> None:
        self._n_features = n_features
        self._labelled = labelled
        self._names: list[str] | None = None
        self._label: str | None = None

    def __call__(self, table: Table) -> Points:
        if self._names is None:
            self._names = self._choose(table)
        for name in (*self._names, *([self._label] if self._label else [])):
            if name not in table.columns:
                raise table.lacks(f"a column {name}, like the rows before")
        is_one = len(self._names) == 1 and columns.has_vectors(table, self._names[0])
        X = columns.vectors(table, self._names[0]) if is_one else columns.matrix(table, self._names)
        self._n_features = self._n_features or X.shape[1]
        if X.shape[1] != self._n_features:
            raise table.error(0, f"expected vectors of {self._n_features} numbers, got {X.shape[1]}")
        return Points(X, columns.labels(table, self._label) if self._label else None)

    def _choose(self, table: Table) -> list[str]:
        """The columns that make the vector; notes the one that is the label."""
        self._label = next((name for name in LABEL_NAMES if name in table.columns), None)
        for name in VECTOR_NAMES:
            if columns.has_vectors(table, name):
                return [name]
        names = [name for name in table.columns if name not in (self._label, "id")]
        if self._label is None and table.format == "csv" and self._is_last_a_label(len(names)):
            self._label = names.pop()
        if not names:
            raise table.lacks("a column x of vectors, or columns of numbers")
        return names

    def _is_last_a_label(self, n_columns: int) -> bool:
        return self._labelled if self._n_features is None else n_columns == self._n_features + 1
