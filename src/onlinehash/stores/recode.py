"""A refresh of an index in a database: in batches, each a change of its own, so that others wait for one at most.

A refresh writes codes that are born in the next era, which nobody reads yet. How far it is stands in the head: who
finds one that its worker has left goes on where that stopped. Its last batch begins the new era.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.index.api import Counters, Version
from onlinehash.learners.encoder import Encoder
from onlinehash.live.attachments import Attachment
from onlinehash.live.refresher import VERSIONS_KEPT
from onlinehash.live.storage import read_back
from onlinehash.stores.backend import Coded
from onlinehash.stores.manifest import Kept, Pending
from onlinehash.stores.reader import Reader
from onlinehash.stores.transaction import Draft


class Task(NamedTuple):
    """A refresh to be done."""

    version: Version | None = None  #: The learner's newest, if it is none.
    pause: bool = False
    by_policy: bool = False  #: Started by the policy, so any other refresh replaces it.
    resumed: bool = False  #: Only continues a refresh whose worker is gone.
    attachment: Attachment | None = None


def take_up(draft: Draft, reader: Reader, task: Task, version: Version, worker: str) -> Encoder:
    """Begin a refresh to a version, or continue one to the same version; any other is cancelled."""
    pending, state = draft.state.pending, draft.state
    kept, encoder = Kept(version.serial, version.n_pairs, version.encoder.version), version.encoder
    if pending is not None and pending.to == kept and not task.by_policy:
        draft.state = replace(state, pending=replace(pending, pause=task.pause, worker=worker))
        return encoder
    if task.resumed or (task.by_policy and pending is not None):
        return encoder  # another process was faster
    if pending is not None:
        draft.change.rewind(draft.before.epoch)
        draft.state = replace(state, litter=(*state.litter, *_unused(draft)))
    if kept not in state.versions:
        draft.put_blob(kept.blob, read_back(encoder))
    reader.hold(kept, encoder)
    draft.state = replace(draft.state, pending=Pending(kept, task.pause, worker, state.n))
    return encoder


class Batch:
    """One batch of a refresh: the next so many items, with the codes of another encoder."""

    def __init__(self, draft: Draft, reader: Reader, new: Encoder, batch_rows: int) -> None:
        self._draft, self._backend, self._new, self._n = draft, reader.backend, new, batch_rows
        self._old = reader.encoder_at(draft.before)
        self._columns = np.arange(new.n_columns) if self._old is None else new.changed_bits(self._old)

    def write(self, pending: Pending, attachment: Attachment | None) -> bool:
        """Write it. Returns whether it was the last, which begins the new era."""
        draft, is_last = self._draft, True
        if len(self._columns):
            pending, is_last = self._advance(pending)
        if not is_last:
            draft.state = replace(draft.state, pending=pending)
            draft.put()
            return False
        work = (0, 0, 0, 0)
        if self._old is not None:
            work = (1, len(self._columns) * pending.n, 0, pending.flipped)
        _finish(draft, pending, work)
        if attachment is not None:
            attachment.record(None, draft)
        draft.put(draft.before.next_era)
        return True

    def _advance(self, pending: Pending) -> tuple[Pending, bool]:
        """The next items, and when there are no more, or many of them, those that were changed meanwhile."""
        epoch, is_last = self._draft.before.epoch, False
        if len(pending.redo) < self._n:
            first, stop = pending.done + 1, pending.done + 1 + self._n
            pending = replace(self._recode(pending, self._backend.coded(epoch, first, stop)), done=stop - 1)
            is_last = stop >= self._draft.state.next_place
        if pending.redo and (is_last or len(pending.redo) >= self._n):
            some, redo = pending.redo[: self._n], pending.redo[self._n :]
            rows = self._backend.rows(epoch, np.array(some, np.int64), vectors=True, codes=True)
            again = self._recode(pending, Coded(rows.places, b"".join(rows.vectors), rows.codes))
            pending = replace(pending, redo=redo, replaced=again.replaced)  # its bits were counted the first time
        return pending, is_last and not pending.redo

    def _recode(self, pending: Pending, page: Coded) -> Pending:
        """New codes for some items, born in the next era; what did not change stays as it is."""
        if len(page.places) == 0:
            return pending
        draft, layout = self._draft, self._backend.layout
        codes = Codes.from_rows(page.codes, layout.n_bits, layout.n_models)
        X = np.frombuffer(page.vectors, draft.state.dtype).reshape(len(codes), draft.state.n_features)
        found = self._new.recode(codes, X, self._columns).rows()
        differ = np.flatnonzero((found != page.codes).any(axis=1) | (self._old is None))
        places, era = page.places[differ], draft.before.next_era
        if len(places):
            ids = self._backend.rows(draft.before.epoch, places).ids
            draft.change.end_codes(era, places)
            draft.change.add_codes(era, places, ids, found[differ])
        return replace(
            pending,
            flipped=pending.flipped + int(np.bitwise_count(found ^ page.codes).sum()),
            replaced=pending.replaced + len(places),
        )


def give_up(draft: Draft) -> None:
    """Undo the refresh that is under way."""
    draft.change.rewind(draft.before.epoch)
    draft.state = replace(draft.state, pending=None, litter=(*draft.state.litter, *_unused(draft)))
    draft.put()


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
