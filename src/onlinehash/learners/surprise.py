"""Detects a change in the stream: a loss clearly above what it used to be."""

from __future__ import annotations

import math

from onlinehash.io.format import listed, real, whole
from onlinehash.types import State

#: Rates of the fast and of the slow running mean; chunks before a judgement; how many standard deviations are clear.
FAST, SLOW, EARLIEST, CLEAR = 0.1, 0.01, 50, 5.0
#: A mean loss that no chunk comes near; its square is still a number.
LARGEST = 1e100


class Surprise:
    """Compares a fast running mean of the loss with a slow one, and counts the pairs since the last surprise."""

    def __init__(self) -> None:
        self.n_since = 0
        self._n_chunks = 0
        self._fast = self._slow = self._variance = 0.0

    def enter(self, loss: float, n_pairs: int) -> None:
        """The mean loss of a chunk of pairs."""
        self._n_chunks += 1
        if self._n_chunks == 1:
            self._fast = self._slow = loss
            self._variance = 0.0
        else:
            slow, fast = max(SLOW, 1 / self._n_chunks), max(FAST, 1 / self._n_chunks)
            self._variance += slow * ((loss - self._slow) ** 2 - self._variance)
            self._slow += slow * (loss - self._slow)
            self._fast += fast * (loss - self._fast)
        self.n_since += n_pairs
        # The variance of a running mean of rate a is a / (2 - a) of one loss's, about a / 2.
        clear = CLEAR * math.sqrt(self._variance * FAST / 2)
        if self._n_chunks > EARLIEST and self._fast - self._slow > clear:
            self.n_since = self._n_chunks = 0

    def get_state(self) -> State:
        return {"counts": [self.n_since, self._n_chunks], "means": [self._fast, self._slow, self._variance]}

    def set_state(self, state: State) -> None:
        self.n_since, self._n_chunks = (whole(count, "a count") for count in listed(state["counts"], "counts", 2))
        fast, slow, variance = listed(state["means"], "means", 3)
        self._fast = real(fast, "the fast mean", -LARGEST, LARGEST)
        self._slow = real(slow, "the slow mean", -LARGEST, LARGEST)
        self._variance = real(variance, "the variance", 0, LARGEST**2)
