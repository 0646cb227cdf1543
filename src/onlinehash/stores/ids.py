"""Ids in a database: texts, whatever they are to users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinehash.index import keys as arrays
from onlinehash.index.id_set import IdSet
from onlinehash.index.ids_kernels import Keys
from onlinehash.stores.backend import Backend
from onlinehash.stores.manifest import Moment, State


class StoredIds(IdSet):
    """Which id is at which place, as of one moment."""

    def __init__(self, backend: Backend, moment: Moment) -> None:
        self._backend, self._epoch, self._state = backend, moment.epoch, moment.state
        self._next = moment.state.next_id

    @property
    def _are_texts(self) -> bool:
        return self._state.ids == "strings"

    @property
    def _undecided(self) -> bool:
        return self._state.ids is None

    def places(self, asked: Keys) -> np.ndarray:
        """The place of each item, -1 where there is none."""
        n = arrays.count(asked)
        if n == 0 or self._state.n == 0 or arrays.are_texts(asked) != self._are_texts:
            return np.full(n, -1)
        return self._backend.places(texts_of(arrays.shown_at(asked, np.arange(n))), self._epoch)

    _positions = places


def texts_of(ids: np.ndarray) -> list[str]:
    """As they are written: integers in decimal, strings as they are unless a database could not hold them."""
    return [_escaped(id) if isinstance(id, str) else str(id) for id in ids.tolist()]


def ids_of(texts: Sequence[str], state: State) -> np.ndarray:
    """What was written, as users know it: int64, or str objects."""
    if state.ids != "strings":
        return np.array([int(text) for text in texts], np.int64)
    ids = np.empty(len(texts), object)
    ids[:] = [_plain(text) for text in texts]
    return ids


def _escaped(id: str) -> str:
    """PostgreSQL has no zero character in its texts. A backslash comes first where something was written otherwise."""
    if "\0" not in id and not id.startswith("\\"):
        return id
    return "\\" + id.replace("\\", "\\\\").replace("\0", "\\0")


def _plain(text: str) -> str:
    if not text.startswith("\\"):
        return text
    return "\\".join(part.replace("\\0", "\0") for part in text[1:].split("\\\\"))
