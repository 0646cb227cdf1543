"""How large the columns of a parquet file are, read without pyarrow, which ends the process where this is damaged.

The end of a file says where each part of a column lies and how large it is unpacked; whoever forges it can say
anything. So the pages of each part are asked as well: what a page says is what pyarrow unpacks it to, or it fails. Both
are structures of Thrift's compact protocol: fields with numbers, each after its type.
"""

from __future__ import annotations

import mmap
import os
import struct
from functools import lru_cache
from typing import Any, NamedTuple

from onlinehash.errors import InvalidInput

MAGIC = b"PAR1"
BYTE_ARRAY, DELTA_BYTE_ARRAY = 6, 7
MOST_NESTED = 32

#: Numbers of fields: of the file, of a group of rows (two), of a part of a column, and of what is said about that.
_ROW_GROUPS, _COLUMNS, _NUM_ROWS, _META_DATA = 4, 1, 3, 3
_TYPE, _ENCODINGS, _PATH, _NUM_VALUES, _UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _DICTIONARY = 1, 2, 3, 5, 6, 7, 9, 11
#: Of a page: how large it is unpacked, and in the file.
_PAGE_UNPACKED, _PAGE_PACKED = 2, 3


class Chunk(NamedTuple):
    """A column in one group of rows."""

    group: int
    number: int
    path: str
    is_text: bool
    has_prefixes: bool  #: Texts are written as what they have in common with the one before, and the rest.
    n_rows: int
    n_values: int
    n_bytes: int  #: Not compressed.


def chunks(path: str) -> tuple[Chunk, ...]:
    """The columns of all groups of rows; looked at once, as a large file is opened again for each of its parts."""
    state = os.stat(path)
    return _chunks(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=8)
def _chunks(path: str, size: int, modified: int) -> tuple[Chunk, ...]:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return tuple(
                _chunk(data, group, number, row_group[_NUM_ROWS], column[_META_DATA])
                for group, row_group in enumerate(_footer(data)[_ROW_GROUPS])
                for number, column in enumerate(row_group[_COLUMNS])
            )
    except (LookupError, TypeError, ValueError, AttributeError, struct.error):
        raise InvalidInput(f"{path} is not a readable parquet file: what it says of its columns is damaged.") from None


def _chunk(data: mmap.mmap, group: int, number: int, n_rows: int, said: dict[int, Any]) -> Chunk:
    path = b".".join(said[_PATH]).decode()
    has_prefixes = DELTA_BYTE_ARRAY in said[_ENCODINGS]
    n_bytes = max(0, int(said[_UNCOMPRESSED]), _unpacked_pages(data, said))
    n_values = max(0, int(said[_NUM_VALUES]))
    return Chunk(group, number, path, said[_TYPE] == BYTE_ARRAY, has_prefixes, int(n_rows), n_values, n_bytes)


def _unpacked_pages(data: mmap.mmap, said: dict[int, Any]) -> int:
    """Bytes that the pages of a part of a column say they unpack to; a list of its values, if any, is the first page.

    A page that leads out of the part ends the count: pyarrow reads no further, either.
    """
    start = said[_DATA_PAGE]
    if 0 < said.get(_DICTIONARY, 0) < start:
        start = said[_DICTIONARY]
    at, end, total = start, start + said[_COMPRESSED], 0
    while 0 <= at < min(end, len(data)):
        page = _Thrift(data, at)
        header = page.struct()
        if header[_PAGE_UNPACKED] < 0 or header[_PAGE_PACKED] < 0:
            raise ValueError("a page of a negative size")
        total += header[_PAGE_UNPACKED]
        at = page.at + header[_PAGE_PACKED]
    return int(total)


def _footer(data: mmap.mmap) -> dict[int, Any]:
    n_bytes, magic = struct.unpack("<I4s", data[-8:])
    start = len(data) - 8 - n_bytes
    if magic != MAGIC or start < 0:
        raise ValueError("no end")
    return _Thrift(data[start:-8]).struct()


class _Thrift:
    """Values one after the other; what leads out of the data raises an IndexError."""

    def __init__(self, data: bytes | mmap.mmap, at: int = 0) -> None:
        self._data, self.at = data, at

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
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, n: int) -> bytes:
        self.at += self._possible(n)
        return self._data[self.at - n : self.at]

    def _possible(self, n: int) -> int:
        """As many bytes, or values of at least one byte, as there can be."""
        if n > len(self._data) - self.at:
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
