"""What a store says of itself: one record, written by every transaction."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from onlinehash.io import format
from onlinehash.live.sqlite.checksums import Totals, damaged, read_value, record_sum
from onlinehash.live.sqlite.schema import COLUMNS, STATE_KEY


@dataclass
class State:
    """Counts and shapes; `totals` has the number of records of each table and the sum of their sums."""

    commit: int = 0  #: transactions so far
    rewritten: int = 0  #: the last one that changed or removed items
    alive: int = 0  #: items
    next_number: int = 0  #: of the next row
    next_id: int = 0  #: of an item that comes without one: above all that ever were
    sealed: int = 0  #: rows of smaller numbers are in blocks; the tail begins here
    tail: int = 0  #: living rows in it
    dtype: str = ""  #: of the vectors, empty as long as there were none
    width: int = 0  #: of the vectors
    code_bytes: int = 0  #: of one code, 0 as long as there were none
    codes_at: int = 0  #: the key of the first codes; others are those of a refresh that is under way or was given up
    log_bytes: int = 0  #: in the learner's log
    noted: int = 0  #: numbers in the table of changes
    forgotten: int = 0  #: the last transaction whose changes are not noted any more
    totals: Totals = field(default_factory=lambda: {table: [0, 0] for table in COLUMNS if table != "state"})

    @property
    def row_bytes(self) -> int:
        """Bytes of a vector."""
        return self.width * np.dtype(self.dtype or "float32").itemsize

    def copy(self) -> State:
        """One that does not change with this one."""
        return replace(self, totals={table: list(entry) for table, entry in self.totals.items()})

    def write(self, connection: sqlite3.Connection) -> None:
        """Put it into the database."""
        values = {name: value for name, value in vars(self).items() if name != "codes_at" or value}  # new in format 3
        value = json.dumps(values).encode()
        total = record_sum("state", STATE_KEY, [value])
        connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (STATE_KEY, total, value))

    @classmethod
    def read(cls, connection: sqlite3.Connection, folder: Path) -> State:
        """What the database says, as the connection sees it."""
        value = read_value(connection, folder, "state", STATE_KEY)
        if value is None:
            raise damaged(folder, "state", STATE_KEY, "it is missing")
        try:
            state = cls(**json.loads(value))
        except (ValueError, TypeError, RecursionError):
            raise damaged(folder, "state", STATE_KEY, "it is not that of a store") from None
        if not state._is_sound:
            raise damaged(folder, "state", STATE_KEY, "a number is out of its range")
        return state

    @property
    def _is_sound(self) -> bool:
        """Whether each field is what it must be, as a file can say anything."""
        plain = {name: value for name, value in vars(self).items() if name not in ("dtype", "totals")}
        entries = self.totals.values() if isinstance(self.totals, dict) else [None]
        return (
            self.dtype in ("", "float32", "float64")
            and all(type(value) is int and 0 <= value <= format.MOST for value in plain.values())
            and all(isinstance(entry, list) and [type(part) for part in entry] == [int, int] for entry in entries)
            and self.totals.keys() <= COLUMNS.keys()
        )
