"""What a change did to codes, as bytes that a database keeps for a while.

Processes that hold all codes in memory read one such record per change instead of all codes. `Change` notes a step for
each call that writes or ends codes; a record is its steps in order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from onlinehash.errors import FormatError

#: The first byte of a record: the form of what follows.
_FORM = 1
_STEP = struct.Struct("<BqI")  # kind, epoch, number of places
_LENGTH = struct.Struct("<I")


class Added(NamedTuple):
    """Codes that count from an epoch on, with the ids of their items."""

    born: int
    places: np.ndarray  # int64
    ids: Sequence[str]
    codes: np.ndarray  # uint8 (n, n_bytes)


class Ended(NamedTuple):
    """Codes that end at an epoch; those of later epochs, which a refresh has written, are gone at once."""

    died: int
    places: np.ndarray


class Rewound(NamedTuple):
    """All that was written after an epoch is gone."""

    epoch: int


Step: TypeAlias = Added | Ended | Rewound


class Delta(NamedTuple):
    """The steps from one epoch to the next, and how many seconds ago they were written."""

    before: int
    epoch: int
    steps: Sequence[Step]
    age: float = 0.0


def to_bytes(steps: Sequence[Step]) -> bytes:
    """A record; ids have no character 0, which separates them here."""
    parts = [bytes([_FORM])]
    for step in steps:
        if isinstance(step, Rewound):
            parts.append(_STEP.pack(2, step.epoch, 0))
        elif isinstance(step, Ended):
            parts += [_STEP.pack(1, step.died, len(step.places)), _of_places(step.places)]
        else:
            ids = "\0".join(step.ids).encode()
            parts += [_STEP.pack(0, step.born, len(step.places)), _of_places(step.places)]
            parts += [_LENGTH.pack(len(ids)), ids, np.ascontiguousarray(step.codes).tobytes()]
    return b"".join(parts)


def _of_places(places: np.ndarray) -> bytes:
    return np.asarray(places, "<i8").tobytes()


def from_bytes(record: bytes, n_bytes: int) -> list[Step]:
    """The steps of a record, whose codes have so many bytes."""
    if record[:1] != bytes([_FORM]):
        raise FormatError("a record of changes has an unknown form; a newer version of onlinehash has written it.")
    steps, at = list[Step](), 1
    try:
        while at < len(record):
            kind, epoch, n = _STEP.unpack_from(record, at)
            places = np.frombuffer(record, "<i8", n, at + _STEP.size)
            at += _STEP.size + places.nbytes
            if kind == 2:
                steps.append(Rewound(epoch))
            elif kind == 1:
                steps.append(Ended(epoch, places))
            else:
                (length,) = _LENGTH.unpack_from(record, at)
                at += _LENGTH.size
                ids = record[at : at + length].decode().split("\0") if n else []
                at += length
                codes = np.frombuffer(record, np.uint8, n * n_bytes, at).reshape(n, n_bytes)
                at += codes.nbytes
                if len(ids) != n:
                    raise ValueError("another number of ids")
                steps.append(Added(epoch, places, ids, codes))
    except (struct.error, ValueError) as error:
        raise FormatError(f"a record of changes is damaged ({error}); restore a backup.") from None
    return steps
