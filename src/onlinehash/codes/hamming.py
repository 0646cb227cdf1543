"""Hamming distances between codes, and their fusion over several models."""

from __future__ import annotations

import numpy as np

from onlinehash.codes.codes import Codes
from onlinehash.errors import InvalidInput


def distance_matrix(queries: Codes, base: Codes) -> np.ndarray:
    """Hamming distances per model, int32 `(n_models, n_queries, n_base)`."""
    if (queries.n_bits, queries.n_models) != (base.n_bits, base.n_models):
        raise InvalidInput(
            f"expected codes of one width, got {queries!r} and {base!r}; encode both with the same encoder."
        )
    shape = (queries.n_models, queries.n_bits)
    # An inner product of +-1 values is n_bits - 2 * distance; float32 holds it exactly up to 2**24 bits.
    q, b = (np.where(codes.bits(), np.float32(1), np.float32(-1)).reshape(-1, *shape) for codes in (queries, base))
    products = np.matmul(q.transpose(1, 0, 2), b.transpose(1, 2, 0))
    return ((queries.n_bits - products) / 2).astype(np.int32)


def fused_distances(queries: Codes, base: Codes, fusion: str = "min") -> np.ndarray:
    """Distances `(n_queries, n_base)` over all models: the nearest model's (`min`) or their sum (`sum`)."""
    if fusion not in ("min", "sum"):
        raise InvalidInput(f"expected fusion to be 'min' or 'sum', got {fusion!r}.")
    distances = distance_matrix(queries, base)
    return distances.min(axis=0) if fusion == "min" else distances.sum(axis=0)
