"""Rows to and from the database, many at a time: COPY in its binary form, put together by columns."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onlinehash.stores.backend import FOREVER, Layout
from onlinehash.stores.postgres.chunks import Chunks
from onlinehash.stores.postgres.connections import Connection

_BEGIN, _END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
#: Rows that are put together at once.
_BLOCK = 4096


def counts(table: str = "") -> str:
    """The condition of rows that count at an epoch, which is its parameter twice.

    Nearly all do, so no index shall be asked for it: whence the zeros.
    """
    prefix = f"{table}." if table else ""
    return f"{prefix}born + 0 <= %s AND %s < {prefix}died + 0"


def copy(
    connection: Connection, table: str, fixed: dict[str, np.ndarray], texts: dict[str, Sequence[str | None]]
) -> None:
    """Append rows to a table: columns whose values all have the same number of bytes, and columns of texts.

    A fixed column is of int64 or int32, or of bytes (n, width).
    """
    names = ", ".join([*fixed, *texts])
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)") as copying:
        copying.write(_BEGIN)
        for block in _blocks(list(fixed.values()), list(texts.values())):
            copying.write(block)
        copying.write(_END)


def _blocks(fixed: list[np.ndarray], texts: list[Sequence[str | None]]) -> Iterator[bytes]:
    layout: list[tuple[Any, ...]] = [("n_fields", ">i2")]
    for number, column in enumerate(fixed):
        layout.append((f"length{number}", ">i4"))
        layout.append(
            (f"value{number}", "u1", column.shape[1:]) if column.ndim == 2 else (f"value{number}", _big(column))
        )
    kind = np.dtype(layout)
    for begin in range(0, len(fixed[0]), _BLOCK):
        part = [column[begin : begin + _BLOCK] for column in fixed]
        block = np.empty(len(part[0]), kind)
        block["n_fields"] = len(fixed) + len(texts)
        for number, column in enumerate(part):
            block[f"length{number}"] = column.shape[1] if column.ndim == 2 else column.itemsize
            block[f"value{number}"] = column
        yield _with_texts(block, [column[begin : begin + _BLOCK] for column in texts])


def _big(column: np.ndarray) -> np.dtype[Any]:
    """The type of a column in the order of bytes that the wire has."""
    return column.dtype.newbyteorder(">")


def _with_texts(block: np.ndarray, texts: list[Sequence[str | None]]) -> bytes:
    """Rows with their texts at the end, each after its length: put together by columns, as rows are many."""
    size, whole = block.dtype.itemsize, block.view(np.uint8).data
    step = 1 + 2 * len(texts)
    pieces: list[bytes | memoryview] = [b""] * (step * len(block))
    pieces[::step] = [whole[begin : begin + size] for begin in range(0, len(whole), size)]
    for number, column in enumerate(texts):
        values = [b"" if text is None else text.encode() for text in column]
        lengths = [_NULL if text is None else _LENGTHS[len(value)] for text, value in zip(column, values, strict=True)]
        pieces[1 + 2 * number :: step], pieces[2 + 2 * number :: step] = lengths, values
    return b"".join(pieces)


class _Lengths(dict[int, bytes]):
    """Lengths as the wire has them; few are different."""

    def __missing__(self, length: int) -> bytes:
        return struct.pack(">i", length)


_LENGTHS = _Lengths({length: struct.pack(">i", length) for length in range(256)})


def of_items(
    born: int, places: np.ndarray, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[str | None]
) -> tuple[dict[str, np.ndarray], dict[str, Sequence[str | None]]]:
    """The columns of rows of items that live."""
    rows = np.ascontiguousarray(vectors)
    as_bytes = rows.view(np.uint8).reshape(len(rows), rows.shape[1] * rows.itemsize)
    return _lives(born, places) | {"vector": as_bytes}, {"id": ids, "payload": payloads}


def of_codes(
    born: int, places: np.ndarray, ids: Sequence[str], codes: np.ndarray, layout: Layout, chunks: Chunks
) -> tuple[dict[str, np.ndarray], dict[str, Sequence[str | None]]]:
    """The columns of rows of codes that live: each group as bits, which the wire has after their number, and chunks."""
    fixed, begin = _lives(born, places), 0
    for group, n_bits in enumerate(layout.groups):
        end = begin + n_bits // 8
        number = np.frombuffer(struct.pack(">i", n_bits), np.uint8)
        fixed[f"code{group}"] = np.hstack([np.tile(number, (len(codes), 1)), codes[:, begin:end]])
        begin = end
    values = chunks.values(codes).astype(np.int32)
    fixed |= {name: values[:, column] for column, name in enumerate(chunks.columns)}
    return fixed, {"id": ids}


def _lives(born: int, places: np.ndarray) -> dict[str, np.ndarray]:
    n = len(places)
    return {"place": np.asarray(places, np.int64), "born": np.full(n, born), "died": np.full(n, FOREVER)}


def code_of(bits: Sequence[bytes]) -> bytes:
    """A code out of its groups, as the wire has them."""
    return b"".join(group[4:] for group in bits)
