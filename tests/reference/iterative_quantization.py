"""Iterative quantization as it reads: whole matrices, and the loss as it is defined."""

from __future__ import annotations

import numpy as np


def rotate(V: np.ndarray, R: np.ndarray, n_iterations: int) -> tuple[np.ndarray, list[float]]:
    """R after so many iterations on V `(n, q)`, from R `(q, r)`; and |B - VR|² / nr after each."""
    losses = []
    for _ in range(n_iterations):
        B = sgn(V @ R)
        U_B, _, U_At = np.linalg.svd(B.T @ V, full_matrices=False)
        R = U_At.T @ U_B.T
        losses.append(float(np.mean((B - V @ R) ** 2)))
    return R, losses


def sgn(Z: np.ndarray) -> np.ndarray:
    return np.array([[1.0 if z >= 0 else -1.0 for z in row] for row in Z])
