"""Search as it is defined: all distances, sorted by (distance, insertion)."""

from __future__ import annotations

from typing import Any

import numpy as np


def distances(queries: np.ndarray, base: np.ndarray, n_models: int, fusion: str) -> np.ndarray:
    """Fused Hamming distances of booleans, `(n_queries, n_base)`."""
    differ = queries[:, None, :] != base[None, :, :]
    per_model = differ.reshape(*differ.shape[:2], n_models, queries.shape[1] // n_models).sum(axis=3)
    return per_model.min(axis=2) if fusion == "min" else per_model.sum(axis=2)


class Shelf:
    """An index as a dictionary, which keeps the order of insertion by itself."""

    def __init__(self, n_models: int, fusion: str) -> None:
        self.n_models, self.fusion = n_models, fusion
        self.items: dict[Any, np.ndarray] = {}

    def ranked(self, query: np.ndarray) -> list[tuple[int, Any]]:
        """All items as (distance, id), in the order of a search."""
        if not self.items:
            return []
        found = distances(query[None], np.array(list(self.items.values())), self.n_models, self.fusion)[0]
        return sorted(zip(found.tolist(), self.items, strict=True), key=lambda pair: pair[0])  # stable
