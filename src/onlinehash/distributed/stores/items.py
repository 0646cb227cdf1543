"""The items of an index on a shelf, and what else it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from onlinehash.codes import Codes
from onlinehash.distributed.stores.naming import ShelfIds, ids_of
from onlinehash.distributed.stores.reading import Reading, matrix_of
from onlinehash.distributed.stores.shelf import Layout
from onlinehash.distributed.stores.state import Moment
from onlinehash.errors import InvalidInput
from onlinehash.index import keys as arrays
from onlinehash.live.searching import Item


class Items(Reading):
    """What is there."""

    def get(self, id: int | str) -> Item:
        """The item of an id, with its `vector` and its `payload` (None if it has none)."""
        self._before_reading()
        return self._read(lambda moment: self._items_at(moment, self._ids_at(moment).find([id]))[0])

    def get_many(self, ids: Any) -> list[Item]:
        """The items of some ids, as they are at one moment; an id may be there more than once."""
        self._before_reading()
        return self._read(lambda moment: self._items_at(moment, self._ids_at(moment).find(ids, repeated=True)))

    def _items_at(self, moment: Moment, places: np.ndarray) -> list[Item]:
        rows, whose = self._rows_at(moment, places, vectors=True)
        ids, payloads = ids_of(rows.ids, moment.state).tolist(), [_object(text) for text in rows.payloads]
        vectors = matrix_of(rows.vectors, moment.state)[whose]
        return [Item(ids[i], vector, payloads[i]) for i, vector in zip(whose.tolist(), vectors, strict=True)]

    def vectors_of(self, ids: Any) -> np.ndarray:
        """The vectors of some items, one a row; an id may be there more than once."""
        self._before_reading()
        return self._take(ids)

    def _take(self, ids: Any) -> np.ndarray:
        def take(moment: Moment) -> np.ndarray:
            places = self._ids_at(moment).find(ids, repeated=True)
            rows, whose = self._rows_at(moment, places, vectors=True)
            return matrix_of(rows.vectors, moment.state)[whose]

        return self._read(take)

    def payloads_of(self, ids: Any) -> list[dict[str, Any] | None]:
        """The payloads of some items, None also for those that are there no more, as after a search."""
        asked = list(ids)

        def look(moment: Moment) -> list[dict[str, Any] | None]:
            places = self._places(moment, asked)
            rows, whose = self._rows_at(moment, places[places >= 0])
            found = iter([_object(rows.payloads[i]) for i in whose.tolist()])
            return [next(found) if place >= 0 else None for place in places.tolist()]

        return self._read(look)

    def _places(self, moment: Moment, ids: list[Any]) -> np.ndarray:
        """The places of what may or may not be ids, -1 where there is no item."""
        if not ids:
            return np.empty(0, np.int64)
        with suppress(InvalidInput):  # unless all are of one kind, they are looked at one by one
            return self._ids_at(moment).places(arrays.given(ids))
        if len(ids) == 1:
            return np.array([-1])
        return np.concatenate([self._places(moment, [id]) for id in ids])

    def __contains__(self, id: object) -> bool:
        return self._read(lambda moment: id in self._ids_at(moment))

    def _ids_at(self, moment: Moment) -> ShelfIds:
        return ShelfIds(self._shelf, moment)

    # ------------------------------------------------------------------------------------------------ all items

    def __len__(self) -> int:
        return self._now.state.n

    def __iter__(self) -> Iterator[int | str]:
        """The ids, in the order of insertion, as they are now."""
        return iter(self.ids.tolist())

    @property
    def ids(self) -> np.ndarray:
        """The items' ids, in the order of insertion."""
        return self._read(lambda moment: ids_of([id for page in self._pages(moment) for id in page.ids], moment.state))

    @property
    def ids_kind(self) -> str:
        """`range` (numbers in the order of insertion), `integers` or `strings`."""
        return self._now.state.ids or "range"

    @property
    def codes(self) -> Codes:
        """The items' codes, in the order of insertion: what `encoder` makes of `vectors`."""
        self._before_reading()

        def read(moment: Moment) -> Codes:
            self._asked(None, self._encoder_at(moment))
            rows = np.concatenate([page.codes for page in self._pages(moment, codes=True)])
            return Codes.from_rows(rows.reshape(len(rows), self._layout.n_bytes), self.n_bits, self.n_models)

        return self._read(read)

    @property
    def vectors(self) -> np.ndarray:
        """The items' vectors, in the order of insertion; all of them, copied into memory."""
        self._before_reading()
        return self._read(
            lambda moment: np.concatenate(
                [matrix_of(page.vectors, moment.state) for page in self._pages(moment, vectors=True)]
            )
        )

    # ------------------------------------------------------------------------------------------------ what it is

    @property
    def _layout(self) -> Layout:
        return self._shelf.layout

    @property
    def n_bits(self) -> int:
        """Bits of each model's code."""
        return self._layout.n_bits

    @property
    def n_models(self) -> int:
        """Codes of an item."""
        return self._layout.n_models

    @property
    def _n_features(self) -> int:
        return self._now.state.n_features

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self._now.state.dtype)


def _object(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
