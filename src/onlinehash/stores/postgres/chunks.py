"""Codes cut into integers, each small enough for a btree: what multi-index hashing looks up.

If two codes differ in fewer bits than there are chunks, they agree in one of them. `multi_index` has the rest of it.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from onlinehash.stores.backend import Layout

#: Bits of a chunk at most. To fetch an item costs more than to look up a value, so buckets may well be almost empty;
#: and codes of 64 bits get three btrees, which take less room and time than four.
WIDTH = 22
#: Chunks of all groups together at most, as each has a btree that every change must write. Of longer codes they cover
#: the beginning: what is near in all bits is near in those.
MOST = 16


class Chunks:
    """Where the chunks of each group lie. Bits of padding, which all codes share, are in none of them."""

    def __init__(self, layout: Layout, width: int = WIDTH) -> None:
        self.columns: list[str] = []  #: Names of the chunks, numbered over all groups.
        self.of_group: list[list[int]] = []  #: The numbers of each group's chunks.
        self.widths: list[int] = []  #: Bits of each chunk.
        self._bits: list[np.ndarray] = []  # which bits of a row of codes each chunk consists of
        begin = 0
        for n_bits in layout.groups:
            used = begin + _used(layout.n_bits, n_bits)
            m = min(-(-len(used) // width), max(1, MOST // len(layout.groups)))
            parts = np.array_split(used[: m * width], m)
            self.of_group.append(list(range(len(self.columns), len(self.columns) + m)))
            self.columns += [f"chunk{number}" for number in self.of_group[-1]]
            self.widths += map(len, parts)
            self._bits += parts
            begin += n_bits

    def values(self, codes: np.ndarray) -> np.ndarray:
        """The chunks of codes, uint8 (n, n_bytes), as int64 (n, number of chunks)."""
        bits = np.unpackbits(codes, axis=1)
        values = np.empty((len(codes), len(self.columns)), np.int64)
        for number, places in enumerate(self._bits):
            word = np.zeros((len(codes), 32), np.uint8)
            word[:, 32 - len(places) :] = bits[:, places]
            values[:, number] = np.packbits(word, axis=1).view(">u4")[:, 0]
        return values

    def keys(self, value: int, n_bits: int, radius: int) -> list[int]:
        """All values of `n_bits` bits that differ from one in exactly `radius` of them."""
        keys: list[int] = (value ^ _flips(n_bits, radius)).tolist()
        return keys


@cache
def _flips(n_bits: int, radius: int) -> np.ndarray:
    """All numbers of `n_bits` bits of which exactly `radius` are set."""
    places = [1 << place for place in range(n_bits)]
    return np.array([sum(flipped) for flipped in itertools.combinations(places, radius)], np.int64)


def _used(n_bits: int, padded: int) -> np.ndarray:
    """The bits of a group that are no padding: of each model the first `n_bits`, byte by byte from the lowest on."""
    place = np.arange(padded).reshape(-1, (n_bits + 7) // 8, 8)
    lowest_first: np.ndarray = place[:, :, ::-1].reshape(len(place), -1)[
        :, :n_bits
    ]  # `unpackbits` has the highest first
    return lowest_first.ravel()


def bit_texts(layout: Layout, code: np.ndarray) -> list[str]:
    """The groups of one code as PostgreSQL writes its type `bit`: byte after byte, each from its highest bit on."""
    ends = np.cumsum(layout.groups)
    digits = "".join(map(str, np.unpackbits(code)))
    return [digits[end - n_bits : end] for n_bits, end in zip(layout.groups, ends, strict=True)]
