"""What a live index answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.index.base import Index
from onlinehash.index.hits import Hits
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.asking import Asking
from onlinehash.live.table import Holdings

#: Rows read at once where all vectors are asked for.
BLOCK_ROWS = 4096


class Item(NamedTuple):
    """One item of an index."""

    id: int | str
    vector: np.ndarray
    payload: dict[str, Any] | None


class Searching(Asking):
    """The answers; any number of threads may ask."""

    learner: Learner
    _holdings: Holdings
    _gate: threading.RLock

    def searched(self, queries: Any, k: int, where: Any = None) -> tuple[Hits, Encoder]:
        """What `search` finds, and the encoder of the codes that it searched, whatever is refreshed meanwhile."""
        view, encoder, asked, among = self._to_search(queries, where)
        return view.search(asked, k, among), encoder

    def found_within(self, queries: Any, radius: int, where: Any = None) -> tuple[Any, Encoder]:
        """What `within` finds, and the encoder of the codes that it searched."""
        view, encoder, asked, among = self._to_search(queries, where)
        return view.within(asked, radius, among), encoder

    def _to_search(self, queries: Any, where: Any) -> tuple[Index, Encoder, Any, np.ndarray | None]:
        """The published index with its encoder, what to look for in it, and which items a filter admits."""
        self._before_reading()
        view, among = self._holdings.chosen(where)
        asked = self._asked(queries, view.encoder)
        assert view.encoder is not None  # or it was refused
        return view, view.encoder, asked, among

    def _take(self, ids: Any) -> np.ndarray:
        rows = self._holdings.take(ids)
        return rows if len(rows) else np.empty((0, self._n_features), self._dtype)  # of the width, if any is known

    # ------------------------------------------------------------------------------------------------ items

    def get(self, id: int | str) -> Item:
        """The item of an id, with its `vector` and its `payload` (None if it has none)."""
        self._before_reading()
        with self._gate:
            positions = self._holdings.find([id])
            (vector,) = self._holdings.vectors.take(positions)
            (stored,) = self._holdings.view.items.ids.at(positions).tolist()
            return Item(stored, vector, self._holdings.payloads.at(int(positions[0])))

    def get_many(self, ids: Any) -> list[Item]:
        """The items of some ids, as they are at one moment; an id may be there more than once."""
        self._before_reading()
        with self._gate:
            positions = self._holdings.view.items.ids.find(ids, repeated=True)
            names = self._holdings.view.items.ids.at(positions).tolist()
            payloads = [self._holdings.payloads.at(position) for position in positions.tolist()]
            vectors: Any = self._holdings.take(ids) if len(positions) else []
        return [Item(*item) for item in zip(names, vectors, payloads, strict=True)]

    def vectors_of(self, ids: Any) -> np.ndarray:
        """The vectors of some items, one a row; an id may be there more than once."""
        self._before_reading()
        return self._take(ids)

    def payloads_of(self, ids: Any) -> list[dict[str, Any] | None]:
        """The payloads of some items, None also for those that are there no more, as after a search."""
        with self._gate:
            index, payloads = self._holdings.view.items.ids, self._holdings.payloads
            return [payloads.at(int(index.find([id])[0])) if id in self._holdings.view else None for id in ids]

    def __contains__(self, id: object) -> bool:
        with self._gate:
            return id in self._holdings.view

    def __len__(self) -> int:
        return len(self._holdings.view)

    def __iter__(self) -> Iterator[int | str]:
        """The ids, in the order of insertion, as they are now."""
        return iter(self.ids.tolist())

    @property
    def ids(self) -> np.ndarray:
        """The items' ids, in the order of insertion."""
        return self._holdings.view.ids

    @property
    def ids_kind(self) -> str:
        """`range` (numbers in the order of insertion), `integers` or `strings`."""
        return self._holdings.view.ids_kind

    @property
    def codes(self) -> Codes:
        """The items' codes, in the order of insertion: what `encoder` makes of `vectors`."""
        self._before_reading()
        self._asked(None, self.encoder)
        with self._gate:
            return self._holdings.view.codes

    @property
    def vectors(self) -> np.ndarray:
        """The items' vectors, in the order of insertion; all of them, copied into memory."""
        self._before_reading()
        with self._gate:
            living = self._holdings.view.items.positions()
            out = np.empty((len(living), self._n_features), self._dtype)
            for start in range(0, len(living), BLOCK_ROWS):
                out[start : start + BLOCK_ROWS] = self._holdings.vectors.take(living[start : start + BLOCK_ROWS])
        return out

    @property
    def view(self) -> Index:
        """Ids, codes and their encoder as of one moment: the index that is searched now. It must not be changed."""
        return self._holdings.view

    @property
    def encoder(self) -> Encoder | None:
        """What made the codes; None until the learner has its first hash functions."""
        return self._holdings.encoder

    @property
    def n_bits(self) -> int:
        """Bits of each model's code."""
        return self._holdings.view.n_bits

    @property
    def n_models(self) -> int:
        """Codes of an item."""
        return self._holdings.view.n_models
