"""Exact nearest neighbours by Euclidean distance on a card: those of `numeric.neighbours`, found faster.

A product in float32 knows each distance within a bound. The k-th least of what distances can be at most, over a sample
of the base, is a reach that the k nearest cannot exceed: rows that are surely farther are dropped while the products
pass by. What is left is cut once more by the k-th of all, and the few rows that remain are compared by a sum of squared
differences in float64, in the order of the CPU's and rounded like it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash.gpu.card import THREADS, Card, begin_products, check_room, describe, fetch, load_cupy, refusing
from onlinehash.gpu.encoding import check_precision, module_of
from onlinehash.gpu.upload import to_card
from onlinehash.numeric import neighbours

#: Rows of the base that the first reach is taken from, at least and at most; queries and rows of a block of products.
SAMPLED, MOST_SAMPLED, QUERIES, ROWS = 1 << 15, 1 << 18, 2048, 1 << 19

#: Rows that a query may keep at first, and bytes for those of all queries where some keep more.
ROOM, KEPT_BYTES = 1 << 16, 4 << 30


class Sieve:
    """The kernels of `vectors.cu` that look for neighbours."""

    def __init__(self) -> None:
        self.xp: Any = load_cupy("the search for neighbours on a card")
        check_precision()
        begin_products(self.xp)

    def card(self) -> Card | None:
        """The card as it is now."""
        return describe(self.xp)

    def sift(
        self,
        products: Any,
        squares: Any,
        row_squares: Any,
        first: int,
        reaches: Any,
        found: Any,
        kept: tuple[Any, ...],
        error: tuple[float, float],
    ) -> None:
        """Keep the rows of a block of the base that may be among the nearest."""
        n_queries, n_rows = products.shape
        numbers = (np.int64(n_rows), np.int64(first), np.float32(error[0]), np.float32(error[1]))
        arguments = (products, squares, row_squares, *numbers, reaches, found, *kept, np.uint64(kept[0].shape[1]))
        module_of("f").get_function("sift")((min(64, -(-n_rows // THREADS)), n_queries), (THREADS,), arguments)

    def centre(self, rows: Any, mean: Any, factor: float) -> tuple[Any, Any]:
        """Rows as float32, moved by the mean and scaled, and their squared lengths."""
        points, squares = self.xp.empty(rows.shape, np.float32), self.xp.empty(len(rows), np.float32)
        numbers = (np.float64(factor), np.int64(len(rows)), np.int32(rows.shape[1]))
        grid = (max(1, min(4096, -(-len(rows) * 32 // THREADS))),)
        module_of(rows.dtype.char).get_function("centre")(grid, (THREADS,), (rows, mean, *numbers, points, squares))
        return points, squares

    def kth(self, lists: Any, lengths: Any, k: int) -> Any:
        """The k-th least value of each list, of as many as its length says."""
        out = self.xp.empty(len(lists), np.float32)
        arguments = (lists, lengths, np.int64(lists.shape[1]), np.uint32(k), out)
        module_of("f").get_function("kth")((len(lists),), (THREADS,), arguments)
        return out

    def compare(self, X: Any, base: Any, queries: Any, rows: Any) -> Any:
        """Squared distances of pairs of rows, as `numeric.neighbours` computes them."""
        out = self.xp.empty(len(rows))
        arguments = (X, base, np.int32(X.shape[1]), queries, rows, np.int64(len(rows)), out)
        grid = (max(1, min(4096, -(-len(rows) // THREADS))),)
        module_of(X.dtype.char).get_function("compare")(grid, (THREADS,), arguments)
        return out


class SieveTwin:
    """The same in NumPy."""

    xp: Any = np

    def card(self) -> Card | None:
        """None: the memory is the host's."""
        return None

    def sift(
        self,
        products: Any,
        squares: Any,
        row_squares: Any,
        first: int,
        reaches: Any,
        found: Any,
        kept: tuple[Any, ...],
        error: tuple[float, float],
    ) -> None:
        square = squares[:, None] + row_squares
        distances, errors = square - 2 * products, np.float32(error[0]) * square + np.float32(error[1])
        for q, j in zip(*np.nonzero(distances - errors <= reaches[:, None]), strict=True):
            if found[q] < kept[0].shape[1]:
                values = first + j, distances[q, j] - errors[q, j], distances[q, j] + errors[q, j]
                for array, value in zip(kept, values, strict=True):
                    array[q, found[q]] = value
            found[q] += 1

    def centre(self, rows: Any, mean: Any, factor: float) -> tuple[Any, Any]:
        points = ((rows - mean) * factor).astype(np.float32)
        return points, (points.astype(np.float64) ** 2).sum(axis=1).astype(np.float32)

    def kth(self, lists: Any, lengths: Any, k: int) -> Any:
        cut = np.where(np.arange(lists.shape[1]) < lengths[:, None], lists, np.inf)
        return np.sort(cut, axis=1)[:, k - 1].astype(np.float32)

    def compare(self, X: Any, base: Any, queries: Any, rows: Any) -> Any:
        pairs = zip(queries, rows, strict=True)
        return np.array([neighbours.squared_distances(X[q : q + 1], base, np.array([[row]]))[0, 0] for q, row in pairs])


def nearest_positions(X: Any, base: Any, k: int, sieve: Sieve | SieveTwin | None = None) -> np.ndarray:
    """The k nearest rows of the base to each row of X, `(n, k)`, ascending; ties go to the first in the base.

    Both are float32 or float64, on the host or on the card, which has to hold the base.
    """
    rows = nearest_first(X, base, k, sieve)[0]
    rows.sort(axis=1)
    return rows.astype(np.int32 if len(base) < 2**31 else np.int64)


def nearest_first(X: Any, base: Any, k: int, sieve: Sieve | SieveTwin | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The same rows in the order of (distance, row), and their squared distances as `numeric.neighbours` has them."""
    sieve = Sieve() if sieve is None else sieve
    with refusing(sieve.card, f"a search for {len(X):,} queries among {len(base):,} vectors"):
        search = _Search(X, base, k, sieve)
        parts = [search.nearest(slice(start, start + QUERIES)) for start in range(0, len(X), QUERIES)]
    rows, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, distances


def same_precision(X: Any, base: Any) -> tuple[Any, Any]:
    """Both in the precision of the wider one, in which no value changes."""
    dtype = np.promote_types(X.dtype, base.dtype)
    return X.astype(dtype, copy=False), base.astype(dtype, copy=False)


def needed(X: Any, base: Any, n_sampled: int) -> int:
    """Bytes on the card that a search takes beside what is there: of what does not hang on the values."""
    n_queries, n_rows, d = min(QUERIES, len(X)), min(ROWS, len(base)), X.shape[1]
    brought = sum(matrix.nbytes for matrix in (X, base) if isinstance(matrix, np.ndarray))
    sample = n_sampled * d * (base.dtype.itemsize + 4)
    blocks = 2 * 4 * n_rows * d  # the one at hand, and the one before, until its name is taken
    products = 4 * n_queries * max(n_rows, 4 * n_sampled)  # four arrays of the sample's, before those of blocks
    kept = 16 * n_queries * min(ROOM, len(base))
    return int(brought + sample + blocks + products + kept)


class _Search:
    """Both matrices on the card, the centre and the scale that make products accurate, and a sample of the base."""

    def __init__(self, X: Any, base: Any, k: int, sieve: Sieve | SieveTwin) -> None:
        self._sieve, self._xp, self._k = sieve, sieve.xp, k
        xp, d = sieve.xp, X.shape[1]
        # So that an eighth of the room is taken; of a small base an eighth is enough.
        wanted = max(min(SAMPLED, len(base) // 8), min(8 * len(base) * k // ROOM, MOST_SAMPLED), 8 * k)
        rows = np.unique(np.linspace(0, len(base) - 1, min(len(base), wanted)).astype(np.int64))
        card = sieve.card()
        if card is not None:
            check_room(card, needed(X, base, len(rows)), f"a search of {len(base):,} vectors")
        self._X, self._base = to_card(xp, X), to_card(xp, base)
        # Twice the bounds of numeric/neighbours.py, as here the bounds themselves are rounded to float32 too.
        self._error = 2 * (d + 16) * 2.0**-24, 2 * (8 * d + 64) * 2.0**-126
        sample = self._base[xp.asarray(rows)]
        self._mean = sample.mean(axis=0, dtype=np.float64)
        # Block by block, as CuPy reduces an array of 2**31 values or more in a single block of threads.
        blocks = [m[at : at + ROWS] for m in (self._X, self._base) for at in range(0, len(m), ROWS)]
        ends = xp.stack([end for block in blocks for end in (block.max(), -block.min())])
        peak = float(ends.max()) + float(xp.abs(self._mean).max())
        self._factor = float(2.0 ** -max(int(np.frexp(peak)[1]), -1000))
        self._sample = self._centred(sample)

    def _centred(self, rows: Any) -> tuple[Any, Any]:
        """Rows as float32, none of their values above 1, and their squared lengths."""
        return self._sieve.centre(rows, self._mean, self._factor)

    def nearest(self, queries: slice | np.ndarray, room: int = ROOM) -> tuple[np.ndarray, np.ndarray]:
        xp, k, error = self._xp, self._k, self._error
        X = self._X[queries if isinstance(queries, slice) else xp.asarray(queries)]
        room = min(room, len(self._base))
        points, squares = self._centred(X)
        found = xp.zeros(len(X), np.uint32)
        kept = (
            xp.zeros((len(X), room), np.int64),
            xp.full((len(X), room), np.inf, np.float32),
            xp.full((len(X), room), np.inf, np.float32),
        )
        reaches = self._reaches(points, squares)
        for first in range(0, len(self._base), ROWS):
            some, some_squares = self._centred(self._base[first : first + ROWS])
            self._sieve.sift(points @ some.T, squares, some_squares, first, reaches, found, kept, error)
        rows, least, greatest = kept
        if k <= room:
            reaches = self._sieve.kth(greatest, found, k)
        certain = xp.minimum(reaches, np.float32(np.finfo(np.float32).max))[:, None]
        widest = min(room, int(found.max()))
        of, at = (xp.ascontiguousarray(axis) for axis in xp.nonzero(least[:, :widest] <= certain))
        chosen = rows[of, at]
        distances = self._sieve.compare(X, self._base, of, chosen)
        order = xp.lexsort(xp.stack([chosen.astype(np.float64), distances, of.astype(np.float64)]))
        of = of[order]
        rank = xp.arange(len(of)) - xp.searchsorted(of, xp.arange(len(X)))[of]
        order, of, rank = order[rank < k], of[rank < k], rank[rank < k]
        near, far = xp.full((len(X), k), -1, np.int64), xp.full((len(X), k), np.inf)
        near[of, rank], far[of, rank] = chosen[order], distances[order]
        out, squared, numbers = fetch(near), fetch(far), fetch(found)
        # Some may have more rows as near as the sample says: again, with room for all.
        more = np.flatnonzero(numbers > room)
        everyone = np.arange(len(self._X))[queries]
        size = max(1, KEPT_BYTES // (16 * int(numbers.max(initial=1))))
        for start in range(0, len(more), size):
            some = more[start : start + size]
            out[some], squared[some] = self.nearest(everyone[some], int(numbers[some].max()))
        return out, squared

    def _reaches(self, points: Any, squares: Any) -> Any:
        """What the k-th nearest cannot exceed, by the sample."""
        sample, sample_squares = self._sample
        square = squares[:, None] + sample_squares
        greatest = square - 2 * (points @ sample.T) + (np.float32(self._error[0]) * square + np.float32(self._error[1]))
        lengths = self._xp.full(len(points), len(sample), np.uint32)
        return self._sieve.kth(greatest, lengths, min(self._k, len(sample)))
