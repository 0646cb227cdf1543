"""What one can ask of a live index."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.index.base import Index
from onlinehash.index.hits import Hits
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.holdings import Holdings

#: Rows read at once where all vectors are asked for.
BLOCK_ROWS = 4096


class Item(NamedTuple):
    """One item of an index."""

    id: int | str
    vector: np.ndarray
    payload: dict[str, Any] | None


class Searching:
    """The questions; none of them changes an item, and any number of threads may ask."""

    learner: Learner
    _holdings: Holdings
    _gate: threading.RLock

    def search(self, queries: Any, k: int, where: Any = None) -> Hits:
        """The k nearest items of each query by Hamming distance, fewer where there are not as many.

        Queries are vectors, one or several, or codes. `where` filters by payload, as in
        `{"colour": "red", "price": {"<": 5}}`; docs/live-index.md has all conditions.
        """
        return self.searched(queries, k, where)[0]

    def within(self, queries: Any, radius: int, where: Any = None) -> Any:
        """All items at a distance of at most `radius`: Hits for one query, a list of Hits for several."""
        return self.found_within(queries, radius, where)[0]

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

    def rerank(self, queries: Any, hits: Hits, k: int | None = None) -> Hits:
        """The same hits in the order of the Euclidean distance of query and stored vector, and these distances.

        Where vectors are equally far the order of the hits stays. `k` keeps so many of them.
        """
        self._before_reading()
        if not isinstance(hits, Hits) or isinstance(queries, Codes):
            raise InvalidInput(
                f"expected vectors and their hits, got {checks.shown(queries)} and {checks.shown(hits)}; "
                "within gives a list of hits, to be reranked one by one."
            )
        vectors = checks.matrix(queries, "queries") if not checks.is_row(queries) else np.asarray(queries)
        ids = np.asarray(hits.ids)
        if vectors.ndim not in (1, 2) or ids.ndim != vectors.ndim or (vectors.ndim == 2 and len(ids) != len(vectors)):
            raise InvalidInput(
                f"expected the hits of these queries, got hits of shape {ids.shape} for queries of shape "
                f"{vectors.shape}; rerank what a search gave, with its queries."
            )
        if k is not None:
            checks.parameters("rerank", {"k": k}, {"k": checks.integer(0)})
        rows = checks.vectors(np.atleast_2d(vectors), "queries", self._dtype)
        checks.width(rows, self._n_features, "this index", "queries")
        found = [self._ranked(row, of_row, k) for row, of_row in zip(rows, np.atleast_2d(ids), strict=True)]
        if vectors.ndim == 1:
            return found[0]
        return Hits(*(np.stack(column) for column in zip(*found, strict=True)))

    def _ranked(self, query: np.ndarray, ids: np.ndarray, k: int | None) -> Hits:
        if len(ids) == 0:  # an index that never had an item knows no width
            return Hits(ids, np.empty(0))
        away = self._holdings.take(ids.tolist()).astype(np.float64) - query
        distances = np.sqrt(np.einsum("nd,nd->n", away, away))
        order = np.argsort(distances, kind="stable")[:k]
        return Hits(ids[order], distances[order])

    def _asked(self, queries: Any, encoder: Encoder | None) -> Any:
        """The queries, if there are codes to compare them with; bools are vectors here, as they are in `add`."""
        if encoder is None:
            if self._n_features:
                self.learner.snapshot()  # which says what it waits for
            raise NotReady("expected an index with codes to search, got one that never had an item; add some.")
        if isinstance(queries, np.ndarray | list):
            with suppress(ValueError):  # of rows of unequal length, which the index refuses
                return np.asarray(queries, self._dtype if np.asarray(queries).dtype == np.bool_ else None)
        return queries

    def _before_reading(self) -> None:
        """Refuse if the index was closed; a chance to notice that the learner learned elsewhere."""

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
        return self._holdings.take(ids)

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

    @property
    def _n_features(self) -> int:
        return int(getattr(self.learner, "n_features_in_", 0))

    @property
    def _dtype(self) -> np.dtype:
        return getattr(self.learner, "dtype_", np.dtype(np.float32))
