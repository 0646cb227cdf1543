"""JSON lists of numbers straight into arrays: what a general parser and `np.array` give, in a third of the time.

Python's objects are what costs: a list of 512 floats is 512 of them. Those of large bodies also leave holes in memory
that Python neither fills nor gives back. Here the digits of a number become an integer,
which a power of ten multiplies or divides. Up to 2**53 and 10**22 both are exact floats, so there is one rounding;
beyond, what the first operation leaves over is kept in a second float (Dekker, *A floating-point technique for
extending the available precision*, 1971), and the sum of both is rounded once, as the true value would be. Where that
cannot be known (more digits, other powers, a value halfway between two floats), or the text is no list of numbers,
nothing is parsed, and the caller uses the general parser.

Positions are unsigned, because Numba checks of every signed index whether it counts from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64

from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only

#: Powers of ten that are floats, and the integers up to which all are.
_POWERS = read_only(10.0 ** np.arange(23))
_EXACT = uint64(2**53)

#: Bytes that are copied so fast that nobody waits.
_SMALL = 1 << 16

#: Digits that fit into 63 bits, whatever they are.
_MOST_DIGITS = uint64(18)

#: Parts a float into two halves whose products are exact.
_HALVES = 2.0**27 + 1

_MORE, _LESS = 1.0 + 2.0**-40, 1.0 - 2.0**-40
_NONE, _ONE, _TEN, _ZERO = uint64(0), uint64(1), uint64(10), uint64(ord("0"))
_SPACES = b" \t\r\n"
_COMMA, _OPEN, _CLOSE, _MINUS, _PLUS, _DOT = (ord(sign) for sign in ",[]-+.")


def parse(data: bytes, start: int) -> tuple[np.ndarray, int] | None:
    """The float32 values of the list at `data[start]`, and where the text goes on; None for the general parser."""
    values = np.empty((len(data) - start) // 2 + 1, np.float32)  # a number and a comma each
    n, end = _parse(_ended(data), start, values)
    return None if n < 0 else (values[:n], end)


def parse_points(data: bytes | memoryview) -> np.ndarray | None:
    """The float32 values of a text that is one list, or a list of lists of one length; None for the general parser."""
    text = _ended(data)
    values = np.empty(np.count_nonzero(text == _COMMA) + 1, np.float32)
    n_rows, width, end = _parse_rows(text, values)
    if n_rows < 0:  # it is no list of lists
        width, end = _parse(text, 0, values)
    if width < 0 or bytes(text[end:-1]).strip(_SPACES):
        return None
    return values[:width] if n_rows < 0 else values[: n_rows * width].reshape(n_rows, width)


def _ended(data: bytes | memoryview) -> np.ndarray:
    """The text and a zero, so that no number goes on beyond the end. NumPy lets other threads run while it copies."""
    if isinstance(data, bytes) and len(data) < _SMALL:
        return np.frombuffer(data + b"\0", np.uint8)
    given = np.frombuffer(data, np.uint8)
    text = np.empty(len(given) + 1, np.uint8)
    text[:-1], text[-1] = given, 0
    return read_only(text)


@njit(nogil=True, cache=True, error_model="numpy")
def _parse_rows(text: np.ndarray, values: np.ndarray) -> tuple[Any, Any, Any]:
    """How many lists there are, how many numbers each has, and where they end; -1 and -1 for the general parser."""
    at = _skip(text, _NONE)
    if text[at] != _OPEN:
        return -1, -1, 0
    n_rows, width, n = 0, 0, 0
    while True:
        n_here, end = _parse(text, np.int64(at) + 1, values[n:])
        if n_here < 0 or (n_rows > 0 and n_here != width):
            return -1, -1, 0
        n_rows, width, n = n_rows + 1, n_here, n + n_here
        at = _skip(text, uint64(end))
        if text[at] == _CLOSE:
            return n_rows, width, np.int64(at) + 1
        if text[at] != _COMMA:
            return -1, -1, 0


@njit(nogil=True, cache=True, error_model="numpy")
def _parse(text: np.ndarray, start: int | np.signedinteger[Any], values: np.ndarray) -> tuple[Any, Any]:
    """How many numbers there are, and where the list ends; -1 for the general parser.

    One loop without helper functions, which would pass positions and digits through memory.
    """
    at = _skip(text, uint64(start))
    if text[at] != _OPEN:
        return -1, 0
    for n in range(len(values)):
        at = _skip(text, at + _ONE)
        negative = text[at] == _MINUS
        if negative:
            at += _ONE

        # digits before a point
        first, digits, power = at, _NONE, np.int64(0)
        digit = uint64(text[at]) - _ZERO
        while digit < _TEN:
            digits = digits * _TEN + digit
            at += _ONE
            digit = uint64(text[at]) - _ZERO
        length = at - first
        if length == _NONE or (length > _ONE and uint64(text[first]) == _ZERO):
            return -1, 0

        # digits after it; zeros that begin a number do not count as digits of it
        if text[at] == _DOT:
            at += _ONE
            first = at
            if digits == _NONE:
                length = _NONE
                while uint64(text[at]) == _ZERO:
                    at += _ONE
            length -= at
            digit = uint64(text[at]) - _ZERO
            while digit < _TEN:
                digits = digits * _TEN + digit
                at += _ONE
                digit = uint64(text[at]) - _ZERO
            length += at
            if at == first:
                return -1, 0
            power = -np.int64(at - first)
        if length > _MOST_DIGITS:
            return -1, 0

        # an exponent
        if text[at] == 101 or text[at] == 69:  # e or E
            at += _ONE
            below = text[at] == _MINUS
            if below or text[at] == _PLUS:
                at += _ONE
            first, exponent = at, np.int64(0)
            digit = uint64(text[at]) - _ZERO
            while digit < _TEN and at - first < _MOST_DIGITS:
                exponent = exponent * 10 + np.int64(digit)
                at += _ONE
                digit = uint64(text[at]) - _ZERO
            if at == first:
                return -1, 0
            power += -exponent if below else exponent

        value = _scaled(digits, power)
        if value != value:
            return -1, 0
        values[n] = -value if negative else value
        at = _skip(text, at)
        if text[at] == _CLOSE:
            return n + 1, np.int64(at) + 1
        if text[at] != _COMMA:
            return -1, 0
    return -1, 0


@njit(nogil=True, cache=True, inline="always")
def _skip(text: np.ndarray, at: np.uint64) -> np.uint64:
    """Past spaces."""
    while text[at] == 32 or text[at] == 10 or text[at] == 13 or text[at] == 9:
        at += _ONE
    return at


@njit(nogil=True, cache=True, error_model="numpy")
def _scaled(digits: np.uint64, power: np.int64) -> float:
    """The float nearest to digits * 10**power; NaN for the general parser."""
    if digits == _NONE:
        return 0.0
    if power < -22 or power > 22:
        return np.nan
    high = np.float64(digits)
    if digits <= _EXACT:
        exact: float = high * _POWERS[power] if power > 0 else high / _POWERS[-power]
        return exact
    low = np.float64(np.int64(digits) - np.int64(high))
    if power >= 0:
        by = _POWERS[power]
        first = high * by
        second = _rest(high, by, first) + low * by
    else:
        by = _POWERS[-power]
        first = high / by
        product = first * by
        second = ((high - product) - _rest(first, by, product) + low) / by
    value = first + second
    # The second is rounded too: a little more or less of it must not matter.
    return value if first + second * _MORE == value and first + second * _LESS == value else np.nan


@njit(nogil=True, cache=True, inline="always")
def _rest(a: float, b: float, product: float) -> float:
    """a * b - product, exactly, if product is a * b rounded."""
    t = _HALVES * a
    a_high = t - (t - a)
    t = _HALVES * b
    b_high = t - (t - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
