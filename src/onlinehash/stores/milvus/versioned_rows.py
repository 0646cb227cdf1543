"""Rows of items or codes with the epochs from which and until which they are valid.

To end a row, it is written again under another key and then removed under its old one: so it is there at any moment,
briefly twice, and readers treat the rows of one place as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onlinehash.stores.backend import FOREVER
from onlinehash.stores.milvus.engine import ANSWER_BYTES, MOST, PAGE, Engine
from onlinehash.stores.milvus.tables import alive, key, listed

Row = dict[str, Any]


class VersionedRows:
    """The rows of one collection.

    fields : what a row is made of, besides its key, place and life.
    same : what all rows have.
    """

    def __init__(self, engine: Engine, collection: str, fields: Sequence[str], same: Row) -> None:
        self._engine, self._collection, self._same = engine, collection, same
        self._page = _page(fields)
        self._fields = ["key", "place", "born", "died", *fields]

    # ------------------------------------------------------------------------------------------------ reading

    def at_places(
        self, places: np.ndarray, epoch: int, fields: Sequence[str], page: int | None = None
    ) -> dict[int, Row]:
        """The rows that count at an epoch, by their places, in the order of places; so many with each request."""
        found: dict[int, Row] = {}
        for some in _portions(np.unique(places), page or _page(fields)):
            which = f"place in {listed(some)} and {alive(epoch)}"
            found.update((row["place"], row) for row in self._engine.query(self._collection, which, ["place", *fields]))
        return {place: found[place] for place in sorted(found)}

    def after(self, place: int, epoch: int, fields: Sequence[str], limit: int | None) -> dict[int, Row]:
        """The first rows after a place that count at an epoch, by their places, in the order of places."""
        found: dict[int, Row] = {}
        while limit is None or len(found) < limit:  # more than once where rows are there twice
            which, n_rows = f"place > {place} and {alive(epoch)}", 0
            asked = None if limit is None else limit - len(found)
            for rows in self._engine.pages(self._collection, which, ["place", *fields], asked, _page(fields)):
                found.update((row["place"], row) for row in rows)
                n_rows += len(rows)
            if asked is None or n_rows < asked:
                break
            place = max(found)
        return found

    # ------------------------------------------------------------------------------------------------ writing

    def add(self, rows: Sequence[Row], row_bytes: int) -> None:
        """Rows with all their fields but the key."""
        self._engine.insert(self._collection, [self._whole(row) for row in rows], row_bytes)

    def end(self, died: int, places: np.ndarray) -> None:
        """Rows at these places: those born at that epoch or later go, those that die later die then."""
        for some in _portions(np.unique(places), self._page):
            there = f"place in {listed(some)}"
            self._engine.delete(self._collection, f"{there} and born >= {died}")
            self._rewrite(f"{there} and died > {died}", died)

    def rewind(self, epoch: int) -> None:
        """Rows born after the epoch go, those that die after it live."""
        self.remove(f"born > {epoch}")
        self._rewrite(f"died > {epoch} and died < {FOREVER}", FOREVER)

    def remove(self, which: str) -> None:
        """The rows for which an expression holds, some at a time: the embedded engine makes one statement of them."""
        for keys in self._keys(which, PAGE):
            self._engine.delete_keys(self._collection, keys)

    def _rewrite(self, which: str, died: int) -> None:
        """The rows for which an expression holds die at that epoch."""
        for keys in self._keys(which, self._page):
            rows = self._engine.query(self._collection, f"key in {_quoted(keys)}", self._fields)
            changed = {row["key"]: row for row in (self._whole(row | {"died": died}) for row in rows)}
            there = self._engine.query(self._collection, f"key in {_quoted(list(changed))}", ["key"])
            for row in there:  # they were written by a change that was cut off before it removed the old ones
                del changed[row["key"]]
            self._engine.insert(self._collection, list(changed.values()), _size(rows[0]))
            self._engine.delete_keys(self._collection, keys)

    def _keys(self, which: str, page: int) -> list[list[str]]:
        """Page by page; all of them, as they are about to change."""
        pages = self._engine.pages(self._collection, which, ["key"], page=page)
        return [[row["key"] for row in rows] for rows in pages]

    def _whole(self, row: Row) -> Row:
        written = {name: _flat(value) for name, value in row.items()}
        return written | {"key": key(row["place"], row["born"], row["died"])} | self._same


def _page(fields: Sequence[str]) -> int:
    """Rows that one request asks for: vectors may be long."""
    return PAGE // 4 if "vector" in fields else PAGE


def rows_of(vector_bytes: int) -> int:
    """Rows with vectors of so many bytes that one request asks for: a request scans all rows for them."""
    return max(1, min(MOST, ANSWER_BYTES // (2 * vector_bytes)))


def _portions(places: np.ndarray, size: int) -> list[np.ndarray]:
    return [places[i : i + size] for i in range(0, len(places), size)]


def _quoted(keys: Sequence[str]) -> str:
    return "[" + ",".join(f'"{key}"' for key in keys) + "]"


def _flat(value: Any) -> Any:
    """A binary vector comes out of Milvus in a list, and goes in without one."""
    return value[0] if isinstance(value, list) and value and isinstance(value[0], bytes) else value


def _size(row: Row) -> int:
    """About the bytes of a row."""
    return 100 + sum(len(value) for value in row.values() if isinstance(value, str))
