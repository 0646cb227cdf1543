"""Refreshes in batches, each of them a change of its own, so that others wait for one batch at most.

A refresh writes codes that are born in the next era, which nobody reads yet. How far it is stands in the head: who
finds one that its worker has left goes on where that stopped. Its last batch begins the new era.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onlinehash import checks, files
from onlinehash.codes import Codes
from onlinehash.distributed.stores.draft import Draft
from onlinehash.distributed.stores.learning import Learning
from onlinehash.distributed.stores.reading import matrix_of
from onlinehash.distributed.stores.searching import Searching
from onlinehash.distributed.stores.shelf import Rows
from onlinehash.distributed.stores.state import Kept, Pending, State
from onlinehash.errors import OnlineHashError
from onlinehash.learners.encoder import Encoder
from onlinehash.live.follower import VERSIONS_KEPT, Counters, Follower
from onlinehash.live.notes import Note
from onlinehash.live.recode import Refresh
from onlinehash.live.storage import Version

#: Rows that may be dead before they are cleared away: so many, and this share of the items.
LEAST_DEAD, DEAD_SHARE = 4096, 0.25


class Task(NamedTuple):
    """A refresh to be done."""

    version: Version | None = None  #: The learner's newest, if it is none.
    pause: bool = False
    by_policy: bool = False  #: Nobody asked for it, so that it gives way to any other.
    resumed: bool = False  #: It goes on with one that somebody left, or not at all.
    note: Note | None = None


class Refreshing(Searching, Learning, Follower):
    """How codes and encoder are replaced."""

    batch_rows = 4096  #: Items of a batch.
    _has_codes = False

    def _begin_to_refresh(self) -> None:
        self._left: set[str] = set()  # workers of this process that failed

    def _launch(self, task: Task, wait: bool) -> Refresh | None:
        if wait:
            self._run(task, lambda: False)
            return None
        job = Refresh(lambda stop: self._run(task, stop))
        job.start()
        self._job = job  # only now: others may cancel and wait for what they see here
        return job

    def _run(self, task: Task, stop: Callable[[], bool]) -> bool:
        """One batch after the other, until the new codes are there; False if it was cancelled, here or elsewhere."""
        worker, encoder = secrets.token_hex(8), None
        try:
            while True:
                with self._lock:
                    if stop():
                        self._rewind(worker)
                        return False
                    with self._one_change() as draft:
                        if encoder is None:
                            encoder = self._take_up(draft, task, worker)
                        pending = draft.state.pending
                        if pending is None or pending.worker != worker:
                            return False
                        is_finished = self._advance(draft, pending, encoder, task.note)
                    if is_finished:
                        self._has_codes = True
                        self._keep_note(task.note)
                        self._clear_away(draft.after.state)
                        return True
        except BaseException:
            self._left.add(worker)
            raise

    def _take_up(self, draft: Draft, task: Task, worker: str) -> Encoder:
        """Begin a refresh, or go on with one that leads to the same; any other gives way."""
        pending, state = draft.state.pending, draft.state
        version = task.version or self._newest_version()  # only now nobody else can teach the learner
        kept, encoder = Kept(version.serial, version.n_pairs, version.encoder.version), version.encoder
        if pending is not None and pending.to == kept and not task.by_policy:
            draft.state = replace(state, pending=replace(pending, pause=task.pause, worker=worker))
            return encoder
        if task.resumed or (task.by_policy and pending is not None):
            return encoder  # others were faster
        if pending is not None:
            draft.change.rewind(draft.before.epoch)
            draft.state = replace(state, litter=(*state.litter, *_unused(draft)))
        if kept not in state.versions:
            draft.put_blob(kept.blob, files.to_bytes(encoder))
        with self._encoders_lock:
            self._hold(kept.blob, encoder)
        draft.state = replace(draft.state, pending=Pending(kept, task.pause, worker, state.n))
        return encoder

    def _advance(self, draft: Draft, pending: Pending, new: Encoder, note: Note | None) -> bool:
        """One batch; was it the last?"""
        old = self._encoder_at(draft.before)
        columns = np.arange(new.n_columns) if old is None else new.changed_bits(old)
        is_last = True
        if len(columns):
            pending, is_last = self._batch(draft, pending, new, columns, old is None)
        if not is_last:
            draft.state = replace(draft.state, pending=pending)
            draft.put()
            return False
        work = (1, len(columns) * pending.n, 0, pending.flipped) if old is not None else (0, 0, 0, 0)
        _finish(draft, pending, work)
        self._write_note(note)
        draft.put(draft.before.next_era)
        return True

    def _batch(
        self, draft: Draft, pending: Pending, new: Encoder, columns: np.ndarray, are_first: bool
    ) -> tuple[Pending, bool]:
        """The next items, and when there are no more, or many of them, those that were changed meanwhile."""
        epoch, is_last = draft.before.epoch, False
        if len(pending.redo) < self.batch_rows:
            rows = self._shelf.rows(epoch, after=pending.done, limit=self.batch_rows, vectors=True, codes=True)
            pending = self._recode(draft, pending, rows, new, columns, are_first)
            is_last = len(rows.places) < self.batch_rows
        if pending.redo and (is_last or len(pending.redo) >= self.batch_rows):
            some, redo = pending.redo[: self.batch_rows], pending.redo[self.batch_rows :]
            rows = self._shelf.rows(epoch, np.array(some, np.int64), vectors=True, codes=True)
            again = self._recode(draft, pending, rows, new, columns, are_first)
            pending = replace(pending, redo=redo, replaced=again.replaced)  # its bits were counted the first time
        return pending, is_last and not pending.redo

    def _recode(
        self, draft: Draft, pending: Pending, rows: Rows, new: Encoder, columns: np.ndarray, are_first: bool
    ) -> Pending:
        """New codes for some items, born in the next era; what did not change stays as it is."""
        if len(rows.places) == 0:
            return pending
        codes = Codes.from_rows(rows.codes, self.n_bits, self.n_models)
        found = new.recode(codes, matrix_of(rows.vectors, draft.state), columns).rows()
        differ = np.flatnonzero((found != rows.codes).any(axis=1) | are_first)
        places, era = rows.places[differ], draft.before.next_era
        if len(places):
            draft.change.end_codes(era, places)
            draft.change.add_codes(era, places, [rows.ids[i] for i in differ.tolist()], found[differ])
        return replace(
            pending,
            done=max(pending.done, int(rows.places[-1])),
            flipped=pending.flipped + int(np.bitwise_count(found ^ rows.codes).sum()),
            replaced=pending.replaced + len(places),
        )

    def _rewind(self, worker: str | None = None) -> None:
        """Give up the refresh that is under way; only if it is this worker's, where one is named."""
        with self._one_change() as draft:
            pending = draft.state.pending
            if pending is not None and worker in (None, pending.worker):
                draft.change.rewind(draft.before.epoch)
                draft.state = replace(draft.state, pending=None, litter=(*draft.state.litter, *_unused(draft)))
                draft.put()

    # ------------------------------------------------------------------------------------------------ afterwards

    def _clear_away(self, state: State) -> None:
        """Rows that nobody can see any more go, once there are many; what goes wrong is no fault of the call.

        The horizon is put one change before they go: a reader who then finds it beyond the moment that was read, reads
        anew.
        """
        try:
            if not _is_full(state):
                return
            with self._one_change() as draft:
                if not _is_full(draft.state):
                    return
                draft.state = replace(draft.state, horizon=draft.before.epoch)
                draft.put()
            with self._one_change() as draft:
                if draft.state.pending is None:
                    draft.change.purge(draft.before.state.horizon)
                    draft.state = replace(draft.state, dead=0)
                    draft.put()
        except OnlineHashError as error:
            checks.warn(f"dead rows in {self._shelf.address} could not be cleared away, and stay for now: {error}")


def _finish(draft: Draft, pending: Pending, work: tuple[int, ...]) -> None:
    """The state after a refresh. Its encoder is kept even if it is older than all others, which may be there by now."""
    state = draft.state
    others = [kept for kept in state.versions if kept.serial != pending.to.serial]
    kept = tuple(sorted([*others[1 - VERSIONS_KEPT :], pending.to]))
    names = {one.blob for one in kept}
    forgotten = [one.blob for one in state.versions if one.blob not in names]
    draft.state = replace(
        state,
        serial=pending.to.serial,
        paused=pending.pause,
        versions=kept,
        counters=Counters(*np.add(state.counters, work).tolist()),
        pending=None,
        dead=state.dead + pending.replaced,
        litter=(*state.litter, *forgotten),
    )


def _unused(draft: Draft) -> list[str]:
    """The encoder of a refresh that is given up, unless it is kept anyway."""
    pending, names = draft.state.pending, {one.blob for one in draft.state.versions}
    return [] if pending is None or pending.to.blob in names else [pending.to.blob]


def _is_full(state: State) -> bool:
    """Are so many rows dead that they should go? Not while a refresh is under way, which may be rewound."""
    return state.pending is None and state.dead > max(LEAST_DEAD, DEAD_SHARE * state.n)
