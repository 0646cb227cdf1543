"""`LearnerIndex`: the base of indexes whose learner is an object of this process."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.embed.embedder import Embedding, Maker
from onlinehash.index.api import Behind, Receipt, Texts, VectorIndex, Vectors, Version, Where
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.update import Updates
from onlinehash.live import receipts
from onlinehash.live.attachments import Attachments
from onlinehash.live.group import Group, not_in_a_group
from onlinehash.live.positions import Reached
from onlinehash.live.queries import VectorKind, listed, rerank
from onlinehash.live.receipts import MemoryReceipts, Once
from onlinehash.live.refresher import Refresh, Refresher, older_version, pairs_behind
from onlinehash.live.sqlite.receipts import Stored
from onlinehash.live.texts import embedded, several, with_changed_texts, with_texts
from onlinehash.live.transaction import Transaction
from onlinehash.types import IdArray, Json, Payloads, State


class LearnerIndex(VectorIndex):
    """An index that teaches its learner itself, wherever its items are: in memory, in a folder or in a database.

    Every change is a transaction, and the refresher decides when to refresh. Subclasses say how a transaction begins
    and ends, how vectors are read and how codes are recomputed.
    """

    bits_at_once = 1_280_000  #: For policies: a refresh recomputes so many bits in about 20 ms, at 512 values.

    _lock: threading.RLock  #: Held by changes and learning, one at a time; see the index for the order of locks.
    _refresher: Refresher
    _teacher: int  #: The thread that may teach the learner, or 0.
    _embedder: Embedding | None
    _embedded_by: State | None  #: The facts of the embedder that made the vectors, as of when the index was opened.
    _group: Group | None  #: What the thread that has the lock does inside `group_commit`.
    _attachments: Attachments  #: Receipts and positions that threads want to have stored with their next change.
    _receipts: MemoryReceipts  #: Of an index that has no store.
    _positions: dict[str, str]  #: The same of positions, as JSON texts.

    @abstractmethod
    def _check_open(self, writing: bool = False) -> None:
        """Refuse what cannot be done now."""

    @abstractmethod
    def _before_reading(self) -> None:
        """Raise if the index is closed; begin a refresh that is due."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Transaction[Any]]:
        """One change at a time, whole or not at all; afterwards the policy is asked."""

    @abstractmethod
    def _take(self, ids: ArrayLike) -> np.ndarray:
        """The vectors of items."""

    @abstractmethod
    def _stored_receipt(self, key: str) -> Stored | None:
        """What is known of a change by its key."""

    @abstractmethod
    def _draw(self, size: int) -> np.ndarray:
        """The vectors of so many items, drawn at random."""

    @abstractmethod
    def _begin(self, version: Version, wait: bool, *, pause: bool = False, by_policy: bool = False) -> Refresh | None:
        """Replace codes and encoder by those of this version, here or in the background."""

    @property
    @abstractmethod
    def _vector_kind(self) -> VectorKind: ...

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: ArrayLike | None, X: Vectors, payloads: Payloads | None = None) -> IdArray:
        with self._transaction() as change:
            return change.add(ids, X, payloads)

    def update(self, ids: ArrayLike, X: Vectors | None = None, payloads: Payloads | None = None) -> None:
        with self._transaction() as change:
            change.update(ids, X, payloads)

    def remove(self, ids: ArrayLike) -> None:
        with self._transaction() as change:
            change.remove(ids)

    def vectors_of(self, ids: ArrayLike) -> np.ndarray:
        self._before_reading()
        return self._take(ids)

    # ------------------------------------------------------------------------------------------------ searching

    def rerank(self, queries: Vectors, hits: Hits, k: int | None = None) -> Hits:
        self._before_reading()
        return rerank(
            queries, hits, k, self._vector_kind, self.learner.pair_metric_, lambda ids: self._take(ids.tolist())
        )

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pairs(
        self, A: Vectors, B: Vectors, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        with self._transaction() as change:
            return change.learn_pairs(A, B, similar, sample_weight)

    def learn_pairs_by_id(
        self, ids_a: ArrayLike, ids_b: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        with self._transaction() as change:  # in which nobody else changes the vectors
            A, B = (self._take(listed(ids)) for ids in (ids_a, ids_b))
            return change.learn_pairs(A, B, similar, sample_weight)

    def learn_labelled(self, X: Vectors, y: ArrayLike) -> None:
        with self._transaction() as change:
            change.learn_labelled(X, y)

    def flush(self) -> None:
        with self._transaction() as change:
            change.flush()

    @contextmanager
    def once(self, key: str, digest: str) -> Iterator[None]:
        receipts.checked(key, digest)
        self._check_open(writing=True)
        if self._stored_receipt(key) is not None:
            raise receipts.made_already(key)
        with self._attachments.announced(Once(self._receipts, key, digest)):
            yield

    def receipt(self, key: str) -> Receipt | None:
        self._check_open()
        stored = self._stored_receipt(key)
        if stored is None:
            return None
        return Receipt(stored[0], receipts.outcome_of(stored[1], f"receipt {checks.shown(key)}"))

    @contextmanager
    def reached(self, source: str, position: Json) -> Iterator[None]:
        attachment = Reached(self._positions, source, position)
        self._check_open(writing=True)
        with self._attachments.announced(attachment):
            yield

    def put_position(self, source: str, position: Json) -> None:
        with self.reached(source, position), self._transaction() as change:
            change.write(None)

    @property
    def is_learning(self) -> bool:
        return self._teacher == threading.get_ident()

    @contextmanager
    def _teaching(self) -> Iterator[None]:
        """Let this thread teach the learner."""
        before, self._teacher = self._teacher, threading.get_ident()
        try:
            yield
        finally:
            self._teacher = before

    # ------------------------------------------------------------------------------------------------ texts

    @property
    def embedder(self) -> Embedding | None:
        return self._embedder

    @property
    def embedded_by(self) -> Maker | None:
        return None if self._embedded_by is None else Maker.of(self._embedded_by)

    def add_texts(self, texts: Texts, ids: ArrayLike | None = None, payloads: Payloads | None = None) -> IdArray:
        X = embedded(self, texts)
        return self.add(ids, X, with_texts(payloads, texts))

    def update_texts(self, ids: ArrayLike, texts: Texts, payloads: Payloads | None = None) -> None:
        asked, names = [texts] if isinstance(texts, str) else texts, listed(ids)
        X = embedded(self, asked)
        with self._transaction() as change:
            change.update(names, X, with_changed_texts(self, names, asked, payloads))

    def find_text(self, texts: Texts, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Hits:
        return self.find(embedded(self, texts), k, where, payloads=payloads)

    def search_text(self, texts: Texts, k: int = 10, where: Where | None = None, *, payloads: bool = False) -> Hits:
        return self.search(embedded(self, texts), k, where, payloads=payloads)

    def learn_text(
        self, text: str, ids: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        vector = embedded(self, [text])
        with self._transaction() as change:
            B = self._take(listed(ids))
            A = np.repeat(vector, len(B), axis=0)
            return change.learn_pairs(A, B, several(similar, len(B)), several(sample_weight, len(B)))

    # ------------------------------------------------------------------------------------------------ groups

    def _own_group(self) -> Group | None:
        """What this thread does inside `group_commit`."""
        return self._group if self.is_learning else None

    def _settle_group(self) -> None:
        """Teach the learner what this thread has told it inside `group_commit`, before it is looked at."""
        group = self._own_group()
        if group is not None:
            group.settle()

    def _check_unchanged(self, ids: ArrayLike) -> None:
        """Refuse to read, inside `group_commit`, items that are not as they were and not yet as they will be."""
        group = self._own_group()
        if group is not None:
            group.ids.check_unchanged(ids)

    # ------------------------------------------------------------------------------------------------ refreshing

    def _check_no_group(self, call: str) -> None:
        """Refuse what this thread cannot do inside `group_commit`: a refresh that it waited for would wait for it."""
        if self._own_group() is not None:
            raise not_in_a_group(call)

    def refresh(self, wait: bool = True) -> Refresh | None:
        self._check_no_group("refresh")
        with self._refresher.alone():
            self._check_open(writing=True)
            return self._begin(self._refresher.newest_version(self), wait)

    def roll_back(self, serial: int | None = None) -> None:
        self._check_no_group("roll_back")
        with self._refresher.alone():
            self._check_open(writing=True)
            self._begin(older_version(self, serial), wait=True, pause=True)

    @property
    def is_refreshing(self) -> bool:
        job = self._refresher.job
        return job is not None and not job.done

    @property
    def newest(self) -> Encoder:
        return self._refresher.newest(self)

    @property
    def behind(self) -> Behind:
        return self._refresher.behind(self)

    @property
    def pairs_behind(self) -> int:
        return pairs_behind(self)

    @property
    def sample(self) -> np.ndarray:
        with self._lock:
            return self._refresher.sample(len(self), self._draw)

    @property
    def recent_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._refresher.recent_pairs()

    def clock(self) -> float:
        return time.monotonic()
