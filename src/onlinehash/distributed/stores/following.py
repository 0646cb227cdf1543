"""When the codes of an index on a shelf follow its learner, and what came of it."""

from __future__ import annotations

import numpy as np

from onlinehash.distributed.stores.reading import Gone, matrix_of
from onlinehash.distributed.stores.refreshing import Refreshing, Task
from onlinehash.distributed.stores.state import Moment, Pending
from onlinehash.live.follower import Counters
from onlinehash.live.recode import Refresh
from onlinehash.live.storage import Version

#: Seconds without a step after which the worker of a refresh is taken to have left it.
PATIENCE = 30.0
#: Items up to which those of a sample are found by their rank.
MANY_ITEMS = 1 << 16


class Following(Refreshing):
    """Codes and encoder, replaced in one step."""

    def _set_out(self) -> None:
        self._begin_to_follow()
        self._begin_to_refresh()
        self._watched: tuple[tuple[str, int, int], float] | None = None  # how far another one's was, and since when

    # ------------------------------------------------------------------------------------------------ when

    @property
    def _may_follow(self) -> bool:
        return not self._closed and (not self.paused or self._now.state.pending is not None)

    @property
    def _has_learned_elsewhere(self) -> bool:
        """The process that teaches asks the policy; only one that died may have left an index without first codes."""
        if self._has_codes:
            return False
        state = self._now.state
        self._has_codes = state.serial > 0
        return not self._has_codes and state.n_features > 0

    def _begin_if_due(self) -> None:
        pending = self._now.state.pending
        if pending is None:
            super()._begin_if_due()
        elif self._is_left(pending):
            try:
                (encoder,) = self._loaded([pending.to])
            except Gone:
                return  # somebody has given it up a moment ago
            version = Version(pending.to.serial, pending.to.n_pairs, encoder)
            self._launch(Task(version, pending.pause, resumed=True), wait=not self.background)

    def _is_left(self, pending: Pending) -> bool:
        """Has whoever worked on this refresh stopped? Of other processes one sees only that nothing happens."""
        if pending.worker in self._left:
            return True
        step, now = (pending.worker, pending.done, pending.replaced), self.clock()
        if self._watched is None or self._watched[0] != step:
            self._watched = step, now
        return now - self._watched[1] >= PATIENCE

    def cancel(self) -> None:
        """Stop a refresh that is under way in the background, in any process, as if it had never begun."""
        self._stop()
        if not self._closed and self._now.state.pending is not None:
            with self._lock:
                self._rewind()

    def _begin(self, version: Version, wait: bool, pause: bool = False, by_policy: bool = False) -> Refresh | None:
        older = version if pause else None  # one to return to; else the newest, as of when the refresh begins
        return self._launch(Task(older, pause, by_policy, note=None if by_policy else self._note()), wait)

    # ------------------------------------------------------------------------------------------------ what happened

    @property
    def versions(self) -> list[Version]:
        """The encoders that are kept, oldest first."""

        def read(moment: Moment) -> list[Version]:
            kept = moment.state.versions
            return [
                Version(one.serial, one.n_pairs, encoder) for one, encoder in zip(kept, self._loaded(kept), strict=True)
            ]

        return self._read(read, rows=False)

    @property
    def serial(self) -> int:
        """The number of the present encoder among all that ever were; 0 if there is none yet."""
        return self._now.state.serial

    @property
    def paused(self) -> bool:
        """Does no policy refresh, as after a `roll_back`, until `refresh` is called?"""
        return self._now.state.paused

    @property
    def _counted(self) -> Counters:
        return self._now.state.counters

    def _draw(self, size: int) -> np.ndarray:
        """As `LiveIndex` draws, unless that takes the places of very many items."""

        def draw(moment: Moment) -> np.ndarray:
            state, rng = moment.state, np.random.default_rng(moment.state.n)
            n_drawn = min(size, state.n)
            places = np.sort(rng.choice(state.n, n_drawn, replace=False))
            if state.n < state.next_place and state.n <= MANY_ITEMS:  # there are places without an item
                all_places = np.concatenate([page.places for page in self._pages(moment)])
                if len(all_places) != state.n:
                    raise Gone
                places = all_places[places]
            elif state.n < state.next_place:
                found = np.empty(0, np.int64)
                while len(found) < n_drawn:
                    if not self._are_all_there(moment):
                        raise Gone
                    some = rng.integers(state.next_place, size=2 * n_drawn * state.next_place // state.n)
                    found = np.union1d(found, self._shelf.rows(moment.epoch, np.unique(some)).places)
                places = np.sort(rng.permutation(found)[:n_drawn])
            return matrix_of(self._rows_at(moment, places, vectors=True)[0].vectors, state)

        return self._read(draw)
