"""Positions: how far an index has read what comes from elsewhere, such as a topic of Kafka or a stream of Redis.

A position is kept together with the change that was made of what was read, in the same transaction. So whoever goes on
from there after a crash repeats nothing and leaves nothing out.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.live.notes import Note, Noting
from onlinehash.live.sqlite import Store

#: Characters that the name of a source may have, and bytes of JSON of a position.
LONGEST_SOURCE, LONGEST_POSITION = 1024, 65536


def checked(source: Any, position: Any) -> str:
    """The position as JSON, if it is some, and the source is a name."""
    if not isinstance(source, str) or not 0 < len(source) <= LONGEST_SOURCE:
        raise InvalidInput(
            f"expected the name of a source, a text of 1 to {LONGEST_SOURCE} characters, got {checks.shown(source)}."
        )
    try:
        text = json.dumps(position, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(f"expected a position that JSON can hold, got {checks.shown(position)}.") from None
    if len(text) > LONGEST_POSITION:
        raise InvalidInput(f"expected a position of at most {LONGEST_POSITION} bytes of JSON, got {len(text)}.")
    return text


class Reached(Note):
    """How far a source was read with the change."""

    def __init__(self, positions: dict[str, str], source: str, position: Any) -> None:
        self._positions, self._source, self._text = positions, source, checked(source, position)
        self.call = f"reached({checks.shown(source)})"

    def prepare(self, outcome: Any) -> None:
        """It does not depend on what came of the change."""

    def write(self, store: Store) -> None:
        store.put_position(self._source, json.loads(self._text))

    def keep(self) -> None:
        self._positions[self._source] = self._text


class Positioning(Noting):
    """An index that knows how far its sources were read."""

    _lock: threading.RLock

    def _set_up_positions(self) -> None:
        self._positions = dict[str, str]()  # JSON texts, where there is no store

    @property
    def positions(self) -> dict[str, Any]:
        """How far each source was read: the position that was kept last, by the source's name."""
        self._check_open()
        if self._keeper is not None:
            return self._keeper.store.sources
        return {source: json.loads(text) for source, text in self._positions.items()}

    @contextmanager
    def reached(self, source: str, position: Any) -> Iterator[None]:
        """The one change that is made inside is kept together with this position of a source, in one transaction.

        The position is anything that JSON can hold. A refused change leaves the position as it was.
        """
        note = Reached(self._positions, source, position)
        self._check_open(writing=True)
        with self._noted(note):
            yield

    def put_position(self, source: str, position: Any) -> None:
        """Keep how far a source was read where that changed nothing else."""
        with self.reached(source, position), self._lock:
            self._check_open(writing=True)
            note = self._note()
            with nullcontext() if self._keeper is None else self._keeper.store.transaction():
                self._write_note(note)
            self._keep_note(note)
