"""Search of a backend: validates queries as `LiveIndex` does, and turns what the backend finds into `Hits`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice, takewhile
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.index.flat import FlatIndex
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder
from onlinehash.live.filters import Filter
from onlinehash.live.payloads import Payloads
from onlinehash.stores.backend import Backend, Found
from onlinehash.stores.ids import ids_of
from onlinehash.stores.manifest import Moment, State

#: Items of a ranking whose payloads are looked at together, at first and at most: a filter with many values is costly
#: to begin with, and one that few items pass looks at many.
AT_ONCE, AT_MOST = 256, 8192


class Search:
    """Searches of the items of one moment, among those that a filter admits.

    passing : function of a code, optional
        Gives the items that the filter admits in the order of (distance, place). By default the backend ranks them.
    """

    def __init__(
        self,
        backend: Backend,
        moment: Moment,
        encoder: Encoder,
        filter: Filter | None,
        passing: Callable[[np.ndarray], Iterator[Found]] | None = None,
    ) -> None:
        self._backend, self._moment, self._filter = backend, moment, filter
        self._passing_here = passing
        n_bits, n_models, fusion = backend.layout
        codes = Codes.from_rows(np.empty((0, backend.layout.n_bytes), np.uint8), n_bits, n_models)
        self._gate = FlatIndex(codes, fusion=fusion, encoder=encoder)  # without items; knows what may be asked

    def nearest(self, queries: Any, k: int) -> Hits:
        """The k nearest items of each query."""
        checks.parameters("search", {"k": k}, {"k": checks.integer(0)})
        codes, one = self._gate.codes_of(queries)
        found = self.found(codes, int(k))
        n = min(map(len, found), default=0)  # a backend that does not look at all items may find fewer for some
        if len(codes) == 0:
            n = self._number_found(int(k))
        hits = _hits([one for some in found for one in some[:n]], self._moment.state, (len(codes), n))
        return Hits(hits.ids[0], hits.distances[0]) if one else hits

    def within(self, queries: Any, radius: int) -> Hits | list[Hits]:
        """All items at a distance of at most `radius`."""
        checks.parameters("within", {"radius": radius}, {"radius": checks.integer(0)})
        codes, one = self._gate.codes_of(queries)
        farthest = min(int(radius), max(self._backend.layout.groups))
        found = [self._within(code, farthest) for code in codes.rows()]
        hits = [_hits(some, self._moment.state, (len(some),)) for some in found]
        return hits[0] if one else hits

    def found(self, codes: Codes, k: int) -> list[list[Found]]:
        """The k nearest items of each code."""
        if self._filter is not None:
            return [self._first(code, k, self._filter) for code in codes.rows()]
        k = min(k, self._moment.state.n)
        return self._backend.nearest_all(codes.rows(), k, self._moment.epoch) if k else [[] for _ in range(len(codes))]

    def _first(self, code: np.ndarray, k: int, filter: Filter) -> list[Found]:
        with closing(self._passing(code, filter)) as passing:
            return list(islice(passing, k))

    def _within(self, code: np.ndarray, radius: int) -> list[Found]:
        if self._moment.state.n == 0:
            return []
        if self._filter is None:
            return self._backend.within(code, radius, self._moment.epoch)
        with closing(self._passing(code, self._filter)) as passing:
            return list(takewhile(lambda found: found.distance <= radius, passing))

    def _number_found(self, k: int) -> int:
        """How many a query would find."""
        if self._filter is None or self._moment.state.n == 0:
            return min(k, self._moment.state.n)
        code = np.zeros(self._backend.layout.n_bytes, np.uint8)
        with closing(self._passing(code, self._filter)) as passing:
            return sum(1 for _ in islice(passing, k))

    def _passing(self, code: np.ndarray, filter: Filter) -> Generator[Found]:
        """Items that a filter admits, in the order of (distance, insertion)."""
        if self._moment.state.n == 0:
            return
        if self._passing_here is not None:
            yield from self._passing_here(code)
        else:
            yield from last_word(self._backend.ranked(code, self._moment.epoch, filter.tests), filter)


def last_word(ranked: Iterator[Found], filter: Filter) -> Generator[Found]:
    """Those of a ranking that really pass a filter, by their payloads."""
    n = AT_ONCE
    while some := list(islice(ranked, n)):
        filter.check()
        admitted = Payloads([found.payload for found in some]).mask(filter)
        yield from (found for found, passes in zip(some, admitted.tolist(), strict=True) if passes)
        n = min(2 * n, AT_MOST)


def _hits(found: list[Found], state: State, shape: tuple[int, ...]) -> Hits:
    ids = ids_of([one.id for one in found], state)
    return Hits(ids.reshape(shape), np.array([one.distance for one in found], np.int32).reshape(shape))
