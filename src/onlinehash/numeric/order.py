"""The order of values, and whether any are equal, for kernels.

Numba compiles its own sorts again in every kernel and process that sorts, for seconds; this one is compiled once and
kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash.numeric.kernels import njit


@njit(nogil=True, cache=True)
def order_of(values: np.ndarray) -> np.ndarray:
    """The places of the values in ascending order; equal ones stay in theirs. None of them is NaN."""
    n = values.shape[0]
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:  # runs of this width are in order; merge them two by two
        for start in range(0, n, 2 * width):
            left, right = start, min(start + width, n)
            middle, stop = right, min(start + 2 * width, n)
            for at in range(start, stop):
                if right == stop or (left < middle and values[order[left]] <= values[order[right]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@njit(nogil=True, cache=True)
def has_equal(keys: np.ndarray, others: np.ndarray) -> bool:
    """Whether a key is there twice, or is one of the others; all are whole numbers. Quicker than to sort them."""
    size = 4
    while size < 4 * keys.shape[0]:
        size *= 2
    places = np.full(size, -1)
    for i in range(keys.shape[0]):
        place = _place(keys, places, keys[i])
        if places[place] >= 0:
            return True
        places[place] = i
    is_there = False
    for key in others:
        is_there |= places[_place(keys, places, key)] >= 0
    return is_there


@njit(nogil=True, cache=True)
def _place(keys: np.ndarray, places: np.ndarray, key: int) -> Any:
    """Where the table has this key, or room for it."""
    place = hashed(key, places.shape[0])
    while places[place] >= 0 and keys[places[place]] != key:
        place = (place + 1) % places.shape[0]
    return place


@njit(nogil=True, cache=True)
def hashed(key: int, size: int) -> Any:
    """A number below the size, for a whole number."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / φ: keys that follow one another end up far apart
    return np.int64((mixed >> np.uint64(32)) % np.uint64(size))
