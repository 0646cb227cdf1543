"""Bodies in this library's own format: arrays keep their dtype to the bit, all else is as in JSON."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.io import format
from onlinehash.serve.bodies.from_json import from_plain, refuse_many_values
from onlinehash.serve.bodies.shapes import Shape
from onlinehash.serve.errors import TooLarge

KIND = "body"
#: Bytes of the header, which holds everything except arrays.
LONGEST_HEADER = 2**24
#: Columns of text, which cannot be arrays.
TEXTS = ("codes", "payloads", "texts", "text_a", "text_b")

S = TypeVar("S", bound=Shape)


def from_format(shape: type[S], data: bytes) -> S:
    """The body, with the arrays as they were sent."""
    length = int.from_bytes(data[:8], "little")
    if length > LONGEST_HEADER and length <= len(data):
        raise TooLarge(
            expected=f"at most {LONGEST_HEADER} bytes outside arrays", got=f"{length}", hint="send less per request"
        )
    refuse_many_values(memoryview(data)[8 : 8 + length])
    kind, content = format.from_bytes(data, "the body")
    if kind != KIND:
        raise InvalidInput(expected=f"a file of kind {KIND!r}", got="another kind")
    if "dtype" in content:
        raise InvalidInput("dtype is not allowed here, because arrays carry their own; leave it out.")
    arrays = {name: value for name, value in content.items() if isinstance(value, np.ndarray)}
    for name, array in arrays.items():
        if name not in shape.arrays and (name not in shape.columns or name in TEXTS):
            raise InvalidInput(f"{name[:80]!r} cannot be an array.")
        most = 2 if name in shape.arrays or name in shape.grids else 1
        if not 1 <= array.ndim <= most:
            wanted = "one axis" if most == 1 else "one or two axes"
            raise InvalidInput(expected=f"{wanted} for {name}", got=f"shape {array.shape}")
    for name in shape.arrays:
        if content.get(name) is not None and name not in arrays:
            raise InvalidInput(expected=f"an array for {name}", got=type(content[name]).__name__)
    body = from_plain(shape, {name: [] if name in arrays else value for name, value in content.items()})
    for name, array in arrays.items():
        setattr(body, name, array)
    return body
