"""Searching an index on a shelf: the shelf finds, and here is said what and how many, with the words of `LiveIndex`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.distributed.stores.items import Items
from onlinehash.distributed.stores.naming import ids_of
from onlinehash.distributed.stores.shelf import Found
from onlinehash.distributed.stores.state import Moment, State
from onlinehash.index.flat import FlatIndex
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder
from onlinehash.live import filters
from onlinehash.live.payloads import Payloads

#: Items of a ranking whose payloads are looked at together.
AT_ONCE = 256

Tests = dict[str, list[filters.Test]]


class Searching(Items):
    """The answers."""

    def searched(self, queries: Any, k: int, where: Any = None) -> tuple[Hits, Encoder]:
        """What `search` finds, and the encoder of the codes that it searched, whatever is refreshed meanwhile."""

        def search(moment: Moment, gate: FlatIndex, asked: Any, tests: Tests | None) -> Hits:
            checks.parameters("search", {"k": k}, {"k": checks.integer(0)})
            codes, one = gate.codes_of(asked)
            found = self._nearest(moment, codes, int(k), tests)
            n = min(map(len, found), default=0)  # a shelf that does not look at all items may find fewer for some
            if len(codes) == 0:
                n = self._number_found(moment, int(k), tests)
            hits = _hits([one for some in found for one in some[:n]], moment.state, (len(codes), n))
            return Hits(hits.ids[0], hits.distances[0]) if one else hits

        return self._answer(queries, where, search)

    def found_within(self, queries: Any, radius: int, where: Any = None) -> tuple[Any, Encoder]:
        """What `within` finds, and the encoder of the codes that it searched."""

        def find(moment: Moment, gate: FlatIndex, asked: Any, tests: Tests | None) -> Any:
            checks.parameters("within", {"radius": radius}, {"radius": checks.integer(0)})
            codes, one = gate.codes_of(asked)
            found = self._within(moment, codes, min(int(radius), max(self._layout.groups)), tests)
            hits = [_hits(some, moment.state, (len(some),)) for some in found]
            return hits[0] if one else hits

        return self._answer(queries, where, find)

    def _answer(
        self, queries: Any, where: Any, find: Callable[[Moment, FlatIndex, Any, Tests | None], Any]
    ) -> tuple[Any, Encoder]:
        self._before_reading()

        def answer(moment: Moment) -> tuple[Any, Encoder]:
            tests = None if where is None else filters.checked(where)
            encoder = self._encoder_at(moment)
            asked = self._asked(queries, encoder)
            assert encoder is not None  # or it was refused
            return find(moment, self._gate(encoder), asked, tests), encoder

        return self._read(answer)

    def _gate(self, encoder: Encoder) -> FlatIndex:
        """An index without items, which knows what may be asked of one with these codes."""
        n_bits, n_models, fusion = self._layout
        codes = Codes.from_rows(np.empty((0, self._layout.n_bytes), np.uint8), n_bits, n_models)
        return FlatIndex(codes, fusion=fusion, encoder=encoder)

    # ------------------------------------------------------------------------------------------------ what is found

    def _nearest(self, moment: Moment, codes: Codes, k: int, tests: Tests | None) -> list[list[Found]]:
        if tests is not None:
            return [list(islice(self._passing(moment, code, tests), k)) for code in codes.rows()]
        k = min(k, moment.state.n)
        return [self._shelf.nearest(code, k, moment.epoch) if k else [] for code in codes.rows()]

    def _within(self, moment: Moment, codes: Codes, radius: int, tests: Tests | None) -> list[list[Found]]:
        if moment.state.n == 0:
            return [[] for _ in range(len(codes))]
        if tests is None:
            return [self._shelf.within(code, radius, moment.epoch) for code in codes.rows()]
        return [
            list(takewhile(lambda found: found.distance <= radius, self._passing(moment, code, tests)))
            for code in codes.rows()
        ]

    def _number_found(self, moment: Moment, k: int, tests: Tests | None) -> int:
        """How many a query would find."""
        if tests is None or moment.state.n == 0:
            return min(k, moment.state.n)
        code = np.zeros(self._layout.n_bytes, np.uint8)
        return sum(1 for _ in islice(self._passing(moment, code, tests), k))

    def _passing(self, moment: Moment, code: np.ndarray, tests: Tests) -> Iterator[Found]:
        """Items that a filter admits, in the order of (distance, insertion)."""
        ranked = self._shelf.ranked(code, moment.epoch, tests) if moment.state.n else iter(())
        while some := list(islice(ranked, AT_ONCE)):
            admitted = Payloads([found.payload for found in some]).columns(tests).mask(tests)
            yield from (found for found, passes in zip(some, admitted.tolist(), strict=True) if passes)


def _hits(found: list[Found], state: State, shape: tuple[int, ...]) -> Hits:
    ids = ids_of([one.id for one in found], state)
    return Hits(ids.reshape(shape), np.array([one.distance for one in found], np.int32).reshape(shape))
