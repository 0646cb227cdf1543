"""`Dataset`: vectors with what belongs to them, whatever file they came from."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput

#: Bytes that are converted or hashed at a time.
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class Dataset:
    """Vectors `X` (float32, one a row, maybe left on the disk), and labels `y` (integers) where there are any.

    Sets that come with a search task have `queries`, the rows of X nearest to each of them (`neighbours`, the
    nearest first, by `metric`), and maybe vectors to learn from (`learning`).

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import datasets
    >>> digits = datasets.digits()
    >>> digits.X.shape, digits.X.dtype, digits.y[:5]
    ((1797, 64), dtype('float32'), array([0, 1, 2, 3, 4]))
    >>> digits.first(100).X.shape
    (100, 64)
    >>> datasets.Dataset("of my own", np.eye(3, dtype=np.float32), y=np.array([0, 0, 1])).nbytes
    60
    """

    name: str
    X: np.ndarray
    y: np.ndarray | None = None
    queries: np.ndarray | None = None
    neighbours: np.ndarray | None = None
    learning: np.ndarray | None = None
    metric: str | None = None

    def __post_init__(self) -> None:
        for name in ("X", "queries", "learning"):
            values = getattr(self, name)
            if values is not None and (values.ndim != 2 or values.dtype != np.float32):
                raise InvalidInput(expected=f"a float32 matrix for {name} of {self.name}", got=checks.shown(values))
            if values is not None and values.shape[1] != self.X.shape[1]:
                raise InvalidInput(
                    expected=f"{name} of {self.name} to be as wide as X ({self.X.shape[1]})", got=f"{values.shape[1]}"
                )
        for name, values, partner in (("y", self.y, self.X), ("neighbours", self.neighbours, self.queries)):
            if values is not None and (partner is None or len(values) != len(partner)):
                whose = "no queries" if partner is None else f"{len(partner)} vectors"
                raise InvalidInput(expected=f"{name} of {self.name} to have one row per vector", got=whose)
        if self.neighbours is not None and self.neighbours.size and not self._neighbours_are_rows():
            raise InvalidInput(f"neighbours of {self.name} must be rows of X, from 0 to {len(self.X) - 1}.")

    def _neighbours_are_rows(self) -> bool:
        assert self.neighbours is not None
        return bool(self.neighbours.min() >= 0 and self.neighbours.max() < len(self.X))

    def first(self, rows: int | None) -> Dataset:
        """The first rows, without neighbours, because those were found among all rows."""
        if rows is None or rows >= len(self.X):
            return self
        y = None if self.y is None else self.y[:rows]
        return replace(self, X=self.X[:rows], y=y, neighbours=None, metric=None)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits of a SHA-256 of X and y: the same for the same content, on any machine."""
        digest = hashlib.sha256()
        for values, kind in ((self.X, "<f4"), (self.y, "<i8")):
            if values is None:
                continue
            digest.update(f"{kind} {values.shape}\n".encode())
            size = max(1, BLOCK_BYTES // max(1, 8 * values[:1].size))
            for start in range(0, len(values), size):
                digest.update(np.ascontiguousarray(values[start : start + size], dtype=kind).data)
        return digest.hexdigest()[:16]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, in memory or on the disk."""
        arrays = (self.X, self.y, self.queries, self.neighbours, self.learning)
        return sum(values.nbytes for values in arrays if values is not None)


def as_vectors(values: np.ndarray, source: str) -> np.ndarray:
    """Rows of numbers as finite float32; a matrix that is float32 already is not copied."""
    try:
        return checks.vectors(values, "X", np.dtype(np.float32))
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from None


def as_labels(values: np.ndarray, n: int, source: str) -> np.ndarray:
    """A label a row as integers; labels that are no whole numbers are numbered in their sorted order."""
    try:
        labels = checks.labels(values, n)
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from None
    if labels.dtype.kind == "U":
        with suppress(ValueError):  # a csv has its numbers as text
            labels = labels.astype(np.int64)
    if labels.dtype.kind in "biu" or (labels.dtype.kind == "f" and (labels == np.round(labels)).all()):
        return labels.astype(np.int64)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
