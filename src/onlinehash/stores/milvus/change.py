"""One change of an index in Milvus: a mark, rows, and the head that makes them count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from onlinehash.stores.backend import FOREVER, Change, Head
from onlinehash.stores.milvus.records import Records, Standing, another_writer
from onlinehash.stores.milvus.tables import (
    check_fits,
    code_fields,
    hash_of,
    text_of_bytes,
    text_of_payload,
)
from onlinehash.stores.milvus.versioned_rows import VersionedRows


class MilvusChange(Change):
    """Nothing is written before the mark is; `put` is told what stands after each step that changes it."""

    def __init__(
        self,
        records: Records,
        items: VersionedRows,
        codes: VersionedRows,
        standing: Standing,
        put: Callable[[Standing], None],
    ) -> None:
        self.head, self.rewound = standing.head, standing.writing
        self._records, self._items, self._codes = records, items, codes
        self._standing, self._put = standing, put
        self._is_marked = standing.writing
        self._dropped: list[str] = []

    def _mark(self) -> None:
        if not self._is_marked:
            self._standing = self._records.mark(self._standing)
            self._is_marked = True
            self._put(self._standing)

    def add_items(
        self, born: int, places: np.ndarray, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[str | None]
    ) -> None:
        check_fits(ids, vectors)
        self._mark()
        rows = [
            {"place": place, "born": born, "died": FOREVER, "id": id, "hash": hash_of(id)}
            | {"payload": text_of_payload(payload), "vector": text_of_bytes(vector.tobytes())}
            for place, id, vector, payload in zip(places.tolist(), ids, vectors, payloads, strict=True)
        ]
        texts = sum(map(len, ids)) + sum(len(payload) for payload in payloads if payload is not None)
        self._items.add(rows, 100 + (vectors.nbytes * 4 // 3 + texts) // max(1, len(rows)))

    def add_codes(self, born: int, places: np.ndarray, ids: Sequence[str], codes: np.ndarray) -> None:
        self._mark()
        ends = np.cumsum([0, *self._standing.layout.groups]) // 8
        parts = [codes[:, begin:end] for begin, end in pairwise(ends.tolist())]
        names = code_fields(self._standing.layout)
        rows = [
            {"place": place, "born": born, "died": FOREVER, "id": id}
            | {name: part[i].tobytes() for name, part in zip(names, parts, strict=True)}
            for i, (place, id) in enumerate(zip(places.tolist(), ids, strict=True))
        ]
        self._codes.add(rows, 100 + codes.shape[1] + sum(map(len, ids)) // max(1, len(rows)))

    def end_items(self, died: int, places: np.ndarray) -> None:
        self._mark()
        self._items.end(died, places)

    def end_codes(self, died: int, places: np.ndarray) -> None:
        self._mark()
        self._codes.end(died, places)

    def rewind(self, epoch: int) -> None:
        self._mark()
        for rows in (self._items, self._codes):
            rows.rewind(epoch)

    def purge(self, epoch: int) -> None:
        self._mark()
        for rows in (self._items, self._codes):
            rows.remove(f"died <= {epoch}")

    def put_blob(self, name: str, value: bytes) -> None:
        self._mark()
        self._records.put_blob(name, value)

    def drop_blobs(self, names: Sequence[str]) -> None:
        self._dropped += names  # until the head is put, the one that stands may need them

    def put_head(self, head: Head) -> None:
        self._mark()
        if not self._records.is_last(self._standing):
            raise another_writer(self._records.address)
        number = self._standing.number + 1
        put = self._standing._replace(number=number, head=head, writing=False, dropped=self._dropped)
        self._records.put(put)
        self._put(put)
