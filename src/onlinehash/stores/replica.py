"""`Replica`: the ids and codes of an index in a database, kept in memory and in step with its head.

A replica reads all codes once. Then it hears of each change, reads what the change did to codes (`deltas`), and
publishes ids, codes and encoder of the new epoch in one assignment, so that a search needs no lock and never mixes two
epochs. It reads all codes again only where a record is missing: it was away for too long, a process of an older version
has written, or the database was restored from a backup.

Codes that a refresh writes for the next era are kept aside as they come. The change that begins the era finds them
here, so all replicas change over to the new encoder within the time that one change takes to arrive.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import numpy as np

from onlinehash.codes import Codes
from onlinehash.errors import OnlineHashError
from onlinehash.index.base import Index
from onlinehash.index.flat import FlatIndex
from onlinehash.index.multi_index import MultiIndex
from onlinehash.learners.encoder import Encoder
from onlinehash.live.stop import to_its_end
from onlinehash.live.table import MANY_ITEMS
from onlinehash.stores.backend import ERA, Backend, Head, Layout
from onlinehash.stores.deltas import Added, Delta, Ended, Rewound, Step
from onlinehash.stores.filtered import Filters
from onlinehash.stores.ids import ids_of
from onlinehash.stores.manifest import Moment, State
from onlinehash.stores.reader import ATTEMPTS, Gone, Reader, too_busy

#: Seconds after which a replica looks at the head though it heard nothing, and after which it tries again if it failed.
LISTEN_SECONDS, RETRY_SECONDS = 0.5, 0.2

T = TypeVar("T")

_log = logging.getLogger("onlinehash.stores")


class Followed(NamedTuple):
    """The items that have codes, as of one moment. Nothing of it ever changes."""

    moment: Moment
    view: Index
    room: np.ndarray  # of all positions, and as much more as the next items may take
    filters: Filters  # what is known of them, in any moment since all codes were read

    @property
    def places(self) -> np.ndarray:
        """Of all positions of the view, ascending."""
        return self.room[: self.view.items.n_positions]


class Replica:
    """Follows a backend in a thread of its own. Any number of threads may read `current`.

    reader : Reader
        Reads the backend and its encoders.
    moved : function of a moment
        Called after each moment that others made, by the thread that follows.
    """

    def __init__(self, reader: Reader, moved: Callable[[Moment], None]) -> None:
        self._reader, self._backend, self._moved = reader, reader.backend, moved
        self._lock = threading.RLock()  # of those who move on
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._head = 0
        self._seen = self._heard = 0.0  # when this was last known to be at the head, and first known not to be
        self.full_reads = 0  #: How often all codes were read.
        self._read_all()
        self._thread = threading.Thread(target=self._run, name="onlinehash-replica", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def current(self) -> Followed:
        """The items as of the newest moment that is here."""
        return self._current

    @property
    def head(self) -> int:
        """The newest epoch that this knows of: from the head, or because it made that change."""
        return max(self._head, self._current.moment.epoch)

    @property
    def lag(self) -> float:
        """For how many seconds a change has been known that is not here, or for how many nobody could look for one."""
        now = time.monotonic()
        if self._heard:
            return now - self._heard
        silent = now - self._seen
        return silent if silent > 2 * LISTEN_SECONDS else 0.0

    def wait(self, epoch: int, timeout: float) -> bool:
        """Wait until an epoch is here; False if it was not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._current.moment.epoch >= epoch, timeout)

    def read(self, ask: Callable[[Followed], T]) -> T:
        """What is read as of the current moment; as of a later one if rows of it were deleted meanwhile."""
        for _ in range(ATTEMPTS):
            followed = self._current
            with suppress(Gone):
                return ask(followed)
            self.catch_up()
        raise too_busy()

    # ------------------------------------------------------------------------------------------------ moving on

    def catch_up(self) -> bool:
        """Move on to the head; whether anything was new."""
        with to_its_end(), self._lock:
            begun, news = time.monotonic(), self._backend.news(self._current.moment.epoch)
            is_new = news.head.epoch != self._current.moment.epoch
            if is_new:
                self._head = news.head.epoch
                self._heard = self._heard or begun - max((delta.age for delta in news.deltas[:1]), default=0.0)
                moment = self._moment(news.head)
                if not self._follows(news.deltas, moment.epoch) or not self._apply(moment, news.deltas):
                    self._read_all()
            self._seen, self._heard = begun, 0.0
            return is_new

    def advance(self, before: int, moment: Moment, steps: Sequence[Step]) -> None:
        """Move on by a change of this process, which knows what it did and has committed it."""
        with self._lock:
            self._head = max(self._head, moment.epoch)
            if moment.epoch <= self._current.moment.epoch:
                return
            if before != self._current.moment.epoch or not self._apply(moment, [Delta(before, moment.epoch, steps)]):
                try:
                    self.catch_up()
                except OnlineHashError as error:  # the change is made nonetheless, and the thread tries again
                    _log.warning("a change of this process cannot be followed now: %s", error)

    def _follows(self, deltas: list[Delta], head: int) -> bool:
        """Whether these lead from the current epoch to the head without a gap."""
        epochs = [self._current.moment.epoch, *(delta.epoch for delta in deltas)]
        return epochs[-1] == head and [delta.before for delta in deltas] == epochs[:-1]

    def _moment(self, head: Head) -> Moment:
        return Moment(head.epoch, State.of(head, self._backend.address))

    def _apply(self, moment: Moment, deltas: list[Delta]) -> bool:
        """Publish a later moment; False if its encoder or ids are not what they should be, so that all must be read."""
        try:
            encoder = self._reader.encoder_at(moment)
            draft = Draft(self._current, self._next, self._backend.layout, moment, encoder)
            for delta in deltas:
                draft.take(delta)
            draft.finish()
            self._publish(Followed(moment, draft.view, draft.room, self._current.filters))
        except Gone:  # the encoder was replaced once more meanwhile
            return False
        except Exception as error:
            _log.warning("changes could not be followed, so all codes are read again: %s", error)
            return False
        return True

    def _read_all(self) -> None:
        """Begin anew with all codes of the head."""
        for _ in range(ATTEMPTS):
            with self._lock, suppress(Gone), self._backend.snapshot() as backend:
                begun, moment = time.monotonic(), self._moment(backend.head())
                encoder = self._reader.encoder_at(moment, backend)
                view, places, later = _read(backend, moment, encoder)
                if not self._backend.has_snapshots and not self._reader.are_all_there(moment):
                    continue
                self._next, self._seen = later, begun
                self._publish(Followed(moment, view, places, Filters()))
                self.full_reads += 1
                return
        raise too_busy()

    def _publish(self, followed: Followed) -> None:
        with suppress(Gone, OnlineHashError):  # so that nobody has to wait for those that may be asked for
            self._reader.encoders(followed.moment.state.versions)
        with self._changed:
            self._current = followed
            self._changed.notify_all()

    # ------------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        told = ""  # of what has failed since the last success, so that a server that is down does not fill the log
        while not self._ended.is_set():
            try:
                with self._backend.listening() as wait:
                    self._look()  # at what nobody heard of
                    if told:
                        _log.info("the replica follows again")
                    told = ""
                    while not self._ended.is_set():
                        self._look(wait(LISTEN_SECONDS))
            except Exception as error:
                if not self._ended.is_set() and str(error) != told:
                    is_foreseen = isinstance(error, OnlineHashError)
                    level, trace = (logging.WARNING, None) if is_foreseen else (logging.ERROR, error)
                    _log.log(level, "the replica cannot follow, and tries again: %s", error, exc_info=trace)
                told = str(error)
            self._ended.wait(RETRY_SECONDS)

    def _look(self, heard: int | None = None) -> None:
        """Move on if there is anything new, unless this process has just made the change that it heard of.

        Which epochs there are, only the head tells: what is heard may be anybody's nonsense.
        """
        is_known = heard is None or heard <= self._current.moment.epoch
        if is_known and time.monotonic() - self._seen < LISTEN_SECONDS / 2:
            return
        if self.catch_up():
            self._moved(self._current.moment)


class NextEra:
    """Codes of the next era, as a refresh has written them so far: the last word on a place counts."""

    def __init__(self) -> None:
        self._parts: list[tuple[Added, bool]] = []  # the flag tells whether these count, or end what was there

    def put(self, step: Added) -> None:
        """More of them."""
        self._parts.append((step, True))

    def drop(self, places: np.ndarray) -> None:
        """These items were changed or removed, and are recoded later if they are still there."""
        if self._parts:
            self._parts.append((Added(0, places, (), np.empty((0, 0), np.uint8)), False))

    def clear(self) -> None:
        """The refresh was given up, or has ended."""
        self._parts.clear()

    def take(self, n_bytes: int) -> Added:
        """All of them, in the order of places, as the era has begun; ids where all parts have them."""
        parts, self._parts = self._parts, []
        if not parts:
            return Added(0, np.empty(0, np.int64), (), np.empty((0, n_bytes), np.uint8))
        places = np.concatenate([part.places for part, _ in parts])
        counts = np.concatenate([np.full(len(part.places), flag) for part, flag in parts])
        order = np.argsort(places, kind="stable")
        is_last = np.append(np.diff(places[order]) != 0, True)
        chosen = order[is_last]
        chosen = chosen[counts[chosen]]
        codes = np.zeros((len(places), n_bytes), np.uint8)
        codes[counts] = np.concatenate([part.codes for part, flag in parts if flag])
        ids = [id for part, flag in parts for id in (part.ids if flag else [""] * len(part.places))]
        named = [ids[i] for i in chosen.tolist()] if len(ids) == len(places) else ()
        return Added(0, places[chosen], named, codes[chosen])


class Draft:
    """The items of a later moment, made from those of an earlier one; if that fails, all must be read again."""

    def __init__(
        self, before: Followed, later: NextEra, layout: Layout, after: Moment, encoder: Encoder | None
    ) -> None:
        self.view, self.room = before.view.fork(), before.room
        self._next, self._layout, self._state, self._encoder = later, layout, after.state, encoder
        self._era = before.moment.epoch // ERA
        # Of several refreshes only the encoder of the last one is known, so that any bit may differ.
        self._is_one_refresh = after.epoch // ERA - self._era == 1

    def take(self, delta: Delta) -> None:
        """One change more."""
        added, ended = list[Added](), list[np.ndarray]()
        for step in delta.steps:
            if isinstance(step, Rewound):
                self._next.clear()
            elif isinstance(step, Ended):
                self._next.drop(step.places)
                if step.died <= delta.epoch:
                    ended.append(step.places)
            elif step.born <= delta.epoch:
                added.append(step)
            else:  # ids are known but for the first codes of all
                self._next.put(step if self.view.encoder is None else step._replace(ids=()))
        if delta.epoch // ERA != self._era:
            self._era = delta.epoch // ERA
            self._recode([self._next.take(self._layout.n_bytes), *added])
            return
        self._bury(added, ended)
        for step in added:
            self._put(step)

    def finish(self) -> None:
        """The last step."""
        if self.view.wants_compaction:
            living = self.places[self.view.items.positions()]
            self.view.compact()
            self.room = living
        self.view = _with_tables(self.view)

    @property
    def places(self) -> np.ndarray:
        """Of all positions."""
        return self.room[: self.view.items.n_positions]

    def _bury(self, added: list[Added], ended: list[np.ndarray]) -> None:
        """What has ended and was not replaced is gone."""
        if ended:
            gone = np.setdiff1d(np.concatenate(ended), np.concatenate([_NONE, *(step.places for step in added)]))
            if len(gone):
                self.view.bury(self.view.items.ids.at(np.searchsorted(self.places, gone)))

    def _put(self, step: Added) -> None:
        """New codes of items that are here, and new items, which come after all others."""
        if not len(step.places):
            return
        n_known = int(np.searchsorted(step.places, self.places[-1:], side="right").sum())
        if n_known:
            positions = np.searchsorted(self.places, step.places[:n_known])
            self.view.put(positions, self._codes(step.codes[:n_known]))
        new = step.places[n_known:]
        if len(new):
            n = self.view.items.n_positions
            if len(self.room) < n + len(new):
                self.room = np.concatenate([self.places, np.empty(max(len(new), n // 2), np.int64)])
            self.room[n : n + len(new)] = new
            self.view.add(self._codes(step.codes[n_known:]), ids_of(step.ids[n_known:], self._state))

    def _recode(self, steps: list[Added]) -> None:
        """Change over to the encoder of a new era."""
        assert self._encoder is not None  # as a refresh has ended
        if self.view.encoder is None:
            joined = _joined(steps, self._layout.n_bytes)
            self.view, self.room = _index(joined, self._layout, self._state, self._encoder), joined.places
            return
        rows = self.view.items.all_codes().rows().copy()
        for step in steps:
            rows[np.searchsorted(self.places, step.places)] = step.codes
        columns = np.arange(self._encoder.n_columns)
        if self._is_one_refresh:
            columns = self._encoder.changed_bits(self.view.encoder)
        self.view = self.view.recoded(self._codes(rows), self._encoder, columns)

    def _codes(self, rows: np.ndarray) -> Codes:
        return Codes.from_rows(np.ascontiguousarray(rows), self._layout.n_bits, self._layout.n_models)


_NONE = np.empty(0, np.int64)


def _joined(steps: list[Added], n_bytes: int) -> Added:
    """Several steps as one, in the order of places."""
    places = np.concatenate([_NONE, *(step.places for step in steps)])
    codes = np.concatenate([np.empty((0, n_bytes), np.uint8), *(step.codes for step in steps)])
    ids, order = [id for step in steps for id in step.ids], np.argsort(places)
    return Added(0, places[order], [ids[i] for i in order.tolist()], codes[order])


def _index(items: Added, layout: Layout, state: State, encoder: Encoder | None) -> Index:
    codes = Codes.from_rows(items.codes, layout.n_bits, layout.n_models)
    index = FlatIndex(codes, ids_of(items.ids, state), fusion=layout.fusion, encoder=encoder)
    return _with_tables(index)


def _with_tables(index: Index) -> Index:
    """The same index, with tables where it is so large that they are worth it."""
    return MultiIndex.of(index) if isinstance(index, FlatIndex) and len(index) >= MANY_ITEMS else index


def _read(backend: Backend, moment: Moment, encoder: Encoder | None) -> tuple[Index, np.ndarray, NextEra]:
    """All codes of a moment, their places, and those of the next era."""
    now, later, layout = list[Added](), NextEra(), backend.layout
    for block in backend.stored_codes(moment.epoch):
        is_now = block.born <= moment.epoch
        for chosen, put in ((is_now, now.append), (~is_now, later.put)):
            if chosen.any():
                ids = [block.ids[i] for i in np.flatnonzero(chosen).tolist()]
                born = int(block.born[chosen].max())
                put(Added(born, block.places[chosen], ids, block.codes[chosen]))
    joined = _joined(now, layout.n_bytes)
    if encoder is not None and len(joined.places) != moment.state.n:
        raise Gone
    return _index(joined, layout, moment.state, encoder), joined.places, later
