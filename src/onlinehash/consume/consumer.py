"""From messages to changes of an index: each message is applied exactly once, even across crashes.

A batch is read, its messages are combined into calls, and the index stores each call together with the position of its
last message. Only then are they acknowledged. After a crash, reading continues from the position. An invalid message is
written to the dead letters before the position passes it, so it may be there twice, but is never missing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from onlinehash.consume import messages
from onlinehash.consume.requests import Request
from onlinehash.consume.source import Entry, Source
from onlinehash.errors import InvalidInput, NotReady, NotSupported, UnknownId
from onlinehash.index.api import Capability, VectorIndex
from onlinehash.live import positions

#: Messages that are read at once, unless told otherwise: few enough to be kept soon, enough to share a transaction.
BATCH = 500

#: What an index refuses with before it changes anything.
REFUSALS = (InvalidInput, UnknownId, NotReady)


@dataclass
class Tally:
    """Counters."""

    messages: int = 0
    pairs: int = 0
    items: int = 0  #: added, updated or removed
    dead_letters: int = 0
    repeats: int = 0  #: came again, and were in the index already
    lag: int | None = None
    last_message: float = field(default_factory=time.monotonic)
    problem: str = ""  #: Why nothing goes on; empty while it does.

    @property
    def idle(self) -> float:
        """Seconds since a message came."""
        return time.monotonic() - self.last_message


class Taken(NamedTuple):
    """A valid message: its request, and how many entries of the batch are done once it is applied."""

    request: Request
    entry: Entry
    n_entries: int


class Consumer:
    """Applies one source to one index, which must store positions.

    No other consumer may read the same source under the same name into the same index at the same time.
    """

    def __init__(self, index: VectorIndex, source: Source, batch: int = BATCH) -> None:
        if batch < 1:
            raise InvalidInput(expected="batch to be at least 1", got=f"{batch}")
        if not index.supports(Capability.POSITIONS):
            raise NotSupported(f"a consumer needs an index that stores positions, and {type(index).__name__} does not.")
        self.index, self.source, self.batch = index, source, batch
        self.tally = Tally()
        self._is_under_way = False

    def step(self, wait: float = 1.0) -> int:
        """Process one batch, waiting at most `wait` seconds for it; returns the number of messages.

        If it raises, call it again: it continues after what was stored.
        """
        try:
            self._find_position()
            entries = self.source.read(self.batch, wait)
            if entries:
                new = [entry for entry in entries if not self.source.is_past(self._position, entry)]
                try:
                    self._take(new)
                finally:
                    self.tally.messages += self._n_kept  # some may be kept when the broker goes away in the middle
                self.tally.repeats += len(entries) - len(new)
                self.tally.last_message = time.monotonic()
                self.source.acknowledge(entries)
        except BaseException:
            self._is_under_way = False
            raise
        return len(entries)

    def _find_position(self) -> None:
        position = self.index.positions.get(self.source.name)
        if not self._is_under_way:
            self.source.begin(position)
            self._position, self._is_under_way = position, True
        elif position != self._position:
            raise InvalidInput(f"another consumer reads {self.source.name} into this index; stop one of them.")

    def _take(self, entries: Sequence[Entry]) -> None:
        """Apply these entries to the index, with their positions."""
        self._entries, self._n_kept = entries, 0
        taken = []
        for number, entry in enumerate(entries, 1):
            try:
                if entry.data is None:
                    raise InvalidInput("the entry has no message; in Redis, it belongs into the field `message`.")
                taken.append(Taken(messages.read(entry.data), entry, number))
            except InvalidInput as error:
                self._bury(entry, error)
        for _, run in groupby(taken, key=lambda one: one.request.fits):
            self._change(list(run))
        if self._n_kept < len(entries):  # the last ones are dead letters
            position = self._after(len(entries))
            self.index.put_position(self.source.name, position)
            self._n_kept, self._position = len(entries), position

    def _change(self, run: list[Taken]) -> None:
        """Apply them in one call; if it is refused, split in halves until the refused ones are alone."""
        position = self._after(run[-1].n_entries)
        requests = [one.request for one in run]
        try:
            with self.index.reached(self.source.name, position):
                type(requests[0]).make(self.index, requests)
        except REFUSALS as error:
            if len(run) == 1:
                self._bury(run[0].entry, error)
            else:
                self._change(run[: len(run) // 2])
                self._change(run[len(run) // 2 :])
            return
        self._n_kept, self._position = run[-1].n_entries, position
        if requests[0].is_pair:
            self.tally.pairs += len(run)
        else:
            self.tally.items += len(run)

    def _after(self, n_entries: int) -> Any:
        """The position after the first entries of the batch; if it is none that can be kept, no message is to blame."""
        position = self.source.advanced(self._position, self._entries[self._n_kept : n_entries])
        positions.checked(self.source.name, position)
        return position

    def _bury(self, entry: Entry, error: Exception) -> None:
        self.source.bury(entry, str(error))
        self.tally.dead_letters += 1
