"""`RecentVectors`: the vectors that were compared last, so that a database is not asked for them at every search."""

from __future__ import annotations

import threading

import numpy as np

from onlinehash.stores.backend import Backend
from onlinehash.stores.manifest import Moment
from onlinehash.stores.reader import Gone, matrix_of

#: Bytes of vectors that are kept at most.
MOST_BYTES = 64 << 20


class RecentVectors:
    """Vectors by place, in a ring of rows: the newest takes the row of the oldest.

    A place has one vector for ever, unless its item is updated. So all are forgotten when items were updated since,
    which the state of a moment tells.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._forget(0)

    def _forget(self, n_updates: int) -> None:
        self._n_updates, self._next = n_updates, 0
        self._row_of: dict[int, int] = {}
        self._rows = np.empty((0, 0))
        self._places = np.empty(0, np.int64)  # of each row; -1 where there is none yet

    def take(self, backend: Backend, moment: Moment, places: np.ndarray) -> np.ndarray:
        """The vectors at different places, as of a moment."""
        state = moment.state
        found = np.empty((len(places), state.n_features), state.dtype)
        missing = self._known(moment, places, found)
        if len(missing):
            asked = places[missing]
            read = backend.vectors(moment.epoch, asked, found.itemsize * state.n_features)
            if len(read) != len(asked):
                raise Gone
            found[missing] = matrix_of([read[place] for place in asked.tolist()], state)
            self._keep(moment, asked, found[missing])
        return found

    def _known(self, moment: Moment, places: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Fill in what is known, and tell which of the places are not."""
        with self._lock:
            if moment.state.n_updates > self._n_updates:
                self._forget(moment.state.n_updates)
            if moment.state.n_updates < self._n_updates:  # another thread has seen a later moment
                return np.arange(len(places))
            rows = np.array([self._row_of.get(place, -1) for place in places.tolist()], np.int64)
            known = rows >= 0
            if known.any():
                found[known] = self._rows[rows[known]]
            return np.flatnonzero(~known)

    def _keep(self, moment: Moment, places: np.ndarray, vectors: np.ndarray) -> None:
        with self._lock:
            room = self._most_bytes // max(1, vectors[0].nbytes)
            if moment.state.n_updates != self._n_updates or room < len(places):
                return
            if self._next + len(places) > len(self._rows) < room:
                self._grow(min(room, max(self._next + len(places), 2 * len(self._rows))), vectors)
            rows = (self._next + np.arange(len(places))) % len(self._rows)
            for old in self._places[rows].tolist():
                self._row_of.pop(old, None)
            self._rows[rows], self._places[rows] = vectors, places
            self._row_of.update(zip(places.tolist(), rows.tolist(), strict=True))
            self._next = int(rows[-1] + 1) % room

    def _grow(self, n: int, vectors: np.ndarray) -> None:
        grown = np.empty((n, vectors.shape[1]), vectors.dtype)
        grown[: len(self._rows)] = self._rows
        places = np.full(n, -1)
        places[: len(self._places)] = self._places
        self._rows, self._places = grown, places
