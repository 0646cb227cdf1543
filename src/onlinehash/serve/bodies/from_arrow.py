"""Arrow streams: a table whose columns are the fields with an entry for each row.

Only plain, uncompressed columns are read: then every buffer is a piece of the body, and reading takes no more memory
than a copy of it. A compressed buffer states its own size, and a few bytes could ask for all memory there is.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.io.arrow_messages import is_compressed
from onlinehash.io.json_names import refuse_repeated
from onlinehash.serve.bodies.from_format import TEXTS
from onlinehash.serve.bodies.shapes import Shape
from onlinehash.serve.errors import BadRequest, TooLarge
from onlinehash.serve.settings import Limits

#: Record batches of one stream.
MOST_BATCHES = 1024


def from_arrow(shape: type[Shape], data: bytes, limits: Limits) -> dict[str, Any]:
    """The columns: arrays of numbers, lists of strings and of payloads."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtra("Arrow bodies", "pyarrow", "parquet") from None
    try:
        batches = _batches(pa, shape, data, limits)
        return {name: _column(pa, name, [batch.column(name) for batch in batches]) for name in batches[0].schema.names}
    except (pa.ArrowException, OSError, struct.error, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not an Arrow IPC stream: {checks.shown(error)}.") from None


def _batches(pa: Any, shape: type[Shape], data: bytes, limits: Limits) -> list[Any]:
    """All record batches, validated."""
    source = pa.BufferReader(data)
    messages = pa.ipc.MessageReader.open_stream(source)
    schema = _schema(pa, shape, messages, limits)
    batches: list[Any] = []
    n_rows = 0
    for message in messages:
        if message.type != "record batch":
            raise InvalidInput(
                expected="plain columns",
                got=f"an Arrow message of type {message.type}",
                hint="decode dictionaries before sending",
            )
        if is_compressed(message.metadata.to_pybytes()):
            raise InvalidInput("compressed Arrow buffers are not supported; write the stream without compression.")
        if len(batches) == MOST_BATCHES:
            raise TooLarge(f"the Arrow stream has more than {MOST_BATCHES} record batches; combine them.")
        batch = pa.ipc.read_record_batch(message, schema)
        n_rows += batch.num_rows
        if n_rows > limits.batch:
            raise TooLarge(
                expected=f"at most {limits.batch} rows", got=f"{n_rows} or more", hint="send fewer per request"
            )
        batch.validate(full=True)
        batches.append(batch)
    if source.tell() != len(data):
        raise BadRequest(f"the body continues for {len(data) - source.tell()} bytes after the end of the Arrow stream.")
    if n_rows == 0:
        raise InvalidInput("the Arrow stream has no rows.")
    return batches


def _schema(pa: Any, shape: type[Shape], messages: Any, limits: Limits) -> Any:
    """The schema; each column must be a field of the shape, occur once, and have a type that the field may have."""
    try:
        first = messages.read_next_message()
    except StopIteration:
        raise BadRequest(expected="an Arrow IPC stream", got="an empty body") from None
    if first.type != "schema":
        raise BadRequest(expected="an Arrow stream to begin with its schema", got=f"a {first.type}")
    schema = pa.ipc.read_schema(first)
    names = schema.names
    if not names or len(set(names)) < len(names) or not set(names) <= set(shape.columns):
        raise InvalidInput(
            expected=f"some of the columns {', '.join(shape.columns)}, each once", got=checks.shown(names)
        )
    for field in schema:
        if not _may_be(pa, field.name, field.type, field.name in shape.arrays, limits):
            wanted = "lists of numbers" if field.name in shape.arrays else "numbers, bools or strings"
            raise InvalidInput(expected=f"{wanted} in the column {field.name}", got=checks.shown(str(field.type)))
    return schema


def _may_be(pa: Any, name: str, type: Any, is_vectors: bool, limits: Limits) -> bool:
    of = pa.types
    if is_vectors:
        fixed = of.is_fixed_size_list(type) and type.list_size > 0  # rows of no bytes could be any number of rows
        if fixed and type.list_size > limits.features:
            raise TooLarge(expected=f"at most {limits.features} values per row of {name}", got=f"{type.list_size}")
        return (fixed or of.is_list(type) or of.is_large_list(type)) and _is_number(pa, type.value_type)
    is_text = of.is_string(type) or of.is_large_string(type)
    return is_text or (name not in TEXTS and _is_number(pa, type))


def _is_number(pa: Any, type: Any) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_boolean(type))


def _column(pa: Any, name: str, pieces: list[Any]) -> Any:
    """The values of one column of all batches."""
    if name != "payloads" and any(piece.null_count for piece in pieces):
        raise InvalidInput(f"the column {name} contains nulls; drop those rows.")
    if pa.types.is_nested(pieces[0].type):
        rows = [_rows(name, piece) for piece in pieces if len(piece)]
        if len({part.shape[1] for part in rows}) > 1:
            raise _ragged(name)
        return np.concatenate(rows)
    if pa.types.is_string(pieces[0].type) or pa.types.is_large_string(pieces[0].type):
        texts = [text for piece in pieces for text in piece.to_pylist()]
        return [_payload(text) for text in texts] if name == "payloads" else texts
    return np.concatenate([piece.to_numpy(zero_copy_only=False) for piece in pieces])


def _rows(name: str, piece: Any) -> np.ndarray:
    """A matrix of lists of one length."""
    values = piece.flatten()
    if values.null_count:
        raise InvalidInput(f"the column {name} contains nulls; drop those rows.")
    offsets = getattr(piece, "offsets", None)
    if offsets is not None and len(np.unique(np.diff(offsets.to_numpy()))) > 1:
        raise _ragged(name)
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(piece), len(values) // len(piece))


def _ragged(name: str) -> InvalidInput:
    return InvalidInput(expected=f"a rectangular array for {name}", got="rows of unequal length")


def _payload(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        payload = msgspec.json.decode(text, type=dict[str, Any] | None)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidInput(expected="a JSON object for each payload", got=checks.shown(text)) from None
    refuse_repeated(text.encode())
    return payload
