"""`Encoder`: an immutable hash function with a version number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.features import FeatureMap, same_map
from onlinehash.numeric.signs import signs

#: Rows taken through feature map and product at once.
BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """`bit k of x = [ w_k . z(x) >= b_k ]`, with z the feature map.

    It is what travels to an index, a worker or a file. Later learning never changes it; `version` is the learner's
    `version_` at the moment of the snapshot.
    """

    weights: np.ndarray
    thresholds: np.ndarray
    feature_map: FeatureMap | None
    n_features: int
    n_models: int
    fusion: str
    version: int
    method: str

    def __post_init__(self) -> None:
        for name in ("weights", "thresholds"):
            array = np.array(getattr(self, name), order="C")
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def n_bits(self) -> int:
        """Bits per model."""
        return len(self.weights) // self.n_models

    @property
    def n_columns(self) -> int:
        """Bits over all models."""
        return len(self.weights)

    def transform(self, X: Any) -> np.ndarray:
        """Booleans `(n, n_models * n_bits)`, for people."""
        rows = checks.vectors(X, dtype=self.weights.dtype)
        checks.width(rows, self.n_features, f"this encoder of {self.method}")
        return self.bits_of(rows)

    def encode(self, X: Any) -> Codes:
        """Packed `Codes`, for machines."""
        return Codes.from_bits(self.transform(X), self.n_models)

    def bits_of(self, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """The bits of rows that have passed the gate; of some columns only where asked, the same bits either way."""
        weights = self.weights if columns is None else np.ascontiguousarray(self.weights[columns])
        thresholds = self.thresholds if columns is None else self.thresholds[columns]
        if self.feature_map is None:
            return signs(rows, weights, thresholds)
        blocks = (rows[start : start + BLOCK_ROWS] for start in range(0, len(rows), BLOCK_ROWS))
        return np.concatenate([signs(self.feature_map.map_rows(b), weights, thresholds) for b in blocks])

    def changed_bits(self, older: Encoder) -> np.ndarray:
        """The columns whose hash function differs from the older encoder's."""
        if self.weights.shape != older.weights.shape or not same_map(self.feature_map, older.feature_map):
            return np.arange(self.n_columns)
        differs = (self.weights != older.weights).any(axis=1) | (self.thresholds != older.thresholds)
        return np.flatnonzero(differs)

    def __repr__(self) -> str:
        models = f", n_models={self.n_models}" if self.n_models > 1 else ""
        return f"Encoder(method={self.method!r}, n_bits={self.n_bits}{models}, version={self.version})"
