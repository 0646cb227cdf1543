"""What one can ask of an index that follows its learner, wherever the items are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.index.hits import Hits
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder


class Asking(ABC):
    """The questions; none of them changes an item."""

    if TYPE_CHECKING:

        @property
        def learner(self) -> Learner:
            """Whom the codes follow; an attribute where nobody else can teach it."""

    def search(self, queries: Any, k: int, where: Any = None) -> Hits:
        """The k nearest items of each query by Hamming distance, fewer where there are not as many.

        Queries are vectors, one or several, or codes. `where` filters by payload, as in
        `{"colour": "red", "price": {"<": 5}}`; docs/live-index.md has all conditions.
        """
        return self.searched(queries, k, where)[0]

    def within(self, queries: Any, radius: int, where: Any = None) -> Any:
        """All items at a distance of at most `radius`: Hits for one query, a list of Hits for several."""
        return self.found_within(queries, radius, where)[0]

    @abstractmethod
    def searched(self, queries: Any, k: int, where: Any = None) -> tuple[Hits, Encoder]:
        """What `search` finds, and the encoder of the codes that it searched, whatever is refreshed meanwhile."""

    @abstractmethod
    def found_within(self, queries: Any, radius: int, where: Any = None) -> tuple[Any, Encoder]:
        """What `within` finds, and the encoder of the codes that it searched."""

    @property
    @abstractmethod
    def encoder(self) -> Encoder | None:
        """What made the codes; None until the learner has its first hash functions."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _take(self, ids: Any) -> np.ndarray:
        """The vectors of items, some of which may be asked for more than once."""

    @abstractmethod
    def _before_reading(self) -> None:
        """Refuse if the index was closed; a chance to notice that the learner learned elsewhere."""

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
        away = self._take(ids.tolist()).astype(np.float64) - query
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

    def _given(self, ids: Any, X: Any) -> tuple[Any, np.ndarray]:
        """Ids and vectors; one vector may come without a dimension for it."""
        rows = checks.row(X, "X") if checks.is_row(X) else X
        rows = checks.vectors(rows, dtype=self._dtype if self._n_features else None)
        if self._n_features:
            checks.width(rows, self._n_features, "this index")
        return listed(ids), rows

    @property
    def _n_features(self) -> int:
        return int(getattr(self.learner, "n_features_in_", 0))

    @property
    def _dtype(self) -> np.dtype:
        return getattr(self.learner, "dtype_", np.dtype(np.float32))


def listed(ids: Any) -> Any:
    """Ids as a sequence, also if it is only one."""
    return [ids] if isinstance(ids, str | int | np.integer) else ids
