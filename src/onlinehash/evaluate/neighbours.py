"""Which pairs of a training set are neighbours of one another: similarity where there are no labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.numeric.neighbours import distances_of_kth, number_of, pair_distances


def neighbour_radii(X: Any, share: float = 0.05, *, k: int | None = None, rows: Any = None) -> np.ndarray:
    """How far the nearest of the other rows of X reach, from each row or from some: the distance of the last of them.

    The nearest are a share of the others (rounded, at least one), or `k` of them, by Euclidean distance. Exact: the
    radius is the float64 distance to a row, whatever was computed in float32 on the way.
    """
    X = checks.vectors(X)
    if len(X) < 2:
        raise InvalidInput("neighbours need at least two rows in X, got one.")
    wanted = np.arange(len(X)) if rows is None else _positions(rows, len(X), "rows")
    return distances_of_kth(X, wanted, number_of(len(X) - 1, share, k))


def are_neighbours(
    X: Any, first: Any, second: Any, share: float = 0.05, *, k: int | None = None, radii: Any = None
) -> np.ndarray:
    """For rows first[t] and second[t] of X, is either among the other's nearest? Booleans, one for each pair.

    That is, their distance is at most the `neighbour_radii` of either, so all rows at that very distance are
    neighbours. A row is not its own neighbour, but an equal row can be. `radii`, where they are there already, are
    those of all rows of X; else only rows that occur in pairs are searched for.
    """
    X = checks.vectors(X)
    first, second = _positions(first, len(X), "first"), _positions(second, len(X), "second")
    if len(first) != len(second):
        raise InvalidInput(f"first and second must have equal lengths, got {len(first)} and {len(second)}.")
    if radii is None:
        rows, at = np.unique(np.concatenate([first, second]), return_inverse=True)
        reach = neighbour_radii(X, share, k=k, rows=rows)
        of_first, of_second = reach[at[: len(first)]], reach[at[len(first) :]]
    else:
        reach = np.asarray(radii, np.float64)
        checks.same_length("radii", len(reach), len(X), "X")
        of_first, of_second = reach[first], reach[second]
    return (pair_distances(X, first, second) <= np.maximum(of_first, of_second)) & (first != second)


def _positions(rows: Any, n: int, name: str) -> np.ndarray:
    values = np.asarray(rows)
    if values.size == 0:
        values = values.astype(np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu" or not ((values >= 0) & (values < n)).all():
        raise InvalidInput(f"expected {name} to hold row numbers of X from 0 to {n - 1}, got {checks.shown(rows)}.")
    return values.astype(np.int64)
