"""JSON bodies: msgspec parses and validates in one pass; its errors are rephrased in the style of this library.

The number of values in a body is limited, because a value of two bytes can become an object of about eighty.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.io.json_names import refuse_repeated
from onlinehash.serve.bodies import numbers
from onlinehash.serve.bodies.shapes import Shape
from onlinehash.serve.errors import BadRequest, TooLarge

#: Values of one body, counted by commas. Floats written out take more than eight bytes each, and fill 64 MiB before.
MOST_VALUES = 2**23

_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_GOT = _WORDS | {"bool": "a bool", "float": "a number that is not whole"}
_TYPES = re.compile(r"Expected `([a-z| ]+)`, got `([a-z]+)`")

_VECTOR, _NULL = b'"vector"', b"null"

#: Bytes of a body from which all its arrays are parsed apart, which a small one would not be worth.
LARGE = 1 << 14

S = TypeVar("S", bound=Shape)


def from_json(shape: type[S], data: bytes) -> S:
    """The body, with lists where arrays will be; some may be arrays already."""
    refuse_many_values(data)
    if len(data) >= LARGE and shape.arrays and (large := _with_arrays(shape, data)) is not None:
        return large
    vector, rest = _vector_apart(data) if "vector" in shape.arrays else (None, data)
    body = _decoded(shape, rest)
    if vector is None:
        return body
    if getattr(body, "dtype", "float32") != "float32":
        return _decoded(shape, data)
    body.vector = vector  # type: ignore[attr-defined]
    return body


def _with_arrays(shape: type[S], data: bytes) -> S | None:
    """The body with float32 arrays, none of whose numbers was ever a Python object; None for the usual way."""
    try:
        found = _raw_decoder(shape).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # the usual way finds it again, and says what it is
    fields = {name: getattr(found, name) for name in shape.__struct_fields__}
    texts = {name: memoryview(fields[name]) for name in shape.arrays}
    arrays = {name: numbers.parse_points(text) for name, text in texts.items() if text != _NULL}
    if fields["dtype"] != "float32" or any(array is None for array in arrays.values()):
        return None
    refuse_repeated(data)
    return shape(**fields | dict.fromkeys(texts) | arrays)


@cache
def _raw_decoder(shape: type[Shape]) -> msgspec.json.Decoder[Any]:
    """A decoder that leaves arrays as the text that they are."""

    def as_text(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
        if field.name in shape.arrays:
            return field.name, msgspec.Raw, msgspec.Raw(_NULL)
        return (field.name, field.type) if field.required else (field.name, field.type, field.default)

    fields = [as_text(field) for field in msgspec.structs.fields(shape)]
    return msgspec.json.Decoder(msgspec.defstruct(shape.__name__, fields, forbid_unknown_fields=True, kw_only=True))


def _vector_apart(data: bytes) -> tuple[np.ndarray | None, bytes]:
    """The numbers of the field `vector`, parsed by themselves, and the body with an empty list in their place.

    None and the whole body where the field is not found at once: a field of the body itself, and the only one of this
    name. Whatever is wrong with the body is then found on the usual way.
    """
    at = data.find(_VECTOR)
    head = data[: max(at, 0)]
    if at < 0 or head.count(b"{") != 1 or b"[" in head:
        return None, data
    after = at + len(_VECTOR)
    start = data.find(b":", after) + 1
    if data[after : start - 1].strip(b" \t\r\n"):
        return None, data
    found = numbers.parse(data, start)
    if found is None:
        return None, data
    values, end = found
    if data.find(_VECTOR, end) >= 0:  # among the numbers there is none
        return None, data
    return values, data[:start] + b"[]" + data[end:]


def _decoded(shape: type[S], data: bytes) -> S:
    try:
        body: S = decoder(shape).decode(data)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), shape) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not JSON in UTF-8: {error}.") from None
    except RecursionError:
        raise BadRequest("the JSON is nested too deeply.") from None
    refuse_repeated(data)
    return body


def refuse_many_values(data: bytes | memoryview) -> None:
    """Refuse a body with so many values that parsing would take too much memory."""
    if len(data) > MOST_VALUES and (n := bytes(data).count(b",")) >= MOST_VALUES:
        raise TooLarge(
            expected=f"at most {MOST_VALUES} JSON values",
            got=f"{n + 1}",
            hint="send less per request, or send arrays as application/vnd.onlinehash",
        )


@cache
def decoder(shape: type[S]) -> msgspec.json.Decoder[S]:
    """The one decoder of a shape."""
    return msgspec.json.Decoder(shape)


def _refusal(message: str, shape: type[Shape]) -> InvalidInput:
    """What msgspec says, in the style of this library."""
    problem, _, path = message.rpartition(" - at `$")
    problem, place = problem or message, path.rstrip("`").removeprefix(".")
    at = f" at {place}" if place and problem is not message else ""
    if types := _TYPES.search(problem):
        wanted = " or ".join(_WORDS.get(name, name) for name in types[1].split(" | "))
        return InvalidInput(expected=wanted + (at or " as the body"), got=_GOT.get(types[2], types[2]))
    fields = ", ".join(shape.__struct_fields__)
    if (name := _quoted(problem, "Object contains unknown field ")) is not None:
        instead = f"; here it is {name}s, a list" if f"{name}s" in shape.__struct_fields__ else ""
        known = f"the field {checks.shown(name)} is unknown{instead}; the fields are {fields}."
        return InvalidInput(shape.refused.get(name, known))
    if (name := _quoted(problem, "Object missing required field ")) is not None:
        return InvalidInput(f"the field {name} is missing; the fields are {fields}.")
    if problem.endswith("out of range"):
        return InvalidInput(f"the number{at} is too large for a double.")
    if problem.startswith("Expected `int` <="):
        return InvalidInput(expected=f"a 64-bit integer{at}", got="a larger one")
    if problem.startswith("Invalid enum value "):
        got = checks.shown(problem.removeprefix("Invalid enum value "))
        return InvalidInput(expected=f"float32 or float64{at}", got=got)
    return InvalidInput(f"the body does not fit the schema {shape.__name__}{at}: {checks.shown(problem)}.")


def _quoted(problem: str, beginning: str) -> str | None:
    return problem.removeprefix(beginning)[1:-1] if problem.startswith(beginning) else None


def from_plain(shape: type[S], fields: dict[str, Any]) -> S:
    """A body from fields that are already plain values, validated by the same decoder."""
    import json

    try:
        data = json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"values outside arrays must be valid JSON: {checks.shown(error)}.") from None
    return from_json(shape, data)
