"""Balanced similarity hashing with everything the paper keeps: all old codes, and S as a matrix.

Written from the objective |B Eᵀ - r S|² + σ|XW - B|² + λ|W|², not from the package.
"""

from __future__ import annotations

import numpy as np


def sgn(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, 1.0, -1.0)


class ReferenceBalancedSimilarity:
    """`W` is `(d, r)`; chunks come through `learn`, which returns the objective of B after every single bit."""

    def __init__(self, W: np.ndarray, chunk_size: int, similar: float, dissimilar: float, fit: float, ridge: float):
        self.W, self.chunk_size = W.copy(), chunk_size
        self.similar, self.dissimilar, self.fit, self.ridge = similar, dissimilar, fit, ridge
        self.E = np.zeros((0, W.shape[1]))
        self.classes = np.zeros(0, int)

    def learn(self, X: np.ndarray, classes: np.ndarray) -> list[float]:
        n_bits = self.W.shape[1]
        if len(self.E) == 0:
            self.W = self.W / np.sqrt((X**2).sum(axis=1).mean())
        B = sgn(X @ self.W)
        E, old = (self.E, self.classes) if len(self.E) else (B.copy(), classes)
        S = np.where(classes[:, None] == old, self.similar, -self.dissimilar)
        objectives = [self.objective(X, B, E, S)]
        P = n_bits * S @ E + self.fit * X @ self.W
        for _ in range(5):
            for k in range(n_bits):
                others = [q for q in range(n_bits) if q != k]
                B[:, k] = sgn(P[:, k] - B[:, others] @ E[:, others].T @ E[:, k])
                objectives.append(self.objective(X, B, E, S))
        if len(self.E):
            for j, c in enumerate(self.classes):
                if c in classes:
                    E[j] = sgn(np.round(S[:, j] @ B, 9))  # a zero, in whatever order BLAS adds it up
                else:
                    E[j] = sgn(self.E[self.classes == c].sum(axis=0))
            self.E = np.concatenate([E, B])
            self.classes = np.concatenate([self.classes, classes])
        else:
            self.E, self.classes = B.copy(), classes
        ridge = self.ridge * (X**2).sum(axis=1).mean()
        new = np.linalg.inv(self.fit * X.T @ X + ridge * np.eye(X.shape[1])) @ X.T @ B * self.fit
        share = len(X) / min(self.chunk_size, len(self.E))
        self.W = (1 - share) * self.W + share * new
        return objectives

    def objective(self, X: np.ndarray, B: np.ndarray, E: np.ndarray, S: np.ndarray) -> float:
        first = ((B @ E.T - self.W.shape[1] * S) ** 2).sum()
        return float(first + self.fit * ((X @ self.W - B) ** 2).sum())
