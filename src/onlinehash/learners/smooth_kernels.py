"""The loops of smooth pair hashing that NumPy would make in many passes.

Each works on one chunk as a whole, and a chunk holds the same pairs however the stream is cut. Products with matrices
are left to BLAS.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash.numeric.kernels import njit


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})  # a row is summed alike wherever it stands
def scale_to_unit_length(X: np.ndarray) -> None:
    """Rows of unit length, in place; a zero row stays."""
    for n in range(X.shape[0]):
        total = X.dtype.type(0)
        for i in range(X.shape[1]):
            total += X[n, i] * X[n, i]
        if total > 0:
            scale = X.dtype.type(1 / math.sqrt(total))
            for i in range(X.shape[1]):
                X[n, i] *= scale


@njit(nogil=True, cache=True)
def fade_and_add(C: np.ndarray, keep: float, new: np.ndarray, share: float) -> None:
    """C = keep C + share new."""
    old, factor = C.dtype.type(keep), C.dtype.type(share)
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = old * C[i, j] + factor * new[i, j]


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
def enter_gradient(G: np.ndarray, keep: float, M: np.ndarray, squares: np.ndarray) -> None:
    """G enters its running mean M; the squared length of each column of G."""
    old, new = M.dtype.type(keep), M.dtype.type(1 - keep)
    squares[:] = 0
    for i in range(G.shape[0]):
        for k in range(G.shape[1]):
            M[i, k] = old * M[i, k] + new * G[i, k]
            squares[k] += G[i, k] * G[i, k]


@njit(nogil=True, cache=True)
def move(W: np.ndarray, M: np.ndarray, damped: np.ndarray, q: float, scale: np.ndarray, keep: float) -> None:
    """W = keep (W - scale (q (M - damped))), column by column of its own scale."""
    factor, of_all = W.dtype.type(keep), W.dtype.type(q)
    for i in range(W.shape[0]):
        for k in range(W.shape[1]):
            W[i, k] = factor * (W[i, k] - scale[k] * (of_all * (M[i, k] - damped[i, k])))


@njit(nogil=True, cache=True)
def count_distances(
    first: np.ndarray,
    learned: np.ndarray,
    shares: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    histograms: np.ndarray,
) -> None:
    """The Hamming distance of each pair enters `histograms[share, is similar]`, for codes that go each share of the
    way from the first to the learned projections (rows as in `pulls`)."""
    n, r = similar.shape[0], first.shape[1]
    for t in range(n):
        for i in range(shares.shape[0]):
            share, distance = shares[i], 0
            for k in range(r):
                a = first[t, k] + share * (learned[t, k] - first[t, k])
                b = first[n + t, k] + share * (learned[n + t, k] - first[n + t, k])
                distance += (a >= 0) != (b >= 0)
            histograms[i, 1 if similar[t] else 0, distance] += weights[t]


@njit(nogil=True, cache=True)
def blend_of(shares: np.ndarray, histograms: np.ndarray) -> float:
    """The mean of the shares, weighted by exp(T AUC) of their histograms; the plain mean where a kind is missing.

    T is the number of pairs behind them, as if the kinds were equally many.
    """
    n_shares, size = histograms.shape[0], histograms.shape[2]
    n_differ, n_agree = histograms[0, 0].sum(), histograms[0, 1].sum()
    auc = np.zeros(n_shares)
    if n_differ > 0 and n_agree > 0:
        for i in range(n_shares):
            farther = n_differ
            for distance in range(size):
                differ = histograms[i, 0, distance]
                farther -= differ
                auc[i] += histograms[i, 1, distance] * (farther + differ / 2)
            auc[i] /= n_differ * n_agree
    evidence = 4 * n_differ * n_agree / max(n_differ + n_agree, 1e-300)
    best = auc.max()
    total = blend = 0.0
    for i in range(n_shares):
        weight = math.exp(evidence * (auc[i] - best))
        total += weight
        blend += weight * shares[i]
    return blend / total
