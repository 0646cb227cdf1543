"""Vectors by id, for pairs that name ids: a file of points, held in memory (an npy stays on the disk)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.streams import columns
from onlinehash.streams.array_tables import map_matrix
from onlinehash.streams.from_files import FilePath, format_of, read_tables
from onlinehash.streams.points import PointReader
from onlinehash.streams.tables import Table


class VectorsById:
    """The vectors of a file with a column `id`; in a file without one, a vector's id is its row, from 0."""

    def __init__(self, path: FilePath) -> None:
        self._source = os.fspath(path)
        self._rows: dict[str, int] | None = None
        tables = read_tables(path)
        if format_of(path) == "npy":
            self._X = map_matrix(self._source)
            return
        blocks, ids = [], []
        read_points = PointReader(labelled=False)
        for table in tables:
            blocks.append(read_points(table).X)
            if "id" in table.columns:
                ids += columns.identities(table, "id")
        if not blocks:
            raise InvalidInput(f"{path} has no vectors.")
        self._X = np.concatenate(blocks)
        if ids:
            self._rows = {name: row for row, name in enumerate(ids)}
            if len(self._rows) != len(self._X):
                raise InvalidInput(f"{path}: the ids of the {len(self._X)} vectors are not unique.")

    def find(self, table: Table, name: str) -> np.ndarray:
        """The vectors that a column of ids names."""
        rows: list[Any] = [self._row(key) for key in columns.identities(table, name)]
        if None in rows:
            missing = rows.index(None)
            key = table.columns[name][missing]
            raise table.error(missing, f"{name} is {key!r}, which is not the id of a vector in {self._source}")
        return np.asarray(self._X[rows])

    def _row(self, key: str) -> int | None:
        if self._rows is not None:
            return self._rows.get(key)
        # Python refuses to read a number of thousands of digits.
        is_row = key.isdecimal() and len(key) < 20 and int(key) < len(self._X)
        return int(key) if is_row else None
