"""The learner of an index on a shelf: in step with what all processes taught it, and kept with every change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

from onlinehash import files, format
from onlinehash.distributed.stores.draft import Draft
from onlinehash.distributed.stores.reading import ATTEMPTS, Gone, Reading
from onlinehash.distributed.stores.state import Log
from onlinehash.errors import FormatError, InvalidInput, NotReady, UnknownId
from onlinehash.learners.base import Learner
from onlinehash.live.follower import PAIRS_HORIZON, PAIRS_SIZE
from onlinehash.live.notes import Note
from onlinehash.live.positions import Positioning
from onlinehash.live.reservoir import Reservoir
from onlinehash.live.storage import expect, replay, wants_checkpoint
from onlinehash.live.teaching import Teaching

#: Lessons of a learner that has to be read anew.
UNKNOWN = -1


class Learning(Reading, Teaching, Positioning):
    """One learner for all processes: each follows the lessons of the others before it gives its own."""

    _keeper = None
    _n_changes: int
    _origin: object

    def _begin_to_learn(self) -> None:
        self._teacher, self._draft, self._lessons = 0, cast(Draft | None, None), UNKNOWN
        self._set_up_notes()
        self._set_up_positions()
        self._pairs, self._n_changes, self._changed = Reservoir(PAIRS_SIZE, 0, PAIRS_HORIZON), 0, 0
        self._learner: Learner | None = None
        self.learner.owned_by(self)

    # ------------------------------------------------------------------------------------------------ the learner

    @property
    def learner(self) -> Learner:
        """The learner, after all that any process taught it; only the index may teach it."""
        if not self.is_learning:
            with self._lock, self._teaching():
                self._catch_up()
        assert self._learner is not None
        return self._learner

    def _catch_up(self) -> None:
        """Follow what others taught."""
        for attempt in range(ATTEMPTS):
            state = (self._fresh() if attempt else self._now).state
            with suppress(Gone):  # others have written a checkpoint a moment ago
                self._learn_until(state.log)
                self._n_changes += state.changed - self._changed
                self._changed = state.changed
                return
        raise FormatError(f"expected a learner and its lessons in {self._shelf.address}, got some of them only.")

    def _learn_until(self, log: Log) -> None:
        known, self._lessons = self._lessons, UNKNOWN
        if self._learner is None or not log.first <= known <= log.next:
            blob, *events = self._contents([log.checkpoint, *log.lessons()])
            self._read_back(blob)
        elif known == log.next:
            events = []
        else:
            events = self._contents(log.lessons(known))
        assert self._learner is not None
        for event in events:
            lesson = format.from_bytes(event, f"a lesson in {self._shelf.address}")[1]
            replay(self._learner, [lesson])
            if lesson["what"] == "pairs":
                self._pairs.append(lesson["A"], lesson["B"], lesson["similar"])
        self._lessons = log.next

    def _contents(self, names: Sequence[str]) -> list[bytes]:
        found = self._shelf.blobs(names)
        if len(found) < len(names):
            raise Gone
        return [found[name] for name in names]

    def _read_back(self, blob: bytes) -> None:
        """Be the learner of a checkpoint; it stays the same object, as users may hold it."""
        name = f"learner in {self._shelf.address}"
        stored: Learner = expect(files.from_bytes(blob, name), Learner, name)
        if self._learner is None:
            self._learner = stored
        else:
            self._learner.set_state(stored.get_state())
        self._origin = self._learner.origin
        self._pairs = Reservoir(PAIRS_SIZE, 0, PAIRS_HORIZON)

    # ------------------------------------------------------------------------------------------------ changes

    @property
    def _is_changing(self) -> bool:
        return self.is_learning and self._draft is not None

    @contextmanager
    def _one_change(self) -> Iterator[Draft]:
        """One change of all processes at a time, whole or not at all: what fails leaves the learner as it is kept."""
        draft: Draft | None = None
        try:
            with self._shelf.changing() as change:
                draft = Draft(self._shelf, change)
                with self._pinning(draft.before), self._teaching():
                    self._catch_up()
                    self._draft = draft
                    yield draft
        except BaseException as error:
            self._draft = None
            is_refused = isinstance(error, InvalidInput | UnknownId | NotReady)  # which come before anything changes
            if not is_refused or (draft is not None and draft.is_taught):
                self._lessons = UNKNOWN
                with suppress(Exception), self._teaching():  # it is tried again when the learner is needed
                    self._catch_up()
            raise
        self._draft = None
        if draft.is_put:
            self._lessons = draft.after.state.log.next
            self._n_changes += draft.after.state.changed - self._changed
            self._changed = draft.after.state.changed

    @contextmanager
    def _kept(self, event: dict[str, Any] | None, outcome: Any = None) -> Iterator[Draft]:
        """Inside a change: what is written inside it, what the learner was taught, and a note that is wanted."""
        draft = self._draft
        assert draft is not None
        draft.is_taught = event is not None
        yield draft
        if event is not None:
            self._log(draft, event)
        self._write_note(self._note(), outcome)
        draft.put()

    def _log(self, draft: Draft, event: dict[str, Any]) -> None:
        """The lesson, or the learner after it, by the rule of `live.keeper`."""
        learner, log, litter = self.learner, draft.state.log, draft.state.litter
        is_fitted = hasattr(learner, "n_features_in_")
        if wants_checkpoint(event, log.n_bytes, log.checkpoint_bytes):
            blob, litter = files.to_bytes(learner), (*litter, log.checkpoint, *log.lessons())
            log = Log(log.next + 1, log.next + 1, 0, len(blob) if is_fitted else 0)
            draft.put_blob(log.checkpoint, blob)
        else:
            data = format.to_bytes("event", event)
            draft.put_blob(f"event/{log.next}", data)
            log = log._replace(next=log.next + 1, n_bytes=log.n_bytes + len(data))
        draft.state = replace(draft.state, log=log, litter=litter)
        if is_fitted:
            draft.state = replace(draft.state, n_features=learner.n_features_in_, dtype=learner.dtype_.name)

    # ------------------------------------------------------------------------------------------------ positions

    @property
    def positions(self) -> dict[str, Any]:
        """How far each source was read: the position that was kept last, by the source's name."""
        self._check_open()
        found: dict[str, Any] = json.loads(self._now.state.positions)
        return found

    def put_position(self, source: str, position: Any) -> None:
        """Keep how far a source was read where that changed nothing else."""
        with self.reached(source, position), self._lock:
            self._check_open(writing=True)
            with self._one_change(), self._kept(None):
                pass
            self._keep_note(self._note())

    def _write_note(self, note: Note | None, outcome: Any = None) -> None:
        if note is not None:
            note.prepare(outcome)
            note.write(cast(Any, self._draft))
