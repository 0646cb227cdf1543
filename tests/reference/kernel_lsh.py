"""KLSH as the textbook has it: a centred kernel matrix, its inverse root, and queries whose kernel is centred too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Kernel = Callable[[np.ndarray, np.ndarray], Any]


def klsh_projections(anchors: np.ndarray, samples: np.ndarray, X: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Σ_i w_i κ_c(x, a_i) for every row of X and every sample of anchors (a row of `samples` per bit)."""
    p = len(anchors)
    K = np.array([[kernel(a, b) for b in anchors] for a in anchors])
    one = np.full((p, p), 1 / p)
    K_c = K - one @ K - K @ one + one @ K @ one
    values, U = np.linalg.eigh(K_c)
    root = np.zeros((p, p))
    for value, u in zip(values, U.T, strict=True):
        if value > 1e-8:
            root += np.outer(u, u) / np.sqrt(value)
    out = np.zeros((len(X), len(samples)))
    for n, x in enumerate(X):
        k = np.array([kernel(x, a) for a in anchors])
        k_c = k - k.mean() - K.mean(axis=0) + K.mean()
        for bit, sample in enumerate(samples):
            t = len(sample)
            e_S = np.zeros(p)
            e_S[sample] = 1.0
            w = np.sqrt((p - 1) / t) * root @ (e_S - t / p)
            out[n, bit] = sum(w[i] * k_c[i] for i in range(p))
    return out
