"""From the words of texts to the sums of their hashed features, without the interpreter's lock.

The words of a text come as UTF-8 with one space between them, so a pair of neighbours is a part of that text too.
Words and pairs are counted in hash tables (open addressing, linear probing), by hash functions drawn at random in each
process: nobody can write a text whose words all meet in one slot. Features are hashed by MurmurHash3 (32 bits, seed 0),
whose sign is that of the feature, as scikit-learn's `FeatureHasher` does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onlinehash.numeric.kernels import njit

_SPACE, _LESS, _GREATER, _TO_LOWER = 32, ord("<"), ord(">"), 32

#: The prime of the hash function of words, a polynomial in their bytes.
_PRIME = np.uint64(2**31 - 1)


class Weights(NamedTuple):
    """What words count, by their letters; see `lexical`, which names these numbers.

    `frequent` holds words of at most 8 bytes as integers, first byte lowest; `often` what n times count, from n = 0 on.
    """

    long: int
    least: float
    pieces: float
    pairs: float
    piece: int
    frequent: np.ndarray
    often: np.ndarray


@njit(nogil=True, cache=True)
def split_ascii(text: np.ndarray, words: np.ndarray) -> int:
    """Write the words of an ASCII text as lower-case letters or digits, a space between two; returns their bytes.

    A word ends where letters, digits or anything else begin, and between a small and a capital letter. `words` has room
    for twice the text.
    """
    n, before = 0, 0  # of the last byte: 0 for none of these, 1 for a digit, 2 for a capital letter, 3 for a small one
    for byte in text:
        if 97 <= byte <= 122:
            kind = 3
        elif 65 <= byte <= 90:
            kind = 2
        elif 48 <= byte <= 57:
            kind = 1
        else:
            before = 0
            continue
        joins = before == kind or (before == 2 and kind == 3)
        if n > 0 and not joins:
            words[n] = _SPACE
            n += 1
        words[n] = byte + _TO_LOWER if kind == 2 else byte
        n += 1
        before = kind
    return n


@njit(nogil=True, cache=True)
def add_features(words: np.ndarray, stops: np.ndarray, weights: Weights, secrets: np.ndarray, sums: np.ndarray) -> None:
    """Add the features of texts to their rows of `sums`; the words of a text stop in `words` where `stops` says."""
    n_features = sums.shape[1]
    most = 1
    start = 0
    for stop in stops:
        most = max(most, _n_words(words[start:stop]))
        start = stop
    n_slots = 1 << (_n_bits(most) + 1)
    table = np.empty(n_slots, np.int32)
    ends = np.empty(most, np.int64)  # of words
    numbers = np.empty(most, np.int64)  # of words, counted as they come, those that are the same by the first of them
    firsts, counts = np.empty(most, np.int64), np.empty(most, np.int64)
    keys = np.empty(most, np.int64)
    worth = np.empty(most, np.float64)
    token = _Token(np.zeros(n_features), np.zeros(n_features, np.int64), np.empty(n_features, np.int64))
    stamp = 0
    start = 0
    for t in range(len(stops)):
        text = words[start : stops[t]]
        start = stops[t]
        if len(text) == 0:
            continue
        row = sums[t]
        n = 0
        for at in range(len(text)):
            if text[at] == _SPACE:
                ends[n] = at
                n += 1
        ends[n] = len(text)
        n += 1
        mask = (1 << (_n_bits(n) + 1)) - 1

        n_words = _count_words(text, ends[:n], secrets[0], table, mask, numbers, firsts, counts)
        for i in range(n_words):
            begin, end = _begin(ends, firsts[i]), ends[firsts[i]]
            n_letters = _n_letters(text, begin, end)
            worth[i] = _worth(text, begin, end, n_letters, weights)
            stamp += 1
            _add_word(text, begin, end, n_letters, worth[i], weights, weights.often[counts[i]], token, stamp, row)

        n_pairs = _count_pairs(numbers[:n], n_words, secrets[1], table, mask, keys, firsts, counts)
        for i in range(n_pairs):
            one, other = firsts[i], firsts[i] + 1
            value = weights.pairs * math.sqrt(worth[numbers[one]] * worth[numbers[other]])
            hashed = _murmur(text, _begin(ends, one), ends[other])
            row[_place(hashed, n_features)] += weights.often[counts[i]] * _signed(hashed, value)


class _Token(NamedTuple):
    """The features of one word: their sums at each place, the word by which that was reached last, and the places."""

    sums: np.ndarray
    stamps: np.ndarray
    places: np.ndarray


@njit(nogil=True, cache=True)
def _n_bits(n: int) -> int:
    bits = 0
    while n >> bits:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def _n_words(text: np.ndarray) -> int:
    n = 1
    for byte in text:
        n += byte == _SPACE
    return n


@njit(nogil=True, cache=True)
def _begin(ends: np.ndarray, word: int) -> int:
    return ends[word - 1] + 1 if word > 0 else 0


@njit(nogil=True, cache=True)
def _count_words(
    text: np.ndarray,
    ends: np.ndarray,
    secret: np.uint64,
    table: np.ndarray,
    mask: int,
    numbers: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Number the words in the order of coming: where each comes first, and how often; returns how many differ."""
    table[: mask + 1] = -1
    n = 0
    base = np.uint64(256) + secret % (_PRIME - np.uint64(512))
    for word in range(len(ends)):
        begin, end = _begin(ends, word), ends[word]
        key = np.uint64(0)
        for at in range(begin, end):
            key = key * base + np.uint64(text[at])
            key = (key & _PRIME) + (key >> np.uint64(31))
        key = key % _PRIME
        slot = np.int64(key) & mask
        while table[slot] >= 0 and not _are_same(text, ends, firsts[table[slot]], begin, end):
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = n
            firsts[n], counts[n] = word, 0
            n += 1
        numbers[word] = table[slot]
        counts[table[slot]] += 1
    return n


@njit(nogil=True, cache=True)
def _are_same(text: np.ndarray, ends: np.ndarray, word: int, begin: int, end: int) -> bool:
    other = _begin(ends, word)
    if ends[word] - other != end - begin:
        return False
    at = 0
    while at < end - begin and text[other + at] == text[begin + at]:
        at += 1
    return at == end - begin


@njit(nogil=True, cache=True)
def _count_pairs(
    numbers: np.ndarray,
    n_words: int,
    secret: np.uint64,
    table: np.ndarray,
    mask: int,
    keys: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Number the pairs of neighbours in the order of coming, by the numbers of their words, as words are numbered."""
    table[: mask + 1] = -1
    n = 0
    factor = secret | np.uint64(1)
    shift = np.uint64(64 - _n_bits(mask))
    for first in range(len(numbers) - 1):
        key = numbers[first] * n_words + numbers[first + 1]
        slot = np.int64((np.uint64(key) * factor) >> shift)
        while table[slot] >= 0 and keys[table[slot]] != key:
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = n
            keys[n], firsts[n], counts[n] = key, first, 0
            n += 1
        counts[table[slot]] += 1
    return n


@njit(nogil=True, cache=True)
def _n_letters(text: np.ndarray, begin: int, end: int) -> int:
    n = 0
    for at in range(begin, end):
        n += (text[at] & 0xC0) != 0x80
    return n


@njit(nogil=True, cache=True)
def _worth(text: np.ndarray, begin: int, end: int, n_letters: int, weights: Weights) -> float:
    """What a word counts; a character of a script without spaces may be a word of its own."""
    if end - begin <= 8:
        packed = np.uint64(0)
        for at in range(end - 1, begin - 1, -1):
            packed = (packed << np.uint64(8)) | np.uint64(text[at])
        for frequent in weights.frequent:
            if frequent == packed:
                return weights.least
    n = n_letters if n_letters == end - begin else 2 * n_letters
    return min(n / weights.long, 1.0)


@njit(nogil=True, cache=True)
def _add_word(
    text: np.ndarray,
    begin: int,
    end: int,
    n_letters: int,
    worth: float,
    weights: Weights,
    often: float,
    token: _Token,
    stamp: int,
    row: np.ndarray,
) -> None:
    """Add a word and its pieces, which other forms of it have too."""
    n = _add_feature(_murmur(text, begin, end), worth, token, stamp, 0)
    if n_letters >= weights.piece:
        marked = np.empty(end - begin + 2, np.uint8)
        marked[0], marked[-1] = _LESS, _GREATER
        marked[1:-1] = text[begin:end]
        value = weights.pieces * worth / math.sqrt(n_letters + 3 - weights.piece)
        first = last = 0
        for _ in range(weights.piece):
            last = _after(marked, last)
        while True:
            n = _add_feature(_murmur(marked, first, last), value, token, stamp, n)
            if last == len(marked):
                break
            first, last = _after(marked, first), _after(marked, last)
    for place in token.places[:n]:
        row[place] += often * token.sums[place]


@njit(nogil=True, cache=True)
def _after(text: np.ndarray, at: int) -> int:
    """Where the letter that begins here ends."""
    at += 1
    while at < len(text) and (text[at] & 0xC0) == 0x80:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _add_feature(hashed: np.uint32, value: float, token: _Token, stamp: int, n: int) -> int:
    """Add a feature to those of its word; returns how many places these have."""
    place = _place(hashed, len(token.sums))
    if token.stamps[place] != stamp:
        token.stamps[place], token.sums[place], token.places[n] = stamp, 0.0, place
        n += 1
    token.sums[place] += _signed(hashed, value)
    return n


@njit(nogil=True, cache=True)
def _place(hashed: np.uint32, n_features: int) -> int:
    """The absolute value of the hash as a signed integer, up to the number of features."""
    positive = hashed if hashed < np.uint32(0x80000000) else np.uint32(np.uint32(0) - hashed)
    return int(positive % np.uint32(n_features))


@njit(nogil=True, cache=True)
def _signed(hashed: np.uint32, value: float) -> float:
    return value if hashed < np.uint32(0x80000000) else -value


@njit(nogil=True, cache=True)
def _murmur(data: np.ndarray, begin: int, end: int) -> np.uint32:
    """MurmurHash3, 32 bits, of these bytes, with the seed 0."""
    hashed = np.uint32(0)
    at = begin
    while at + 4 <= end:
        block = np.uint32(data[at]) | np.uint32(data[at + 1]) << np.uint32(8)
        block = np.uint32(block | np.uint32(data[at + 2]) << np.uint32(16) | np.uint32(data[at + 3]) << np.uint32(24))
        hashed = np.uint32(hashed ^ _mixed(block))
        hashed = np.uint32(_turned(hashed, np.uint32(13)) * np.uint32(5) + np.uint32(0xE6546B64))
        at += 4
    if at < end:
        block = np.uint32(0)
        for last in range(end - 1, at - 1, -1):
            block = np.uint32(block << np.uint32(8)) | np.uint32(data[last])
        hashed = np.uint32(hashed ^ _mixed(np.uint32(block)))
    hashed = np.uint32(hashed ^ np.uint32(end - begin))
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(hashed ^ (hashed >> np.uint32(16)))


@njit(nogil=True, cache=True)
def _mixed(block: np.uint32) -> np.uint32:
    return np.uint32(_turned(np.uint32(block * np.uint32(0xCC9E2D51)), np.uint32(15)) * np.uint32(0x1B873593))


@njit(nogil=True, cache=True)
def _turned(bits: np.uint32, by: np.uint32) -> np.uint32:
    return np.uint32(np.uint32(bits << by) | (bits >> np.uint32(np.uint32(32) - by)))
