"""Exact nearest neighbours by Euclidean distance, at the speed of float32 products.

A product of matrices gives all squared distances at once, |x|² + |y|² - 2x.y, but rounded, and differently with
every block size. So it only sorts out what is surely near and surely far: each distance is known within a bound, and
the few items for which that does not decide are compared by a sum of squared differences, in float64 and in one fixed
order. Hence the neighbours are the same on every machine and for every block size, and equal rows are equally far.

For the bound, with u = 2**-24 and all values scaled to at most 1: a dot product of d terms is off by at most d u|x||y|,
rounding the centred rows to float32 moves a distance by at most 2u(|x| + |y|)², and the rest is a few u(|x|² + |y|²).
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of
from onlinehash.numeric.views import read_only

#: Distances held at once, in float32; memory beyond it is a centred float32 copy of the base.
BLOCK_DISTANCES = 2**24

#: Rows converted at once.
BLOCK_ROWS = 4096


def number_of(n: int, share: float, k: int | None) -> int:
    """How many of n items are nearest: `k`, or a share rounded to a whole number, at least one."""
    if k is not None:
        checks.parameters("the search for neighbours", {"k": k}, {"k": checks.integer(1, n)})
        return int(k)
    checks.parameters("the search for neighbours", {"share": share}, {"share": checks.real(0, 1, above=True)})
    return max(1, round(share * n))


def nearest_positions(X: np.ndarray, base: np.ndarray, k: int) -> np.ndarray:
    """The k nearest rows of the base to each row of X, `(n, k)`, by position; ties go to the first in the base."""
    out = np.empty((len(X), k), np.int32 if len(base) < 2**31 else np.int64)
    _search(X, base, k, None, out)
    return out


def squared_distances(X: np.ndarray, base: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Of each row of X to the rows of the base at its positions, `(n, k)`, as they are compared here."""
    out = np.empty(positions.shape)
    _squared_distances(read_only(X), read_only(base), positions, out)
    return out


def distances_of_kth(X: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    """For some rows of X, the distance of the k-th nearest among the other rows."""
    distances: np.ndarray = np.sqrt(_search(X[rows], X, k, rows, np.empty((len(rows), 0), np.int32)))
    return distances


def pair_distances(X: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of rows first[t] and second[t] of X, as they are compared here."""
    distances: np.ndarray = np.sqrt(_pair_distances(read_only(X), first, second))
    return distances


@njit(nogil=True, cache=True)
def _squared_distances(X: np.ndarray, base: np.ndarray, positions: np.ndarray, out: np.ndarray) -> None:
    for q in range(positions.shape[0]):
        for j in range(positions.shape[1]):
            out[q, j] = _squared_distance(X[q], base[positions[q, j]])


@njit(nogil=True, cache=True)
def _pair_distances(X: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    out = np.empty(len(first))
    for t in range(len(first)):
        out[t] = _squared_distance(X[first[t]], X[second[t]])
    return out


def _search(X: np.ndarray, base: np.ndarray, k: int, own: np.ndarray | None, out: np.ndarray) -> np.ndarray:
    """The squared distance of the k-th nearest, and all positions into `out`, if it has columns.

    `own` are the positions of the rows of X in the base, which are left out.
    """
    mean = base.mean(axis=0, dtype=np.float64)
    factor = _scale(mean, X, base)
    points, squares = _centred(base, mean, factor)
    kth = np.empty(len(X))
    n_rows = max(1, BLOCK_DISTANCES // len(base))
    for start in range(0, len(X), n_rows):
        rows = slice(start, start + n_rows)
        centred, square = _centred(X[rows], mean, factor)
        near = centred @ points.T
        near *= np.float32(-2)
        near += square[:, None]
        near += squares
        if own is not None:
            near[np.arange(len(near)), own[rows]] = np.inf
        guesses = np.array([np.partition(row, k - 1)[k - 1] for row in near])
        _settle(read_only(X[rows]), read_only(base), near, guesses, square, squares, k, kth[rows], out[rows])
        out[rows].sort(axis=1)
    return kth


def _scale(mean: np.ndarray, *matrices: np.ndarray) -> float:
    """A power of two that brings all centred values to at most 1; multiplying by it rounds nothing."""
    peaks = [np.abs(X[at : at + BLOCK_ROWS] - mean).max() for X in matrices for at in range(0, len(X), BLOCK_ROWS)]
    return float(2.0 ** -max(int(np.frexp(max(peaks))[1]), -1000))


def _centred(X: np.ndarray, mean: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows as float32, and their squared lengths."""
    points, squares = np.empty(X.shape, np.float32), np.empty(len(X), np.float32)
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        points[rows] = (X[rows] - mean) * factor
        squares[rows] = np.einsum("nd,nd->n", points[rows], points[rows], dtype=np.float64)
    return points, squares


@njit(nogil=True, cache=True)
def _settle(
    X: np.ndarray,
    base: np.ndarray,
    near: np.ndarray,
    guesses: np.ndarray,
    square: np.ndarray,
    squares: np.ndarray,
    k: int,
    kth: np.ndarray,
    out: np.ndarray,
) -> None:
    """From rounded distances and the k-th of them to the exact k nearest."""
    n_base, d = base.shape
    relative, absolute = (d + 16) * 2.0**-24, (8 * d + 64) * 2.0**-126  # the latter for what vanishes in float32
    doubtful = np.empty(n_base, np.int64)
    for q in range(len(X)):
        own, guess = np.float64(square[q]), guesses[q]
        surely_below, surely_above = -np.inf, np.inf  # the k-th distance is not above the one nor below the other
        for j in range(n_base):
            bound = relative * (own + squares[j]) + absolute
            if near[q, j] <= guess:
                surely_below = max(surely_below, near[q, j] + bound)
            if near[q, j] >= guess:
                surely_above = min(surely_above, near[q, j] - bound)
        n_near, n_doubtful = 0, 0
        for j in range(n_base):
            bound = relative * (own + squares[j]) + absolute
            if near[q, j] + bound < surely_above:
                n_near += 1
            elif near[q, j] - bound <= surely_below:
                doubtful[n_doubtful] = j
                n_doubtful += 1
        exact = np.empty(n_doubtful)
        for i in range(n_doubtful):
            exact[i] = _squared_distance(X[q], base[doubtful[i]])
        order = order_of(exact)  # ties stay in the order of the base
        kth[q] = exact[order[k - n_near - 1]]
        if out.shape[1] > 0:
            at = 0
            for i in order[: k - n_near]:
                out[q, at] = doubtful[i]
                at += 1
            for j in range(n_base):
                if near[q, j] + relative * (own + squares[j]) + absolute < surely_above:
                    out[q, at] = j
                    at += 1


@njit(nogil=True, cache=True)
def _squared_distance(x: np.ndarray, y: np.ndarray) -> float:
    total = 0.0
    for i in range(len(x)):
        difference = np.float64(x[i]) - np.float64(y[i])
        total += difference * difference
    return total
