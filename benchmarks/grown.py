"""Codes to search: uniform ones, and those of real vectors grown to any number.

A set of vectors is grown by jitter: each new vector is one of the set plus Gaussian noise whose length is the distance
to that vector's 10th neighbour. Its code is the sign of its projections by an `OnlineHashing` that learned from pairs
of the set. The noise is drawn as it is after the projection (a Gaussian of covariance W W'): that is the same and needs
no ten million vectors.
"""

from __future__ import annotations

from pathlib import Path

import common
import numpy as np
from sklearn.neighbors import NearestNeighbors

from onlinehash import Codes, OnlineHashing
from onlinehash.learners.encoder import Encoder

N_VECTORS, N_PAIRS, CHUNK = 10_000, 20_000, 1 << 17


def uniform(n: int, n_bits: int, seed: int = 0) -> Codes:
    """n codes of independent fair bits."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (n, -(-n_bits // 8)), np.uint8)
    if n_bits % 8:
        rows[:, -1] &= (1 << n_bits % 8) - 1
    return Codes.from_faiss(rows, n_bits)


def grown(path: Path | None, n: int, n_bits: int, seed: int = 0) -> Codes:
    """n codes of the vectors of a file (or, without one, of made-up clusters), jittered."""
    X = (common.clusters(N_VECTORS, 64) if path is None else common.read(path))[0][:N_VECTORS]
    rng = np.random.default_rng(seed)
    neighbours, reach = _tenth_neighbours(X)
    encoder = _learned(X, neighbours, n_bits)
    W = encoder.weights.astype(np.float64)
    gaps = X @ W.T - encoder.thresholds
    mixing = np.linalg.cholesky(W @ W.T + 1e-9 * np.trace(W @ W.T) * np.eye(n_bits)).T.astype(np.float32)
    parts = []
    for start in range(0, n, CHUNK):
        rows = rng.integers(0, len(X), min(CHUNK, n - start))
        noise = rng.standard_normal((len(rows), n_bits), np.float32) @ mixing
        noise *= (reach[rows] / np.sqrt(X.shape[1])).astype(np.float32)[:, None]
        parts.append(Codes.from_bits(gaps[rows] + noise >= 0))
    return Codes.concatenate(parts)


def _tenth_neighbours(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which row is the 10th nearest of each, and how far away it is."""
    distances, rows = NearestNeighbors(n_neighbors=11).fit(X).kneighbors(X)
    return rows[:, 10], distances[:, 10]


def _learned(X: np.ndarray, neighbours: np.ndarray, n_bits: int) -> Encoder:
    """What OH makes of pairs of neighbours, which are similar, and of any two vectors, which are not."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, len(X), N_PAIRS)
    similar = rng.random(N_PAIRS) < 0.5
    second = np.where(similar, neighbours[first], rng.integers(0, len(X), N_PAIRS))
    return OnlineHashing(n_bits=n_bits, random_state=0).partial_fit_pairs(X[first], X[second], similar).snapshot()
