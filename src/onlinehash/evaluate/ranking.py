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
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.histograms import Histograms
from onlinehash.evaluate.measures import EMPTY_BALL, TIES, Counts, measure_of
from onlinehash.evaluate.truth import Truth
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

METRICS = ("map", "precision@100", "precision@r2")


def retrieval(
    model: Learner | Encoder,
    X_query: Any,
    X_base: Any,
    truth: Truth,
    metrics: Sequence[str] = METRICS,
    *,
    ties: str = "expected",
    empty_ball: str = "zero",
    per_query: bool = False,
    n_jobs: int = 1,
    device: str | None = None,
) -> dict[str, Any]:
    """Search the base for every query and say how good the results are, a value for each metric.

    The distance is the model's own: several models are fused as it says. For the rest see `rank`; a card also encodes.
    """
    queries, base, fusion = codes_of(model, X_query, X_base, device)
    options: dict[str, Any] = {"ties": ties, "empty_ball": empty_ball, "per_query": per_query, "n_jobs": n_jobs}
    options["device"] = device
    return rank(queries, base, truth, metrics, fusion=fusion, **options)


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
) -> dict[str, Any]:
    """How good a search is with codes that are there already, a value for each metric.

    ties: "expected", "optimistic", "pessimistic" or "stored", which takes longer.
    empty_ball: the precision within a radius where nothing lies: "zero", or "skip" to leave the query out.
    per_query: an array with a value for each query in place of the mean; NaN where nothing is relevant, and where
        the ball is empty under "skip".
    n_jobs: threads; -1 means one for each CPU. Memory does not grow with the queries.
    device: "cuda" lets a card count distances, which has to hold the codes of the base; the values are the same.
    """
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
    return values if per_query else {name: mean(value) for name, value in values.items()}


def mean(values: np.ndarray) -> float:
    """The mean of what is not NaN; NaN where nothing is left."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def codes_of(model: Any, X_query: Any, X_base: Any, device: str | None = None) -> tuple[Codes, Codes, str]:
    """Queries and base as the model encodes them, and its fusion."""
    encoder = encoder_of(model)
    return encoder.encode(X_query, device), encoder.encode(X_base, device), encoder.fusion


def encoder_of(model: Any) -> Encoder:
    """The hash functions to look at: an encoder's own, or a learner's as they are now."""
    if isinstance(model, Learner):
        return model.snapshot()
    if isinstance(model, Encoder):
        return model
    raise InvalidInput(f"expected a learner or an encoder as model, got {type(model).__name__}.")
