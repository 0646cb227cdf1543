"""`Transaction`: one change of an index, as an object: what is checked, learned, written and published, in that order.

`Transaction` has the order of the steps, which is the same wherever the items are. `LiveTransaction` has the steps of
an index in memory or in a folder; those of an index in a database are in `stores`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.arraylike import VectorLike
from onlinehash.errors import InvalidInput, NotReady, UnknownId
from onlinehash.index.id_set import IdSet
from onlinehash.learners.base import Learner
from onlinehash.learners.update import Updates
from onlinehash.live.attachments import Attachment
from onlinehash.live.payloads import Payloads
from onlinehash.live.queries import VectorKind, listed, rows_of
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.sqlite import Store
from onlinehash.live.storage import Storage
from onlinehash.live.table import Added, Changed, Encoded, ItemTable
from onlinehash.streams.from_labels import key_of

#: Errors of refused calls, raised before anything changes.
REFUSALS = (InvalidInput, UnknownId, NotReady)

Event = dict[str, Any]
Texts = list[str | None]
E = TypeVar("E")


class Transaction(ABC, Generic[E]):
    """One change: items that come, change or go, or something that the learner is taught.

    New vectors are encoded with the present encoder before the learner observes them. Then everything is written, in
    one transaction: items, codes, what the learner was taught, and the attachment. `E` is what an encoding consists of.

    pairs : Reservoir
        The sample of pairs for policies.
    attachment : Attachment or None
        What is stored together with this change.
    """

    def __init__(self, learner: Learner, pairs: Reservoir, attachment: Attachment | None) -> None:
        self.learner, self.attachment = learner, attachment
        self._pairs = pairs

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: Any, X: Any, payloads: Any) -> np.ndarray:
        """Add new items; returns their ids."""
        rows = rows_of(X, self.vector_kind)
        names = self.ids.new(listed(ids), len(rows))
        texts = Payloads.checked(payloads, len(rows))
        encoded = self._encode(rows)
        self._observe(rows)
        self._insert(names, rows, texts, encoded)
        return names

    def update(self, ids: Any, X: Any, payloads: Any) -> None:
        """Replace vectors or payloads, or both, of known items."""
        if X is None and payloads is None:
            raise InvalidInput(expected="vectors or payloads to update", got="neither")
        rows = None if X is None else rows_of(X, self.vector_kind)
        positions = self.ids.find(listed(ids))
        texts = None if payloads is None else Payloads.checked(payloads, len(positions))
        encoded = None
        if rows is not None:
            checks.same_length("ids", len(positions), len(rows), "X")
            encoded = self._encode(rows)
            self._observe(rows)
        self._replace(ids, positions, rows, texts, encoded)

    def remove(self, ids: Any) -> None:
        """Remove known items."""
        names = listed(ids)
        self._delete(names, self.ids.find(names))

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pairs(self, A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None) -> Updates:
        """Teach pairs of vectors."""
        updates = self.learner.learn_pairs(A, B, similar, sample_weight)
        rows = [checks.matrix(X, dtype=self.learner.dtype_) for X in (A, B)]
        s, w = checks.similarities(similar, len(rows[0])), checks.weights(sample_weight, len(rows[0]))
        self.write({"what": "pairs", "A": rows[0], "B": rows[1], "similar": s, "weight": w}, updates)
        self._pairs.append(*rows, s)
        return updates

    def learn_labelled(self, X: VectorLike, y: ArrayLike | None) -> None:
        """Teach points with labels."""
        self.learner.partial_fit(X, y)
        rows = checks.matrix(X, dtype=self.learner.dtype_)
        labels = checks.labels(y, len(rows), self.learner.traits.several_labels)
        kept = labels if labels.ndim == 2 else [key_of(label) for label in labels]
        self.write({"what": "labelled", "X": rows, "y": kept})

    def flush(self) -> None:
        """Teach what the learner keeps back."""
        self.learner.flush()
        self.write({"what": "flush"})

    # ------------------------------------------------------------------------------------------------ the steps

    @property
    @abstractmethod
    def vector_kind(self) -> VectorKind:
        """Width and type of the vectors before this change."""

    @property
    @abstractmethod
    def ids(self) -> IdSet:
        """The ids before this change."""

    @abstractmethod
    def _encode(self, rows: np.ndarray) -> E:
        """New vectors, encoded with the present encoder."""

    def _observe(self, rows: np.ndarray) -> None:
        """Let the learner see new vectors."""
        self.learner.observe(rows)

    @abstractmethod
    def _insert(self, names: np.ndarray, rows: np.ndarray, texts: Texts, encoded: E) -> None:
        """Write new items, which the learner has observed."""

    @abstractmethod
    def _replace(
        self, names: Any, positions: np.ndarray, rows: np.ndarray | None, texts: Texts | None, encoded: E | None
    ) -> None:
        """Write other contents of items; the learner has observed the rows, if there are any."""

    @abstractmethod
    def _delete(self, names: Any, positions: np.ndarray) -> None:
        """Write that items were removed."""

    @abstractmethod
    def write(self, event: Event | None, outcome: Any = None) -> None:
        """Write what the learner was taught, and the attachment."""


class LiveTransaction(Transaction[Encoded]):
    """A change of an index in memory or in a folder: first on the disk, then in memory.

    n_changed : int
        Items that were added, changed or removed.
    is_written : bool
        Whether the change is on the disk or, in memory, under way; from then on a refusal leaves it halfway.
    """

    def __init__(
        self,
        learner: Learner,
        pairs: Reservoir,
        attachment: Attachment | None,
        table: ItemTable,
        storage: Storage | None,
    ) -> None:
        super().__init__(learner, pairs, attachment)
        self.n_changed, self.is_written = 0, False
        self._table, self._storage = table, storage

    @property
    def vector_kind(self) -> VectorKind:
        return VectorKind.of(self.learner)

    @property
    def ids(self) -> IdSet:
        return self._table.view.items.ids

    def update(self, ids: Any, X: Any, payloads: Any) -> None:
        if X is not None:
            self._table.check_change()
        super().update(ids, X, payloads)

    def _encode(self, rows: np.ndarray) -> Encoded:
        return self._table.encode(rows)

    def _insert(self, names: np.ndarray, rows: np.ndarray, texts: Texts, encoded: Encoded) -> None:
        with self._written(observed(rows), names) as store:
            if store is not None:
                store.add(names.tolist(), rows, texts)
                store.put_codes(np.arange(len(store) - len(rows), len(store)), encoded.codes.rows())
        self._table.change(Added(names, rows, texts, encoded))
        self.n_changed = len(rows)

    def _replace(
        self,
        names: Any,
        positions: np.ndarray,
        rows: np.ndarray | None,
        texts: Texts | None,
        encoded: Encoded | None,
    ) -> None:
        with ExitStack() as held:
            with self._written(None if rows is None else observed(rows)) as store:
                if store is not None:
                    store.update(positions, *self._table.contents(positions, rows, texts))
                    if encoded is not None:
                        store.put_codes(positions, encoded.codes.rows())
                held.enter_context(self._table.gate)  # nobody may see what is on the disk before the rest has changed
            self._table.change(changed=[Changed(positions, rows, texts, encoded)])
        self.n_changed = len(positions)

    def _delete(self, names: Any, positions: np.ndarray) -> None:
        self._table.check_removal()
        with ExitStack() as held:
            with self._written(None) as store:
                if store is not None:
                    store.remove(positions)
                held.enter_context(self._table.gate)  # as above
            self._table.change(removed=positions)
        self.n_changed = len(positions)

    def write(self, event: Event | None, outcome: Any = None) -> None:
        with self._written(event, outcome):
            pass

    @contextmanager
    def _written(self, event: Event | None, outcome: Any = None) -> Iterator[Store | None]:
        """One transaction of the store, if there is one: what is written inside, the event and the attachment."""
        attachment, storage = self.attachment, self._storage
        if storage is None:
            yield None
            if attachment is not None:
                attachment.record(outcome, None)
            self.is_written = True
            return
        with storage.store.transaction():
            yield storage.store
            if event is not None:
                storage.learned(self.learner, event)
            if attachment is not None:
                attachment.record(outcome, storage.store)
        self.is_written = True
        if attachment is not None:
            attachment.settle(in_memory=False)

    def finish(self) -> None:
        """The change is made; in memory, this is when its attachment counts."""
        if self.attachment is not None:
            self.attachment.settle(in_memory=self._storage is None)


def observed(rows: np.ndarray) -> Event:
    """What the log has about new vectors."""
    return {"what": "points", "X": rows}
