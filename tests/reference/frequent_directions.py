"""Liberty's sketch, a row at a time, with a whole singular value decomposition at every shrink."""

from __future__ import annotations

import numpy as np


class ReferenceSketch:
    """`size` rows (an even number)."""

    def __init__(self, size: int, d: int) -> None:
        self.B = np.zeros((size, d))
        self.filled = 0
        self.n_shrinks = 0

    def insert(self, row: np.ndarray) -> None:
        self.B[self.filled] = row
        self.filled += 1
        if self.filled == len(self.B):
            half = len(self.B) // 2
            _, sigma, Vt = np.linalg.svd(self.B, full_matrices=True)
            sigma = np.append(sigma, np.zeros(len(self.B) - len(sigma)))
            theta = sigma[half] ** 2
            self.B[:] = 0.0
            for i in range(half):
                self.B[i] = np.sqrt(max(sigma[i] ** 2 - theta, 0.0)) * Vt[i]
            self.filled = half
            self.n_shrinks += 1

    def directions(self, k: int) -> np.ndarray:
        return np.linalg.svd(self.B)[2][:k].T
