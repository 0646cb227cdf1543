"""Online sketching hashing as the paper reads: chunk by chunk, row by row."""

from __future__ import annotations

import numpy as np
from scipy.linalg import orthogonal_procrustes

from tests.reference.frequent_directions import ReferenceSketch


class ReferenceSketchingHashing:
    """From a first W `(d, r)` and a rotation `(r, r)`, r <= d, for chunks of full rank."""

    def __init__(self, W: np.ndarray, rotation: np.ndarray, sketch_size: int) -> None:
        self.W, self.R = W, rotation
        self.sketch = ReferenceSketch(sketch_size, len(W))
        self.mu = np.zeros(len(W))
        self.n = 0

    def learn(self, X: np.ndarray) -> None:
        m = len(X)
        mu_c = sum(X) / m
        if self.n > 0:
            self.sketch.insert(np.sqrt(self.n * m / (self.n + m)) * (mu_c - self.mu))
        for x in X:
            self.sketch.insert(x - mu_c)
        self.mu = (self.n * self.mu + m * mu_c) / (self.n + m)
        self.n += m
        V = self.sketch.directions(self.R.shape[0])
        Q, _ = orthogonal_procrustes(V, self.W @ self.R.T)
        self.W = V @ Q @ self.R

    def bits(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mu) @ self.W >= 0


def scatter(X: np.ndarray) -> np.ndarray:
    """Sum of (x - mean)(x - mean)ᵀ."""
    mean = sum(X) / len(X)
    return sum((np.outer(x - mean, x - mean) for x in X), np.zeros((X.shape[1], X.shape[1])))
