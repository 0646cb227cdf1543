"""All that a store holds but vectors: settings, positions, the learner with its log, encoders, ids, payloads, codes."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.io import format
from onlinehash.live.sqlite.checksums import Ledger, check_record, check_totals, damaged, read_value
from onlinehash.live.sqlite.segments import block_contents
from onlinehash.live.sqlite.state import State

ONLY = 0  #: The key of a table's only record.
POSITIONS = 1  #: The key of the positions in the table of settings; there is no such record where none was ever kept.

LearnerAndLog = tuple[bytes, list[dict[str, Any]]]
Encoders = list[tuple[int, dict[str, Any], bytes]]


class Records(NamedTuple):
    """All of it, as of one moment."""

    settings: dict[str, Any]
    positions: dict[str, Any]
    learner: LearnerAndLog
    encoders: Encoders


def read_records(connection: sqlite3.Connection, folder: Path) -> Records:
    """All of it."""
    return Records(
        read_settings(connection, folder),
        read_positions(connection, folder),
        read_learner(connection, folder),
        read_encoders(connection, folder),
    )


def read_settings(connection: sqlite3.Connection, folder: Path) -> dict[str, Any]:
    """The settings as last put."""
    value = read_value(connection, folder, "settings", ONLY)
    if value is None:
        raise damaged(folder, "settings", ONLY, "it is missing")
    settings: dict[str, Any] = json.loads(value)
    return settings


def read_positions(connection: sqlite3.Connection, folder: Path) -> dict[str, Any]:
    """How far each source was read, by its name."""
    value = read_value(connection, folder, "settings", POSITIONS)
    positions: dict[str, Any] = {} if value is None else json.loads(value)
    if not isinstance(positions, dict):
        raise damaged(folder, "settings", POSITIONS, "expected the positions of sources by their names")
    return positions


def read_learner(connection: sqlite3.Connection, folder: Path) -> LearnerAndLog:
    """The learner as it was put, empty if it never was, and what happened to it since."""
    blob = read_value(connection, folder, "learner", ONLY)
    return blob or b"", read_events(connection, folder)[0]


def read_events(connection: sqlite3.Connection, folder: Path, first: int = 0) -> tuple[list[dict[str, Any]], int]:
    """What was added to the learner's log from an event on, and the sum of the sums."""
    found = connection.execute("SELECT key, sum, value FROM events WHERE key >= ? ORDER BY key", (first,)).fetchall()
    for key, total, value in found:
        check_record(folder, "events", key, total, [value])
    events = [format.from_bytes(value, f"{folder} (event {key})")[1] for key, _, value in found]
    return events, sum(total for _, total, _ in found)


def read_encoders(connection: sqlite3.Connection, folder: Path) -> Encoders:
    """Serial number, facts and bytes of each encoder, ascending."""
    found = connection.execute("SELECT key, sum, facts, value FROM encoders ORDER BY key").fetchall()
    for key, total, *values in found:
        check_record(folder, "encoders", key, total, values)
    encoders = [(key, json.loads(facts), value) for key, _, facts, value in found]
    for key, facts, _ in encoders:
        if not isinstance(facts, dict):
            raise damaged(folder, "encoders", key, "it has no facts")
    return encoders


CODES_CHUNK = 512  #: Numbers whose codes lie in one record.
WIDEST_UNSEEN = 1 << 16  #: Bytes of a code that are believed where no code was kept.


class Contents(NamedTuple):
    """The living items in the order of insertion; codes are rows of bytes, zeros where none were put."""

    ids: list[Any]
    payloads: list[str | None]
    numbers: np.ndarray
    codes: np.ndarray


Items = dict[int, tuple[Any, str | None]]  #: Id and payload by number.

_BLOCKS = "SELECT key, sum, length(vectors), numbers, row_sums, ids, payloads FROM blocks"
_ROWS = "SELECT key, sum, length(vector), row_sum, id, payload FROM rows"
#: The block in which a number would be.
_BLOCK_OF = f"{_BLOCKS} WHERE key = (SELECT max(key) FROM blocks WHERE key <= ?)"


def read_contents(connection: sqlite3.Connection, folder: Path, state: State) -> Contents:
    """What is there, if every record is as it was written and none is missing."""
    check_totals(connection, folder, state.totals)
    contents = read_from(connection, folder, state, 0)
    numbers = contents.numbers
    if len(numbers) != state.alive:
        raise damaged(folder, "state", "alive", f"expected {state.alive} items, got {len(numbers)}")
    if np.count_nonzero(numbers >= state.sealed) != state.tail:
        raise damaged(folder, "state", "tail", f"expected {state.tail} rows")
    return contents


def read_from(connection: sqlite3.Connection, folder: Path, state: State, first: int) -> Contents:
    """The items with this number and those after it."""
    items = read_items(connection, folder, state, first)
    numbers = sorted(items)
    return _contents(connection, folder, state, items, numbers[bisect_left(numbers, first) :])


def read_items(connection: sqlite3.Connection, folder: Path, state: State, first: int = 0) -> Items:
    """Ids and payloads from the block of this number on: sealed ones, then single rows, which override them."""
    items: Items = {}
    begin = "coalesce((SELECT max(key) FROM blocks WHERE key <= ?), ?)"
    for block in connection.execute(f"{_BLOCKS} WHERE key >= {begin}", (first, first)):
        items.update(_sealed(folder, state, block))
    for row in connection.execute(f"{_ROWS} WHERE key >= ?", (first,)):
        items[row[0]] = _single(folder, state, row)
    for key, total in connection.execute("SELECT key, sum FROM gone WHERE key >= ?", (first,)):
        check_record(folder, "gone", key, total, ())
        if items.pop(key, None) is None:
            raise damaged(folder, "gone", key, "no sealed row has this number")
    return items


def read_some(connection: sqlite3.Connection, folder: Path, state: State, numbers: np.ndarray) -> Contents:
    """Those of the items with these numbers, which ascend, that are still there."""
    items: Items = {}
    sealed: Items = {}
    stop = -1  # the first number behind the block that was read last
    for number in numbers.tolist():
        row = connection.execute(f"{_ROWS} WHERE key = ?", (number,)).fetchone()
        if row is not None:
            items[number] = _single(folder, state, row)
            continue
        if connection.execute("SELECT 1 FROM gone WHERE key = ?", (number,)).fetchone() is not None:
            continue
        if number >= stop:
            block = connection.execute(_BLOCK_OF, (number,)).fetchone()
            sealed = {} if block is None else _sealed(folder, state, block)
            (following,) = connection.execute("SELECT min(key) FROM blocks WHERE key > ?", (number,)).fetchone()
            stop = state.next_number if following is None else following
        if number in sealed:
            items[number] = sealed[number]
    return _contents(connection, folder, state, items, list(items))


def _contents(connection: sqlite3.Connection, folder: Path, state: State, items: Items, wanted: list[int]) -> Contents:
    ids, payloads = ([items[number][column] for number in wanted] for column in (0, 1))
    numbers = np.array(wanted, np.int64)
    return Contents(ids, payloads, numbers, read_codes(connection, folder, state, numbers))


def _sealed(folder: Path, state: State, block: Any) -> Items:
    key, total, size, *columns = block
    numbers, names, payloads = block_contents(folder, key, total, tuple(columns))
    if size != len(numbers) * state.row_bytes:
        raise damaged(folder, "blocks", key, "its vectors are too short or too long")
    return dict(zip(numbers.tolist(), zip(names, payloads, strict=True), strict=True))


def _single(folder: Path, state: State, row: Any) -> tuple[Any, str | None]:
    key, total, size, row_sum, name, payload = row
    check_record(folder, "rows", key, total, (row_sum, name, payload))
    if size != state.row_bytes:
        raise damaged(folder, "rows", key, "its vector is too short or too long")
    return json.loads(name), None if payload is None else payload.decode()


# ------------------------------------------------------------------ codes


def read_codes(connection: sqlite3.Connection, folder: Path, state: State, numbers: np.ndarray) -> np.ndarray:
    """The codes of some numbers, which ascend; zeros where none were kept."""
    codes: np.ndarray | None = None  # until a width was seen that the state can be compared with
    for key in np.unique(numbers // CODES_CHUNK).tolist():
        value = read_value(connection, folder, "codes", state.codes_at + key)
        if value is None:
            continue
        if len(value) != CODES_CHUNK * state.code_bytes:
            raise damaged(folder, "codes", state.codes_at + key, "its codes have another width than the state says")
        if codes is None:
            codes = np.zeros((len(numbers), state.code_bytes), np.uint8)
        first, stop = np.searchsorted(numbers, [key * CODES_CHUNK, (key + 1) * CODES_CHUNK])
        chunk = np.frombuffer(value, np.uint8).reshape(CODES_CHUNK, state.code_bytes)
        codes[first:stop] = chunk[numbers[first:stop] - key * CODES_CHUNK]
    if codes is None:
        if state.code_bytes > WIDEST_UNSEEN:
            raise damaged(folder, "state", ONLY, "there are no codes of the width that it says")
        codes = np.zeros((len(numbers), state.code_bytes), np.uint8)
    return codes


def write_codes(
    connection: sqlite3.Connection, folder: Path, ledger: Ledger, base: int, numbers: np.ndarray, codes: np.ndarray
) -> None:
    """The codes of some numbers, into the records that hold those of their neighbours too, from a key on."""
    order = np.argsort(numbers, kind="stable")
    keys, firsts = np.unique(numbers[order] // CODES_CHUNK, return_index=True)
    for key, inside in zip(keys.tolist(), np.split(order, firsts)[1:], strict=True):
        old = read_value(connection, folder, "codes", base + key)
        shape = (CODES_CHUNK, codes.shape[1])
        chunk = np.zeros(shape, np.uint8) if old is None else np.frombuffer(old, np.uint8).reshape(shape).copy()
        chunk[numbers[inside] - key * CODES_CHUNK] = codes[inside]
        ledger.put("codes", base + key, chunk.tobytes())
