"""Bytes that a parser should survive: mutations of sound ones, and what may come of reading them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from onlinehash.errors import OnlineHashError
from onlinehash.serve.bodies import parser, shapes
from onlinehash.serve.settings import Limits

LIMITS = Limits(batch=50, features=64, k=100, ids=80)

#: What a length field may be made to say.
NUMBERS = [n.to_bytes(size, order) for size in (2, 4, 8) for n in (0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1) - 1)
           for order in ("little", "big")]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, sound: list[bytes]) -> bytes:
    """A sound body, flipped, cut, grown, overwritten or with a piece repeated, a few times."""
    data = bytearray(draw(st.sampled_from(sound)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["flip", "cut", "insert", "number", "repeat", "drop"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = draw(st.binary(max_size=8))
            case "number":
                number = draw(st.sampled_from(NUMBERS))
                data[at : at + len(number)] = number
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 64))]
            case "drop":
                del data[at : at + draw(st.integers(1, 16))]
    return bytes(data)


def outcome(
    shape: type[shapes.Shape], media: str, data: bytes, query: Mapping[str, str] | None = None
) -> shapes.Shape | OnlineHashError:
    """A body whose arrays keep the limits, or an error that blames the sender; anything else is raised."""
    try:
        body = parser.read(shape, media, data, query or {}, LIMITS)
    except OnlineHashError as error:
        return blamed(error)
    assert type(body) is shape
    for name, axes in shape.arrays.items():
        array = getattr(body, name)
        if array is not None:
            assert array.ndim in axes
            assert array.dtype.kind in "biuf"
            assert len(np.atleast_2d(array)) <= LIMITS.batch
            assert array.shape[-1] <= LIMITS.features
    return body


def blamed(error: OnlineHashError) -> OnlineHashError:
    """The error, if it is one sentence on one line that blames the sender."""
    assert 400 <= error.http_status < 500
    assert str(error)
    assert "\n" not in str(error)
    return error


def peak(work: Callable[[], Any]) -> int:
    """Bytes at once while this ran."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
