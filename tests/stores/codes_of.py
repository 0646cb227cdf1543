"""Codes for tests of search, and the slow obvious way to find the nearest of them."""

from __future__ import annotations

import numpy as np

from onlinehash import Codes
from onlinehash.stores.backend import Layout


def drawn(layout: Layout, bits: np.ndarray) -> np.ndarray:
    """The rows of codes that have these bits, (n, n_models * n_bits)."""
    return Codes.from_bits(bits, layout.n_models).rows()


def clustered(layout: Layout, n: int, seed: int = 0, noise: float = 0.03) -> np.ndarray:
    """Rows of codes near few centres, with many ties."""
    rng = np.random.default_rng(seed)
    centres = rng.random((max(1, n // 50), layout.n_models * layout.n_bits)) < 0.5
    bits = centres[rng.integers(0, len(centres), n)]
    return drawn(layout, bits ^ (rng.random(bits.shape) < noise))


def opposite(layout: Layout, codes: np.ndarray) -> np.ndarray:
    """Codes that differ in all bits."""
    return codes ^ drawn(layout, np.ones((1, layout.n_models * layout.n_bits), np.bool_))[0]


def away(layout: Layout, codes: np.ndarray, code: np.ndarray) -> np.ndarray:
    """The distance of each code from one: the least of all groups."""
    distances, begin = [], 0
    for n_bits in layout.groups:
        part = slice(begin, begin := begin + n_bits // 8)
        distances.append(np.bitwise_count(codes[:, part] ^ code[part]).sum(axis=1, dtype=np.int64))
    nearest: np.ndarray = np.min(distances, axis=0)
    return nearest
