"""Named arrays in one safetensors file: written piece by piece, read once, or mapped.

    8 bytes    the length of the header, little-endian
    header     JSON, ended by spaces: {"__metadata__": {"key": "text"},
               "name": {"dtype": "F64", "shape": [2, 3], "data_offsets": [0, 48]}, ...}
    data       the bytes of the arrays, one after the other, without holes

The safetensors library reads these files too, but for NumPy it can neither write without a copy in memory nor map.
What is wrong with a file is raised as a ValueError that ends a sentence, or says nothing of a file that is none of
these; nothing of its header is believed unchecked.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from collections.abc import Iterator
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

#: Arrays begin at multiples of this many bytes where that is possible: a cache line.
ALIGNMENT = 64
#: Arrays are hashed and written in pieces of this many bytes.
PIECE = 2**20
#: The longest header that the safetensors library reads.
LONGEST_HEADER = 100_000_000
#: NumPy has no arrays of more axes, or of more items of any type along those that are not empty.
MOST_AXES, MOST_ITEMS = 64, 2**60
#: The name that no array can have.
METADATA = "__metadata__"

TYPES = {"BOOL": np.dtype("?")} | {
    f"{letter}{8 * size}": np.dtype(f"<{letter.lower()}{size}")
    for letter, sizes in (("I", (1, 2, 4, 8)), ("U", (1, 2, 4, 8)), ("F", (2, 4, 8)))
    for size in sizes
}
NAMES = {dtype: name for name, dtype in TYPES.items()}


class Header(NamedTuple):
    """What a file says of itself: its metadata, an entry for each array, and the byte at which the data begin."""

    metadata: dict[str, str]
    entries: dict[str, dict[str, Any]]
    start: int


def stored(dtype: np.dtype) -> np.dtype:
    """The dtype as it lies in a file, where the lowest byte is the first."""
    return dtype.newbyteorder("<")


def pieces(array: np.ndarray) -> Iterator[memoryview]:
    """The array's bytes in C order; a piece is copied only if it does not lie in memory as it lies in files."""
    if array.nbytes <= PIECE and array.flags.c_contiguous and array.dtype == stored(array.dtype):
        if array.size:
            yield array.reshape(-1).data
        return
    found = np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_dtypes=stored(array.dtype),
        order="C",
        casting="equiv",
        buffersize=PIECE // array.itemsize,
    )
    for piece in found:
        yield np.ascontiguousarray(piece).data


# ------------------------------------------------------------------ writing


def plan(arrays: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """The header's entries, in the order of the data.

    Arrays of whole cache lines come first, so each of them begins at one; the others by falling size of their items,
    so each begins at a multiple of it.
    """
    entries, end = {}, 0
    for name in sorted(arrays, key=lambda n: (arrays[n].nbytes % ALIGNMENT != 0, -arrays[n].itemsize, n)):
        array = arrays[name]
        begin, end = end, end + array.nbytes
        entries[name] = {
            "dtype": NAMES[stored(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    return entries


def header_bytes(entries: dict[str, dict[str, Any]], metadata: dict[str, str]) -> bytes:
    """The file up to its data, which begin at a cache line."""
    text = json.dumps({METADATA: metadata, **entries}).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"a header of {len(text)} bytes, more than {LONGEST_HEADER}")
    return struct.pack("<Q", len(text)) + text


# ------------------------------------------------------------------ reading


def read_header(file: BufferedIOBase) -> Header:
    """The header, if all of it is sound and the arrays fill the rest of the file exactly."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = 8 + int.from_bytes(file.read(8), "little")
    if length < 8 or start > 8 + LONGEST_HEADER:  # as of almost any other file, whose bytes mean no length
        raise ValueError
    if start > length:
        raise ValueError(f"its header should end at byte {start}, but the file has {length}")
    try:
        entries = json.loads(file.read(start - 8).decode())
    except (ValueError, RecursionError):
        raise ValueError("its header is no JSON") from None
    if not isinstance(entries, dict):
        raise ValueError("its header is no JSON object")
    metadata = entries.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are no texts")
    end = 0
    for begin, after in sorted(_offsets(name, entry) for name, entry in entries.items()):
        if begin != end:
            raise ValueError(f"an array should begin at byte {end} of the data, but one begins at {begin}")
        end = after
    if start + end != length:
        raise ValueError(f"its arrays should end at byte {start + end}, but the file has {length}")
    return Header(metadata, entries, start)


def _offsets(name: str, entry: object) -> tuple[int, int]:
    """Where an array begins and ends, if that agrees with its dtype and shape."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]}:
            if (
                dtype in TYPES
                and len(shape) <= MOST_AXES
                and all(type(n) is int and n >= 0 for n in (*shape, begin, end))
                and end - begin == math.prod(shape) * TYPES[dtype].itemsize
                and math.prod(n or 1 for n in shape) < MOST_ITEMS
            ):
                return begin, end
    raise ValueError(f"its array {name[:80]!r} has no dtype, shape and offsets that agree")


def read_arrays(file: BufferedIOBase, header: Header, writeable: bool) -> dict[str, np.ndarray]:
    """All arrays, each read straight into its place in memory."""
    arrays = {}
    for name, entry in header.entries.items():
        array = arrays[name] = np.empty(entry["shape"], TYPES[entry["dtype"]])
        file.seek(header.start + entry["data_offsets"][0])
        if file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
            raise ValueError("it became shorter while it was read")
        array.flags.writeable = writeable
    return arrays


def map_arrays(file: BufferedIOBase, header: Header) -> dict[str, np.ndarray]:
    """All arrays as read-only views of the file; the system fetches a page of it when somebody looks there."""
    mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {
        name: np.ndarray(
            entry["shape"], TYPES[entry["dtype"]], buffer=mapping, offset=header.start + entry["data_offsets"][0]
        )
        for name, entry in header.entries.items()
    }
