"""Sealed blocks: the tail becomes blocks when it is long enough, and blocks with many dead rows are written anew.

Numbers ascend from block to block, so that the block of a number is the last one that begins at or before it. A row
that is removed from a block is noted as gone; one that is changed lies in the table of rows, and overrides the block's.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from onlinehash.live.sqlite.batch import Batch, block_record, joined, read_block, read_singles, single_records
from onlinehash.live.sqlite.ledger import Ledger
from onlinehash.live.sqlite.state import State

BLOCK_ROWS = 2000
BLOCK_BYTES = 32 << 20  #: Fewer rows, where they are so wide.

#: A block is written anew when more of its rows are gone or overridden. With a quarter, what is stale takes at most a
#: third of the room of what is not, in files and in every scan, and a change makes at most four rows be written anew.
STALE_SHARE = 0.25

_AFTER_ALL = 2**62


class Sealing:
    """What changes items in the database, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, folder: Path, state: State) -> None:
        self._connection, self._folder, self._state = connection, folder, state
        self._ledger = Ledger(connection, state.totals)

    def add(self, batch: Batch) -> None:
        """New items after all others: into the tail, or into blocks together with the tail."""
        size = self._block_rows()
        state = self._state
        if state.tail + len(batch.numbers) >= size:
            tail = read_singles(self._connection, self._folder, state, state.sealed, _AFTER_ALL)
            self._ledger.delete("rows", tail.numbers.tolist())
            head = max(0, size - state.tail)
            self._seal(joined([tail, batch.part(0, head)]))
            whole = head + (len(batch.numbers) - head) // size * size
            for start in range(head, whole, size):
                self._seal(batch.part(start, start + size))
            batch = batch.part(whole, len(batch.numbers))
            state.tail = 0
        self._ledger.insert("rows", single_records(batch))
        state.tail += len(batch.numbers)

    def _seal(self, batch: Batch) -> None:
        self._ledger.insert("blocks", [block_record(batch)])
        self._state.sealed = max(self._state.sealed, int(batch.numbers[-1]) + 1)

    def _block_rows(self) -> int:
        return max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(1, self._state.row_bytes)))

    def override(self, batch: Batch) -> None:
        """New contents of known items."""
        self._ledger.delete("rows", batch.numbers.tolist())
        self._ledger.insert("rows", single_records(batch))
        self._compact(batch.numbers)

    def remove(self, numbers: np.ndarray) -> None:
        """Take items away."""
        self._ledger.delete("rows", numbers.tolist())
        sealed = numbers[numbers < self._state.sealed]
        self._state.tail -= len(numbers) - len(sealed)
        self._ledger.insert("gone", ((number,) for number in sealed.tolist()))
        self._compact(sealed)

    # ------------------------------------------------------------------ compaction

    def _compact(self, touched: np.ndarray) -> None:
        """Write anew those blocks around the touched rows that have become too stale."""
        left = np.sort(touched)
        while len(left):
            found = self._connection.execute("SELECT max(key) FROM blocks WHERE key <= ?", (int(left[0]),)).fetchone()
            if found[0] is None or left[0] >= self._state.sealed:
                return
            stop = self._stop(found[0])
            left = left[left >= stop]
            if self._is_stale(found[0], stop):
                self._rewrite(found[0], stop)

    def _stop(self, key: int) -> int:
        """The number at which the next block begins, or the tail."""
        (following,) = self._connection.execute("SELECT min(key) FROM blocks WHERE key > ?", (key,)).fetchone()
        return self._state.sealed if following is None else int(following)

    def _is_stale(self, key: int, stop: int) -> bool:
        (rows,) = self._connection.execute("SELECT length(numbers) / 8 FROM blocks WHERE key = ?", (key,)).fetchone()
        stale = sum(len(self._keys(table, key, stop)) for table in ("rows", "gone"))
        return stale > rows * STALE_SHARE

    def _rewrite(self, key: int, stop: int) -> None:
        """The living rows of a block, in one with those of a neighbour where they fit."""
        living = self._take_out(key, stop)
        for neighbour in self._neighbours(key):
            if 0 < len(living.numbers) <= self._block_rows() - self._n_living(neighbour):
                living = joined([living, self._take_out(neighbour, self._stop(neighbour))])
        if len(living.numbers):
            self._ledger.insert("blocks", [block_record(living)])

    def _neighbours(self, key: int) -> list[int]:
        """The blocks before and after."""
        found = self._connection.execute(
            "SELECT (SELECT max(key) FROM blocks WHERE key < ?), (SELECT min(key) FROM blocks WHERE key > ?)",
            (key, key),
        ).fetchone()
        return [int(neighbour) for neighbour in found if neighbour is not None]

    def _n_living(self, key: int) -> int:
        (rows,) = self._connection.execute("SELECT length(numbers) / 8 FROM blocks WHERE key = ?", (key,)).fetchone()
        return int(rows) - len(self._keys("gone", key, self._stop(key)))

    def _take_out(self, key: int, stop: int) -> Batch:
        """The living rows of a block as they are now, which with all that belongs to it leaves the tables."""
        sealed = read_block(self._connection, self._folder, self._state, key)
        changed = read_singles(self._connection, self._folder, self._state, key, stop)
        gone = self._keys("gone", key, stop)
        stale = np.isin(sealed.numbers, np.concatenate([changed.numbers, gone]))
        self._ledger.delete("blocks", [key])
        self._ledger.delete("rows", changed.numbers.tolist())
        self._ledger.delete("gone", gone.tolist())
        return joined([sealed.where(~stale), changed])

    def _keys(self, table: str, first: int, stop: int) -> np.ndarray:
        found = self._connection.execute(f"SELECT key FROM {table} WHERE key >= ? AND key < ?", (first, stop))
        return np.array([key for (key,) in found], np.int64)
