"""Changes to a served index: made by one writer, in order, once for each key, and passed on to companions."""

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
from onlinehash.serve.errors import KeyReused
from onlinehash.serve.news import News
from onlinehash.serve.writer import Writer


class Companion(Protocol):
    """Hears of every change in the writer's thread, after it was made; none of this may take long or raise."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def added(self, ids: np.ndarray, X: np.ndarray) -> None: ...

    def updated(self, ids: list[Any], X: np.ndarray | None) -> None: ...

    def removed(self, ids: list[Any]) -> None: ...

    def learned(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weight: np.ndarray | None) -> None: ...

    def refreshed(self) -> None: ...


class Retry(NamedTuple):
    """What a retry of a change is known by: the client's key, and a digest of what it asked."""

    key: str
    digest: str


class Done(NamedTuple):
    """The outcome of a change; was it that of an earlier request with the same key? And how many pairs waited, right
    after it, for their chunk to fill?"""

    outcome: Any
    replayed: bool = False
    n_waiting: int = 0


class Receipts:
    """What came of changes that clients gave a key: kept by the index, in the transaction of the change, or here.

    An index that keeps no receipts has them in the memory of the service: a retry after a restart is not recognised.
    """

    def __init__(self, index: VectorIndex) -> None:
        self._index, self._here = index, MemoryReceipts()
        self._are_kept = index.supports(Capability.RECEIPTS)

    def receipt(self, key: str) -> Receipt | None:
        """What came of the change with this key; None if there was none."""
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
    """What clients change, through the writer."""

    index: VectorIndex
    writer: Writer
    news: News
    _receipts: Receipts

    @property
    @abstractmethod
    def companions(self) -> list[Companion]:
        """Those who hear of changes."""

    def change(
        self, work: Callable[[VectorIndex], Any], request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Let the writer do this, once for each key."""

        def made() -> Done:
            return Done(work(self.index), n_waiting=pairs_waiting(self.index.learner))

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
            return Done(receipt.outcome, True, pairs_waiting(self.index.learner))

        return self.writer.submit(run, n_bytes)

    def add(
        self, ids: Any, X: Any, payloads: Any = None, request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """New items; the outcome are their ids."""

        def work(index: VectorIndex) -> Any:
            names = index.add(ids, X, payloads)
            self.news.note_items()
            self._pass_on("added", names, X)
            return names

        return self.change(work, request, n_bytes)

    def update(self, ids: Any, X: Any, payloads: Any, request: Retry | None = None, n_bytes: int = 0) -> Future[Done]:
        """Other vectors or payloads."""

        def work(index: VectorIndex) -> None:
            index.update(ids, X, payloads)
            self.news.note_items()
            self._pass_on("updated", ids, X)

        return self.change(work, request, n_bytes)

    def remove(self, ids: Any, request: Retry | None = None, n_bytes: int = 0) -> Future[Done]:
        """Items go."""

        def work(index: VectorIndex) -> None:
            index.remove(ids)
            self.news.note_items()
            self._pass_on("removed", ids)

        return self.change(work, request, n_bytes)

    def learn(
        self, A: Any, B: Any, similar: Any, weight: Any = None, request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Pairs of vectors; the outcome are the Updates."""
        return self._learn(lambda index: (A, B), similar, weight, request, n_bytes)

    def learn_by_id(
        self, ids_a: Any, ids_b: Any, similar: Any, weight: Any = None, request: Retry | None = None, n_bytes: int = 0
    ) -> Future[Done]:
        """Pairs of items, as these are when it is their turn; the outcome are the Updates."""
        return self._learn(
            lambda index: (index.vectors_of(ids_a), index.vectors_of(ids_b)), similar, weight, request, n_bytes
        )

    def learn_with_items(
        self, vector: np.ndarray, ids: Any, similar: Any, weight: Any, request: Retry | None, n_bytes: int
    ) -> Future[Done]:
        """Pairs of one vector and items, as these are when it is their turn; the outcome are the Updates."""
        vectors = np.repeat(vector[None], len(ids), axis=0)
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
    """Pairs that it learns at one time."""
    in_chunks = learner.traits.unit == "chunk" and learner.traits.learns_from == "pairs"
    return int(learner.get_params(deep=False)["chunk_size"]) if in_chunks else 1


def pairs_waiting(learner: Learner) -> int:
    """Pairs that wait until there are as many as it learns at one time."""
    return int(getattr(learner, "n_rows_waiting_", 0)) if pairs_at_a_time(learner) > 1 else 0
