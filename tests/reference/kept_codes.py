"""The methods that keep the codes of items, one point or pair at a time in plain NumPy, from the formulas alone.

Both are given the codes of items, as signs; what they make of them is the code of a query.
"""

from __future__ import annotations

import numpy as np


def sgn(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, 1.0, -1.0)


class ReferenceProjectedCodes:
    """Q `(d, r)` takes vectors to targets, P `(r, r)`, a row per bit, targets to the codes of items."""

    def __init__(self, d: int, n_bits: int, C: float) -> None:
        self.Q, self.P, self.C = np.zeros((d, n_bits)), np.zeros((n_bits, n_bits)), C

    def learn(self, x: np.ndarray, b: np.ndarray, t: np.ndarray) -> float:
        """A centred point, the code of an item like it, and its targets; returns the loss."""
        x, r = x / np.linalg.norm(x), len(b)
        gaps = 1 - t * (x @ self.Q)
        for k in range(r):
            self.P[k] += min(self.C, 1 - b[k] * (self.P[k] @ t) / r) * b[k] * t
            self.Q[:, k] += min(self.C, gaps[k]) * t[k] * x
        return float(np.maximum(0, gaps).sum())

    def query(self, x: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What the code is the signs of."""
        return self.P @ sgn(x @ self.Q) + 0.1 * len(b) * b


class ReferenceSimilarity:
    """M `(r, r)`, and the sum of all M after each pair."""

    def __init__(self, n_bits: int, C: float, similar_weight: float) -> None:
        self.M, self.C, self.similar_weight = np.eye(n_bits), C, similar_weight
        self.all: list[np.ndarray] = []

    def learn(self, a: np.ndarray, b: np.ndarray, similar: bool, weight: float = 1.0) -> float:
        r = len(a)
        s = a @ self.M @ b / r
        loss = max(0.0, 1 - s) if similar else max(0.0, s)
        most = self.C * weight * (self.similar_weight if similar else 1)
        if weight:
            G = (np.outer(a, b) + np.outer(b, a)) / 2
            self.M = self.M + (1 if similar else -1) * min(most, loss) * r * G / (G**2).sum()
            self.all.append(self.M)
        return loss if weight else 0.0

    def query(self, a: np.ndarray) -> np.ndarray:
        """What the code is the signs of."""
        return np.mean(self.all, axis=0) @ a if self.all else a
