"""Growing the boosted trees of `fast_supervised`: compiled loops over rows whose features are small numbers.

Features are cut into `N_BINS` bins once, for all trees of all bits; a node then needs only the sums of weights in each
bin of each feature, and the larger of two children has what is left of its parent's. Every sum runs over rows in their
order, on one thread.
"""

from __future__ import annotations

import numpy as np

from onlinehash.numeric.exponential import exp_of_nonpositive
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of

#: Values that a feature is told apart in.
N_BINS = 32

#: Rows that the bins of a feature are chosen by.
BINNED_BY = 4096

#: The share of the weight, that of the rows already right, which a tree does not look at.
TRIMMED = 0.1

#: The least share of a node's weight on either side of a split.
LEAST_SHARE = 1e-6


def bin_edges(X: np.ndarray) -> np.ndarray:
    """Thresholds between the bins of each feature, `(n_features, N_BINS - 1)`: quantiles of some rows."""
    some = np.sort(X[:: -(-len(X) // BINNED_BY)], axis=0)
    places = np.arange(1, N_BINS) * len(some) // N_BINS
    return np.ascontiguousarray(some[places].T)


@njit(nogil=True, cache=True)
def bins_of(X: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many edges of its feature are below each value."""
    bins = np.empty(X.shape, np.uint8)
    for n in range(X.shape[0]):
        for i in range(X.shape[1]):
            low, high = 0, edges.shape[1]
            while low < high:
                middle = (low + high) // 2
                if edges[i, middle] < X[n, i]:
                    low = middle + 1
                else:
                    high = middle
            bins[n, i] = low
    return bins


@njit(nogil=True, cache=True)
def boost(
    bins: np.ndarray,
    z: np.ndarray,
    offered: np.ndarray,
    depth: int,
    feature: np.ndarray,
    cut: np.ndarray,
    value: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Gentle AdaBoost of trees towards z (+1 / -1); tree t may ask for the features `offered[t]`.

    A tree is the weighted least-squares fit to z; the weight of a row is exp(-z F(x)), with F the trees before.
    """
    n, n_leaves = len(z), 2**depth
    rows, room = np.empty(n, np.int32), np.empty(n, np.int32)
    sums = np.empty((n_leaves - 1, offered.shape[1], N_BINS, 2))
    weights, margins = np.empty(n), np.empty(n)
    scores[:] = 0.0
    for t in range(offered.shape[0]):
        least = np.inf
        for i in range(n):
            margins[i] = z[i] * scores[i]
            least = min(least, margins[i])
        for i in range(n):
            weights[i] = exp_of_nonpositive(least - margins[i])
        n_kept = _trim(weights, rows)
        _grow(bins, rows[:n_kept], room, offered[t], weights, z, sums, feature[t], cut[t], value[t])
        for i in range(n):
            node = 0
            for _ in range(depth):
                node = 2 * node + 1 + (bins[i, feature[t, node]] > cut[t, node])
            scores[i] += value[t, node - (n_leaves - 1)]


@njit(nogil=True, cache=True)
def _trim(weights: np.ndarray, rows: np.ndarray) -> int:
    """Write down the rows of all but the least weights; how many they are."""
    ascending = order_of(weights)
    total = 0.0
    for i in ascending:
        total += weights[i]
    least, passed = 0.0, 0.0
    for i in ascending:
        least = weights[i]
        passed += least
        if passed > TRIMMED * total:
            break
    n_kept = 0
    for i in range(len(weights)):
        if weights[i] >= least:
            rows[n_kept] = i
            n_kept += 1
    return n_kept


@njit(nogil=True, cache=True)
def _grow(
    bins: np.ndarray,
    rows: np.ndarray,
    room: np.ndarray,
    offered: np.ndarray,
    weights: np.ndarray,
    z: np.ndarray,
    sums: np.ndarray,
    feature: np.ndarray,
    cut: np.ndarray,
    value: np.ndarray,
) -> None:
    """One tree; the rows of a node lie together in `rows`, in order, and its sums in `sums`."""
    n_nodes = len(cut)
    starts, stops = np.zeros(2 * n_nodes + 1, np.int64), np.zeros(2 * n_nodes + 1, np.int64)
    stops[0] = len(rows)
    _sum_bins(bins, rows, offered, weights, z, sums[0])
    for node in range(n_nodes):
        k, cut[node] = _best_split(sums[node])
        feature[node] = offered[k]
        start, stop = starts[node], stops[node]
        middle = _part(bins, rows[start:stop], room, feature[node], cut[node]) + start
        left, right = 2 * node + 1, 2 * node + 2
        starts[left], stops[left], starts[right], stops[right] = start, middle, middle, stop
        if left < n_nodes:
            small, large = (left, right) if middle - start <= stop - middle else (right, left)
            _sum_bins(bins, rows[starts[small] : stops[small]], offered, weights, z, sums[small])
            _subtract(sums, large, node, small)
    for leaf in range(n_nodes + 1):
        total, towards = 0.0, 0.0
        for p in range(starts[n_nodes + leaf], stops[n_nodes + leaf]):
            total += weights[rows[p]]
            towards += weights[rows[p]] * z[rows[p]]
        value[leaf] = towards / total if total > 0 else 0.0


@njit(nogil=True, cache=True)
def _subtract(sums: np.ndarray, target: int, whole: int, part: int) -> None:
    """sums[target] = sums[whole] - sums[part]"""
    for k in range(sums.shape[1]):
        for b in range(sums.shape[2]):
            for i in range(sums.shape[3]):
                sums[target, k, b, i] = sums[whole, k, b, i] - sums[part, k, b, i]


@njit(nogil=True, cache=True)
def _sum_bins(
    bins: np.ndarray, rows: np.ndarray, offered: np.ndarray, weights: np.ndarray, z: np.ndarray, sums: np.ndarray
) -> None:
    """Weights, and weights times z, of the rows in each bin of each feature."""
    sums[:] = 0.0
    for i in rows:
        w, wz = weights[i], weights[i] * z[i]
        for k in range(len(offered)):
            b = bins[i, offered[k]]
            sums[k, b, 0] += w
            sums[k, b, 1] += wz


@njit(nogil=True, cache=True)
def _best_split(sums: np.ndarray) -> tuple[int, int]:
    """The feature and the last bin of the left side that leave the least error; all to the left where none splits."""
    total, towards = 0.0, 0.0
    for b in range(N_BINS):
        total += sums[0, b, 0]
        towards += sums[0, b, 1]
    best, best_k, best_b = -1.0, 0, N_BINS - 1
    for k in range(sums.shape[0]):
        w, wz = 0.0, 0.0
        for b in range(N_BINS - 1):
            w += sums[k, b, 0]
            wz += sums[k, b, 1]
            if min(w, total - w) > LEAST_SHARE * total:
                gain = wz * wz / w + (towards - wz) ** 2 / (total - w)
                if gain > best:
                    best, best_k, best_b = gain, k, b
    return best_k, best_b


@njit(nogil=True, cache=True)
def _part(bins: np.ndarray, rows: np.ndarray, room: np.ndarray, feature: int, cut: int) -> int:
    """Rows of the left side first, each side in order; where the right side begins."""
    n_left, n_right = 0, 0
    for i in rows:
        if bins[i, feature] <= cut:
            rows[n_left] = i
            n_left += 1
        else:
            room[n_right] = i
            n_right += 1
    for i in range(n_right):
        rows[n_left + i] = room[i]
    return n_left
