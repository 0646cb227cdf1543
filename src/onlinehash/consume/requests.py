"""The requests of messages, and how several are combined into one call.

One call with many gives the same result as single calls: the learner's bytes do not depend on batching.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from onlinehash.index.api import VectorIndex


class Request(ABC):
    """One of them."""

    what: ClassVar[str]  #: In words.
    is_pair: ClassVar[bool] = False

    @property
    def fits(self) -> tuple[object, ...]:
        """Requests with equal values can share a call."""
        return (type(self),)

    @classmethod
    @abstractmethod
    def make(cls, index: VectorIndex, requests: Sequence[Self]) -> None:
        """Apply requests that fit together, in one call."""


def _shape(vector: np.ndarray | None) -> tuple[object, ...] | None:
    return None if vector is None else (vector.dtype, len(vector))


@dataclass(frozen=True)
class Pair(Request):
    """A pair of vectors to learn."""

    a: np.ndarray
    b: np.ndarray
    similar: int
    weight: float
    what = "a pair"
    is_pair = True

    @property
    def fits(self) -> tuple[object, ...]:
        return type(self), _shape(self.a), _shape(self.b)

    @classmethod
    def make(cls, index: VectorIndex, requests: Sequence[Self]) -> None:
        A, B = (np.stack([getattr(request, name) for request in requests]) for name in "ab")
        index.learn_pairs(A, B, [r.similar for r in requests], [r.weight for r in requests])


@dataclass(frozen=True)
class PairById(Request):
    """A pair of items to learn."""

    id_a: Any
    id_b: Any
    similar: int
    weight: float
    what = "a pair of items"
    is_pair = True

    @classmethod
    def make(cls, index: VectorIndex, requests: Sequence[Self]) -> None:
        a, b = ([getattr(request, name) for request in requests] for name in ("id_a", "id_b"))
        index.learn_pairs_by_id(a, b, [r.similar for r in requests], [r.weight for r in requests])


@dataclass(frozen=True)
class Addition(Request):
    """A new item; without an id it is numbered automatically."""

    id: Any
    vector: np.ndarray
    payload: dict[str, Any] | None
    what = "an item"

    @property
    def fits(self) -> tuple[object, ...]:
        return type(self), _shape(self.vector), self.id is None

    @classmethod
    def make(cls, index: VectorIndex, requests: Sequence[Self]) -> None:
        ids = None if requests[0].id is None else [r.id for r in requests]
        index.add(ids, np.stack([r.vector for r in requests]), [r.payload for r in requests])


@dataclass(frozen=True)
class Change(Request):
    """A new vector, payload (None removes it) or both for an item."""

    id: Any
    vector: np.ndarray | None
    payload: Any
    has_payload: bool
    what = "an update"

    @property
    def fits(self) -> tuple[object, ...]:
        return type(self), _shape(self.vector), self.has_payload

    @classmethod
    def make(cls, index: VectorIndex, requests: Sequence[Self]) -> None:
        rows = None if requests[0].vector is None else np.stack([r.vector for r in requests if r.vector is not None])
        payloads = [r.payload for r in requests] if requests[0].has_payload else None
        index.update([r.id for r in requests], rows, payloads)


@dataclass(frozen=True)
class Removal(Request):
    """An item to remove."""

    id: Any
    what = "a removal"

    @classmethod
    def make(cls, index: VectorIndex, requests: Sequence[Self]) -> None:
        index.remove([r.id for r in requests])
