"""The slow obvious backend: lists of rows that are looked at one by one. It fails when it is told to.

It also keeps an eye on what is asked of it: rows that are written say from when they count, and changes put one head.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from onlinehash.stores import creation, deltas
from onlinehash.stores.backend import FOREVER, Backend, Carried, Change, Found, Head, Layout, News, Rows, StoredCodes
from onlinehash.stores.deltas import Added, Delta, Ended, Rewound, Step


@dataclass(frozen=True)
class Row:
    """An item or a code, from when to when it counts."""

    place: int
    id: str
    born: int
    died: int
    payload: str | None = None
    vector: bytes = b""
    code: bytes = b""

    def lives(self, epoch: int) -> bool:
        return self.born <= epoch < self.died


@dataclass
class Tables:
    """Everything that is kept; several backends can be opened on it, as by several processes."""

    layout: Layout
    head: str  # JSON, as in a real database
    blobs: dict[str, bytes]
    items: list[Row] = field(default_factory=list)
    codes: list[Row] = field(default_factory=list)
    deltas: list[tuple[int, int, bytes]] = field(default_factory=list)
    receipts: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_cut_off: bool = False

    @classmethod
    def create(cls, learner: Any, policy: Any = None) -> Tables:
        head, blobs = creation.first(learner, policy)
        return cls(Layout(*learner.shape_of_codes), json.dumps(head), dict(blobs))


class Failure(Exception):
    """What a clumsy backend raises."""


class MemoryBackend(Backend):
    """A backend on tables in memory.

    With `is_atomic` a change that fails leaves nothing behind, as in PostgreSQL. Else its rows stay there, and are
    rewound before the next change begins, as in a database without transactions.
    """

    def __init__(self, tables: Tables, is_atomic: bool = True) -> None:
        self.tables, self.layout, self.is_atomic = tables, tables.layout, is_atomic
        self.address = "memory"
        self.is_closed = False
        #: Called with the name of each write before it is made; may raise.
        self.before_write: Callable[[str], None] = lambda name: None
        #: Called with the name of each read; may raise, or change the tables through another backend.
        self.before_read: Callable[[str], None] = lambda name: None
        #: Called after each change that was made, when others may make theirs.
        self.after_change: Callable[[], None] = lambda: None
        self._writer: int | None = None

    # ------------------------------------------------------------------ changes

    @contextmanager
    def changing(self) -> Iterator[Change]:
        assert not self.is_closed
        with self.tables.lock:
            assert self._writer is None, "a change inside a change"
            tables, self._writer = self.tables, threading.get_ident()
            before = tables.head, dict(tables.blobs), list(tables.items), list(tables.codes)
            before_too = list(tables.deltas), dict(tables.receipts)
            change = MemoryChange(self)
            change.rewound = tables.is_cut_off
            if tables.is_cut_off:
                change._rewind(change.head.epoch)
            try:
                yield change
                if self.is_atomic:
                    self.before_write("commit")
                tables.is_cut_off = tables.is_cut_off and not change.is_put
            except BaseException:
                if self.is_atomic:
                    tables.head, tables.blobs, tables.items, tables.codes = before
                    tables.deltas, tables.receipts = before_too
                elif not change.is_put:
                    tables.is_cut_off = True
                raise
            finally:
                self._writer = None
        if change.is_put:
            self.after_change()

    # ------------------------------------------------------------------ reading

    def head(self) -> Head:
        self._reading("head")
        return Head(*json.loads(self.tables.head))

    def blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        self._reading("blobs")
        return {name: self.tables.blobs[name] for name in names if name in self.tables.blobs}

    def places(self, ids: Sequence[str], epoch: int) -> np.ndarray:
        self._reading("places")
        known = {row.id: row.place for row in list(self.tables.items) if row.lives(epoch)}
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
        self._reading("rows")
        wanted = None if places is None else set(places.tolist())
        found = [row for row in list(self.tables.items) if row.lives(epoch) and row.place > after]
        found = [row for row in found if wanted is None or row.place in wanted]
        found = sorted(found, key=lambda row: row.place)[:limit]
        assert len({row.place for row in found}) == len(found), "two items at one place"
        coded = self._coded(epoch)
        zeros = bytes(self.layout.n_bytes)
        packed = b"".join(coded[row.place].code if row.place in coded else zeros for row in found) if codes else b""
        return Rows(
            np.array([row.place for row in found], np.int64),
            [row.id for row in found],
            [row.payload for row in found],
            [row.vector for row in found] if vectors else [],
            np.frombuffer(packed, np.uint8).reshape(-1, self.layout.n_bytes),
        )

    def vectors(self, epoch: int, places: np.ndarray, size: int) -> dict[int, bytes]:
        self._reading("vectors")
        wanted = set(places.tolist())
        assert len(wanted) == len(places), "a place is asked for twice"
        found = {row.place: row.vector for row in list(self.tables.items) if row.lives(epoch) and row.place in wanted}
        assert all(len(vector) == size for vector in found.values())
        return found

    def _coded(self, epoch: int) -> dict[int, Row]:
        rows = [row for row in list(self.tables.codes) if row.lives(epoch)]
        assert len({row.place for row in rows}) == len(rows), "two codes at one place"
        return {row.place: row for row in rows}

    def nearest(self, code: np.ndarray, k: int, epoch: int) -> list[Found]:
        return [found._replace(payload=None) for found in self.ranked(code, epoch, {})][:k]

    def within(self, code: np.ndarray, radius: int, epoch: int) -> list[Found]:
        return [found._replace(payload=None) for found in self.ranked(code, epoch, {}) if found.distance <= radius]

    def ranked(self, code: np.ndarray, epoch: int, tests: dict[str, Any]) -> Iterator[Found]:
        self._reading("ranked")
        payloads = {row.place: row.payload for row in list(self.tables.items) if row.lives(epoch)}
        found = [
            Found(self._distance(code, row.code), row.place, row.id, payloads.get(row.place))
            for row in self._coded(epoch).values()
        ]
        return iter(sorted(found))

    def _distance(self, a: np.ndarray, b: bytes) -> int:
        differ = np.bitwise_count(a ^ np.frombuffer(b, np.uint8)).astype(int)
        edges = np.cumsum([0, *self.layout.groups]) // 8
        return int(min(differ[start:stop].sum() for start, stop in pairwise(edges)))

    has_filters = True

    def admitted(self, epoch: int, tests: dict[str, Any], first: int, stop: int) -> Carried:
        self._reading("admitted")
        rows = [row for row in list(self.tables.items) if row.lives(epoch) and first <= row.place < stop]
        return _carried(rows)

    def changed(self, epoch: int, since: int, stop: int, limit: int, *, by_birth: bool = False) -> Carried:
        self._reading("changed")
        rows = list(self.tables.items)
        ended = {row.place for row in rows if by_birth or since < row.died <= epoch}
        rows = [row for row in rows if row.lives(epoch) and row.born > since and row.place < stop]
        return _carried([row for row in rows if row.place in ended][:limit])

    # ------------------------------------------------------------------ following

    has_deltas = has_receipts = True

    def news(self, after: int) -> News:
        self._reading("news")
        with self.tables.lock:
            found = [
                Delta(before, epoch, deltas.from_bytes(value, self.layout.n_bytes))
                for before, epoch, value in self.tables.deltas
                if epoch > after
            ]
            return News(Head(*json.loads(self.tables.head)), found)

    def stored_codes(self, epoch: int) -> Iterator[StoredCodes]:
        self._reading("stored_codes")
        rows = [row for row in list(self.tables.codes) if row.died > epoch]
        packed = np.frombuffer(b"".join(row.code for row in rows), np.uint8).reshape(-1, self.layout.n_bytes)
        places, born = (np.array([getattr(row, name) for row in rows], np.int64) for name in ("place", "born"))
        yield StoredCodes(places, born, [row.id for row in rows], packed)

    @contextmanager
    def listening(self) -> Iterator[Callable[[float], int | None]]:
        def wait(seconds: float) -> int | None:
            time.sleep(0.002)
            return int(json.loads(self.tables.head)[0])

        yield wait

    def receipt(self, key: str) -> tuple[str, bytes] | None:
        self._reading("receipt")
        return self.tables.receipts.get(key)

    def _reading(self, name: str) -> None:
        assert not self.is_closed
        self.before_read(name)

    def close(self) -> None:
        self.is_closed = True


class MemoryChange(Change):
    """What a change writes into the tables."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend, self._tables = backend, backend.tables
        self.head, self.is_put = backend.head(), False
        self.steps: list[Step] = []

    def _write(self, name: str, born: int | None = None) -> Tables:
        assert not self.is_put, f"{name} after the head was put"
        assert self._backend._writer == threading.get_ident()
        assert born is None or born > self.head.epoch, f"{name} in the past"
        self._backend.before_write(name)
        return self._tables

    def add_items(
        self, born: int, places: np.ndarray, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[str | None]
    ) -> None:
        tables = self._write("add_items", born)
        for place, id, vector, payload in zip(places.tolist(), ids, vectors, payloads, strict=True):
            assert isinstance(id, str)
            assert "\0" not in id
            tables.items.append(Row(place, id, born, FOREVER, payload, vector.tobytes()))

    def add_codes(self, born: int, places: np.ndarray, ids: Sequence[str], codes: np.ndarray) -> None:
        tables = self._write("add_codes", born)
        assert codes.dtype == np.uint8
        assert codes.shape == (len(ids), self._backend.layout.n_bytes)
        for place, id, code in zip(places.tolist(), ids, codes, strict=True):
            tables.codes.append(Row(place, id, born, FOREVER, code=code.tobytes()))
        self.steps.append(Added(born, places, ids, codes))

    def end_items(self, died: int, places: np.ndarray) -> None:
        tables, wanted = self._write("end_items", died), set(places.tolist())
        for i, row in enumerate(tables.items):
            if row.place in wanted and row.died == FOREVER:
                tables.items[i] = _ending(row, died)

    def end_codes(self, died: int, places: np.ndarray) -> None:
        tables, wanted = self._write("end_codes", died), set(places.tolist())
        kept = [row for row in tables.codes if row.place not in wanted or row.born < died]
        tables.codes = [_ending(row, min(row.died, died)) if row.place in wanted else row for row in kept]
        self.steps.append(Ended(died, places))

    def rewind(self, epoch: int) -> None:
        self._write("rewind")
        assert epoch == self.head.epoch
        self._rewind(epoch)

    def _rewind(self, epoch: int) -> None:
        for name in ("items", "codes"):
            rows = [row for row in getattr(self._tables, name) if row.born <= epoch]
            setattr(self._tables, name, [_ending(row, FOREVER) if row.died > epoch else row for row in rows])
        self.steps.append(Rewound(epoch))

    def purge(self, epoch: int) -> None:
        tables = self._write("purge")
        assert epoch <= self.head.state["horizon"], "readers were not told of this"
        for name in ("items", "codes"):
            setattr(tables, name, [row for row in getattr(tables, name) if row.died > epoch])

    def put_blob(self, name: str, value: bytes) -> None:
        self._write("put_blob").blobs[name] = value

    def drop_blobs(self, names: Sequence[str]) -> None:
        if names:
            blobs = self._write("drop_blobs").blobs
            for name in names:
                blobs.pop(name, None)

    def put_receipt(self, key: str, digest: str, value: bytes) -> bool:
        receipts = self._write("put_receipt").receipts
        return receipts.setdefault(key, (digest, value)) == (digest, value)

    def put_head(self, head: Head) -> None:
        assert head.epoch > self.head.epoch
        self._tables.deltas.append((self.head.epoch, head.epoch, deltas.to_bytes(self.steps)))
        self._write("put_head").head = json.dumps(head)
        self.is_put = True


def _carried(rows: list[Row]) -> Carried:
    return Carried(np.array([row.place for row in rows], np.int64), [row.payload for row in rows])


def _ending(row: Row, died: int) -> Row:
    return replace(row, died=died)
