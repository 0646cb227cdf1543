"""How good a search by the exact cosine of the vectors themselves is: the float reference for codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.curves import LEVELS, best_precisions
from onlinehash.evaluate.measures import Counts, measure_of
from onlinehash.evaluate.ranking import mean
from onlinehash.evaluate.truth import Truth

#: Values of a block of cosines.
BLOCK = 1 << 22


def cosine(X_query: ArrayLike, X_base: ArrayLike, truth: Truth, metrics: Sequence[str] = ("map",)) -> dict[str, float]:
    """Rank the base by the cosine of its vectors with each query, and measure how good that is.

    Items of the same cosine are ranked as they come in the base; a vector of zeros has the cosine 0 with all.

    Parameters
    ----------
    X_query, X_base : array-like of shape (n, n_features)
    truth : Truth
        Which items are relevant: `same_label` or `nearest`.
    metrics : sequence of str, default=("map",)
        Those of `retrieval`, but for a radius, which is one of Hamming distances.

    Returns
    -------
    dict of str to float
        A value for each metric.

    Raises
    ------
    InvalidInput
        If no query has a relevant item, or a metric has a radius.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import evaluate
    >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), [0, 0, 1]
    >>> evaluate.cosine(X, X, evaluate.same_label(y, y))
    {'map': 1.0}
    """
    if radii := [name for name in metrics if "@r" in name]:
        raise InvalidInput(f"cosine has no radius, so {radii[0]!r} cannot be measured; choose other metrics.")
    measures = {name: measure_of(name) for name in metrics}
    values: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in measures}
    for hits in _ranked(X_query, X_base, truth):
        one_each = np.ones_like(hits)
        counts = Counts(one_each, hits, one_each, hits, "zero")
        for name, measure in measures.items():
            values[name].append(np.where(counts.n_relevant > 0, measure(counts), np.nan))
    found = {name: np.concatenate(parts) for name, parts in values.items()}
    if all(np.isnan(value).all() for value in found.values()):
        raise InvalidInput("no query has a relevant item in the base.")
    return {name: mean(value) for name, value in found.items()}


def cosine_curve(X_query: ArrayLike, X_base: ArrayLike, truth: Truth) -> np.ndarray:
    """Return the precision-recall curve of exact search by cosine: interpolated precision at recall 0, 0.1, ..., 1.

    Parameters
    ----------
    X_query, X_base : array-like of shape (n, n_features)
    truth : Truth
        Which items are relevant: `same_label` or `nearest`.

    Returns
    -------
    ndarray of shape (11,)
        For each level, the best precision at that recall or more: the mean over the queries with a relevant item.

    Raises
    ------
    InvalidInput
        If no query has a relevant item.

    Examples
    --------
    >>> from onlinehash import evaluate
    >>> X, y = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 1, 0]
    >>> evaluate.cosine_curve(X[:1], X, evaluate.same_label(y[:1], y)).round(2)
    array([1.  , 1.  , 1.  , 1.  , 1.  , 1.  , 0.67, 0.67, 0.67, 0.67, 0.67])
    """
    parts = [np.empty((0, len(LEVELS)))]
    for hits in _ranked(X_query, X_base, truth):
        found = hits[hits.any(axis=1)].cumsum(axis=1)
        parts.append(best_precisions(found / found[:, -1:], found / np.arange(1, found.shape[1] + 1), LEVELS))
    precisions = np.concatenate(parts)
    if not len(precisions):
        raise InvalidInput("no query has a relevant item in the base.")
    return np.asarray(precisions.mean(axis=0))


def _ranked(X_query: ArrayLike, X_base: ArrayLike, truth: Truth) -> Iterator[np.ndarray]:
    """For some queries at a time: whether each item is relevant, from the nearest to the farthest."""
    queries, base = (unit(checks.vectors(X, name)) for X, name in ((X_query, "X_query"), (X_base, "X_base")))
    checks.width(queries, base.shape[1], "X_base", "X_query")
    checks.same_length("the truth", truth.n_queries, len(queries), "X_query")
    checks.same_length("the truth", truth.n_base, len(base), "X_base")
    n_rows = max(1, BLOCK // len(base))
    for start in range(0, len(queries), n_rows):
        rows = slice(start, min(start + n_rows, len(queries)))
        order = np.argsort(-(queries[rows] @ base.T), axis=1, kind="stable")
        yield np.take_along_axis(truth.block(rows), order, axis=1).astype(np.int64)


def unit(X: np.ndarray) -> np.ndarray:
    """A copy with rows of unit length; rows of zeros stay zero."""
    X = X.copy()
    largest = np.abs(X).max(axis=1, keepdims=True)
    X /= np.where(largest > 0, largest, 1)  # so that no square overflows
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    X /= np.where(lengths > 0, lengths, 1)
    return X
