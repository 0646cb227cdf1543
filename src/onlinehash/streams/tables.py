"""`Table`: consecutive rows of a file as columns, whatever the file's format."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onlinehash.errors import InvalidInput


@dataclass
class Table:
    """Some rows of a file.

    `columns` maps lower-case names to lists or arrays of one length; `numbers` says which line (`unit`) of
    the file each row is, for messages; `share` is how much of the file has been read, None if nobody knows.
    """

    source: str
    format: str
    unit: str
    numbers: Sequence[int]
    columns: dict[str, Any]
    share: float | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def named(self, column: str, name: str) -> Table:
        """The same rows, with a column under another name."""
        key = column.strip().lower()
        if key not in self.columns:
            raise self.lacks(f"a column {column}")
        return replace(self, columns=self.columns | {name: self.columns[key]})

    def digest_of_first_row(self) -> str:
        """By which a file is recognised that was read before."""
        row = [(name, _plain(column[0])) for name, column in self.columns.items()]
        return hashlib.blake2b(repr(row).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()

    def error(self, row: int, problem: str) -> InvalidInput:
        """The one sentence about a row that cannot be used."""
        return InvalidInput(f"{self.source}, {self.unit} {self.numbers[row]}: {problem}.")

    def lacks(self, expected: str) -> InvalidInput:
        """The one sentence about columns that are not there."""
        names = list(self.columns)
        got = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        return InvalidInput(f"{self.source}: expected {expected}, got the columns {got}.")


def rows_before(stored: Any, begin: Table, what: str) -> int:
    """How many rows of a file were read before, by the position that an index keeps (None: none of them)."""
    if stored is None:
        return 0
    if stored["first"] != begin.digest_of_first_row():
        raise InvalidInput(
            f"{begin.source} does not begin as it did when {stored['rows']} rows of it were {what}; a new file needs "
            "another name."
        )
    return int(stored["rows"])


def position_at(rows: int, begin: Table) -> dict[str, Any]:
    """What an index keeps of a file whose first rows were read."""
    return {"rows": rows, "first": begin.digest_of_first_row()}


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def lower_names(names: Sequence[Any], source: str) -> list[str]:
    """Column names without letter case and surrounding blanks; they must still differ."""
    lowered = [str(name).strip().lower() for name in names]
    name, times = Counter(lowered).most_common(1)[0] if lowered else ("", 0)
    if times > 1:
        raise InvalidInput(f"{source}: column names must be unique, got {name!r} {times} times.")
    return lowered
