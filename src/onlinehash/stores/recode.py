"""A refresh of an index in a database: in parts, each written by a change of its own, so that others wait for one.

A refresh writes codes that are born in the next era, which nobody reads yet. How far it is stands in the head, so that
any number of workers may take part: each claims a part, computes its codes beside all changes, and writes them. What a
worker had claimed when it died is claimed by another. The last part begins the new era.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from onlinehash.codes import Codes
from onlinehash.index.api import Counters, Version
from onlinehash.live.attachments import Attachment
from onlinehash.live.refresher import VERSIONS_KEPT
from onlinehash.live.storage import read_back
from onlinehash.stores.backend import Backend, Coded
from onlinehash.stores.manifest import Kept, Moment, Pending, State
from onlinehash.stores.reader import Reader
from onlinehash.stores.transaction import Draft


class Task(NamedTuple):
    """A refresh to be done."""

    version: Version | None = None  #: The learner's newest, if it is none.
    pause: bool = False  #: Returns to an older version.
    by_policy: bool = False  #: Started by the policy, which need not do so beside another one.
    resumed: bool = False  #: Only continues a refresh whose worker is gone.
    attachment: Attachment | None = None

    @property
    def was_asked_for(self) -> bool:
        """Whether somebody wants the codes to be the learner's, as it is now."""
        return not (self.pause or self.by_policy or self.resumed)


def take_up(draft: Draft, reader: Reader, task: Task, version: Version, worker: str, size: int) -> Version | None:
    """Begin a refresh to a version, or join one to the same version. Who returns to an older one cancels any other.

    Returns what this worker is to encode with: in a refresh that it joins, the encoder that is stored, as the learner
    of another process may differ from its own in the last digits. None if another refresh is under way.
    """
    pending, state = draft.state.pending, draft.state
    kept, encoder = kept_as(version), version.encoder
    if pending is not None and pending.to == kept and not task.by_policy:
        who = worker if task.resumed else pending.worker
        draft.state = replace(state, pending=replace(pending, pause=task.pause, worker=who))
        return version._replace(encoder=reader.encoder_to_come(kept))
    if task.resumed or (pending is not None and not task.pause):
        return None  # another process was faster
    if pending is not None:
        draft.change.rewind(draft.before.epoch)
        draft.state = replace(state, litter=(*state.litter, *_unused(draft)))
    if kept not in state.versions:
        draft.put_blob(kept.blob, read_back(encoder))
    draft.state = replace(draft.state, pending=Pending(kept, task.pause, worker, state.n, size))
    return version


def kept_as(version: Version) -> Kept:
    """How a version is called in the head."""
    return Kept(version.serial, version.n_pairs, version.encoder.version)


class Recoded(NamedTuple):
    """New codes of a part, or of some places, as of a state: those that differ from the old ones."""

    places: np.ndarray
    ids: list[str]
    codes: np.ndarray
    flipped: int
    part: int
    state: State

    def holds(self, state: State, stop: int) -> bool:
        """Whether nothing has changed since up to a place."""
        then = self.state
        if state.changed == then.changed:
            return True
        n_removed, n_removed_then = (each.next_place - each.n for each in (state, then))
        return (state.n_updates, n_removed) == (then.n_updates, n_removed_then) and stop <= then.next_place


class Recoder:
    """What a worker does in a refresh. Codes are computed beside all changes, and written in one."""

    def __init__(self, reader: Reader, before: Moment, version: Version) -> None:
        self._backend, self._new, self.to = reader.backend, version.encoder, kept_as(version)
        self._old, self._serial = reader.encoder_at(before), before.state.serial
        every = np.arange(self._new.n_columns)
        self._columns = every if self._old is None else self._new.changed_bits(self._old)

    def is_under_way(self, state: State) -> bool:
        """Whether this refresh has neither ended nor been given up."""
        return state.pending is not None and state.pending.to == self.to and state.serial == self._serial

    def is_to_do(self, state: State, part: int) -> bool:
        """Whether it is under way, and this part of it is not written."""
        return (
            self.is_under_way(state) and state.pending is not None and part in state.pending.unwritten(state.next_place)
        )

    def is_over(self, state: State) -> bool:
        """Whether it has ended, by whomever; others to newer versions may have followed."""
        is_there = state.serial == self.to.serial or (self.to.serial > self._serial and self.to in state.versions)
        return is_there and not self.is_under_way(state)

    def part(self, moment: Moment, pending: Pending, part: int) -> Recoded | None:
        """The new codes of a part; none if there is nothing to compute."""
        if not len(self._columns):
            return None
        first = part * pending.size
        return self._recoded(moment, self._backend.coded(moment.epoch, first, first + pending.size), part)

    def _recoded(self, moment: Moment, page: Coded, part: int) -> Recoded:
        state, layout = moment.state, self._backend.layout
        if len(page.places) == 0:
            return Recoded(page.places, [], page.codes, 0, part, state)
        codes = Codes.from_rows(page.codes, layout.n_bits, layout.n_models)
        X = np.frombuffer(page.vectors, state.dtype).reshape(len(codes), state.n_features)
        found = self._new.recode(codes, X, self._columns).rows()
        differ = np.flatnonzero((found != page.codes).any(axis=1) | (self._old is None))
        places = page.places[differ]
        ids = self._backend.rows(moment.epoch, places).ids if len(places) else []
        return Recoded(places, ids, found[differ], int(np.bitwise_count(found ^ page.codes).sum()), part, state)

    def write(self, draft: Draft, recoded: Recoded | None, attachment: Attachment | None) -> bool:
        """Write a part, and when all are, what was changed meanwhile. Returns whether that begins the new era."""
        pending = draft.state.pending
        assert pending is not None
        are_all = not len(self._columns)
        if not are_all:
            pending = self._with_part(draft, pending, recoded)
            are_all = pending.done + 1 >= draft.state.next_place
            if pending.redo and (are_all or len(pending.redo) >= pending.size):
                pending = self._again(draft, pending)
        draft.state = replace(draft.state, pending=pending)
        if not are_all or pending.redo:
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

    def _with_part(self, draft: Draft, pending: Pending, recoded: Recoded | None) -> Pending:
        """Write a part, unless another worker did; if anything has changed in it, compute it again."""
        if recoded is None or recoded.part not in pending.unwritten(draft.state.next_place):
            return pending
        if not recoded.holds(draft.state, (recoded.part + 1) * pending.size):
            now = self.part(draft.before, pending, recoded.part)
            assert now is not None
            recoded = now
        self._put(draft, recoded)
        return replace(
            pending.written(recoded.part),
            flipped=pending.flipped + recoded.flipped,
            replaced=pending.replaced + len(recoded.places),
        )

    def _again(self, draft: Draft, pending: Pending) -> Pending:
        """Recode some of what was changed after it was recoded; its bits were counted the first time."""
        some, redo = pending.redo[: pending.size], pending.redo[pending.size :]
        rows = self._backend.rows(draft.before.epoch, np.array(some, np.int64), vectors=True, codes=True)
        page = Coded(rows.places, b"".join(rows.vectors), rows.codes)
        recoded = self._recoded(draft.before, page, -1)
        self._put(draft, recoded)
        return replace(pending, redo=redo, replaced=pending.replaced + len(recoded.places))

    def _put(self, draft: Draft, recoded: Recoded) -> None:
        """Codes that are born in the next era; what did not change stays as it is."""
        if len(recoded.places):
            era = draft.before.next_era
            draft.change.end_codes(era, recoded.places)
            draft.change.add_codes(era, recoded.places, recoded.ids, recoded.codes)


class Made(NamedTuple):
    """A part that was computed ahead, and what gives up the claim on it."""

    claim: ExitStack
    recoded: Recoded | None


class Ahead:
    """Computes parts of a refresh in threads, while others are written.

    Whatever has changed in a part since is noticed when it is written. Databases without claims cannot tell which parts
    somebody else is at, so nothing is computed ahead there.
    """

    def __init__(self, recoder: Recoder, reader: Reader, n_parts: int) -> None:
        self._recoder, self._reader, self._n_parts = recoder, reader, n_parts if reader.backend.has_claims else 0
        self._threads = ThreadPoolExecutor(n_parts, "onlinehash-recode") if self._n_parts else None
        self._begun: deque[tuple[int, Future[Made | None]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for _part, job in self._begun:
            if not job.cancelled() and job.exception() is None and (made := job.result()) is not None:
                made.claim.close()

    def next(self, pending: Pending, parts: Sequence[int]) -> Made | None:
        """The next part, with others begun behind it; None if somebody else is at all of these, or nothing is left."""
        if self._threads is None:
            return None
        at = {part for part, _ in self._begun}
        for part in parts:
            if len(self._begun) > self._n_parts:
                break
            if part not in at:
                self._begun.append((part, self._threads.submit(self._make, pending, part)))
        return self._begun.popleft()[1].result() if self._begun else None

    def _make(self, pending: Pending, part: int) -> Made | None:
        with ExitStack() as held:
            if not is_claimed(held, self._reader.backend, part):
                return None
            moment = self._reader.fresh()
            if not self._recoder.is_to_do(moment.state, part):
                return None
            recoded = self._recoder.part(moment, pending, part)
            return Made(held.pop_all(), recoded)


def is_claimed(held: ExitStack, backend: Backend, part: int) -> bool:
    """Claim a part of a refresh, until `held` ends."""
    with ExitStack() as claim:
        if not claim.enter_context(backend.claimed(part)):
            return False
        held.push(claim.pop_all())
    return True


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
