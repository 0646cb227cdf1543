"""Filters on a replica: the database says once which items pass, and the codes in memory rank them.

The nearest items are looked at first, as most filters admit some of them. Where few pass, the database is asked for the
places of all that do, a range of places at a time. These places are remembered and followed: the next search with that
filter asks only for what was added or changed since.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.index.flat import FlatIndex
from onlinehash.live.filters import Check, Filter
from onlinehash.live.payloads import Payloads
from onlinehash.stores.backend import Backend, Carried, Found
from onlinehash.stores.ids import texts_of
from onlinehash.stores.reader import Gone
from onlinehash.stores.search import last_word

if TYPE_CHECKING:
    from onlinehash.index.base import Index
    from onlinehash.stores.replica import Followed

#: How many of the nearest are looked at in turn for those that pass a filter, before the places of all are asked for.
AMONG = (256, 2048, 16_384)
#: Fewer than one in so many are few. If few pass, so many looks are taken: they cost less than to filter all items.
FEW, LOOKS = 10, 2
#: With at most so many items, one look is enough if none passes, or if the filter is not new: the next search with it
#: will need no database. With more, to filter all of them takes seconds.
MANY = 1 << 20
#: Places that one statement filters, between two looks at the deadline.
WINDOW = 1 << 16
#: If more payloads than this were changed since, all items are filtered again.
CHANGED = 16_384
#: Filters that are remembered; together they hold at most as many places as there are items.
FILTERS = 64
#: Seconds between two looks at the deadline, while another thread asks for the same places.
_PAUSE = 0.05


class Passing(NamedTuple):
    """The items that pass a filter, as of one moment. Nothing of it ever changes."""

    epoch: int
    view: Index
    places: np.ndarray  # ascending
    positions: np.ndarray  # of the same items, in the view
    codes: FlatIndex  # of these alone

    @classmethod
    def of(cls, followed: Followed, places: np.ndarray) -> Passing:
        """Without the places whose items were removed."""
        view, known = followed.view, followed.places
        positions = np.searchsorted(known, places)
        is_there = positions < len(known)
        is_there[is_there] = known[positions[is_there]] == places[is_there]
        is_there[is_there] = view.items.are_alive(positions[is_there])
        positions = positions[is_there]
        codes = FlatIndex(view.items.at(positions), fusion=view.fusion)
        return cls(followed.moment.epoch, view, places[is_there], positions, codes)

    def ranked(self, code: Codes) -> Iterator[Found]:
        """All of them in the order of (distance, place), without payloads; as many at a time as are asked for."""
        n, k = 0, min(AMONG)
        while n < len(self.positions):
            distances, chosen = (column[0][n:] for column in self.codes.nearest(code, k))
            ids = texts_of(self.view.items.ids.at(self.positions[chosen]))
            yield from map(Found, distances.tolist(), self.places[chosen].tolist(), ids)
            n, k = k, 8 * k


class OneFilter:
    """The places of the items that pass one filter, as far as they were asked for. Any number of threads may use it."""

    def __init__(self) -> None:
        self.n_uses = 0
        self._lock = threading.Lock()  # so that what many wait for is asked for once
        self._passing: Passing | None = None
        # Items at smaller places than `_stop` were filtered as of `_epoch`; these passed. Who gives up at a deadline
        # leaves them to the next one, who goes on from there.
        self._epoch = self._stop = 0
        self._places = _NONE

    @property
    def n_places(self) -> int:
        """How many are held."""
        return len(self._places)

    def passing(self, followed: Followed, backend: Backend, filter: Filter, is_wanted: bool) -> Passing | None:
        """What passes; None if it is neither known nor wanted.

        Raises
        ------
        Gone
            If another thread has followed the filter to a later moment. The replica is there, too.
        """
        epoch = followed.moment.epoch
        found = self._passing
        if found is not None and found.epoch == epoch:
            return found
        with self._held(filter.check):
            if self._epoch > epoch:
                raise Gone
            stop = int(followed.places[-1]) + 1
            is_new = self._stop == 0 or stop - self._stop > WINDOW
            if is_new and not is_wanted:
                return None
            self._follow(followed, backend, filter)
            for first in range(self._stop, stop, WINDOW):
                filter.check()
                until = min(first + WINDOW, stop)
                added = _passing(backend.admitted(epoch, filter.tests, first, until), filter)
                self._places, self._stop = np.concatenate([self._places, added]), until
            self._passing = found = Passing.of(followed, self._places)
            self._places = found.places
            return found

    def _follow(self, followed: Followed, backend: Backend, filter: Filter) -> None:
        """Take over what was changed among the items that were filtered as of an earlier epoch."""
        moment, self._passing = followed.moment, None
        if self._stop and self._epoch < moment.epoch:
            changed = backend.changed(moment.epoch, self._epoch, self._stop, CHANGED + 1)
            if backend.head().state["horizon"] > self._epoch:  # rows by whose end changes are found may be gone
                changed = backend.changed(moment.epoch, self._epoch, self._stop, CHANGED + 1, by_birth=True)
            if len(changed.places) > CHANGED:
                self._stop, self._places = 0, _NONE
            elif len(changed.places):
                unchanged = np.setdiff1d(self._places, changed.places, assume_unique=True)
                passing = _passing(changed, filter)  # few, so to put them in their places takes less than to sort all
                self._places = np.insert(unchanged, np.searchsorted(unchanged, passing), passing)
        self._epoch = moment.epoch

    @contextmanager
    def _held(self, check: Check) -> Iterator[None]:
        while not self._lock.acquire(timeout=_PAUSE):
            check()
        try:
            yield
        finally:
            self._lock.release()


_NONE = np.empty(0, np.int64)


def _passing(carried: Carried, filter: Filter) -> np.ndarray:
    """The places whose payloads really pass, ascending."""
    return np.sort(carried.places[Payloads(carried.payloads).mask(filter)])


class Filters:
    """The filters that were used last. Any number of threads may ask for one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: OrderedDict[bytes, OneFilter] = OrderedDict()

    def of(self, filter: Filter, n_items: int) -> OneFilter:
        """What is known of a filter; nothing of one that asks a Python function, as no two of these can be compared."""
        try:  # JSON tells 1 from True and from 1.0
            key = hashlib.sha256(json.dumps(filter.tests).encode()).digest()
        except (TypeError, ValueError):
            return OneFilter()
        with self._lock:
            found = self._used.setdefault(key, OneFilter())
            self._used.move_to_end(key)
            n_places = sum(one.n_places for one in self._used.values())
            while len(self._used) > FILTERS or (n_places > n_items and len(self._used) > 1):
                n_places -= self._used.popitem(last=False)[1].n_places
            return found


class Ranking:
    """The items that pass a filter, ranked by the codes in memory; what they carry comes from the database."""

    def __init__(self, followed: Followed, backend: Backend, filter: Filter) -> None:
        self._followed, self._backend, self._filter = followed, backend, filter
        self._known = followed.filters.of(filter, len(followed.view))

    def passing(self, code: np.ndarray) -> Iterator[Found]:
        """All items that pass, in the order of (distance, place)."""
        layout = self._backend.layout
        codes = Codes.from_rows(code[None], layout.n_bits, layout.n_models)
        self._known.n_uses += 1
        if (known := self._places(is_wanted=False)) is not None:
            yield from known.ranked(codes)
            return
        seen, n_passing = list[Found](), 0
        for n_looks, k in enumerate(AMONG, 1):
            found = self._nearest(codes, k)
            for item in self._that_pass(found[len(seen) :]):
                n_passing += 1
                yield item
            seen = found
            if len(found) < k:
                return
            if self._are_few(n_passing, len(seen), n_looks):
                break
        known = self._places(is_wanted=True)
        if known is None:
            yield from self._others(code, seen)
        else:
            yield from (item for item in known.ranked(codes) if item[:2] > seen[-1][:2])

    def _are_few(self, n_passing: int, n_seen: int, n_looks: int) -> bool:
        """Whether the places of all that pass shall be asked for, rather than the payloads of more of the nearest."""
        if not self._backend.has_filters or FEW * n_passing >= n_seen:
            return False
        is_cheap = len(self._followed.view) <= MANY and (n_passing == 0 or self._known.n_uses > 1)
        return is_cheap or n_looks >= LOOKS

    def _places(self, is_wanted: bool) -> Passing | None:
        if not self._backend.has_filters:
            return None
        return self._known.passing(self._followed, self._backend, self._filter, is_wanted)

    def _nearest(self, codes: Codes, k: int) -> list[Found]:
        view, places = self._followed.view, self._followed.places
        distances, positions = view.nearest(codes, k)
        ids = texts_of(view.items.ids.at(positions[0]))
        return list(map(Found, distances[0].tolist(), places[positions[0]].tolist(), ids))

    def _that_pass(self, found: list[Found]) -> list[Found]:
        rows = self._backend.rows(self._followed.moment.epoch, np.array([item.place for item in found], np.int64))
        if len(rows.places) != len(found):
            raise Gone
        self._filter.check()
        passing = set(_passing(Carried(rows.places, rows.payloads), self._filter).tolist())
        return [item for item in found if item.place in passing]

    def _others(self, code: np.ndarray, seen: list[Found]) -> Iterator[Found]:
        """All that pass behind some, ranked by a database that cannot tell places."""
        known = {item.place for item in seen}
        ranked = self._backend.ranked(code, self._followed.moment.epoch, self._filter.tests)
        yield from last_word((item for item in ranked if item.place not in known), self._filter)
