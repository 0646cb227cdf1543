"""Which items each transaction changed or removed, so that those who read beside a writer need not look at all.

Only the last transactions are noted; who is further behind reads everything. New items are known by their numbers.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from onlinehash.live.sqlite.ledger import Ledger, check_record
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
