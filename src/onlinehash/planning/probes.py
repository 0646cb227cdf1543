"""The cost of a query by multi-index hashing: look-ups and candidates, from the distance of the k-th nearest.

A search takes one step more than that distance. A step looks up all buckets of one table at one
distance s from the query's substring, C(w, s) of them; the next step is the cheapest that is left (index/probing.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from onlinehash.planning import distances
from onlinehash.planning.distances import Data


class Probes(NamedTuple):
    """Of one query, in the mean: buckets looked up, and items in them, which are compared."""

    look_ups: float
    candidates: float


def probes(n: float, k: int, bits: int, widths: Sequence[int], data: Data) -> Probes:
    """Of a query for the k nearest of n codes, in tables on substrings of these widths."""
    total = [0.0, 0.0]
    for flip in distances.flips(data):
        found = _steps(distances.distance(n, k, bits, flip) + 1, n, widths, data.evenness)
        total[0] += found.look_ups / distances.VALUES
        total[1] += found.candidates / distances.VALUES
    return Probes(*total)


def _steps(number: float, n: float, widths: Sequence[int], evenness: float) -> Probes:
    """Of so many steps, of which the last may be done in part."""
    # Beyond half of its bits a table has fewer buckets at a distance again, but a scan is cheaper long before that.
    steps = sorted((math.comb(width, s), width) for width in widths for s in range(width // 2 + 1))
    look_ups = candidates = 0.0
    for i, (buckets, width) in enumerate(steps):
        share = min(max(number - i, 0.0), 1.0)
        if share == 0.0:
            break
        look_ups += share * buckets
        candidates += share * buckets * n / 2 ** (evenness * width)
    return Probes(look_ups, min(candidates, n * len(widths)))
