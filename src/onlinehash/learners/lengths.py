"""The guard against outliers: a vector far longer than the others is scaled down before anything is learned from it.

One vector that is 1e12 times as long as all others moves the mean so far that these are on the same side of every hash
function, and get the same code. So a learner follows the median of the lengths of its vectors, and scales a vector that
is more than `MOST` times as long down to the median. Its direction stays, which is all that a code depends on there.

    the first 15 vectors   the median is that of all of them so far, from three on
    later                  it grows by 1 % at a longer vector and falls by as much at a shorter one

Of the first two vectors nobody can tell which one is too long. If one of the first turns out to have been, the learner
has to begin anew (`began_too_long`). A vector of zeros has no length that could be typical, and is left out.

Each vector is looked at in its turn, so that a batch learns what a loop over its rows learns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinehash.features.centring import are_small
from onlinehash.io import format
from onlinehash.io.format import like
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of
from onlinehash.numeric.views import read_only

#: A vector may be so many times as long as the median: a mean of 2,000 points moves by a twentieth of a typical length
#: then, and lengths of ordinary data, such as counts of words, stay below.
MOST = 100.0

#: Vectors whose lengths are kept until their median is followed, and how many of them a median is taken of at least.
N_FIRST, LEAST = 15, 3

#: The factor by which the median follows.
STEP = 1.01


class Lengths:
    """How long vectors typically are, and how many were scaled down."""

    def __init__(self) -> None:
        self._first = np.zeros(N_FIRST)
        self._values = np.zeros(2)  # the median, and the longest of the first vectors that was not scaled down
        self._counts = np.zeros(2, np.int64)  # the first vectors, at most N_FIRST; vectors scaled down

    @property
    def median(self) -> float:
        return float(self._values[0])

    @property
    def is_new(self) -> bool:
        """Whether these are the first vectors: they have to be entered one by one, or pair by pair."""
        return bool(self._counts[0] < N_FIRST)

    @property
    def n_scaled(self) -> int:
        return int(self._counts[1])

    @property
    def began_too_long(self) -> bool:
        """Whether something was learned from a vector that, as is known now, was too long."""
        return bool(0 < MOST * self._values[0] < self._values[1])

    def begin_anew(self) -> None:
        """What was learned from the first vectors was forgotten, and the one that was too long is counted."""
        self._values[1] = 0.0
        self._counts[1] += 1

    def enter(self, *sides: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rows of one matrix, or pairs of rows of two: as they are, or copies of which some rows are scaled down."""
        scales = np.empty((len(sides[0]), len(sides)))
        if not _enter(read_only(sides[0]), read_only(sides[-1]), self._first, self._values, self._counts, scales):
            return sides
        return tuple(scaled(side, scales[:, i]) for i, side in enumerate(sides))

    def shortened(self, row: np.ndarray) -> np.ndarray:
        """A vector that entered, if it was too long as is known now, scaled down."""
        length = float(_length(read_only(row[None]), 0))
        return row if length <= MOST * self._values[0] else row * row.dtype.type(self._values[0] / length)

    def takes(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Enter one pair, if there is nothing to refuse or to scale down in it; otherwise nothing happens."""
        return bool(_takes(a, b, self._values, self._counts))

    def enter_all(self, X: np.ndarray) -> np.ndarray:
        """All rows there will be, at once; `enter` may follow."""
        lengths = np.empty(len(X))
        _lengths_of(read_only(X), lengths)
        some = lengths[lengths > 0]
        self._values[0] = np.median(some) if len(some) else 0.0
        most = MOST * self._values[0] if len(some) else np.inf
        self._counts[:] = N_FIRST, np.count_nonzero(lengths > most)
        return (
            scaled(X, np.where(lengths > most, self._values[0] / np.maximum(lengths, most), 1.0))
            if self._counts[1]
            else X
        )

    def get_state(self) -> dict[str, Any]:
        return {"first": self._first, "values": self._values, "counts": self._counts}

    def set_state(self, state: dict[str, Any]) -> None:
        self._first = like(state["first"], self._first, "lengths.first", 0)
        self._values = like(state["values"], self._values, "lengths.values", 0)
        self._counts = like(state["counts"], self._counts, "lengths.counts", 0, format.MOST)


def scaled(X: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """A copy of which each row is multiplied by its scale, where that is not 1."""
    X, rows = X.copy(), scales != 1
    X[rows] = X[rows] * scales[rows, None]
    return X


@njit(nogil=True, cache=True)
def _length(X: np.ndarray, n: int) -> float:
    """The length of row n; four sums, so that an addition need not wait for the one before."""
    whole = X.shape[1] // 4 * 4
    s0 = s1 = s2 = s3 = 0.0
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = float(X[n, i]), float(X[n, i + 1]), float(X[n, i + 2]), float(X[n, i + 3])
        s0 += x0 * x0
        s1 += x1 * x1
        s2 += x2 * x2
        s3 += x3 * x3
    for i in range(whole, X.shape[1]):
        s0 += float(X[n, i]) * float(X[n, i])
    return math.sqrt((s0 + s1) + (s2 + s3))


@njit(nogil=True, cache=True)
def _lengths_of(X: np.ndarray, lengths: np.ndarray) -> None:
    for n in range(X.shape[0]):
        lengths[n] = _length(X, n)


@njit(nogil=True, cache=True)
def _median(lengths: np.ndarray) -> float:
    """The lower median of those that are not zero; 0 of too few."""
    some, n = np.empty(len(lengths)), 0
    for length in lengths:
        if length > 0:
            some[n] = length
            n += 1
    return some[order_of(some[:n])[(n - 1) // 2]] if n >= LEAST else 0.0


@njit(nogil=True, cache=True)
def _follow(length: float, values: np.ndarray) -> None:
    if values[0] == 0:
        values[0] = length
    elif length > values[0]:
        values[0] *= STEP
    elif length > 0:
        values[0] /= STEP


@njit(nogil=True, cache=True)
def _enter_length(length: float, first: np.ndarray, values: np.ndarray, counts: np.ndarray) -> float:
    """What a vector of this length, now that it enters, has to be multiplied by."""
    is_new = counts[0] < N_FIRST
    if is_new:
        first[counts[0]] = length
        counts[0] += 1
        values[0] = _median(first[: counts[0]])
    else:
        _follow(length, values)
    if 0 < MOST * values[0] < length < np.inf:  # what is not finite is refused where it is learned
        counts[1] += 1
        return float(values[0] / length)
    if is_new:
        values[1] = max(values[1], length)
    return 1.0


@njit(nogil=True, cache=True)
def _enter(
    A: np.ndarray, B: np.ndarray, first: np.ndarray, values: np.ndarray, counts: np.ndarray, scales: np.ndarray
) -> bool:
    """Rows of A, or of A and B by turns, enter; returns whether one of `scales` is not 1."""
    before = counts[1]
    for n in range(scales.shape[0]):
        scales[n, 0] = _enter_length(_length(A, n), first, values, counts)
        if scales.shape[1] == 2:
            scales[n, 1] = _enter_length(_length(B, n), first, values, counts)
    return bool(counts[1] > before)


@njit(nogil=True, cache=True)
def _takes(a: np.ndarray, b: np.ndarray, values: np.ndarray, counts: np.ndarray) -> bool:
    if counts[0] < N_FIRST or not are_small(a, b):
        return False
    before = values[0]
    for x in (a, b):
        length = _length(x.reshape(1, -1), 0)
        _follow(length, values)
        if 0 < MOST * values[0] < length:
            values[0] = before
            return False
    return True
