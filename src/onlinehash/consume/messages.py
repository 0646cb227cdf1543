"""Parses messages into requests: a pair to learn, or an item to add, update or remove.

A message is a JSON object with the names of the service's bodies. A vector is a list of numbers, or the base64 of its
bytes (little-endian), which is shorter and read faster. Numbers are float32, unless the message has another `dtype`.
The index itself checks widths and ids.
"""

from __future__ import annotations

import base64
import binascii
from functools import cache
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from onlinehash import checks
from onlinehash.consume.requests import Addition, Change, Pair, PairById, Removal, Request
from onlinehash.errors import InvalidInput
from onlinehash.io.json_names import refuse_repeated

#: The longest message; one that is longer is set aside unread.
MOST_BYTES = 1 << 24

_DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float64": np.dtype("<f8")}

Vector = list[float] | str


class Message(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """All fields that messages have."""

    op: Literal["add", "update", "remove"] | UnsetType = UNSET
    a: Vector | UnsetType = UNSET
    b: Vector | UnsetType = UNSET
    id_a: int | str | UnsetType = UNSET
    id_b: int | str | UnsetType = UNSET
    similar: bool | int | UnsetType = UNSET
    weight: float | UnsetType = UNSET
    id: int | str | UnsetType = UNSET
    vector: Vector | UnsetType = UNSET
    payload: dict[str, Any] | UnsetType | None = UNSET
    dtype: Literal["float32", "float64"] | UnsetType = UNSET


#: For each kind of message the fields that it must have, and those that it may have.
_KINDS: dict[type[Request], tuple[set[str], set[str]]] = {
    Pair: ({"a", "b", "similar"}, {"weight", "dtype"}),
    PairById: ({"id_a", "id_b", "similar"}, {"weight"}),
    Addition: ({"vector"}, {"op", "id", "payload", "dtype"}),
    Change: ({"op", "id"}, {"vector", "payload", "dtype"}),
    Removal: ({"op", "id"}, set()),
}
_BY_OPERATION: dict[Any, type[Request]] = {"add": Addition, "update": Change, "remove": Removal}

_decode = msgspec.json.Decoder(Message).decode


def read(data: bytes) -> Request:
    """Parse a message; raises if it is not valid."""
    if len(data) > MOST_BYTES:
        raise InvalidInput(expected=f"a message of at most {MOST_BYTES} bytes", got=f"{len(data)}")
    try:
        message = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the message is not a pair or an item as JSON: {_problem(error)}.") from None
    refuse_repeated(data)
    kind = _kind(message.op, tuple([value is not UNSET for value in msgspec.structs.astuple(message)]))
    dtype = _DTYPES["float32" if message.dtype is UNSET else message.dtype]
    weight = 1.0 if message.weight is UNSET else message.weight
    if kind is Pair:
        return Pair(_vector(message.a, "a", dtype), _vector(message.b, "b", dtype), _similar(message), weight)
    if kind is PairById:
        return PairById(message.id_a, message.id_b, _similar(message), weight)
    if kind is Removal:
        return Removal(message.id)
    vector = None if message.vector is UNSET else _vector(message.vector, "vector", dtype)
    if kind is Addition:
        assert vector is not None
        payload = None if message.payload is UNSET else message.payload
        return Addition(None if message.id is UNSET else message.id, vector, payload)
    return Change(message.id, vector, message.payload, message.payload is not UNSET)


@cache
def _kind(operation: str | UnsetType, is_given: tuple[bool, ...]) -> type[Request]:
    """The kind of message that has these fields; there are few ways to write one."""
    given = {name for name, there in zip(Message.__struct_fields__, is_given, strict=True) if there}
    if operation is not UNSET:
        kind = _BY_OPERATION[operation]
    elif given & {"a", "b"}:
        kind = Pair
    elif given & {"id_a", "id_b"}:
        kind = PairById
    else:
        kind = Addition
    wanted, allowed = _KINDS[kind]
    if missing := wanted - given:
        raise InvalidInput(
            f"the message lacks {' and '.join(sorted(missing))}; {kind.what} needs the fields "
            f"{', '.join(sorted(wanted))}."
        )
    if others := given - wanted - allowed:
        raise InvalidInput(f"a message of {kind.what} cannot have {' and '.join(sorted(others))}; leave it out.")
    if kind is Change and not given & {"vector", "payload"}:
        raise InvalidInput("updating an item needs a vector or a payload, got neither.")
    return kind


def _vector(value: Any, name: str, dtype: np.dtype[Any]) -> np.ndarray:
    if isinstance(value, list):
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, which the index refuses
            vector = np.array(value, dtype)
    else:
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(expected=f"base64 or a list of numbers for {name}", got=checks.shown(value)) from None
        if len(data) % dtype.itemsize:
            raise InvalidInput(
                f"the base64 of {name} has {len(data)} bytes, which is not a multiple of the size of {dtype.name}."
            )
        vector = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
    if not len(vector):
        raise InvalidInput(f"the list of numbers for {name} is empty.")
    return vector


def _similar(message: Message) -> int:
    if not isinstance(message.similar, bool) and message.similar not in (1, 0, -1):
        raise InvalidInput(expected="true or 1, or false, 0 or -1, for similar", got=checks.shown(message.similar))
    return 1 if message.similar == 1 else -1


def _problem(error: Exception) -> str:
    return checks.shown(str(error) or type(error).__name__)
