"""Centring of features: the paper's hash functions are signs of projections of *zero-mean* data.

The mean of a stream is not known in advance, so it is estimated from the points seen, both points of a pair entering
before the pair is projected (sums in float64, whatever the data's dtype):

    burn-in   the mean of the first `burn_in` points, then frozen, so that codes stop moving on its account (default)
    running   the mean of all points so far, as the paper does it
    median    burn-in, plus a threshold per bit that follows the median of its projections (the paper's guideline:
              a bit that splits the data in half carries the most information); see `track_medians`
    none      the data are taken as they are
"""

from __future__ import annotations

import numpy as np

from onlinehash.io.format import MOST, like
from onlinehash.numeric.dots import aligned_empty, aligned_zeros, row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.types import State

MODES = ("burn-in", "running", "median", "none")

#: The median of a bit moves by at least this share of its spread, so that it follows functions that keep changing.
SLOWEST_MEDIAN_STEP = 0.005


def longest(dtype: np.dtype) -> float:
    """The greatest value of a vector that passes the gate, and so of a mean of such: its square is finite."""
    return float(np.sqrt(np.finfo(dtype).max))


#: From so many rows on, memory that begins at a cache line is worth the time to find it.
MANY_ROWS = 16


class Centring:
    """The mean of a stream of feature vectors, and the vectors less that mean."""

    def __init__(self, mode: str, burn_in: int, n_features: int, dtype: np.dtype) -> None:
        self.mode = mode
        self.limit = {"none": 0, "running": np.iinfo(np.int64).max}.get(mode, burn_in)
        self.dtype = dtype
        self.total = np.zeros(n_features)
        self.count = np.zeros(1, np.int64)
        self.mean = np.zeros(n_features)

    def enter(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points enter the mean one by one: each less the mean at its turn, and did it move that, bool `(n,)`."""
        X = aligned_zeros(Z.shape, self.dtype)
        moved = np.zeros(len(Z), np.bool_)
        _enter_points(Z, self.total, self.count, self.limit, self.mean, X, moved)
        return X, moved

    def enter_pairs(self, A: np.ndarray, B: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both points of a pair enter the mean, then both are centred, pair by pair; `moved` hears which moved it."""
        empty = np.empty if len(A) < MANY_ROWS else aligned_empty
        first, second = empty(A.shape, self.dtype), empty(B.shape, self.dtype)
        _enter_pairs(A, B, self.total, self.count, self.limit, self.mean, first, second, moved)
        return first, second

    def centre(self, Z: np.ndarray) -> np.ndarray:
        """Rows less the present mean, padded for the row kernels; the mean stays as it is."""
        X = aligned_zeros(Z.shape, self.dtype)
        X[:, : Z.shape[1]] = Z - self.mean.astype(self.dtype)
        return X

    def get_state(self) -> State:
        return {"total": self.total, "count": self.count, "mean": self.mean}

    def set_state(self, state: State) -> None:
        most = longest(self.dtype)
        self.mean = like(state["mean"], self.mean, "mean", -most, most)
        self.total = like(state["total"], self.total, "total")
        self.count = like(state["count"], self.count, "count", 0, MOST)


class Medians:
    """A streaming median for each bit's projections; zero in every other mode of centring."""

    def __init__(self, n_bits: int) -> None:
        self.values = np.zeros(n_bits)
        self.spreads = np.zeros(n_bits)
        self.count = np.zeros(1, np.int64)

    def enter(self, W: np.ndarray, X: np.ndarray) -> None:
        """Centred points, padded as the rows of W are, enter the medians of their projections one by one."""
        projections = np.empty((len(X), len(W)), X.dtype)
        row_dots(W, X, 0, len(X), projections)
        for n in range(len(X)):
            track_medians(projections, n, self.values, self.spreads, self.count)

    def get_state(self) -> State:
        return {"values": self.values, "spreads": self.spreads, "count": self.count}

    def set_state(self, state: State) -> None:
        self.values = like(state["values"], self.values, "medians.values")
        self.spreads = like(state["spreads"], self.spreads, "medians.spreads", 0)
        self.count = like(state["count"], self.count, "medians.count", 0, MOST)


# The kernels take whole arrays and a row's number: a view of each row would cost as much as the arithmetic on it.


@njit(nogil=True, cache=True)
def _add(Z: np.ndarray, n: int, total: np.ndarray, count: np.ndarray, limit: int) -> bool:
    """Row n enters the sum, unless that is frozen."""
    if count[0] >= limit:
        return False
    count[0] += 1
    for i in range(Z.shape[1]):
        total[i] += Z[n, i]
    return True


@njit(nogil=True, cache=True)
def _renew(total: np.ndarray, count: np.ndarray, mean: np.ndarray) -> bool:
    """Update the mean with what has entered; returns whether it moved."""
    moved = False
    share = 1.0 / count[0]  # one division instead of one per feature
    for i in range(mean.shape[0]):
        new = total[i] * share
        moved |= new != mean[i]
        mean[i] = new
    return moved


@njit(nogil=True, cache=True)
def _enter_points(
    Z: np.ndarray,
    total: np.ndarray,
    count: np.ndarray,
    limit: int,
    mean: np.ndarray,
    X: np.ndarray,
    moved: np.ndarray,
) -> None:
    rounded = mean.astype(X.dtype)
    for n in range(Z.shape[0]):
        if _add(Z, n, total, count, limit):
            moved[n] = _renew(total, count, mean)
            for i in range(mean.shape[0]):
                rounded[i] = mean[i]
        _subtract(Z, n, rounded, X, n)


@njit(nogil=True, cache=True)
def is_finite(Z: np.ndarray, n: int, bound: float) -> bool:
    """Whether row n's sum of squares is finite; values up to `bound` cannot make it overflow, and pass quickly."""
    doubtful = False
    for i in range(Z.shape[1]):
        doubtful |= not (abs(Z[n, i]) <= bound)
    if doubtful:
        total = Z[n, 0] * Z[n, 0]
        for i in range(1, Z.shape[1]):
            total += Z[n, i] * Z[n, i]
        return bool(np.isfinite(total))
    return True


@njit(nogil=True, cache=True)
def centre_pair(
    A: np.ndarray,
    B: np.ndarray,
    t: int,
    total: np.ndarray,
    count: np.ndarray,
    limit: int,
    mean: np.ndarray,
    rounded: np.ndarray,
    X: np.ndarray,
    q: int,
) -> bool:
    """Rows t of A and B enter the mean, then go centred into rows q and q + 1 of X; did the mean move?

    `rounded` is the mean in the data's own precision, kept between calls.
    """
    moved = _enter_pair(A, B, t, total, count, limit, mean, rounded)
    _subtract(A, t, rounded, X, q)
    _subtract(B, t, rounded, X, q + 1)
    return moved


@njit(nogil=True, cache=True)
def _enter_pair(
    A: np.ndarray,
    B: np.ndarray,
    t: int,
    total: np.ndarray,
    count: np.ndarray,
    limit: int,
    mean: np.ndarray,
    rounded: np.ndarray,
) -> bool:
    entered = _add(A, t, total, count, limit)
    entered |= _add(B, t, total, count, limit)
    moved = False
    if entered:
        moved = _renew(total, count, mean)
        for i in range(mean.shape[0]):
            rounded[i] = mean[i]
    return moved


@njit(nogil=True, cache=True)
def _subtract(Z: np.ndarray, n: int, rounded: np.ndarray, X: np.ndarray, q: int) -> None:
    """Row q of X is row n of Z less the mean."""
    for i in range(rounded.shape[0]):
        X[q, i] = Z[n, i] - rounded[i]


@njit(nogil=True, cache=True)
def _enter_pairs(
    A: np.ndarray,
    B: np.ndarray,
    total: np.ndarray,
    count: np.ndarray,
    limit: int,
    mean: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    moved: np.ndarray,
) -> None:
    rounded = mean.astype(first.dtype)
    for t in range(A.shape[0]):
        moved[t] = _enter_pair(A, B, t, total, count, limit, mean, rounded)
        _subtract(A, t, rounded, first, t)
        _subtract(B, t, rounded, second, t)


@njit(nogil=True, cache=True)
def track_medians(P: np.ndarray, n: int, medians: np.ndarray, spreads: np.ndarray, count: np.ndarray) -> None:
    """One point's projections, row n of P, enter the streaming medians, constant memory per bit.

    Each median takes a step towards the new value, of the size of the bit's mean absolute deviation times a factor
    that falls as 1/n to a floor (a stochastic approximation of the median).
    """
    count[0] += 1
    rate = max(1.0 / count[0], SLOWEST_MEDIAN_STEP)
    for k in range(medians.shape[0]):
        gap = P[n, k] - medians[k]
        spreads[k] += rate * (abs(gap) - spreads[k])
        if gap > 0:
            medians[k] += rate * spreads[k]
        elif gap < 0:
            medians[k] -= rate * spreads[k]
