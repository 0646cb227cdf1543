"""`Payloads`: small JSON objects that items carry, by position, and masks of the positions that a filter admits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.live import filters
from onlinehash.live.filters import Check, Column, Filter

MAX_BYTES = 64 * 1024
MAX_COLUMNS = 64  # fields whose columns are kept; the one that was not used for longest goes first
#: Payloads parsed by one call, which costs as much as a few of them, and about how many characters of them: no other
#: thread runs meanwhile.
_AT_ONCE, _CHARACTERS = 1024, 1 << 16
_ROUNDS = 8  # in which a new column follows changes that were made meanwhile, before changes have to wait for it
_PAUSE = 0.05  # seconds between two looks at the time while others build columns
#: In ASCII, so that a text's length is its size in any store; numbers of NumPy become their plain likes.
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=lambda number: number.item())


class Columns(NamedTuple):
    """What masks are made of; a change replaces all of it, so that a reader never sees half a change."""

    n: int
    columns: dict[str, Column]

    def mask(self, filter: Filter) -> np.ndarray:
        """Which positions a filter admits."""
        mask = np.ones(self.n, np.bool_)
        for field, tests in filter.tests.items():
            mask &= self.columns[field].admitted(tests, filter.check)
        return mask


#: What a change makes of all columns.
Change = Callable[[dict[str, Column]], dict[str, Column]]


class Payloads:
    """A JSON object or none for each position; positions count the insertions.

    Payloads are kept as compact text and given back as new objects. The column of a field is made when a filter first
    asks for it, and follows all changes from then on. Any number of threads may read while one changes; columns are
    made from a copy, one filter at a time, and changes wait for none of it.
    """

    def __init__(self, texts: Iterable[str | None] = ()) -> None:
        self._texts = list(texts)
        self._state = Columns(len(self._texts), {})
        self._lock = threading.Lock()  # held for moments: a change, or the publication of columns
        self._building = threading.Lock()  # held while columns are made
        self._log: list[Change] | None = None  # the changes since the copy that columns are being made from
        self._uses, self._clock = dict[str, int](), count()

    def __len__(self) -> int:
        return self._state.n

    def text(self, position: int) -> str | None:
        """The JSON at a position."""
        return self._texts[position]

    def at(self, position: int) -> dict[str, Any] | None:
        """The object at a position, which is the caller's to change."""
        return payload_of(self._texts[position])

    def mask(self, where: Any) -> np.ndarray:
        """Which positions a filter admits, as a new array of bools.

        `where` is a dict of fields and conditions, all of which must hold. A field is a key, or a path of keys with
        dots between them. A condition is a value, a list of values (one of them), a dict of operators (`<`, `<=`, `>`,
        `>=`, `!=`, `in`, `exists`; all hold), or a function of the value. True is not 1, but 1 is 1.0. Order is among
        numbers or among strings. A list equals what one of its elements equals. Without the field, only `!=` and
        `{"exists": False}` hold.
        """
        filter = filters.checked(where)
        columns = self.columns(filter)
        if columns is None:
            with self.prepared(filter):
                columns = self.columns(filter)
                assert columns is not None
        return columns.mask(filter)

    def columns(self, filter: Filter) -> Columns | None:
        """The columns as they are now, which no change touches; None if the filter needs some that are not there."""
        state = self._state
        for field in filter.tests:
            if field not in state.columns:
                return None
            self._uses[field] = next(self._clock)
        return state

    @contextmanager
    def prepared(self, filter: Filter) -> Iterator[None]:
        """Make the columns that a filter needs; they stay at least until the block ends."""
        while not self._building.acquire(timeout=_PAUSE):
            filter.check()
        try:
            missing = [field for field in filter.tests if field not in self._state.columns]
            if missing:
                self._build(missing, filter.check)
            yield
        finally:
            self._forget_some()
            self._building.release()

    def _build(self, fields: list[str], check: Check) -> None:
        with self._lock:
            texts, self._log = self._texts.copy(), []
        try:
            found = _by_field(fields, texts, check)
            columns = {field: Column.of(len(texts), *found[field]) for field in fields}
            for _ in range(_ROUNDS):
                with self._lock:
                    changes, self._log = self._log, []
                if not changes:
                    break
                columns = _after(changes, columns, check)
            with self._lock:
                columns = _after(self._log, columns)
                self._state = Columns(self._state.n, self._state.columns | columns)
        finally:
            with self._lock:
                self._log = None

    def _forget_some(self) -> None:
        with self._lock:
            by_use = sorted(self._state.columns, key=lambda field: self._uses.get(field, -1))
            kept = set(by_use[-MAX_COLUMNS:])
            if len(kept) < len(by_use):
                self._state = Columns(self._state.n, {f: c for f, c in self._state.columns.items() if f in kept})
                self._uses = {field: use for field, use in self._uses.items() if field in kept}

    # ------------------------------------------------------------------------------------------------ changes

    def append(self, texts: Sequence[str | None]) -> None:
        """More positions, with these payloads."""
        with self._lock:
            self._change(self._state.n + len(texts), partial(_appended, texts))
            self._texts.extend(texts)

    def put(self, positions: np.ndarray, texts: Sequence[str | None]) -> None:
        """Other payloads at some positions, or None."""
        with self._lock:
            self._change(self._state.n, partial(_put, positions, texts))
            for position, text in zip(positions.tolist(), texts, strict=True):
                self._texts[position] = text

    def keep(self, positions: np.ndarray) -> None:
        """Keep only these positions, which ascend, and renumber them."""
        with self._lock:
            self._change(len(positions), partial(_kept, positions))
            self._texts = [self._texts[position] for position in positions.tolist()]

    def _change(self, n: int, change: Change) -> None:
        """Publish other columns; what is being made meanwhile has to follow."""
        self._state = Columns(n, change(self._state.columns))
        if self._log is not None:
            self._log.append(change)

    # ------------------------------------------------------------------------------------------------ the gate

    @staticmethod
    def checked(payloads: Any, n: int) -> list[str | None]:
        """The texts of what a user gives for n items: None, a list of dicts or Nones, or for one item its dict."""
        if payloads is None:
            return [None] * n
        if isinstance(payloads, dict) and n == 1:
            payloads = [payloads]
        payloads = listed(payloads)
        if len(payloads) != n:
            raise InvalidInput(expected=f"a payload (a dict or None) for each of {n} items", got=f"{len(payloads)}")
        return [None if payload is None else _text(payload, i) for i, payload in enumerate(payloads)]


#: How tables and columns are made a list of dicts: Arrow, polars, pandas, and columns of these and NumPy.
_TO_LISTS = {"to_pylist": "", "to_dicts": "", "to_dict": '"records"', "tolist": "", "to_list": ""}


def listed(payloads: Any) -> Sequence[Any]:
    """Payloads as a list, or an error that says how they are made one.

    Tables are not taken as they are: what stands for a missing value in them, such as NaN, is not JSON.
    """
    if isinstance(payloads, list | tuple):
        return payloads
    wanted = "a list of payloads, a dict or None each"
    for method, argument in _TO_LISTS.items():
        if hasattr(payloads, method) and (method != "to_dict" or hasattr(payloads, "columns")):
            how = f"give its .{method}({argument})"
            raise InvalidInput(expected=wanted, got=f"a {type(payloads).__name__}", hint=how)
    raise InvalidInput(expected=wanted, got=checks.shown(payloads))


def _text(payload: Any, i: int) -> str:
    if not isinstance(payload, dict):
        raise InvalidInput(expected=f"payload {i} to be a dict or None", got=checks.shown(payload))
    problem = filters.json_problem(payload)
    if problem:
        raise InvalidInput(expected=f"JSON values in payload {i}", got=problem)
    try:
        text = _written(payload)
    except ValueError as error:  # an integer of more digits than Python writes
        raise InvalidInput(expected=f"payload {i} to fit into JSON", got=f"an error: {error}") from None
    if len(text) > MAX_BYTES:
        raise InvalidInput(
            expected=f"payload {i} to be at most {MAX_BYTES} bytes of JSON",
            got=f"{len(text)}",
            hint="keep large things apart",
        )
    return text


def _written(payload: dict[str, Any]) -> str:
    """JSON. Where all values are strings, an encoder takes longer to set up than to write them."""
    if {*map(type, payload.values())} == {str}:
        return f"{{{','.join([f'{_quoted(key)}:{_quoted(value)}' for key, value in payload.items()])}}}"
    return _ENCODER.encode(payload)


def _appended(texts: Sequence[str | None], columns: dict[str, Column]) -> dict[str, Column]:
    found = _by_field(columns, texts)
    return {field: column.appended(len(texts), *found[field]) for field, column in columns.items()}


def _put(positions: np.ndarray, texts: Sequence[str | None], columns: dict[str, Column]) -> dict[str, Column]:
    found = _by_field(columns, texts)
    return {field: column.put(positions, *found[field]) for field, column in columns.items()}


def _kept(positions: np.ndarray, columns: dict[str, Column]) -> dict[str, Column]:
    return {field: column.kept(positions) for field, column in columns.items()}


def _after(changes: list[Change], columns: dict[str, Column], check: Check = filters.never) -> dict[str, Column]:
    for change in changes:
        check()
        columns = change(columns)
    return columns


def _by_field(
    fields: Iterable[str], texts: Sequence[str | None], check: Check = filters.never
) -> dict[str, tuple[np.ndarray, list[Any]]]:
    """The places at which the texts have a field, and its values there. Each text is parsed once for all fields, and
    of these only those are looked up that it may have, so that fields that nobody has cost nothing."""
    found: dict[str, tuple[list[int], list[Any]]] = {field: ([], []) for field in fields}
    by_key: dict[str, list[tuple[str, list[str]]]] = {}  # the fields that need a key, and their paths
    for field in found:
        path = field.split(".")
        for key in {field, path[0]}:
            by_key.setdefault(key, []).append((field, path))
    n_before = 0
    for payloads in _parsed(texts) if found else ():
        check()
        for place, payload in enumerate(payloads, n_before):
            had = payload if isinstance(payload, dict) else {}
            for key in by_key.keys() & had.keys():
                for field, path in by_key[key]:
                    value = filters.look_up(had, field, path)
                    if value is not filters.ABSENT and (key == field or field not in had):  # else it comes again
                        found[field][0].append(place)
                        found[field][1].append(value)
        n_before += len(payloads)
    return {field: (np.array(places, np.intp), values) for field, (places, values) in found.items()}


def payload_of(text: str | None) -> dict[str, Any] | None:
    """The object of a text, which is the caller's to change."""
    return None if text is None else parsed(text)


def parsed(text: str) -> Any:
    """JSON that was stored; whoever wrote it last may not have been this library."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError("a payload of this index is not JSON; `onlinehash check` names the item.") from None


def _parsed(texts: Sequence[str | None]) -> Iterator[list[dict[str, Any] | None]]:
    some: list[str] = []
    n_characters = 0
    for text in texts:
        some.append(text or "null")
        n_characters += len(some[-1])
        if len(some) == _AT_ONCE or n_characters >= _CHARACTERS:
            yield parsed(f"[{','.join(some)}]")
            some, n_characters = [], 0
    if some:
        yield parsed(f"[{','.join(some)}]")
