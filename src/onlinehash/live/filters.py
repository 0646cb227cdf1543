"""Filters on payload fields: what `where` may say, and the columns that answer it without a look at the payloads.

A column holds, for each position, the number of the value that the field has there. A filter is put to each distinct
value once, and its verdicts are spread over the positions. Wanted values are looked up by their hash, and so are the
elements of lists, so that a filter costs about one pass over the distinct values, however much it asks for.
"""

from __future__ import annotations

import copy
import json
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.index.keys import appended

ABSENT: Any = object()  # what a payload without the field has there; no JSON value is it
MAX_DEPTH = 32
#: Fields of one filter, and the values that all its conditions compare with, where those inside lists and dicts count.
MAX_FIELDS = 64
MAX_VALUES = 100_000
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS = (*_COMPARISONS, "!=", "in", "exists")
_CALL = "call"  # our name for what a Python function asks; users cannot say it
_ENOUGH_STALE = 1024
_AT_ONCE = 1 << 16  # values compared between two looks at the time
#: The hash of an integer is the number itself modulo 2**61 - 1. Beyond, many may share one, so their digits are hashed.
_OWN_HASH = 1 << 60

Test = tuple[str, Any]  # an operator and what it compares with
Check = Callable[[], None]  # raises if it is time to stop
Key = Any  # hashable; the same for values that are equal


def never() -> None:
    """The check of a filter that may take as long as it likes."""


class Filter(NamedTuple):
    """The tests of each field, all of which must hold, and what is called now and then while they are evaluated.

    An index takes one in place of `where`, from callers who want to stop an evaluation: `check` raises to do so.
    """

    tests: dict[str, list[Test]]
    check: Check = never


# ------------------------------------------------------------------------------------------------ what users say


def checked(where: Any, check: Check = never, *, max_fields: int = MAX_FIELDS, max_values: int = MAX_VALUES) -> Filter:
    """The filter that a user means by a dict, if it is one and not too large."""
    if isinstance(where, Filter):
        return where
    if not isinstance(where, dict) or not all(isinstance(field, str) for field in where):
        raise InvalidInput(expected="where to be a dict of fields and conditions", got=checks.shown(where))
    if len(where) > max_fields:
        raise InvalidInput(expected=f"a filter on at most {max_fields} fields", got=f"{len(where)}", hint="use fewer")
    if exceeds(where.values(), max_values):
        raise InvalidInput(f"a filter may have at most {max_values} values in all, and this one has more; use fewer.")
    return Filter({field: _tests(field, condition) for field, condition in where.items()}, check)


def exceeds(conditions: Iterable[Any], most: int) -> bool:
    """Whether conditions have more values than that, where those inside lists and dicts count."""
    n, left = 0, [conditions]
    while left:
        for value in left.pop():
            n += 1
            if n > most or (isinstance(value, list | dict) and n + len(value) > most):
                return True
            if isinstance(value, list) and _are_plain(value):  # as most long ones
                n += len(value)
            elif isinstance(value, list | dict):
                left.append(value.values() if isinstance(value, dict) else value)
    return False


def _tests(field: str, condition: Any) -> list[Test]:
    if callable(condition):
        return [(_CALL, condition)]
    if not isinstance(condition, dict):
        tests = [("in", condition if isinstance(condition, list) else [condition])]
    elif condition:
        tests = list(condition.items())
    else:
        raise InvalidInput(expected=f"operators in the condition on {field!r}", got="none", hint=f"use {_listed()}")
    return [(name, _operand(field, name, value)) for name, value in tests]


def _operand(field: str, name: str, value: Any) -> Any:
    """A copy of what an operator compares with, if it is what that operator takes."""
    if name not in _OPERATORS:
        raise InvalidInput(expected=f"one of {_listed()} in the condition on {field!r}", got=checks.shown(name))
    expected = None
    value = value.item() if isinstance(value, np.generic) else value
    if name in _COMPARISONS and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        expected = "a number or a string"
    elif name == "in" and not isinstance(value, list):
        expected = "a list of values"
    elif name == "exists" and not isinstance(value, bool):
        expected = "True or False"
    elif problem := json_problem(value):
        raise InvalidInput(expected=f"JSON values in the condition on {field!r}", got=problem)
    if expected:
        raise InvalidInput(expected=f"{expected} after {name!r} in the condition on {field!r}", got=checks.shown(value))
    return _plain(value)


def _plain(value: Any) -> Any:
    """A copy, with numbers of NumPy as their plain likes."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return value.copy() if _are_plain(value) else [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _listed() -> str:
    return ", ".join(map(repr, _OPERATORS))


_TEXT = frozenset((str,))

#: Types of most values, which need no closer look; bools are apart from integers here.
_PLAIN = frozenset((str, int, bool, type(None)))


def _are_plain(values: list[Any]) -> bool:
    return _PLAIN.issuperset(map(type, values))


def json_problem(value: Any, depth: int = 0) -> str | None:
    """What keeps a value from coming back out of JSON as it went in; None if nothing does."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, str | int):  # bools are integers
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{float(value)}, which JSON has not"
    if depth > MAX_DEPTH:
        return f"values nested more than {MAX_DEPTH} deep"
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return f"the key {checks.shown(key)}, which is no string"
    elif not isinstance(value, list):
        return f"{checks.shown(value)} of type {type(value).__name__}"
    elif _are_plain(value):
        return None
    for inner in value.values() if isinstance(value, dict) else value:
        if type(inner) not in _PLAIN and (problem := json_problem(inner, depth + 1)):
            return problem
    return None


def look_up(payload: dict[str, Any] | None, field: str, path: list[str]) -> Any:
    """The value of a field: of the key of that very name, or of the last of the keys that its dots separate."""
    if payload is None:
        return ABSENT
    if field in payload:
        return payload[field]
    value: Any = payload
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


# ------------------------------------------------------------------------------------------------ columns


class Values:
    """Different values, numbered as they came. They only grow, so that columns can share them."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.floats = np.empty(0)  # numbers rounded to float64, NaN for all else; with room at the end
        self._numbers: dict[Any, int] = {}
        # What equals a list or dict: itself, and what equals an element of a list. The numbers of both, entry by entry,
        # with room at the end.
        self.owners, self.members, self.n_members = np.empty(0, np.int32), np.empty(0, np.int32), 0
        self._members: dict[Key, int] = {}

    def numbers(self, values: list[Any]) -> np.ndarray:
        """The number of each value, new or known."""
        before, known = len(self.values), self._numbers
        numbers = []
        for value in values:
            exact = _exact(value)
            number = known.get(exact)
            if number is None:
                number = len(self.values)
                self.values.append(value)
                known[exact] = number
            numbers.append(number)
        new = self.values[before:]
        self.floats = appended(self.floats, before, np.array([_float(value) for value in new]))
        self._note_members(before, new)
        return np.array(numbers, np.int32)

    def _note_members(self, first: int, values: list[Any]) -> None:
        owners, members, known = [], [], self._members
        for number, value in enumerate(values, first):
            if isinstance(value, list | dict):
                keys = {key_of(value), *map(key_of, value if isinstance(value, list) else ())}
                members += [known.setdefault(key, len(known)) for key in keys]
                owners += [number] * len(keys)
        if owners:
            self.owners = appended(self.owners, self.n_members, np.array(owners, np.int32))
            self.members = appended(self.members, self.n_members, np.array(members, np.int32))
            self.n_members += len(owners)

    def equal(self, wanted: list[Any], n_members: int) -> np.ndarray:
        """The numbers of the values that equal one of those wanted, or are lists with an element that does."""
        are_texts = _TEXT.issuperset(map(type, wanted))  # each of which is its own key
        exact = wanted if are_texts else [key for value in wanted for key in _alike(value)]
        numbers = np.array([number for number in map(self._numbers.get, exact) if number is not None], np.int32)
        if n_members == 0:
            return numbers
        found = map(self._members.get, wanted if are_texts else map(key_of, wanted))
        members = [member for member in found if member is not None]
        if not members:
            return numbers
        is_wanted = np.zeros(len(self._members), np.bool_)
        is_wanted[members] = True
        return np.concatenate([numbers, self.owners[:n_members][is_wanted[self.members[:n_members]]]])


class Column(NamedTuple):
    """A field at all positions. It never changes: changes make another, which may share memory beyond this one's."""

    values: Values
    n_values: int  # there may be more by now, and more members
    n_members: int
    room: np.ndarray
    n: int

    @classmethod
    def of(cls, n: int, places: np.ndarray, found: list[Any]) -> Column:
        """The column of n positions, some of which have a value."""
        return cls(Values(), 0, 0, np.empty(0, np.int32), 0).appended(n, places, found)

    @property
    def numbers(self) -> np.ndarray:
        """The number of the value at each position, -1 where there is none."""
        return self.room[: self.n]

    def appended(self, n: int, places: np.ndarray, found: list[Any]) -> Column:
        """With n more positions, where values were found at some places among them."""
        room = appended(self.room, self.n, self._numbered(n, places, found))
        return self._over(room, self.n + n)

    def put(self, positions: np.ndarray, places: np.ndarray, found: list[Any]) -> Column:
        """With other values at some positions, found at some places among these; with none at the others."""
        room = self.room.copy()
        room[positions] = self._numbered(len(positions), places, found)
        new = self._over(room, self.n)
        return new.kept(np.arange(self.n)) if new.n_values > 2 * self.n + _ENOUGH_STALE else new

    def kept(self, positions: np.ndarray) -> Column:
        """Only these positions, and only the values that they have."""
        numbers = self.numbers[positions]
        used = self._used(numbers)
        values = Values()
        renumbered = np.full(self.n_values + 1, -1, np.int32)
        renumbered[used] = values.numbers([self.values.values[number] for number in used])
        return Column(values, len(values.values), values.n_members, renumbered[numbers], len(numbers))

    def _numbered(self, n: int, places: np.ndarray, found: list[Any]) -> np.ndarray:
        numbers = np.full(n, -1, np.int32)
        numbers[places] = self.values.numbers(found)
        return numbers

    def _over(self, room: np.ndarray, n: int) -> Column:
        return Column(self.values, len(self.values.values), self.values.n_members, room, n)

    def _used(self, numbers: np.ndarray) -> np.ndarray:
        used = np.zeros(self.n_values + 1, np.bool_)
        used[numbers] = True
        return np.flatnonzero(used[:-1])

    # -------------------------------------------------------------------------------------------- answers

    def admitted(self, tests: list[Test], check: Check = never) -> np.ndarray:
        """The positions where all tests hold, as a mask."""
        verdict = np.logical_and.reduce([self._verdict(name, operand, check) for name, operand in tests])
        mask: np.ndarray = verdict[self.numbers]
        return mask

    def _verdict(self, name: str, operand: Any, check: Check) -> np.ndarray:
        """A test of each distinct value and, last, where the number -1 finds it, of none."""
        check()
        verdict = np.zeros(self.n_values + 1, np.bool_)
        if name in ("in", "!="):
            numbers = self.values.equal(operand if name == "in" else [operand], self.n_members)
            verdict[numbers[numbers < self.n_values]] = True
            return verdict if name == "in" else ~verdict
        if name == "exists":
            verdict[:-1], verdict[-1] = operand, not operand
        elif name == _CALL:
            for number in self._used(self.numbers):  # nobody's function should meet values that nobody has any more
                check()
                verdict[number] = bool(operand(copy.deepcopy(self.values.values[number])))
        else:
            verdict[:-1] = self._compared(_COMPARISONS[name], operand, check)
        return verdict

    def _compared(self, compare: Callable[[Any, Any], Any], bound: Any, check: Check) -> Any:
        values = self.values.values
        if isinstance(bound, str):
            verdicts: list[bool] = []
            for start in range(0, self.n_values, _AT_ONCE):
                check()
                some = values[start : min(start + _AT_ONCE, self.n_values)]
                verdicts += [isinstance(value, str) and compare(value, bound) for value in some]
            return verdicts
        floats, rounded = self.values.floats[: self.n_values], _float(bound)
        verdict = compare(floats, rounded)
        for number in np.flatnonzero(floats == rounded):  # rounding keeps the order but may make integers equal
            verdict[number] = compare(values[number], bound)
        return verdict


def key_of(value: Any) -> Key:
    """The same for JSON values that are equal, and only for those: as Python's equality, but True is not 1."""
    kind = type(value)
    if kind is str:
        return value
    if kind is list:
        return (list, *map(key_of, value))
    if kind is dict:
        return dict, frozenset((name, key_of(inner)) for name, inner in value.items())
    if (kind is float and not value.is_integer()) or value is None or kind is bool:
        return kind, value
    return _whole(int(value))


def _whole(value: int) -> Key:
    return value if -_OWN_HASH < value < _OWN_HASH else (int, hex(value))


def _exact(value: Any) -> Key:
    """As `key_of`, but other for values that are equal and not the same: 1 and 1.0, and so on inside lists."""
    kind = type(value)
    if kind is str:
        return value
    if kind is int:
        return _whole(value)
    return kind, json.dumps(value) if kind is list or kind is dict else value


def _alike(value: Any) -> tuple[Key, ...]:
    """The exact keys of all values that equal one that is neither list nor dict."""
    kind = type(value)
    if kind is list or kind is dict:
        return ()
    if (kind is int or kind is float) and value == value // 1:
        return _whole(int(value)), (float, value)
    return (_exact(value),)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
