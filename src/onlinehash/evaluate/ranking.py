"""How well a search by Hamming distance finds what is relevant, with ties treated by a stated rule.

The metrics are those of `measures`. `ties` says how items at equal distance are ordered:

    expected        in every order alike: the value is the exact expectation, which says most about the codes
    optimistic      the relevant ones first, the best that an order can do
    pessimistic     the relevant ones last
    stored          as they come in the base, what a stable sort gives

A query to which nothing is relevant says nothing about codes and is left out of every mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.histograms import Histograms
from onlinehash.evaluate.measures import EMPTY_BALL, TIES, Counts, measure_of
from onlinehash.evaluate.truth import Truth
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

METRICS = ("map", "precision@100", "precision@r2")


@overload
def retrieval(
    model: Learner | Encoder,
    X_query: ArrayLike,
    X_base: ArrayLike,
    truth: Truth,
    metrics: Sequence[str] = ...,
    *,
    ties: str = ...,
    empty_ball: str = ...,
    per_query: Literal[False] = ...,
    n_jobs: int = ...,
    device: str | None = ...,
) -> dict[str, float]: ...
@overload
def retrieval(
    model: Learner | Encoder,
    X_query: ArrayLike,
    X_base: ArrayLike,
    truth: Truth,
    metrics: Sequence[str] = ...,
    *,
    ties: str = ...,
    empty_ball: str = ...,
    per_query: Literal[True],
    n_jobs: int = ...,
    device: str | None = ...,
) -> dict[str, NDArray[np.float64]]: ...
def retrieval(
    model: Learner | Encoder,
    X_query: ArrayLike,
    X_base: ArrayLike,
    truth: Truth,
    metrics: Sequence[str] = METRICS,
    *,
    ties: str = "expected",
    empty_ball: str = "zero",
    per_query: bool = False,
    n_jobs: int = 1,
    device: str | None = None,
) -> dict[str, float] | dict[str, NDArray[np.float64]]:
    """Search the base for every query, and measure how good the results are.

    The distance is the model's own: several models are fused as it says.

    Parameters
    ----------
    model : Learner or Encoder
    X_query, X_base : array-like of shape (n, n_features)
    truth : Truth
        Which items are relevant: `same_label` or `nearest`.
    metrics : sequence of str, default=("map", "precision@100", "precision@r2")
        docs/how-to/evaluation.md lists all.
    ties, empty_ball, per_query, n_jobs
        As in `rank`.
    device : {"cpu", "cuda"}, optional
        "cuda" encodes and counts distances on a card; the values are the same.

    Returns
    -------
    dict of str to float, or to ndarray with `per_query`
        A value for each metric.

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
    >>> found = evaluate.retrieval(learner, X[:50], X[50:], evaluate.same_label(y[:50], y[50:]), ["map"])
    >>> found["map"] > 0.9
    True
    """
    queries, base, fusion = codes_of(model, X_query, X_base, device)
    values = _ranked(queries, base, truth, metrics, fusion, ties, empty_ball, n_jobs, device)
    return values if per_query else _means(values)


@overload
def rank(
    queries: Codes,
    base: Codes,
    truth: Truth,
    metrics: Sequence[str] = ...,
    *,
    fusion: str = ...,
    ties: str = ...,
    empty_ball: str = ...,
    per_query: Literal[False] = ...,
    n_jobs: int = ...,
    device: str | None = ...,
) -> dict[str, float]: ...
@overload
def rank(
    queries: Codes,
    base: Codes,
    truth: Truth,
    metrics: Sequence[str] = ...,
    *,
    fusion: str = ...,
    ties: str = ...,
    empty_ball: str = ...,
    per_query: Literal[True],
    n_jobs: int = ...,
    device: str | None = ...,
) -> dict[str, NDArray[np.float64]]: ...
def rank(
    queries: Codes,
    base: Codes,
    truth: Truth,
    metrics: Sequence[str] = METRICS,
    *,
    fusion: str = "min",
    ties: str = "expected",
    empty_ball: str = "zero",
    per_query: bool = False,
    n_jobs: int = 1,
    device: str | None = None,
) -> dict[str, float] | dict[str, NDArray[np.float64]]:
    """Measure how good a search is, given the codes.

    Parameters
    ----------
    queries, base : Codes
    truth : Truth
    metrics : sequence of str, default=("map", "precision@100", "precision@r2")
    fusion : {"min", "sum"}, default="min"
        How the distances of several models are combined.
    ties : {"expected", "optimistic", "pessimistic", "stored"}, default="expected"
        The order of items at equal distances; "stored" takes longer.
    empty_ball : {"zero", "skip"}, default="zero"
        The precision within a radius where nothing lies; "skip" leaves the query out.
    per_query : bool, default=False
        An array with a value for each query instead of the mean; NaN where nothing is relevant, and where the ball is
        empty under "skip".
    n_jobs : int, default=1
        Threads; -1 is one for each CPU. Memory does not grow with the queries.
    device : {"cpu", "cuda"}, optional
        "cuda" counts distances on a card, which has to hold the codes of the base; the values are the same.

    Returns
    -------
    dict of str to float, or to ndarray with `per_query`
        A value for each metric.

    Raises
    ------
    InvalidInput
        If no query has a relevant item, or a metric is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import Codes, evaluate
    >>> codes, y = Codes.from_bits(np.array([[True, True], [True, True], [False, False]])), [0, 0, 1]
    >>> evaluate.rank(codes, codes, evaluate.same_label(y, y), ["map", "precision@1"])
    {'map': 1.0, 'precision@1': 1.0}
    """
    values = _ranked(queries, base, truth, metrics, fusion, ties, empty_ball, n_jobs, device)
    return values if per_query else _means(values)


def _ranked(
    queries: Codes,
    base: Codes,
    truth: Truth,
    metrics: Sequence[str],
    fusion: str,
    ties: str,
    empty_ball: str,
    n_jobs: int,
    device: str | None,
) -> dict[str, NDArray[np.float64]]:
    """Each metric of every query; NaN where it has none."""
    measures = {name: measure_of(name) for name in metrics}
    rules = {"ties": checks.one_of(*TIES), "empty_ball": checks.one_of(*EMPTY_BALL)}
    checks.parameters("evaluate", {"ties": ties, "empty_ball": empty_ball}, rules)
    values = {name: np.full(len(queries), np.nan) for name in measures}
    is_any_relevant = False
    for rows, items, hits, order in Histograms(queries, base, truth, fusion, n_jobs, device).blocks(ties == "stored"):
        counts = Counts.under(ties, empty_ball, items, hits, order)
        answerable = counts.n_relevant > 0
        is_any_relevant |= bool(answerable.any())
        for name, measure in measures.items():
            values[name][rows] = np.where(answerable, measure(counts), np.nan)
    if not is_any_relevant:
        raise InvalidInput("no query has a relevant item in the base.")
    return values


def _means(values: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    return {name: mean(value) for name, value in values.items()}


def mean(values: np.ndarray) -> float:
    """The mean of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def codes_of(
    model: Learner | Encoder, X_query: ArrayLike, X_base: ArrayLike, device: str | None = None
) -> tuple[Codes, Codes, str]:
    """Queries and base as the model encodes them, and its fusion."""
    encoder = encoder_of(model)
    return encoder.encode_queries(X_query, device), encoder.encode(X_base, device), encoder.fusion


def encoder_of(model: Learner | Encoder) -> Encoder:
    """The model itself if it is an encoder, else a snapshot of the learner."""
    if isinstance(model, Learner):
        return model.snapshot()
    if isinstance(model, Encoder):
        return model
    raise InvalidInput(expected="a learner or an encoder as model", got=type(model).__name__)
