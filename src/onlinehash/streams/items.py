"""Items from files: an id, a vector or a text, and everything else as a payload.

id                      integers or strings; without the column, items are numbered automatically. In csv, they are
                        integers if those of the first block all look like that, or as the index has them already
vector, embedding or x  a column of vectors; in csv a JSON list in a cell
text                    a text, of which an embedder makes the vector where there is no column of vectors
all other columns       fields of the payload, as is the text; cells that are empty are left out. In csv, the cells of
                        `Table.numeric` are numbers
"""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any, NamedTuple

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.streams import columns
from onlinehash.streams.tables import Table
from onlinehash.streams.text_tables import number_of
from onlinehash.types import Id, Payload

VECTORS = ("vector", "embedding", "x")


class Items(NamedTuple):
    """Aligned: ids or None, vectors or None, texts or None, and payloads."""

    ids: list[Id] | None
    X: np.ndarray | None
    texts: list[str] | None
    payloads: list[Payload]


class ItemReader:
    """Turns the tables of a file into items; columns that are not named are found by their usual names.

    `text_ids` says whether ids are strings where the format, csv, does not; None leaves it to the first table.
    """

    def __init__(
        self,
        id: str | None = None,
        text: str | None = None,
        vector: str | None = None,
        text_ids: bool | None = None,
    ) -> None:
        self._named = {"id": id, "text": text, "vector": vector}
        self.text_ids = text_ids

    def __call__(self, table: Table) -> Items:
        id, text = (self._column(table, what, (what,)) for what in ("id", "text"))
        vector = self._column(table, "vector", tuple(name for name in VECTORS if columns.has_vectors(table, name)))
        if vector is None and text is None:
            raise table.lacks("a column of vectors or of texts (--vector NAME, --text NAME)")
        if text not in (None, "text") and "text" in table.columns:
            raise InvalidInput(
                f"{table.source}: the payload keeps the column {text} as `text`, and there is another column of this "
                "name; rename that one."
            )
        ids = None if id is None else self._ids(table, id)  # first: all rows decide on the kind of ids
        payloads = [_payload(table, row, {id, vector}, text) for row in range(len(table))]
        texts = None if text is None else _texts(table, text)
        return Items(
            ids,
            None if vector is None else columns.vectors(table, vector),
            texts,
            payloads,
        )

    def _ids(self, table: Table, name: str) -> list[Id]:
        if table.format == "csv" and self.text_ids is None:
            self.text_ids = not all(_is_whole(cell) for cell in table.columns[name] if cell.strip())
        found: list[Id] = columns.ids(table, name)
        if table.format != "csv":
            return found
        if self.text_ids:
            return found
        for row, id in enumerate(found):
            if not _is_whole(id):
                raise table.error(
                    row,
                    f"expected a whole number for {name}, as in the rows before, got {str(id)[:40]!r}; --text-ids "
                    "takes all ids of a csv as texts",
                )
        return [int(id) for id in found]

    def _column(self, table: Table, what: str, usual: tuple[str, ...]) -> str | None:
        """The name of a column in the table: the one that was given, or the first usual one there is."""
        named = self._named[what]
        if named is None:
            return next((name for name in usual if name in table.columns), None)
        if named.strip().lower() not in table.columns:
            raise table.lacks(f"a column {named}")
        return named.strip().lower()


def picked(items: Items, rows: list[int]) -> Items:
    """Some of them."""
    ids, X, texts, payloads = items
    return Items(
        None if ids is None else [ids[row] for row in rows],
        None if X is None else X[rows],
        None if texts is None else [texts[row] for row in rows],
        [payloads[row] for row in rows],
    )


def _texts(table: Table, name: str) -> list[str]:
    for row, text in enumerate(table.columns[name]):
        if not isinstance(text, str) or not text.strip():
            raise table.error(row, f"expected a text for {name}, got {'nothing' if not text else type(text).__name__}")
    return [str(text) for text in table.columns[name]]


def _is_whole(id: Id) -> bool:
    return str(id).isdecimal() and str(int(id)) == id


def _payload(table: Table, row: int, left_out: set[str | None], text: str | None) -> Payload:
    payload: Payload = {}
    for name, values in table.columns.items():
        if name in left_out:
            continue
        is_number = name in table.numeric and name != text
        try:
            value = _number(values[row]) if is_number else _plain(values[row])
        except InvalidInput as error:
            raise table.error(row, f"{name} cannot be kept in a payload: {error}") from None
        if value is not None and value != "":
            payload["text" if name == text else table.written.get(name, name)] = value
    return payload


def _number(cell: str) -> int | float | None:
    """A cell of a column of numbers; None for what is empty."""
    if not cell.strip():
        return None
    number = number_of(cell)
    if number is None:  # the file has grown since it was looked through
        raise InvalidInput(f"expected a number, as in all rows before, got {cell[:40]!r}")
    return number


def _plain(value: object) -> Any:
    """A cell as JSON has it; None for what is empty."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InvalidInput(f"it is a {type(value).__name__}")
