"""Pickles of plain data, such as the batches of CIFAR-10: numbers, text, bytes, lists, tuples, dicts and NumPy arrays.

A pickle may name anything that Python can import, and have it called. Here four names are known, and each stands for a
class of this module: nothing is imported, and nothing outside this module is called, NumPy neither, whose own way to
restore an array believes what the file says about its memory.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import re
from io import BytesIO
from typing import Any

import numpy as np

from onlinehash.errors import FormatError

ARRAY_TYPE = re.compile(r"b1|[iu][1248]|f[248]")


class _Refused(Exception):
    """Raised for anything that plain data does not contain."""


class _StandIn:
    """What a known name stands for. A pickle can set the attributes of anything that does not define this method."""

    def __setstate__(self, state: object) -> None:
        raise _Refused("an object")


class _ArrayClass(_StandIn):
    """`numpy.ndarray`, which is an argument and is never made."""


class _Array(_StandIn):
    """`numpy._core.multiarray._reconstruct`; the values come after the call."""

    values: np.ndarray | None = None

    def __init__(self, kind: object, shape: object, code: object) -> None:
        if kind is not _ArrayClass:
            raise _Refused(f"an array of class {kind!r}"[:100])

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, data = state
        if not isinstance(kind, _Type) or len(data) != math.prod(shape) * kind.dtype.itemsize:
            raise ValueError("type or size")
        self.values = np.frombuffer(data, kind.dtype).reshape(shape, order="F" if by_columns else "C")


class _Type(_StandIn):
    """`numpy.dtype` of numbers; the byte order comes after the call."""

    def __init__(self, code: Any, align: Any = False, copy: Any = False) -> None:
        if not ARRAY_TYPE.fullmatch(_text(code)):
            raise _Refused(f"an array of type {_text(code)!r}"[:100])
        self.dtype = np.dtype(_text(code))

    def __setstate__(self, state: Any) -> None:
        if state[2:5] != (None, None, None):
            raise _Refused("an array of records")
        self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Bytes(_StandIn):
    """`_codecs.encode`, by which Python 3 writes bytes for Python 2."""

    def __new__(cls, text: str, codec: str) -> Any:
        if codec != "latin1":
            raise _Refused(f"the codec {codec!r}"[:100])
        return text.encode("latin1")


KNOWN = {
    "numpy.core.multiarray._reconstruct": _Array,
    "numpy._core.multiarray._reconstruct": _Array,
    "numpy.ndarray": _ArrayClass,
    "numpy.dtype": _Type,
    "_codecs.encode": _Bytes,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in KNOWN:
            raise _Refused(f"the name {module}.{name}"[:100])
        return KNOWN[f"{module}.{name}"]


def read(data: bytes, source: str) -> Any:
    """What a pickle of plain data holds; what is text in Python 2 comes as bytes."""
    try:
        _check_memo(data)
        found = _Unpickler(BytesIO(data), encoding="bytes").load()
    except _Refused as error:
        raise FormatError(
            f"{source}: expected a pickle of plain data, got {error}; nothing of it was run.",
            expected="a pickle of plain data",
            got=str(error),
        ) from None
    except Exception:  # damage can show as nearly any of them
        raise FormatError(f"{source} is not a pickle of plain data, or it is damaged.") from None
    if isinstance(found, dict):
        return {key: value.values if isinstance(value, _Array) else value for key, value in found.items()}
    return found.values if isinstance(found, _Array) else found


def _check_memo(data: bytes) -> None:
    """Refuse numbers beyond the data, as the memo is a list as long as its largest number."""
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name.endswith("PUT") and int(argument or 0) > len(data):
            raise _Refused(f"the number {argument} in the memo")


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value
