"""Which number each position has, and which of the numbers are dead."""

from __future__ import annotations

import numpy as np

from onlinehash.numeric.views import read_only


class RowNumbers:
    """Numbers at positions, ascending.

    A number is given to a row once and never again; a position is its place among the numbers, and is counted anew by
    `keep`. Views that were handed out never change, so that other threads may go on with theirs.
    """

    def __init__(self, numbers: np.ndarray) -> None:
        self._room = np.array(numbers, np.int64)
        self._n = len(numbers)
        self._dead: set[int] = set()
        self._buried: list[int] = []

    @property
    def numbers(self) -> np.ndarray:
        """The number of each position, read-only."""
        return read_only(self._room[: self._n])

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """The positions of numbers that have one."""
        return np.searchsorted(self.numbers, numbers)

    def append(self, numbers: np.ndarray) -> None:
        """New positions at the end, with numbers greater than all before."""
        n = self._n + len(numbers)
        if n > len(self._room):  # room grows by half, so that adding a few stays cheap
            room = np.empty(max(n, self._n * 3 // 2), np.int64)
            room[: self._n] = self._room[: self._n]
            self._room = room
        self._room[self._n : n] = numbers
        self._n = n

    def keep(self, positions: np.ndarray) -> None:
        """Only these positions, which ascend, stay."""
        self._room = self.numbers[positions]
        self._n = len(self._room)
        self._dead = self._dead.intersection(self._room.tolist())

    def bury(self, numbers: np.ndarray) -> None:
        """These numbers are dead from now on."""
        new = [number for number in numbers.tolist() if number not in self._dead]
        self._dead.update(new)
        self._buried += new

    def any_dead(self, numbers: np.ndarray) -> bool:
        """Whether any of these numbers is dead."""
        return not self._dead.isdisjoint(numbers.tolist())

    def alive(self, numbers: np.ndarray) -> np.ndarray:
        """Whether each of these numbers is at a position, and not dead."""
        if self._n == 0:
            return np.zeros(len(numbers), np.bool_)
        known: np.ndarray = self.numbers[np.minimum(self.positions(numbers), self._n - 1)] == numbers
        return known & np.array([number not in self._dead for number in numbers.tolist()], np.bool_)

    def mark(self) -> tuple[np.ndarray, int, set[int]]:
        """What `restore` needs to go back to this moment."""
        self._buried = []
        return self._room, self._n, self._dead

    def restore(self, mark: tuple[np.ndarray, int, set[int]]) -> None:
        """As it was at the last mark; only what was made dead since is changed in place."""
        self._room, self._n, self._dead = mark
        self._dead.difference_update(self._buried)
