"""What callers give to an index, checked: ids, vectors, queries, hits to rerank."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.index.hits import Hits
from onlinehash.learners.base import Learner


class VectorKind(NamedTuple):
    """Width and type of an index's vectors; the width is 0 before the first."""

    n_features: int
    dtype: np.dtype

    @classmethod
    def of(cls, learner: Learner) -> VectorKind:
        """Those that a learner has learned from."""
        return cls(int(getattr(learner, "n_features_in_", 0)), getattr(learner, "dtype_", np.dtype(np.float32)))


def listed(ids: Any) -> Any:
    """Ids as a sequence, also if it is only one."""
    return [ids] if isinstance(ids, str | int | np.integer) else ids


def rows_of(X: Any, kind: VectorKind) -> np.ndarray:
    """New vectors as a matrix; one vector may come without a dimension for it."""
    rows = checks.row(X, "X") if checks.is_row(X) else X
    rows = checks.vectors(rows, dtype=kind.dtype if kind.n_features else None)
    if kind.n_features:
        checks.width(rows, kind.n_features, "this index")
    return rows


def queries_of(queries: Any, dtype: np.dtype) -> Any:
    """Queries for an index of codes, where bools in arrays and lists are vectors, as they are in `add`."""
    if isinstance(queries, np.ndarray | list):
        with suppress(ValueError):  # of rows of unequal length, which the index of codes refuses
            return np.asarray(queries, dtype if np.asarray(queries).dtype == np.bool_ else None)
    return queries


def no_codes(learner: Learner) -> NotReady:
    """The error for an index without codes, which says what is missing."""
    if VectorKind.of(learner).n_features:
        try:
            learner.snapshot()  # which says what it waits for
        except NotReady as error:
            return error
    return NotReady("expected an index with codes to search, got one that never had an item; add some.")


class ToRerank(NamedTuple):
    """Queries as rows, and the ids of the hits of each."""

    rows: np.ndarray
    ids: np.ndarray
    is_one: bool


def to_rerank(queries: Any, hits: Hits, k: int | None, kind: VectorKind) -> ToRerank:
    """Check what `rerank` is given."""
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
    rows = checks.vectors(np.atleast_2d(vectors), "queries", kind.dtype)
    checks.width(rows, kind.n_features, "this index", "queries")
    return ToRerank(rows, np.atleast_2d(ids), vectors.ndim == 1)


def rerank(queries: Any, hits: Hits, k: int | None, kind: VectorKind, take: Callable[[list[Any]], np.ndarray]) -> Hits:
    """Sort hits by the Euclidean distance between query and stored vector; `take` gives the vectors of ids."""
    asked = to_rerank(queries, hits, k, kind)
    found = [_ranked(row, ids, k, take) for row, ids in zip(asked.rows, asked.ids, strict=True)]
    if asked.is_one:
        return found[0]
    return Hits(*(np.stack(column) for column in zip(*found, strict=True)))


def _ranked(query: np.ndarray, ids: np.ndarray, k: int | None, take: Callable[[list[Any]], np.ndarray]) -> Hits:
    if len(ids) == 0:  # an index that never had an item knows no width
        return Hits(ids, np.empty(0))
    away = take(ids.tolist()).astype(np.float64) - query
    distances = np.sqrt(np.einsum("nd,nd->n", away, away))
    order = np.argsort(distances, kind="stable")[:k]
    return Hits(ids[order], distances[order])
