"""Rankings by brute force: every order that sorting by distance allows, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product

import numpy as np


def orders(distances: np.ndarray) -> Iterator[list[int]]:
    """All rankings of the items by distance; items at equal distance in every possible order."""
    ties = [np.flatnonzero(distances == d) for d in np.unique(distances)]
    for choice in product(*(permutations(tie) for tie in ties)):
        yield [int(item) for tie in choice for item in tie]


def one_order(distances: np.ndarray, relevant: np.ndarray, ties: str) -> list[int]:
    """The one ranking that a rule other than the expectation asks for."""
    within = {"optimistic": ~relevant, "pessimistic": relevant, "stored": np.arange(len(relevant))}[ties]
    return sorted(range(len(distances)), key=lambda item: (distances[item], within[item], item))


def value(name: str, hits: np.ndarray) -> float:
    """A metric of one query's ranking, told as what is relevant in its order."""
    metric, _, rest = name.partition("@")
    k, _, denominator = rest.partition("/")
    first = hits[: int(k)] if k else hits
    if metric == "precision":
        return sum(first) / len(first)
    if metric == "recall":
        return sum(first) / sum(hits)
    total = sum(sum(first[: place + 1]) / (place + 1) for place in range(len(first)) if first[place])
    by = {"": min(sum(hits), int(k or len(hits))), "all": sum(hits), "found": sum(first)}[denominator]
    return total / by if by else 0.0


def value_within(name: str, distances: np.ndarray, relevant: np.ndarray, empty: float = 0.0) -> float:
    """The same for what lies in a ball around one query."""
    metric, _, radius = name.partition("@r")
    ball = [bool(hit) for distance, hit in zip(distances, relevant, strict=True) if distance <= int(radius)]
    if metric == "recall":
        return sum(ball) / sum(relevant)
    return sum(ball) / len(ball) if ball else empty


def per_query(name: str, distances: np.ndarray, relevant: np.ndarray, ties: str, empty: float = 0.0) -> np.ndarray:
    """A value for each query; NaN where nothing is relevant."""
    return np.array(
        [_one(name, d, hit, ties, empty) if hit.any() else np.nan for d, hit in zip(distances, relevant, strict=True)]
    )


def _one(name: str, distances: np.ndarray, relevant: np.ndarray, ties: str, empty: float) -> float:
    if "@r" in name:
        return value_within(name, distances, relevant, empty)
    ranked: Callable[[list[int]], float] = lambda order: value(name, relevant[order])  # noqa: E731
    if ties == "expected":
        return float(np.mean([ranked(order) for order in orders(distances)]))
    return ranked(one_order(distances, relevant, ties))


def precision_recall(
    distances: np.ndarray, relevant: np.ndarray, n_distances: int, levels: list[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Recall and precision at each radius, and interpolated precision; means over queries with anything relevant."""
    rows = [(d, hit) for d, hit in zip(distances, relevant, strict=True) if hit.any()]
    recall, precision = (
        np.array([[value_within(f"{metric}@r{r}", d, hit) for r in range(n_distances)] for d, hit in rows])
        for metric in ("recall", "precision")
    )
    best = [[p[r >= level].max() for level in levels] for p, r in zip(precision, recall, strict=True)]
    return recall.mean(axis=0), precision.mean(axis=0), np.mean(best, axis=0)
