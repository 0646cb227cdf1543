"""The loops of smooth pair hashing that NumPy would make in many passes.

Each works on one chunk as a whole, and a chunk holds the same pairs however the stream is cut. Products are those of
`numeric.dots`, which for matrices as small as these are twice as fast as BLAS.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinehash.codes.words import popcount
from onlinehash.numeric.dots import MIXED, mixed_rows, row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import has_equal, order_of

#: How `blend_of` weighs evidence: what it takes all of it times; the share of dissimilar pairs among those that similar
#: ones should precede; and a share that is as good as none.
TRUST, OF_DIFFER, SURELY = 0.4, 0.2, 0.01

#: How much a good beginning is preferred: for each unit of its evidence a similar pair above what is usual; and pairs
#: without evidence that are counted with those that were asked.
CAUTION, USUAL, UNKNOWN = 2.0, 1.5, 2.0

#: What no point has as its key.
NO_KEY = 1e300

#: Pairs from which others are inferred together: time and memory grow with its square.
BLOCK = 32


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})  # a row is summed alike wherever it stands
def load_unit_rows(A: np.ndarray, B: np.ndarray, pattern: np.ndarray, X: np.ndarray, keys: np.ndarray) -> None:
    """Rows of A, then those of B, at unit length into X, whose rows may be longer; a zero row stays. Keys: numbers by
    which the same row is known again."""
    n_first = A.shape[0]
    for n in range(X.shape[0]):
        row, x = A[n] if n < n_first else B[n - n_first], X[n, : A.shape[1]]
        total = X.dtype.type(0)
        for i in range(x.shape[0]):
            total += row[i] * row[i]
        length = X.dtype.type(math.sqrt(total) if total > 0 else 1)
        for i in range(x.shape[0]):
            x[i] = row[i] / length  # not times 1 / length: files keep keys, and these depend on the last digit
        keys[n] = _key(x, pattern)


@njit(nogil=True, cache=True)
def complete(X: np.ndarray, Q: np.ndarray, start: int) -> None:
    """The products of rows of X with all rows of Q, which are shorter, into X from column `start` on."""
    P = np.empty((X.shape[0], Q.shape[0]), X.dtype)
    row_dots(Q, X, 0, X.shape[0], P)
    for n in range(X.shape[0]):
        for i in range(Q.shape[0]):
            X[n, start + i] = P[n, i]


@njit(nogil=True, cache=True)
def joined(W: np.ndarray, Q: np.ndarray, start: int) -> np.ndarray:
    """w + Q r for each row of W, which is w, as long as a row of Q, and from column `start` on r; Q has a row for each
    value of r."""
    R, mix = np.ascontiguousarray(W[:, start : start + Q.shape[0]].T), np.empty((MIXED, Q.shape[1]), W.dtype)
    out = W[:, : Q.shape[1]].copy()
    k = 0
    while k < W.shape[0]:
        n = mixed_rows(R, k, Q, mix)
        for i in range(n):  # a whole array in one statement takes seconds to compile
            for j in range(out.shape[1]):
                out[k + i, j] += mix[i, j]
        k += n
    return out


@njit(nogil=True, cache=True)
def projections(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    """X Wᵀ; rows of X may be longer."""
    P = np.empty((X.shape[0], W.shape[0]), X.dtype)
    row_dots(W, X, 0, X.shape[0], P)
    return P


@njit(nogil=True, cache=True)
def completed_projections(W: np.ndarray, Q: np.ndarray, start: int, X: np.ndarray) -> np.ndarray:
    """`complete` rows, then their projections."""
    complete(X, Q, start)
    return projections(W, X)


@njit(nogil=True, cache=True)
def weigh(
    weights: np.ndarray, similar: np.ndarray, rate: float, window: float, mean: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Weights in units of their running mean, which they enter at this rate, as similar pairs enter their share.

    `share` is the share of similar pairs and the weight that it is the mean of, at most the window.
    """
    total = 0.0
    for t in range(weights.shape[0]):
        total += weights[t]
    mean[0] = (1 - rate) * mean[0] + rate * (total / weights.shape[0])
    relative: np.ndarray = weights / max(mean[0], 1e-300)
    p, moved, total = share[0], 0.0, 0.0
    for t in range(weights.shape[0]):
        total += relative[t]
        moved += relative[t] * ((1.0 if similar[t] else 0.0) - p)
    share[1] = min(share[1] + total, window)
    p += moved / max(share[1], total)
    share[0] = min(max(p, 1 / window), 1 - 1 / window)  # even where all pairs are of one kind
    return relative


@njit(nogil=True, cache=True)
def pulls(
    F: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    p: float,
    agree: float,
    differ: float,
    sharpness: float,
) -> tuple[float, np.ndarray]:
    """The mean loss of pairs, of which a share p is similar of late, and its gradient by the projections but for a
    factor, which no step feels.

    Rows of F = tanh(projections) are first the points a of all pairs, then their points b; others are in no pair.
    """
    n, r = similar.shape[0], F.shape[1]
    rare, unit = _rare_and_unit(p, n)
    pull = np.empty_like(F)
    pull[2 * n :] = 0
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
        slope = F.dtype.type(unit * (-weight if similar[t] else weight) / (1.0 + math.exp(-wrong)))
        for k in range(r):
            a, b = F[t, k], F[n + t, k]
            pull[t, k] = slope * b * (1 - a * a)
            pull[n + t, k] = slope * a * (1 - b * b)
    return losses / total if total > 0 else 0.0, pull  # weights can be too small for a product of them


@njit(nogil=True, cache=True)
def _rare_and_unit(p: float, n: int) -> tuple[float, float]:
    """How many times as much as others similar pairs weigh, where their share is p; and the unit in which n pairs weigh
    1 together, on average."""
    rare = math.sqrt((1 - p) / p)
    return rare, 1 / (n * (p * rare + 1 - p))


@njit(nogil=True, cache=True)
def add_pulls(
    F: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    n: int,
    p: float,
    agree: float,
    differ: float,
    sharpness: float,
    pull: np.ndarray,
) -> None:
    """What `pulls` would find for pairs of these rows of F, were they among its n, is added to `pull`."""
    r, (rare, unit) = F.shape[1], _rare_and_unit(p, n)
    for t in range(left.shape[0]):
        i, j = left[t], right[t]
        c = 0.0
        for k in range(r):
            c += F[i, k] * F[j, k]
        c /= r
        wrong = sharpness * (agree - c if similar[t] else c - differ)
        slope = F.dtype.type(unit * weights[t] * (-rare if similar[t] else 1.0) / (1.0 + math.exp(-wrong)))
        for k in range(r):
            a, b = F[i, k], F[j, k]
            pull[i, k] += slope * b * (1 - a * a)
            pull[j, k] += slope * a * (1 - b * b)


@njit(nogil=True, cache=True)
def share_of_flips(F: np.ndarray, shown: np.ndarray, shares: np.ndarray) -> None:
    """The share of rows in which a column of F has another sign than that of `shown`."""
    shares[:] = 0
    for n in range(F.shape[0]):
        for k in range(F.shape[1]):
            shares[k] += (F[n, k] >= 0) != (shown[n, k] >= 0)
    shares /= F.shape[0]


@njit(nogil=True, cache=True)
def descend(
    pull: np.ndarray,
    X: np.ndarray,
    signs: np.ndarray,
    factor: float,
    keep: float,
    keep_of_squares: float,
    of_squares: float,
    eta: float,
    keep_of_W: float,
    squares: np.ndarray,
    M: np.ndarray,
    W: np.ndarray,
) -> None:
    """Each function goes against the running mean M of its gradient, damped as `damping` says, one after the other.

    Rows of X, M and W are wide. `pull` is the gradient by the projections, `keep` and `keep_of_squares` are for M and
    for the running mean of |P g|², which is to be divided by `of_squares`; eta is the step, and W is shrunk after it.
    """
    G = np.empty((MIXED, X.shape[1]), X.dtype)
    k = 0
    while k < W.shape[0]:
        n = mixed_rows(pull, k, X, G)
        for i in range(n):
            square = factor * max(_damped_square(G[i], signs), 0.0)
            squares[k + i] = keep_of_squares * squares[k + i] + (1 - keep_of_squares) * square
            size = factor * eta / max(math.sqrt(squares[k + i] / of_squares), 1e-30)
            _move(G[i], signs, X.dtype.type(1 - keep), X.dtype.type(size), X.dtype.type(keep_of_W), M[k + i], W[k + i])
        k += n


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _damped_square(g: np.ndarray, signs: np.ndarray) -> Any:
    total = g.dtype.type(0)
    for i in range(g.shape[0]):
        total += signs[i] * (g[i] * g[i])
    return total


@njit(nogil=True, cache=True, fastmath={"contract"})
def _move(
    g: np.ndarray, signs: np.ndarray, new: float, size: float, keep_of_w: float, m: np.ndarray, w: np.ndarray
) -> None:
    for i in range(g.shape[0]):
        m[i] += new * (g[i] - m[i])
        w[i] = keep_of_w * (w[i] - size * (signs[i] * m[i]))


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _key(row: np.ndarray, pattern: np.ndarray) -> float:
    total = 0.0
    for i in range(row.shape[0]):
        total += row[i] * pattern[i]
    return total


@njit(nogil=True, cache=True)
def note_repeats(keys: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """How many pairs share a point with each, which have none in common with the chunk before, the first row of each
    point, and the largest number of pairs that share one. The keys then take the place of those before.

    `keys` and `before` are `(2, n)`: points a, points b; before may be more. A point is the same on either side of a
    pair, and of a pair's two points the one that more pairs have counts. Rows are first the points a, then the b.
    """
    n, all_keys, earlier = keys.shape[1], keys.ravel(), before.copy().ravel()
    times, is_new, same = np.ones(n), np.ones(n, np.bool_), np.arange(2 * n)
    before[:] = NO_KEY
    for side in range(2):
        for t in range(n):
            before[side, t] = keys[side, t]
    if not has_equal(all_keys.view(np.int64), earlier.view(np.int64)):
        return times, is_new, same, 1.0
    order, earlier_order, place = order_of(all_keys), order_of(earlier), 0
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
    return times, is_new, same, times.max()


@njit(nogil=True, cache=True)
def take_in(
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    rate: float,
    window: float,
    pattern: np.ndarray,
    before: np.ndarray,
    mean: np.ndarray,
    share: np.ndarray,
    X: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Pairs for `load_unit_rows`, `weigh` and `note_repeats`: relative weights, keys, and what the latter tells."""
    keys = np.empty((2, A.shape[0]))
    load_unit_rows(A, B, pattern, X, keys.reshape(-1))
    relative = weigh(weights, similar, rate, window, mean, share)
    times, is_new, same, most = note_repeats(keys, before)
    return relative, keys, times, is_new, same, most


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
    half_life: float,
    sooner: float,
    histograms: np.ndarray,
) -> None:
    """Hamming distances enter `histograms[share, kind]`, for codes that go each share of the way from the first to the
    learned projections (rows as in `pulls`). Older ones fade: the weight of a pair halves with so many of its kind, or
    `sooner`.

    Kinds: 0 dissimilar pairs, 1 similar pairs, 2 points a with points b about half a chunk later, which nobody paired:
    each a with up to 16 of them, and together they count as one.
    """
    n, r = similar.shape[0], first.shape[1]
    n_others = min(n // 2, 16)
    start = n // 2 - n_others // 2
    of_kinds = np.zeros(2)
    for t in range(n):
        of_kinds[1 if similar[t] else 0] += weights[t]
    for kind in range(3):  # others fade as similar pairs do
        histograms[:, kind] *= min(0.5 ** (of_kinds[min(kind, 1)] / half_life), sooner)
    bits = np.empty((2 * n, (r + 63) // 64), np.uint64)
    for i in range(shares.shape[0]):
        _pack(first, learned, first.dtype.type(shares[i]), bits)
        for t in range(n):
            histograms[i, 1 if similar[t] else 0, _difference(bits, t, n + t)] += weights[t]
            for u in range(start + t, start + t + n_others):
                other = n + u if u < n else u  # n + u % n
                histograms[i, 2, _difference(bits, t, other)] += 1 / n_others


@njit(nogil=True, cache=True)
def count_found(
    first: np.ndarray,
    learned: np.ndarray,
    wanted: np.ndarray,
    weights: np.ndarray,
    shares: np.ndarray,
    found: np.ndarray,
) -> float:
    """Searches: how precise they are down to each point that is wanted. The mean logarithm, times its weight, is added
    to `found[share]`, for codes as in `count_distances`.

    The first rows are points to search for, as many as there are weights, the others are those among which it is done.
    `wanted[point, other]` is 1 where the other should be found, 0 where not, and -1 where it is not among these. Where
    all should be found, or none, nothing is asked. Returns the sum of the weights of those that did.
    """
    n, (m, r) = weights.shape[0], first.shape
    total = 0.0
    asks = np.empty(n, np.bool_)
    for t in range(n):
        n_wanted = n_others = 0
        for u in range(m - n):
            n_wanted += wanted[t, u] == 1
            n_others += wanted[t, u] == 0
        asks[t] = n_wanted > 0 and n_others > 0
        if asks[t]:
            total += weights[t]
    bits, counts = np.empty((m, (r + 63) // 64), np.uint64), np.empty((2, r + 1))
    for i in range(shares.shape[0] if total > 0 else 0):
        _pack(first, learned, first.dtype.type(shares[i]), bits)
        for t in range(n):
            if not asks[t]:
                continue
            counts[:] = 0
            for u in range(m - n):
                if wanted[t, u] >= 0:
                    counts[wanted[t, u], _difference(bits, t, n + u)] += 1
            agree = differ = logs = 0.0  # points that are nearer; those as far count half
            for distance in range(r + 1):
                agree += counts[1, distance] / 2
                differ += counts[0, distance] / 2
                if counts[1, distance] > 0:
                    logs += counts[1, distance] * math.log(agree / (agree + differ))
                agree += counts[1, distance] / 2
                differ += counts[0, distance] / 2
            found[i] += weights[t] * logs / agree
    return total


@njit(nogil=True, cache=True)
def _pack(first: np.ndarray, learned: np.ndarray, share: float, bits: np.ndarray) -> None:
    """Codes that go this share of the way from the first to the learned projections."""
    r = first.shape[1]
    for t in range(first.shape[0]):
        for word in range(bits.shape[1]):
            bits[t, word] = _signs(first[t], learned[t], share, 64 * word, min(64 * word + 64, r))


@njit(nogil=True, cache=True)
def _signs(first: np.ndarray, learned: np.ndarray, share: float, start: int, stop: int) -> Any:
    """Columns `start` to `stop`, at most 64, as the bits of a word."""
    word = np.uint64(0)
    for k in range(start, stop):
        word |= np.uint64(first[k] + share * (learned[k] - first[k]) >= 0) << np.uint64(k - start)
    return word


@njit(nogil=True, cache=True)
def _difference(bits: np.ndarray, i: int, j: int) -> int:
    """The Hamming distance of rows i and j."""
    distance = 0
    for word in range(bits.shape[1]):
        distance += popcount(bits[i, word] ^ bits[j, word])
    return distance


@njit(nogil=True, cache=True)
def evidence_of(histograms: np.ndarray) -> np.ndarray:
    """For each share of `count_distances`, how far up it puts similar pairs: the sum of the logarithms of how many
    times as many of them as of others are nearer."""
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
    return evidence


@njit(nogil=True, cache=True)
def blend_of(shares: np.ndarray, histograms: np.ndarray, trust: float, caution: float, found: np.ndarray) -> float:
    """The mean of the shares, weighted by how far up each puts similar pairs (as far as that is trusted), and by what
    is `found` with it; the plain mean where both are unknown.

    Where the first share, the beginning, does that well already, little can be won and much lost: with caution, from 0
    to 1, it is preferred beforehand, and only the best share and its neighbours are averaged, as between the far ends
    both are lost.
    """
    n_shares, n_agree, evidence = histograms.shape[0], histograms[0, 1].sum(), evidence_of(histograms)
    prior = caution * CAUTION * max(evidence[0] / (n_agree + UNKNOWN) - USUAL, 0.0)
    evidence *= TRUST * trust
    evidence += found
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
