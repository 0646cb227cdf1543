"""What the stores of all frameworks share: documents with string ids in any `VectorIndex`, put, found and marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, NotReady, UnknownId
from onlinehash.index.api import Payload, VectorIndex
from onlinehash.learners.update import Update
from onlinehash.live.index import LiveIndex

#: Payloads looked through at once.
BLOCK_ITEMS = 1024


class Found(NamedTuple):
    """A document that was found; distances order one answer, and mean nothing beyond it."""

    id: str
    payload: Payload
    distance: float


class Collection:
    """Documents in an index, by their ids; a `LiveIndex` in memory if none is given."""

    def __init__(self, index: VectorIndex | None = None) -> None:
        if index is not None and not isinstance(index, VectorIndex):
            raise InvalidInput(expected="an index, such as LiveIndex(path='documents')", got=checks.shown(index))
        self.index = LiveIndex() if index is None else index

    def put(self, ids: Sequence[str], vectors: Any, payloads: Sequence[Payload]) -> None:
        """Add documents, in place of those that have the same ids; of two with one id, the second counts."""
        rows = {id: row for row, id in enumerate(ids)}
        known = [id for id in rows if id in self.index]
        new = [id for id in rows if id not in self.index]
        for some, write in ((known, self.index.update), (new, self.index.add)):
            if some:
                chosen = [rows[id] for id in some]
                write(some, np.asarray(vectors)[chosen], [payloads[row] for row in chosen])

    def remove(self, ids: Iterable[str]) -> None:
        """Remove documents; those that are not there are no mistake."""
        known = [id for id in dict.fromkeys(ids) if id in self.index]
        if known:
            self.index.remove(known)

    def get(self, ids: Iterable[str]) -> Iterator[tuple[str, Payload]]:
        """The payloads of those documents that are there, in the order of the ids."""
        listed = list(ids)
        for id, payload in zip(listed, self.index.payloads_of(listed), strict=True):
            if payload is not None:
                yield id, payload

    def all(self) -> Iterator[tuple[str, Payload]]:
        """Every document, in the order of insertion."""
        ids = self.index.ids.tolist()
        for start in range(0, len(ids), BLOCK_ITEMS):
            yield from self.get(ids[start : start + BLOCK_ITEMS])

    def find(self, vector: Any, k: int, where: Mapping[str, Any] | None = None) -> list[Found]:
        """The nearest documents, in the order that marks have taught."""
        try:
            hits = self.index.find(vector, k, where, payloads=True)
        except NotReady:
            if len(self.index):
                raise
            return []
        found = zip(hits.ids.tolist(), hits.payloads or [], hits.distances.tolist(), strict=True)
        return [Found(id, payload, distance) for id, payload, distance in found if payload is not None]

    def mark(self, query: Any, id: str | None, similar: bool, weight: float) -> Update:
        """Teach the index that a document is an answer to a query, given as a vector, or that it is not."""
        if id is None:
            raise InvalidInput("the document has no id; mark documents that a search returned, or give an id.")
        try:
            (vector,) = self.index.vectors_of([id])
        except UnknownId:
            raise UnknownId(f"no document has id {id!r}; mark documents that a search returned.") from None
        return self.index.learn_pair(query, vector, similar, weight)
