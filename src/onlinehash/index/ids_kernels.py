"""A hash table from ids to positions.

A slot holds a position plus one, and 0 where it is free; the ids themselves stay where they are, in `Keys`, and are
compared there (open addressing, linear probing, a power of two of slots, at most five in eight of them taken). Nothing
is ever taken out: the id of a forgotten position stays in its slot, until a new position with the same id takes it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinehash.numeric.kernels import njit

NARROW_POSITIONS = 2**32 - 2  #: As many positions fit a table of four bytes a slot.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


class Keys(NamedTuple):
    """Ids in arrays: `numbers` for integers, or `offsets` (one more than there are texts) into the UTF-8 of `data`.

    The arrays of the other kind are empty. Kernels are given read-only ones, so that they are compiled only once.
    """

    numbers: np.ndarray
    data: np.ndarray
    offsets: np.ndarray


def empty_table(n: int) -> np.ndarray:
    """An empty hash table with room for `n` positions."""
    slots = 1 << max(4, (n * 8 // 5).bit_length())
    return np.zeros(slots, np.uint32 if n <= NARROW_POSITIONS else np.int64)


def has_room(table: np.ndarray, n: int) -> bool:
    """Whether `n` positions fit into the table."""
    return n * 8 <= len(table) * 5 and (n <= NARROW_POSITIONS or table.dtype == np.int64)


@njit(nogil=True, cache=True)
def enter(table: np.ndarray, keys: Keys, dead: np.ndarray, start: int, stop: int) -> int:
    """Enter the positions from `start` to `stop`; the first whose id lives at one before it ends this, -1 if none does.

    `dead` says of each position whether it was forgotten; it is empty if none was.
    """
    numbers, data, offsets = keys  # here, as taking them out for each id would take longer than all the rest
    for position in range(start, stop):
        slot = _slot(table, numbers, data, offsets, numbers, data, offsets, position)
        if table[slot] != 0 and not (len(dead) > 0 and dead[np.int64(table[slot]) - 1]):
            return position
        table[slot] = position + 1
    return -1


@njit(nogil=True, cache=True)
def look_up(table: np.ndarray, keys: Keys, asked: Keys, found: np.ndarray) -> None:
    """The last position entered with each id that is asked for, -1 where there is none."""
    numbers, data, offsets = keys
    asked_numbers, asked_data, asked_offsets = asked
    for i in range(len(found)):
        slot = _slot(table, numbers, data, offsets, asked_numbers, asked_data, asked_offsets, i)
        found[i] = np.int64(table[slot]) - 1


@njit(nogil=True, cache=True)
def gather(keys: Keys, positions: np.ndarray, data: np.ndarray) -> None:
    """The texts at some positions, one after the other."""
    _, source, offsets = keys
    end = 0
    for position in positions:
        for i in range(offsets[position], offsets[position + 1]):
            data[end] = source[i]
            end += 1


@njit(nogil=True, cache=True, inline="always")
def _slot(  # inlined, as counting references to these arrays would take longer than the search
    table: np.ndarray,
    numbers: np.ndarray,
    data: np.ndarray,
    offsets: np.ndarray,
    asked_numbers: np.ndarray,
    asked_data: np.ndarray,
    asked_offsets: np.ndarray,
    i: int,
) -> np.int64:
    """The slot of the i-th id that is asked for, or the free one where it belongs."""
    mask = np.int64(len(table) - 1)
    if len(offsets) == 0:
        number = asked_numbers[i]
        slot = np.int64(mix(np.uint64(number))) & mask
        while table[slot] != 0 and numbers[np.int64(table[slot]) - 1] != number:
            slot = (slot + 1) & mask
        return slot
    start, stop = asked_offsets[i], asked_offsets[i + 1]
    slot = text_hash(asked_data, start, stop) & mask
    while table[slot] != 0:
        there = np.int64(table[slot]) - 1
        if _same_text(data, offsets[there], offsets[there + 1], asked_data, start, stop):
            break
        slot = (slot + 1) & mask
    return slot


@njit(nogil=True, cache=True, inline="always")
def text_hash(data: np.ndarray, start: int, stop: int) -> np.int64:
    """FNV-1a, mixed, as the last bytes alone would move only a few bits."""
    total = _FNV_START
    for k in range(start, stop):
        total = (total ^ np.uint64(data[k])) * _FNV_PRIME
    return np.int64(mix(total))


@njit(nogil=True, cache=True, inline="always")
def _same_text(a: np.ndarray, start_a: int, stop_a: int, b: np.ndarray, start_b: int, stop_b: int) -> bool:
    if stop_a - start_a != stop_b - start_b:
        return False
    while start_a < stop_a and a[start_a] == b[start_b]:
        start_a += 1
        start_b += 1
    return start_a == stop_a


@njit(nogil=True, cache=True)
def mix(value: np.uint64) -> np.uint64:
    """Mix: every bit of the value flips about half of the bits of the result."""
    value = (value ^ (value >> np.uint64(32))) * _GOLDEN
    value = (value ^ (value >> np.uint64(29))) * _GOLDEN
    return value ^ (value >> np.uint64(32))
