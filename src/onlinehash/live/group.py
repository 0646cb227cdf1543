"""Group commit: changes that are checked and learned one after the other, and written in one transaction.

To sync the disk costs more than most changes, and costs the same for one change as for a hundred. What comes of a group
is what the changes would do one by one; only the policy is asked once, after all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.index.id_set import IdSet, PendingIds
from onlinehash.learners.base import Learner
from onlinehash.live.attachments import Attachment
from onlinehash.live.queries import VectorKind
from onlinehash.live.receipts import Once
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.sqlite.receipts import Stored
from onlinehash.live.storage import Storage
from onlinehash.live.table import ItemTable
from onlinehash.live.transaction import REFUSALS, Event, Texts, Transaction

#: Events that can be joined, and what of them is as long as there are rows.
_ROWS = {"points": ("X",), "pairs": ("A", "B", "similar", "weight")}


class Items(NamedTuple):
    """New items."""

    names: np.ndarray
    rows: np.ndarray
    texts: Texts


class Group(Transaction[None]):
    """Additions and lessons of one thread. The learner is taught at once, and everything is written by `commit`.

    A change that is refused is no part of the group. One that fails halfway may have taught the learner something, so
    the group can only be undone then, by whoever opened it.

    ids : IdSet
        The ids before the group.
    """

    def __init__(self, learner: Learner, pairs: Reservoir, ids: IdSet) -> None:
        super().__init__(learner, pairs, None)
        self._ids = PendingIds(ids)
        self._items: list[Items] = []
        self._events: list[Event] = []
        self._attached: list[Attachment] = []
        self._n_made, self._has_failed = 0, False

    @contextmanager
    def change(self, attachment: Attachment | None) -> Iterator[Self]:
        """One of the changes."""
        self.attachment = attachment
        try:
            yield self
        except REFUSALS:
            raise
        except BaseException:
            self._has_failed = True
            raise

    @property
    def is_begun(self) -> bool:
        """Whether there is anything to commit, or to undo."""
        return self._n_made > 0 or self._has_failed

    @property
    def n_added(self) -> int:
        """Items that are added."""
        return sum(len(items.names) for items in self._items)

    def receipt(self, key: str) -> Stored | None:
        """The receipt of a change of this group."""
        made = (one for one in self._attached if isinstance(one, Once) and one.key == key)
        return next((one.stored for one in made), None)

    def commit(self) -> None:
        """Write all changes; nothing is written before."""
        if self._has_failed:
            raise InvalidInput("a change of this group failed halfway, so that none of them can be committed.")
        if self._n_made:
            self._write(_joined_items(self._items), _joined_events(self._events), self._attached)

    @abstractmethod
    def _write(self, items: Items | None, events: Sequence[Event], attached: Sequence[Attachment]) -> None:
        """Write new items, what the learner was taught, and the attachments."""

    # ------------------------------------------------------------------------------------------------ the steps

    @property
    def vector_kind(self) -> VectorKind:
        return VectorKind.of(self.learner)

    @property
    def ids(self) -> IdSet:
        return self._ids

    def _encode(self, rows: np.ndarray) -> None:
        """Encodes nothing yet: until the end of the group no refresh can replace the encoder."""

    def _insert(self, names: np.ndarray, rows: np.ndarray, texts: Texts, encoded: None) -> None:
        if len(names):
            self._ids.extend(names)
            self._items.append(Items(names, rows, texts))
        self.write({"what": "points", "X": rows}, names)

    def write(self, event: Event | None, outcome: Any = None) -> None:
        if event is not None:
            self._events.append(event)
        if self.attachment is not None:
            self.attachment.prepare(outcome)
            self.attachment.settle(in_memory=False)  # it takes no second change
            self._attached.append(self.attachment)
        self._n_made += 1

    def _replace(self, *contents: Any) -> NoReturn:
        raise not_in_a_group("update")

    def _delete(self, *contents: Any) -> NoReturn:
        raise not_in_a_group("remove")

    def update(self, ids: Any, X: Any, payloads: Any) -> None:
        raise not_in_a_group("update")

    def remove(self, ids: Any) -> None:
        raise not_in_a_group("remove")


class LiveGroup(Group):
    """A group of changes of an index in a folder: first on the disk, then in memory.

    is_written : bool
        Whether it is on the disk.
    """

    def __init__(self, learner: Learner, pairs: Reservoir, table: ItemTable, storage: Storage) -> None:
        super().__init__(learner, pairs, table.view.items.ids)
        self._table, self._storage, self.is_written = table, storage, False

    def _write(self, items: Items | None, events: Sequence[Event], attached: Sequence[Attachment]) -> None:
        store, encoded = self._storage.store, None if items is None else self._table.encode(items.rows)
        with store.transaction():
            if items is not None and encoded is not None:
                store.add(items.names.tolist(), items.rows, items.texts)
                store.put_codes(np.arange(len(store) - len(items.rows), len(store)), encoded.codes.rows())
            self._storage.learned(self.learner, *events)
            for attachment in attached:
                attachment.write(store)
        self.is_written = True
        if items is not None and encoded is not None:
            self._table.add(*items, encoded)


def not_in_a_group(call: str) -> InvalidInput:
    """The error for what a group does not take."""
    return InvalidInput(f"{call} cannot be used inside group_commit, which takes additions and learning.")


def _joined_items(parts: Sequence[Items]) -> Items | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    names, rows = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
    return Items(names, rows, [text for part in parts for text in part.texts])


def _joined_events(events: Sequence[Event]) -> list[Event]:
    """The same lessons in fewer events: to learn a batch is to learn its rows one by one."""
    joined: list[Event] = []
    for what, run in groupby(events, key=lambda event: event["what"]):
        some = list(run)
        if what in _ROWS and len(some) > 1:
            some = [{"what": what} | {name: np.concatenate([one[name] for one in some]) for name in _ROWS[what]}]
        joined += some
    return joined
