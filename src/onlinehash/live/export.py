"""`export`: ids, vectors and payloads out of a durable index, without its learner, its encoders or its codes.

It works even if one of those is damaged, as it reads none of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from onlinehash.errors import FormatError
from onlinehash.live.sqlite import folder as folders
from onlinehash.live.sqlite.records import read_items
from onlinehash.live.sqlite.schema import check_tables, connect, translated
from onlinehash.live.sqlite.segments import Reader
from onlinehash.live.sqlite.state import State

#: Vectors read at once.
BLOCK_ROWS = 1024


class Export(NamedTuple):
    """One item; `vector` is None where its bytes are not those that were written."""

    id: Any
    vector: np.ndarray | None
    payload: dict[str, Any] | None


def export(path: str | os.PathLike[str]) -> Iterator[Export]:
    """The items at a path in the order of insertion, as of one moment; a writer may go on meanwhile."""
    folder = folders.absolute(path)
    folders.expect_store(folder)
    with translated(folder), closing(connect(folder, False)) as connection:
        connection.execute("BEGIN")
        check_tables(connection, folder)
        state = State.read(connection, folder)
        items = read_items(connection, folder, state)
        reader, numbers = Reader(connection, folder, state), np.array(sorted(items), np.int64)
        for start in range(0, len(numbers), BLOCK_ROWS):
            block = numbers[start : start + BLOCK_ROWS]
            for number, vector in zip(block.tolist(), _vectors(reader, block), strict=True):
                name, text = items[number]
                yield Export(name, vector, None if text is None else json.loads(text))


def _vectors(reader: Reader, numbers: np.ndarray) -> Iterator[np.ndarray | None]:
    """The rows of these numbers; one that is damaged does not take its neighbours with it."""
    try:
        yield from reader.take(numbers)[0]
        return
    except FormatError:
        pass
    for number in numbers:
        try:
            (row,), found = reader.take(np.array([number]))
            yield row if found[0] else None
        except FormatError:
            yield None
