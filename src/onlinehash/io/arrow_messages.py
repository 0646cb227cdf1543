"""What Arrow IPC messages say of compressed buffers, which pyarrow does not tell before it unpacks them.

The metadata of a message is a flatbuffer: tables, whose fields are found through a list of offsets, and vectors. Data
that is none makes these functions raise `struct.error`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = b"ARROW1"

#: Fields by their numbers: of a message, of a dictionary, of a batch of records, of the end of a file.
_HEADER_TYPE, _HEADER = 1, 2
_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3
_DICTIONARIES, _BATCHES = 2, 3

_DICTIONARY_BATCH = 2

Data = bytes | memoryview


def is_compressed(metadata: Data) -> bool:
    """Whether the buffers of a message with a record batch are compressed."""
    return _slot(metadata, _record_batch(metadata), _COMPRESSION) != 0


def unpacked_size(file: Data) -> int:
    """Bytes that all buffers of an Arrow IPC file take once they are unpacked, by what each says of itself."""
    total = 0
    for start, n_metadata in _blocks(file):
        has_mark = file[start : start + 4] == b"\xff\xff\xff\xff"  # before the length, since version 0.15
        metadata = file[_within(file, start) + (8 if has_mark else 4) : start + n_metadata]
        batch = _record_batch(metadata)
        packed = _slot(metadata, batch, _COMPRESSION) != 0
        for offset, length in _structs(metadata, batch, _BUFFERS, "<qq"):
            total += max(_length_of(file, start + n_metadata + offset) if packed and length >= 8 else length, 0)
    return total


def _length_of(file: Data, at: int) -> int:
    """The length that stands before a compressed buffer; -1 stands before one that is as it was."""
    return int(struct.unpack_from("<q", file, _within(file, at))[0])


def _blocks(file: Data) -> Iterator[tuple[int, int]]:
    """Where the dictionaries and batches of a file begin, and how long their metadata is."""
    length = int(struct.unpack_from("<i", file, _within(file, len(file) - len(MAGIC) - 4))[0])
    footer = file[_within(file, len(file) - len(MAGIC) - 4 - length) : len(file) - len(MAGIC) - 4]
    root = _follow(footer, 0)
    for field in (_DICTIONARIES, _BATCHES):
        yield from ((start, length) for start, length, _ in _structs(footer, root, field, "<qi4xq"))


def _record_batch(metadata: Data) -> int:
    """Where the table of a message's record batch lies, which may be that of a dictionary."""
    message = _follow(metadata, 0)
    batch = _follow(metadata, _slot(metadata, message, _HEADER))
    kind = _slot(metadata, message, _HEADER_TYPE)
    if kind and metadata[_within(metadata, kind)] == _DICTIONARY_BATCH:
        batch = _follow(metadata, _slot(metadata, batch, _DATA))
    return batch


def _follow(data: Data, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


def _slot(data: Data, table: int, number: int) -> int:
    """Where a field of a table lies, 0 if it is not there."""
    names = _within(data, table - struct.unpack_from("<i", data, table)[0])
    if 4 + 2 * number >= struct.unpack_from("<H", data, names)[0]:
        return 0
    offset = int(struct.unpack_from("<H", data, names + 4 + 2 * number)[0])
    return table + offset if offset else 0


def _structs(data: Data, table: int, number: int, layout: str) -> Iterator[tuple[int, ...]]:
    """The elements of a field that is a vector."""
    at = _slot(data, table, number)
    if at:
        at = _follow(data, at)
        size, n = struct.calcsize(layout), int(struct.unpack_from("<I", data, at)[0])
        yield from struct.iter_unpack(layout, data[at + 4 : _within(data, at + 4 + n * size - 1) + 1] if n else b"")


def _within(data: Data, at: int) -> int:
    """A place in the data: `struct` would count a negative one from the end."""
    if not 0 <= at < len(data):
        raise struct.error("an offset leads out of the data")
    return at
