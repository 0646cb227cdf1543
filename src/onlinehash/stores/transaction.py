"""A change of a backend: `Draft`, what it leaves behind, and `StoreTransaction`, its steps in the terms of an index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from onlinehash.codes import Codes
from onlinehash.learners.base import Learner
from onlinehash.live.attachments import Attachment
from onlinehash.live.group import Group, Written
from onlinehash.live.queries import VectorKind
from onlinehash.live.receipts import made_already
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.transaction import Event, Texts, Transaction, observed
from onlinehash.stores.backend import Backend, Change, Head
from onlinehash.stores.ids import StoredIds, texts_of
from onlinehash.stores.manifest import Moment, State
from onlinehash.stores.reader import Reader, matrix_of


class Draft:
    """The rows and the state that a change is about to write. Nothing of it is visible before `put`."""

    def __init__(self, backend: Backend, change: Change) -> None:
        self.change, self._backend = change, backend
        self.before = Moment(change.head.epoch, State.of(change.head, backend.address))
        self.state = self.before.state
        self.born = self.before.epoch + 1
        self._blobs: set[str] = set()
        self.is_taught = False
        self.is_put = False
        if change.rewound and self.state.pending is not None:
            self.state = replace(self.state, pending=self.state.pending.again())

    @property
    def ids(self) -> StoredIds:
        """The ids before this change."""
        return StoredIds(self._backend, self.before)

    def add(self, ids: np.ndarray, rows: np.ndarray, payloads: list[str | None], codes: Codes | None) -> None:
        """New items; without codes if there is no encoder yet."""
        state, texts = self.state, texts_of(ids)
        places = np.arange(state.next_place, state.next_place + len(ids))
        self.change.add_items(self.born, places, texts, rows, payloads)
        if codes is not None:
            self.change.add_codes(self.born, places, texts, codes.rows())
        kind, next_id = "strings", 0
        if ids.dtype != object:
            after = int(ids.max()) + 1
            next_id = after if state.ids is None else max(after, state.next_id)
            are_places = state.ids in (None, "range") and np.array_equal(ids, places)
            kind = "range" if are_places else "integers"
        self.state = replace(
            state,
            ids=kind,
            next_id=next_id,
            next_place=state.next_place + len(ids),
            n=state.n + len(ids),
            changed=state.changed + len(ids),
        )
        self._redo(places)  # in a part that was written when it had fewer places

    def update(
        self, places: np.ndarray, rows: np.ndarray | None, payloads: list[str | None] | None, codes: Codes | None
    ) -> None:
        """Other vectors or payloads, or both, of known items, which are at different places."""
        order = np.argsort(places)
        places = places[order]
        known = self._backend.rows(self.before.epoch, places, vectors=rows is None)
        vectors = matrix_of(known.vectors, self.state) if rows is None else rows[order]
        texts = known.payloads if payloads is None else [payloads[i] for i in order.tolist()]
        self.change.end_items(self.born, places)
        self.change.add_items(self.born, places, known.ids, vectors, texts)
        if rows is not None:
            self.change.end_codes(self.born, places)
            if codes is not None:
                self.change.add_codes(self.born, places, known.ids, codes.rows()[order])
            self._redo(places)
        self._count_dead(places)

    def remove(self, places: np.ndarray) -> None:
        """Remove known items."""
        self.change.end_items(self.born, places)
        self.change.end_codes(self.born, places)
        self.state = replace(self.state, n=self.state.n - len(places))
        self._count_dead(places)

    def _redo(self, places: np.ndarray) -> None:
        """Let a refresh in progress recode these again, if it has passed them."""
        pending = self.state.pending
        if pending is not None:
            passed = places[pending.has_passed(places)].tolist()
            redo = tuple(sorted({*pending.redo, *passed}))
            self.state = replace(self.state, pending=replace(pending, redo=redo))

    def _count_dead(self, places: np.ndarray) -> None:
        n = len(places)
        self.state = replace(self.state, changed=self.state.changed + n, dead=self.state.dead + 2 * n)

    def put_position(self, source: str, position: Any) -> None:
        """How far a source was read."""
        known = json.loads(self.state.positions)
        self.state = replace(self.state, positions=json.dumps(known | {source: position}))

    def put_receipt(self, key: str, digest: str, value: bytes) -> None:
        """What came of this change, under the key of who asked for it."""
        if not self.change.put_receipt(key, digest, value):
            raise made_already(key)

    def put_blob(self, name: str, value: bytes) -> None:
        """Keep bytes under a name."""
        self.change.put_blob(name, value)
        self._blobs.add(name)

    def put(self, epoch: int | None = None) -> None:
        """Commit, as of the next epoch if no other is given."""
        old = self.before.state.litter
        dropped = [name for name in old if name not in self._blobs]
        if dropped:
            self.change.drop_blobs(dropped)
        litter = tuple(name for name in self.state.litter if name not in {*old, *self._blobs})
        self.state = replace(self.state, litter=litter)
        self.after = Moment(self.born if epoch is None else epoch, self.state)
        self.change.put_head(Head(self.after.epoch, self.state.json()))
        self.is_put = True


class StoreTransaction(Transaction[Codes | None]):
    """A change of an index in a database; codes are None while there is no encoder.

    log : function of the draft and events
        Writes what the learner was taught.
    """

    def __init__(
        self,
        learner: Learner,
        pairs: Reservoir,
        attachment: Attachment | None,
        reader: Reader,
        draft: Draft,
        log: Callable[..., None],
    ) -> None:
        super().__init__(learner, pairs, attachment)
        self._reader, self._draft, self._log = reader, draft, log

    @property
    def vector_kind(self) -> VectorKind:
        return self._draft.before.state.vector_kind

    @property
    def ids(self) -> StoredIds:
        return self._draft.ids

    def _encode(self, rows: np.ndarray) -> Codes | None:
        encoder = self._reader.encoder_at(self._draft.before)
        return None if encoder is None else encoder.codes_of(rows)

    def _insert(self, names: np.ndarray, rows: np.ndarray, texts: Texts, encoded: Codes | None) -> None:
        with self._written(observed(rows), names) as draft:
            draft.add(names, rows, texts, encoded)

    def _replace(
        self, names: Any, positions: np.ndarray, rows: np.ndarray | None, texts: Texts | None, encoded: Codes | None
    ) -> None:
        with self._written(None if rows is None else observed(rows)) as draft:
            draft.update(positions, rows, texts, encoded)

    def _delete(self, names: Any, positions: np.ndarray) -> None:
        with self._written(None) as draft:
            draft.remove(positions)

    def write(self, event: Event | None, outcome: Any = None) -> None:
        with self._written(event, outcome):
            pass

    @contextmanager
    def _written(self, event: Event | None, outcome: Any = None) -> Iterator[Draft]:
        """What is drafted inside, what the learner was taught, and the attachment, put together."""
        draft = self._draft
        draft.is_taught = event is not None
        yield draft
        if event is not None:
            self._log(draft, event)
        if self.attachment is not None:
            self.attachment.record(outcome, draft)
        draft.put()


class StoreGroup(Group):
    """A group of changes of an index in a database; `log` writes what the learner was taught."""

    def __init__(
        self, learner: Learner, pairs: Reservoir, reader: Reader, draft: Draft, log: Callable[..., None]
    ) -> None:
        super().__init__(learner, pairs, draft.ids)
        self._reader, self._draft, self._log = reader, draft, log

    def _write(self, items: Written, events: Sequence[Event], attached: Sequence[Attachment]) -> None:
        draft, encoder = self._draft, self._reader.encoder_at(self._draft.before)

        def codes_of(rows: np.ndarray | None) -> Codes | None:
            return None if encoder is None or rows is None else encoder.codes_of(rows)

        if items.added is not None:
            draft.add(*items.added, codes_of(items.added.rows))
        for some in items.replaced:
            draft.update(*some, codes_of(some.rows))
        if len(items.removed):
            draft.remove(items.removed)
        if events:
            self._log(draft, *events)
        for attachment in attached:
            attachment.write(draft)
        draft.put()
