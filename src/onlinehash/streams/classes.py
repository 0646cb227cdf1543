"""Labels as class numbers: 0, 1, 2, ... in the order in which a stream first shows them."""

from __future__ import annotations

import numpy as np

from onlinehash.errors import FormatError
from onlinehash.io.format import listed, text
from onlinehash.streams.from_labels import key_of
from onlinehash.types import State


class Classes:
    """The classes seen so far. A point has one label, or several: a column of 0 and 1 for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import streams
    >>> classes = streams.Classes()
    >>> classes.members(np.array(["cat", "dog", "cat"]))
    array([[0],
           [1],
           [0]])
    >>> len(classes)
    2
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def members(self, y: np.ndarray) -> np.ndarray:
        """The class numbers of each point, int64 `(n, m)`: as many as it has labels, then -1."""
        if y.ndim == 1:
            return np.array([[self._number(key_of(label))] for label in y], np.int64)
        members = np.full((len(y), max(1, int(y.sum(axis=1).max()))), -1, np.int64)
        for row, has in zip(members, y, strict=True):
            columns = np.flatnonzero(has)
            row[: len(columns)] = [self._number(str(column)) for column in columns]
        return members

    def _number(self, key: str) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def get_state(self) -> State:
        return {"keys": list(self._numbers)}

    def set_state(self, state: State) -> None:
        keys = [text(key, "a class") for key in listed(state["keys"], "classes")]
        if len(set(keys)) < len(keys):
            raise FormatError("a class occurs twice.")
        self._numbers = {key: number for number, key in enumerate(keys)}
