"""`LearnerIndex`: the base of indexes whose learner is an object of this process."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from onlinehash.errors import NotReady, UnknownId
from onlinehash.index.api import Behind, VectorIndex, Version
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.pair_metric import PairMetric
from onlinehash.learners.update import Updates
from onlinehash.live.queries import TRIES, Moment, VectorKind, best_of, listed, n_candidates, no_codes, rerank, to_find
from onlinehash.live.refresher import Refresh, Refresher, older_version, pairs_behind
from onlinehash.live.table import Moved
from onlinehash.live.transaction import Transaction

#: Queries whose candidates are held at a time.
BLOCK_QUERIES = 64


class LearnerIndex(VectorIndex):
    """An index that teaches its learner itself, wherever its items are: in memory, in a folder or in a database.

    Every change is a transaction, and the refresher decides when to refresh. Subclasses say how a transaction begins
    and ends, how vectors are read and how codes are recomputed.
    """

    _lock: threading.RLock  #: Held by changes and learning, one at a time; see the index for the order of locks.
    _refresher: Refresher
    _teacher: int  #: The thread that may teach the learner, or 0.

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
    def _take(self, ids: Any) -> np.ndarray:
        """The vectors of items."""

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

    def add(self, ids: Any, X: Any, payloads: Any = None) -> np.ndarray:
        with self._transaction() as change:
            return change.add(ids, X, payloads)

    def update(self, ids: Any, X: Any = None, payloads: Any = None) -> None:
        with self._transaction() as change:
            change.update(ids, X, payloads)

    def remove(self, ids: Any) -> None:
        with self._transaction() as change:
            change.remove(ids)

    def vectors_of(self, ids: Any) -> np.ndarray:
        self._before_reading()
        return self._take(ids)

    # ------------------------------------------------------------------------------------------------ searching

    def rerank(self, queries: Any, hits: Hits, k: int | None = None) -> Hits:
        self._before_reading()
        return rerank(
            queries, hits, k, self._vector_kind, self.learner.pair_metric_, lambda ids: self._take(ids.tolist())
        )

    def found(self, queries: Any, k: int = 10, where: Any = None) -> tuple[Hits, Encoder]:
        self._before_reading()
        metric = self.learner.pair_metric_
        if metric is None:  # before the first vector
            raise no_codes(self.learner)
        rows, is_one = to_find(queries, k, self._vector_kind)
        answers: list[tuple[Hits, Encoder]] = []
        n_tries = TRIES * -(-len(rows) // BLOCK_QUERIES)
        for _ in range(n_tries):
            try:
                for answer in self._answers(rows[len(answers) :], k, metric, self._moment(where)):
                    answers.append(answer)
            except (UnknownId, Moved):  # items were removed between their codes and their vectors
                continue
            if len({encoder for _, encoder in answers}) == 1:
                break
            answers.clear()  # a refresh came between
        else:
            raise NotReady(f"the index changed {n_tries} times during this search; search again, for less at once.")
        hits, encoders = zip(*answers, strict=True)
        if is_one:
            return hits[0], encoders[0]
        n = min(len(found.ids) for found in hits)  # others may have added or removed items
        return Hits(*(np.stack([column[:n] for column in columns]) for columns in zip(*hits, strict=True))), encoders[0]

    def _answers(self, rows: np.ndarray, k: int, metric: PairMetric, moment: Moment) -> Iterator[tuple[Hits, Encoder]]:
        """The hits of each query, and the encoder by which its candidates were found."""
        for start in range(0, len(rows), BLOCK_QUERIES):
            block = rows[start : start + BLOCK_QUERIES]
            candidates, encoder = moment.nearest(block, n_candidates(k))
            for row, keys in zip(block, candidates, strict=True):
                best = best_of(row, keys, k, metric, moment.vectors)
                yield Hits(moment.ids(best.ids), best.distances), encoder

    def _moment(self, where: Any) -> Moment:
        """What `find` looks at, one step after the other."""

        def nearest(rows: np.ndarray, n: int) -> tuple[np.ndarray, Encoder]:
            hits, encoder = self.searched(rows, n, where)
            return hits.ids, encoder

        return Moment(nearest, lambda ids: self._take(ids.tolist()), lambda ids: ids)

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Updates:
        with self._transaction() as change:
            return change.learn_pairs(A, B, similar, sample_weight)

    def learn_pairs_by_id(self, ids_a: Any, ids_b: Any, similar: Any, sample_weight: Any = None) -> Updates:
        with self._lock:
            self._check_open(writing=True)
            A, B = (self._take(listed(ids)) for ids in (ids_a, ids_b))
            return self.learn_pairs(A, B, similar, sample_weight)

    def learn_labelled(self, X: Any, y: Any) -> None:
        with self._transaction() as change:
            change.learn_labelled(X, y)

    def flush(self) -> None:
        with self._transaction() as change:
            change.flush()

    def put_position(self, source: str, position: Any) -> None:
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

    # ------------------------------------------------------------------------------------------------ refreshing

    def refresh(self, wait: bool = True) -> Refresh | None:
        with self._refresher.alone():
            self._check_open(writing=True)
            return self._begin(self._refresher.newest_version(self), wait)

    def roll_back(self, serial: int | None = None) -> None:
        with self._refresher.alone():
            self._check_open(writing=True)
            self._begin(older_version(self, serial), wait=True, pause=True)

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
