"""`MilvusBackend`: what an index asks of a database, in three collections of Milvus."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.stores.backend import Backend, Change, Found, Head, Layout, Rows
from onlinehash.stores.milvus.change import MilvusChange
from onlinehash.stores.milvus.engine import PAGE, Engine
from onlinehash.stores.milvus.records import Records, Standing, another_writer
from onlinehash.stores.milvus.search import Searching
from onlinehash.stores.milvus.tables import (
    NOTHING,
    Tables,
    alive,
    bytes_of,
    code_fields,
    hash_of,
    listed,
    payload_of,
)
from onlinehash.stores.milvus.versioned_rows import VersionedRows, rows_of


class MilvusBackend(Backend):
    """The collections of one index. Many may read; one process at a time may change it."""

    def __init__(self, engine: Engine, name: str) -> None:
        """An index that is there; whoever made the engine closes it if this fails."""
        tables = Tables(name)
        self._engine, self._tables = engine, tables
        self.address = f"{engine.address} ({name})"
        records = Records(engine, tables.records)
        standing = records.standing() if engine.has(tables.records) else None
        if standing is None:
            raise InvalidInput(f"there is no index named {name!r} in {engine.address}; create it first.")
        self.layout = standing.layout
        for collection in tables.fields(self.layout):
            engine.load(collection)
        self._records = records
        self._items = VersionedRows(engine, tables.items, ["id", "hash", "payload", "vector"], NOTHING)
        self._codes = VersionedRows(engine, tables.codes, ["id", *code_fields(self.layout)], {})
        self._searching = Searching(engine, tables.codes, self.layout)
        self._one_change = threading.Lock()
        self._put: Standing | None = None  # the head that this one put last, if it changed anything
        self._tidied = -1  # the number of the head after which nothing is left to remove

    @staticmethod
    def create(engine: Engine, name: str, layout: Layout, head: Head, blobs: dict[str, bytes]) -> None:
        """The collections of a new index; what is left of one whose creation was cut off goes."""
        tables = Tables(name)
        records = Records(engine, tables.records)
        if engine.has(tables.records) and records.standing() is not None:
            raise InvalidInput(
                f"{engine.address} already has an index named {name!r}; open it, or choose another name."
            )
        for collection, fields in tables.fields(layout).items():
            engine.drop(collection)
            engine.create(collection, fields)
        for blob, value in blobs.items():
            records.put_blob(blob, value)
        records.put(Standing(0, records.writer, head, layout, False, []))

    # ------------------------------------------------------------------------------------------------ changing

    @contextmanager
    def changing(self) -> Iterator[Change]:
        with self._one_change:
            standing = self._standing()
            if self._put is not None and standing.writer != self._records.writer:
                raise another_writer(self.address)
            if standing.number != self._tidied:
                self._records.tidy(standing)
                self._tidied = standing.number
            if standing.writing:
                standing = self._records.mark(standing)  # first: who wrote it may still be there, and has to notice
                self._have_put(standing)
                for rows in (self._items, self._codes):
                    rows.rewind(standing.head.epoch)
            yield MilvusChange(self._records, self._items, self._codes, standing, self._have_put)
            self._tidy()

    def _have_put(self, standing: Standing) -> None:
        self._put = standing

    def _tidy(self) -> None:
        """Clean up after a change. It is committed already, so errors here are left to the next one."""
        if self._put is not None and not self._put.writing and self._put.number != self._tidied:
            try:
                self._records.tidy(self._put)
                self._tidied = self._put.number
            except OnlineHashError:
                self._tidied = -1

    def _standing(self) -> Standing:
        standing = self._records.standing()
        if standing is None:
            raise InvalidInput(f"the index in {self.address} was removed.")
        return standing

    # ------------------------------------------------------------------------------------------------ reading

    def head(self) -> Head:
        return self._standing().head

    def blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        return self._records.blobs(names)

    def places(self, ids: Sequence[str], epoch: int) -> np.ndarray:
        known: dict[str, int] = {}
        hashes = np.unique(np.array([hash_of(id) for id in ids], np.int64))
        for begin in range(0, len(hashes), PAGE):
            which = f"hash in {listed(hashes[begin : begin + PAGE])} and {alive(epoch)}"
            found = self._engine.query(self._tables.items, which, ["id", "place"])
            known.update((row["id"], row["place"]) for row in found)
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
        fields = ["id", "payload", *(["vector"] if vectors else [])]
        if places is None:
            items = self._items.after(after, epoch, fields, limit)
        else:
            items = self._items.at_places(places, epoch, fields)
        found, rows = np.array(list(items), np.int64), items.values()
        return Rows(
            found,
            [row["id"] for row in rows],
            [payload_of(row["payload"]) for row in rows],
            [bytes_of(row["vector"]) for row in rows] if vectors else [],
            self._codes_at(found, epoch) if codes else np.empty((0, self.layout.n_bytes), np.uint8),
        )

    def vectors(self, epoch: int, places: np.ndarray, size: int) -> dict[int, bytes]:
        found = self._items.at_places(places, epoch, ["vector"], rows_of(size))
        return {place: bytes_of(row["vector"]) for place, row in found.items()}

    def _codes_at(self, places: np.ndarray, epoch: int) -> np.ndarray:
        fields = code_fields(self.layout)
        codes = np.zeros((len(places), self.layout.n_bytes), np.uint8)
        found = self._codes.at_places(places, epoch, fields)
        for position, row in zip(np.searchsorted(places, list(found)), found.values(), strict=True):
            codes[position] = np.frombuffer(b"".join(row[field][0] for field in fields), np.uint8)
        return codes

    # ------------------------------------------------------------------------------------------------ searching

    def nearest(self, code: np.ndarray, k: int, epoch: int) -> list[Found]:
        return self._searching.nearest(code, k, epoch)

    def within(self, code: np.ndarray, radius: int, epoch: int) -> list[Found]:
        return self._searching.within(code, radius, epoch)

    def ranked(self, code: np.ndarray, epoch: int, tests: dict[str, Any]) -> Iterator[Found]:
        ordered = self._searching.ordered(code, epoch)
        while some := list(islice(ordered, PAGE)):
            payloads = self._items.at_places(np.array([found.place for found in some]), epoch, ["payload"])
            for found in some:
                item = payloads.get(found.place)  # none if it was purged just now; then who reads begins again
                yield found._replace(payload=payload_of(item["payload"]) if item else None)

    def close(self) -> None:
        self._engine.close()
