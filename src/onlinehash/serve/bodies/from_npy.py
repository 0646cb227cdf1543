"""NumPy's npy format, read by hand: one array of plain numbers, and nothing that NumPy would unpickle.

6 bytes    \\x93NUMPY
2 bytes    the version: 1.0, 2.0 or 3.0
2 bytes    the header's length, little-endian (4 bytes from version 2.0 on)
header     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and spaces
data       as many bytes as the header says
"""

from __future__ import annotations

import math
import re
from typing import Literal

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.serve.errors import BadRequest

MAGIC = b"\x93NUMPY"
#: NumPy's own headers of plain arrays have 118 bytes.
LONGEST_HEADER = 1024
#: Far above any array that fits into a body, far below what NumPy cannot count.
LONGEST_AXIS = 2**40

_LENGTHS = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}
_TYPES = {"f": "248", "i": "1248", "u": "1248", "b": "1"}
_ENTRY = r"\s*'(descr|fortran_order|shape)'\s*:\s*('[^']*'|True|False|\([0-9, ]*\))\s*"
_HEADER = re.compile(rf"\{{{_ENTRY},{_ENTRY},{_ENTRY}(?:,\s*)?\}}\s*")


def from_npy(data: bytes) -> np.ndarray:
    """The array, copied, in C order and in this machine's order of bytes."""
    text, start = _header(data)
    found = _HEADER.fullmatch(text)
    entries = dict(zip(found.groups()[::2], found.groups()[1::2], strict=True)) if found else {}
    if len(entries) != 3:
        raise BadRequest(expected="an npy header with descr, fortran_order and shape", got=checks.shown(text))
    dtype, shape = _dtype(entries["descr"]), _shape(entries["shape"])
    if entries["fortran_order"] not in ("True", "False"):
        raise BadRequest(expected="fortran_order to be True or False", got=checks.shown(entries["fortran_order"]))
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != len(data) - start:
        raise BadRequest(expected=f"{n_bytes} bytes for an npy array of shape {shape}", got=f"{len(data) - start}")
    found_order: Literal["C", "F"] = "F" if entries["fortran_order"] == "True" else "C"
    return np.array(np.ndarray(shape, dtype, data, start, order=found_order), dtype.newbyteorder("="), order="C")


def _header(data: bytes) -> tuple[str, int]:
    """The header's text, and where the data begin."""
    size = _LENGTHS.get(data[6:8])
    if data[:6] != MAGIC or size is None:
        raise BadRequest("the body is not an npy file of version 1.0 to 3.0, as numpy.save writes it.")
    length = int.from_bytes(data[8 : 8 + size], "little")
    start = 8 + size + length
    if length > LONGEST_HEADER:
        raise BadRequest(expected=f"an npy header of at most {LONGEST_HEADER} bytes", got=f"{length}")
    if start > len(data):
        raise BadRequest(f"the npy header should end at byte {start}, but the body has {len(data)} bytes.")
    try:
        return data[8 + size : start].decode("ascii"), start
    except UnicodeDecodeError:
        raise BadRequest("the npy header is not ASCII.") from None


def _dtype(descr: str) -> np.dtype:
    name = descr.strip("'")
    code = name.lstrip("<>|=") if len(name) <= 3 else ""
    if len(code) == 2 and len(name) - len(code) <= 1 and code[1] in _TYPES.get(code[0], ""):
        return np.dtype(name)
    raise InvalidInput(
        expected="an npy array of floats, integers or bools",
        got=f"dtype {checks.shown(name)}",
        hint="convert it to float32",
    )


def _shape(text: str) -> tuple[int, ...]:
    """At most two axes, none of them absurd."""
    parts = text.strip("()").split(",")
    if not parts[-1].strip():
        parts.pop()  # (3,) has one axis, and () none
    if not all(part.strip().isdigit() for part in parts):
        raise BadRequest(expected="the shape of an npy array", got=checks.shown(text))
    shape = tuple(int(part) for part in parts)
    if len(shape) > 2 or any(n > LONGEST_AXIS for n in shape):
        raise InvalidInput(expected="a matrix", got=f"an npy array of shape {checks.shown(shape)}")
    return shape
