"""What callers give to an index, checked: ids, vectors, queries, hits to rerank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.arraylike import as_array
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.index.hits import Hits
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.pair_metric import PairMetric


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
        array = as_array(queries, "queries")
        return array.astype(dtype) if array.dtype == np.bool_ else array
    return queries


def no_codes(learner: Learner) -> NotReady:
    """The error for an index without codes, which says what is missing."""
    if VectorKind.of(learner).n_features:
        try:
            learner.snapshot()  # which says what it waits for
        except NotReady as error:
            return error
    return NotReady(expected="an index with codes to search", got="one that never had an item", hint="add some")


class ToRerank(NamedTuple):
    """Queries as rows, and the ids of the hits of each."""

    rows: np.ndarray
    ids: np.ndarray
    is_one: bool


def to_rerank(queries: Any, hits: Hits, k: int | None, kind: VectorKind) -> ToRerank:
    """Check what `rerank` is given."""
    if not isinstance(hits, Hits) or isinstance(queries, Codes):
        raise InvalidInput(
            expected="vectors and their hits",
            got=f"{checks.shown(queries)} and {checks.shown(hits)}",
            hint="within gives a list of hits, to be reranked one by one",
        )
    vectors = checks.matrix(queries, "queries") if not checks.is_row(queries) else as_array(queries, "queries")
    ids = np.asarray(hits.ids)
    if vectors.ndim not in (1, 2) or ids.ndim != vectors.ndim or (vectors.ndim == 2 and len(ids) != len(vectors)):
        raise InvalidInput(
            expected="the hits of these queries",
            got=f"hits of shape {ids.shape} for queries of shape {vectors.shape}",
            hint="rerank what a search gave, with its queries",
        )
    if k is not None:
        checks.parameters("rerank", {"k": k}, {"k": checks.integer(0)})
    rows = checks.vectors(np.atleast_2d(vectors), "queries", kind.dtype)
    checks.width(rows, kind.n_features, "this index", "queries")
    return ToRerank(rows, np.atleast_2d(ids), vectors.ndim == 1)


#: Candidates that are ranked at first, and how many times as many at most; there are enough of them when twice as many
#: leave so many times k of the best as they are.
FIRST, MOST, SETTLED = 1024, 16, 2
#: Times that a search of several steps is tried for each block of queries, while the index changes below it.
TRIES = 8
#: Takes the vectors of ids.
Take = Callable[[np.ndarray], np.ndarray]


class Moment(NamedTuple):
    """An index as of one moment, in three steps: candidates by codes, their vectors, and at last their ids.

    `nearest` gives a row of keys for each query, and the encoder of the codes that were compared.
    """

    nearest: Callable[[np.ndarray, int], tuple[np.ndarray, Encoder]]
    vectors: Take
    ids: Callable[[np.ndarray], np.ndarray]


def rerank(queries: Any, hits: Hits, k: int | None, kind: VectorKind, metric: PairMetric | None, take: Take) -> Hits:
    """Put hits in the order of the metric."""
    asked = to_rerank(queries, hits, k, kind)
    found = [_ranked(row, ids, k, metric, take) for row, ids in zip(asked.rows, asked.ids, strict=True)]
    if asked.is_one:
        return found[0]
    return Hits(*(np.stack(column) for column in zip(*found, strict=True)))


def _ranked(query: np.ndarray, ids: np.ndarray, k: int | None, metric: PairMetric | None, take: Take) -> Hits:
    if len(ids) == 0 or metric is None:  # an index that never had an item knows no width
        return Hits(ids, np.empty(0, np.float32))
    ranking = metric.ranking(query, len(ids))
    ranking.add(take(ids))
    order, near = ranking.order(len(ids) if k is None else k)
    return Hits(ids[order], 1.0 - near)


def to_find(queries: Any, k: int, kind: VectorKind) -> tuple[np.ndarray, bool]:
    """Check what `find` is given; queries as rows, and whether there was only one."""
    if isinstance(queries, Codes):
        raise InvalidInput("find compares vectors, and got codes; search finds items by codes.")
    checks.parameters("find", {"k": k}, {"k": checks.integer(0)})
    is_one = checks.is_row(queries)
    rows = checks.vectors(checks.row(queries, "queries") if is_one else queries, "queries", kind.dtype)
    checks.width(rows, kind.n_features, "this index", "queries")
    return rows, is_one


def n_candidates(k: int) -> int:
    """How many candidates are asked for, of which most are looked at only if they are needed."""
    return min(MOST * max(FIRST, 10 * int(k)), 2**31)


def best_of(query: np.ndarray, candidates: np.ndarray, k: int, metric: PairMetric, take: Take) -> Hits:
    """The keys of the best k candidates; as many are looked at as it takes until twice as many bring nothing new."""
    k = int(k)
    settled = SETTLED * k
    ranking, n = metric.ranking(query, settled), 0
    while n < len(candidates):
        before, more = ranking.nearest(settled), max(n, FIRST, 10 * k)
        ranking.add(take(candidates[n : n + more]))
        n += more
        if np.array_equal(before, ranking.nearest(settled)):
            break
    order, near = ranking.order(k)
    return Hits(candidates[order], 1.0 - near)
