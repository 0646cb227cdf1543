"""`FlatIndex`: exact search by looking at every code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from onlinehash.codes import Codes
from onlinehash.codes.layout import LANES, spread_codes
from onlinehash.index import scan, threads
from onlinehash.index.base import Index
from onlinehash.index.items import Items
from onlinehash.types import State

#: Memory for the lists of the queries that are scanned for together.
LIST_BYTES = 64 << 20

#: Bytes of codes times queries below which threads are not worth starting.
LEAST_WORK = 8 << 20

T = TypeVar("T")
Found = tuple[np.ndarray, np.ndarray]


class FlatIndex(Index):
    """All codes, scanned at the speed of memory: one query reads them once, a batch reads them once for all of it.

    The threads share the queries of a batch, or the codes when there are few queries.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FlatIndex, OnlineHashing
    >>> X = np.random.default_rng(0).standard_normal((1000, 16))
    >>> learner = OnlineHashing(n_bits=32, random_state=0).observe(X)
    >>> index = FlatIndex(learner.encode(X), encoder=learner.snapshot())
    >>> index.search(X[7], k=3).ids.shape
    (3,)
    >>> 7 in index.within(X[7], radius=0).ids
    True
    """

    def _nearest(self, queries: Codes, k: int, items: Items) -> Found:
        return nearest(items, self._n_models, self._per_model, queries, k, self.n_jobs)

    def _within(self, queries: Codes, radius: int, items: Items) -> list[Found]:
        return within(items, self._n_models, self._per_model, queries, radius, self.n_jobs)

    def _touched(self, positions: np.ndarray) -> None:
        """Nothing to do: a scan reads the items themselves."""

    def _replaced(self, columns: np.ndarray | None) -> None:
        """As above."""

    def _restore(self, state: State) -> None:
        """As above."""


def nearest(items: Items, n_models: int, per_model: int, queries: Codes, k: int, n_jobs: int = 1) -> Found:
    """The k nearest living items, `(n_queries, k)` distances and positions in order; k is at most their number."""
    farthest = 8 * per_model
    room = min(items.n_positions, k + max(k, 1024))
    together = max(1, LIST_BYTES // (10 * room + 8 * farthest))
    spread_queries = spread_codes(queries.planes, len(queries))
    planes, alive = items.planes, items.alive

    def look(rows: slice, blocks: slice) -> Found:
        """The nearest among some blocks; where there are fewer than k, a list ends in what is farther than all."""
        some = spread_queries[rows]
        distances, positions = np.empty((len(some), k), np.uint16), np.empty((len(some), k), np.int64)
        for start in range(0, len(some), together):
            part = slice(start, start + together)
            asked, out = (some[part], farthest, k, room), (distances[part], positions[part])
            scan.kernels.nearest(planes, alive, blocks.start, blocks.stop, n_models, per_model, *asked, *out)
        return distances, positions

    answers = [_merge(segments, k) for segments in _share(look, items, len(queries), n_jobs)]
    if len(answers) == 1:
        return answers[0]
    distances, positions = (np.concatenate(arrays) for arrays in zip(*answers, strict=True))
    return distances, positions


def within(items: Items, n_models: int, per_model: int, queries: Codes, radius: int, n_jobs: int = 1) -> list[Found]:
    """All living items within the radius, distances and positions in order for each query."""
    spread_queries = spread_codes(queries.planes, len(queries))

    def look(rows: slice, blocks: slice) -> list[Found]:
        """What some blocks hold, for each query in the order of positions."""
        planes, alive, some = items.planes[blocks], items.alive[blocks], spread_queries[rows]
        resume, room, parts = np.zeros(3, np.int64), 4096, []
        while resume[0] < len(planes):
            out = np.empty(room, np.int32), np.empty(room, np.uint16), np.empty(room, np.int64)
            n = scan.kernels.within(planes, alive, n_models, per_model, some, radius + 1, resume, *out)
            parts.append([column[:n].copy() for column in out])
            room = min(2 * room, 1 << 22)
        of_query, distances, positions = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(of_query, kind="stable")
        ends = np.cumsum(np.bincount(of_query, minlength=len(some)))[:-1]
        positions += LANES * blocks.start
        return list(zip(np.split(distances[order], ends), np.split(positions[order], ends), strict=True))

    found = []
    for segments in _share(look, items, len(queries), n_jobs):
        for of_one_query in zip(*segments, strict=True):
            distances, positions = (np.concatenate(arrays) for arrays in zip(*of_one_query, strict=True))
            order = np.argsort(distances, kind="stable")
            found.append((distances[order], positions[order]))
    return found


def _merge(segments: list[Found], k: int) -> Found:
    """The k nearest out of the k nearest of each segment of the codes."""
    if len(segments) == 1:
        return segments[0]
    distances, positions = (np.concatenate(arrays, axis=1) for arrays in zip(*segments, strict=True))
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # stable: segments are in the order of positions
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(positions, order, axis=1)


def _share(look: Callable[[slice, slice], T], items: Items, n_queries: int, n_jobs: int) -> list[list[T]]:
    """`look` at all queries and blocks in several threads: a list of segments for each group of queries."""
    all_rows, all_blocks = slice(0, n_queries), slice(0, items.n_blocks)
    if n_jobs == 1 or items.planes.nbytes * n_queries < LEAST_WORK:
        return [[look(all_rows, all_blocks)]]
    if n_queries >= 4 * threads.number(n_jobs):
        return [[answer] for answer in threads.share(lambda rows: look(rows, all_blocks), n_queries, n_jobs)]
    return [threads.share(lambda blocks: look(all_rows, blocks), items.n_blocks, n_jobs)]
