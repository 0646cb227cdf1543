"""Which bits of a substring may differ: the patterns by which buckets around a query's are found."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only

#: Patterns of the greatest number of bits are at most so many.
MOST_MASKS = 1 << 16


class Masks(NamedTuple):
    """All patterns of differing bits in a substring: those of s bits are `patterns[ends[s]:ends[s + 1]]`, ascending.

    Ascending patterns of a shorter substring are the first of a longer one's, so all tables can share them.
    """

    patterns: np.ndarray
    ends: np.ndarray


def masks_for(width: int) -> Masks:
    """Masks for substrings of at most `width` bits."""
    patterns = [_patterns(width, s) for s in range(width + 1) if math.comb(width, min(s, width // 2)) <= MOST_MASKS]
    return Masks(read_only(np.concatenate(patterns)), read_only(np.cumsum([0, *map(len, patterns)])))


@njit(cache=True)
def _patterns(width: int, s: int) -> np.ndarray:
    """All numbers below 2^width with s set bits, ascending."""
    n = 1
    for i in range(s):
        n = n * (width - i) // (i + 1)
    out = np.empty(n, np.uint32)
    value = np.int64((1 << s) - 1)
    for i in range(n):
        out[i] = value
        if value:
            low = value & -value  # the next number with as many set bits: the lowest run of ones moves up by one
            up = value + low
            value = up | ((value ^ up) // low >> 2)
    return out
