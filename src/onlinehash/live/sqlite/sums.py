"""One sum for each row of vectors, at the speed of reading them.

The row's 32-bit words are multiplied by fixed odd constants of 32 bits and added up modulo 2^64, so that no single word
can change, and no two change places, without changing the sum. The row's number starts it: a row in another's place is
noticed too.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only


def row_sums(rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The sums of contiguous rows of float32 or float64 that have these numbers, as uint64."""
    words = rows.view(np.uint32)
    sums = _mixed(numbers.astype(np.uint64))
    _add_words(read_only(words), read_only(_constants(words.shape[1])), sums)
    return sums


@lru_cache(maxsize=8)
def _constants(n: int) -> np.ndarray:
    """The first n constants, always the same."""
    return (_mixed(np.arange(n, dtype=np.uint64)) >> np.uint64(32)) | np.uint64(1)


def _mixed(values: np.ndarray) -> np.ndarray:
    """Splitmix64 of each value: numbers that look random, and differ where the values do."""
    mixed: np.ndarray = (values + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit(nogil=True, cache=True)
def _add_words(words: np.ndarray, constants: np.ndarray, sums: np.ndarray) -> None:
    for i in range(words.shape[0]):
        row = words[i]
        total = np.uint64(0)
        for j in range(len(row)):
            total += np.uint64(row[j]) * constants[j]
        sums[i] += total
