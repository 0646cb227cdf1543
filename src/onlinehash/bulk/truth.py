"""Ground truth over a base that is larger than memory.

`ground_truth` finds the nearest vectors of a source by Euclidean distance, exactly those that `evaluate.nearest` finds;
`same_label` needs no computation. Both tell workers which items of a partition are relevant.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from onlinehash import checks, evaluate
from onlinehash.arraylike import VectorLike
from onlinehash.bulk.answers import Answer, Job
from onlinehash.bulk.encoding import as_source, check_apart
from onlinehash.bulk.engine import Engine
from onlinehash.bulk.engines import engine_of
from onlinehash.bulk.partitions import Partition
from onlinehash.bulk.sources import Source
from onlinehash.errors import InvalidInput
from onlinehash.evaluate import Truth
from onlinehash.gpu import neighbours as on_card
from onlinehash.gpu.card import check_device, load_cupy, refusing
from onlinehash.gpu.upload import on_same_card, to_card
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.neighbours import nearest_positions, squared_distances

#: Bytes of vectors that a card searches at once, how often that is done in one task, and threads that read ahead.
CARD_BYTES, TURNS, READERS = 2**30, 4, 6


class BulkTruth(ABC):
    """Relevance of every item of a source to some queries."""

    n_queries: int

    @abstractmethod
    def among(self, first: int, n_rows: int, labels: np.ndarray | None) -> Truth:
        """That of some consecutive rows of the source."""

    @property
    @abstractmethod
    def facts(self) -> tuple[str, np.ndarray]:
        """All that it depends on, by which it can be told from another."""


@dataclass(frozen=True)
class SameLabel(BulkTruth):
    """Relevant are the items with the query's label.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import bulk
    >>> truth = bulk.same_label([3, 1])
    >>> truth.among(first=0, n_rows=3, labels=np.array([1, 3, 3])).block(slice(0, 2))
    array([[False,  True,  True],
           [ True, False, False]])
    """

    labels: np.ndarray

    @property
    def n_queries(self) -> int:  # type: ignore[override]
        return len(self.labels)

    def among(self, first: int, n_rows: int, labels: np.ndarray | None) -> Truth:
        if labels is None:
            raise InvalidInput("the codes have no labels; encode a source that has a column label.")
        return evaluate.same_label(self.labels, labels)

    @property
    def facts(self) -> tuple[str, np.ndarray]:
        return "labels", self.labels


@dataclass(frozen=True)
class Neighbours(BulkTruth):
    """Relevant are the k nearest. Row numbers of the source and squared distances `(queries, k)`, nearest first; of
    equally far rows the one that comes first.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import bulk
    >>> np.save("vectors.npy", np.array([[0.0], [3.0], [5.0]]))
    >>> found = bulk.ground_truth([[1.0]], "vectors.npy", 2, on="local://1")
    >>> found.rows, found.squared_distances
    (array([[0, 1]]), array([[1., 4.]]))
    >>> found.among(first=1, n_rows=2, labels=None).block(slice(0, 1))
    array([[ True, False]])
    """

    rows: np.ndarray
    squared_distances: np.ndarray

    @property
    def n_queries(self) -> int:  # type: ignore[override]
        return len(self.rows)

    def among(self, first: int, n_rows: int, labels: np.ndarray | None) -> Truth:
        def block(queries: slice) -> np.ndarray:
            relevant = np.zeros((len(self.rows[queries]), n_rows), np.bool_)
            query, place = np.nonzero((self.rows[queries] >= first) & (self.rows[queries] < first + n_rows))
            relevant[query, self.rows[queries][query, place] - first] = True
            return relevant

        return Truth(self.n_queries, n_rows, block)

    @property
    def facts(self) -> tuple[str, np.ndarray]:
        return "rows", self.rows


def same_label(y_query: Sequence[int | str] | np.ndarray) -> SameLabel:
    """Call those items relevant that have the query's label.

    Returns
    -------
    SameLabel

    Raises
    ------
    InvalidInput
        If the labels are not valid.

    Examples
    --------
    >>> from onlinehash import bulk
    >>> bulk.same_label([3, 1, 4]).n_queries
    3
    """
    return SameLabel(checks.labels(y_query, len(y_query)))


def ground_truth(
    X_query: VectorLike,
    source: str | os.PathLike[str] | Source,
    k: int,
    *,
    on: str | Engine | None = None,
    folder: str | os.PathLike[str] | None = None,
    device: str | None = None,
) -> Neighbours:
    """Find the `k` nearest vectors of a source to each query, as `evaluate.nearest` does.

    It takes 16 bytes for each of them and each query, here and on every worker.

    Parameters
    ----------
    X_query : array-like of shape (n, n_features)
    source : str, path-like or Source
    k : int
    on : str or Engine, optional
        Where the work is done; see `engine_of`.
    folder : str or path-like, optional
        Where the nearest of each partition are stored, so that repeating the call resumes it. Without one, a card
        searches several partitions at once.
    device : {"cpu", "cuda"}, optional
        "cuda" finds the same ones on cards: without `on`, in this process alone, as processes would take turns on its
        card; else each worker on its own. Without a folder, a card searches several partitions at once.

    Returns
    -------
    Neighbours

    Raises
    ------
    InvalidInput
        If queries, source or k do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import bulk
    >>> np.save("vectors.npy", np.arange(10.0)[:, None])
    >>> bulk.ground_truth([[3.2]], "vectors.npy", 2, on="local://1").rows
    array([[3, 4]])
    """
    is_on_card = check_device(device)
    if is_on_card and on is None:
        load_cupy("ground_truth on a card")
        on = "local://1"
    queries, opened = checks.vectors(X_query, "X_query"), as_source(source)
    checks.width(queries, opened.n_features, "the source", "X_query")
    checks.parameters("the search for neighbours", {"k": k}, {"k": checks.integer(1, opened.n_rows)})
    if folder is not None:
        check_apart(opened, folder)
    none = Neighbours(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0)))
    question = ("the nearest", queries, opened.digest, int(k))
    least = TURNS * _card_rows(opened.n_features) if is_on_card and folder is None else 1
    groups = list(_groups(opened.partitions, least))
    job = Job(Search(queries, int(k), device), groups, question, "searching neighbours")
    with engine_of(on) as engine:
        return reduce(lambda near, part: _nearer(near, Neighbours(*part), k), job.answers(engine, folder), none)


@dataclass(frozen=True)
class Search:
    """Finds the nearest rows within partitions that follow one another; this is what is sent to workers."""

    queries: np.ndarray
    k: int
    device: str | None = None

    def __call__(self, group: Sequence[Partition]) -> Answer:
        near = reduce(lambda near, block: _nearer(near, block, self.k), self._blocks(group))
        return near.rows, near.squared_distances

    def _blocks(self, group: Sequence[Partition]) -> Iterator[Neighbours]:
        if check_device(self.device):
            yield from self._on_card(group)
            return
        for part in group:
            for first, X in _vectors(part):
                positions = nearest_positions(self.queries, X, min(self.k, len(X)))
                distances = squared_distances(self.queries, X, positions)
                order = np.lexsort((positions, distances))
                positions, distances = (np.take_along_axis(values, order, axis=1) for values in (positions, distances))
                yield Neighbours(positions.astype(np.int64) + first, distances)

    def _on_card(self, group: Sequence[Partition]) -> Iterator[Neighbours]:
        """Several partitions at once, while threads bring the next ones to the card."""
        sieve = on_card.Sieve()
        what = f"a search for {len(self.queries):,} queries"

        def bring(part: Partition) -> list[Any]:
            brought = []
            for _, X in _vectors(part):
                with refusing(sieve.card, what):
                    brought.append(to_card(sieve.xp, X))
            return brought

        begin = on_same_card(sieve.xp, bring)
        with ThreadPoolExecutor(READERS) as readers:
            ahead: list[Future[list[Any]]] = []
            first = 0
            for chunk in [*_groups(group, _card_rows(self.queries.shape[1])), []]:
                now, ahead = ahead, [readers.submit(begin, part) for part in chunk]
                if now:
                    blocks = [block for part in now for block in part.result()]
                    with refusing(sieve.card, what):
                        queries, base = on_card.same_precision(self.queries, sieve.xp.concatenate(blocks))
                    rows, distances = on_card.nearest_first(queries, base, min(self.k, len(base)), sieve)
                    yield Neighbours(rows + first, distances)
                if chunk:
                    first = chunk[0].first


def _vectors(part: Partition) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of vectors, and the number of the first in the source."""
    return ((rows.first, checks.vectors(rows.X, part.path)) for rows in part.blocks())


def _card_rows(n_features: int) -> int:
    """Vectors that a card searches at once."""
    return CARD_BYTES // (4 * n_features)


def _groups(partitions: Sequence[Partition], n_rows: int) -> Iterator[list[Partition]]:
    """Partitions that follow one another, with so many rows or a partition more."""
    group: list[Partition] = []
    for partition in partitions:
        group.append(partition)
        if sum(part.n_rows for part in group) >= n_rows:
            yield group
            group = []
    if group:
        yield group


def _nearer(first: Neighbours, second: Neighbours, k: int) -> Neighbours:
    """The k nearest of both; the same in whatever order many are put together."""
    width = min(k, first.rows.shape[1] + second.rows.shape[1])
    rows, distances = np.empty((len(first.rows), width), np.int64), np.empty((len(first.rows), width))
    _merge(first.rows, first.squared_distances, second.rows, second.squared_distances, rows, distances)
    return Neighbours(rows, distances)


@njit(nogil=True, cache=True)
def _merge(
    rows: np.ndarray,
    distances: np.ndarray,
    other_rows: np.ndarray,
    other_distances: np.ndarray,
    out_rows: np.ndarray,
    out_distances: np.ndarray,
) -> None:
    """Two lists a query, each sorted by distance and row, as one."""
    for q in range(len(rows)):
        i = j = 0
        for at in range(out_rows.shape[1]):
            is_first = j == other_rows.shape[1] or (
                i < rows.shape[1]
                and (
                    distances[q, i] < other_distances[q, j]
                    or (distances[q, i] == other_distances[q, j] and rows[q, i] < other_rows[q, j])
                )
            )
            if is_first:
                out_rows[q, at], out_distances[q, at] = rows[q, i], distances[q, i]
                i += 1
            else:
                out_rows[q, at], out_distances[q, at] = other_rows[q, j], other_distances[q, j]
                j += 1
