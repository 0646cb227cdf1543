"""Adaptive hashing, with whole matrices and the objective written out."""

from __future__ import annotations

import math

import numpy as np


def smooth_code(W: np.ndarray, x: np.ndarray) -> np.ndarray:
    """f = 2σ(Wᵀx) - 1."""
    return 2 / (1 + np.exp(-(W.T @ x))) - 1


def objective(W: np.ndarray, x_i: np.ndarray, x_j: np.ndarray, s: int) -> float:
    """(f_iᵀf_j - rs)²."""
    return float((smooth_code(W, x_i) @ smooth_code(W, x_j) - W.shape[1] * s) ** 2)


def gradient(W: np.ndarray, x_i: np.ndarray, x_j: np.ndarray, s: int) -> np.ndarray:
    """Of the objective, column by column."""
    f_i, f_j = smooth_code(W, x_i), smooth_code(W, x_j)
    error = f_i @ f_j - W.shape[1] * s
    out = np.empty_like(W)
    for k in range(W.shape[1]):
        sigma_i, sigma_j = ((f[k] + 1) / 2 for f in (f_i, f_j))
        slope_i, slope_j = 2 * sigma_i * (1 - sigma_i), 2 * sigma_j * (1 - sigma_j)
        out[:, k] = 2 * error * (f_j[k] * slope_i * x_i + f_i[k] * slope_j * x_j)
    return out


class ReferenceAdaptive:
    """`W` is `(d, r)` with columns of unit length."""

    def __init__(self, W: np.ndarray, alpha: float, orthogonality: float, step: float) -> None:
        self.W = np.array(W, dtype=np.float64)
        self.alpha, self.orthogonality, self.step_size = alpha, orthogonality, step

    def step(self, a: np.ndarray, b: np.ndarray, s: int, weight: float = 1.0) -> tuple[float, list[int]]:
        """ℓ, and the bits whose gradient was followed."""
        r = self.W.shape[1]
        x_i, x_j = (x / np.linalg.norm(x) if x.any() else x for x in (a, b))
        p_i, p_j = self.W.T @ x_i, self.W.T @ x_j
        differ = (p_i >= 0) != (p_j >= 0)
        distance = int(differ.sum())
        excess = distance - (1 - self.alpha) * r if s > 0 else self.alpha * r - distance
        if excess <= 1e-9:
            return 0.0, []
        if weight == 0:
            return excess, []
        wrong = [k for k in range(r) if differ[k] == (s > 0)]
        chosen = sorted(wrong, key=lambda k: (-max(abs(p_i[k]), abs(p_j[k])), k))[: math.ceil(excess - 1e-9)]
        total = np.zeros_like(self.W)
        total[:, chosen] = gradient(self.W, x_i, x_j, s)[:, chosen]
        total += self.orthogonality * self.W @ (self.W.T @ self.W - np.eye(r))
        self.W = self.W - self.step_size / r * weight * total
        self.W /= np.linalg.norm(self.W, axis=0)
        return excess, chosen
