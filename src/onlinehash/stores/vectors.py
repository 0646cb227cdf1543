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
        self._rows: np.ndarray | None = None
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
            if moment.state.n_updates < self._n_updates or self._rows is None:  # others have seen a later moment
                return np.arange(len(places))
            rows = np.array([self._row_of.get(place, -1) for place in places.tolist()], np.int64)
            known = rows >= 0
            found[known] = self._rows[rows[known]]
            return np.flatnonzero(~known)

    def _keep(self, moment: Moment, places: np.ndarray, vectors: np.ndarray) -> None:
        with self._lock:
            n_rows = self._most_bytes // vectors[0].nbytes
            if moment.state.n_updates != self._n_updates or n_rows < len(places):
                return
            if self._rows is None:  # memory that is not written to yet costs nothing
                self._rows = np.empty((n_rows, vectors.shape[1]), vectors.dtype)
                self._places = np.full(n_rows, -1)
            rows = (self._next + np.arange(len(places))) % n_rows
            for old in self._places[rows].tolist():
                self._row_of.pop(old, None)
            self._rows[rows], self._places[rows] = vectors, places
            self._row_of.update(zip(places.tolist(), rows.tolist(), strict=True))
            self._next = int(rows[-1] + 1) % n_rows
