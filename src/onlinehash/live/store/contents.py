"""All that a store holds but the vectors, for opening it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.live.store.batch import block_contents
from onlinehash.live.store.ledger import Ledger, check_record, check_totals, damaged, read_value
from onlinehash.live.store.state import State

CODES_CHUNK = 512  #: Numbers whose codes lie in one record.


class Contents(NamedTuple):
    """The living items in the order of insertion; codes are rows of bytes, zeros where none were put."""

    ids: list[Any]
    payloads: list[str | None]
    numbers: np.ndarray
    codes: np.ndarray


def read_contents(connection: sqlite3.Connection, folder: Path, state: State) -> Contents:
    """What is there, if every record is as it was written and none is missing."""
    check_totals(connection, folder, state.totals)
    gone = _gone(connection, folder)
    items = _items(connection, folder, state)
    for number in gone:
        if items.pop(number, None) is None:
            raise damaged(folder, "gone", number, "no sealed row has this number")
    numbers = np.array(sorted(items), np.int64)
    if len(numbers) != state.alive:
        raise damaged(folder, "state", "alive", f"expected {state.alive} items, got {len(numbers)}")
    if np.count_nonzero(numbers >= state.sealed) != state.tail:
        raise damaged(folder, "state", "tail", f"expected {state.tail} rows")
    ids, payloads = ([items[number][column] for number in numbers.tolist()] for column in (0, 1))
    return Contents(ids, payloads, numbers, _codes(connection, folder, state, numbers))


def _gone(connection: sqlite3.Connection, folder: Path) -> list[int]:
    found = connection.execute("SELECT key, sum FROM gone").fetchall()
    for key, total in found:
        check_record(folder, "gone", key, total, ())
    return [key for key, _ in found]


def _items(connection: sqlite3.Connection, folder: Path, state: State) -> dict[int, tuple[Any, str | None]]:
    """Id and payload of every number: sealed ones first, then single rows, which override them."""
    items: dict[int, tuple[Any, str | None]] = {}
    sealed = connection.execute("SELECT key, sum, length(vectors), numbers, row_sums, ids, payloads FROM blocks")
    for key, total, size, *columns in sealed:
        numbers, names, payloads = block_contents(folder, key, total, tuple(columns))
        if size != len(numbers) * state.row_bytes:
            raise damaged(folder, "blocks", key, "its vectors are too short or too long")
        items.update(zip(numbers.tolist(), zip(names, payloads, strict=True), strict=True))
    singles = connection.execute("SELECT key, sum, length(vector), row_sum, id, payload FROM rows")
    for key, total, size, row_sum, name, payload in singles:
        check_record(folder, "rows", key, total, (row_sum, name, payload))
        if size != state.row_bytes:
            raise damaged(folder, "rows", key, "its vector is too short or too long")
        items[key] = json.loads(name), None if payload is None else payload.decode()
    return items


# ------------------------------------------------------------------ codes


def _codes(connection: sqlite3.Connection, folder: Path, state: State, numbers: np.ndarray) -> np.ndarray:
    codes = np.zeros((len(numbers), state.code_bytes), np.uint8)
    for key, total, value in connection.execute("SELECT key, sum, value FROM codes").fetchall():
        check_record(folder, "codes", key, total, [value])
        first, stop = np.searchsorted(numbers, [key * CODES_CHUNK, (key + 1) * CODES_CHUNK])
        chunk = np.frombuffer(value, np.uint8).reshape(CODES_CHUNK, state.code_bytes)
        codes[first:stop] = chunk[numbers[first:stop] - key * CODES_CHUNK]
    return codes


def write_codes(
    connection: sqlite3.Connection, folder: Path, ledger: Ledger, numbers: np.ndarray, codes: np.ndarray
) -> None:
    """The codes of some numbers, into the records that hold those of their neighbours too."""
    order = np.argsort(numbers, kind="stable")
    keys, firsts = np.unique(numbers[order] // CODES_CHUNK, return_index=True)
    for key, inside in zip(keys.tolist(), np.split(order, firsts)[1:], strict=True):
        old = read_value(connection, folder, "codes", key)
        shape = (CODES_CHUNK, codes.shape[1])
        chunk = np.zeros(shape, np.uint8) if old is None else np.frombuffer(old, np.uint8).reshape(shape).copy()
        chunk[numbers[inside] - key * CODES_CHUNK] = codes[inside]
        ledger.put("codes", key, chunk.tobytes())
