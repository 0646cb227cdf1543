"""Items on their way into the database and out of it: single rows of the tail, or a sealed block of many."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.live.sqlite.ledger import check_record, damaged
from onlinehash.live.sqlite.state import State
from onlinehash.live.sqlite.sums import row_sums


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
    names = [json.loads(record[3]) for record in found]
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
