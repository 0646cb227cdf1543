"""How well distances rank what is relevant: average precision when many distances are equal.

Hamming distances are small integers, so a ranking by them is full of ties, and an average precision that depends on
how a sort happened to break them is not a number about the codes. Here it is the expectation over all orders within
equal distances, computed from two histograms per query (no sort). For the buckets of equal distance in increasing
order, with n items of which r are relevant, after N items of which R were relevant:

    AP = 1/R_total  Σ_buckets  r/n  Σ_{i=1..n}  [ R + (i-1)(r-1)/(n-1) + 1 ] / (N + i)
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def expected_average_precision(distances: np.ndarray, relevant: np.ndarray, skip: np.ndarray) -> np.ndarray:
    """One value per query (row), NaN where nothing is relevant; column `skip[q]` is left out (-1: none)."""
    n_queries, n_base = distances.shape
    farthest = distances.max() if distances.size else 0
    out = np.empty(n_queries)
    items = np.empty(farthest + 1, np.int64)
    hits = np.empty(farthest + 1, np.int64)
    for q in range(n_queries):
        items[:] = 0
        hits[:] = 0
        for j in range(n_base):
            if j != skip[q]:
                items[distances[q, j]] += 1
                hits[distances[q, j]] += relevant[q, j]
        total = hits.sum()
        if total == 0:
            out[q] = np.nan
            continue
        before, found, precision = 0, 0, 0.0
        for c in range(farthest + 1):
            n, r = items[c], hits[c]
            if r > 0:
                slope = (r - 1) / (n - 1) if n > 1 else 0.0
                partial = 0.0
                for i in range(1, n + 1):
                    partial += (found + (i - 1) * slope + 1) / (before + i)
                precision += partial * r / n
            before += n
            found += r
        out[q] = precision / total
    return out
