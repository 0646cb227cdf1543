"""How many items a look-up will meet, told from a sample of the codes.

A query is taken to be like the items. Then the share of pairs of items whose chunks differ in s bits is the share of
all items that a look-up of that chunk at the distance s meets. It counts how unevenly codes fill their buckets, which a
division of the items by the buckets would not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onlinehash.stores.postgres.chunks import Chunks
from onlinehash.stores.postgres.connections import Connection
from onlinehash.stores.postgres.rows import counts

#: Places that are asked for at once; those of items that are gone have no code.
_SAMPLE = 1000
#: With fewer codes than this nothing is told by pairs of them.
_ENOUGH = 100

_UNKNOWN = np.empty(0)


class Buckets(NamedTuple):
    """What is known of the codes at one moment."""

    n: float  #: Items, about.
    met: list[list[float]]  #: How many of them chunk j at the distance s meets, about.
    within: np.ndarray = (
        _UNKNOWN  #: How many of them are within each distance of an item, about; empty if nothing is known.
    )

    def distance(self, k: int) -> int:
        """How far the k-th nearest item is, about; 0 if nothing is known of it."""
        return int(np.searchsorted(self.within, k)) if len(self.within) else 0


def sampled(connection: Connection, table: str, chunks: Chunks, epoch: int) -> Buckets:
    """Count and look at some codes."""
    first, last = _ends(connection, table)
    if last is None:
        return Buckets(0, [[0.0] * (width + 1) for width in chunks.widths])
    asked = np.unique(np.linspace(first, last, _SAMPLE).astype(np.int64))
    found = connection.execute(
        f"SELECT {', '.join(chunks.columns)} FROM {table} WHERE place = ANY(%s::bigint[]) AND {counts()}",
        (asked.tolist(), epoch, epoch),
    ).fetchall()
    n = (last - first + 1) * len(found) / len(asked)
    values = np.array(found, np.int64).reshape(len(found), len(chunks.widths))
    met = [_met(values[:, j], width, n) for j, width in enumerate(chunks.widths)]
    return Buckets(n, met, _within(values, chunks, n))


def _ends(connection: Connection, table: str) -> tuple[Any, Any]:
    """The first and the last place; one after the other, as a btree has each of them at hand."""
    rows = [
        connection.execute(f"SELECT place FROM {table} ORDER BY place {order} LIMIT 1").fetchone()
        for order in ("ASC", "DESC")
    ]
    return rows[0] and rows[0][0], rows[1] and rows[1][0]


def _met(values: np.ndarray, width: int, n: float) -> list[float]:
    """The items that one chunk meets at each distance: as the pairs of a sample tell, and never less than nothing."""
    distances = np.arange(width + 1)
    evenly = _binomial(width, distances) / 2.0**width
    if len(values) < _ENOUGH:
        shares = evenly
    else:
        away = np.bitwise_count(values[:, None] ^ values[None, :])
        pairs = np.bincount(away.ravel(), minlength=width + 1)
        pairs[0] -= len(values)  # a code and itself
        shares = pairs / (len(values) * (len(values) - 1))
    met: list[float] = (n * shares).tolist()
    return met


def _within(values: np.ndarray, chunks: Chunks, n: float) -> np.ndarray:
    """The items within each distance of an item, as the pairs of a sample tell; bits in no chunk count as 0."""
    if len(values) < _ENOUGH:
        return _UNKNOWN
    away = [
        sum(np.bitwise_count(values[:, None, j] ^ values[None, :, j]).astype(np.int64) for j in group)
        for group in chunks.of_group
    ]
    pairs = np.bincount(np.minimum.reduce(away).ravel())
    pairs[0] -= len(values)
    return np.cumsum(pairs) * (n / (len(values) * (len(values) - 1)))


def _binomial(width: int, distances: np.ndarray) -> np.ndarray:
    """How many values of that width are at each distance of one."""
    ratios = (width - distances[:-1]) / (distances[:-1] + 1)
    return np.concatenate([[1.0], np.cumprod(ratios)])
