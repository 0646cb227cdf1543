"""The loops of smooth pair hashing that NumPy would make in many passes.

Each works on one chunk as a whole, and a chunk holds the same pairs however the stream is cut. Products with matrices
are left to BLAS.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of

#: How `blend_of` weighs evidence: what it takes all of it times; the share of dissimilar pairs among those that similar
#: ones should precede; and a share that is as good as none.
TRUST, OF_DIFFER, SURELY = 0.4, 0.2, 0.01

#: How much a good beginning is preferred: for each unit of its evidence a similar pair above what is usual; and pairs
#: without evidence that are counted with those that were asked.
CAUTION, USUAL, UNKNOWN = 2.0, 1.5, 2.0

#: Pairs from which others are inferred together: time and memory grow with its square.
BLOCK = 32


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})  # a row is summed alike wherever it stands
def load_unit_rows(A: np.ndarray, B: np.ndarray, pattern: np.ndarray, X: np.ndarray, keys: np.ndarray) -> None:
    """Rows of A, then those of B, at unit length into X; a zero row stays. Keys: numbers by which the same row is known
    again."""
    for n in range(X.shape[0]):
        for i in range(X.shape[1]):
            X[n, i] = A[n, i] if n < A.shape[0] else B[n - A.shape[0], i]
        total = X.dtype.type(0)
        for i in range(X.shape[1]):
            total += X[n, i] * X[n, i]
        if total > 0:
            scale = X.dtype.type(1 / math.sqrt(total))
            for i in range(X.shape[1]):
                X[n, i] *= scale
        keys[n] = _key(X[n], pattern)


@njit(nogil=True, cache=True)
def pulls(
    F: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    rare: float,
    agree: float,
    differ: float,
    sharpness: float,
    pull: np.ndarray,
) -> float:
    """The gradient of the loss by the projections, but for a factor, into `pull`; returns the mean loss.

    Rows of F = tanh(projections) are first the points a of all pairs, then their points b.
    """
    n, r = similar.shape[0], F.shape[1]
    total = losses = 0.0
    for t in range(n):
        c = 0.0
        for k in range(r):
            c += F[t, k] * F[n + t, k]
        c /= r
        wrong = sharpness * (agree - c if similar[t] else c - differ)
        weight = weights[t] * (rare if similar[t] else 1.0)
        total += weight
        losses += weight * (max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong))))  # softplus
        slope = F.dtype.type((-weight if similar[t] else weight) / (1.0 + math.exp(-wrong)))
        for k in range(r):
            a, b = F[t, k], F[n + t, k]
            pull[t, k] = slope * b * (1 - a * a)
            pull[n + t, k] = slope * a * (1 - b * b)
    return losses / total


@njit(nogil=True, cache=True)
def add_pulls(
    F: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    rare: float,
    agree: float,
    differ: float,
    sharpness: float,
    pull: np.ndarray,
) -> None:
    """What `pulls` would find for pairs of these rows of F is added to `pull`."""
    r = F.shape[1]
    for t in range(left.shape[0]):
        i, j = left[t], right[t]
        c = 0.0
        for k in range(r):
            c += F[i, k] * F[j, k]
        c /= r
        wrong = sharpness * (agree - c if similar[t] else c - differ)
        slope = F.dtype.type(weights[t] * (-rare if similar[t] else 1.0) / (1.0 + math.exp(-wrong)))
        for k in range(r):
            a, b = F[i, k], F[j, k]
            pull[i, k] += slope * b * (1 - a * a)
            pull[j, k] += slope * a * (1 - b * b)


@njit(nogil=True, cache=True)
def spread_pulls(F: np.ndarray, slopes: np.ndarray, pull: np.ndarray) -> None:
    """`pull` as in `pulls`, where the slope of each pair is known, in the precision of F throughout."""
    n, one = slopes.shape[0], F.dtype.type(1)
    for t in range(n):
        for k in range(F.shape[1]):
            a, b = F[t, k], F[n + t, k]
            pull[t, k] = slopes[t] * b * (one - a * a)
            pull[n + t, k] = slopes[t] * a * (one - b * b)


@njit(nogil=True, cache=True)
def share_of_flips(F: np.ndarray, shown: np.ndarray, shares: np.ndarray) -> None:
    """The share of rows in which a column of F has another sign than that of `shown`."""
    shares[:] = 0
    for n in range(F.shape[0]):
        for k in range(F.shape[1]):
            shares[k] += (F[n, k] >= 0) != (shown[n, k] >= 0)
    shares /= F.shape[0]


@njit(nogil=True, cache=True)
def enter(G: np.ndarray, keep: float, M: np.ndarray) -> None:
    """G enters its running mean M."""
    new = M.dtype.type(1 - keep)
    for i in range(G.shape[0]):
        for k in range(G.shape[1]):
            M[i, k] += new * (G[i, k] - M[i, k])


@njit(nogil=True, cache=True)
def enter_gradient(G: np.ndarray, keep: float, M: np.ndarray, squares: np.ndarray) -> None:
    """G enters its running mean M; the squared length of each column of G."""
    old, new = M.dtype.type(keep), M.dtype.type(1 - keep)
    squares[:] = 0
    for i in range(G.shape[0]):
        for k in range(G.shape[1]):
            M[i, k] = old * M[i, k] + new * G[i, k]
            squares[k] += G[i, k] * G[i, k]


@njit(nogil=True, cache=True)
def lengths_of_columns(G: np.ndarray, squares: np.ndarray) -> None:
    """The squared length of each column of G."""
    squares[:] = 0
    for i in range(G.shape[0]):
        for k in range(G.shape[1]):
            squares[k] += G[i, k] * G[i, k]


@njit(nogil=True, cache=True)
def enter_and_move(
    G: np.ndarray, keep: float, M: np.ndarray, V: np.ndarray, sizes: np.ndarray, keep_of_V: float
) -> None:
    """G enters its running mean M, then V = keep_of_V (V - M sizes), each column by its own size."""
    new, factor = M.dtype.type(1 - keep), V.dtype.type(keep_of_V)
    for i in range(G.shape[0]):
        for k in range(G.shape[1]):
            M[i, k] += new * (G[i, k] - M[i, k])
            V[i, k] = factor * (V[i, k] - sizes[k] * M[i, k])


@njit(nogil=True, cache=True)
def step_sizes(
    squares: np.ndarray, less: np.ndarray, q: float, keep: float, mean: np.ndarray, of_mean: float, eta: float
) -> np.ndarray:
    """q η / |P g| for each column; |P g|² = q (squares - less) enters its running mean, which is to be divided by
    `of_mean`."""
    sizes, of_all, zero = np.empty_like(squares), squares.dtype.type(q), squares.dtype.type(0)
    for k in range(squares.shape[0]):
        mean[k] = keep * mean[k] + (1 - keep) * max(of_all * (squares[k] - less[k]), zero)
        sizes[k] = q * (eta / max(math.sqrt(mean[k] / of_mean), 1e-30))
    return sizes


@njit(nogil=True, cache=True)
def move(W: np.ndarray, M: np.ndarray, damped: np.ndarray, q: float, scale: np.ndarray, keep: float) -> None:
    """W = keep (W - scale (q (M - damped))), column by column of its own scale."""
    factor, of_all = W.dtype.type(keep), W.dtype.type(q)
    for i in range(W.shape[0]):
        for k in range(W.shape[1]):
            W[i, k] = factor * (W[i, k] - scale[k] * (of_all * (M[i, k] - damped[i, k])))


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _key(row: np.ndarray, pattern: np.ndarray) -> float:
    total = 0.0
    for i in range(row.shape[0]):
        total += row[i] * pattern[i]
    return total


@njit(nogil=True, cache=True)
def note_repeats(
    keys: np.ndarray, before: np.ndarray, times: np.ndarray, is_new: np.ndarray, same: np.ndarray
) -> float:
    """How many pairs of the chunk have a pair's point a, or its b if they are more; and is neither in those before?

    `keys` and `before` are `(2, n)`: points a, points b. A point is the same on either side of a pair. `same` is the
    first row of each point, where rows are first the points a, then the points b. Returns the largest of `times`.
    """
    times[:], is_new[:] = 1, True
    n, all_keys = keys.shape[1], keys.ravel()
    earlier, order = before.ravel(), order_of(all_keys)
    earlier_order, place = order_of(earlier), 0
    start = 0
    for stop in range(1, order.shape[0] + 1):  # order[start:stop] are of one key
        key = all_keys[order[start]]
        if stop < order.shape[0] and all_keys[order[stop]] == key:
            continue
        n_pairs = stop - start
        for i in order[start:stop]:
            n_pairs -= i < n and all_keys[n + i] == key  # both points of this pair: it was counted twice
            same[i] = order[start]
        while place < earlier.shape[0] and earlier[earlier_order[place]] < key:
            place += 1
        was_there = place < earlier.shape[0] and earlier[earlier_order[place]] == key
        for i in order[start:stop]:
            times[i % n] = max(times[i % n], n_pairs)
            is_new[i % n] &= not was_there
        start = stop
    most = 1.0
    for t in range(n):
        most = max(most, times[t])
    return most


@njit(nogil=True, cache=True)
def inferred(
    same: np.ndarray, similar: np.ndarray, weights: np.ndarray, p: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs that follow from those of a chunk: their rows, whether they are similar, and their weights.

    `same` is that of `note_repeats`. Points that similar pairs connect are similar; where one of them is dissimilar to
    another point, all of them are. A group of similar points in which two are called dissimilar says nothing. What is
    inferred weighs as the least pair of its points; but all of it no more than as many pairs as the chunk has, and of
    this, similar pairs are at least the share p. Chunks are taken in blocks of at most `BLOCK` pairs.
    """
    n = similar.shape[0]
    place = np.full(2 * n, -1)  # of a point in its block
    rows, here = np.empty(2 * BLOCK, np.int64), np.empty(2 * BLOCK, np.int64)
    room = 2 * BLOCK * n  # for any two points of each block
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    alike, of_pair = np.empty(room, np.bool_), np.empty(room)
    total = 0
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for i in range(2 * m):
            rows[i] = start + i if i < m else n + start + i - m
            point = same[rows[i]]
            if place[point] < 0:
                place[point] = i
            here[i] = place[point]
        for i in range(2 * m):
            place[same[rows[i]]] = -1
        pairs, rest = slice(start, start + m), slice(total, room)
        found = _infer(
            here[: 2 * m], similar[pairs], weights[pairs], p, left[rest], right[rest], alike[rest], of_pair[rest]
        )
        for t in range(total, total + found):
            left[t], right[t] = rows[left[t]], rows[right[t]]
        total += found
    return left[:total], right[:total], alike[:total], of_pair[:total]


@njit(nogil=True, cache=True)
def _infer(
    same: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    p: float,
    left: np.ndarray,
    right: np.ndarray,
    alike: np.ndarray,
    of_pair: np.ndarray,
) -> int:
    """`inferred`, of one block, at the beginning of the last four; returns how many pairs there are."""
    n = similar.shape[0]
    groups = same.copy()  # a row leads to itself or to an earlier one
    for t in range(n):
        if similar[t] and weights[t] > 0:
            a, b = _root(groups, t), _root(groups, n + t)
            groups[max(a, b)] = min(a, b)
    least = np.full(2 * n, np.inf)  # weight of the pairs of a point
    is_known = np.zeros((2 * n, 2 * n), np.bool_)  # of two points
    differ = np.zeros((2 * n, 2 * n), np.bool_)  # two groups
    for i in range(2 * n):
        groups[i] = groups[groups[i]]
    for t in range(n):
        if weights[t] > 0:
            a, b = same[t], same[n + t]
            least[a], least[b] = min(least[a], weights[t]), min(least[b], weights[t])
            is_known[a, b] = is_known[b, a] = True
            if not similar[t]:
                differ[groups[a], groups[b]] = differ[groups[b], groups[a]] = True
    total = 0
    for i in range(2 * n):
        g = groups[i]
        if same[i] != i or differ[g, g]:
            continue
        for j in range(i):
            h = groups[j]
            if same[j] == j and (g == h or (differ[g, h] and not differ[h, h])) and not is_known[i, j]:
                left[total], right[total], alike[total] = i, j, g == h
                total += 1
    share = min(1.0, n / max(total, 1))
    of_similar = of_dissimilar = 0.0  # weight of those pairs
    for t in range(total):
        of_pair[t] = share * min(least[left[t]], least[right[t]])
        if alike[t]:
            of_similar += of_pair[t]
        else:
            of_dissimilar += of_pair[t]
    most = of_similar * (1 - p) / p  # weight of dissimilar pairs
    if of_dissimilar > most:
        for t in range(total):
            if not alike[t]:
                of_pair[t] *= most / of_dissimilar
    return total


@njit(nogil=True, cache=True)
def _root(groups: np.ndarray, i: int) -> int:
    while groups[i] != i:
        i = groups[i]
    return i


@njit(nogil=True, cache=True)
def count_distances(
    first: np.ndarray,
    learned: np.ndarray,
    shares: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    histograms: np.ndarray,
) -> None:
    """Hamming distances enter `histograms[share, kind]`, for codes that go each share of the way from the first to the
    learned projections (rows as in `pulls`).

    Kinds: 0 dissimilar pairs, 1 similar pairs, 2 points a with points b about half a chunk later, which nobody paired:
    each a with up to 16 of them, and together they count as one.
    """
    n, r = similar.shape[0], first.shape[1]
    n_others = min(n // 2, 16)
    start = n // 2 - n_others // 2
    bits = np.empty((2 * n, r), np.uint8)
    for i in range(shares.shape[0]):
        for t in range(2 * n):
            for k in range(r):
                bits[t, k] = first[t, k] + shares[i] * (learned[t, k] - first[t, k]) >= 0
        for t in range(n):
            histograms[i, 1 if similar[t] else 0, _difference(bits[t], bits[n + t])] += weights[t]
            for u in range(start + t, start + t + n_others):
                histograms[i, 2, _difference(bits[t], bits[n + u % n])] += 1 / n_others


@njit(nogil=True, cache=True)
def _difference(a: np.ndarray, b: np.ndarray) -> int:
    distance = 0
    for k in range(a.shape[0]):
        distance += a[k] ^ b[k]
    return distance


@njit(nogil=True, cache=True)
def blend_of(shares: np.ndarray, histograms: np.ndarray, caution: float) -> float:
    """The mean of the shares, weighted by how far up each puts similar pairs; the plain mean where that is unknown.

    Where the first share, the beginning, does that well already, little can be won and much lost: with caution, from 0
    to 1, it is preferred beforehand, and only the best share and its neighbours are averaged, as between the far ends
    both are lost.
    """
    n_shares, size = histograms.shape[0], histograms.shape[2]
    n_differ, n_agree, n_others = histograms[0, 0].sum(), histograms[0, 1].sum(), histograms[0, 2].sum()
    of_differ = OF_DIFFER if n_others > 0 else 1.0
    if n_differ == 0:
        of_differ = 0.0
    evidence = np.zeros(n_shares)
    if n_agree > 0 and n_differ + n_others > 0:
        for i in range(n_shares):
            agree = differ = others = 0.0  # pairs that are nearer
            for distance in range(size):
                of_agree, of_others = histograms[i, 1, distance], histograms[i, 2, distance]
                agree += of_agree / 2
                differ += histograms[i, 0, distance] / 2
                others += of_others / 2
                false = of_differ * differ / max(n_differ, 1e-300) + (1 - of_differ) * others / max(n_others, 1e-300)
                evidence[i] += of_agree * math.log((agree / n_agree + SURELY) / (false + SURELY))
                agree += of_agree / 2
                differ += histograms[i, 0, distance] / 2
                others += of_others / 2
    prior = caution * CAUTION * max(evidence[0] / (n_agree + UNKNOWN) - USUAL, 0.0)
    evidence *= TRUST
    evidence[0] += prior
    evidence[1] += prior / 2
    best = evidence.argmax()
    total = blend = 0.0
    for i in range(n_shares):
        if prior == 0 or abs(i - best) <= 1:
            weight = math.exp(evidence[i] - evidence[best])
            total += weight
            blend += weight * shares[i]
    return blend / total
