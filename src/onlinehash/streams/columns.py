"""Columns of a table as arrays, each checked; what cannot be used is named by file and line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.streams.tables import Table

SIMILAR = ("true", "1", "+1", "1.0", "similar")
DISSIMILAR = ("false", "-1", "-1.0", "0", "0.0", "dissimilar")
MEANINGS = dict.fromkeys(SIMILAR, True) | dict.fromkeys(DISSIMILAR, False)
#: Characters of a label: an array of texts has room for the longest in every row.
LONGEST_LABEL = 1000
#: The numbers for dissimilar, of which a file has one.
NUMBERS = {"-1": -1, "-1.0": -1, "0": 0, "0.0": 0}


def has_vectors(table: Table, name: str) -> bool:
    """Whether there is a column of that name whose cells are vectors."""
    values = table.columns.get(name, [None])
    if isinstance(values, np.ndarray):
        return values.ndim == 2
    return isinstance(values[0], list) or str(values[0]).lstrip().startswith("[")


def vectors(table: Table, name: str) -> np.ndarray:
    """A matrix from a column of vectors, or from columns name_0, name_1, ... that hold one number each."""
    values = table.columns.get(name)
    if values is None:
        names = [f"{name}_{k}" for k in range(len(table.columns)) if f"{name}_{k}" in table.columns]
        if not names or names[-1] != f"{name}_{len(names) - 1}":
            raise table.lacks(f"a column {name} of vectors, or columns {name}_0, {name}_1, ... without a gap")
        return matrix(table, names)
    if not isinstance(values, np.ndarray):
        rows = _each(table, values, _vector, f"a list of numbers for {name}")
        for row, vector in enumerate(rows):
            if len(vector) != len(rows[0]):
                raise table.error(
                    row, f"expected {len(rows[0])} numbers for {name}, like the rows before, got {len(vector)}"
                )
        values = np.stack(rows)
    if values.ndim != 2:
        raise InvalidInput(
            where=table.source, expected=f"vectors for {name}", got=f"an array of {values.ndim} dimensions"
        )
    return _finite(table, values, name)


def matrix(table: Table, names: Sequence[str]) -> np.ndarray:
    """A matrix from columns of numbers; arrays keep their common type, text becomes float64."""
    columns = [table.columns[name] for name in names]
    if all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns):
        return _finite(table, np.stack(columns, axis=1), names[0])
    try:
        values = np.array(columns, np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.array(
            [_each(table, column, float, f"a number for {name}") for name, column in zip(names, columns, strict=True)]
        )
    return _finite(table, np.ascontiguousarray(values.T), names[0])


class SimilarColumn:
    """Reads the column `similar` of files as bools.

    Click logs say 1 and 0, others 1 and -1. Where a file has both 0 and -1, the 0 may mean unknown, and is refused.
    """

    def __init__(self) -> None:
        self._source: str | None = None
        self._number: int | None = None

    def __call__(self, table: Table, called: str = "similar") -> np.ndarray:
        """The bools; `called` is what messages call the column, where the file has another name for it."""
        if "similar" not in table.columns:
            raise table.lacks("a column similar")
        if table.source != self._source:
            self._source, self._number = table.source, None
        expected = f"{called} to be true or 1, or else false, 0 or -1 (0 and -1 not in one file)"
        return np.array(_each(table, table.columns["similar"], self._meaning, expected), np.bool_)

    def _meaning(self, value: object) -> bool:
        text = str(value).strip().lower()
        number = NUMBERS.get(text, self._number)
        if text not in MEANINGS or self._number not in (None, number):
            raise ValueError
        self._number = number
        return MEANINGS[text]


def weights(table: Table) -> np.ndarray | None:
    """The column `weight`, None where there is none; a row that leaves it empty weighs 1."""
    if "weight" not in table.columns:
        return None
    return np.array(_each(table, table.columns["weight"], _weight, "a finite weight of at least 0"))


def labels(table: Table, name: str) -> np.ndarray:
    """A column of labels: numbers, bools or text."""
    found = ids(table, name)
    for row, label in enumerate(found):
        if isinstance(label, str) and len(label) > LONGEST_LABEL:
            raise table.error(row, f"expected at most {LONGEST_LABEL} characters as {name}, got {len(label)}")
    return np.array(found)


def ids(table: Table, name: str) -> list[Any]:
    """A column of ids, all numbers or, where one is a text, all texts."""
    found = _each(table, table.columns[name], _storable_label, f"a number of 64 bits or a text as {name}")
    return list(map(str, found)) if any(isinstance(id, str) for id in found) else np.array(found).tolist()


def identities(table: Table, name: str) -> list[str]:
    """A column of ids; they compare as text, so that a 3 in one file is the "3" of another."""
    if name not in table.columns:
        raise table.lacks(f"a column {name}")
    return [str(value) for value in _each(table, table.columns[name], _label, f"a number or a text as {name}")]


def _each(table: Table, values: Any, convert: Callable[[Any], Any], expected: str) -> list[Any]:
    """Every value converted; the first that cannot be is named by its line."""
    converted = []
    for row, value in enumerate(values):
        try:
            converted.append(convert(value))
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise table.error(row, f"expected {expected}, got {_shown(value)}") from None
    return converted


def _vector(value: object) -> np.ndarray:
    vector = np.array(json.loads(value) if isinstance(value, str) else value, np.float64)
    if vector.ndim != 1 or not vector.size:
        raise ValueError
    return vector


def _weight(value: Any) -> float:
    weight = 1.0 if value is None or value == "" else float(value)
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError
    return weight


def _label(value: object) -> Any:
    if not isinstance(value, str | int | float | np.generic) or value == "" or value != value:
        raise ValueError
    return value


def _storable_label(value: object) -> Any:
    if isinstance(value, int) and value.bit_length() > 64:
        raise OverflowError
    return _label(value)


def _finite(table: Table, values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise InvalidInput(where=table.source, expected=f"numbers for {name}", got=f"{values.dtype}")
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        bad = values[row][~np.isfinite(values[row])][0]
        raise table.error(row, f"expected finite numbers, got {bad}")
    return values


def _shown(value: object) -> str:
    if value is None or (isinstance(value, str) and not value):
        return "nothing"
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "..."
