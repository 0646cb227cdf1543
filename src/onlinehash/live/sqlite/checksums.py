"""Checksums: of records, of rows of vectors, and what all sums of a table add up to.

A sum shows that a record was changed. That one is missing, or is an old version of itself, shows in the table's total:
the state keeps, for each table, the number of records and the sum of their sums modulo 2^64.

The sum of a row of vectors is computed at the speed of reading it: its 32-bit words are multiplied by fixed odd
constants of 32 bits and added up modulo 2^64, so that no single word can change, and no two change places, without
changing the sum. The row's number starts it: a row in another's place is noticed too.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.errors import FormatError
from onlinehash.live.sqlite.schema import COLUMNS, OWN_SUMS, tables_of
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only

#: Keys in one statement; SQLite may be built to take no more than 999.
KEYS_AT_ONCE = 500

Totals = dict[str, list[int]]  #: For each table, the number of records and the sum of their sums.


def record_sum(table: str, key: Any, values: Iterable[Any]) -> int:
    """The sum over a record, which SQLite can hold; values are bytes or None, and others have none."""
    digest = hashlib.blake2b(f"{table}:{key}".encode(), digest_size=8)
    for value in values:
        if value is None:
            digest.update(b"-")
        else:
            view = memoryview(value)
            digest.update(b"+%d:" % view.nbytes)
            digest.update(view)
    return int.from_bytes(digest.digest(), "little", signed=True)


def summed_columns(table: str) -> tuple[str, ...]:
    """The columns that the sum of a record covers."""
    return tuple(column for column in COLUMNS[table] if column not in OWN_SUMS)


def damaged(folder: Path, table: str, key: Any, what: str = "its sum differs") -> FormatError:
    """The error for a record that is not as it was written."""
    return FormatError(f"{folder} is damaged (table {table}, key {key}: {what}); restore it from a copy.")


def check_record(folder: Path, table: str, key: Any, total: Any, values: Iterable[Any]) -> None:
    """Refuse a record that is not as it was written."""
    values = tuple(values)
    if any(value is not None and not isinstance(value, bytes) for value in values):
        raise damaged(folder, table, key, "a value is of another kind")
    if record_sum(table, key, values) != total:
        raise damaged(folder, table, key)


def read_value(connection: sqlite3.Connection, folder: Path, table: str, key: int) -> bytes | None:
    """The value of a record, None if there is no such record."""
    found = connection.execute(f"SELECT sum, value FROM {table} WHERE key = ?", (key,)).fetchone()
    if found is None:
        return None
    check_record(folder, table, key, found[0], found[1:])
    return bytes(found[1])


def check_totals(connection: sqlite3.Connection, folder: Path, totals: Totals) -> None:
    """Refuse tables in which records are missing, added or old."""
    for table in tables_of(connection):
        if table != "state":
            check_total(connection, folder, table, totals.get(table, [0, 0]))


def check_total(connection: sqlite3.Connection, folder: Path, table: str, expected: list[int]) -> None:
    """Refuse a table in which records are missing, added or old."""
    number = total = 0
    for (part,) in connection.execute(f"SELECT sum FROM {table}"):
        number += 1
        if not isinstance(part, int):
            raise damaged(folder, table, "unknown", "a sum is no number")
        total += part
    if [number, total % 2**64] != expected:
        raise FormatError(
            f"{folder} is damaged (table {table}: expected {expected[0]} records with another sum, got {number}); "
            "restore it from a copy."
        )


def conditions(keys: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
    """Conditions that records with these keys meet, and the keys that each of them takes."""
    for start in range(0, len(keys), KEYS_AT_ONCE):
        some = keys[start : start + KEYS_AT_ONCE]
        yield f"key IN ({', '.join('?' * len(some))})", some


class Ledger:
    """The one way to change tables: what is written gets its sum, and the totals follow."""

    def __init__(self, connection: sqlite3.Connection, totals: Totals) -> None:
        self._connection, self._totals = connection, totals

    def insert(self, table: str, records: Iterable[Sequence[Any]]) -> None:
        """New records, (key, *values) each, whose keys are not in the table."""
        marks = ", ".join("?" * (2 + len(COLUMNS[table])))
        self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", self._summed(table, records))

    def _summed(self, table: str, records: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Each record with its sum, which is counted."""
        covered = len(summed_columns(table))
        for key, *values in records:
            total = record_sum(table, key, values[:covered])
            self._count(table, 1, total)
            yield (key, total, *values)

    def delete(self, table: str, keys: Sequence[int]) -> None:
        """Delete the records of these keys that there are."""
        for where, some in conditions(keys):
            self._delete(table, where, some)

    def delete_between(self, table: str, first: int, stop: int) -> None:
        """Delete the records with keys in a range."""
        self._delete(table, "key >= ? AND key < ?", (first, stop))

    def _delete(self, table: str, where: str, values: Sequence[int]) -> None:
        sums = self._connection.execute(f"SELECT sum FROM {table} WHERE {where}", values).fetchall()
        if sums:
            self._connection.execute(f"DELETE FROM {table} WHERE {where}", values)
            self._count(table, -len(sums), -sum(total for (total,) in sums))

    def put(self, table: str, key: int, *values: Any) -> None:
        """This record in the place of the one there is, if there is one."""
        self.delete(table, [key])
        self.insert(table, [(key, *values)])

    def clear(self, table: str) -> None:
        """Delete all records."""
        self._connection.execute(f"DELETE FROM {table}")
        self._totals[table] = [0, 0]

    def _count(self, table: str, number: int, total: int) -> None:
        entry = self._totals[table]
        entry[0] += number
        entry[1] = (entry[1] + total) % 2**64


def row_sums(rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The sums of contiguous rows of float32 or float64 that have these numbers, as uint64."""
    words = rows.view(np.uint32)
    sums = _mixed(numbers.astype(np.uint64))
    _add_words(read_only(words), read_only(_constants(words.shape[1])), sums)
    return sums


@lru_cache(maxsize=8)
def _constants(n: int) -> np.ndarray:
    """The first n constants, always the same."""
    return (_mixed(np.arange(n, dtype=np.uint64)) >> np.uint64(32)) | np.uint64(1)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Splitmix64 of each value: numbers that look random, and differ where the values do."""
    mixed = (values + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit(nogil=True, cache=True)
def _add_words(words: np.ndarray, constants: np.ndarray, sums: np.ndarray) -> None:
    for i in range(words.shape[0]):
        row = words[i]
        total = np.uint64(0)
        for j in range(len(row)):
            total += np.uint64(row[j]) * constants[j]
        sums[i] += total
