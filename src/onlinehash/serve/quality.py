"""`QualityMonitor`: measures search quality continuously, on held-out queries."""

from __future__ import annotations

import threading
import time
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks, evaluate
from onlinehash.errors import InvalidInput, NotSupported, UnknownId
from onlinehash.index.api import Capability, Id, VectorIndex
from onlinehash.learners.encoder import Encoder
from onlinehash.live import filters
from onlinehash.serve.events import Events
from onlinehash.serve.observers import BackgroundObserver
from onlinehash.serve.sample import hashes
from onlinehash.streams.from_labels import key_of

#: The share of the time that measuring may take.
SHARE = 0.05

#: Items in the sample of a large index, which stay the same while they exist; payloads that are read at once.
MOST_ITEMS = 50_000
AT_ONCE = 256


class Measurement(TypedDict):
    """The mean average precision, of how many queries, after how many pairs."""

    map: float
    n_queries: int
    n_pairs: int


class QualityMonitor(BackgroundObserver):
    """Mean average precision of held-out queries; relevant items are those with the query's label.

    index : the served index.
    label : the payload field that holds an item's label.
    events : where measurements are sent.
    X, y : the queries and their labels.

    It measures after a refresh and when items changed, on the codes and the encoder of one moment; ties count as their
    expectation. Items without a label are left out; large indexes are sampled. It blocks nobody, and after each
    measurement it rests, so that measuring takes at most 5 % of the time.
    """

    def __init__(self, index: VectorIndex, label: str | None, events: Events, X: ArrayLike, y: ArrayLike) -> None:
        super().__init__()
        if label is None:
            raise InvalidInput(
                "the service does not know which payload field is the label; start it with --label FIELD."
            )
        if not index.supports(Capability.VIEW):
            raise NotSupported(
                "measuring search quality needs an index whose codes are in memory; "
                f"{type(index).__name__} keeps them in a database."
            )
        self._index, self._field, self._events = index, label, events
        self._X = checks.vectors(X)
        self._numbers: dict[str, int] = {}
        self._y = np.array([self._number(label) for label in checks.labels(y, len(self._X)).tolist()])
        self._lock = threading.Lock()  # for the labels, which the writer's thread forgets
        self._labels: dict[Id, int] = {}
        self._changes = 0
        self._is_warm = False  # the first measurement reads all labels and loads kernels, the others do not
        #: The last measurement; None until there is one.
        self.latest: Measurement | None = None

    def _work(self) -> float:
        start = time.thread_time()
        measured = self.measure(self._index)
        if measured is not None:
            value, encoder = measured
            self.latest = {"map": value, "n_queries": len(self._y), "n_pairs": self._pairs_of(encoder)}
            self._events.send("measured", self.latest)
        cost, self._is_warm = time.thread_time() - start if self._is_warm else 0.0, True
        return cost * (1 / SHARE - 1)

    def measure(self, index: VectorIndex) -> tuple[float, Encoder] | None:
        """The mAP of an index with these items, and the encoder of its codes; None if it cannot be measured yet."""
        view = index.view  # ids, codes and encoder of one moment
        encoder, items = view.encoder, view.items
        if encoder is None:
            return None
        positions = items.positions()
        ids = items.ids.at(positions)
        if len(ids) > MOST_ITEMS:
            few = np.sort(np.argpartition(hashes(ids), MOST_ITEMS)[:MOST_ITEMS])
            positions, ids = positions[few], ids[few]
        y = self._labels_of(ids.tolist())
        if not np.isin(self._y, y).any():
            return None
        codes, truth = items.at(positions[y >= 0]), evaluate.same_label(self._y, y[y >= 0])
        found = evaluate.rank(encoder.encode_queries(self._X), codes, truth, ["map"], fusion=encoder.fusion)
        return found["map"], encoder

    def measure_exact(self, index: VectorIndex) -> float | None:
        """The mAP of the vectors of an index with these items, ranked by cosine; None if it cannot be measured yet."""
        ids = index.ids
        y = self._labels_of(ids.tolist())
        if not np.isin(self._y, y).any():
            return None
        try:
            vectors = index.vectors_of(ids[y >= 0])
        except UnknownId:  # removed since
            return None
        return evaluate.cosine(self._X, vectors, evaluate.same_label(self._y, y[y >= 0]))["map"]

    def _pairs_of(self, encoder: Encoder) -> int:
        """Pairs that the learner had seen when it was this encoder."""
        known = {version.version: version.n_pairs for version in self._index.versions}
        return int(known.get(encoder.version, self._index.learner.n_pairs_seen_))

    # ------------------------------------------------------------------------------------------------ labels

    def _labels_of(self, ids: list[Id]) -> np.ndarray:
        """The numbers of the items' labels, -1 for none; payloads are read only for items not seen before."""
        unknown = [id for id in ids if id not in self._labels]
        for start in range(0, len(unknown), AT_ONCE):
            self._read(unknown[start : start + AT_ONCE])
        return np.array([self._labels.get(id, -1) for id in ids], np.int64)

    def _read(self, ids: list[Id]) -> None:
        path, changes = self._field.split("."), -1
        while changes != self._changes:  # otherwise the payloads may be from before a change
            changes = self._changes
            payloads = self._index.payloads_of(ids)
            found = [filters.look_up(payload, self._field, path) for payload in payloads]
            with self._lock:
                if changes == self._changes:
                    self._labels.update(zip(ids, map(self._number, found), strict=True))

    def _number(self, label: object) -> int:
        if not isinstance(label, str | int | float):
            return -1
        return self._numbers.setdefault(key_of(label), len(self._numbers))

    def _forget(self, ids: ArrayLike) -> None:
        with self._lock:
            self._changes += 1
            for id in np.atleast_1d(np.asarray(ids, object)).tolist():
                self._labels.pop(id, None)
        self._wake()

    # ------------------------------------------------------------------------------------------------ changes

    def added(self, ids: ArrayLike, X: ArrayLike) -> None:
        """Measure again; labels of new items are read when they are needed."""
        self._forget(ids)

    def updated(self, ids: ArrayLike, X: ArrayLike | None) -> None:
        """Their labels may have changed."""
        self._forget(ids)

    def removed(self, ids: ArrayLike) -> None:
        """Forget their labels."""
        self._forget(ids)

    def refreshed(self) -> None:
        """Measure again; with labels that other processes may have changed, of which nobody tells."""
        if self._index.supports(Capability.RELOAD):
            with self._lock:
                self._changes += 1
                self._labels.clear()
        self._wake()
