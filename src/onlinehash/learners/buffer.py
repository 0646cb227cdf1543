"""`Buffer`: rows kept until there are enough of them to be learned together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from onlinehash.io.format import like, whole
from onlinehash.types import State

#: The shape and the dtype of a row.
Column: TypeAlias = tuple[tuple[int, ...], DTypeLike]


class Rows(SimpleNamespace):
    """Rows of a buffer. Pairs have the first four columns; points have X, and what is known of them."""

    A: np.ndarray
    B: np.ndarray
    similar: np.ndarray
    weights: np.ndarray
    X: np.ndarray
    members: np.ndarray
    targets: np.ndarray


class Buffer:
    """Aligned arrays of `size` rows, filled from the top; any split of a stream fills them alike."""

    def __init__(self, size: int, columns: dict[str, Column]) -> None:
        """`columns` names the arrays, each with the shape and the dtype of a row."""
        self.size = size
        self.count = 0
        self._arrays = {name: np.zeros((size, *shape), dtype) for name, (shape, dtype) in columns.items()}

    @property
    def room(self) -> int:
        """Number of rows that still fit."""
        return self.size - self.count

    def put(self, **rows: np.ndarray) -> None:
        """Append rows; there must be room for them."""
        places = slice(self.count, self.count + len(next(iter(rows.values()))))
        for name, array in self._arrays.items():
            array[places] = rows[name]
        self.count = places.stop

    def next_row(self) -> tuple[int, dict[str, np.ndarray]]:
        """Count one more row, for which there must be room: its place, and the arrays in which to write it."""
        self.count += 1
        return self.count - 1, self._arrays

    def rows(self) -> Rows:
        """All rows, as views; the buffer keeps them."""
        return Rows(**{name: array[: self.count] for name, array in self._arrays.items()})

    def take(self) -> Rows:
        """Return a copy of all rows and empty the buffer."""
        taken = Rows(**{name: array[: self.count].copy() for name, array in self._arrays.items()})
        for array in self._arrays.values():
            array[: self.count] = 0  # a state tells nothing of rows that are gone
        self.count = 0
        return taken

    def get_state(self) -> State:
        return {"count": self.count, "rows": self._arrays}

    def set_state(self, state: State, n_classes: int = 0) -> None:
        """Take over rows; of whole numbers, `members` are classes, one each, and all others are -1, 0 or 1."""
        count = whole(state["count"], "the rows that wait for their chunk", 0, self.size - 1)
        for name, array in self._arrays.items():
            low, high = (0, max(n_classes - 1, 0)) if name == "members" else (-1, 1)
            limits = (None, None) if array.dtype.kind == "f" else (low, high)
            self._arrays[name] = like(state["rows"][name], array, name, *limits)
        self.count = count
