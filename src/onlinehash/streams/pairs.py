"""Pairs from files: two vectors a row, or two ids of vectors that lie in a file of their own.

    a, b, similar[, weight]          vectors; in csv JSON lists, or columns a_0, a_1, ..., b_0, b_1, ...
    id_a, id_b, similar[, weight]    ids, looked up among `vectors`

`similar` is true or 1, or else false, 0 or -1; `weight` scales how far a pair may move the hash functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.streams import columns
from onlinehash.streams.by_id import VectorsById
from onlinehash.streams.from_files import BLOCK_ROWS, FilePath, read_tables
from onlinehash.streams.tables import Table


class Pairs(NamedTuple):
    """Aligned arrays, a row per pair; `similar` holds bools, `weight` is None where the file gives none.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, streams
    >>> np.savez("pairs.npz", A=np.eye(3), B=np.ones((3, 3)), similar=[True, False, True])
    >>> learner = OnlineHashing(n_bits=8, random_state=0)
    >>> for pairs in streams.blocks("pairs.npz"):
    ...     learner = learner.partial_fit_pairs(*pairs)  # they are in the order of its arguments
    >>> pairs.similar, pairs.weight, learner.n_pairs_seen_
    (array([ True, False,  True]), None, 3)
    """

    A: np.ndarray
    B: np.ndarray
    similar: np.ndarray
    weight: np.ndarray | None


#: `(a, b, similar)` or `(a, b, similar, weight)`: what `learn_pair(*pair)` takes.
Pair: TypeAlias = tuple[Any, ...]


def read(path: FilePath, vectors: FilePath | None = None, format: str | None = None) -> Iterator[Pair]:
    """Read the pairs of a file one by one: `(a, b, similar)`, or `(a, b, similar, weight)` where it has weights.

    Both are what `learn_pair(*pair)` takes; a file gives one or the other for all of its pairs.

    Parameters
    ----------
    path : str or path-like
        jsonl, csv, parquet or npz.
    vectors : str or path-like, optional
        The file of vectors by id, for pairs that name ids.
    format : str, optional
        The format, if the file name does not tell.

    Returns
    -------
    iterator of tuple

    Raises
    ------
    InvalidInput
        If there is no such file, or it has no pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import streams
    >>> np.savez("pairs.npz", A=np.eye(3), B=np.ones((3, 3)), similar=[True, False, True])
    >>> [similar for a, b, similar in streams.read("pairs.npz")]
    [True, False, True]
    """
    for block in blocks(path, vectors, format):
        parts: list[Any] = [block.A, block.B, block.similar.tolist()]
        yield from zip(*parts, *([] if block.weight is None else [block.weight.tolist()]), strict=True)


def blocks(
    path: FilePath, vectors: FilePath | None = None, format: str | None = None, size: int = BLOCK_ROWS
) -> Iterator[Pairs]:
    """Read the pairs of a file as arrays of up to `size` rows: what `partial_fit_pairs` takes.

    Parameters
    ----------
    path, vectors, format
        As in `read`.
    size : int, default=4096

    Returns
    -------
    iterator of Pairs

    Raises
    ------
    InvalidInput
        If there is no such file, or it has no pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import streams
    >>> np.savez("pairs.npz", A=np.eye(3), B=np.ones((3, 3)), similar=[True, False, True])
    >>> [block.A.shape for block in streams.blocks("pairs.npz", size=2)]
    [(2, 3), (1, 3)]
    """
    reader = PairReader(vectors)
    return (reader(table) for table in read_tables(path, format, size))


def holds_pairs(table: Table) -> bool:
    """Pairs are what says `similar`; anything else is points."""
    return "similar" in table.columns


class PairReader:
    """Turns the tables of a stream into pairs, and remembers what the first of them promised."""

    def __init__(self, vectors: FilePath | None = None) -> None:
        self._vectors = None if vectors is None else VectorsById(vectors)
        self._similar = columns.SimilarColumn()
        self._width: int | None = None
        self._has_weights: bool | None = None

    def __call__(self, table: Table) -> Pairs:
        similar = self._similar(table)
        A, B = (self._side(table, side) for side in "ab")
        self._width = self._width or A.shape[1]
        for name, side in (("a", A), ("b", B)):
            if side.shape[1] != self._width:
                raise table.error(0, f"expected {self._width} numbers for {name}, got {side.shape[1]}")
        return Pairs(A, B, similar, self._weights(table))

    def _side(self, table: Table, side: str) -> np.ndarray:
        names_ids = f"id_{side}" in table.columns
        if self._vectors is not None:
            if not names_ids:
                raise InvalidInput(f"{table.source} has no ids (id_a, id_b) to look up in the file of vectors.")
            return self._vectors.find(table, f"id_{side}")
        if names_ids:
            raise InvalidInput(f"{table.source} names vectors by id; give the file of vectors too.")
        return columns.vectors(table, side)

    def _weights(self, table: Table) -> np.ndarray | None:
        weights = columns.weights(table)
        if self._has_weights is None:
            self._has_weights = weights is not None
        if weights is not None and not self._has_weights:
            raise table.error(0, "there is a weight here or soon after, but the first rows have none")
        return np.ones(len(table)) if weights is None and self._has_weights else weights
