"""The vectors of a live index that keeps them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

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
            here = np.flatnonzero(numbers == number)
            rows[here] = self._blocks[number][places[here]]
        return rows

    def keep(self, positions: np.ndarray) -> None:
        """Only these positions stay, which ascend, and are counted anew; a block of old rows goes when it is copied."""
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


#: How the directions of vectors may be kept in memory.
PRECISIONS = ("int8", "float16", "float32")


class Directions:
    """The directions of vectors that are in a store, in memory: what `find` compares, in one byte a value or more.

    A block of rows is read from the store when one of them is first asked for. The caller holds the lock under which
    positions change.
    """

    def __init__(self, vectors: Vectors, precision: str) -> None:
        self._vectors, self._dtype = vectors, np.dtype(precision)
        self._blocks: dict[int, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(block.nbytes for block in self._blocks.values())

    def take(self, positions: np.ndarray) -> np.ndarray:
        """Rows of these directions, in single precision and of any length."""
        numbers, places = np.divmod(positions, BLOCK_ROWS)
        rows: np.ndarray | None = None
        for number in set(numbers.tolist()):
            block, here = self._block(number), np.flatnonzero(numbers == number)
            if rows is None:
                rows = np.empty((len(positions), block.shape[1]), np.float32)
            rows[here] = block[places[here]]
        return np.empty((0, 0), np.float32) if rows is None else rows

    def _block(self, number: int) -> np.ndarray:
        first, block = number * BLOCK_ROWS, self._blocks.get(number)
        n = min(len(self._vectors) - first, BLOCK_ROWS)
        if block is None or len(block) < n:  # rows were added since
            known = 0 if block is None else len(block)
            more = self._rounded(self._vectors.take(np.arange(first + known, first + n)))
            block = self._blocks[number] = more if block is None else np.concatenate([block, more])
        return block

    def _rounded(self, rows: np.ndarray) -> np.ndarray:
        rows = np.nan_to_num(rows)  # dead positions
        largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(rows.dtype).tiny)
        if self._dtype == np.int8:
            return np.rint(rows / largest * 127).astype(np.int8)
        return (rows / largest).astype(self._dtype)

    def put(self, positions: np.ndarray, rows: np.ndarray) -> None:
        """Other rows at some positions."""
        for position, row in zip(positions.tolist(), self._rounded(rows), strict=True):
            block = self._blocks.get(position // BLOCK_ROWS)
            if block is not None and position % BLOCK_ROWS < len(block):
                block[position % BLOCK_ROWS] = row

    def forget(self, positions: np.ndarray | None = None) -> None:
        """Rows have changed, or all positions are counted anew."""
        if positions is None:
            self._blocks.clear()
        else:
            for number in set((positions // BLOCK_ROWS).tolist()):
                self._blocks.pop(number, None)
