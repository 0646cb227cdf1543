"""What callers give to an index, checked: ids, vectors, queries, hits to rerank; and how `find` answers queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.arraylike import as_array
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.index.hits import Hits
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.pair_metric import PairMetric, Ranking


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
    return NotReady("the index has no codes yet; add items first.")


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


#: Candidates that are compared at first, or ten for each of the k; and in all at most, or so many times the first.
FIRST, MOST, TIMES = 256, 16_384, 16
#: Enough were compared when twice as many leave so many times k of the best as they are, and so many at least: fewer
#: than ten results are then the first of ten. Where rounded vectors were compared, so many are compared as stored.
SETTLED, LEAST_SETTLED = 4, 40
#: Codes are searched for twice the first candidates and, where these do not settle it, for so many times as many.
GROWTH = 8
#: Queries whose codes are compared together.
BLOCK_QUERIES = 64
#: Times that a search of several steps is tried for each block of queries, while the index changes below it.
TRIES = 8
#: Takes the vectors of ids, or of keys.
Take = Callable[[np.ndarray], np.ndarray]


class Finder(NamedTuple):
    """What `find` reads of an index, all as of one moment. Items have keys until their ids are asked for."""

    #: What made the codes.
    encoder: Encoder
    #: The keys of the n items whose codes are nearest, for each of some queries; of fewer where there are no more.
    nearest: Callable[[np.ndarray, int], Iterable[np.ndarray]]
    #: Vectors, which may be rounded.
    vectors: Take
    ids: Take
    #: Vectors as they are stored, where the others are rounded; and how far the latter may be from these.
    exact: Take | None = None
    rounding: Callable[[], float] = lambda: 0.0
    #: Products of vectors with a direction, and with themselves, where that takes no copies of them; None if it does.
    products: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray] | None] | None = None


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
    zeros = np.flatnonzero(~rows.any(axis=1))
    if len(zeros):
        which = "the query" if is_one else f"row {zeros[0]} of queries"
        raise InvalidInput(
            f"{which} is all zeros, as that of a text without a known word is, so there is nothing to compare by; use "
            "other words, or search by codes."
        )
    return rows, is_one


def find(rows: np.ndarray, k: int, metric: PairMetric, finder: Finder) -> Iterator[Hits]:
    """The hits of each query, with ids."""
    for start in range(0, len(rows), BLOCK_QUERIES):
        block = rows[start : start + BLOCK_QUERIES]
        rankings = [metric.ranking(row, _settled(k)) for row in block]
        sought = np.stack([ranking.sought for ranking in rankings])
        for row, ranking, keys in zip(block, rankings, finder.nearest(sought, 2 * _first(k)), strict=True):
            best = _best_of(row, ranking, keys, int(k), metric, finder)
            yield Hits(finder.ids(best.ids), best.distances)


def sorted_by(metric: PairMetric | None) -> dict[str, Any]:
    """What `find` sorts hits by: the cosine, or what a metric has learned from so many pairs."""
    n = 0 if metric is None else metric.n_pairs
    return {"metric": "learned" if n else "cosine", "pairs": n}


def joined(hits: list[Hits], is_one: bool) -> Hits:
    """The hits of all queries."""
    if is_one:
        return hits[0]
    n = min(len(found.ids) for found in hits)  # a filter or an approximate search may give fewer for some
    return Hits(*(np.stack([column[:n] for column in columns]) for columns in zip(*hits, strict=True)))


def _first(k: int) -> int:
    """How many candidates are compared at first."""
    return min(max(FIRST, 10 * int(k)), 2**28)


def _settled(k: int) -> int:
    """How many of the best more candidates must leave as they are."""
    return max(SETTLED * int(k), LEAST_SETTLED)


def n_candidates(k: int) -> int:
    """How many candidates are compared at most."""
    return max(MOST, TIMES * _first(k))


def _add(ranking: Ranking, keys: np.ndarray, finder: Finder) -> None:
    """More candidates; only the vectors of the best are taken, if their products say all."""
    if finder.products is not None and ranking.needs_only_products:
        found = finder.products(keys, ranking.direction)
        if found is not None:
            ranking.add_products(*found, lambda few: finder.vectors(keys[few]))
            return
    rows = finder.vectors(keys)
    ranking.add(rows, finder.rounding())


def _best_of(query: np.ndarray, ranking: Ranking, keys: np.ndarray, k: int, metric: PairMetric, finder: Finder) -> Hits:
    """The keys of the best k candidates; as many are looked at as it takes until twice as many bring nothing new."""
    settled, asked = _settled(k), 2 * _first(k)
    most = n_candidates(k)
    n, more = 0, _first(k)
    while n < len(keys):
        before = ranking.nearest(settled)
        _add(ranking, keys[n : n + more], finder)
        n = more = min(n + more, len(keys))
        if np.array_equal(before, ranking.nearest(settled)):
            break
        if n >= len(keys) >= asked and asked < most:
            asked = min(GROWTH * asked, most)
            keys = _joined(keys, finder.nearest(ranking.sought[None], asked))
    missing = ranking.missing(settled)
    if len(missing) and k:  # what was marked similar comes up, however far it is from the query
        keys = _joined(keys[:n], finder.nearest(missing, 2 * _first(k) // len(missing)))
        _add(ranking, keys[n:], finder)
    if finder.exact is not None and k:
        keys = keys[np.sort(ranking.order(settled + ranking.n_unsure)[0])]
        ranking = metric.ranking(query, len(keys))
        ranking.add(finder.exact(keys))
    order, near = ranking.order(k)
    return Hits(keys[order], 1.0 - near)


def _joined(keys: np.ndarray, found: Iterable[np.ndarray]) -> np.ndarray:
    """Keys, and the others that were found, each once."""
    every = np.concatenate([keys, *found])
    return every[np.sort(np.unique(every, return_index=True)[1])]
