"""What fast supervised hashing minimises, by trying everything; what a boosted tree must be, one value at a time."""

from __future__ import annotations

import itertools

import numpy as np


def best_block(A: np.ndarray, z: np.ndarray, block: np.ndarray) -> float:
    """The least Σ_{i<j} a_ij z_i z_j that any bits of the block's points reach, all others held."""
    least = np.inf
    for bits in itertools.product((-1, 1), repeat=len(block)):
        trial = z.copy()
        trial[block] = bits
        least = min(least, float(trial @ np.triu(A, 1) @ trial))
    return least


def gain(w: np.ndarray, z: np.ndarray, left: np.ndarray) -> float:
    """How much of Σ w z² two means explain."""
    total = 0.0
    for side in (left, ~left):
        if side.any():
            total += (w[side] @ z[side]) ** 2 / w[side].sum()
    return total


def best_gain(X: np.ndarray, edges: np.ndarray, offered: np.ndarray, w: np.ndarray, z: np.ndarray) -> float:
    """Of all splits of some rows at the edges of the features on offer."""
    gains = [gain(w, z, np.ones(len(z), bool))]
    for f in offered:
        gains += [gain(w, z, X[:, f] <= edge) for edge in edges[f]]
    return max(gains)


def kept(w: np.ndarray) -> np.ndarray:
    """All rows but those of the least weights, a tenth of the weight."""
    ascending = np.sort(w)
    return w >= ascending[np.cumsum(ascending) > 0.1 * ascending.sum()][0]
