"""The subsampled randomised Hadamard transform as a dense matrix."""

from __future__ import annotations

import numpy as np


def walsh_hadamard(m: int) -> np.ndarray:
    """The orthonormal matrix of a power of two, by Sylvester's doubling."""
    H = np.ones((1, 1))
    while len(H) < m:
        H = np.block([[H, H], [H, -H]])
    return H / np.sqrt(m)


def transform(signs: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Φ = √(m / q) S H D."""
    m, q = len(signs), len(sample)
    S = np.zeros((q, m))
    for i, row in enumerate(sample):
        S[i, row] = 1.0
    return np.sqrt(m / q) * S @ walsh_hadamard(m) @ np.diag(signs)
