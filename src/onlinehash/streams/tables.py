"""`Table`: consecutive rows of a file as columns, whatever the file's format."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.types import Json


@dataclass
class Table:
    """Some rows of a file.

    `columns` maps lower-case names to lists or arrays of one length; `numbers` says which line (`unit`) of
    the file each row is, for messages; `share` is how much of the file has been read, None if nobody knows; `written`
    says how the file writes these names; `numeric` has the columns of texts that are all numbers, if they were looked
    for.
    """

    source: str
    format: str
    unit: str
    numbers: Sequence[int]
    columns: dict[str, Any]
    share: float | None = None
    written: dict[str, str] = field(default_factory=dict)
    numeric: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.numbers)

    def named(self, column: str, name: str) -> Table:
        """The same rows, with a column under another name."""
        key = column.strip().lower()
        if key not in self.columns:
            raise self.lacks(f"a column {column}")
        return replace(self, columns=self.columns | {name: self.columns[key]})

    def at(self, rows: Sequence[int]) -> Table:
        """Some of the rows."""
        columns = {
            name: values[list(rows)] if isinstance(values, np.ndarray) else [values[row] for row in rows]
            for name, values in self.columns.items()
        }
        return replace(self, numbers=[self.numbers[row] for row in rows], columns=columns)

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
        return InvalidInput(where=self.source, expected=expected, got=f"the columns {got}")


class FilePosition(NamedTuple):
    """How far a file was read: a number of rows, and a digest of the first, by which the file is recognised."""

    rows: int = 0
    first: str | None = None

    @classmethod
    def of(cls, stored: Json) -> FilePosition:
        """The position that `as_json` was stored as; None is the beginning of a file."""
        if stored is None:
            return cls()
        try:
            found = cls(**stored)  # type: ignore[arg-type] # which are checked next
            if type(found.rows) is int and isinstance(found.first, str | None):
                return found
        except TypeError:
            pass
        raise InvalidInput(
            expected="a position in a file, with rows and first, among the positions of the index",
            got=checks.shown(stored),
        )

    def as_json(self) -> dict[str, Json]:
        return {"rows": self.rows, "first": self.first}


class Unread(NamedTuple):
    """A table, the first of its rows that was not read before, and the position to keep once all of them are."""

    table: Table
    start: int
    position: FilePosition


def unread(tables: Iterator[Table], stored: FilePosition, what: str) -> Iterator[Unread]:
    """Go on with a file where an earlier run stopped, by the position that was kept of it.

    A file that is not the one of the earlier run is refused: one that begins differently, or has become shorter.
    """
    before, first, rows = stored.rows, stored.first, 0
    source = ""
    for table in tables:
        source = table.source
        if rows == 0:
            begin = table.digest_of_first_row()
            if first not in (None, begin):
                raise InvalidInput(
                    f"{source} does not begin as it did when {before} rows of it were {what}; a new file needs another "
                    "name."
                )
        start = min(max(before - rows, 0), len(table))
        rows += len(table)
        yield Unread(table, start, FilePosition(rows, begin))
    if 0 < rows < before:
        raise InvalidInput(
            f"{source} has {rows} rows, fewer than the {before} that were {what} from it; a new file needs another "
            "name."
        )


def valid(
    read: Callable[[Table], object], table: Table, bad_row: Callable[[InvalidInput], None], is_first: bool
) -> Table:
    """The rows that `read` takes; what is wrong with the others is told.

    A file must not begin with those alone: it would be one of another kind.
    """
    try:
        read(table)
    except InvalidInput:
        pass
    else:
        return table
    good, wrong = [], []
    for row in range(len(table)):
        try:
            read(table.at([row]))
        except InvalidInput as error:
            wrong.append(error)
        else:
            good.append(row)
    if is_first and not good:
        raise wrong[0]
    for one in wrong:
        bad_row(one)
    return table.at(good)


def _plain(value: object) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def plain_names(names: Sequence[Any]) -> list[str]:
    """Column names without surrounding blanks."""
    return [str(name).strip() for name in names]


def lower_names(names: Sequence[Any], source: str) -> list[str]:
    """Column names without letter case and surrounding blanks; they must still differ."""
    lowered = [name.lower() for name in plain_names(names)]
    name, times = Counter(lowered).most_common(1)[0] if lowered else ("", 0)
    if times > 1:
        raise InvalidInput(f"{source}: column names must be unique, got {name!r} {times} times.")
    return lowered
