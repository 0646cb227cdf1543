"""A sample of ids that stays the same while others come and go."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from onlinehash.index.api import Id

#: The sample is drawn from the first items.
MOST_LOOKED_AT = 50_000
_MIX = np.uint64(0x9E3779B97F4A7C15)


def sample(ids: np.ndarray, n: int) -> list[Id]:
    """At most n of the ids: those whose hash is smallest, in the order of insertion."""
    ids = ids[:MOST_LOOKED_AT]
    chosen = np.sort(np.argsort(hashes(ids), kind="stable")[:n])
    found: list[Id] = ids[chosen].tolist()
    return found


def hashes(ids: np.ndarray) -> np.ndarray:
    """A pseudorandom number for each id, always the same."""
    if ids.dtype.kind == "i":
        return (ids.astype(np.uint64) + np.uint64(1)) * _MIX
    return np.array([crc32(id.encode()) for id in ids.tolist()], np.uint64) * _MIX
