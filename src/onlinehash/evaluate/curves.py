"""Precision against recall, by Hamming radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.histograms import Histograms
from onlinehash.evaluate.measures import EMPTY_BALL
from onlinehash.evaluate.ranking import codes_of
from onlinehash.evaluate.truth import Truth
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

#: Recall 0, 0.1, ..., 1.
LEVELS = tuple(i / 10 for i in range(11))


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """Means over the queries to which something is relevant.

    radius, recall, precision: for each Hamming radius, what lies within it. It takes all of a tie, so no order of ties
        is in it. Where it holds nothing for a query, the precision follows `empty_ball`; NaN where all were left out.
    levels, interpolated: for each level of recall, the best precision at that recall or more.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import Codes, evaluate
    >>> base = Codes.from_bits(np.array([[True, True], [True, False], [False, False]]))
    >>> found = evaluate.curve(base[:1], base, evaluate.same_label([1], [1, 2, 1]))
    >>> found.radius, found.recall, found.precision.round(2)
    (array([0, 1, 2]), array([0.5, 0.5, 1. ]), array([1.  , 0.5 , 0.67]))
    >>> found.at([0.5, 0.75, 1.0]).round(2)
    array([1.  , 0.67, 0.67])
    """

    radius: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    levels: np.ndarray
    interpolated: np.ndarray
    n_queries: int

    def at(self, recall: float | Sequence[float]) -> np.ndarray:
        """The interpolated precision at any recall, between two levels on the straight line."""
        return np.asarray(np.interp(recall, self.levels, self.interpolated))


def precision_recall(
    model: Learner | Encoder,
    X_query: ArrayLike,
    X_base: ArrayLike,
    truth: Truth,
    *,
    levels: Sequence[float] = LEVELS,
    empty_ball: str = "zero",
    n_jobs: int = 1,
) -> PrecisionRecall:
    """Return the curve of a search of the base for every query, by the model's own distance.

    Parameters
    ----------
    model : Learner or Encoder
    X_query, X_base : array-like of shape (n, n_features)
    truth : Truth
        Which items are relevant: `same_label` or `nearest`.
    levels : sequence of float, default=(0, 0.1, ..., 1)
        Levels of recall at which the precision is interpolated.
    empty_ball : {"zero", "skip"}, default="zero"
        The precision within a radius where nothing lies; "skip" leaves the query out.
    n_jobs : int, default=1
        Threads; -1 is one for each CPU.

    Returns
    -------
    PrecisionRecall

    Raises
    ------
    InvalidInput
        If no query has a relevant item.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=300)
    >>> X = np.eye(3)[y] + 0.1 * rng.standard_normal((300, 3))
    >>> learner = OnlineHashing(n_bits=16, random_state=0).fit(X, y)
    >>> found = evaluate.precision_recall(learner, X[:50], X[50:], evaluate.same_label(y[:50], y[50:]))
    >>> found.n_queries, len(found.radius), float(found.recall[-1])
    (50, 17, 1.0)
    """
    queries, base, fusion = codes_of(model, X_query, X_base)
    return curve(queries, base, truth, fusion=fusion, levels=levels, empty_ball=empty_ball, n_jobs=n_jobs)


def curve(
    queries: Codes,
    base: Codes,
    truth: Truth,
    *,
    fusion: str = "min",
    levels: Sequence[float] = LEVELS,
    empty_ball: str = "zero",
    n_jobs: int = 1,
) -> PrecisionRecall:
    """Return `precision_recall` for codes instead of vectors.

    Parameters
    ----------
    queries, base : Codes
    truth : Truth
    fusion : {"min", "sum"}, default="min"
        How the distances of several models are combined.
    levels, empty_ball, n_jobs
        As in `precision_recall`.

    Returns
    -------
    PrecisionRecall

    Raises
    ------
    InvalidInput
        If no query has a relevant item.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import Codes, evaluate
    >>> codes = Codes.from_bits(np.eye(4, dtype=bool))
    >>> evaluate.curve(codes, codes, evaluate.same_label(range(4), range(4))).precision
    array([1.  , 1.  , 0.25, 0.25, 0.25])
    """
    checks.parameters("evaluate", {"empty_ball": empty_ball}, {"empty_ball": checks.one_of(*EMPTY_BALL)})
    wanted = np.asarray(levels, np.float64)
    if wanted.ndim != 1 or not ((wanted >= 0) & (wanted <= 1)).all() or (np.diff(wanted) <= 0).any():
        raise InvalidInput(expected="increasing levels of recall from 0 to 1", got=checks.shown(levels))
    histograms = Histograms(queries, base, truth, fusion, n_jobs)
    radii = np.arange(histograms.n_distances)
    recalls, precisions, balls = np.zeros((3, len(radii)))
    interpolated = np.zeros(len(wanted))
    n_queries = 0
    for _, items, hits, _ in histograms.blocks():
        answerable = hits.any(axis=1)
        ball, found = items[answerable].cumsum(axis=1), hits[answerable].cumsum(axis=1)
        recall, precision = found / found[:, -1:], found / np.maximum(ball, 1)
        interpolated += best_precisions(recall, precision, wanted).sum(axis=0)
        recalls += recall.sum(axis=0)
        precisions += precision.sum(axis=0)
        balls += (ball > 0).sum(axis=0)
        n_queries += len(ball)
    if n_queries == 0:
        raise InvalidInput("no query has a relevant item in the base.")
    counted = np.full(len(radii), n_queries) if empty_ball == "zero" else np.where(balls > 0, balls, np.nan)
    return PrecisionRecall(
        radii, recalls / n_queries, precisions / counted, wanted, interpolated / n_queries, n_queries
    )


def best_precisions(recall: np.ndarray, precision: np.ndarray, levels: ArrayLike) -> np.ndarray:
    """For each query and level of recall, the best precision at that recall or more.

    Both are given for each query (rows) within each radius, or up to each rank.
    """
    best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    first = np.stack([(recall < level).sum(axis=1) for level in np.asarray(levels)], axis=1)  # that reaches the level
    return np.take_along_axis(best, first, axis=1)
