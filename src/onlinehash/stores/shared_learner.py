"""`SharedLearner`: one learner for all processes; each replays what the others taught before it adds its own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from onlinehash.errors import FormatError
from onlinehash.io import files, format
from onlinehash.learners.base import Learner
from onlinehash.learners.taught import Taught
from onlinehash.live.refresher import Refresher
from onlinehash.live.storage import expect, naming_a_way_out, read_back, replay, wants_checkpoint
from onlinehash.stores.manifest import Log, State
from onlinehash.stores.reader import ATTEMPTS, Gone, Reader
from onlinehash.stores.transaction import Draft

#: The length of the log of a learner that has to be read again.
UNKNOWN = -1


class SharedLearner:
    """The learner of an index in a database, in step with what all processes taught it.

    It stays the same object, as users may hold it. The refresher hears of pairs and of items that changed elsewhere.
    """

    def __init__(self, reader: Reader, refresher: Refresher) -> None:
        self._reader, self._refresher = reader, refresher
        self._learner: Learner | None = None
        self._lessons, self._changed = UNKNOWN, 0
        #: As of the last time it caught up or a change was committed; anybody may look at it without a lock.
        self.taught = Taught()

    @property
    def learner(self) -> Learner:
        """The learner as of the last time it caught up."""
        assert self._learner is not None
        return self._learner

    def is_behind(self, state: State) -> bool:
        """Whether others taught something, as of this state, that the learner does not know yet."""
        return self._lessons < state.log.next

    def catch_up(self) -> None:
        """Replay what other processes taught."""
        for attempt in range(ATTEMPTS):
            state = (self._reader.fresh() if attempt else self._reader.now).state
            with suppress(Gone), naming_a_way_out(self._address):  # others have written a checkpoint a moment ago
                self._learn_until(state.log)
                self._count_changes(state)
                return
        with naming_a_way_out(self._address):
            raise FormatError(f"parts of the learner in {self._address} are missing.")

    @property
    def _address(self) -> str:
        return self._reader.backend.address

    def _learn_until(self, log: Log) -> None:
        known, self._lessons = self._lessons, UNKNOWN
        if self._learner is None or not log.first <= known <= log.next:
            blob, *events = self._reader.contents([log.checkpoint, *log.lessons()])
            self._read_back(blob)
        elif known == log.next:
            events = []
        else:
            events = self._reader.contents(log.lessons(known))
        for event in events:
            lesson = format.from_bytes(event, f"a lesson in {self._address}")[1]
            replay(self.learner, [lesson])
            if lesson["what"] == "pairs":
                self._refresher.pairs.append(lesson["A"], lesson["B"], lesson["similar"])
        self._lessons = log.next
        if known != log.next:
            self.taught = Taught.of(self.learner)

    def _read_back(self, blob: bytes) -> None:
        """Take over the state of a checkpoint."""
        name = f"learner in {self._address}"
        stored = expect(files.from_bytes(blob, name), Learner, name).keep_metric()
        if self._learner is None:
            self._learner = stored
        else:
            self._learner.set_state(stored.get_state())
        self._refresher.is_same_learner(self._learner)
        self._refresher.forget_pairs()

    def _count_changes(self, state: State) -> None:
        self._refresher.items_changed(state.changed - self._changed)
        self._changed = state.changed

    def undo(self) -> None:
        """After a failed change: return to what is on the backend, now or when it is next needed."""
        self._lessons = UNKNOWN
        with suppress(Exception):
            self.catch_up()

    def accept(self, state: State) -> None:
        """Note that a change of this learner was committed."""
        self._lessons = state.log.next
        self.taught = Taught.of(self.learner)
        self._count_changes(state)

    def log(self, draft: Draft, *events: dict[str, Any]) -> None:
        """Write the lessons that were just learned, or the learner after them, by the rule of `live.storage`."""
        learner, log, litter = self.learner, draft.state.log, draft.state.litter
        is_fitted = hasattr(learner, "n_features_in_")
        if wants_checkpoint(events, log.n_bytes, log.checkpoint_bytes):
            blob, litter = read_back(learner), (*litter, log.checkpoint, *log.lessons())
            log = Log(log.next + 1, log.next + 1, 0, len(blob) if is_fitted else 0)
            draft.put_blob(log.checkpoint, blob)
        else:
            learner.check_finite()
            for event in events:
                data = format.to_bytes("event", event)
                draft.put_blob(f"event/{log.next}", data)
                log = log._replace(next=log.next + 1, n_bytes=log.n_bytes + len(data))
        draft.state = replace(draft.state, log=log, litter=litter)
        if is_fitted:
            draft.state = replace(draft.state, n_features=learner.n_features_in_, dtype=learner.dtype_.name)
