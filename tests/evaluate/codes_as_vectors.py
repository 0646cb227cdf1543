"""An encoder whose codes are what the tests say: bit k of x is the sign of its k-th value."""

from __future__ import annotations

import numpy as np

from onlinehash import Encoder


def identity(n_bits: int, n_models: int = 1, fusion: str = "min") -> Encoder:
    width = n_bits * n_models
    return Encoder(np.eye(width), np.zeros(width), None, width, n_models, fusion, 0, "identity")


def random_codes(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Vectors of +1 and -1, which `identity` turns into these bits."""
    return rng.choice([-1.0, 1.0], size=(n, width))


def distances_by_hand(Q: np.ndarray, B: np.ndarray, n_models: int, fusion: str) -> np.ndarray:
    """Fused Hamming distances, one pair of vectors at a time."""
    fuse = min if fusion == "min" else sum
    out = np.empty((len(Q), len(B)), int)
    for i, j in np.ndindex(out.shape):
        out[i, j] = fuse((Q[i] != B[j]).reshape(n_models, -1).sum(axis=1))
    return out
