"""Notes: what a thread wants to have kept together with its next change, in the same transaction."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onlinehash.errors import InvalidInput
from onlinehash.live.sqlite import Store
from onlinehash.live.storage import Keeper


class Note(ABC):
    """Something about one change, kept exactly if the change is made."""

    #: How it is called in messages: the call that takes it.
    call: str
    is_spent = False

    @abstractmethod
    def prepare(self, outcome: Any) -> None:
        """What came of the change, before it counts."""

    @abstractmethod
    def write(self, store: Store) -> None:
        """Inside the transaction of the change."""

    @abstractmethod
    def keep(self) -> None:
        """In memory, when the change is made."""


class Noting(ABC):
    """An index that keeps notes with changes."""

    _keeper: Keeper | None

    def _set_up_notes(self) -> None:
        self._mine = threading.local()

    @abstractmethod
    def _check_open(self, writing: bool = False) -> None:
        """Refuse what cannot be done now."""

    @contextmanager
    def _noted(self, note: Note) -> Iterator[None]:
        """The one change that this thread makes inside is kept together with the note."""
        present = self._note()
        if present is not None:
            around, name = (known.call.partition("(")[0] for known in (present, note))
            raise InvalidInput(f"expected one change at a time inside {around}, got {name} inside {around}.")
        self._mine.note = note
        try:
            yield
        finally:
            self._mine.note = None

    def _note(self) -> Note | None:
        """What this thread wants to have kept."""
        note: Note | None = getattr(self._mine, "note", None)
        return note

    def _check_unspent(self) -> None:
        note = self._note()
        if note is not None and note.is_spent:
            raise InvalidInput(f"expected one change inside {note.call}, got another; make it after.")

    def _write_note(self, note: Note | None, outcome: Any = None) -> None:
        """Inside the transaction of a change, where there is one; in memory `_keep_note` comes when it is made."""
        if note is not None:
            note.prepare(outcome)
            if self._keeper is not None:
                note.write(self._keeper.store)

    def _keep_note(self, note: Note | None) -> None:
        """The change was made."""
        if note is not None and not note.is_spent:
            if self._keeper is None:
                note.keep()
            note.is_spent = True
