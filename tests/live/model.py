"""The slow obvious live index: a dictionary, a learner, an encoder, and brute force."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from onlinehash.errors import NotReady
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder
from onlinehash.live.refresher import VERSIONS_KEPT
from tests.reference.search import distances

Admits = Callable[[dict[str, Any] | None], bool]


class Model:
    """What a live index of this learner should hold and answer; the learner is the model's own."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self.vectors: dict[Any, np.ndarray] = {}
        self.payloads: dict[Any, dict[str, Any] | None] = {}
        self.versions: dict[int, Encoder] = {}
        self.serial = self.refreshes = 0
        self.paused = False

    # ------------------------------------------------------------------ items

    def add(self, ids: list[Any], X: np.ndarray, payloads: list[Any] | None = None) -> None:
        self.learner.observe(X)
        self.vectors |= {id: x.copy() for id, x in zip(ids, X, strict=True)}
        self.payloads |= dict(zip(ids, copy.deepcopy(payloads) or [None] * len(ids), strict=True))

    def update(self, ids: list[Any], X: np.ndarray | None = None, payloads: list[Any] | None = None) -> None:
        if X is not None:
            self.learner.observe(X)
            self.vectors |= {id: x.copy() for id, x in zip(ids, X, strict=True)}
        if payloads is not None:
            self.payloads |= dict(zip(ids, copy.deepcopy(payloads), strict=True))

    def remove(self, ids: list[Any]) -> None:
        for id in ids:
            del self.vectors[id], self.payloads[id]

    @property
    def ids(self) -> list[Any]:
        return list(self.vectors)

    def matrix(self) -> np.ndarray:
        return np.array(list(self.vectors.values()))

    # ------------------------------------------------------------------ encoders

    @property
    def encoder(self) -> Encoder | None:
        return self.versions.get(self.serial)

    def newest(self) -> Encoder | None:
        """The learner's functions, if it has some."""
        try:
            return self.learner.snapshot()
        except NotReady:
            return None

    def refresh(self, encoder: Encoder) -> None:
        """From now on this encoder makes the codes."""
        self.refreshes += self.serial > 0
        if self.encoder is None or len(encoder.changed_bits(self.encoder)):  # else it is no other version
            self.serial = 1 + max(self.versions, default=0)
        self.versions[self.serial] = encoder
        self.paused = False
        for old in sorted(self.versions)[:-VERSIONS_KEPT]:
            del self.versions[old]

    def older(self) -> list[int]:
        return sorted(serial for serial in self.versions if serial < self.serial)

    def roll_back(self, serial: int) -> None:
        self.serial, self.paused = serial, True
        self.refreshes += 1

    # ------------------------------------------------------------------ questions

    def ranked(self, query: np.ndarray, admits: Admits = lambda payload: True) -> list[tuple[int, Any]]:
        """All admitted items as (distance, id), in the order of a search."""
        encoder, chosen = self.encoder, [id for id in self.vectors if admits(self.payloads[id])]
        assert encoder is not None
        if not chosen:
            return []
        return ranked(encoder, chosen, encoder.encode(np.array([self.vectors[id] for id in chosen])).bits(), query)

    def reranked(self, query: np.ndarray, ids: list[Any]) -> list[Any]:
        """These ids in the order of the learner's own metric."""
        if not ids:
            return []
        ranking = self.learner.pair_metric_.ranking(query, len(ids))
        ranking.add(np.array([self.vectors[id] for id in ids]))
        return [ids[number] for number in ranking.order(len(ids))[0]]


def ranked(encoder: Encoder, ids: list[Any], bits: np.ndarray, query: np.ndarray) -> list[tuple[int, Any]]:
    """Codes in the order of (distance, insertion), each as (distance, id)."""
    asked = encoder.encode(query[None]).bits()
    found = distances(asked, bits, encoder.n_models, encoder.fusion)[0]
    return sorted(zip(found.tolist(), ids, strict=True), key=lambda pair: pair[0])  # which is stable


def pairs_of(hits: Hits) -> list[tuple[int, Any]]:
    """The hits of one query in the same form."""
    return list(zip(hits.distances.tolist(), hits.ids.tolist(), strict=True))


def same_functions(one: Encoder | None, other: Encoder | None) -> bool:
    """Do these two encode alike, and is one as old as the other?"""
    if one is None or other is None:
        return one is other
    return one.version == other.version and len(one.changed_bits(other)) == 0
