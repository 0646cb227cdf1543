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

import numpy as np

from onlinehash.io import format
from onlinehash.io.format import like
from onlinehash.numeric.dots import dot_of_rows
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of
from onlinehash.numeric.views import read_only
from onlinehash.types import State

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
    def values(self) -> np.ndarray:
        """What `pair_enters` follows, for kernels that let pairs enter themselves; not a copy."""
        return self._values

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
        return bool(self._counts[0] == N_FIRST and pair_enters(a[None], b[None], 0, self._values))

    def enter_all(self, X: np.ndarray) -> np.ndarray:
        """All rows there will be, at once; `enter` may follow."""
        lengths = _lengths_of(read_only(X))
        some = lengths[lengths > 0]
        self._values[0] = np.median(some) if len(some) else 0.0
        most = MOST * self._values[0] if len(some) else np.inf
        self._counts[:] = N_FIRST, np.count_nonzero(lengths > most)
        return (
            scaled(X, np.where(lengths > most, self._values[0] / np.maximum(lengths, most), 1.0))
            if self._counts[1]
            else X
        )

    def get_state(self) -> State:
        return {"first": self._first, "values": self._values, "counts": self._counts}

    def set_state(self, state: State) -> None:
        self._first = like(state["first"], self._first, "lengths.first", 0)
        self._values = like(state["values"], self._values, "lengths.values", 0)
        self._counts = like(state["counts"], self._counts, "lengths.counts", 0, format.MOST)


def typical_length(X: np.ndarray) -> float:
    """The median of the lengths of rows; the upper one of two."""
    return float(np.sort(_lengths_of(read_only(X)))[len(X) // 2])


def scaled(X: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """A copy of which each row is multiplied by its scale, where that is not 1."""
    X, rows = X.copy(), scales != 1
    X[rows] = X[rows] * scales[rows, None]
    return X


@njit(nogil=True, cache=True)
def _length(X: np.ndarray, n: int) -> float:
    """The length of row n, which need not be padded."""
    square = dot_of_rows(X, n, n)  # of all values but those after the last whole vector register
    rest = X[n, X.shape[1] - X.shape[1] % (64 // X.itemsize) :]
    fours = len(rest) - len(rest) % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four sums, as in one each value would wait for the one before
    for i in range(0, fours, 4):
        a += np.float64(rest[i]) * np.float64(rest[i])
        b += np.float64(rest[i + 1]) * np.float64(rest[i + 1])
        c += np.float64(rest[i + 2]) * np.float64(rest[i + 2])
        d += np.float64(rest[i + 3]) * np.float64(rest[i + 3])
    for i in range(fours, len(rest)):
        a += np.float64(rest[i]) * np.float64(rest[i])
    return math.sqrt(square + ((a + b) + (c + d)))


@njit(nogil=True, cache=True)
def _lengths_of(X: np.ndarray) -> np.ndarray:
    lengths = np.empty(X.shape[0])
    for n in range(X.shape[0]):
        lengths[n] = _length(X, n)
    return lengths


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
def _followed(median: float, length: float) -> float:
    """The median after a vector. It chooses a factor, not a branch, as no CPU can predict on which side a length is."""
    factor = STEP if length > median else (1 / STEP if length > 0 else 1.0)
    return median * factor if median > 0 else length


@njit(nogil=True, cache=True)
def _enter(
    A: np.ndarray, B: np.ndarray, first: np.ndarray, values: np.ndarray, counts: np.ndarray, scales: np.ndarray
) -> bool:
    """Rows of A, or of A and B by turns, enter; `scales` is what to multiply each by. Returns whether one is not 1."""
    n_sides, before, median = scales.shape[1], counts[1], values[0]
    for n in range(scales.shape[0]):  # a loop of its own, so that no row waits for what became of the one before
        scales[n, 0] = _length(A, n)
        if n_sides == 2:
            scales[n, 1] = _length(B, n)
    for n in range(scales.shape[0]):
        for side in range(n_sides):
            length, scales[n, side] = scales[n, side], 1.0
            is_new = counts[0] < N_FIRST
            if is_new:
                first[counts[0]] = length
                counts[0] += 1
                median = _median(first[: counts[0]])
            else:
                median = _followed(median, length)
            if 0 < MOST * median < length < np.inf:  # what is not finite is refused where it is learned
                counts[1] += 1
                scales[n, side] = median / length
            elif is_new:
                values[1] = max(values[1], length)
    values[0] = median
    return bool(counts[1] > before)


@njit(nogil=True, cache=True)
def pair_enters(A: np.ndarray, B: np.ndarray, t: int, values: np.ndarray) -> bool:
    """Rows t enter after the first vectors, if both are finite and not too long; otherwise nothing happens.

    A row longer than `bound`, whose sum of squares might overflow, is left to those who look closer.
    """
    median, bound = values[0], math.sqrt(np.finfo(A.dtype).max / A.shape[1])
    for length in (_length(A, t), _length(B, t)):
        median = _followed(median, length)
        if not length <= bound or 0 < MOST * median < length:
            return False
    values[0] = median
    return True
