"""Supervised hashing with kernels as it reads: S is a matrix, and every cost is computed from the beginning."""

from __future__ import annotations

import numpy as np
import scipy.linalg


class ReferenceKernelSupervised:
    """All of K `(l, m)` is learned from; K is scaled to a mean square of one."""

    def __init__(self, K: np.ndarray, classes: np.ndarray, n_bits: int) -> None:
        self.K = K / np.sqrt(np.mean(K**2))
        self.l, self.m = K.shape
        self.r = n_bits
        same = np.array([[a == b for b in classes] for a in classes])
        self.S = np.where(same, 1.0, -1.0)

    def learn(self) -> tuple[np.ndarray, list[float]]:
        """W, and |rS - HHᵀ|² / |rS|² after each bit."""
        left = self.r * self.S
        W, objectives = [], []
        for _ in range(self.r):
            a0 = self.eigenvector(left)
            a = self.descend(a0, left)
            kept = a if self.explained(a, left) > self.explained(a0, left) else a0
            h = sgn(self.K @ kept)
            left = left - np.outer(h, h)
            W.append(kept)
            objectives.append(float(np.sum(left**2) / np.sum((self.r * self.S) ** 2)))
        return np.array(W).T, objectives

    def eigenvector(self, left: np.ndarray) -> np.ndarray:
        G = self.K.T @ self.K
        _, vectors = scipy.linalg.eigh(self.K.T @ left @ self.K, G + 1e-6 * np.trace(G) / self.m * np.eye(self.m))
        a = vectors[:, -1]
        return a * np.sqrt(self.l / np.sum((self.K @ a) ** 2))

    def explained(self, a: np.ndarray, left: np.ndarray) -> float:
        h = sgn(self.K @ a)
        return float(h @ left @ h)

    def cost(self, a: np.ndarray, left: np.ndarray) -> float:
        phi = 2 / (1 + np.exp(-self.K @ a)) - 1
        return -float(phi @ left @ phi)

    def gradient(self, a: np.ndarray, left: np.ndarray) -> np.ndarray:
        s = 1 / (1 + np.exp(-self.K @ a))
        phi = 2 * s - 1
        return -2 * self.K.T @ ((left @ phi) * 2 * s * (1 - s))

    def descend(self, a: np.ndarray, left: np.ndarray) -> np.ndarray:
        before = a
        t, L = 1.0, None
        n_steps = 0
        while n_steps < 500 and self.cost(a, left) < 0:
            t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
            b = a + (t - 1) / t_next * (a - before)
            g = self.gradient(b, left)
            L = np.linalg.norm(g) / np.linalg.norm(b) if L is None else L / 1.5
            for _ in range(50):
                new = b - g / L
                if self.cost(new, left) <= self.cost(b, left) - g @ g / (2 * L):
                    break
                L = 2 * L
            was, now = self.cost(a, left), self.cost(new, left)
            if now >= was and t == 1:
                return a
            if now >= was:
                t = 1.0
                continue
            before, a, t = a, new, t_next
            n_steps += 1
            if was - now <= 1e-3 * abs(now):
                return a
        return a


def sgn(z: np.ndarray) -> np.ndarray:
    return np.array([1.0 if v >= 0 else -1.0 for v in z])
