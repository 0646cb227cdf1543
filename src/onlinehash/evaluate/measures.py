"""The metrics by name, each a value per query from the counts of items and relevant items at each distance.

map             average precision: the mean of the precision at the place of each relevant item
map@K           the sum of these precisions among the first K places, divided by min(K, all relevant items)
map@K/found     the same divided by the relevant items among the first K (0 where there are none)
map@K/all       the same divided by all relevant items
precision@K     share of relevant items among the K nearest (a smaller base counts whole)
recall@K        share of the relevant items that are among the K nearest
precision@rR    share of relevant items among those at distance R or less; `empty_ball` says what an empty one counts
recall@rR       share of the relevant items that are at distance R or less
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onlinehash.codes.ranking import found_among, precision_per_found, precision_sums
from onlinehash.errors import InvalidInput

#: How items at equal distance are ordered, and what the precision of an empty ball is.
TIES = ("expected", "optimistic", "pessimistic", "stored")
EMPTY_BALL = ("zero", "skip")


@dataclass(frozen=True, eq=False)
class Counts:
    """What there is to know about some queries.

    items, hits: items and relevant items at each distance. bucket_items, bucket_hits: the same in the buckets of
    equal rank that the tie rule makes of them.
    """

    items: np.ndarray
    hits: np.ndarray
    bucket_items: np.ndarray
    bucket_hits: np.ndarray
    empty_ball: str

    @classmethod
    def under(cls, ties: str, empty_ball: str, items: np.ndarray, hits: np.ndarray, order: np.ndarray | None) -> Counts:
        """By a tie rule; "stored" needs the order."""
        if order is not None:
            return cls(items, hits, np.ones_like(order), order, empty_ball)
        if ties == "expected":
            return cls(items, hits, items, hits, empty_ball)
        relevant, rest = (hits, hits), (items - hits, np.zeros_like(hits))
        parts = (relevant, rest) if ties == "optimistic" else (rest, relevant)
        bucket_items, bucket_hits = (
            np.stack(sides, axis=2).reshape(len(items), 2 * items.shape[1]) for sides in zip(*parts, strict=True)
        )
        return cls(items, hits, bucket_items, bucket_hits, empty_ball)

    @property
    def n_relevant(self) -> np.ndarray:
        return np.asarray(self.hits.sum(axis=1))

    @property
    def n_base(self) -> int:
        return int(self.items[0].sum())

    def within(self, radius: int) -> tuple[np.ndarray, np.ndarray]:
        """Items and relevant items at distance `radius` or less."""
        return self.items[:, : radius + 1].sum(axis=1), self.hits[:, : radius + 1].sum(axis=1)


Measure = Callable[[Counts], np.ndarray]  # a value per query; what it says of one without anything relevant is not used


def measure_of(name: str) -> Measure:
    """The metric with this name."""
    match = re.fullmatch(r"(map)(?:@([1-9]\d*)(/found|/all)?)?|(precision|recall)@(r\d+|[1-9]\d*)", str(name))
    if match is None:
        raise InvalidInput(
            expected="metrics among 'map', 'map@K', 'map@K/found', 'map@K/all', 'precision@K' and 'recall@K' (the K "
            "nearest, such as 'precision@100'), 'precision@rR' and 'recall@rR' (distance R or less, such as "
            "'precision@r2')",
            got=repr(name),
        )
    if match[1]:
        return _average_precision(int(match[2]) if match[2] else None, match[3])
    number = int(match[5].removeprefix("r"))
    if match[5].startswith("r"):
        return _precision_within(number) if match[4] == "precision" else _recall_within(number)
    return _precision_among(number) if match[4] == "precision" else _recall_among(number)


def _average_precision(k: int | None, denominator: str | None) -> Measure:
    def measure(counts: Counts) -> np.ndarray:
        cut = counts.n_base if k is None else min(k, counts.n_base)
        if denominator == "/found":
            return precision_per_found(counts.bucket_items, counts.bucket_hits, cut)
        total = counts.n_relevant if k is None or denominator == "/all" else np.minimum(counts.n_relevant, k)
        sums = precision_sums(counts.bucket_items, counts.bucket_hits, cut)
        return np.asarray(sums / np.maximum(total, 1))

    return measure


def _precision_among(k: int) -> Measure:
    def measure(counts: Counts) -> np.ndarray:
        cut = min(k, counts.n_base)
        return found_among(counts.bucket_items, counts.bucket_hits, cut) / cut

    return measure


def _recall_among(k: int) -> Measure:
    def measure(counts: Counts) -> np.ndarray:
        found = found_among(counts.bucket_items, counts.bucket_hits, min(k, counts.n_base))
        return np.asarray(found / np.maximum(counts.n_relevant, 1))

    return measure


def _precision_within(radius: int) -> Measure:
    def measure(counts: Counts) -> np.ndarray:
        ball, found = counts.within(radius)
        empty = 0.0 if counts.empty_ball == "zero" else np.nan
        return np.where(ball > 0, found / np.maximum(ball, 1), empty)

    return measure


def _recall_within(radius: int) -> Measure:
    return lambda counts: counts.within(radius)[1] / np.maximum(counts.n_relevant, 1)
