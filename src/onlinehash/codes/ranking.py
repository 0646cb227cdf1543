"""How well distances rank what is relevant, when many distances are equal.

Hamming distances are small integers, so a ranking by them is full of ties, and a value that depends on how a sort
happened to break them is not a number about the codes. Here it is the expectation over all orders within ties,
computed from *buckets*: for each tie, nearest first, how many items it has and how many of them are relevant (`items`
and `hits`, a row for each query). For a bucket with n items of which r are relevant, after N items of which R were,
the expected precisions at the relevant places among its first m sum up to

    r/n Σ_{i=1..m} [R + 1 + (i-1)s] / (N+i)  =  r/n { [R + 1 - s(N+1)] (H(N+m) - H(N)) + s m },   s = (r-1)/(n-1)

with the harmonic numbers H, so a bucket costs the same whatever its size. Other rules for ties are other buckets: a
bucket in two, the relevant items and the rest, or each item in one of its own.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash.numeric.kernels import njit

#: From here on the series of `_harmonic_difference` is exact to the last digits.
_LARGE = 64

#: Probabilities below this add nothing to a sum that is told in float64.
_NEGLIGIBLE = 1e-25


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
        out[q] = _precision_sum(items, hits, n_base) / total if total > 0 else np.nan
    return out


@njit(nogil=True, cache=True)
def precision_sums(items: np.ndarray, hits: np.ndarray, k: int) -> np.ndarray:
    """Per query, the expected sum of the precisions at the relevant places among the first k."""
    out = np.empty(len(items))
    for q in range(len(items)):
        out[q] = _precision_sum(items[q], hits[q], k)
    return out


@njit(nogil=True, cache=True)
def found_among(items: np.ndarray, hits: np.ndarray, k: int) -> np.ndarray:
    """Per query, the expected number of relevant items among the first k."""
    out = np.zeros(len(items))
    for q in range(len(items)):
        before = 0
        for c in range(items.shape[1]):
            if before + items[q, c] >= k:
                out[q] += hits[q, c] * ((k - before) / items[q, c]) if k > before else 0.0
                break
            before += items[q, c]
            out[q] += hits[q, c]
    return out


@njit(nogil=True, cache=True)
def precision_per_found(items: np.ndarray, hits: np.ndarray, k: int) -> np.ndarray:
    """Per query, the expected mean of the precisions at the relevant places among the first k; 0 where none is there.

    How many are found depends on the order of the one bucket that is cut, where it is hypergeometric.
    """
    out = np.zeros(len(items))
    for q in range(len(items)):
        before, found, total, c = 0, 0, 0.0, 0
        while c < items.shape[1] and before + items[q, c] <= k:
            total += _precision_in_bucket(items[q, c], hits[q, c], items[q, c], before, found)
            before += items[q, c]
            found += hits[q, c]
            c += 1
        if c == items.shape[1] or before == k or hits[q, c] == 0:
            out[q] = total / found if found > 0 else 0.0
        else:
            out[q] = _mean_over_cut(items[q, c], hits[q, c], k - before, before, found, total)
    return out


@njit(nogil=True, cache=True)
def _precision_sum(items: np.ndarray, hits: np.ndarray, k: int) -> float:
    before, found, total = 0, 0, 0.0
    for c in range(len(items)):
        if before >= k:
            break
        if hits[c] > 0:
            total += _precision_in_bucket(items[c], hits[c], min(items[c], k - before), before, found)
        before += items[c]
        found += hits[c]
    return total


@njit(nogil=True, cache=True)
def _precision_in_bucket(n: int, r: int, m: int, before: int, found: int) -> float:
    """What the first m places of a bucket add, as the head of this file says."""
    if r == 0:
        return 0.0
    if n == 1:
        return (found + 1) / (before + 1)
    slope = (r - 1) / (n - 1)
    return r / n * ((found + 1 - slope * (before + 1)) * _harmonic_difference(before, m) + slope * m)


@njit(nogil=True, cache=True)
def _mean_over_cut(n: int, r: int, m: int, before: int, found: int, total: float) -> float:
    """Sum over f, the relevant items in the first m of n places: its probability times (total + theirs) / (found + f).

    From the likeliest f downwards and upwards by the ratio of neighbouring probabilities, until they vanish.
    """
    lowest, highest = max(0, m - (n - r)), min(m, r)
    mode = min(max((m + 1) * (r + 1) // (n + 2), lowest), highest)
    weights, value = 0.0, 0.0
    for direction in (-1, 1):
        f, weight = mode, 1.0
        while lowest <= f <= highest and weight > _NEGLIGIBLE:
            if direction == 1 or f < mode:  # the mode counts once
                weights += weight
                if found + f > 0:
                    value += weight * (total + _precision_in_bucket(m, f, m, before, found)) / (found + f)
            if direction == 1:
                weight *= (r - f) * (m - f) / ((f + 1) * (n - r - m + f + 1))
            else:
                weight *= f * (n - r - m + f) / ((r - f + 1) * (m - f + 1))
            f += direction
    return value / weights


@njit(nogil=True, cache=True)
def _harmonic_difference(n: int, m: int) -> float:
    """H(n + m) - H(n) = 1/(n+1) + ... + 1/(n+m), each digit kept: a difference of two sums would lose them."""
    total = 0.0
    while m > 0 and n < _LARGE:
        n += 1
        m -= 1
        total += 1 / n
    if m == 0:
        return total
    low, high = 1.0 / (n + 1), 1.0 / (n + m + 1)  # by the asymptotic series of the digamma function
    low2, high2 = low * low, high * high
    total += math.log1p(m * low) + (low - high) / 2 + (low2 - high2) / 12
    return total - (low2 * low2 - high2 * high2) / 120 + (low2 * low2 * low2 - high2 * high2 * high2) / 252
