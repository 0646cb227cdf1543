"""Rankings by brute force: every order that sorting by distance allows, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np


def orders(distances: np.ndarray) -> Iterator[list[int]]:
    """All rankings of the items by distance; items at equal distance in every possible order."""
    ties = [np.flatnonzero(distances == d) for d in np.unique(distances)]
    for choice in product(*(permutations(tie) for tie in ties)):
        yield [int(item) for tie in choice for item in tie]


def average_precision(distances: np.ndarray, relevant: np.ndarray) -> float:
    """The average precision of one query, averaged over all orders."""
    values = []
    for order in orders(distances):
        hits, precisions = 0, []
        for place, item in enumerate(order, start=1):
            if relevant[item]:
                hits += 1
                precisions.append(hits / place)
        values.append(sum(precisions) / len(precisions))
    return float(np.mean(values))


def precision_among(distances: np.ndarray, relevant: np.ndarray, k: int) -> float:
    """The share of relevant items among the first k of one query's ranking, averaged over all orders."""
    return float(np.mean([np.mean([relevant[item] for item in order[:k]]) for order in orders(distances)]))


def precision_within(distances: np.ndarray, relevant: np.ndarray, radius: int) -> float:
    """The share of relevant items in the ball around one query; 0 when it is empty."""
    ball = [bool(hit) for distance, hit in zip(distances, relevant, strict=True) if distance <= radius]
    return sum(ball) / len(ball) if ball else 0.0
