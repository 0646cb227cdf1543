"""Marks from files: what people's clicks, ratings and verdicts say about a query and items.

A query is an item (the column `query` or `id_a`), a text (`text`) or a vector (`vector`). A row of a file is

    query, shown, clicked           the results that were shown, in order, and those that were clicked: `from_clicks`
    query, id (or id_b), rating     1 to 5: below 3 is not similar, above 3 similar, counting half or (1 and 5) in full
    query, id (or id_b), similar    a verdict; `duplicate` is another name for it, `weight` says how much it counts

Other columns, such as a time, are left alone. In csv, a list is a JSON list in a cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.streams import columns
from onlinehash.streams.clicks import from_clicks
from onlinehash.streams.tables import Table
from onlinehash.types import Id

#: The rating that says nothing, and by how much the most extreme ones differ from it.
MIDDLE, SPREAD = 3, 2
VERDICTS = ("similar", "duplicate")


class Marks(NamedTuple):
    """What one row says: of which query (the id of an item, a text or a vector), and of which items."""

    kind: str  #: "id", "text" or "vector"
    query: Any
    ids: list[Id]
    similar: list[bool]
    weight: list[float]
    shown: list[Id]  #: all results that were shown, in order; empty for ratings and verdicts


class MarkReader:
    """Turns the tables of a file into marks, one for each row.

    Parameters
    ----------
    as_id : callable
        Makes an id of a cell, as the index has them.
    has_text_ids : bool
        Whether ids are strings. Where they are not, strings in the column `query` are texts.
    skip_weight, position_bias : float
        As in `from_clicks`.
    similar_column : str, optional
        The column of verdicts, whatever other columns there are.
    """

    def __init__(
        self,
        as_id: Callable[[object], Id],
        has_text_ids: bool,
        skip_weight: float = 0.5,
        position_bias: float = 0.0,
        similar_column: str | None = None,
    ) -> None:
        self._as_id, self._has_text_ids, self._similar_column = as_id, has_text_ids, similar_column
        self._weights = {"skip_weight": skip_weight, "position_bias": position_bias}
        self._similar = columns.SimilarColumn()

    def __call__(self, table: Table) -> list[Marks]:
        said = self._said(table)
        kind, queries = self._queries(table)
        return [Marks(kind, query, *next(said)) for query in queries]

    def _queries(self, table: Table) -> tuple[str, list[Any]]:
        if columns.has_vectors(table, "vector"):
            return "vector", list(columns.vectors(table, "vector"))
        name = next((name for name in ("text", "query", "id_a") if name in table.columns), None)
        if name is None:
            raise table.lacks("a column query, id_a, text or vector, which says what was searched for")
        values = list(table.columns[name])
        are_texts = name == "query" and not self._has_text_ids and not all(map(_is_whole, values))
        if name == "text" or are_texts:
            for row, value in enumerate(values):
                if not isinstance(value, str) or not value.strip():
                    raise table.error(row, f"expected a text for {name}, got nothing")
            return "text", values
        return "id", [self._id(table, row, value, name) for row, value in enumerate(values)]

    def _said(self, table: Table) -> Iterator[tuple[list[Id], list[bool], list[float], list[Id]]]:
        """For each row, the items of which it says something, and what, and all that were shown."""
        verdict = self._similar_column
        if verdict is None and {"shown", "clicked"} <= table.columns.keys():
            return (self._clicked(table, row) for row in range(len(table)))
        name = next((name for name in ("id_b", "id") if name in table.columns), None)
        if name is None:
            raise table.lacks("the columns shown and clicked, or a column id_b or id")
        ids = [self._id(table, row, value, name) for row, value in enumerate(table.columns[name])]
        if verdict is None and "rating" in table.columns:
            return (self._rated(table, row, id) for row, id in enumerate(ids))
        verdict = verdict or next((name for name in VERDICTS if name in table.columns), None)
        if verdict is None:
            raise table.lacks("a column rating, similar or duplicate, or the columns shown and clicked")
        similar, weights = self._similar(table.named(verdict, "similar"), verdict).tolist(), columns.weights(table)
        return (
            ([id], [similar[row]], [1.0 if weights is None else float(weights[row])], []) for row, id in enumerate(ids)
        )

    def _clicked(self, table: Table, row: int) -> tuple[list[Id], list[bool], list[float], list[Id]]:
        shown, clicked = (
            [self._id(table, row, value, name) for value in _listed(table, row, name)] for name in ("shown", "clicked")
        )
        try:
            pairs = from_clicks(None, shown, clicked, **self._weights)
        except InvalidInput as error:
            raise table.error(row, str(error).rstrip(".")) from None
        return pairs.ids_b, pairs.similar, pairs.weight, shown

    def _rated(self, table: Table, row: int, id: Id) -> tuple[list[Id], list[bool], list[float], list[Id]]:
        value = table.columns["rating"][row]
        try:
            rating = float(value)
        except (TypeError, ValueError):
            rating = 0.0
        if not 1 <= rating <= 5:
            raise table.error(row, f"expected a rating from 1 to 5, got {str(value)[:40]!r}")
        if rating == MIDDLE:
            return [], [], [], []
        return [id], [rating > MIDDLE], [abs(rating - MIDDLE) / SPREAD], []

    def _id(self, table: Table, row: int, value: object, name: str) -> Id:
        try:
            return self._as_id(value)
        except (TypeError, ValueError):
            raise table.error(row, f"expected the id of an item for {name}, got {str(value)[:40]!r}") from None


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) or (isinstance(value, str) and value.strip().lstrip("-").isdecimal())


def _listed(table: Table, row: int, name: str) -> list[Any]:
    value = cell = table.columns[name][row]
    if name == "clicked" and (cell is None or (isinstance(cell, str) and not cell.strip())):
        return []
    if isinstance(cell, str):
        try:
            value = json.loads(cell)
        except ValueError:
            value = None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list):
        raise table.error(row, f"expected a list of ids such as [4, 17] for {name}, got {str(cell)[:40]!r}")
    return value
