"""What a parquet file says of its columns, read without pyarrow, which ends the process where this is damaged.

The end of a file is a structure of Thrift's compact protocol: fields with numbers, each after its type.
"""

from __future__ import annotations

import os
import struct
from typing import Any, NamedTuple

from onlinehash.errors import InvalidInput

MAGIC = b"PAR1"
BYTE_ARRAY, DELTA_BYTE_ARRAY = 6, 7
MOST_NESTED = 32

#: Numbers of fields: of the file, of a group of rows, of a part of a column, and of what is said about that.
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_TYPE, _ENCODINGS, _PATH, _NUM_VALUES, _UNCOMPRESSED = 1, 2, 3, 5, 6


class Chunk(NamedTuple):
    """A column in one group of rows."""

    group: int
    number: int
    path: str
    is_text: bool
    has_prefixes: bool  #: Texts are written as what they have in common with the one before, and the rest.
    n_values: int
    n_bytes: int  #: Not compressed.


def chunks(path: str) -> list[Chunk]:
    """The columns of all groups of rows."""
    try:
        return [
            _chunk(group, number, column[_META_DATA])
            for group, row_group in enumerate(_Thrift(_footer(path)).struct()[_ROW_GROUPS])
            for number, column in enumerate(row_group[_COLUMNS])
        ]
    except (LookupError, TypeError, ValueError, AttributeError, struct.error):
        raise InvalidInput(f"{path} is not a readable parquet file: its end is damaged.") from None


def _chunk(group: int, number: int, said: dict[int, Any]) -> Chunk:
    path = b".".join(said[_PATH]).decode()
    has_prefixes = DELTA_BYTE_ARRAY in said[_ENCODINGS]
    n_values, n_bytes = int(said[_NUM_VALUES]), int(said[_UNCOMPRESSED])
    return Chunk(group, number, path, said[_TYPE] == BYTE_ARRAY, has_prefixes, max(0, n_values), max(0, n_bytes))


def _footer(path: str) -> bytes:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        n_bytes, magic = struct.unpack("<I4s", file.read(8))
        if magic != MAGIC or n_bytes > size - 8:
            raise ValueError("no end")
        file.seek(size - 8 - n_bytes)
        return file.read(n_bytes)


class _Thrift:
    """Values one after the other; what leads out of the data raises an IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._signed()
            found[number] = byte & 15 == 1 if byte & 15 in (1, 2) else self._value(byte & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):  # a bool in a list has a byte of its own
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if depth == MOST_NESTED:
            raise ValueError("nested too deeply")
        if kind in (9, 10):
            byte = self._byte()
            n = self._varint() if byte >> 4 == 15 else byte >> 4
            return [self._value(byte & 15, depth + 1) for _ in range(self._possible(n))]
        if kind == 11:
            n = self._possible(self._varint())
            kinds = self._byte() if n else 0
            return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(n)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("an unknown type")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, n: int) -> bytes:
        self._at += self._possible(n)
        return self._data[self._at - n : self._at]

    def _possible(self, n: int) -> int:
        """As many bytes, or values of at least one byte, as there can be."""
        if n > len(self._data) - self._at:
            raise IndexError("more than there is")
        return n

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number of too many bytes")

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
