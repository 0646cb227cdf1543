"""The order of values, for kernels.

Numba compiles its own sorts again in every kernel and process that sorts, for seconds; this one is compiled once and
kept.
"""

from __future__ import annotations

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
