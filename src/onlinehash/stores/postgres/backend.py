"""`PostgresBackend`: what an index asks of a database, in SQL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from operator import itemgetter
from typing import Any

import numpy as np
import psycopg

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput, ServiceUnavailable
from onlinehash.live.stop import to_its_end
from onlinehash.stores.backend import Backend, Carried, Change, Coded, Found, Head, News, Rows, StoredCodes
from onlinehash.stores.postgres import connections, news, pgvector, receipts, rows
from onlinehash.stores.postgres.change import PostgresChange, ShardedChange
from onlinehash.stores.postgres.connections import Connection, planned
from onlinehash.stores.postgres.errors import Commit, told
from onlinehash.stores.postgres.migration import check_format
from onlinehash.stores.postgres.schema import MODES, About, read_about
from onlinehash.stores.postgres.search import Searching

#: Ids or places that one statement asks for.
_MANY = 10_000
#: Some rows of many shall be read in their order: who does not know how many there are would read and sort them all.
_IN_ORDER = {"enable_sort": "off", "enable_bitmapscan": "off", "enable_seqscan": "off"}
#: After a change has waited for the head's lock in vain, for how many seconds others wait for it less, and how long, so
#: that all who are queued are soon refused.
_LOCKED_SECONDS, _LESS = 2.0, "250ms"
#: How often a change begins anew because another one came to its end just then.
_TRIES = 5


class PostgresBackend(Backend):
    """The tables of one schema. Connections come from a pool; errors are those of this library."""

    has_claims = True

    def __init__(self, address: str, schema: str, search: str | None = None) -> None:
        self.schema = connections.checked_schema(schema)
        self.address, self._address = connections.shown(address), address
        self._connections = connections.Lender(address)
        self._connection: Connection | None = None  # that of a snapshot
        try:
            with self._reading() as connection:
                self.about = read_about(connection, schema)
                check_format(self.about, schema)
                self.mode = _chosen(connection, self.about, search)
        except BaseException:
            self.close()
            raise
        self.layout, self.has_snapshots = self.about.layout, not self.about.n_shards
        self._chunks = self.about.chunks
        self._searching = Searching(self.layout, self._chunks, schema, self.mode, self.about.n_shards)
        self._locked_until = 0.0
        self._one_change = threading.Lock()  # so that writers of this process never take all connections

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if self._connection is not None:
            yield self._connection
            return
        with told(self.address), self._connections.lent() as connection:
            try:
                yield connection
            except psycopg.errors.ReadOnlySqlTransaction:  # the address may lead to another primary by now
                self._connections.drop_all()
                raise

    @contextmanager
    def snapshot(self) -> Iterator[PostgresBackend]:
        with self._reading() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            view = copy(self)
            view._connection = connection
            yield view

    def _name(self, table: str) -> str:
        return f'"{self.schema}".{table}'

    # ------------------------------------------------------------------------------------------------ changing

    @contextmanager
    def changing(self) -> Iterator[Change]:
        commit = Commit(self.address)
        with to_its_end(), self._one_change, self._reading() as connection, commit.told(), connection.transaction():
            try:
                change = self._begun(connection)
            except psycopg.errors.LockNotAvailable:
                self._locked_until = time.monotonic() + _LOCKED_SECONDS
                raise
            yield change
            if not change.is_put:
                raise psycopg.Rollback
            commit.is_next = True

    def _begun(self, connection: Connection) -> PostgresChange:
        """A change that nobody else disturbs: the lock of the head's row goes with the transaction."""
        locked = f"SELECT epoch, state FROM {self._name('head')} FOR UPDATE"
        if time.monotonic() < self._locked_until:
            connection.execute(f"SET LOCAL lock_timeout = '{_LESS}'")
        if not self.about.n_shards:
            head = _head(connection.execute(locked).fetchone())
            return PostgresChange(connection, self.schema, self.layout, self._chunks, head)
        for _ in range(_TRIES):
            head = _head(connection.execute(locked).fetchone())
            change = ShardedChange(connection, self.schema, self.layout, self._chunks, head, self._note)
            try:
                change.recover()
                return change
            except psycopg.errors.SerializationFailure:  # what was cut off has just come to its end on some server
                connection.execute("ROLLBACK AND CHAIN")
        raise ServiceUnavailable(f"the servers of {self.address} were busy {_TRIES} times; try again.")

    @contextmanager
    def claimed(self, part: int) -> Iterator[bool]:
        call, key = "_advisory_lock(hashtext(%s), %s)", (f"onlinehash refresh {self.schema}", part % 2**31)
        with self._reading() as connection:  # whose end, when the process dies, ends the claim
            found = connection.execute(f"SELECT pg_try{call}", key).fetchone()
            is_ours = found is not None and bool(found[0])
            try:
                yield is_ours
            finally:
                if is_ours:
                    with suppress(psycopg.OperationalError):
                        connection.execute(f"SELECT pg{call.replace('lock', 'unlock')}", key)

    def _note(self) -> None:
        """On a connection of its own, so that it stays whatever comes of the change."""
        with self._connections.lent() as connection:
            connection.execute(f"INSERT INTO {self._name('unfinished')} DEFAULT VALUES ON CONFLICT DO NOTHING")

    # ------------------------------------------------------------------------------------------------ reading

    def head(self) -> Head:
        with self._reading() as connection:
            return _head(connection.execute(f"SELECT epoch, state FROM {self._name('head')}").fetchone())

    def blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        with self._reading() as connection:
            asked = f"SELECT name, value FROM {self._name('blobs')} WHERE name = ANY(%s)"
            return dict(connection.execute(asked, (list(names),), binary=True).fetchall())

    def places(self, ids: Sequence[str], epoch: int) -> np.ndarray:
        known: dict[str, int] = {}
        asked = f"SELECT id, place FROM {self._name('items')} WHERE id = ANY(%s) AND {rows.counts()}"
        possible = list({id for id in ids if "\0" not in id})  # which no text of PostgreSQL has
        with self._reading() as connection:
            for begin in range(0, len(possible), _MANY):
                some = possible[begin : begin + _MANY]
                known.update(connection.execute(asked, (some, epoch, epoch)).fetchall())
        return np.array([known.get(id, -1) for id in ids], np.int64)

    def rows(
        self,
        epoch: int,
        places: np.ndarray | None = None,
        after: int = -1,
        limit: int | None = None,
        *,
        vectors: bool = False,
        codes: bool = False,
    ) -> Rows:
        with self._reading() as connection:
            if places is None:
                pages = [self._items(connection, epoch, "place > %s", after, limit, vectors)]
            else:
                ordered = np.unique(places).tolist()
                pages = [
                    self._items(connection, epoch, "place = ANY(%s::bigint[])", ordered[i : i + _MANY], None, vectors)
                    for i in range(0, len(ordered), _MANY)
                ]
            items = [item for page in pages for item in page]
            found = np.array([item[0] for item in items], np.int64)
            made = self._codes(connection, epoch, found) if codes else np.empty((0, self.layout.n_bytes), np.uint8)
        return Rows(
            found, [item[1] for item in items], [item[2] for item in items],
            [item[3] for item in items] if vectors else [], made,
        )  # fmt: skip

    def _items(
        self, connection: Connection, epoch: int, which: str, value: Any, limit: int | None, vectors: bool
    ) -> list[tuple[Any, ...]]:
        with planned(connection, _IN_ORDER if limit else {}):
            return connection.execute(
                f"SELECT place, id, payload{', vector' if vectors else ''} FROM {self._name('items')} "
                f"WHERE {which} AND {rows.counts()} ORDER BY place LIMIT %s",
                (value, epoch, epoch, limit),
                binary=True,
            ).fetchall()

    def coded(self, epoch: int, first: int, stop: int) -> Coded:
        window, values = f"place >= %s AND place < %s AND {rows.counts()}", (first, stop, epoch, epoch)
        bits = " || ".join(f"substr(bit_send(code{group}), 5)" for group in range(len(self.layout.groups)))
        with self._reading() as connection:
            items = connection.execute(
                f"SELECT place, vector FROM {self._name('items')} WHERE {window}", values, binary=True
            ).fetchall()
            of_codes = connection.execute(  # codes are short: one value of all takes less time than a row of each
                f"SELECT string_agg(int8send(place), ''), string_agg({bits}, '') FROM {self._name('codes')} "
                f"WHERE {window}",
                values,
                binary=True,
            ).fetchone()
        items.sort(key=itemgetter(0))
        places = np.array([place for place, _ in items], np.int64)
        codes = np.zeros((len(places), self.layout.n_bytes), np.uint8)
        if of_codes is not None and of_codes[0] is not None:
            coded = np.frombuffer(of_codes[0], ">i8")
            codes[np.searchsorted(places, coded)] = np.frombuffer(of_codes[1], np.uint8).reshape(len(coded), -1)
        return Coded(places, b"".join([vector for _, vector in items]), codes)

    def vectors(self, epoch: int, places: np.ndarray, size: int) -> dict[int, bytes]:
        asked = f"SELECT place, vector FROM {self._name('items')} WHERE place = ANY(%s::bigint[]) AND {rows.counts()}"
        found: dict[int, bytes] = {}
        with self._reading() as connection:
            for begin in range(0, len(places), _MANY):
                some = places[begin : begin + _MANY].tolist()
                found.update(connection.execute(asked, (some, epoch, epoch), binary=True).fetchall())
        return found

    def _codes(self, connection: Connection, epoch: int, places: np.ndarray) -> np.ndarray:
        """The code of each place, in the order of places; zeros where there is none."""
        made = np.zeros((len(places), self.layout.n_bytes), np.uint8)
        groups = ", ".join(f"code{group}" for group in range(len(self.layout.groups)))
        asked = f"SELECT place, {groups} FROM {self._name('codes')} WHERE place = ANY(%s::bigint[]) AND {rows.counts()}"
        for begin in range(0, len(places), _MANY):
            some = places[begin : begin + _MANY]
            found = connection.execute(asked, (some.tolist(), epoch, epoch), binary=True).fetchall()
            if found:
                at = begin + np.searchsorted(some, [row[0] for row in found])
                joined = b"".join(rows.code_of(row[1:]) for row in found)
                made[at] = np.frombuffer(joined, np.uint8).reshape(len(found), -1)
        return made

    # ------------------------------------------------------------------------------------------------ searching

    def nearest(self, code: np.ndarray, k: int, epoch: int) -> list[Found]:
        return self.nearest_all(code[None], k, epoch)[0]

    def nearest_all(self, codes: np.ndarray, k: int, epoch: int) -> list[list[Found]]:
        with self._reading() as connection:
            return self._searching.nearest_all(connection, codes, k, epoch)

    def within(self, code: np.ndarray, radius: int, epoch: int) -> list[Found]:
        with self._reading() as connection:
            return self._searching.within(connection, code, radius, epoch)

    def ranked(self, code: np.ndarray, epoch: int, tests: dict[str, Any]) -> Iterator[Found]:
        with self._reading() as connection:
            yield from self._searching.ranked(connection, code, epoch, tests)

    has_filters = True

    def admitted(self, epoch: int, tests: dict[str, Any], first: int, stop: int) -> Carried:
        with self._reading() as connection:
            return self._searching.admitted(connection, epoch, tests, first, stop)

    def changed(self, epoch: int, since: int, stop: int, limit: int, *, by_birth: bool = False) -> Carried:
        with self._reading() as connection:
            return self._searching.changed(connection, epoch, since, stop, limit, by_birth)

    # ------------------------------------------------------------------------------------------------ following

    has_deltas = has_receipts = True

    def news(self, after: int) -> News:
        with self._reading() as connection:
            return news.read(connection, self.schema, self.layout, after)

    def stored_codes(self, epoch: int) -> Iterator[StoredCodes]:
        with self._reading() as connection:
            yield from news.stored_codes(connection, self.schema, self.layout, epoch)

    def listening(self) -> AbstractContextManager[Callable[[float], int | None]]:
        return news.listening(self._address, self.address, self.schema, self._connections.check)

    def receipt(self, key: str) -> tuple[str, bytes] | None:
        with self._reading() as connection:
            return receipts.find(connection, self.schema, key)

    def close(self) -> None:
        self._connections.close()


def _head(row: tuple[Any, ...] | None) -> Head:
    if row is None:
        raise FormatError("the table head of the index has no row; restore a backup.")
    return Head(row[0], json.loads(row[1]))


def _chosen(connection: Connection, about: About, search: str | None) -> str:
    """The mode of search: that of the index, or another one that finds exactly the nearest."""
    if search is None or search == about.search:
        return about.search
    checks.parameters("PostgresIndex", {"search": search}, {"search": checks.one_of(None, *MODES)})
    if search in pgvector.APPROXIMATE:
        raise InvalidInput(
            expected=f"an index that was made with search={search!r} for that",
            got=f"one of {about.search!r}",
            hint="make a new one",
        )
    if (
        search == "pgvector"
        and not connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone()
    ):
        raise InvalidInput("search='pgvector' needs a database with pgvector, which this one does not have.")
    return search
