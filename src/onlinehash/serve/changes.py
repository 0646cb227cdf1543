"""Changes to a served index: made in order by one writer, once per idempotency key, and reported to companions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

import numpy as np

from onlinehash.index.api import Capability, Receipt, VectorIndex
from onlinehash.learners.base import Learner
from onlinehash.learners.update import Updates
from onlinehash.live.receipts import MemoryReceipts, bytes_of, outcome_of
from onlinehash.serve.disk_health import DiskHealth
from onlinehash.serve.errors import KeyReused
from onlinehash.serve.news import News
from onlinehash.serve.writer import Writer


class Companion(Protocol):
    """Is notified of every change, in the writer's thread; its methods must be fast and must not raise."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def added(self, ids: np.ndarray, X: np.ndarray) -> None: ...

    def updated(self, ids: list[Any], X: np.ndarray | None) -> None: ...

    def removed(self, ids: list[Any]) -> None: ...

    def learned(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weight: np.ndarray | None) -> None: ...

    def refreshed(self) -> None: ...


class Retry(NamedTuple):
    """Identifies a retry of a change: the client's key and a digest of the request."""

    key: str
    digest: str


class Done(NamedTuple):
    """The outcome of a change, whether it is that of an earlier request with the same key, and, right after it, how
    many pairs were waiting for their chunk to fill and from how many `find` had learned."""

    outcome: Any
    replayed: bool = False
    n_waiting: int = 0
    n_ranking: int = 0


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

    def made_once(self, request: Retry, make: Callable[[], Done]) -> Done:
        """Make a change whose key has no receipt yet."""
        if self._are_kept:
            with self._index.once(request.key, request.digest):
                return make()
        done = make()
        self._here.put(request.key, request.digest, bytes_of(done.outcome))
        return done


class Changes(ABC):
    """Changes by clients, made by the writer."""

    index: VectorIndex
    writer: Writer
    news: News
    disk: DiskHealth
    _receipts: Receipts

    @property
    @abstractmethod
    def companions(self) -> list[Companion]:
        """Who is notified of changes."""

    def change(
        self, work: Callable[[VectorIndex], Any], request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Queue a change for the writer; it is made once per key."""

        def told(outcome: Any, replayed: bool = False) -> Done:
            learner = self.index.learner
            return Done(outcome, replayed, pairs_waiting(learner), ranking_pairs(learner))

        def made() -> Done:
            with self.disk.watched():
                return told(work(self.index))

        def run() -> Done:
            if request is None:
                return made()
            receipt = self._receipts.receipt(request.key)
            if receipt is None:
                return self._receipts.made_once(request, made)
            if receipt.digest != request.digest:
                raise KeyReused(
                    f"Idempotency-Key {request.key!r} was already used for a different request; use a new key "
                    "for each request, and reuse it only for retries."
                )
            return told(receipt.outcome, True)

        return self.writer.submit(run, n_bytes)

    def add(
        self, ids: Any, X: Any, payloads: Any = None, request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Add items; the outcome is their ids."""

        def work(index: VectorIndex) -> Any:
            names = index.add(ids, X, payloads)
            self.news.note_items()
            self._pass_on("added", names, X)
            return names

        return self.change(work, request, n_bytes)

    def update(self, ids: Any, X: Any, payloads: Any, request: Retry | None = None, n_bytes: int = 0) -> Future[Done]:
        """Change vectors or payloads."""

        def work(index: VectorIndex) -> None:
            index.update(ids, X, payloads)
            self.news.note_items()
            self._pass_on("updated", ids, X)

        return self.change(work, request, n_bytes)

    def remove(self, ids: Any, request: Retry | None = None, n_bytes: int = 0) -> Future[Done]:
        """Remove items."""

        def work(index: VectorIndex) -> None:
            index.remove(ids)
            self.news.note_items()
            self._pass_on("removed", ids)

        return self.change(work, request, n_bytes)

    def learn(
        self, A: Any, B: Any, similar: Any, weight: Any = None, request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Learn pairs of vectors; the outcome is the Updates."""
        return self._learn(lambda index: (A, B), similar, weight, request, n_bytes)

    def learn_by_id(
        self, ids_a: Any, ids_b: Any, similar: Any, weight: Any = None, request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Learn pairs of items, with the vectors they have when the change is made; the outcome is the Updates."""
        return self._learn(
            lambda index: (index.vectors_of(ids_a), index.vectors_of(ids_b)), similar, weight, request, n_bytes
        )

    def learn_with_items(
        self, vectors: np.ndarray, ids: Any, similar: Any, weight: Any, request: Retry | None, n_bytes: int
    ) -> Future[Done]:
        """Learn pairs of vectors with items, as they are when the change is made; the outcome is the Updates."""
        return self._learn(lambda index: (vectors, index.vectors_of(ids)), similar, weight, request, n_bytes)

    def _learn(
        self,
        sides: Callable[[VectorIndex], tuple[Any, Any]],
        similar: Any,
        weight: Any,
        request: Retry | None,
        n_bytes: int,
    ) -> Future[Done]:
        def work(index: VectorIndex) -> Updates:
            A, B = sides(index)
            updates = index.learn_pairs(A, B, similar, weight)
            self.news.note(updates)
            self._pass_on("learned", A, B, similar, weight)
            return updates

        return self.change(work, request, n_bytes)

    def _pass_on(self, what: str, *arguments: Any) -> None:
        for companion in self.companions:
            getattr(companion, what)(*arguments)


def pairs_at_a_time(learner: Learner) -> int:
    """Number of pairs that the learner learns at a time."""
    in_chunks = learner.traits.unit == "chunk" and learner.traits.learns_from == "pairs"
    return int(learner.get_params(deep=False)["chunk_size"]) if in_chunks else 1


def ranking_pairs(learner: Learner) -> int:
    """Number of pairs from which the metric has learned that puts the hits of `find` in order."""
    metric = learner.pair_metric_
    return 0 if metric is None else metric.n_pairs


def pairs_waiting(learner: Learner) -> int:
    """Number of pairs that wait for their chunk to fill."""
    return int(getattr(learner, "n_rows_waiting_", 0)) if pairs_at_a_time(learner) > 1 else 0
