"""The three collections of an index, what their rows are made of, and what of it fits.

    {name}_items    key, place, born, died, id, hash (of the id, to find it by), payload, vector
    {name}_codes    key, place, born, died, id, code0 [, code1 ...]
    {name}_records  the head and the blobs

Milvus wants a vector in every collection; where we have none it is one byte. A text has at most 65,535 bytes there, and
must be UTF-8, so bytes are written in base64, and the head and blobs in as many rows as they take. (There are arrays of
texts too, but the embedded engine is many times slower with them.)
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.stores.backend import Layout

_TEXT = 65_535
_BYTES = _TEXT // 4 * 3  # in base64, which makes four of three
NOTHING = {"nothing": b"\0"}  #: The vector of rows that have none.

_KEY = ("key", {"datatype": "VARCHAR", "is_primary": True, "max_length": 256})
_NOTHING = ("nothing", {"datatype": "BINARY_VECTOR", "dim": 8})
_LIFE = [_KEY] + [(name, {"datatype": "INT64"}) for name in ("place", "born", "died")]
_ID, _PAYLOAD, _VECTOR, _VALUE = (
    (name, {"datatype": "VARCHAR", "max_length": _TEXT}) for name in ("id", "payload", "vector", "value")
)


class Tables:
    """Names and fields of the collections of one index."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,99}", name):
            raise InvalidInput(
                expected="a name of letters, digits and underscores, at most 100 of them and no digit first",
                got=checks.shown(name),
            )
        self.items, self.codes, self.records = (f"{name}_{part}" for part in ("items", "codes", "records"))

    def fields(self, layout: Layout) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """The fields of each collection."""
        groups = [(f"code{g}", {"datatype": "BINARY_VECTOR", "dim": n}) for g, n in enumerate(layout.groups)]
        number = [(name, {"datatype": "INT64"}) for name in ("number", "part", "parts")]
        return {
            self.items: [*_LIFE, _ID, ("hash", {"datatype": "INT64"}), _PAYLOAD, _VECTOR, _NOTHING],
            self.codes: [*_LIFE, _ID, *groups],
            self.records: [
                _KEY,
                ("name", {"datatype": "VARCHAR", "max_length": 256}),
                *number,
                _VALUE,
                _NOTHING,
            ],
        }


def code_fields(layout: Layout) -> list[str]:
    """The fields of a row of a code that hold it."""
    return [f"code{group}" for group in range(len(layout.groups))]


def key(place: int, born: int, died: int) -> str:
    """The key of a row, which is another one when it dies. Keys have the order of places."""
    return f"{place:016x}-{born:016x}-{died:016x}"


def hash_of(id: str) -> int:
    """A number of 64 bits to find an id by, whatever signs are in it."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "big", signed=True)


def check_fits(ids: Sequence[str], vectors: np.ndarray) -> None:
    """Refuse what has no room in a row; payloads always have."""
    longest = max((len(id.encode()) for id in ids), default=0)
    if longest > _TEXT:
        raise InvalidInput(expected=f"ids of at most {_TEXT} bytes in Milvus", got=f"one of {longest}")
    if len(vectors) and vectors[0].nbytes > _BYTES:
        most = _BYTES // vectors.itemsize
        raise InvalidInput(
            expected=f"vectors of at most {most} numbers of type {vectors.dtype} in Milvus", got=f"{vectors.shape[1]}"
        )


def text_of_payload(payload: str | None) -> str:
    """A payload without its first sign, which is a brace: they have up to 65,536; empty where there is none."""
    return "" if payload is None else payload[1:]


def payload_of(text: str) -> str | None:
    """The payload back."""
    return "{" + text if text else None


def text_of_bytes(data: bytes) -> str:
    """Bytes as a text; they must fit."""
    return base64.b64encode(data).decode()


def texts_of_bytes(data: bytes) -> list[str]:
    """Bytes as texts, one at least."""
    return [text_of_bytes(data[i : i + _BYTES]) for i in range(0, max(1, len(data)), _BYTES)]


def bytes_of(text: str) -> bytes:
    """The bytes of a text back."""
    return base64.b64decode(text)


def alive(epoch: int) -> str:
    """The expression for rows that count at an epoch."""
    return f"born <= {epoch} and died > {epoch}"


def listed(numbers: np.ndarray) -> str:
    """Numbers as an expression has them."""
    return str(np.asarray(numbers).tolist())
