"""Hash tables on substrings of the codes, for multi-index hashing.

A code of r bits is cut into m substrings. Two codes within a distance of m - 1 agree in at least one of them, and more
generally: if the distance is at most t[0] + ... + t[m-1] + m - 1, then for some j the j-th substrings differ in at most
t[j] bits. So the items near a query are found in the buckets of substrings near the query's.

A table is three arrays: where each bucket begins, and bucket by bucket the items' positions (ascending) and a word of
each item's code, so that a bucket is compared without going anywhere else. For codes of up to 64 bits that word is the
whole code; for longer ones it is the 64 bits that follow the substring, whose distance is at most that of the codes,
and `rows` has all words of every code for those who pass.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes.layout import LANES
from onlinehash.codes.words import TOGETHER, bits_at
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only

#: Items per bucket that cost about as much to compare as the look-up of the bucket.
FULL_BUCKET = 40

#: The longest substring (a table of 2^24 buckets takes 64 MiB), and the most tables.
LONGEST, MOST_TABLES = 24, 16

#: As long as no more columns change, they are put into words one by one.
FEW_COLUMNS = 8

#: Positions are kept in 32 bits.
MOST_ITEMS = 2**32 - 1


class Tables(NamedTuple):
    """The tables of one model; all arrays are read-only."""

    starts: np.ndarray  # the first bit of each substring, (m,)
    widths: np.ndarray  # its length, (m,)
    offsets: np.ndarray  # bucket v of table j is [offsets[j, v], offsets[j, v + 1]), (m, 2^b + 1)
    positions: np.ndarray  # (m, n)
    words: np.ndarray  # (m, n + TOGETHER): the end can be read beyond
    rows: np.ndarray  # (n, words per code), or none if a word is the whole code

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(array.nbytes for array in self)


def cut(n_bits: int, n: int) -> np.ndarray:
    """Where the substrings of n codes begin, and where the last ends: such that buckets hold about FULL_BUCKET items.

    Of very long codes they cover only the beginning, as what is near in all bits is near in those.
    """
    width = min(max(math.log2(max(n, 1) / FULL_BUCKET), 8), LONGEST)
    m = max(1, round(n_bits / width), -(-n_bits // LONGEST))
    if m > MOST_TABLES:
        m, n_bits = MOST_TABLES, min(n_bits, MOST_TABLES * math.ceil(width))
    return np.array([n_bits * j // m for j in range(m + 1)])


def build(rows: np.ndarray, n_bits: int) -> Tables:
    """Tables of codes that are given as rows of words."""
    n = len(rows)
    if n > MOST_ITEMS:
        raise InvalidInput(f"a MultiIndex holds at most {MOST_ITEMS} items, got {n}; use a FlatIndex.")
    ends = cut(n_bits, n)
    starts, widths, m = ends[:-1].copy(), np.diff(ends), len(ends) - 1
    offsets = np.empty((m, (1 << int(widths.max())) + 1), np.uint32)
    positions, words = np.empty((m, n), np.uint32), np.zeros((m, n + TOGETHER), np.uint64)
    for j in range(m):
        _sort(rows, starts[j], widths[j], offsets[j], positions[j])
        _fill_words(rows, positions[j], word_start(ends[j + 1], n_bits), n_bits, words[j])
    return _read_only(Tables(starts, widths, offsets, positions, words, rows if n_bits > 64 else rows[:0]))


def copied(tables: Tables) -> Tables:
    """A copy in memory of its own."""
    return _read_only(Tables(*map(np.array, tables)))


def replace(tables: Tables, rows: np.ndarray, n_bits: int, columns: np.ndarray, masks: np.ndarray) -> Tables:
    """The tables after these columns of the codes have changed, in the memory of the old ones.

    Only tables whose substring changed are sorted anew. In the words of the others the columns are put in their place,
    of which `masks` has all bits: they are so few bytes that they stay in the cache, unlike the rows.
    """
    starts, ends = tables.starts, tables.starts + tables.widths
    for array in (tables.offsets, tables.positions, tables.words):
        array.flags.writeable = True  # for as long as this takes
    for j in range(len(starts)):
        offsets, positions, words = tables.offsets[j], tables.positions[j], tables.words[j]
        first = word_start(ends[j], n_bits)
        moves = bool(((columns >= starts[j]) & (columns < ends[j])).any())
        if moves:
            _sort(rows, starts[j], tables.widths[j], offsets, positions)
        if moves or len(columns) > FEW_COLUMNS:
            _fill_words(rows, positions, first, n_bits, words)
        else:
            _put_columns(positions, masks, (columns - first) % n_bits, words)
    return _read_only(tables._replace(rows=rows if n_bits > 64 else rows[:0]))


def checked(tables: Tables, n_bits: int) -> Tables:
    """Tables from a file, checked for their shapes; no value in them can lead to an access out of bounds."""
    shapes = [array.shape for array in tables]
    m, n = tables.positions.shape
    ends = np.append(0, tables.starts + tables.widths)
    if (
        [array.dtype for array in tables] != [np.int64, np.int64, np.uint32, np.uint32, np.uint64, np.uint64]
        or m == 0
        or shapes[:2] != [(m,), (m,)]
        or not np.array_equal(tables.starts, ends[:-1])
        or not ((tables.widths >= 1) & (tables.widths <= LONGEST)).all()
        or ends[-1] > n_bits
        or shapes[2] != (m, (1 << int(tables.widths.max())) + 1)
        or shapes[4] != (m, n + TOGETHER)
        or shapes[5] != (n if n_bits > 64 else 0, -(-n_bits // 64))
        or not all(array.flags.c_contiguous for array in tables)
    ):
        raise FormatError(f"the arrays of the tables do not fit substrings of {n_bits} bits.")
    return _read_only(tables)


def _read_only(tables: Tables) -> Tables:
    return Tables(*map(read_only, tables))


@njit(nogil=True, cache=True)
def word_start(end: int, n_bits: int) -> int:
    """The first bit of the word that a table keeps of each code, if its substring ends before bit `end`."""
    return end % n_bits if n_bits > 64 else 0


@njit(nogil=True, cache=True, inline="always")
def word_of(rows: np.ndarray, i: int, start: int, n_bits: int) -> Any:
    """64 bits of code i from `start` on, the first following the last; of a short code all bits."""
    if n_bits <= 64:
        word = rows[i, 0]
    elif start + 64 <= n_bits:
        word = bits_at(rows, i, start, 64)
    else:
        before_end = n_bits - start
        word = bits_at(rows, i, start, before_end)
        word |= bits_at(rows, i, 0, 64 - before_end) << np.uint64(before_end)
    return word


@njit(nogil=True, cache=True)
def _sort(rows: np.ndarray, start: int, width: int, offsets: np.ndarray, positions: np.ndarray) -> None:
    """A counting sort by substring; equal substrings stay in the order of positions."""
    offsets[:] = 0
    for i in range(rows.shape[0]):
        offsets[bits_at(rows, i, start, width) + np.uint64(1)] += np.uint32(1)
    # offsets[v + 1] counts bucket v; then it says where bucket v begins; and, as items are put there, where it ends.
    total = np.uint32(0)
    for v in range(1, offsets.shape[0]):
        count = offsets[v]
        offsets[v] = total
        total += count
    for i in range(rows.shape[0]):
        after = bits_at(rows, i, start, width) + np.uint64(1)
        positions[offsets[after]] = i
        offsets[after] += np.uint32(1)


@njit(nogil=True, cache=True)
def _fill_words(rows: np.ndarray, positions: np.ndarray, start: int, n_bits: int, words: np.ndarray) -> None:
    """The word of each item, in the order of buckets."""
    for i in range(positions.shape[0]):
        words[i] = word_of(rows, positions[i], start, n_bits)


@njit(nogil=True, cache=True)
def _put_columns(positions: np.ndarray, masks: np.ndarray, shifts: np.ndarray, words: np.ndarray) -> None:
    """Bit `shifts[c]` of each item's word = its bit in `masks[c]`; shifts beyond the word are passed over."""
    for i in range(positions.shape[0]):
        block, lane = positions[i] // LANES, np.uint64(positions[i] % LANES)
        word = words[i]
        for c in range(shifts.shape[0]):
            if shifts[c] < 64:
                shift = np.uint64(shifts[c])
                word = word & ~(np.uint64(1) << shift) | (masks[c, block] >> lane & np.uint64(1)) << shift
        words[i] = word
