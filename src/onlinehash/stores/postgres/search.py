"""Search for the nearest codes in SQL, by one of several modes.

    multi      exact, by look-ups of chunks (`multi_index`), and by a scan where that is cheaper
    scan       exact, by a look at all codes
    pgvector   the same with pgvector's operator for distances
    hnsw       approximate, by an index of pgvector
    ivfflat    the same with another one

Only the nearest are approximate: what is within a radius or passes a filter is found exactly in all modes. The order is
always that of (distance, place).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from onlinehash.stores.backend import FOREVER, Carried, Found, Layout
from onlinehash.stores.postgres import buckets, conditions, multi_index, pgvector
from onlinehash.stores.postgres.buckets import Buckets
from onlinehash.stores.postgres.chunks import Chunks, bit_texts
from onlinehash.stores.postgres.connections import Connection, planned
from onlinehash.stores.postgres.rows import counts

#: For so many seconds what is known of the codes is good enough to choose a way by.
_FRESH = 5.0
#: How many of the nearest are looked at in turn for those that pass a filter, before all codes are.
_AMONG = (256, 2048, 16_384)
#: Queries of one statement at most.
_TOGETHER = 16
#: Look-ups shall be looked up: their cost is known here better than to the planner, and too low for workers.
_LOOK_UPS = {"enable_seqscan": "off", "max_parallel_workers_per_gather": "0", "jit": "off"}
#: Rows shall be sorted where they are, as nobody tells the planner how many there are.
_ELSEWHERE = {"enable_sort": "off"}

#: A ranking is read to its end more often than not, and rows are few or many whatever the planner believes: a plan for
#: the first tenth of them looks up codes one by one, which takes minutes where they are on other servers.
_TO_THE_END = {"cursor_tuple_fraction": "1"}

#: For each query, by its number, the values to look up of each chunk.
Keys = dict[int, list[list[int]]]


class Searching:
    """The statements of one index. Any number of threads may use it, each with a connection of its own."""

    def __init__(self, layout: Layout, chunks: Chunks, schema: str, mode: str, n_shards: int = 0) -> None:
        self._layout, self._chunks, self._mode = layout, chunks, mode
        self._codes, self._items = f'"{schema}".codes', f'"{schema}".items'
        self._shards = [f"{self._codes}_{number}" for number in range(n_shards)]
        self._elsewhere = _ELSEWHERE if n_shards else {}
        pattern = 'bit_count(code{0} # %s::"bit")' if mode in ("multi", "scan") else '(code{0} <~> %s::"bit")::integer'
        self._distances = [pattern.format(group) for group in range(len(layout.groups))]
        self._distance = self._distances[0] if len(layout.groups) == 1 else f"LEAST({', '.join(self._distances)})"
        self._known: tuple[int, float, Buckets] | None = None

    # ------------------------------------------------------------------------------------------------ the questions

    def nearest_all(self, connection: Connection, codes: np.ndarray, k: int, epoch: int) -> list[list[Found]]:
        """The k nearest items of each code."""
        if self._mode in pgvector.APPROXIMATE:
            return [self._approximate(connection, code, k, epoch) for code in codes]
        found: list[list[Found] | None] = [None] * len(codes)
        if self._mode == "multi":
            found = self._nearest_by_chunks(connection, codes, k, epoch)
        unknown = {number: codes[number] for number, hits in enumerate(found) if hits is None}
        with planned(connection, self._elsewhere):
            scanned = self._scanned(connection, unknown, epoch, limit=k)
        return [scanned[number] if hits is None else hits for number, hits in enumerate(found)]

    def within(self, connection: Connection, code: np.ndarray, radius: int, epoch: int) -> list[Found]:
        """All items within a radius."""
        found = self._within_by_chunks(connection, code, radius, epoch) if self._mode == "multi" else None
        if found is None:
            with planned(connection, self._elsewhere):
                found = self._scanned(connection, {0: code}, epoch, radius=radius)[0]
        return found

    def ranked(self, connection: Connection, code: np.ndarray, epoch: int, tests: dict[str, Any]) -> Iterator[Found]:
        """Items with their payloads, nearest first; some that a filter does not admit are left out."""
        seen: list[Found] = []
        for k in _AMONG if self._mode == "multi" else ():
            (found,) = self._nearest_by_chunks(connection, code[None], k, epoch)
            if found is None:
                break
            yield from self._with_payloads(connection, found[len(seen) :], epoch)
            seen = found
            if len(found) < k:
                return
        yield from self._all_ranked(connection, code, epoch, tests, seen[-1:])

    def admitted(self, connection: Connection, epoch: int, tests: dict[str, Any], first: int, stop: int) -> Carried:
        """What items at some places carry; some that a filter does not admit are left out."""
        condition, parameters = conditions.condition(tests)
        which = f"place >= %s AND place < %s AND {condition}"
        return self._carried(connection, which, [first, stop, *parameters], epoch)

    def changed(self, connection: Connection, epoch: int, since: int, stop: int, limit: int, by_birth: bool) -> Carried:
        """What items carry whose rows are younger than an epoch."""
        which, values = "born > %s AND place < %s", [since, stop]
        if not by_birth:
            ended = f"SELECT place FROM {self._items} WHERE died > %s AND died <= %s AND died < {FOREVER}"
            which, values = f"place = ANY(ARRAY({ended})) AND {which}", [since, epoch, *values]
        with planned(connection, _LOOK_UPS):
            return self._carried(connection, which, values, epoch, limit)

    # ------------------------------------------------------------------------------------------------ look-ups

    def _nearest_by_chunks(
        self, connection: Connection, codes: np.ndarray, k: int, epoch: int
    ) -> list[list[Found] | None]:
        def look_up(keys: Keys) -> dict[int, list[Found]]:
            return self._scanned(connection, {number: codes[number] for number in keys}, epoch, k, keys=keys)

        steps = self._steps(connection, codes, epoch)
        if all(one.is_hopeless(k) for one in steps):
            return [None] * len(steps)
        with planned(connection, _LOOK_UPS | self._elsewhere):
            return multi_index.nearest_all(steps, k, look_up)

    def _within_by_chunks(
        self, connection: Connection, code: np.ndarray, radius: int, epoch: int
    ) -> list[Found] | None:
        def look_up(keys: list[list[int]]) -> list[Found]:
            return self._scanned(connection, {0: code}, epoch, radius=radius, keys={0: keys})[0]

        (steps,) = self._steps(connection, code[None], epoch)
        with planned(connection, _LOOK_UPS | self._elsewhere):
            return multi_index.within(steps, radius, look_up)

    def _steps(self, connection: Connection, codes: np.ndarray, epoch: int) -> list[multi_index.Steps]:
        now = time.monotonic()
        if self._known is None or (self._known[0] != epoch and now - self._known[1] > _FRESH):
            self._known = epoch, now, buckets.sampled(connection, self._codes, self._chunks, epoch)
        return [multi_index.Steps(self._chunks, value, self._known[2]) for value in self._chunks.values(codes).tolist()]

    # ------------------------------------------------------------------------------------------------ statements

    def _scanned(
        self,
        connection: Connection,
        codes: dict[int, np.ndarray],
        epoch: int,
        limit: int | None = None,
        radius: int | None = None,
        keys: Keys | None = None,
    ) -> dict[int, list[Found]]:
        """What is nearest to each code of all items, or of those that have one of its keys of a chunk."""
        found: dict[int, list[Found]] = {}
        numbers = list(codes)
        for begin in range(0, len(numbers), _TOGETHER):
            some = numbers[begin : begin + _TOGETHER]
            found |= self._scanned_together(
                connection, {number: codes[number] for number in some}, epoch, limit, radius, keys
            )
        return found

    def _scanned_together(
        self,
        connection: Connection,
        codes: dict[int, np.ndarray],
        epoch: int,
        limit: int | None,
        radius: int | None,
        keys: Keys | None,
    ) -> dict[int, list[Found]]:
        """The same in one statement."""
        listed = " OR ".join(f"{name} = ANY(%s::integer[])" for name in self._chunks.columns)
        met = f"({listed}) AND" if keys else ""
        statements, values = [], []
        for number, code in codes.items():
            arrays = ["{" + ",".join(map(str, of_chunk)) + "}" for of_chunk in keys[number]] if keys else []
            for table, distance, bits in self._parts(bit_texts(self._layout, code)):
                near = f"AND {distance} <= %s" if radius is not None else ""
                statements.append(
                    f"(SELECT {number}, {distance}, place, id FROM {table} WHERE {met} {counts()} {near} "
                    "ORDER BY 2, 3 LIMIT %s)"
                )
                values += [*bits, *arrays, epoch, epoch, *([*bits, radius] if near else []), limit]
        found: dict[int, list[Found]] = {number: [] for number in codes}
        for number, *hit in connection.execute(" UNION ALL ".join(statements), values).fetchall():
            found[number].append(Found(*hit))
        if len(statements) == len(codes):  # in order, and each item once
            return found
        nearest = {number: {hit.place: hit for hit in sorted(hits, reverse=True)} for number, hits in found.items()}
        return {number: sorted(hits.values())[:limit] for number, hits in nearest.items()}

    def _parts(self, bits: list[str]) -> list[tuple[str, str, list[str]]]:
        """Tables to ask, by which distance, with which bits.

        Servers that hold rows for this one order and limit their own, all at once. LEAST cannot be asked of them, but
        the nearest by any group are among the nearest by one of them.
        """
        if not self._shards:
            return [(self._codes, self._distance, bits)]
        groups = list(zip(self._distances, bits, strict=True))
        return [(table, distance, [of_group]) for table in self._shards for distance, of_group in groups]

    def _approximate(self, connection: Connection, code: np.ndarray, k: int, epoch: int) -> list[Found]:
        tables = self._shards or [self._codes]
        of_table = [value for bits in bit_texts(self._layout, code) for value in (bits, epoch, epoch, bits, k)]
        with planned(connection, pgvector.settings(self._mode, k)):
            rows = connection.execute(
                pgvector.nearest_statement(tables, self._layout), [*of_table * len(tables), k]
            ).fetchall()
        return [Found(*row) for row in rows]

    def _with_payloads(self, connection: Connection, found: list[Found], epoch: int) -> Iterator[Found]:
        payloads: dict[int, str | None] = dict(
            connection.execute(
                f"SELECT place, payload FROM {self._items} WHERE place = ANY(%s::bigint[]) AND {counts()}",
                ([item.place for item in found], epoch, epoch),
            ).fetchall()
        )
        for item in found:
            yield item._replace(payload=payloads.get(item.place))

    def _carried(
        self, connection: Connection, which: str, values: list[Any], epoch: int, limit: int | None = None
    ) -> Carried:
        found = connection.execute(
            f"SELECT place, payload FROM {self._items} WHERE {which} AND {counts()} LIMIT %s",
            [*values, epoch, epoch, limit],
            binary=True,
        ).fetchall()
        return Carried(np.array([place for place, _ in found], np.int64), [payload for _, payload in found])

    def _all_ranked(
        self, connection: Connection, code: np.ndarray, epoch: int, tests: dict[str, Any], after: list[Found]
    ) -> Iterator[Found]:
        """All items behind one, out of a cursor, so that those that nobody asks for stay where they are."""
        admitted, parameters = conditions.condition(tests)
        behind = "(distance, place) > (%s, %s)" if after else "true"
        statement = (
            f"SELECT distance, place, id, payload FROM (SELECT {self._distance} AS distance, codes.place, codes.id, "
            f"payload FROM {self._codes} AS codes JOIN {self._items} AS items ON items.place = codes.place "
            f"WHERE {counts('codes')} AND {counts('items')} AND {admitted}) AS ranked "
            f"WHERE {behind} ORDER BY 1, 2"
        )
        values = [*bit_texts(self._layout, code), epoch, epoch, epoch, epoch, *parameters]
        with planned(connection, _TO_THE_END), connection.cursor("onlinehash_ranked") as cursor:
            cursor.execute(statement, [*values, *(value for item in after for value in item[:2])])
            for row in cursor:
                yield Found(*row)
