"""The table of receipts: names of changes that were made once, what was asked for, and what came of it.

Only the last receipts are kept. Which there are is known in memory, as numbers by name, oldest first.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from onlinehash.live.sqlite.checksums import check_record, damaged
from onlinehash.live.sqlite.schema import tables_of

#: So many receipts are kept, and so many bytes of them; the newest is kept however long it is.
MOST, MOST_BYTES = 10_000, 64 << 20

Stored = tuple[str, bytes]  #: A digest of what was asked for, and the outcome.


class Entry(NamedTuple):
    """The place of a receipt, and its size."""

    number: int
    n_bytes: int


class News(NamedTuple):
    """New receipts, and the number of the first that is still there."""

    first: int
    entries: dict[str, Entry]


class Book:
    """Which receipts there are, in the order in which they came."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._n_bytes = 0
        self.next_number = 0

    def __len__(self) -> int:
        return len(self._entries)

    def number(self, name: str) -> int | None:
        """The number of a receipt, None if there is none of this name."""
        entry = self._entries.get(name)
        return None if entry is None else entry.number

    def too_old(self, n_bytes: int, n: int = 1) -> dict[str, int]:
        """Names and numbers of those that must go, oldest first, when n come that have so many bytes together."""
        number, total, found = len(self._entries) + n, self._n_bytes + n_bytes, {}
        for name, entry in self._entries.items():
            if number <= MOST and total <= MOST_BYTES:
                break
            found[name] = entry.number
            number, total = number - 1, total - entry.n_bytes
        return found

    def enter(self, name: str, n_bytes: int, number: int | None = None) -> None:
        """A new one, with the next number or a greater one."""
        number = self.next_number if number is None else number
        self._entries[name] = Entry(number, n_bytes)
        self._n_bytes, self.next_number = self._n_bytes + n_bytes, number + 1

    def drop(self, name: str) -> None:
        """One goes."""
        self._n_bytes -= self._entries.pop(name).n_bytes

    def follow(self, news: News) -> None:
        """Be as the table is in which these receipts are new; they come at one end and go at the other."""
        while self._entries and next(iter(self._entries.values())).number < news.first:
            self.drop(next(iter(self._entries)))
        for name, entry in news.entries.items():
            self.enter(name, entry.n_bytes, entry.number)


def size(name: bytes, digest: bytes, value: bytes) -> int:
    """The bytes of a receipt."""
    return len(name) + len(digest) + len(value)


def read_news(connection: sqlite3.Connection, folder: Path, book: Book) -> News:
    """What a book does not know yet of the table, which may be missing where there never was a receipt."""
    if "receipts" not in tables_of(connection):
        return News(0, {})
    (first,) = connection.execute("SELECT min(key) FROM receipts").fetchone()
    found = connection.execute(
        "SELECT key, sum, name, digest, value FROM receipts WHERE key >= ? ORDER BY key", (book.next_number,)
    )
    news = News(first or 0, {})
    for key, total, *values in found:
        check_record(folder, "receipts", key, total, values)
        name = values[0].decode()
        known = book.number(name)
        if name in news.entries or (known is not None and known >= news.first):
            raise damaged(folder, "receipts", key, "another one has the same name")
        news.entries[name] = Entry(key, size(*values))
    return news


def read_receipt(connection: sqlite3.Connection, folder: Path, number: int) -> Stored | None:
    """The receipt of a number, None if it is there no longer."""
    found = connection.execute("SELECT sum, name, digest, value FROM receipts WHERE key = ?", (number,)).fetchone()
    if found is None:
        return None
    check_record(folder, "receipts", number, found[0], found[1:])
    return found[2].decode(), found[3]
