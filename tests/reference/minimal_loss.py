"""Minimal loss hashing with the inference done by trying every pair of codes."""

from __future__ import annotations

from itertools import product

import numpy as np


def loss_of_distance(m: int, s: int, r: int, radius_ratio: float, dissimilar_weight: float) -> float:
    """The hinge loss of codes m bits apart, each side divided by its largest value."""
    rho = round(radius_ratio * r)
    if s > 0:
        return max(0, m - rho + 1) / (r - rho + 1)
    return dissimilar_weight * max(0, rho - m + 1) / (rho + 1)


def sgn(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, 1, -1)


def best_codes(a: np.ndarray, b: np.ndarray, loss: list[float]) -> tuple[float, np.ndarray, np.ndarray]:
    """max over g_i, g_j of loss[|g_i - g_j|] + g_i·a + g_j·b, and the two codes, among all 4^r."""
    best = (-np.inf, sgn(a), sgn(b))
    codes = [np.array(code) for code in product((1, -1), repeat=len(a))]
    for g_i in codes:
        for g_j in codes:
            value = loss[int((g_i != g_j).sum())] + g_i @ a + g_j @ b
            if value > best[0]:
                best = (value, g_i, g_j)
    return best


class ReferenceMinimalLoss:
    """`W` is `(d, r)` with columns of unit length."""

    def __init__(
        self, W: np.ndarray, radius_ratio: float, dissimilar_weight: float, loss_scale: float, step: float
    ) -> None:
        self.W = np.array(W, dtype=np.float64)
        self.radius_ratio, self.dissimilar_weight = radius_ratio, dissimilar_weight
        self.loss_scale, self.step_size = loss_scale, step

    def losses(self, s: int) -> list[float]:
        r = self.W.shape[1]
        return [loss_of_distance(m, s, r, self.radius_ratio, self.dissimilar_weight) for m in range(r + 1)]

    def step(self, x_i: np.ndarray, x_j: np.ndarray, s: int, weight: float = 1.0) -> tuple[float, set[int]]:
        """The loss of the predicted codes, and the columns that changed."""
        x = [row / np.linalg.norm(row) if row.any() else row for row in (x_i, x_j)]
        a, b = (self.W.T @ row for row in x)
        h = sgn(a), sgn(b)
        losses = self.losses(s)
        _, *g = best_codes(a, b, [self.loss_scale * value for value in losses])
        change = sum(np.outer(row, h_ - g_) for row, h_, g_ in zip(x, h, g, strict=True))
        W = self.W + self.step_size * weight * change
        changed = set(np.flatnonzero((W != self.W).any(axis=0)).tolist())
        for k in changed:
            self.W[:, k] = W[:, k] / np.linalg.norm(W[:, k])
        return losses[int((h[0] != h[1]).sum())], changed
