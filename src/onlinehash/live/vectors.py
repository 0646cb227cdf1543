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
        for i, position in enumerate(positions.tolist()):
            rows[i] = self._blocks[position // BLOCK_ROWS][position % BLOCK_ROWS]
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
