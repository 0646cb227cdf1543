"""How an index reads a shelf: everything as of one epoch, whatever is changed meanwhile."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from onlinehash import files
from onlinehash.distributed.stores.shelf import Rows, Shelf
from onlinehash.distributed.stores.state import Kept, Moment, State
from onlinehash.errors import InvalidInput, OnlineHashError, ServiceUnavailable
from onlinehash.learners.encoder import Encoder
from onlinehash.live.asking import Asking
from onlinehash.live.storage import expect

#: How often something is read anew because rows were cleared away while it was read.
ATTEMPTS = 8
#: Items that are read at once where all are asked for.
PAGE = 8192
#: Encoders that are held in memory: more than are kept on a shelf.
ENCODERS_HELD = 12

T = TypeVar("T")


class Gone(Exception):
    """What belongs to a moment is there no more, as others changed the index since; to be read anew."""


class Reading(Asking):
    """Moments, and what can be read as of one. No call of these waits for a change, and any number of threads may."""

    _shelf: Shelf
    _closed: bool

    def _begin_to_read(self, shelf: Shelf) -> None:
        self._shelf, self._closed = shelf, False
        self._pinned: tuple[int, Moment] | None = None
        self._encoders: dict[str, Encoder] = {}
        self._encoders_lock = threading.Lock()

    def _check_open(self, writing: bool = False) -> None:
        if self._closed:
            raise InvalidInput("expected an index that is open, got one that was closed; open it again.")

    # ------------------------------------------------------------------------------------------------ moments

    @property
    def _now(self) -> Moment:
        """The present; inside a change, that of the change."""
        return self._pin or self._fresh()

    @property
    def _pin(self) -> Moment | None:
        pinned = self._pinned
        return pinned[1] if pinned is not None and pinned[0] == threading.get_ident() else None

    def _fresh(self) -> Moment:
        head = self._shelf.head()
        return Moment(head.epoch, State.of(head, self._shelf.address))

    @contextmanager
    def _pinning(self, moment: Moment) -> Iterator[None]:
        """For this thread, which has the lock of changes, time stands still."""
        before, self._pinned = self._pinned, (threading.get_ident(), moment)
        try:
            yield
        finally:
            self._pinned = before

    def _read(self, ask: Callable[[Moment], T], rows: bool = True) -> T:
        """What is read as of one moment; again if rows of that moment were cleared away before all was read."""
        self._check_open()
        for attempt in range(ATTEMPTS):
            moment = self._fresh() if attempt else self._now
            try:
                found = ask(moment)
            except Gone:
                continue
            except OnlineHashError:
                if rows and not self._are_all_there(moment):  # an item is not found if it was cleared away
                    continue
                raise
            if not rows or self._are_all_there(moment):
                return found
        raise ServiceUnavailable(
            f"expected an index that can be read while it is changed, got one that was cleared up {ATTEMPTS} times "
            "meanwhile; try again when there is less to do."
        )

    def _are_all_there(self, moment: Moment) -> bool:
        """Were all rows of a moment there until now? Inside a change they are, as nobody else makes one."""
        return self._is_changing or self._fresh().state.horizon <= moment.epoch

    @property
    @abstractmethod
    def _is_changing(self) -> bool:
        """Is the calling thread inside a change?"""

    # ------------------------------------------------------------------------------------------------ encoders

    @property
    def encoder(self) -> Encoder | None:
        """What made the codes; None until the learner has its first hash functions."""
        return self._read(self._encoder_at, rows=False)

    def _encoder_at(self, moment: Moment) -> Encoder | None:
        present = moment.present
        return None if present is None else self._loaded([present])[0]

    def _loaded(self, kept: Sequence[Kept]) -> list[Encoder]:
        """Encoders by their names; the same object each time, as policies tell by it that nothing is new."""
        with self._encoders_lock:
            missing = [one.blob for one in kept if one.blob not in self._encoders]
            if missing:
                blobs = self._shelf.blobs(missing)
                for name in missing:
                    if name not in blobs:
                        raise Gone
                    self._hold(name, self._encoder_of(blobs[name], name))
            found = [self._encoders[one.blob] for one in kept]
            for one, encoder in zip(kept, found, strict=True):
                self._hold(one.blob, encoder)
            return found

    def _encoder_of(self, blob: bytes, name: str) -> Encoder:
        name = f"{name} in {self._shelf.address}"
        encoder: Encoder = expect(files.from_bytes(blob, name), Encoder, name)
        return encoder

    def _hold(self, name: str, encoder: Encoder) -> None:
        """Under the lock; those that were not asked for the longest go."""
        self._encoders.pop(name, None)
        self._encoders[name] = encoder
        if len(self._encoders) > ENCODERS_HELD:
            del self._encoders[next(iter(self._encoders))]

    # ------------------------------------------------------------------------------------------------ rows

    def _rows_at(self, moment: Moment, places: np.ndarray, *, vectors: bool = False) -> tuple[Rows, np.ndarray]:
        """The rows of some places, each once, and which of them is whose."""
        different, whose = np.unique(places, return_inverse=True)
        rows = self._shelf.rows(moment.epoch, different, vectors=vectors)
        if len(rows.places) != len(different):
            raise Gone
        return rows, whose

    def _pages(self, moment: Moment, *, vectors: bool = False, codes: bool = False) -> Iterator[Rows]:
        """All items, in the order of insertion."""
        after = -1
        while True:
            rows = self._shelf.rows(moment.epoch, after=after, limit=PAGE, vectors=vectors, codes=codes)
            yield rows
            if len(rows.places) < PAGE:
                return
            after = int(rows.places[-1])


def matrix_of(vectors: Sequence[bytes], state: State) -> np.ndarray:
    """Vectors out of rows."""
    return np.frombuffer(bytearray().join(vectors), state.dtype).reshape(len(vectors), state.n_features)
