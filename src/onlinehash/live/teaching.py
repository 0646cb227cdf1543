"""How the learner of an index is taught: every lesson is a change of the index."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.learners.update import Update, Updates
from onlinehash.live.asking import Asking, listed
from onlinehash.live.reservoir import Reservoir
from onlinehash.streams.from_labels import key_of


class Teaching(Asking):
    """The lessons."""

    _lock: threading.RLock
    _pairs: Reservoir
    _teacher: int

    @abstractmethod
    def _changing(self) -> AbstractContextManager[Any]:
        """One change at a time, whole or not at all; afterwards the policy is asked."""

    @abstractmethod
    def _kept(self, event: dict[str, Any] | None, outcome: Any = None) -> AbstractContextManager[Any]:
        """Inside a change: what is written inside this is kept together with what the learner was taught."""

    @abstractmethod
    def _check_open(self, writing: bool = False) -> None:
        """Refuse what cannot be done now."""

    def learn_pair(self, a: Any, b: Any, similar: Any, sample_weight: float = 1.0) -> Update:
        """Teach the learner one pair of vectors, and whether they are similar (a bool, or +1 / -1)."""
        return self.learn_pairs(checks.row(a, "a"), checks.row(b, "b"), similar, sample_weight)[0]

    def learn_pair_by_id(self, id_a: int | str, id_b: int | str, similar: Any, sample_weight: float = 1.0) -> Update:
        """Teach the learner a pair of items."""
        return self.learn_pairs_by_id([id_a], [id_b], similar, sample_weight)[0]

    def learn_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """Teach the learner many pairs, row t of A with row t of B; the policy is asked once, after the last."""
        with self._changing():
            updates = self.learner.learn_pairs(A, B, similar, sample_weight)
            A, B = (np.ascontiguousarray(X, self.learner.dtype_) for X in (A, B))
            s, w = checks.similarities(similar, len(A)), checks.weights(sample_weight, len(A))
            with self._kept({"what": "pairs", "A": A, "B": B, "similar": s, "weight": w}, updates):
                pass
            self._pairs.append(A, B, s)
        return updates

    def learn_pairs_by_id(self, ids_a: Any, ids_b: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """Teach the learner many pairs of items."""
        with self._lock:
            self._check_open(writing=True)
            A, B = (self._take(listed(ids)) for ids in (ids_a, ids_b))
            return self.learn_pairs(A, B, similar, sample_weight)

    def learn_labelled(self, X: Any, y: Any) -> None:
        """Teach the learner points with labels: one each, or a 0/1 column for each class where it takes several."""
        with self._changing():
            self.learner.partial_fit(X, y)
            rows = np.ascontiguousarray(X, self.learner.dtype_)
            labels = checks.labels(y, len(rows), self.learner.traits.several_labels)
            kept = labels if labels.ndim == 2 else [key_of(label) for label in labels]
            with self._kept({"what": "labelled", "X": rows, "y": kept}):
                pass

    def flush(self) -> None:
        """Let a feature map that still waits start with the anchors there are; learn a chunk that still fills."""
        with self._changing():
            self.learner.flush()
            with self._kept({"what": "flush"}):
                pass

    # ------------------------------------------------------------------------------------------------ whose it is

    @property
    def is_learning(self) -> bool:
        """Is the calling thread inside a call of this index that teaches the learner?"""
        return self._teacher == threading.get_ident()

    @contextmanager
    def _teaching(self) -> Iterator[None]:
        """The learner may be taught by this thread."""
        before, self._teacher = self._teacher, threading.get_ident()
        try:
            yield
        finally:
            self._teacher = before
