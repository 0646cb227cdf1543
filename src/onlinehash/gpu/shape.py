"""How codes lie on a card: groups of 128, in words of 32 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

#: Codes in a group. A warp reads one word of each of them with 16 bytes a thread.
GROUP = 128

#: Bytes that codes leave free on a card: for keys, recordings and uploads.
SEARCH_BYTES = 512 << 20

#: The longest list that `pick` takes, as in `kernels.cu`.
PICKED = 2048

#: Where more than so many times the codes that are needed lie at a bound, the bound gets a limit, as in `kernels.cu`.
CROWD = 4

#: A limit that no position reaches.
NO_LIMIT = np.iinfo(np.int64).max

#: Positions take the lower 48 bits of a key, distances the rest.
POSITION_BITS = 48
_POSITIONS = np.uint64((1 << POSITION_BITS) - 1)


@dataclass(frozen=True)
class Shape:
    """`models` codes of `per_model` bytes for each item, each padded to whole words; `models` is 1 under `sum`."""

    models: int
    per_model: int

    @property
    def words(self) -> int:
        """Words of one model's code."""
        return -(-self.per_model // 4)

    @property
    def row(self) -> int:
        """Words of an item."""
        return self.models * self.words

    @property
    def farthest(self) -> int:
        """The greatest distance that the kernels count."""
        return 32 * self.words

    def n_groups(self, n: int) -> int:
        """Groups that hold n codes."""
        return -(-n // GROUP)

    def nbytes(self, n: int) -> int:
        """Bytes of n codes on the card."""
        return self.n_groups(n) * GROUP * self.row * 4

    def mask_bytes(self, n: int) -> int:
        """Bytes of a mask of those of n codes that live."""
        return self.n_groups(n) * GROUP // 8

    def needed(self, n: int) -> int:
        """Bytes of n codes, of two masks of what lives, as forks have one each, and of what searches need."""
        return self.nbytes(n) + 2 * self.mask_bytes(n) + SEARCH_BYTES

    def words_of(self, rows: np.ndarray) -> np.ndarray:
        """Codes given as rows of bytes, as words `(n, row)`."""
        padded = np.zeros((len(rows), self.models, 4 * self.words), np.uint8)
        padded[:, :, : self.per_model] = rows.reshape(len(rows), self.models, self.per_model)
        return padded.reshape(len(rows), -1).view("<u4")


def distances_of(keys: np.ndarray) -> np.ndarray:
    """The distances in keys."""
    return (keys >> np.uint64(POSITION_BITS)).astype(np.uint16)


def positions_of(keys: np.ndarray) -> np.ndarray:
    """The positions in keys."""
    return (keys & _POSITIONS).astype(np.int64)


class Bounds(NamedTuple):
    """Up to which distance each query keeps codes, and before which position those at that very distance.

    `past` is the position past all limits that there are, 0 if there are none, and `beyond` the bounds that hold there.
    Both are None where limits do not come from `limit`. Arrays are int32 (bounds, beyond) and int64.
    """

    bounds: Any
    limits: Any
    past: Any = None
    beyond: Any = None


class Relevant(NamedTuple):
    """What is relevant to queries: masks of 64 positions a word, which of them is each query's, and counts to add to.

    Masks `(n_masks, words)` uint64 cover whole groups, `which` is int32, `hits` is uint64 `(n_queries, distances)`.
    """

    masks: Any
    which: Any
    hits: Any
