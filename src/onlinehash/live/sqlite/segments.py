"""Vectors, ids and payloads in the database: single rows of the tail, and sealed blocks of many.

The tail becomes blocks when it is long enough, and blocks with many dead rows are written anew. Numbers ascend from
block to block, so that the block of a number is the last one that begins at or before it. A row that is removed from a
block is noted as gone; one that is changed lies in the table of rows, and overrides the block's.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.errors import FormatError
from onlinehash.live.sqlite.checksums import Ledger, check_record, conditions, damaged, row_sums
from onlinehash.live.sqlite.state import State


class Batch(NamedTuple):
    """Items in the order of their numbers; a payload is a JSON text or None."""

    numbers: np.ndarray
    ids: list[Any]
    payloads: list[str | None]
    rows: np.ndarray

    def part(self, start: int, stop: int) -> Batch:
        """Some of them, with views of the rows."""
        numbers, ids, payloads, rows = self
        return Batch(numbers[start:stop], ids[start:stop], payloads[start:stop], rows[start:stop])

    def where(self, wanted: np.ndarray) -> Batch:
        """Those for which the mask is true."""
        places = np.flatnonzero(wanted)
        ids, payloads = ([column[i] for i in places.tolist()] for column in (self.ids, self.payloads))
        return Batch(self.numbers[places], ids, payloads, self.rows[places])


def joined(batches: Sequence[Batch]) -> Batch:
    """All of them in the order of their numbers."""
    batches = [batch for batch in batches if len(batch.numbers)] or batches[:1]
    if len(batches) == 1:
        return batches[0]
    numbers = np.concatenate([batch.numbers for batch in batches])
    order = np.argsort(numbers, kind="stable")
    ids, payloads = ([item for batch in batches for item in batch[column]] for column in (1, 2))
    rows = np.concatenate([batch.rows for batch in batches])
    if (order[1:] < order[:-1]).any():
        ids, payloads = ([column[i] for i in order.tolist()] for column in (ids, payloads))
        numbers, rows = numbers[order], rows[order]
    return Batch(numbers, ids, payloads, rows)


# ------------------------------------------------------------------ single rows


def single_records(batch: Batch) -> Iterator[tuple[Any, ...]]:
    """The records of the table of rows."""
    sums = row_sums(batch.rows, batch.numbers)
    for number, row_sum, name, payload, row in zip(
        batch.numbers.tolist(), sums, batch.ids, batch.payloads, batch.rows, strict=True
    ):
        yield (number, row_sum.tobytes(), json.dumps(name).encode(), _encoded(payload), row.tobytes())


def read_singles(connection: sqlite3.Connection, folder: Path, state: State, first: int, stop: int) -> Batch:
    """The table's rows with numbers in a range."""
    found = connection.execute(
        "SELECT key, sum, row_sum, id, payload, vector FROM rows WHERE key >= ? AND key < ? ORDER BY key", (first, stop)
    ).fetchall()
    for key, total, row_sum, name, payload, _ in found:
        check_record(folder, "rows", key, total, (row_sum, name, payload))
    numbers = np.array([record[0] for record in found], np.int64)
    rows = checked_rows(folder, "rows", state, numbers, (r[2] for r in found), (r[5] for r in found))
    names: list[Any] = json.loads(b"[%b]" % b",".join(record[3] for record in found))  # at once, as they are many
    if len(names) != len(found):
        raise damaged(folder, "rows", _range(numbers), "an id is none, or several")
    return Batch(numbers, names, [_decoded(record[4]) for record in found], rows)


def _encoded(payload: str | None) -> bytes | None:
    return None if payload is None else payload.encode()


def _decoded(payload: bytes | None) -> str | None:
    return None if payload is None else payload.decode()


# ------------------------------------------------------------------ sealed blocks


def block_record(batch: Batch) -> tuple[Any, ...]:
    """The record of a sealed block."""
    numbers = np.ascontiguousarray(batch.numbers, np.int64)
    sums = row_sums(batch.rows, numbers)
    payloads = json.dumps(batch.payloads).encode() if any(text is not None for text in batch.payloads) else None
    names = json.dumps(batch.ids).encode()
    return (int(numbers[0]), numbers.tobytes(), sums.tobytes(), names, payloads, batch.rows.data.cast("B"))


def block_contents(
    folder: Path, key: int, total: Any, columns: tuple[Any, ...]
) -> tuple[np.ndarray, list[Any], list[str | None]]:
    """Numbers, ids and payloads out of (numbers, row_sums, ids, payloads)."""
    check_record(folder, "blocks", key, total, columns)
    numbers, _, names, payloads = columns
    places = np.frombuffer(numbers, np.int64)
    return places, json.loads(names), [None] * len(places) if payloads is None else json.loads(payloads)


def read_block(connection: sqlite3.Connection, folder: Path, state: State, key: int) -> Batch:
    """A sealed block as it was sealed."""
    total, *columns, vectors = connection.execute(
        "SELECT sum, numbers, row_sums, ids, payloads, vectors FROM blocks WHERE key = ?", (key,)
    ).fetchone()
    numbers, names, payloads = block_contents(folder, key, total, tuple(columns))
    return Batch(numbers, names, payloads, checked_rows(folder, "blocks", state, numbers, [columns[1]], [vectors]))


def checked_rows(
    folder: Path, table: str, state: State, numbers: np.ndarray, sums: Iterable[Any], vectors: Iterable[Any]
) -> np.ndarray:
    """The rows with these numbers, out of pieces of their bytes and of their sums."""
    pieces, sum_pieces = list(vectors), list(sums)
    if not all(isinstance(piece, bytes) for piece in pieces + sum_pieces):
        raise damaged(folder, table, _range(numbers), "a value is of another kind")
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    expected = sum_pieces[0] if len(sum_pieces) == 1 else b"".join(sum_pieces)
    if len(data) != len(numbers) * state.row_bytes or len(expected) != 8 * len(numbers):
        raise damaged(folder, table, _range(numbers), "vectors or their sums are too short or too long")
    rows = np.frombuffer(data, state.dtype or np.float32).reshape(len(numbers), state.width)
    wrong = np.flatnonzero(row_sums(rows, numbers) != np.frombuffer(expected, np.uint64))
    if len(wrong):
        raise damaged(folder, table, _range(numbers), f"the sum of row {numbers[wrong[0]]} differs")
    return rows


def _range(numbers: np.ndarray) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) else "none"


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
            self._ledger.delete_between("rows", state.sealed, _AFTER_ALL)
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
        found = self._connection.execute("SELECT length(numbers) / 8 FROM blocks WHERE key = ?", (key,)).fetchone()
        stale = sum(self._count(table, key, stop) for table in ("rows", "gone"))
        return stale > int(found[0]) * STALE_SHARE

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
        return int(rows) - self._count("gone", key, self._stop(key))

    def _take_out(self, key: int, stop: int) -> Batch:
        """The living rows of a block as they are now, which with all that belongs to it leaves the tables."""
        sealed = read_block(self._connection, self._folder, self._state, key)
        changed = read_singles(self._connection, self._folder, self._state, key, stop)
        found = self._connection.execute("SELECT key FROM gone WHERE key >= ? AND key < ?", (key, stop))
        gone = np.array([number for (number,) in found], np.int64)
        stale = np.isin(sealed.numbers, np.concatenate([changed.numbers, gone]))
        self._ledger.delete("blocks", [key])
        for table in ("rows", "gone"):
            self._ledger.delete_between(table, key, stop)
        return joined([sealed.where(~stale), changed])

    def _count(self, table: str, first: int, stop: int) -> int:
        (n,) = self._connection.execute(
            f"SELECT count(*) FROM {table} WHERE key >= ? AND key < ?", (first, stop)
        ).fetchone()
        return int(n)


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
        self._take_sealed(wanted, rows, found)
        return rows[places], found[places]

    def _take_singles(self, wanted: np.ndarray, rows: np.ndarray, found: np.ndarray) -> None:
        self._scatter_singles(self._among("key, row_sum, vector", "rows", wanted), wanted, rows, found)

    def _take_sealed(self, wanted: np.ndarray, rows: np.ndarray, found: np.ndarray) -> None:
        """Rows out of blocks, each by itself; those that were found already are passed over."""
        gone = [key for (key,) in self._among("key", "gone", wanted)]
        places = np.flatnonzero(~found & ~np.isin(wanted, gone))
        left = wanted[places]
        has, sums, vectors = np.zeros(len(left), np.bool_), list[bytes](), list[bytes]()
        i = 0
        while i < len(left):
            block = self._connection.execute(_BLOCK_OF, (int(left[i]),)).fetchone()
            if block is None:
                i += 1
                continue
            key, held = block[0], self._numbers(block[0], block[1])
            stop = i + int(np.searchsorted(left[i:], held[-1], side="right"))
            if stop > i:
                guesses = np.searchsorted(held, left[i:stop])
                has[i:stop] = held[guesses] == left[i:stop]
                self._read_sealed(key, len(held), block[2], guesses[has[i:stop]].tolist(), sums, vectors)
            i = max(stop, i + 1)
        if vectors:  # they are checked together, as that takes as long for a few as for one
            rows[places[has]] = checked_rows(self._folder, "blocks", self._state, left[has], sums, vectors)
            found[places[has]] = True

    def _read_sealed(
        self, key: int, n: int, row_sums: bytes, inside: list[int], sums: list[bytes], vectors: list[bytes]
    ) -> None:
        """More sums and vectors, of the rows at some places in a block of n."""
        size = self._state.row_bytes
        with self._connection.blobopen("blocks", "vectors", key, readonly=True) as blob:
            if len(blob) != n * size or len(row_sums) != 8 * n:
                raise damaged(self._folder, "blocks", key, "vectors or their sums are too short or too long")
            for i in inside:
                blob.seek(i * size)
                vectors.append(blob.read(size))
                sums.append(row_sums[8 * i : 8 * i + 8])

    def _among(self, columns: str, table: str, wanted: np.ndarray) -> list[tuple[Any, ...]]:
        """The records with these keys, which ascend, of a table that has few of them or none."""
        found = list[tuple[Any, ...]]()
        for where, keys in conditions(wanted.tolist()):
            found += self._connection.execute(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY key", keys)
        return found

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
        self._scatter_singles(singles, wanted, rows, found)

    def _scatter_singles(
        self, singles: list[tuple[Any, ...]], wanted: np.ndarray, rows: np.ndarray, found: np.ndarray
    ) -> None:
        """Put rows, which are (key, sum, vector) in the order of keys, into their places; they are checked together."""
        if not singles:
            return
        keys, sums, vectors = zip(*singles, strict=True)
        numbers = np.array(keys, np.int64)
        try:
            source = checked_rows(self._folder, "rows", self._state, numbers, sums, vectors)
        except FormatError:
            for i, (_, row_sum, vector) in enumerate(singles):  # which of them is it?
                self._checked("rows", numbers[i : i + 1], row_sum, vector)
            raise
        _scatter(numbers, source, wanted, rows, found)

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
