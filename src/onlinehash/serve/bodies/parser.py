"""From the bytes of a request to a validated body, in any format, within the limits of the service.

Values are checked once: the index itself checks that vectors are finite and have the right width, and that ids exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.io.json_names import refuse_repeated
from onlinehash.serve.bodies.from_arrow import from_arrow
from onlinehash.serve.bodies.from_format import from_format
from onlinehash.serve.bodies.from_json import from_json, from_plain
from onlinehash.serve.bodies.from_npy import from_npy
from onlinehash.serve.bodies.shapes import FORMAT, JSON, NPY, Shape
from onlinehash.serve.errors import BadRequest, TooLarge, UnsupportedMediaType
from onlinehash.serve.settings import Limits

#: The limit on the length of each field. Rows of vectors are checked in `_array`.
_LENGTHS = {
    "ids": "ids",
    "id_a": "batch",
    "id_b": "batch",
    "shown": "batch",
    "clicked": "batch",
    "similar": "batch",
    "weight": "batch",
    "y": "batch",
    "codes": "batch",
    "payloads": "batch",
    "texts": "batch",
    "text_a": "batch",
    "text_b": "batch",
}

S = TypeVar("S", bound=Shape)


def read(shape: type[S], content_type: str, data: bytes, query: Mapping[str, str], limits: Limits) -> S:
    """The validated body, with arrays in the fields for vectors; raises 4xx errors before anything is changed.

    JSON numbers become float32, or what the field `dtype` says; binary formats keep their own dtype. Where a format
    has no place for a field, it is a query parameter that holds JSON, as in `k=5&where={"colour":"red"}`.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not data and shape.may_be_empty:
        return shape()
    if kind == JSON:
        _refuse_query(query)
        body = from_json(shape, data)
    elif kind not in shape.media:
        wanted = " or ".join(shape.media)
        raise UnsupportedMediaType(expected=f"a body of {wanted}", got=f"{(checks.shown(kind) if kind else 'no kind')}")
    elif kind == FORMAT:
        _refuse_query(query)
        body = from_format(shape, data)
    else:
        arrays = {"vectors": from_npy(data)} if kind == NPY else from_arrow(shape, data, limits)
        body = _with_query(shape, arrays, query)
    _check(body, limits)
    return body


# ------------------------------------------------------------------ query parameters


def _refuse_query(query: Mapping[str, str]) -> None:
    if query:
        name = checks.shown(next(iter(query)))
        raise InvalidInput(f"query parameter {name} is not allowed with this content type; put it into the body.")


def _with_query(shape: type[S], columns: dict[str, Any], query: Mapping[str, str]) -> S:
    """A body whose arrays are columns, and whose other fields are query parameters."""
    fields: dict[str, Any] = {name: [] if isinstance(value, np.ndarray) else value for name, value in columns.items()}
    for name, text in query.items():
        if name in columns or name == "dtype":
            raise InvalidInput(
                f"{name} is given both in the body and as a query parameter; leave out the query parameter."
            )
        try:
            fields[name] = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise BadRequest(
                expected=f"JSON for the query parameter {checks.shown(name)}", got=checks.shown(text)
            ) from None
        refuse_repeated(text.encode())
    body = from_plain(shape, fields)
    for name, value in columns.items():
        setattr(body, name, value)
    return body


# ------------------------------------------------------------------ the checks of all formats


def _check(body: Shape, limits: Limits) -> None:
    """Check alternatives and limits, and convert lists to arrays."""
    shape = type(body)
    if shape.one_of:
        _refuse_several(body, shape.one_of)
    for name, limit in _bounded(shape):
        value = getattr(body, name)
        if value is not None and isinstance(value, list | np.ndarray) and (n := _count(value)) > getattr(limits, limit):
            raise TooLarge(
                expected=f"at most {getattr(limits, limit)} {name}", got=f"{n}", hint="send fewer per request"
            )
    for name in shape.embedded:
        if (texts := getattr(body, name)) is not None:
            _refuse_long(texts, limits.text)
    k = getattr(body, "k", None)
    if k is not None and k > limits.k:
        raise TooLarge(expected=f"k to be at most {limits.k}", got=f"{k}")
    for name, axes in shape.arrays.items():
        value = getattr(body, name)
        if value is not None:
            setattr(body, name, _array(value, name, axes, getattr(body, "dtype", "float32"), limits))


def _refuse_long(texts: str | list[str], most: int) -> None:
    longest = max(map(len, [texts] if isinstance(texts, str) else texts), default=0)
    if longest > most:
        raise TooLarge(
            expected=f"texts of at most {most} characters", got=f"one of {longest}", hint="send a part of it"
        )


@cache
def _bounded(shape: type[Shape]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _LENGTHS[name]) for name in shape.__struct_fields__ if name in _LENGTHS)


def _count(value: list[Any] | np.ndarray) -> int:
    """The number of values, in all rows."""
    if isinstance(value, np.ndarray):
        return int(value.size)
    if not value or not isinstance(value[0], list):
        return len(value)
    width = len(value[0])
    if not all(isinstance(row, list) and len(row) == width for row in value):
        raise InvalidInput("the inner lists must have equal lengths.")
    return len(value) * width


@cache
def _names(groups: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))


@cache
def _allowed(groups: tuple[tuple[str, ...], ...]) -> frozenset[tuple[str, ...]]:
    """The groups with their names in the order of `_names`."""
    return frozenset(tuple(name for name in _names(groups) if name in group) for group in groups)


def _refuse_several(body: Shape, groups: tuple[tuple[str, ...], ...]) -> None:
    given = tuple([name for name in _names(groups) if getattr(body, name) is not None])
    if given not in _allowed(groups):
        wanted = " or ".join(" and ".join(group) for group in groups)
        raise InvalidInput(expected=f"one of {wanted}", got=f"{' and '.join(given) or 'none of them'}")


def _array(value: Any, name: str, axes: tuple[int, ...], dtype: str, limits: Limits) -> np.ndarray:
    """An array of as many axes as it should have, within the limits."""
    n_rows, width = _size(value)
    if n_rows > limits.batch:
        raise TooLarge(
            expected=f"at most {limits.batch} rows of {name}", got=f"{n_rows}", hint="send fewer per request"
        )
    if width > limits.features:
        raise TooLarge(expected=f"at most {limits.features} values per row of {name}", got=f"{width}")
    array: np.ndarray = value
    if isinstance(value, list):
        try:
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, which the index refuses
                array = np.array(value, dtype)
        except ValueError:
            array = checks.matrix(value, name)  # which says what is wrong with it
    if array.ndim not in axes:
        if axes == (1,):
            raise InvalidInput(expected=f"one vector for {name}", got=f"shape {array.shape}")
        checks.matrix(array, name)
    return array


def _size(value: Any) -> tuple[int, int]:
    """Rows and values a row, of one vector or of several; rows of another length than the first are refused later."""
    if isinstance(value, np.ndarray):
        return (1, value.size) if value.ndim < 2 else (value.shape[0], value.shape[1])
    return (len(value), len(value[0])) if value and isinstance(value[0], list) else (1, len(value))
