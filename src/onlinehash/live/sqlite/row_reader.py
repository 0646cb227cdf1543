"""Vectors out of a store's database: some rows by their numbers, or all of them in blocks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from onlinehash.live.sqlite.batch import checked_rows
from onlinehash.live.sqlite.ledger import damaged
from onlinehash.live.sqlite.state import State

READ_ROWS = 4096
READ_BYTES = 32 << 20  #: Fewer rows at a time, where they are so wide.
ALIGNED_ROWS = 64

#: The block that a number would be in, and the blocks between it and another number.
_BLOCK_OF = "SELECT key, numbers, row_sums FROM blocks WHERE key <= ? ORDER BY key DESC LIMIT 1"
_BLOCKS_BETWEEN = (
    "SELECT key FROM blocks WHERE key >= coalesce((SELECT max(key) FROM blocks WHERE key <= ?), ?) AND key <= ?"
)


class Reader:
    """Reads vectors as one connection sees them, and checks every row that it hands out."""

    def __init__(self, connection: sqlite3.Connection, folder: Path, state: State) -> None:
        self._connection, self._folder, self._state = connection, folder, state
        self._last: tuple[int, np.ndarray, np.ndarray] | None = None

    def take(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows with these numbers, and a mask of those that there are; the others are zeros."""
        wanted, places = np.unique(numbers, return_inverse=True)
        rows = np.zeros((len(wanted), self._state.width), self._state.dtype or np.float32)
        found = np.zeros(len(wanted), np.bool_)
        self._take_singles(wanted, rows, found)
        i = 0
        while i < len(wanted):
            block = None if found[i] else self._connection.execute(_BLOCK_OF, (int(wanted[i]),)).fetchone()
            if block is None:
                i += 1
                continue
            held = self._numbers(block[0], block[1])
            stop = i + int(np.searchsorted(wanted[i:], held[-1], side="right"))
            if stop > i:
                self._take_sealed(block[0], held, block[2], wanted[i:stop], rows[i:stop], found[i:stop])
            i = max(stop, i + 1)
        return rows[places], found[places]

    def _take_singles(self, wanted: np.ndarray, rows: np.ndarray, found: np.ndarray) -> None:
        for i, number in enumerate(wanted.tolist()):
            single = self._connection.execute("SELECT row_sum, vector FROM rows WHERE key = ?", (number,)).fetchone()
            if single is not None:
                rows[i] = self._checked("rows", wanted[i : i + 1], single[0], single[1])[0]
                found[i] = True

    def _take_sealed(
        self, key: int, held: np.ndarray, sums: bytes, wanted: np.ndarray, rows: np.ndarray, found: np.ndarray
    ) -> None:
        """Rows out of one block, each by itself; those that were found already are passed over."""
        guesses = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
        absent = found | (held[guesses] != wanted)
        gone = self._gone(int(wanted[0]), int(wanted[-1]))
        if len(gone):
            absent |= np.isin(wanted, gone)
        places = np.flatnonzero(~absent)
        if len(places) == 0:
            return
        size = self._state.row_bytes
        inside = guesses[places].tolist()
        with self._connection.blobopen("blocks", "vectors", key, readonly=True) as blob:
            if len(blob) != len(held) * size or len(sums) != 8 * len(held):
                raise damaged(self._folder, "blocks", key, "vectors or their sums are too short or too long")
            pieces = []
            for i in inside:
                blob.seek(i * size)
                pieces.append(blob.read(size))
        expected = np.frombuffer(sums, np.uint64)[inside].tobytes()
        rows[places] = self._checked("blocks", wanted[places], expected, b"".join(pieces))
        found[places] = True

    # ------------------------------------------------------------------ all of them

    def blocks(self, numbers: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The rows of ascending numbers block by block: (first place, rows, mask of those that there are)."""
        size = READ_BYTES // max(1, self._state.row_bytes) // ALIGNED_ROWS * ALIGNED_ROWS
        step = max(ALIGNED_ROWS, min(READ_ROWS, size))
        for first in range(0, len(numbers), step):
            wanted = numbers[first : first + step]
            rows = np.zeros((len(wanted), self._state.width), self._state.dtype or np.float32)
            found = np.zeros(len(wanted), np.bool_)
            self._fill(wanted, rows, found)
            yield first, rows, found

    def _fill(self, wanted: np.ndarray, rows: np.ndarray, found: np.ndarray) -> None:
        low, high = int(wanted[0]), int(wanted[-1])
        for (key,) in self._connection.execute(_BLOCKS_BETWEEN, (low, low, high)).fetchall():
            held, sealed = self._sealed(key)
            inside = slice(*np.searchsorted(held, [low, high + 1]).tolist())
            _scatter(held[inside], sealed[inside], wanted, rows, found)
        gone = np.isin(wanted, self._gone(low, high))
        rows[gone], found[gone] = 0, False
        singles = self._connection.execute(
            "SELECT key, row_sum, vector FROM rows WHERE key >= ? AND key <= ? ORDER BY key", (low, high)
        ).fetchall()
        for key, row_sum, vector in singles:
            number = np.array([key])
            _scatter(number, self._checked("rows", number, row_sum, vector), wanted, rows, found)

    def _sealed(self, key: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and rows of a block; the last one is kept, as what is read next mostly begins in it."""
        if self._last is None or self._last[0] != key:
            numbers, sums, vectors = self._connection.execute(
                "SELECT numbers, row_sums, vectors FROM blocks WHERE key = ?", (key,)
            ).fetchone()
            held = self._numbers(key, numbers)
            self._last = key, held, self._checked("blocks", held, sums, vectors)
        return self._last[1], self._last[2]

    def _numbers(self, key: int, data: bytes) -> np.ndarray:
        if not isinstance(data, bytes) or len(data) % 8 or not data:
            raise damaged(self._folder, "blocks", key, "its numbers are too short or too long")
        return np.frombuffer(data, np.int64)

    def _gone(self, low: int, high: int) -> np.ndarray:
        found = self._connection.execute("SELECT key FROM gone WHERE key >= ? AND key <= ?", (low, high)).fetchall()
        return np.array([key for (key,) in found], np.int64)

    def _checked(self, table: str, numbers: np.ndarray, sums: bytes, vectors: bytes) -> np.ndarray:
        return checked_rows(self._folder, table, self._state, numbers, [sums], [vectors])


def _scatter(numbers: np.ndarray, source: np.ndarray, wanted: np.ndarray, rows: np.ndarray, found: np.ndarray) -> None:
    """Put the rows that are wanted into their places; nearly always all are wanted, and lie side by side."""
    if len(numbers) == 0:
        return
    places = np.searchsorted(wanted, numbers)
    if places[-1] - places[0] == len(numbers) - 1 and np.array_equal(wanted[places[0] : places[-1] + 1], numbers):
        rows[places[0] : places[-1] + 1] = source
        found[places[0] : places[-1] + 1] = True
        return
    known = np.flatnonzero(wanted[np.minimum(places, len(wanted) - 1)] == numbers)
    rows[places[known]] = source[known]
    found[places[known]] = True
