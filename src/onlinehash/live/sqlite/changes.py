"""Which items each transaction changed or removed, and what a reader beside a writer does not know yet.

Only the last transactions are noted; who is further behind reads everything. New items are known by their numbers. What
is new is read at a cost that follows what changed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.live.sqlite.checksums import Ledger, check_record
from onlinehash.live.sqlite.receipts import Book, News, read_news
from onlinehash.live.sqlite.records import (
    Contents,
    Encoders,
    LearnerAndLog,
    read_codes,
    read_encoders,
    read_events,
    read_from,
    read_learner,
    read_positions,
    read_settings,
    read_some,
)
from onlinehash.live.sqlite.row_numbers import RowNumbers
from onlinehash.live.sqlite.schema import check_tables, tables_of
from onlinehash.live.sqlite.state import State

#: When more transactions or more numbers are noted, the older half is forgotten.
MOST_NOTES, MOST_NUMBERS = 1 << 14, 1 << 18


def note_changes(connection: sqlite3.Connection, state: State, numbers: np.ndarray) -> None:
    """Inside a transaction, whose number the state has: the numbers of the items that it changed or removed."""
    ledger = Ledger(connection, state.totals)
    ledger.insert("changes", [(state.commit, np.ascontiguousarray(numbers, np.int64).tobytes())])
    state.noted += len(numbers)
    if state.noted <= MOST_NUMBERS and _notes(state) <= MOST_NOTES:
        return
    for key, n in connection.execute("SELECT key, length(value) / 8 FROM changes ORDER BY key").fetchall():
        if state.noted <= MOST_NUMBERS // 2 and _notes(state) <= MOST_NOTES // 2:
            return
        ledger.delete("changes", [key])
        state.noted, state.forgotten = state.noted - n, key


def _notes(state: State) -> int:
    return state.totals["changes"][0]


def read_changes(connection: sqlite3.Connection, folder: Path, after: int) -> np.ndarray:
    """The numbers that were noted after a transaction, ascending."""
    found = connection.execute("SELECT key, sum, value FROM changes WHERE key > ? ORDER BY key", (after,)).fetchall()
    for key, total, value in found:
        check_record(folder, "changes", key, total, [value])
    return np.unique(np.frombuffer(b"".join(value for _, _, value in found), np.int64))


#: A difference of more items than this share of them, and than so many, is no gain over reading everything.
LARGE_SHARE, FEW = 0.5, 1000


class Difference(NamedTuple):
    """What is new; `codes` are of all positions that were known, if a refresh made them anew.

    The learner is given whole (a checkpoint and its log), or by what it was taught since, or not at all.
    """

    state: State
    removed: np.ndarray
    changed: Contents
    added: Contents
    codes: np.ndarray | None
    settings: dict[str, Any] | None
    positions: dict[str, Any]
    encoders: Encoders | None
    learner: LearnerAndLog | None
    events: list[dict[str, Any]]
    receipts: News

    @property
    def n_items(self) -> int:
        """Items that were added, changed or removed."""
        return len(self.added.ids) + len(self.changed.ids) + len(self.removed)


def read_difference(
    connection: sqlite3.Connection,
    folder: Path,
    known: State,
    row_numbers: RowNumbers,
    book: Book,
    known_settings: dict[str, Any],
) -> Difference | None:
    """All that changed since a state; None where it takes reading everything to know it, or something does not fit."""
    state = State.read(connection, folder)
    check_tables(connection, folder)
    same_kind = all(getattr(known, name) == getattr(state, name) for name in ("dtype", "width", "code_bytes"))
    n_new = state.next_number - known.next_number
    if state.commit < known.commit or not same_kind or _is_large(n_new, known):
        return None
    touched = np.empty(0, np.int64)
    if state.rewritten > known.commit:
        if known.commit < state.forgotten or "changes" not in tables_of(connection):
            return None
        touched = read_changes(connection, folder, known.commit)
        touched = touched[touched < known.next_number]
        touched = touched[row_numbers.alive(touched)]  # what was known to be removed stays so
    if _is_large(n_new + len(touched), known):
        return None
    settings = read_settings(connection, folder)
    refreshed = settings != known_settings  # their table's total also follows positions, which change no codes
    refreshed |= known.totals["encoders"] != state.totals["encoders"]
    changed = read_some(connection, folder, state, touched)
    added = read_from(connection, folder, state, known.next_number)
    removed = touched[~np.isin(touched, changed.numbers)]
    if known.alive - len(removed) + len(added.numbers) != state.alive:
        return None
    learner, events = _taught(connection, folder, known, state)
    return Difference(
        state,
        removed,
        changed,
        added,
        read_codes(connection, folder, state, row_numbers.numbers) if refreshed else None,
        settings if refreshed else None,
        read_positions(connection, folder),
        read_encoders(connection, folder) if refreshed else None,
        learner,
        events,
        read_news(connection, folder, book),
    )


def _is_large(n: int, known: State) -> bool:
    return n > max(FEW, LARGE_SHARE * known.alive)


def _taught(
    connection: sqlite3.Connection, folder: Path, known: State, state: State
) -> tuple[LearnerAndLog | None, list[dict[str, Any]]]:
    """The learner, if it was written whole since, or else what was added to its log."""
    if known.totals["learner"] == state.totals["learner"]:
        if known.totals["events"] == state.totals["events"]:
            return None, []
        number, total = known.totals["events"]
        events, more = read_events(connection, folder, number)
        if [number + len(events), (total + more) % 2**64] == state.totals["events"]:
            return None, events
    return read_learner(connection, folder), []
