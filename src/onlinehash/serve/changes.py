"""Changes to a served index: made in order by one writer, once per idempotency key, and reported to observers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash.errors import InvalidInput, ServiceUnavailable, StorageError, UnknownId
from onlinehash.index.api import Capability, Id, Payloads, Receipt, VectorIndex
from onlinehash.learners.update import Updates
from onlinehash.live.receipts import MadeAlready, MemoryReceipts, bytes_of, outcome_of
from onlinehash.live.texts import with_changed_texts
from onlinehash.serve import logs
from onlinehash.serve.errors import KeyReused
from onlinehash.serve.events import Activity
from onlinehash.serve.observers import Observer
from onlinehash.serve.writer import Writer

#: Seconds for which a failure of the disk is remembered. A service that is not ready gets no changes, so no later
#: change would show that the disk works again.
FAILURE_REMEMBERED = 30.0

T = TypeVar("T")


class Retry(NamedTuple):
    """Identifies a retry of a change: the client's key and a digest of the request."""

    key: str
    digest: str


class Done(NamedTuple, Generic[T]):
    """The outcome of a change.

    `replayed` says whether it is that of an earlier request with the same key. `n_waiting` and `n_ranking` are, right
    after the change and those that were committed with it, the pairs that wait for their chunk to fill and those that
    `find` has learned from.
    """

    outcome: T
    replayed: bool
    n_waiting: int
    n_ranking: int


class Attempt(NamedTuple, Generic[T]):
    """A change that was made, or was found to be made already."""

    outcome: T
    replayed: bool = False


class Receipts:
    """Outcomes of changes with a key: stored by the index, in the transaction of the change, or else here.

    For an index without receipts they are in the memory of the service: a retry after a restart is not recognised.
    """

    def __init__(self, index: VectorIndex) -> None:
        self._index, self._here = index, MemoryReceipts()
        self._are_kept = index.supports(Capability.RECEIPTS)

    def receipt(self, key: str) -> Receipt | None:
        """The outcome of the change with this key; None if there was none."""
        if self._are_kept:
            return self._index.receipt(key)
        stored = self._here.get(key)
        return None if stored is None else Receipt(stored[0], outcome_of(stored[1], f"receipt {key!r}"))

    def once(self, request: Retry) -> AbstractContextManager[None]:
        """Around a change whose key has no receipt yet."""
        return self._index.once(request.key, request.digest) if self._are_kept else nullcontext()

    def committed(self, request: Retry | None, outcome: Any) -> None:
        """A change has been made for good."""
        if request is not None and not self._are_kept:
            self._here.put(request.key, request.digest, bytes_of(outcome))


class DiskHealth:
    """Whether the last changes could be stored."""

    def __init__(self) -> None:
        self._failed_at: float | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Make a change, and note whether it could be stored."""
        try:
            yield
        except StorageError as error:
            self.has_failed(error)
            raise
        self.has_worked()

    def has_failed(self, error: StorageError) -> None:
        """Changes could not be stored."""
        self._failed_at = time.monotonic()
        logs.service.error("a change could not be stored", extra={"fields": {"reason": str(error)}})

    def has_worked(self) -> None:
        """Changes were stored."""
        self._failed_at = None

    @property
    def is_failing(self) -> bool:
        """Whether the last change could not be stored, a moment ago."""
        return self._failed_at is not None and time.monotonic() - self._failed_at < FAILURE_REMEMBERED


class Change(NamedTuple, Generic[T]):
    """A change that a client asked for.

    work : function of the index
        Makes it.
    tell : function of the outcome
        Tells others of it, once it is committed.
    reads : bool
        Whether it reads items before it writes.
    """

    work: Callable[[VectorIndex], T]
    tell: Callable[[T], None]
    request: Retry | None
    reads: bool = False


class Changes:
    """Changes by clients, made by the writer."""

    def __init__(self, index: VectorIndex, writer: Writer) -> None:
        self._index, self._writer, self._receipts = index, writer, Receipts(index)
        self._has_groups = index.supports(Capability.GROUP_COMMIT)
        self._is_shared = self._has_groups and index.has_shared_learner  # with processes that change it, too
        self.activity, self.disk = Activity(), DiskHealth()
        #: Who is told of every change.
        self.observers: list[Observer] = []

    def submit(
        self, work: Callable[[VectorIndex], T], request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done[T]]:
        """Queue a change for the writer; it is made once per key."""
        return self._submit(Change(work, lambda outcome: None, request), n_bytes)

    def _submit(self, change: Change[T], n_bytes: int) -> Future[Done[T]]:
        return self._writer.submit(lambda: self._make(change), n_bytes)

    def _submit_to_group(self, change: Change[T], n_bytes: int) -> Future[Done[T]]:
        """Queue a change of items or a lesson, which may be committed together with others."""
        return self._writer.submit_to(self._make_all, change, n_bytes)

    # ------------------------------------------------------------------------------------------------ making them

    def _make(self, change: Change[T]) -> Done[T]:
        """Make one change in a transaction of its own."""
        try:
            with self.disk.watched(), self._one_moment(change):
                attempt = self._attempt(change)
        except MadeAlready:  # by another process, after the look at the receipts
            with self.disk.watched():
                attempt = self._attempt(change)
        return self._finished([change], [attempt])[0]

    def _one_moment(self, change: Change[Any]) -> AbstractContextManager[None]:
        """Around a change that reads: what it reads is the newest, and nobody changes that before it writes."""
        return self._index.group_commit() if change.reads and self._is_shared else nullcontext()

    def _make_all(self, changes: Sequence[Change[Any]]) -> list[Done[Any] | BaseException]:
        """Make changes in their order, in as few transactions as possible.

        What is refused in a group is made alone, after what was before it: so it gets its own error, or is made after
        all if it needed something of the group. If a group fails, nobody knows yet why, and all of it is made alone;
        but not where the connection to a database was lost, as then the group may have been kept.
        """
        results: list[Done[Any] | BaseException] = []
        while len(results) < len(changes):
            left = changes[len(results) :]
            made, n_alone = self._make_group(left)
            results += made
            results += map(self._make_alone, left[len(made) : len(made) + n_alone])
        return results

    def _make_alone(self, change: Change[Any]) -> Done[Any] | BaseException:
        try:
            return self._make(change)
        except BaseException as error:
            return error

    def _make_group(self, changes: Sequence[Change[Any]]) -> tuple[Sequence[Done[Any] | BaseException], int]:
        """Make the first changes in one transaction; returns what came of them, and how many must follow alone."""
        if len(changes) == 1 or not self._has_groups or self._index.encoder is None:  # the first item brings codes
            return [], 1
        made: list[Attempt[Any]] = []
        keys: set[str] = set()
        try:
            with self._index.group_commit():
                for change in changes:
                    if change.request is not None and change.request.key in keys:
                        break  # it finds the receipt of the other one later
                    try:
                        made.append(self._attempt(change))
                    except Exception:
                        break
                    keys |= set() if change.request is None else {change.request.key}
        except StorageError as error:
            self.disk.has_failed(error)
            return [error] * max(1, len(made)), 0
        except ServiceUnavailable as error:
            return [error] * len(changes), 0
        except Exception:
            return [], max(1, len(made))
        if made:
            self.disk.has_worked()
        return self._finished(changes, made), min(1, len(changes) - len(made))

    def _attempt(self, change: Change[T]) -> Attempt[T]:
        """Make a change, unless it was made already; inside a group it is not committed yet."""
        request = change.request
        if request is None:
            return Attempt(change.work(self._index))
        receipt = self._receipts.receipt(request.key)
        if receipt is None:
            try:
                with self._receipts.once(request):
                    return Attempt(change.work(self._index))
            except (MadeAlready, InvalidInput, UnknownId):
                # Another process may have made it since the look above. Then an item that is to be added is there, one
                # that is to be removed is gone, and the work is refused before anybody asks for the receipt.
                receipt = self._receipts.receipt(request.key)
                if receipt is None:
                    raise
        if receipt.digest != request.digest:
            raise KeyReused(
                f"Idempotency-Key {request.key!r} was already used for a different request; use a new key "
                "for each request, and reuse it only for retries."
            )
        return Attempt(receipt.outcome, True)

    def _finished(self, changes: Sequence[Change[T]], attempts: Sequence[Attempt[T]]) -> list[Done[T]]:
        """The first changes are committed."""
        taught = self._index.taught  # not the learner, for which a database may be asked, and what is made is made
        for change, (outcome, replayed) in zip(changes, attempts, strict=False):
            if not replayed:
                self._receipts.committed(change.request, outcome)
                change.tell(outcome)
        return [Done(*attempt, taught.n_waiting, taught.n_ranking) for attempt in attempts]

    # ------------------------------------------------------------------------------------------------ changes

    def add(
        self,
        ids: ArrayLike | None,
        X: ArrayLike,
        payloads: Payloads | None = None,
        request: Retry | None = None,
        n_bytes: int = 0,
    ) -> Future[Done[NDArray[Any]]]:
        """Add items; the outcome is their ids."""

        def tell(names: NDArray[Any]) -> None:
            self.activity.items_changed()
            for observer in self.observers:
                observer.added(names, X)

        return self._submit_to_group(Change(lambda index: index.add(ids, X, payloads), tell, request), n_bytes)

    def update(
        self,
        ids: ArrayLike,
        X: ArrayLike | None,
        payloads: Payloads | None,
        request: Retry | None = None,
        n_bytes: int = 0,
        texts: Sequence[str] | None = None,
    ) -> Future[Done[None]]:
        """Replace vectors or payloads; texts, of which vectors were made, go into the payloads."""

        def change(index: VectorIndex) -> None:
            index.update(ids, X, payloads if texts is None else with_changed_texts(index, ids, texts, payloads))

        def tell(outcome: None) -> None:
            self.activity.items_changed()
            for observer in self.observers:
                observer.updated(ids, X)

        return self._submit_to_group(Change(change, tell, request, reads=texts is not None), n_bytes)

    def remove(self, ids: ArrayLike, request: Retry | None = None, n_bytes: int = 0) -> Future[Done[None]]:
        """Remove items."""

        def tell(outcome: None) -> None:
            self.activity.items_changed()
            for observer in self.observers:
                observer.removed(ids)

        return self._submit_to_group(Change(lambda index: index.remove(ids), tell, request), n_bytes)

    def learn(
        self,
        A: ArrayLike,
        B: ArrayLike,
        similar: ArrayLike,
        weight: ArrayLike | None = None,
        request: Retry | None = None,
        n_bytes: int = 0,
    ) -> Future[Done[Updates]]:
        """Learn pairs of vectors; the outcome is the Updates."""
        return self._learn(lambda index: (A, B), similar, weight, request, n_bytes, reads=False)

    def learn_by_id(
        self,
        ids_a: ArrayLike,
        ids_b: ArrayLike,
        similar: ArrayLike,
        weight: ArrayLike | None = None,
        request: Retry | None = None,
        n_bytes: int = 0,
    ) -> Future[Done[Updates]]:
        """Learn pairs of items, with the vectors they have when the change is made; the outcome is the Updates."""
        return self._learn(
            lambda index: (index.vectors_of(ids_a), index.vectors_of(ids_b)), similar, weight, request, n_bytes
        )

    def learn_with_items(
        self,
        vectors: np.ndarray,
        ids: list[Id],
        similar: ArrayLike,
        weight: ArrayLike | None,
        request: Retry | None,
        n_bytes: int,
    ) -> Future[Done[Updates]]:
        """Learn pairs of vectors with items, as they are when the change is made; the outcome is the Updates."""
        return self._learn(lambda index: (vectors, index.vectors_of(ids)), similar, weight, request, n_bytes)

    def _learn(
        self,
        sides: Callable[[VectorIndex], tuple[ArrayLike, ArrayLike]],
        similar: ArrayLike,
        weight: ArrayLike | None,
        request: Retry | None,
        n_bytes: int,
        reads: bool = True,
    ) -> Future[Done[Updates]]:
        learned: list[tuple[ArrayLike, ArrayLike]] = []  # by each attempt, of which the last one counts

        def work(index: VectorIndex) -> Updates:
            learned.append(sides(index))
            return index.learn_pairs(*learned[-1], similar, weight)

        def tell(updates: Updates) -> None:
            self.activity.learned(updates)
            for observer in self.observers:
                observer.learned(*learned[-1], similar, weight)

        return self._submit_to_group(Change(work, tell, request, reads), n_bytes)
