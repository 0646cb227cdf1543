"""Names that occur twice in one object of JSON. Parsers let them pass and keep the last value, which nobody meant.

A kernel finds the names of a large body, and a number for each that depends on the name and on its object; only where
two of these numbers are equal, or a name has escapes, does Python look at names.
"""

from __future__ import annotations

import json
import re

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.numeric.kernels import njit

#: In any JSON. Nothing here can match in two ways, so that a long string takes no memory.
_TOKENS = re.compile(rb'("(?:[^"\\]++|\\.)*+")([ \t\r\n]*+:)?|[\[{]|[\]}]', re.DOTALL)

#: Strings that may be cut out at once, the bytes from which a kernel is worth it, and those up to which strings are cut
#: out first: that is faster, but no other thread runs meanwhile.
_FEW_STRINGS, _LARGE, _MIDDLING = 1 << 14, 1 << 12, 1 << 18

_NO_NAMES = np.empty(0, np.uint64), np.empty((0, 4), np.int64)
_QUOTE, _BACKSLASH, _COLON, _OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = (ord(sign) for sign in '"\\:[]{}')
#: Of the hash FNV-1a with 64 bits, and an odd number that spreads the numbers of objects.
_BASIS, _PRIME, _SPREAD = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


def refuse_repeated(data: bytes) -> None:
    """Refuse JSON, known to be valid, with an object that has a name twice."""
    has_few = len(data) <= 2 * _FEW_STRINGS or (len(data) < _MIDDLING and data.count(b'"') <= 2 * _FEW_STRINGS)
    if has_few and b"\\" not in data:
        strings = data.split(b'"')[1::2]
        if len(set(strings)) == len(strings):
            return
    name = _repeated(data) if len(data) < _LARGE else _repeated_in_large(data)
    if name is not None:
        raise InvalidInput(f"the field {checks.shown(name)} occurs twice; send it once.")


def _repeated(data: bytes) -> str | None:
    """The first name that its object has already."""
    inside: list[set[str]] = []  # the names so far, of each object or list that is open
    for token in _TOKENS.finditer(data):
        if token[2] is not None:
            name = _name(token[1])
            if name in inside[-1]:
                return name
            inside[-1].add(name)
        elif token[0] in b"{[":
            inside.append(set())
        elif token[0] in b"}]":
            inside.pop()
    return None


def _name(quoted: bytes) -> str:
    return str(json.loads(quoted)) if b"\\" in quoted else quoted[1:-1].decode()


def _repeated_in_large(data: bytes) -> str | None:
    text = np.frombuffer(data, np.uint8)
    n_names, depth = _find_names(text, 0, *_NO_NAMES)
    keys, names = np.empty(n_names, np.uint64), np.empty((n_names, 4), np.int64)
    _find_names(text, depth, keys, names)
    ordered = np.sort(keys)
    doubtful = names[np.isin(keys, ordered[1:][ordered[1:] == ordered[:-1]]) | (names[:, 3] > 0), 0]
    known: set[tuple[int, str]] = set()
    plain: dict[bytes, str] = {}  # most objects of a body have the same names
    for number, start, end, _ in names[np.isin(names[:, 0], doubtful)].tolist():
        quoted = data[start:end]
        name = plain[quoted] if quoted in plain else plain.setdefault(quoted, _name(quoted))
        if (number, name) in known:
            return name
        known.add((number, name))
    return None


@njit(nogil=True, cache=True)
def _find_names(text: np.ndarray, depth: int, keys: np.ndarray, names: np.ndarray) -> tuple[int, int]:
    """How many names there are, and how deep objects and lists are inside each other.

    With that depth and with room for them, also a key for each name, the number of its object, where it begins and
    ends, with its quotes, and whether it has escapes. Of text that is no JSON the answer means nothing, but nothing
    outside of the arrays is touched.
    """
    stack = np.empty(depth + 1, np.int64)
    n_names, n_objects, number, level, deepest = 0, 0, 0, 0, 0
    at, end = 0, len(text)
    while at < end:
        sign = text[at]
        if sign == _QUOTE:
            start, key, has_escape = at, _BASIS, 0
            at += 1
            while at < end and text[at] != _QUOTE:
                if text[at] == _BACKSLASH:
                    has_escape = 1
                    at += 1
                at += 1
            at += 1
            after = at
            while after < end and (text[after] == 32 or text[after] == 9 or text[after] == 10 or text[after] == 13):
                after += 1
            if after < end and text[after] == _COLON:
                if len(keys) > 0:
                    for place in range(start, at):
                        key = (key ^ np.uint64(text[place])) * _PRIME
                    keys[n_names] = key ^ (np.uint64(number) * _SPREAD)
                    names[n_names, 0], names[n_names, 1], names[n_names, 2] = number, start, at
                    names[n_names, 3] = has_escape
                n_names += 1
            at = after
            continue
        if sign in (_OPEN, _OPEN_LIST):
            if depth > 0:
                stack[level] = number
            level += 1
            deepest = max(deepest, level)
            if sign == _OPEN:
                n_objects += 1
                number = n_objects
        elif sign in (_CLOSE, _CLOSE_LIST):
            level = max(level - 1, 0)
            if depth > 0:
                number = stack[level]
        at += 1
    return n_names, deepest
