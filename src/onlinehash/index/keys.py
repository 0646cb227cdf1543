"""Ids in arrays: taken from what a user gives, grown, picked out, and given back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.index.ids_kernels import Keys, empty_table, enter, gather
from onlinehash.numeric.views import read_only

LARGEST = 2**63 - 1  #: The largest integer that can be an id.


_NO_NUMBERS, _NO_DATA, _NO_OFFSETS = (read_only(np.empty(0, dtype)) for dtype in (np.int64, np.uint8, np.int64))


def of_numbers(numbers: np.ndarray) -> Keys:
    """Integers as ids."""
    return Keys(numbers, _NO_DATA, _NO_OFFSETS)


def of_texts(data: np.ndarray, offsets: np.ndarray) -> Keys:
    """Strings as ids."""
    return Keys(_NO_NUMBERS, data, offsets)


def are_texts(keys: Keys) -> bool:
    """Whether they are strings; else they are integers."""
    return len(keys.offsets) > 0


def count(keys: Keys) -> int:
    """How many ids there are."""
    return len(keys.offsets) - 1 if are_texts(keys) else len(keys.numbers)


def given(ids: ArrayLike | Sequence[object]) -> Keys:
    """A user's ids, copied; refused unless all of them are integers of 64 bits, or all are strings."""
    try:
        # NumPy alone would make strings of the numbers beside a string, and drop zeros at the end of strings.
        array = np.array(ids, object) if isinstance(ids, list | tuple) else np.asarray(ids)
    except ValueError:
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InvalidInput(expected="a sequence of integers or of strings as ids", got=checks.shown(ids))
    types = set(map(type, array)) if array.dtype.kind in "OT" else {array.dtype.type}
    if not array.size:
        types.clear()
    if all(issubclass(t, int | np.integer) and not issubclass(t, bool | np.timedelta64) for t in types):
        return of_numbers(_int64(array))
    if all(issubclass(t, str) for t in types):
        return _utf8(array)
    names = " and ".join(sorted(t.__name__ for t in types))
    raise InvalidInput(expected="ids that are all integers or all strings", got=names)


def _int64(array: np.ndarray) -> np.ndarray:
    try:
        if array.dtype != np.uint64 or array.max(initial=0) <= LARGEST:
            return np.array(array, np.int64)
    except OverflowError:
        pass
    bad = next(int(value) for value in array if not -LARGEST - 1 <= int(value) <= LARGEST)
    raise InvalidInput(expected="64-bit integers as ids", got=checks.shown(bad), hint="use strings for such ids")


def _utf8(texts: np.ndarray) -> Keys:
    data, offsets = bytearray(), np.zeros(len(texts) + 1, np.int64)
    for i, text in enumerate(texts):
        try:
            data += text.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                f"the id {checks.shown(str(text))} is not valid Unicode: it contains half of a surrogate pair."
            ) from None
        offsets[i + 1] = len(data)
    return of_texts(np.frombuffer(data, np.uint8), offsets)


def frozen(keys: Keys, n: int) -> Keys:
    """Read-only views of the first n ids, without the room after them."""
    if are_texts(keys):
        return of_texts(read_only(keys.data[: keys.offsets[n]]), read_only(keys.offsets[: n + 1]))
    return of_numbers(read_only(keys.numbers[:n]))


def joined(keys: Keys, n: int, more: Keys) -> Keys:
    """The first n ids and more after them; what `frozen` showed of them before stays as it was."""
    if not are_texts(more):
        return of_numbers(appended(keys.numbers, n, more.numbers))
    end = int(keys.offsets[n])
    return of_texts(
        appended(keys.data, end, more.data), appended(keys.offsets, n + 1, more.offsets[1:] + np.int64(end))
    )


def appended(array: np.ndarray, n: int, values: np.ndarray) -> np.ndarray:
    """The first n entries and the values after them, in the same memory if there is room.

    If not, room grows by half, so that adding one by one stays cheap.
    """
    end = n + len(values)
    if end == n:
        return array
    if end > len(array):
        larger = np.empty(max(end, n * 3 // 2), array.dtype)
        larger[:n] = array[:n]
        array = larger
    array[n:end] = values
    return array


def taken(keys: Keys, positions: np.ndarray) -> Keys:
    """The ids at some positions."""
    if not are_texts(keys):
        return of_numbers(keys.numbers[positions])
    offsets = np.zeros(len(positions) + 1, np.int64)
    np.cumsum(keys.offsets[positions + 1] - keys.offsets[positions], out=offsets[1:])
    data = np.empty(offsets[-1], np.uint8)
    gather(keys, positions, data)
    return of_texts(data, offsets)


def shown_at(keys: Keys, positions: np.ndarray) -> np.ndarray:
    """The ids at some positions as a user sees them: int64, or str objects, in the shape of the positions."""
    if not are_texts(keys):
        return np.asarray(keys.numbers[positions])
    flat, data = positions.reshape(-1), keys.data.data
    starts, stops = keys.offsets[flat].tolist(), keys.offsets[flat + 1].tolist()
    texts = np.empty(len(flat), object)
    try:
        texts[:] = [str(data[start:stop], "utf-8") for start, stop in zip(starts, stops, strict=True)]
    except UnicodeDecodeError:
        raise FormatError("the ids are not valid UTF-8; restore the index file from a copy.") from None
    return texts.reshape(positions.shape)


def rise(values: np.ndarray) -> bool:
    """Whether each value is above the one before."""
    return bool((values[1:] > values[:-1]).all())


def repeated(keys: Keys) -> int:
    """The place of an id that occurs before it too, -1 if there is none."""
    if not are_texts(keys) and rise(keys.numbers):
        return -1
    n = count(keys)
    return enter(empty_table(n), frozen(keys, n), read_only(np.empty(0, np.bool_)), 0, n)
