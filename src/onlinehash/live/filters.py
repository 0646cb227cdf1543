"""Filters on payload fields: what `where` may say, and the columns that answer it without a look at the payloads.

A column holds, for each position, the number of the value that the field has there. A filter is put to each distinct
value once, and its verdicts are spread over the positions.
"""

from __future__ import annotations

import copy
import json
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.index.keys import appended

ABSENT: Any = object()  # what a payload without the field has there; no JSON value is it
MAX_DEPTH = 32
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS = (*_COMPARISONS, "!=", "in", "exists")
_CALL = "call"  # our name for what a Python function asks; users cannot say it
_ENOUGH_STALE = 1024

Test = tuple[str, Any]  # an operator and what it compares with


# ------------------------------------------------------------------------------------------------ what users say


def checked(where: Any) -> dict[str, list[Test]]:
    """The tests of each field, all of which must hold."""
    if not isinstance(where, dict) or not all(isinstance(field, str) for field in where):
        raise InvalidInput(f"expected where to be a dict of fields and conditions, got {checks.shown(where)}.")
    return {field: _tests(field, condition) for field, condition in where.items()}


def _tests(field: str, condition: Any) -> list[Test]:
    if callable(condition):
        return [(_CALL, condition)]
    if not isinstance(condition, dict):
        tests = [("in", condition if isinstance(condition, list) else [condition])]
    elif condition:
        tests = list(condition.items())
    else:
        raise InvalidInput(f"expected operators in the condition on {field!r}, got none; use {_listed()}.")
    return [(name, _operand(field, name, value)) for name, value in tests]


def _operand(field: str, name: str, value: Any) -> Any:
    """A copy of what an operator compares with, if it is what that operator takes."""
    if name not in _OPERATORS:
        raise InvalidInput(f"expected one of {_listed()} in the condition on {field!r}, got {checks.shown(name)}.")
    expected = None
    value = value.item() if isinstance(value, np.generic) else value
    if name in _COMPARISONS and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        expected = "a number or a string"
    elif name == "in" and not isinstance(value, list):
        expected = "a list of values"
    elif name == "exists" and not isinstance(value, bool):
        expected = "True or False"
    elif problem := json_problem(value):
        raise InvalidInput(f"expected JSON values in the condition on {field!r}, got {problem}.")
    if expected:
        raise InvalidInput(
            f"expected {expected} after {name!r} in the condition on {field!r}, got {checks.shown(value)}."
        )
    return _plain(value)


def _plain(value: Any) -> Any:
    """A copy, with numbers of NumPy as their plain likes."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _listed() -> str:
    return ", ".join(map(repr, _OPERATORS))


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
    for inner in value.values() if isinstance(value, dict) else value:
        problem = json_problem(inner, depth + 1)
        if problem:
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
        self.nested: list[int] = []  # the numbers of lists and dicts
        self._numbers: dict[Any, int] = {}

    def numbers(self, values: list[Any]) -> np.ndarray:
        """The number of each value, new or known; -1 where it is absent."""
        before, known = len(self.values), self._numbers
        numbers = []
        for value in values:
            if value is ABSENT:
                numbers.append(-1)
                continue
            key, kind = value, type(value)
            if kind is list or kind is dict:
                key = (kind, json.dumps(value))
            elif kind is not str and kind is not int:  # so that True, 1 and 1.0, which are equal to Python, stay apart
                key = (kind, value)
            number = known.get(key)
            if number is None:
                number = len(self.values)
                self.values.append(value)
                if kind is list or kind is dict:
                    self.nested.append(number)
                known[key] = number
            numbers.append(number)
        self.floats = appended(self.floats, before, np.array([_float(value) for value in self.values[before:]]))
        return np.array(numbers, np.int32)

    def equal(self, wanted: Any) -> list[int]:
        """The numbers of the values that are neither list nor dict and equal the wanted one."""
        if isinstance(wanted, list | dict):
            return []
        keys: list[Any] = [wanted, (float, wanted)]  # a number may be there as either
        if wanted is None or isinstance(wanted, bool):
            keys = [(type(wanted), wanted)]
        return [self._numbers[key] for key in keys if key in self._numbers]


class Column(NamedTuple):
    """A field at all positions. It never changes: changes make another, which may share memory beyond this one's."""

    values: Values
    n_values: int  # there may be more by now
    room: np.ndarray
    n: int

    @classmethod
    def of(cls, found: list[Any]) -> Column:
        """The column of the values found at positions 0, 1, ..."""
        return cls(Values(), 0, np.empty(0, np.int32), 0).appended(found)

    @property
    def numbers(self) -> np.ndarray:
        """The number of the value at each position, -1 where there is none."""
        return self.room[: self.n]

    def appended(self, found: list[Any]) -> Column:
        """With more positions."""
        room = appended(self.room, self.n, self.values.numbers(found))
        return Column(self.values, len(self.values.values), room, self.n + len(found))

    def put(self, positions: np.ndarray, found: list[Any]) -> Column:
        """With other values at some positions."""
        room = self.room.copy()
        room[positions] = self.values.numbers(found)
        new = Column(self.values, len(self.values.values), room, self.n)
        return new.kept(np.arange(self.n)) if new.n_values > 2 * self.n + _ENOUGH_STALE else new

    def kept(self, positions: np.ndarray) -> Column:
        """Only these positions, and only the values that they have."""
        numbers = self.numbers[positions]
        used = self._used(numbers)
        values = Values()
        renumbered = np.full(self.n_values + 1, -1, np.int32)
        renumbered[used] = values.numbers([self.values.values[number] for number in used])
        return Column(values, len(values.values), renumbered[numbers], len(numbers))

    def _used(self, numbers: np.ndarray) -> np.ndarray:
        used = np.zeros(self.n_values + 1, np.bool_)
        used[numbers] = True
        return np.flatnonzero(used[:-1])

    # -------------------------------------------------------------------------------------------- answers

    def admitted(self, tests: list[Test]) -> np.ndarray:
        """The positions where all tests hold, as a mask."""
        verdict = np.logical_and.reduce([self._verdict(name, operand) for name, operand in tests])
        mask: np.ndarray = verdict[self.numbers]
        return mask

    def _verdict(self, name: str, operand: Any) -> np.ndarray:
        """A test of each distinct value and, last, where the number -1 finds it, of none."""
        verdict = np.zeros(self.n_values + 1, np.bool_)
        if name == "in":
            self._find(operand, verdict)
        elif name == "!=":
            self._find([operand], verdict)
            return ~verdict
        elif name == "exists":
            verdict[:-1], verdict[-1] = operand, not operand
        elif name == _CALL:
            for number in self._used(self.numbers):  # nobody's function should meet values that nobody has any more
                verdict[number] = bool(operand(copy.deepcopy(self.values.values[number])))
        else:
            verdict[:-1] = self._compared(_COMPARISONS[name], operand)
        return verdict

    def _find(self, wanted: list[Any], verdict: np.ndarray) -> None:
        """True for values that equal one of those wanted, or are lists with an element that does."""
        numbers = [number for one in wanted for number in self.values.equal(one)]
        verdict[[number for number in numbers if number < self.n_values]] = True
        for number in self.values.nested:
            if number >= self.n_values:
                break
            value = self.values.values[number]
            elements = [value, *value] if isinstance(value, list) else [value]
            verdict[number] = any(same(element, one) for element in elements for one in wanted)

    def _compared(self, compare: Callable[[Any, Any], Any], bound: Any) -> Any:
        if isinstance(bound, str):
            return [isinstance(value, str) and compare(value, bound) for value in self.values.values[: self.n_values]]
        floats, rounded = self.values.floats[: self.n_values], _float(bound)
        verdict = compare(floats, rounded)
        for number in np.flatnonzero(floats == rounded):  # rounding keeps the order but may make integers equal
            verdict[number] = compare(self.values.values[number], bound)
        return verdict


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: as Python's, but True is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
