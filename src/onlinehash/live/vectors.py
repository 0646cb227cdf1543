"""The vectors of a live index that keeps them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from onlinehash.live.vectors_kernels import compare_rounded, compare_rows, take_rounded, take_rows

#: Rows of a block: a whole number of blocks of codes, and few enough that adding one block is no pause.
BLOCK_ROWS = 4096


class Vectors(Protocol):
    """Rows by position, in memory or on a disk; positions count insertions, dead ones included.

    `blocks` gives the rows of the first n positions as (first position, rows), a block at a time; meanwhile others may
    add and change rows, and a row that is changed comes out old or new.
    """

    def __len__(self) -> int: ...
    def take(self, positions: np.ndarray) -> np.ndarray: ...
    def keep(self, positions: np.ndarray) -> None: ...
    def blocks(self, n: int) -> Iterator[tuple[int, np.ndarray]]: ...


class MemoryVectors:
    """Rows in blocks of memory, so that nothing large is ever copied to make room."""

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(block.nbytes for block in self._blocks)

    def append(self, rows: np.ndarray) -> None:
        """More rows, copied."""
        done = 0
        while done < len(rows):
            at = self._n % BLOCK_ROWS
            if at == 0:
                self._blocks.append(np.zeros((BLOCK_ROWS, rows.shape[1]), rows.dtype))
            some = rows[done : done + BLOCK_ROWS - at]
            self._blocks[-1][at : at + len(some)] = some
            self._n += len(some)
            done += len(some)

    def put(self, positions: np.ndarray, rows: np.ndarray) -> None:
        """Other rows at some positions."""
        for position, row in zip(positions.tolist(), rows, strict=True):
            self._blocks[position // BLOCK_ROWS][position % BLOCK_ROWS] = row

    def take(self, positions: np.ndarray) -> np.ndarray:
        """The rows at some positions, copied."""
        width, dtype = (self._blocks[0].shape[1], self._blocks[0].dtype) if self._blocks else (0, np.float32)
        rows = np.empty((len(positions), width), dtype)
        numbers, places = np.divmod(positions, BLOCK_ROWS)
        for number in set(numbers.tolist()):
            take_rows(self._blocks[number], places, np.flatnonzero(numbers == number), rows)
        return rows

    def compared(self, positions: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The products of rows with a direction, and with themselves."""
        products, squares = np.empty((2, len(positions)), np.float32)
        numbers, places = np.divmod(positions, BLOCK_ROWS)
        for number in set(numbers.tolist()):
            here = np.flatnonzero(numbers == number)
            compare_rows(self._blocks[number], places, here, direction, products, squares)
        return products, squares

    def keep(self, positions: np.ndarray) -> None:
        """Keep only these positions, which ascend, and renumber them; old blocks are freed one by one."""
        old, self._blocks, self._n = self._blocks, [], 0
        ends = np.searchsorted(positions, BLOCK_ROWS * np.arange(1, len(old)))
        for number, of_block in enumerate(np.split(positions, ends) if old else ()):
            self.append(old[number][of_block % BLOCK_ROWS])
            old[number] = old[number][:0]

    def blocks(self, n: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of the first n positions."""
        for number, block in enumerate(self._blocks[: -(-n // BLOCK_ROWS)]):
            first = number * BLOCK_ROWS
            yield first, block[: n - first]


#: How vectors may be kept in memory.
PRECISIONS = ("int8", "float16", "float32")

#: The share of rows that may not fit.
MOST_ODD = 0.05


class VectorCache:
    """Vectors of a store, kept in memory from when they are first compared: one, two or four bytes a value.

    In one byte, a value is kept by its distance from the mean, in steps of a 127th of twice the largest one in a sample
    of rows. A row that does not fit is kept as it is, and where many do not, all begins anew. The caller holds
    the lock under which positions change.
    """

    def __init__(self, precision: str) -> None:
        self._dtype = np.dtype(precision)
        self._blocks: dict[int, np.ndarray] = {}
        self._known: dict[int, np.ndarray] = {}  # which rows of a block are there
        self._odd: dict[int, np.ndarray] = {}
        self._centre = self._step = np.zeros(0, np.float32)
        self.n_changes = 0

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(rows.nbytes for rows in (*self._blocks.values(), *self._odd.values()))

    def take(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows, in single precision, and the places of those that are not known, whose rows are anything."""
        rows = np.zeros((len(positions), len(self._centre)), np.float32)
        if not self.has_begun:
            return rows, np.arange(len(positions))
        known = np.zeros(len(positions), np.bool_)
        numbers, places = np.divmod(positions, BLOCK_ROWS)
        for number in set(numbers.tolist()) & self._blocks.keys():
            here = np.flatnonzero(numbers == number)
            known[here] = self._known[number][places[here]]
            if self._dtype == np.int8:
                take_rounded(self._blocks[number], places, here, self._step, self._centre, rows)
            else:
                rows[here] = self._blocks[number][places[here]]
        if self._odd:
            for i, position in enumerate(positions.tolist()):
                if position in self._odd:
                    rows[i] = self._odd[position]
        return rows, np.flatnonzero(~known)

    def compared(self, positions: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The products of rows with a direction, and with themselves; None if some rows are not known."""
        if self._dtype == np.float16 or not self.has_begun:  # kernels know no half precision
            return None
        products, squares = np.empty((2, len(positions)), np.float32)
        numbers, places = np.divmod(positions, BLOCK_ROWS)
        for number in set(numbers.tolist()):
            here = np.flatnonzero(numbers == number)
            if number not in self._blocks or not self._known[number][places[here]].all():
                return None
            block = self._blocks[number]
            if self._dtype == np.int8:
                compare_rounded(block, places, here, self._step, self._centre, direction, products, squares)
            else:
                compare_rows(block, places, here, direction, products, squares)
        if self._odd:
            for i, position in enumerate(positions.tolist()):
                if position in self._odd:
                    row = self._odd[position]
                    products[i], squares[i] = row @ direction, row @ row
        return products, squares

    def put(self, positions: np.ndarray, rows: np.ndarray) -> None:
        """Rows at some positions, which may be known already."""
        rows = np.asarray(np.nan_to_num(rows), np.float32)  # those of dead positions are not numbers
        fits, rounded = self._rounded(rows)
        for i, position in enumerate(positions.tolist()):
            number, place = divmod(position, BLOCK_ROWS)
            if number not in self._blocks:
                self._blocks[number] = np.zeros((BLOCK_ROWS, rows.shape[1]), self._dtype)
                self._known[number] = np.zeros(BLOCK_ROWS, np.bool_)
            self._blocks[number][place], self._known[number][place] = rounded[i], True
            self._odd.pop(position, None)
            if not fits[i]:
                self._odd[position] = rows[i].copy()
        if len(self._odd) > MOST_ODD * sum(int(known.sum()) for known in self._known.values()) + BLOCK_ROWS // 16:
            self.forget()  # the sample was not like the others: begin anew with another
            self._centre = self._step = self._centre[:0]

    @property
    def has_begun(self) -> bool:
        """Whether it was told what rows are like."""
        return len(self._centre) > 0

    @property
    def rounding(self) -> float:
        """How far a row in one byte a value may be from what was put."""
        return float(np.linalg.norm(self._step.astype(np.float64)) / 2)

    def begin(self, sample: np.ndarray) -> None:
        """What rows are like; those of dead positions, which are not numbers, do not count."""
        rows = np.asarray(sample[np.isfinite(sample).all(axis=1)], np.float32)
        rows = rows if len(rows) else np.zeros((1, sample.shape[1]), np.float32)
        self._centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        farthest = np.abs(rows - self._centre).max(axis=0, initial=0)
        self._step = np.maximum(2 * farthest / 127, np.finfo(np.float32).tiny).astype(np.float32)

    def _rounded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which rows can be kept in this precision, and what is kept of them."""
        if self._dtype == np.int8:
            with np.errstate(over="ignore"):
                steps = np.rint((rows - self._centre) / self._step)
            return (np.abs(steps) <= 127).all(axis=1), np.clip(steps, -127, 127).astype(np.int8)
        with np.errstate(over="ignore"):
            kept = rows.astype(self._dtype)
        return np.isfinite(kept).all(axis=1), np.nan_to_num(kept)

    def update(self, positions: np.ndarray, rows: np.ndarray) -> None:
        """Other rows at some positions, as far as these are known."""
        self.n_changes += 1
        numbers, places = np.divmod(positions, BLOCK_ROWS)
        known = np.zeros(len(positions), np.bool_)
        for i, (number, place) in enumerate(zip(numbers.tolist(), places.tolist(), strict=True)):
            known[i] = number in self._known and self._known[number][place]
        if known.any():
            self.put(positions[known], rows[known])

    def forget(self, positions: np.ndarray | None = None) -> None:
        """Forget rows that have changed, or all if positions were renumbered."""
        self.n_changes += 1
        if positions is None:
            self._blocks.clear()
            self._known.clear()
            self._odd.clear()
            return
        for position in positions.tolist():
            if position // BLOCK_ROWS in self._known:
                self._known[position // BLOCK_ROWS][position % BLOCK_ROWS] = False
