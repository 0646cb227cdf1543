"""`Payloads`: small JSON objects that items carry, by position, and masks of the positions that a filter admits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.live import filters
from onlinehash.live.filters import Column

MAX_BYTES = 64 * 1024
MAX_COLUMNS = 64  # fields whose columns are kept; the one made first goes first
_AT_ONCE = 1024  # payloads parsed by one call, which costs as much as a few of them
#: In ASCII, so that a text's length is its size in any store; numbers of NumPy become their plain likes.
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=lambda number: number.item())


class Columns(NamedTuple):
    """What masks are made of; a change replaces all of it, so that a reader never sees half a change."""

    n: int
    columns: dict[str, Column]

    def mask(self, tests: dict[str, list[filters.Test]]) -> np.ndarray:
        """Which positions these tests admit."""
        mask = np.ones(self.n, np.bool_)
        for field, wanted in tests.items():
            mask &= self.columns[field].admitted(wanted)
        return mask


class Payloads:
    """A JSON object or none for each position; positions count the insertions.

    Payloads are kept as compact text and given back as new objects. The column of a field is made when a filter first
    asks for it, and follows all changes from then on. Any number of threads may read while one changes.
    """

    def __init__(self, texts: Iterable[str | None] = ()) -> None:
        self._texts = list(texts)
        self._state = Columns(len(self._texts), {})
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._state.n

    def text(self, position: int) -> str | None:
        """The JSON at a position."""
        return self._texts[position]

    def at(self, position: int) -> dict[str, Any] | None:
        """The object at a position, which is the caller's to change."""
        text = self._texts[position]
        return None if text is None else json.loads(text)

    def mask(self, where: Any) -> np.ndarray:
        """Which positions a filter admits, as a new array of bools.

        `where` is a dict of fields and conditions, all of which must hold. A field is a key, or a path of keys with
        dots between them. A condition is a value, a list of values (one of them), a dict of operators (`<`, `<=`, `>`,
        `>=`, `!=`, `in`, `exists`; all hold), or a function of the value. True is not 1, but 1 is 1.0. Order is among
        numbers or among strings. A list equals what one of its elements equals. Without the field, only `!=` and
        `{"exists": False}` hold.
        """
        tests = filters.checked(where)
        return self.columns(tests).mask(tests)

    def columns(self, fields: Iterable[str]) -> Columns:
        """The columns of some fields as they are now, which no change touches."""
        state = self._state
        if all(field in state.columns for field in fields):
            return state
        with self._lock:  # nobody changes anything now, and nobody else makes the same columns
            state = self._state
            missing = [field for field in fields if field not in state.columns]
            columns = state.columns | _by_field(missing, self._texts, lambda field, found: Column.of(found))
            self._state = Columns(state.n, dict(list(columns.items())[-MAX_COLUMNS:]))
            return Columns(state.n, columns)

    # ------------------------------------------------------------------------------------------------ changes

    def append(self, texts: Sequence[str | None]) -> None:
        """More positions, with these payloads."""
        with self._lock:
            n, columns = self._state
            columns = _by_field(columns, texts, lambda field, found: columns[field].appended(found))
            self._texts.extend(texts)
            self._state = Columns(n + len(texts), columns)

    def put(self, positions: np.ndarray, texts: Sequence[str | None]) -> None:
        """Other payloads at some positions, or None."""
        with self._lock:
            n, columns = self._state
            columns = _by_field(columns, texts, lambda field, found: columns[field].put(positions, found))
            for position, text in zip(positions.tolist(), texts, strict=True):
                self._texts[position] = text
            self._state = Columns(n, columns)

    def keep(self, positions: np.ndarray) -> None:
        """Only these positions stay, which ascend, and are counted anew."""
        with self._lock:
            columns = {field: column.kept(positions) for field, column in self._state.columns.items()}
            self._texts = [self._texts[position] for position in positions.tolist()]
            self._state = Columns(len(positions), columns)

    # ------------------------------------------------------------------------------------------------ the gate

    @staticmethod
    def checked(payloads: Any, n: int) -> list[str | None]:
        """The texts of what a user gives for n items: None, a list of dicts or Nones, or for one item its dict."""
        if payloads is None:
            return [None] * n
        if isinstance(payloads, dict) and n == 1:
            payloads = [payloads]
        if not isinstance(payloads, list | tuple):
            raise InvalidInput(f"expected a list of {n} payloads, got {checks.shown(payloads)}.")
        if len(payloads) != n:
            raise InvalidInput(f"expected a payload (a dict or None) for each of {n} items, got {len(payloads)}.")
        return [None if payload is None else _text(payload, i) for i, payload in enumerate(payloads)]


def _text(payload: Any, i: int) -> str:
    if not isinstance(payload, dict):
        raise InvalidInput(f"expected payload {i} to be a dict or None, got {checks.shown(payload)}.")
    problem = filters.json_problem(payload)
    if problem:
        raise InvalidInput(f"expected JSON values in payload {i}, got {problem}.")
    try:
        text = _ENCODER.encode(payload)
    except ValueError as error:  # an integer of more digits than Python writes
        raise InvalidInput(f"expected payload {i} to fit into JSON, got: {error}.") from None
    if len(text) > MAX_BYTES:
        raise InvalidInput(
            f"expected payload {i} to be at most {MAX_BYTES} bytes of JSON, got {len(text)}; keep large things apart."
        )
    return text


def _by_field(
    fields: Iterable[str], texts: Sequence[str | None], make: Callable[[str, list[Any]], Column]
) -> dict[str, Column]:
    """A column for each field, made from the values that the texts have there; each text is parsed once for all."""
    found: dict[str, list[Any]] = {field: [] for field in fields}
    if found:
        for payloads in _parsed(texts):
            for field, values in found.items():
                path = field.split(".")
                values.extend([filters.look_up(payload, field, path) for payload in payloads])
    return {field: make(field, values) for field, values in found.items()}


def _parsed(texts: Sequence[str | None]) -> Iterator[list[dict[str, Any] | None]]:
    for start in range(0, len(texts), _AT_ONCE):
        yield json.loads(f"[{','.join([text or 'null' for text in texts[start : start + _AT_ONCE]])}]")
