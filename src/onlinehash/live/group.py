"""Group commit: changes that are checked one after the other, learned as a batch, and written in one transaction.

To sync the disk costs more than most changes, and costs the same for one change as for a hundred; so does a call of the
learner. What comes of a group is what the changes would do one by one; only the policy is asked once, after all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.arraylike import VectorLike
from onlinehash.errors import InvalidInput
from onlinehash.index.id_set import IdSet, PendingIds
from onlinehash.learners.base import Learner
from onlinehash.learners.update import Updates
from onlinehash.live.attachments import Attachment
from onlinehash.live.queries import VectorKind
from onlinehash.live.receipts import Once
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.sqlite.receipts import Stored
from onlinehash.live.storage import Storage
from onlinehash.live.table import Added, Changed, ItemTable
from onlinehash.live.transaction import REFUSALS, Event, Texts, Transaction, observed

#: Events that can be joined, and what of them is as long as there are rows.
_ROWS = {"points": ("X",), "pairs": ("A", "B", "similar", "weight")}


class Items(NamedTuple):
    """New items."""

    names: np.ndarray
    rows: np.ndarray
    texts: Texts


class Replaced(NamedTuple):
    """Other contents of known items; what is None stays as it is."""

    positions: np.ndarray
    rows: np.ndarray | None
    texts: Texts | None


class Written(NamedTuple):
    """What a group does to items, none of which it changes twice."""

    added: Items | None
    replaced: list[Replaced]  #: One for vectors, one for payloads, one for both.
    removed: np.ndarray  #: Positions.


class LaterUpdates(Updates):
    """Those of a lesson that is learned together with others; whoever looks at them lets it be learned now."""

    def __init__(self, learn: Callable[[], None]) -> None:
        self._learn = learn

    def become(self, updates: Updates) -> None:
        """The lesson was learned: from now on this is nothing but its updates."""
        vars(self).clear()
        vars(self).update(vars(updates))
        self.__class__ = Updates  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # the fields are public, and are there once the lesson was learned
            raise AttributeError(name)
        self._learn()
        return getattr(self, name)


class Lesson(NamedTuple):
    """What the learner is to be taught: vectors, or pairs, with what will tell what came of them."""

    event: Event
    updates: LaterUpdates | None = None


class Group(Transaction[None]):
    """Changes of one thread. They are checked at once, taught to the learner together, and written by `commit`.

    A change that is refused is no part of the group. One that fails halfway may have taught the learner something, so
    the group can only be undone then, by whoever opened it. No item can be changed twice: what it will be like is known
    only when the group is written.

    ids : IdSet
        The ids before the group.
    """

    def __init__(self, learner: Learner, pairs: Reservoir, ids: IdSet) -> None:
        super().__init__(learner, pairs, None)
        self._ids = PendingIds(ids)
        self._added: list[Items] = []
        self._n_added = 0
        self._replaced: list[Replaced] = []
        self._removed: list[np.ndarray] = []
        self._untaught: list[Lesson] = []
        self._events: list[Event] = []
        self._attached: list[tuple[Attachment, Any]] = []  # with the outcome
        self._n_made, self._has_failed, self._is_undone = 0, False, False

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
    def n_changed(self) -> int:
        """Items that are added, changed or removed."""
        parts = (*(items.names for items in self._added), *(some.positions for some in self._replaced), *self._removed)
        return sum(map(len, parts))

    def receipt(self, key: str) -> Stored | None:
        """The receipt of a change of this group."""
        for attachment, outcome in self._attached:
            if isinstance(attachment, Once) and attachment.key == key:
                self.settle()
                attachment.prepare(outcome)
                return attachment.stored
        return None

    def commit(self) -> None:
        """Teach the learner, and write all changes; nothing is written before."""
        self.settle()
        if self._n_made:
            for attachment, outcome in self._attached:
                attachment.prepare(outcome)
            added, replaced = _joined_items(self._added), _joined_contents(self._replaced)
            removed = np.concatenate([np.empty(0, np.int64), *self._removed])
            items = Written(added, replaced, removed)
            self._write(items, _joined_events(self._events), [attachment for attachment, _ in self._attached])

    def undo(self) -> None:
        """The group will not be committed."""
        self._is_undone = True

    @abstractmethod
    def _write(self, items: Written, events: Sequence[Event], attached: Sequence[Attachment]) -> None:
        """Write what happened to items, what the learner was taught, and the attachments."""

    # ------------------------------------------------------------------------------------------------ learning

    def settle(self) -> None:
        """Teach the learner all that it was not taught yet; what is alike and side by side, as one batch."""
        if self._has_failed or self._is_undone:
            raise InvalidInput("a change of this group failed halfway, so that none of them can be committed.")
        untaught, self._untaught = self._untaught, []
        try:
            for _, run in groupby(untaught, key=lambda lesson: lesson.event["what"]):
                self._learn(list(run))
        except BaseException:
            self._has_failed = True
            raise

    def _teach(self, lesson: Lesson) -> None:
        """Teach the learner later, unless it might refuse the lesson only then."""
        if not self.learner.may_refuse:
            self._untaught.append(lesson)
            return
        self.settle()
        self._learn([lesson])

    def _learn(self, lessons: Sequence[Lesson]) -> None:
        (event,) = _joined_events([lesson.event for lesson in lessons])
        if event["what"] == "points":
            self.learner.observe(event["X"])
            return
        updates = self.learner.learn_pairs(event["A"], event["B"], event["similar"], event["weight"])
        self._pairs.append(event["A"], event["B"], event["similar"])
        start = 0
        for lesson in lessons:
            stop = start + len(lesson.event["A"])
            if lesson.updates is not None:
                lesson.updates.become(updates.part(start, stop))
            start = stop

    def learn_pairs(self, A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None) -> Updates:
        if self.learner.may_refuse or hasattr(A, "columns") or hasattr(B, "columns"):  # whose names are checked too
            self.settle()
            return super().learn_pairs(A, B, similar, sample_weight)
        checked = self.learner.check_pairs(A, B, similar, sample_weight)
        event = {"what": "pairs"} | dict(zip(_ROWS["pairs"], checked, strict=True))
        updates = LaterUpdates(self.settle)
        self._teach(Lesson(event, updates))
        self.write(event, updates)
        return updates

    def learn_labelled(self, X: VectorLike, y: ArrayLike | None) -> None:
        self.settle()
        super().learn_labelled(X, y)

    def flush(self) -> None:
        self.settle()
        super().flush()

    # ------------------------------------------------------------------------------------------------ the steps

    @property
    def vector_kind(self) -> VectorKind:
        return VectorKind.of(self.learner)

    @property
    def ids(self) -> PendingIds:
        return self._ids

    def _encode(self, rows: np.ndarray) -> None:
        """Encodes nothing yet: until the end of the group no refresh can replace the encoder."""

    def _observe(self, rows: np.ndarray) -> None:
        self._teach(Lesson(observed(rows)))

    def _insert(self, names: np.ndarray, rows: np.ndarray, texts: Texts, encoded: None) -> None:
        if len(names):
            self._ids.extend(names)
            self._added.append(Items(names, rows, texts))
            self._n_added += len(names)
        self.write(observed(rows), names)

    def _replace(
        self, names: Any, positions: np.ndarray, rows: np.ndarray | None, texts: Texts | None, encoded: None
    ) -> None:
        self._ids.change(names)
        self._replaced.append(Replaced(positions, rows, texts))
        self.write(None if rows is None else observed(rows))

    def _delete(self, names: Any, positions: np.ndarray) -> None:
        self._ids.leave(names)
        self._removed.append(positions)
        self.write(None)

    def write(self, event: Event | None, outcome: Any = None) -> None:
        if event is not None:
            self._events.append(event)
        if self.attachment is not None:
            self.attachment.settle(in_memory=False)  # it takes no second change
            self._attached.append((self.attachment, outcome))
        self._n_made += 1


class LiveGroup(Group):
    """A group of changes of an index in a folder: first on the disk, then in memory.

    is_written : bool
        Whether it is on the disk.
    """

    def __init__(self, learner: Learner, pairs: Reservoir, table: ItemTable, storage: Storage) -> None:
        super().__init__(learner, pairs, table.view.items.ids)
        self._table, self._storage, self.is_written = table, storage, False

    def update(self, ids: Any, X: Any, payloads: Any) -> None:
        if X is not None:
            self._table.check_change(self._n_added)
        super().update(ids, X, payloads)

    def _encode(self, rows: np.ndarray) -> None:
        self._table.check_addition(self._n_added + len(rows))

    def _delete(self, names: Any, positions: np.ndarray) -> None:
        self._table.check_removal()
        super()._delete(names, positions)

    def _write(self, items: Written, events: Sequence[Event], attached: Sequence[Attachment]) -> None:
        store, table = self._storage.store, self._table
        added = None if items.added is None else Added(*items.added, table.encode(items.added.rows))
        replaced = [Changed(*some, None if some.rows is None else table.encode(some.rows)) for some in items.replaced]
        with ExitStack() as held:
            with store.transaction():
                if added is not None:
                    store.add(added.ids.tolist(), added.rows, added.texts)
                    store.put_codes(np.arange(len(store) - len(added.ids), len(store)), added.encoded.codes.rows())
                for some in replaced:
                    store.update(some.positions, *table.contents(some.positions, some.rows, some.texts))
                    if some.encoded is not None:
                        store.put_codes(some.positions, some.encoded.codes.rows())
                if len(items.removed):
                    store.remove(items.removed)
                self._storage.learned(self.learner, *events)
                for attachment in attached:
                    attachment.write(store)
                held.enter_context(table.gate)  # nobody may see what is on the disk before the rest has changed
            self.is_written = True
            table.change(added, replaced, items.removed if len(items.removed) else None)


def not_in_a_group(call: str) -> InvalidInput:
    """The error for what a group does not take."""
    return InvalidInput(f"{call} cannot be used inside group_commit, which takes changes of items and learning.")


def _joined_items(parts: Sequence[Items]) -> Items | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    names, rows = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
    return Items(names, rows, [text for part in parts for text in part.texts])


def _joined_contents(parts: Iterable[Replaced]) -> list[Replaced]:
    """The same in as few parts as there are kinds: some replace vectors, some payloads, some both."""
    kinds: dict[tuple[bool, bool], list[Replaced]] = {}
    for part in parts:
        kinds.setdefault((part.rows is None, part.texts is None), []).append(part)
    return [
        Replaced(
            np.concatenate([part.positions for part in some]),
            None if no_rows else np.concatenate([part.rows for part in some if part.rows is not None]),
            None if no_texts else [text for part in some for text in part.texts or ()],
        )
        for (no_rows, no_texts), some in kinds.items()
    ]


def _joined_events(events: Sequence[Event]) -> list[Event]:
    """The same lessons in fewer events: to learn a batch is to learn its rows one by one."""
    joined: list[Event] = []
    for what, run in groupby(events, key=lambda event: event["what"]):
        some = list(run)
        if what in _ROWS and len(some) > 1:
            some = [{"what": what} | {name: np.concatenate([one[name] for one in some]) for name in _ROWS[what]}]
        joined += some
    return joined
