"""`Reader`: reads a backend as of one epoch, whatever is changed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

import numpy as np

from onlinehash.errors import InvalidInput, OnlineHashError, ServiceUnavailable
from onlinehash.io import files
from onlinehash.learners.encoder import Encoder
from onlinehash.live.storage import expect
from onlinehash.stores.backend import Backend, Rows
from onlinehash.stores.ids import StoredIds
from onlinehash.stores.manifest import Kept, Moment, State

#: How often a read is retried because rows were deleted during it.
ATTEMPTS = 8
#: Items that are read at once where all are asked for.
PAGE = 8192
#: Encoders that are held in memory: more than are kept on a backend.
ENCODERS_HELD = 12

T = TypeVar("T")


class Gone(Exception):
    """Rows of the moment that was read were deleted by others since; read again."""


class Pin(NamedTuple):
    """The moment that a thread sees, and whether it holds the lock of changes, so that no row can go meanwhile."""

    thread: int
    moment: Moment
    is_changing: bool


class Reader:
    """Reads rows as of one moment. Nothing here waits for a change, and any number of threads may read."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.closed = backend, False
        #: Where the current moment is taken from: the head or, in a process that follows it, the moment that is here.
        self.follow: Callable[[], Moment] = self.fresh
        self._pin: Pin | None = None
        self._encoders: dict[str, Encoder] = {}
        self._encoders_lock = threading.Lock()

    def close(self) -> None:
        """Close the connections to the database."""
        if not self.closed:
            self.backend.close()
        self.closed = True

    def check_open(self) -> None:
        """Raise if the index is closed."""
        if self.closed:
            raise InvalidInput("the index is closed; open it again.")

    # ------------------------------------------------------------------------------------------------ moments

    @property
    def now(self) -> Moment:
        """The current moment; for a pinned thread, its own."""
        pin = self._pin_of_this_thread()
        return self.follow() if pin is None else pin.moment

    def fresh(self) -> Moment:
        """The moment of the head, regardless of pins."""
        return _moment_of(self.backend)

    @contextmanager
    def pinned(self, moment: Moment, is_changing: bool = False) -> Iterator[None]:
        """Let the calling thread, which has the index's lock, see this moment."""
        before, self._pin = self._pin, Pin(threading.get_ident(), moment, is_changing)
        try:
            yield
        finally:
            self._pin = before

    @property
    def is_pinned(self) -> bool:
        """Whether the calling thread sees a moment of its own, as inside a change."""
        return self._pin_of_this_thread() is not None

    def _pin_of_this_thread(self) -> Pin | None:
        pin = self._pin
        return pin if pin is not None and pin.thread == threading.get_ident() else None

    def read(self, ask: Callable[[Moment], T], rows: bool = True) -> T:
        """What is read as of one moment; again if rows of that moment were cleared away before all was read."""
        self.check_open()
        for attempt in range(ATTEMPTS):
            moment = self.fresh() if attempt else self.now
            try:
                found = ask(moment)
            except Gone:
                continue
            except OnlineHashError:
                if rows and not self.are_all_there(moment):  # an item is not found if it was cleared away
                    continue
                raise
            if not rows or self.are_all_there(moment):
                return found
        raise too_busy()

    def read_together(self, ask: Callable[[Backend, Moment], T]) -> T:
        """Several reads as of one moment: in one transaction, where the database has such, and else as `read` does.

        `ask` must read by the backend that it is given, as there are not enough connections for a second one each.
        """
        self.check_open()
        if not self.backend.has_snapshots or self.is_pinned:
            return self.read(lambda moment: ask(self.backend, moment))
        for _ in range(ATTEMPTS):
            with suppress(Gone), self.backend.snapshot() as backend:
                return ask(backend, _moment_of(backend))
        raise too_busy()

    def are_all_there(self, moment: Moment) -> bool:
        """Whether all rows of a moment were there until now. Inside a change they are, as nobody else makes one."""
        pin = self._pin_of_this_thread()
        return (pin is not None and pin.is_changing) or self.fresh().state.horizon <= moment.epoch

    # ------------------------------------------------------------------------------------------------ encoders

    def encoder_at(self, moment: Moment, backend: Backend | None = None) -> Encoder | None:
        """What made the codes of a moment."""
        present = moment.present
        return None if present is None else self.encoders([present], backend)[0]

    def encoders(self, kept: Sequence[Kept], backend: Backend | None = None) -> list[Encoder]:
        """Encoders by their names; the same object each time, as policies tell by it that nothing is new."""
        with self._encoders_lock:
            missing = [one.blob for one in kept if one.blob not in self._encoders]
            if missing:
                blobs = (backend or self.backend).blobs(missing)
                for name in missing:
                    if name not in blobs:
                        raise Gone
                    self._hold(name, self._encoder_of(blobs[name], name))
            found = [self._encoders[one.blob] for one in kept]
            for one, encoder in zip(kept, found, strict=True):
                self._hold(one.blob, encoder)
            return found

    def encoder_to_come(self, kept: Kept) -> Encoder:
        """That of a refresh that is under way.

        It is not held: such a refresh may be given up, and begun again by another process, whose encoder has the same
        name, but last digits of its own.
        """
        (blob,) = self.contents([kept.blob])
        return self._encoder_of(blob, kept.blob)

    def _encoder_of(self, blob: bytes, name: str) -> Encoder:
        name = f"{name} in {self.backend.address}"
        return expect(files.from_bytes(blob, name), Encoder, name)

    def _hold(self, name: str, encoder: Encoder) -> None:
        """Called under the lock; drops the least recently used."""
        self._encoders.pop(name, None)
        self._encoders[name] = encoder
        if len(self._encoders) > ENCODERS_HELD:
            del self._encoders[next(iter(self._encoders))]

    # ------------------------------------------------------------------------------------------------ rows

    def ids_at(self, moment: Moment) -> StoredIds:
        """Which id is at which place."""
        return StoredIds(self.backend, moment)

    def rows_at(self, moment: Moment, places: np.ndarray, *, vectors: bool = False) -> tuple[Rows, np.ndarray]:
        """The rows of some places, each once, and which of them is whose."""
        different, whose = np.unique(places, return_inverse=True)
        rows = self.backend.rows(moment.epoch, different, vectors=vectors)
        if len(rows.places) != len(different):
            raise Gone
        return rows, whose

    def pages(self, moment: Moment, *, vectors: bool = False, codes: bool = False) -> Iterator[Rows]:
        """All items, in the order of insertion."""
        after = -1
        while True:
            rows = self.backend.rows(moment.epoch, after=after, limit=PAGE, vectors=vectors, codes=codes)
            yield rows
            if len(rows.places) < PAGE:
                return
            after = int(rows.places[-1])

    def contents(self, names: Sequence[str]) -> list[bytes]:
        """The blobs of these names, all of them."""
        found = self.backend.blobs(names)
        if len(found) < len(names):
            raise Gone
        return [found[name] for name in names]


def too_busy() -> ServiceUnavailable:
    """The error of a read that was always too late."""
    return ServiceUnavailable(
        f"rows were deleted {ATTEMPTS} times while they were read; try again when the index changes less."
    )


def _moment_of(backend: Backend) -> Moment:
    head = backend.head()
    return Moment(head.epoch, State.of(head, backend.address))


def matrix_of(vectors: Sequence[bytes], state: State) -> np.ndarray:
    """Vectors out of rows."""
    return np.frombuffer(bytearray().join(vectors), state.dtype).reshape(len(vectors), state.n_features)
