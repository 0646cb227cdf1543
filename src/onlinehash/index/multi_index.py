"""`MultiIndex`: exact search that looks only where near codes can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.codes.lanes import spread
from onlinehash.codes.layout import LANES, clear_lanes, column_masks, places
from onlinehash.codes.words import rows_of_words
from onlinehash.errors import FormatError
from onlinehash.index import costs, flat, probing, substrings, threads
from onlinehash.index.base import Index
from onlinehash.index.items import Items
from onlinehash.index.masks import masks_for
from onlinehash.types import State

if TYPE_CHECKING:
    from onlinehash.learners.encoder import Encoder

#: The share of blocks with items that are not in the tables at which the tables are built anew, and the least number.
FRESH_SHARE, FEW_BLOCKS = 1 / 64, 64

#: When so many queries of a large batch have all given up, the others are not tried.
FIRST = 8

#: Queries that are not fewer are a batch, whose scan reads the codes once for all of them.
BATCH = 8

_NOTHING = 2**62  # a key behind all others

Found = tuple[np.ndarray, np.ndarray]


class Work(NamedTuple):
    """What a search did for each query: buckets looked up, items compared, and whether it then scanned all codes."""

    look_ups: np.ndarray
    candidates: np.ndarray
    scanned: np.ndarray

    @classmethod
    def nothing(cls, n_queries: int) -> Work:
        """The work of queries that were answered without tables."""
        zeros = np.zeros(n_queries, np.int64)
        return cls(zeros, zeros, np.ones(n_queries, np.bool_))


class MultiIndex(Index):
    """Multi-index hashing: hash tables on substrings of the codes, and a flat scan wherever that is cheaper.

    The answers are those of `FlatIndex`, ties included. How many tables there are follows from the number of bits and
    of items. Items that are added or updated wait outside the tables, and are scanned, until there are enough of them
    to build the tables anew. `work` tells what the last search did.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FlatIndex, MultiIndex, OnlineHashing
    >>> X = np.random.default_rng(0).standard_normal((1000, 16))
    >>> codes = OnlineHashing(n_bits=32, random_state=0).observe(X).encode(X)
    >>> found, expected = (index.search(codes[:5], k=3) for index in (MultiIndex(codes), FlatIndex(codes)))
    >>> bool((found.ids == expected.ids).all())
    True
    """

    def _set_up(self, items: Items, n_jobs: int, fusion: str, encoder: Encoder | None) -> None:
        super()._set_up(items, n_jobs, fusion, encoder)
        self.work = Work.nothing(0)

    @property
    def n_tables(self) -> int:
        """Tables for each model."""
        return len(self._tables[0].starts)

    @property
    def tables(self) -> substrings.Tables:
        """Those of the first model, to look at."""
        return self._tables[0]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, or in the file that is mapped."""
        return super().nbytes + self._settled.nbytes + sum(tables.nbytes for tables in self._tables)

    # ------------------------------------------------------------------------------------------------ tables

    def _build(self) -> None:
        """Tables of all positions, dead ones too."""
        rows = self._rows(self._items.all_codes())
        self._set_tables([substrings.build(of_model, self._bits) for of_model in rows])

    def _set_tables(self, tables: list[substrings.Tables]) -> None:
        """Tables that hold every position as it is now."""
        self._tables, self._shared = tables, False
        self._masks = masks_for(int(tables[0].widths.max()))
        self._settled = self._items.alive.copy()
        self._fresh_blocks = np.empty(0, np.int64)

    @property
    def _bits(self) -> int:
        """The bits of a code as the tables see it: of one model, or of all whose distances are summed."""
        return self.n_bits if self._n_models == self.n_models else self.n_bits * self.n_models

    def _rows(self, codes: Codes) -> list[np.ndarray]:
        """Codes as rows of words, for each set of tables."""
        n, together = len(codes), self.n_models // self._n_models
        models = range(0, self.n_models, together)
        return [rows_of_words(codes.planes, n, model, together, self.n_bits) for model in models]

    def _touched(self, positions: np.ndarray) -> None:
        settled = self._settled
        if len(settled) < self._items.n_blocks:
            settled = np.zeros(max(self._items.n_blocks, len(settled) * 3 // 2), np.uint64)
            settled[: len(self._settled)] = self._settled
        clear_lanes(settled, positions)
        living = positions[self._items.are_alive(positions)]
        self._settled, self._fresh_blocks = settled, np.union1d(self._fresh_blocks, living // LANES)
        if len(self._fresh_blocks) > max(FEW_BLOCKS, FRESH_SHARE * self._items.n_blocks):
            self._build()

    def _replaced(self, columns: np.ndarray | None) -> None:
        if columns is None or len(self._fresh_blocks):
            self._build()
            return
        if self._shared:
            self._tables = [substrings.copied(tables) for tables in self._tables]
        codes = self._items.all_codes()
        for number, rows in enumerate(self._rows(codes)):
            of_set = columns[columns // self._bits == number]
            if len(of_set):
                few = of_set[: substrings.FEW_COLUMNS]  # more are not put in one by one
                masks = column_masks(codes.planes, places(few, self.n_bits))
                self._tables[number] = substrings.replace(
                    self._tables[number], rows, self._bits, of_set % self._bits, masks
                )
        self._set_tables(self._tables)

    def fork(self) -> MultiIndex:
        twin = super().fork()
        twin._settled, twin._shared = self._settled.copy(), True
        return twin

    def get_state(self) -> State:
        tables = [of_model._asdict() for of_model in self._tables]
        settled = self._settled[: self._items.n_blocks].copy()
        self._shared = True  # the next change of tables copies them
        return super().get_state() | {"tables": tables, "settled": settled, "fresh": self._fresh_blocks}

    def _restore(self, state: State) -> None:
        tables = [substrings.checked(substrings.Tables(**of_model), self._bits) for of_model in state["tables"]]
        settled, fresh = state["settled"], state["fresh"]
        alive = self._items.alive
        if (
            len(tables) != self._n_models
            or any(not np.array_equal(other.starts, tables[0].starts) for other in tables)
            or any(other.positions.shape != tables[0].positions.shape for other in tables)
            or tables[0].positions.shape[1] > self._items.n_positions
            or (len(fresh) == 0 and tables[0].positions.shape[1] != self._items.n_positions)
            or settled.shape != alive.shape
            or settled.dtype != np.uint64
            or (settled & ~alive).any()
            or fresh.dtype != np.int64
            or not np.array_equal(fresh, np.unique(fresh))
            or fresh.min(initial=0) < 0
            or fresh.max(initial=-1) >= len(alive)
        ):
            raise FormatError(f"the tables do not belong to {self._items.all_codes()!r}.")
        self._set_tables(tables)
        self._settled, self._fresh_blocks, self._shared = np.array(settled), np.array(fresh), True

    def _fresh(self) -> probing.Fresh:
        blocks = self._fresh_blocks
        lanes = self._items.alive[blocks] & ~self._settled[blocks]
        return probing.Fresh(self._items.planes, blocks[lanes != 0], lanes[lanes != 0], self._settled)

    # ------------------------------------------------------------------------------------------------ searching

    def _nearest(self, queries: Codes, k: int, items: Items) -> Found:
        if self._scans_at_once(len(queries), k, items):
            return flat.nearest(items, self._n_models, self._per_model, queries, k, self.n_jobs)
        fresh, cost = self._fresh(), self._scan_cost(len(queries))
        answers, gave_up = self._ask(lambda some: self._k_keys(some, k, fresh, cost), queries)
        keys = np.full((len(queries), k), _NOTHING)
        keys[: len(answers)] = answers
        distances, positions = probing.distances_of(keys).astype(np.uint16), probing.positions_of(keys)
        if gave_up.any():
            rest = queries if gave_up.all() else queries[gave_up]
            found = flat.nearest(self._items, self._n_models, self._per_model, rest, k, self.n_jobs)
            distances[gave_up], positions[gave_up] = found
        return distances, positions

    def _within(self, queries: Codes, radius: int, items: Items) -> list[Found]:
        if self._scans_at_once(len(queries), 0, items):
            return flat.within(items, self._n_models, self._per_model, queries, radius, self.n_jobs)
        fresh, cost, radius = self._fresh(), self._scan_cost(len(queries)), min(radius, self._bits)
        found, gave_up = self._ask(lambda some: self._all_keys(some, radius, fresh, cost), queries)
        answers = [(probing.distances_of(keys).astype(np.uint16), probing.positions_of(keys)) for keys in found]
        answers += [(np.empty(0, np.uint16), np.empty(0, np.int64))] * (len(queries) - len(found))
        if gave_up.any():
            rest = queries if gave_up.all() else queries[gave_up]
            scanned = flat.within(self._items, self._n_models, self._per_model, rest, radius, self.n_jobs)
            for q, answer in zip(np.flatnonzero(gave_up), scanned, strict=True):
                answers[q] = answer
        return answers

    def _ask(
        self, search: Callable[[Codes], tuple[Any, np.ndarray, np.ndarray]], queries: Codes
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """The keys of each query that was asked for, and which queries gave up.

        When the first few of a large batch have all given up, the others are not asked for.
        """
        n, parts = len(queries), []
        if n >= 8 * FIRST:
            parts, queries = [search(queries[:FIRST])], queries[FIRST:]
        if not parts or not parts[0][1].all():
            parts += threads.share(lambda rows: search(queries[rows]), len(queries), self.n_jobs)
        keys = [of_query for part in parts for of_query in part[0]]
        gave_up, work = np.ones(n, np.bool_), np.zeros((n, 2), np.int64)
        gave_up[: len(keys)] = np.concatenate([part[1] for part in parts])
        work[: len(keys)] = np.concatenate([part[2] for part in parts])
        self.work = Work(work[:, 0], work[:, 1], gave_up)
        return keys, gave_up

    def _k_keys(
        self, queries: Codes, k: int, fresh: probing.Fresh, cost: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The k nearest of each query as keys, which queries gave up, and the work."""
        n, room = len(queries), k + max(k, 256)
        best, farthest = np.full((n, k), _NOTHING), np.full(n, self._bits)
        gave_up, work = np.zeros(n, np.bool_), np.zeros((n, 2), np.int64)
        for model in self._each_model(queries, fresh):
            found, n_found = _search(*model, k, farthest, cost, room, n * k + room, work)
            keys = np.full((n, k), _NOTHING)
            keys[np.arange(k) < n_found[:, None]] = found
            gave_up |= n_found == probing.GAVE_UP
            best = _least(np.concatenate([best, keys], axis=1), k) if self._n_models > 1 else keys
            # What the next model finds must be as near as the k-th so far.
            farthest = np.where(gave_up, -1, np.minimum(farthest, probing.distances_of(best[:, -1])))
        return best, gave_up, work

    def _all_keys(
        self, queries: Codes, radius: int, fresh: probing.Fresh, cost: float
    ) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """All within the radius as sorted keys of each query, which queries gave up, and the work."""
        n, room = len(queries), min(costs.room_within(self._tables[0], cost), self._items.n_positions)
        of_models, gave_up, work = [], np.zeros(n, np.bool_), np.zeros((n, 2), np.int64)
        for model in self._each_model(queries, fresh):
            size = min(n, 64) * room
            found, n_found = _search(*model, probing.ALL, np.full(n, radius), cost, room, size, work)
            gave_up |= n_found == probing.GAVE_UP
            of_models.append(np.split(found, np.cumsum(np.maximum(n_found, 0))[:-1]))
        if len(of_models) == 1:
            return of_models[0], gave_up, work
        joined = [_least(np.concatenate(lists)[None], None)[0] for lists in zip(*of_models, strict=True)]
        return [keys[keys < _NOTHING] for keys in joined], gave_up, work

    def _each_model(
        self, queries: Codes, fresh: probing.Fresh
    ) -> Iterator[tuple[probing.Haystack, np.ndarray, np.ndarray]]:
        """Where to search, and for what: words, and lanes; what is in no table goes with the first model."""
        spread_rows = spread(queries.rows()) if len(fresh.blocks) else np.empty((len(queries), 0), np.uint8)
        for tables, rows in zip(self._tables, self._rows(queries), strict=True):
            yield self._haystack(tables, fresh), rows, spread_rows
            fresh = fresh._replace(blocks=fresh.blocks[:0], lanes=fresh.lanes[:0])

    def _haystack(self, tables: substrings.Tables, fresh: probing.Fresh) -> probing.Haystack:
        return probing.Haystack(tables, self._masks, fresh, self._n_models, self._per_model, self._bits)

    def _scans_at_once(self, n_queries: int, k: int, items: Items) -> bool:
        """Whether it is clear beforehand that the tables will not pay; they know nothing of a choice of items."""
        cost = self._scan_cost(n_queries)
        at_once = (
            items is not self._items
            or n_queries * cost * self._n_models < costs.CHEAP_SCAN
            or costs.gives_up_at_once(self._tables[0], k, cost)
        )
        if at_once:
            self.work = Work.nothing(n_queries)
        return at_once

    def _scan_cost(self, n_queries: int) -> float:
        """What a scan would cost instead, for one query and one model."""
        per_byte = costs.SCAN_MANY if n_queries >= BATCH else costs.SCAN_ONE
        return self._items.planes.nbytes * per_byte / self._n_models


def _search(
    haystack: probing.Haystack,
    rows: np.ndarray,
    spread_rows: np.ndarray,
    k: int,
    farthest: np.ndarray,
    cost: float,
    room: int,
    size: int,
    work: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The keys found, query after query, and how many each query found; `size` keys are taken at a time."""
    n_found, parts, done = np.empty(len(rows), np.int64), [], 0
    keys = np.empty(size, np.int64)
    while done < len(rows):
        rest = slice(done, None)
        asked = rows[rest], spread_rows[rest]
        answered = probing.search(haystack, *asked, k, farthest[rest], cost, room, keys, n_found[rest], work[rest])
        parts.append(keys[: np.maximum(n_found[done : done + answered], 0).sum()].copy())
        done += answered
    return np.concatenate(parts), n_found


def _least(keys: np.ndarray, k: int | None) -> np.ndarray:
    """The k least keys of each row, in order, each position once; what is left is filled with _NOTHING."""
    keys = np.sort(keys, axis=1)
    positions = probing.positions_of(keys)
    by_position = np.argsort(positions, axis=1, kind="stable")  # of one position, the least key comes first
    sorted_positions = np.take_along_axis(positions, by_position, axis=1)
    again = np.zeros(keys.shape, np.bool_)
    np.put_along_axis(again, by_position[:, 1:], sorted_positions[:, 1:] == sorted_positions[:, :-1], axis=1)
    return np.sort(np.where(again, _NOTHING, keys), axis=1)[:, :k]
