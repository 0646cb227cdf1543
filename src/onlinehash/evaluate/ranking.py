"""How well a search by Hamming distance finds what is relevant, with ties treated by a stated rule.

    map             mean average precision, expected over all orders of items at equal distance
    precision@K     share of relevant items among the K nearest (a smaller base counts whole), also expected:
                    where ties do not all fit in, each counts in proportion to the places left for them
    precision@rR    share of relevant items among those at distance R or less; an empty ball counts 0

Each is a mean over queries. A query to which nothing is relevant says nothing about codes and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes, fused_distances
from onlinehash.codes.ranking import expected_average_precision
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.truth import Truth
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

#: Distances held at once: bounds the memory, whatever the number of queries.
BLOCK_DISTANCES = 2**23

Metric = Callable[[np.ndarray, np.ndarray], np.ndarray]  # distances, relevant -> a value per query


def retrieval(
    model: Learner | Encoder,
    X_query: Any,
    X_base: Any,
    truth: Truth,
    metrics: Sequence[str] = ("map", "precision@100", "precision@r2"),
) -> dict[str, float]:
    """Search the base for every query and say how good the results are, a value for each metric.

    The distance is the model's own: several models are fused as it says. Memory does not grow with queries.
    """
    measures = {name: _metric(name) for name in metrics}
    encoder = encoder_of(model)
    queries, base = encoder.encode(X_query), encoder.encode(X_base)
    for name, codes, expected in (("X_query", queries, truth.n_queries), ("X_base", base, truth.n_base)):
        checks.same_length("the truth", expected, len(codes), name)
    values: dict[str, list[np.ndarray]] = {name: [] for name in measures}
    for rows in _blocks(queries, base):
        relevant = truth.block(rows)
        answerable = relevant.any(axis=1)
        distances = fused_distances(queries[rows][answerable], base, encoder.fusion)
        for name, measure in measures.items():
            values[name].append(measure(distances, relevant[answerable]))
    found = {name: np.concatenate(parts) for name, parts in values.items()}
    if any(len(per_query) == 0 for per_query in found.values()):
        raise InvalidInput("expected something relevant in the base for at least one query, got nothing.")
    return {name: float(per_query.mean()) for name, per_query in found.items()}


def encoder_of(model: Any) -> Encoder:
    """The hash functions to look at: an encoder's own, or a learner's as they are now."""
    if isinstance(model, Learner):
        return model.snapshot()
    if isinstance(model, Encoder):
        return model
    raise InvalidInput(f"expected a learner or an encoder as model, got {type(model).__name__}.")


def _blocks(queries: Codes, base: Codes) -> list[slice]:
    size = max(1, BLOCK_DISTANCES // (len(base) * base.n_models))
    return [slice(start, start + size) for start in range(0, len(queries), size)]


# ------------------------------------------------------------------ the metrics


def _metric(name: str) -> Metric:
    if name == "map":
        return _average_precision
    match = re.fullmatch(r"precision@(r?)(\d+)", name)
    if match is None or match[0] == "precision@0":
        raise InvalidInput(
            "expected metrics among 'map', 'precision@K' (the K nearest, such as 'precision@100') and "
            f"'precision@rR' (distance R or less, such as 'precision@r2'), got {name!r}."
        )
    number = int(match[2])
    if match[1]:
        return lambda distances, relevant: _precision_within(distances, relevant, number)
    return lambda distances, relevant: _precision_among(distances, relevant, number)


def _average_precision(distances: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    return expected_average_precision(distances, relevant, np.full(len(distances), -1))


def _precision_within(distances: np.ndarray, relevant: np.ndarray, radius: int) -> np.ndarray:
    ball = distances <= radius
    return (ball & relevant).sum(axis=1) / np.maximum(ball.sum(axis=1), 1)


def _precision_among(distances: np.ndarray, relevant: np.ndarray, k: int) -> np.ndarray:
    k = min(k, distances.shape[1])
    last = np.partition(distances, k - 1, axis=1)[:, k - 1, None]
    surely, tied = distances < last, distances == last
    places = k - surely.sum(axis=1)
    expected = (surely & relevant).sum(axis=1) + places * (tied & relevant).sum(axis=1) / tied.sum(axis=1)
    return expected / k
