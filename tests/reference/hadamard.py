"""Both Hadamard methods, as slowly and plainly as they read; what a point aims at is given."""

from __future__ import annotations

import numpy as np


class ReferenceHadamardHashing:
    """HCOH: `W` is `(d, r)`, changed by `step`."""

    def __init__(self, W: np.ndarray, eta: float = 0.2) -> None:
        self.W = np.array(W, dtype=np.float64)
        self.eta = eta

    def step(self, x: np.ndarray, c: np.ndarray) -> float:
        """Learn a point; its loss."""
        x = x / np.linalg.norm(x)
        F = np.tanh(self.W.T @ x)
        self.W = self.W - self.eta * np.outer(x, (F - c) * (1 - F**2))
        return float(((F - c) ** 2).sum() / 2)


class ReferenceHadamardMatchingHashing:
    """HMOH: keeps the perceptrons of all times, and adds them up when asked."""

    def __init__(self, d: int, r: int) -> None:
        self.V = [np.zeros((d, r))]

    def step(self, x: np.ndarray, c: np.ndarray) -> int:
        """Learn a point; how many bits it found wrong."""
        x = x / np.linalg.norm(x)
        V = self.V[-1].copy()
        wrong = [k for k in range(len(c)) if c[k] * (self.V[-1][:, k] @ x) <= 0]
        for k in wrong:
            V[:, k] += c[k] * x
        self.V.append(V)
        return len(wrong)

    @property
    def W(self) -> np.ndarray:
        return np.sum(self.V, axis=0)
