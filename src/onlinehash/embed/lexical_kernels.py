"""From the words of texts to vectors of their hashed features, without the interpreter's lock.

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
def split_ascii(texts: np.ndarray, ends: np.ndarray, words: np.ndarray, stops: np.ndarray) -> None:
    """Write the words of ASCII texts as lower-case letters or digits, a space between two of a text.

    The texts come one behind the other and end where `ends` says; their words will stop where `stops` says. A word ends
    where letters, digits or anything else begin, and between a small and a capital letter. `words` has room for twice
    the texts.
    """
    n = end = 0
    for t in range(len(ends)):
        start, end, first = end, ends[t], n
        before = 0  # the last byte: 0 for none of these, 1 for a digit, 2 for a capital letter, 3 for a small one
        for at in range(start, end):
            byte = texts[at]
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
            if n > first and not joins:
                words[n] = _SPACE
                n += 1
            words[n] = byte + _TO_LOWER if kind == 2 else byte
            n += 1
            before = kind
        stops[t] = n


class _Token(NamedTuple):
    """The features of a word or a pair: their sums at each place, who was there last, and the places."""

    sums: np.ndarray
    stamps: np.ndarray
    places: np.ndarray


@njit(nogil=True, cache=True)
def embed(words: np.ndarray, stops: np.ndarray, weights: Weights, secrets: np.ndarray, X: np.ndarray) -> None:
    """Write the unit vectors of texts, in single precision; the words of a text stop in `words` where `stops` says."""
    most, n_features = len(weights.often), X.shape[1]
    row = np.empty(n_features)
    table = np.empty(4 * most, np.int32)
    begins, ends = np.empty(most, np.int64), np.empty(most, np.int64)  # of words
    numbers = np.empty(most, np.int64)  # of words, as they come; the same word has the same number
    firsts, counts, keys = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    worth = np.empty(most, np.float64)
    token = _Token(np.zeros(n_features), np.zeros(n_features, np.int64), np.empty(n_features, np.int64))
    marked = np.empty(len(words) + 2, np.uint8)
    stamp = stop = 0
    for t in range(len(stops)):
        start, stop = stop, stops[t]
        for place in range(n_features):
            row[place] = 0.0
            X[t, place] = 0.0
        if start == stop:
            continue
        n = 0
        begins[0] = start
        for at in range(start, stop):
            if words[at] == _SPACE:
                ends[n] = at
                n += 1
                begins[n] = at + 1
        ends[n] = stop
        n += 1
        bits = 1
        while n >> (bits - 1):
            bits += 1  # of the slots of a table that is at most half full

        n_words = _count_words(words, begins, ends, n, secrets[0], table[: 1 << bits], numbers, firsts, counts)
        for i in range(n_words):
            begin, end = begins[firsts[i]], ends[firsts[i]]
            n_letters = 0
            for at in range(begin, end):
                n_letters += (words[at] & 0xC0) != 0x80
            worth[i] = _worth(words, begin, end, n_letters, weights)
            stamp += 1
            n_places = _add_feature(words, begin, end, worth[i], token, stamp, 0)
            if n_letters >= weights.piece:  # its pieces, which other forms of it have too
                size = end - begin + 2
                marked[0], marked[size - 1] = _LESS, _GREATER
                for at in range(begin, end):  # an assignment of slices would take seconds to compile
                    marked[1 + at - begin] = words[at]
                value = weights.pieces * worth[i] / math.sqrt(n_letters + 3 - weights.piece)
                first = last = 0
                for _ in range(weights.piece):
                    last = _after(marked, last, size)
                n_places = _add_feature(marked, first, last, value, token, stamp, n_places)
                while last < size:
                    first, last = _after(marked, first, size), _after(marked, last, size)
                    n_places = _add_feature(marked, first, last, value, token, stamp, n_places)
            for place in token.places[:n_places]:
                row[place] += weights.often[counts[i]] * token.sums[place]

        n_pairs = _count_pairs(numbers, n, n_words, secrets[1], table[: 1 << bits], bits, keys, firsts, counts)
        for i in range(n_pairs):
            one, other = firsts[i], firsts[i] + 1
            value = weights.pairs * math.sqrt(worth[numbers[one]] * worth[numbers[other]])
            stamp += 1
            _add_feature(words, begins[one], ends[other], value, token, stamp, 0)
            row[token.places[0]] += weights.often[counts[i]] * token.sums[token.places[0]]

        length = math.sqrt(_squares(row, 0, n_features))
        if length > 0:
            for place in range(n_features):
                X[t, place] = row[place] / length


@njit(nogil=True, cache=True)
def _count_words(
    words: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    n: int,
    secret: np.uint64,
    table: np.ndarray,
    numbers: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Number the words in the order of coming: where each comes first, and how often; returns how many differ."""
    for slot in range(len(table)):
        table[slot] = -1
    n_words, mask = 0, len(table) - 1
    base = np.uint64(256) + secret % (_PRIME - np.uint64(512))
    for word in range(n):
        begin, length = begins[word], ends[word] - begins[word]
        key = np.uint64(0)
        for at in range(begin, begin + length):
            key = key * base + np.uint64(words[at])
            key = (key & _PRIME) + (key >> np.uint64(31))
        slot = int(np.int64(key % _PRIME)) & mask
        while table[slot] >= 0:
            other = begins[firsts[table[slot]]]
            same = 0
            if ends[firsts[table[slot]]] - other == length:
                while same < length and words[other + same] == words[begin + same]:
                    same += 1
            if same == length:
                break
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = n_words
            firsts[n_words], counts[n_words] = word, 0
            n_words += 1
        numbers[word] = table[slot]
        counts[table[slot]] += 1
    return n_words


@njit(nogil=True, cache=True)
def _count_pairs(
    numbers: np.ndarray,
    n: int,
    n_words: int,
    secret: np.uint64,
    table: np.ndarray,
    bits: int,
    keys: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Number the pairs of neighbours in the order of coming, by the numbers of their words, as words are numbered."""
    for slot in range(len(table)):
        table[slot] = -1
    n_pairs, mask = 0, len(table) - 1
    factor, shift = secret | np.uint64(1), np.uint64(64 - bits)
    for first in range(n - 1):
        key = numbers[first] * n_words + numbers[first + 1]
        slot = int(np.int64((np.uint64(key) * factor) >> shift))
        while table[slot] >= 0 and keys[table[slot]] != key:
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = n_pairs
            keys[n_pairs], firsts[n_pairs], counts[n_pairs] = key, first, 0
            n_pairs += 1
        counts[table[slot]] += 1
    return n_pairs


@njit(nogil=True, cache=True)
def _squares(x: np.ndarray, begin: int, end: int) -> float:
    """The sum of squares, in the order in which NumPy adds: earlier versions let it, and vectors stay the same."""
    n = end - begin
    if n > 128:
        middle = begin + n // 2 - n // 2 % 8
        return _squares(x, begin, middle) + _squares(x, middle, end)
    whole, total = begin + n - n % 8, 0.0
    if n >= 8:
        r0, r1, r2, r3, r4, r5, r6, r7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(begin, whole, 8):
            r0, r1, r2, r3 = r0 + x[i] ** 2, r1 + x[i + 1] ** 2, r2 + x[i + 2] ** 2, r3 + x[i + 3] ** 2
            r4, r5, r6, r7 = r4 + x[i + 4] ** 2, r5 + x[i + 5] ** 2, r6 + x[i + 6] ** 2, r7 + x[i + 7] ** 2
        total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    for i in range(whole, end):
        total += x[i] ** 2
    return total


@njit(nogil=True, cache=True)
def _worth(words: np.ndarray, begin: int, end: int, n_letters: int, weights: Weights) -> float:
    """What a word counts; a character of a script without spaces may be a word of its own."""
    if end - begin <= 8:
        packed = np.uint64(0)
        for at in range(end - 1, begin - 1, -1):
            packed = (packed << np.uint64(8)) | np.uint64(words[at])
        for frequent in weights.frequent:
            if frequent == packed:
                return weights.least
    n = n_letters if n_letters == end - begin else 2 * n_letters
    return min(n / weights.long, 1.0)


@njit(nogil=True, cache=True)
def _after(text: np.ndarray, at: int, size: int) -> int:
    """Where the letter that begins here ends."""
    at += 1
    while at < size and (text[at] & 0xC0) == 0x80:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _add_feature(data: np.ndarray, begin: int, end: int, value: float, token: _Token, stamp: int, n_places: int) -> int:
    """Add what these bytes are hashed to to a token; returns how many places that has.

    The place is the absolute value of the hash as a signed integer, up to the number of features.
    """
    hashed = _murmur(data, begin, end)
    if hashed >= np.uint32(0x80000000):
        hashed, value = np.uint32(np.uint32(0) - hashed), -value
    place = int(hashed % np.uint32(len(token.sums)))
    if token.stamps[place] != stamp:
        token.stamps[place], token.sums[place], token.places[n_places] = stamp, 0.0, place
        n_places += 1
    token.sums[place] += value
    return n_places


@njit(nogil=True, cache=True)
def _murmur(data: np.ndarray, begin: int, end: int) -> np.uint32:
    """MurmurHash3, 32 bits, of these bytes, with the seed 0."""
    hashed = np.uint32(0)
    for at in range(begin, end, 4):
        block = np.uint32(0)
        for last in range(min(at + 4, end) - 1, at - 1, -1):
            block = np.uint32(np.uint32(block << np.uint32(8)) | np.uint32(data[last]))
        block = np.uint32(block * np.uint32(0xCC9E2D51))
        block = np.uint32(np.uint32(block << np.uint32(15)) | (block >> np.uint32(17)))
        hashed = np.uint32(hashed ^ np.uint32(block * np.uint32(0x1B873593)))
        if at + 4 <= end:
            hashed = np.uint32(np.uint32(hashed << np.uint32(13)) | (hashed >> np.uint32(19)))
            hashed = np.uint32(np.uint32(hashed * np.uint32(5)) + np.uint32(0xE6546B64))
    hashed = np.uint32(hashed ^ np.uint32(end - begin))
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(hashed ^ (hashed >> np.uint32(16)))
