"""The file format: named arrays and a JSON header in one safetensors file. Nothing in it is ever executed.

The header is one JSON object under the metadata key `onlinehash`:

    {"format": 1, "kind": "learner", "content": {...}, "checksum": "...", "outline": "..."}

`content` is any nesting of plain values; an array in it is written as `{"$array": "name"}` and lies in the file under
that name. The checksum covers the content and the bytes of every array. The outline covers all that the header says and
no array's bytes, so a large file can be mapped and still be checked. docs/reference/file-format.md has the details.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import sys
from collections.abc import Iterator
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.io import container
from onlinehash.io.atomic import replacing
from onlinehash.types import State

FORMAT = 1
KEY = "onlinehash"
#: How files begin that people give by mistake.
FOREIGN = {
    b"\x93NUMPY": "a NumPy array",
    b"PK\x03\x04": "a zip archive, such as an npz file",
    b"PAR1": "a Parquet file",
    b"\x89HDF": "an HDF5 file",
    b"SQLite": "an SQLite database",
    b"\x80": "a pickle",
}


def write(path: str | os.PathLike[str], kind: str, content: State) -> None:
    """Write atomically: a reader sees the old file or the new one, and a crash leaves one of them.

    Arrays go to the file in pieces, so this takes a few megabytes however large they are; one of them may be a mapping
    of the very file that is replaced.
    """
    pieces = _pieces(kind, content)
    with replacing(path) as file:
        for piece in pieces:
            file.write(piece)


def to_bytes(kind: str, content: State) -> bytes:
    """What `write` would write, for those who keep files inside something else."""
    return b"".join(_pieces(kind, content))


def _pieces(kind: str, content: State) -> Iterator[bytes | memoryview]:
    """The bytes of a file; what cannot be written is refused before the first of them."""
    arrays: dict[str, np.ndarray] = {}
    plain = _flatten(content, arrays, "")
    entries = container.plan(arrays)
    header = {"format": FORMAT, "kind": kind, "content": plain, "checksum": _checksum(kind, plain, arrays)}
    header["outline"] = _outline(header, entries)
    try:
        head = container.header_bytes(entries, {KEY: json.dumps(header)})
    except ValueError as error:
        raise InvalidInput(f"cannot save so much data outside arrays: {error}; put it into arrays.") from None
    return itertools.chain([head], *(container.pieces(arrays[name]) for name in entries))


def read(path: str | os.PathLike[str], mmap: bool = False) -> tuple[str, State]:
    """The kind and the content; one clear error for a file that is truncated, foreign, too new or changed.

    With `mmap` the arrays are read-only, and views of the file: opening it takes no time or memory, and all is checked
    but the arrays' bytes. A file that was written before there were outlines is read, and checked, completely.
    """
    if Path(path).is_dir():
        raise InvalidInput(
            expected=f"a file at {path}", got="a folder", hint="open the folder of a live index with LiveIndex.open"
        )
    if not Path(path).is_file():
        raise InvalidInput(f"no such file: {path}.")
    try:
        with open(path, "rb") as file:
            return _read(file, path, mmap)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}.") from None
    except MemoryError:
        raise InvalidInput(f"there is not enough memory for {path}; open it with mmap=True.") from None


def from_bytes(data: bytes, name: str) -> tuple[str, State]:
    """What `to_bytes` was given; the name is for messages."""
    return _read(BytesIO(data), name, False)


def _read(file: BufferedIOBase, path: str | os.PathLike[str], mmap: bool) -> tuple[str, State]:
    try:
        found = container.read_header(file)
        header = _our_header(found, path)
        if mmap and "outline" in header:
            arrays = container.map_arrays(file, found)
        else:
            arrays = container.read_arrays(file, found, writeable=not mmap)
            if header["checksum"] != _checksum(header["kind"], header["content"], arrays):
                raise _changed(path, "checksum")
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        file.seek(0)
        start = file.read(8)
        for magic, kind in FOREIGN.items():
            if start.startswith(magic):
                raise FormatError(f"{path} is {kind}, not a model, an index or codes saved by onlinehash.") from None
        said = f": {error}" if str(error) else ""
        raise FormatError(f"{path} is not an onlinehash file, or it is truncated{said}.") from None
    return _content(header, arrays, path)


# ------------------------------------------------------------------ values out of a file, each with its range
#
# Anybody can write a file whose sums are right. Whoever takes a value out of one says here what it may be: an array has
# a shape and a dtype, whole numbers have a range, for they count loops and index memory, and other numbers are finite.

#: The most that anything may have been counted: an int64 that can be added to.
MOST = 2**62


def like(
    value: object, expected: np.ndarray, name: str, low: float | None = None, high: float | None = None
) -> np.ndarray:
    """A copy of an array, if it has the shape and dtype it must have, and values that are finite and in their range.

    Arrays of whole numbers must be given a range.
    """
    if expected.dtype.kind in "iu" and (low is None or high is None):
        raise TypeError(f"{name} has whole numbers, so it needs a range")
    if not isinstance(value, np.ndarray) or value.shape != expected.shape or value.dtype != expected.dtype:
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise FormatError(expected=f"{name} to be {expected.dtype} {expected.shape}", got=f"{got}")
    if not np.isfinite(value).all():
        raise FormatError(f"{name} contains values that are not finite.")
    if value.size and ((low is not None and value.min() < low) or (high is not None and value.max() > high)):
        least, most = ("any number" if bound is None else f"{bound:g}" for bound in (low, high))
        raise FormatError(expected=f"{name} from {least} to {most}", got=f"{value.min()} to {value.max()}")
    return np.array(value)


def whole(value: object, name: str, low: int = 0, high: int = MOST) -> int:
    """A whole number in its range."""
    return int(_kept(value, name, checks.integer(low, high)))


def real(value: object, name: str, low: float = -sys.float_info.max, high: float = sys.float_info.max) -> float:
    """A finite number in its range."""
    return float(_kept(value, name, checks.real(low, high)))


def text(value: object, name: str) -> str:
    """A text."""
    return str(_kept(value, name, ("text", lambda v: isinstance(v, str))))


def listed(value: object, name: str, length: int | None = None) -> list[Any]:
    """A list, of this length where one is given."""
    rule = f"a list of {length}" if length is not None else "a list"
    return list(_kept(value, name, (rule, lambda v: isinstance(v, list) and length in (None, len(v)))))


def _kept(value: object, name: str, rule: checks.Rule) -> Any:
    if not rule[1](value):
        raise FormatError(expected=f"{name} to be {rule[0]}", got=checks.shown(value))
    return value


# ------------------------------------------------------------------ the header


def _our_header(found: container.Header, path: str | os.PathLike[str]) -> State:
    """The JSON object, if it has every field, our format number, and the outline (where there is one) of this file."""
    try:
        header: State = json.loads(found.metadata[KEY], object_pairs_hook=_named_once)
        number, *_ = (header[field] for field in ("format", "kind", "content", "checksum"))
    except (KeyError, TypeError, ValueError, RecursionError):
        raise FormatError(f"{path} is not an onlinehash file: its header is missing, or has a name twice.") from None
    if number != FORMAT:
        raise FormatError(
            f"{path} has format {checks.shown(number)}, and this version of onlinehash reads format {FORMAT}; "
            "upgrade onlinehash."
        )
    if "outline" in header and header["outline"] != _outline(header, found.entries):
        raise _changed(path, "outline")
    return header


def _named_once(pairs: list[tuple[str, Any]]) -> State:
    """An object of JSON, unless it has a name twice; which of two values counts would be a guess."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _changed(path: str | os.PathLike[str], what: str) -> FormatError:
    return FormatError(f"{path} was changed after it was written (its {what} differs); restore it from a copy.")


def _checksum(kind: str, plain: object, arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 over the content and the bytes of all arrays."""
    digest = hashlib.sha256(json.dumps([kind, plain], sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}:{container.stored(array.dtype).str}:{array.shape}:".encode())
        for piece in container.pieces(array):
            digest.update(piece)
    return digest.hexdigest()


def _outline(header: State, entries: dict[str, dict[str, Any]]) -> str:
    """SHA-256 over all that a file's header says: our fields but this one, and what arrays there are, and where."""
    fields = {name: value for name, value in header.items() if name != "outline"}
    return hashlib.sha256(json.dumps([fields, entries], sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------------------ the content


def _flatten(value: object, arrays: dict[str, np.ndarray], name: str) -> Any:
    """Plain JSON for any nesting of plain values; arrays are put aside under a name that says where they belong."""
    if isinstance(value, np.ndarray):
        if container.stored(value.dtype) not in container.NAMES:
            raise InvalidInput(f"cannot save an array of dtype {value.dtype} ({name}).")
        while name in arrays or name == container.METADATA:  # {"a.b": x, "a": {"b": y}}
            name += "_"
        if value.flags.f_contiguous and not value.flags.c_contiguous:  # products round by the layout of their factors
            arrays[name] = np.asarray(value.T)
            return {"$array": name, "transposed": True}
        arrays[name] = np.asarray(value)
        return {"$array": name}
    if isinstance(value, dict):
        if "$array" in value or "$float" in value:
            raise InvalidInput(f"cannot save {name or 'this'}: the keys $array and $float are reserved in files.")
        return {str(k): _flatten(v, arrays, f"{name}.{k}" if name else str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_flatten(v, arrays, f"{name}.{i}") for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidInput(
        where=f"cannot save {name or 'this'}", expected="numbers, text or arrays", got=type(value).__name__
    )


def _content(header: State, arrays: dict[str, np.ndarray], path: str | os.PathLike[str]) -> tuple[str, State]:
    """The kind and the content of a file whose sums are right, which anybody can compute."""
    kind = header["kind"]
    try:
        content = _restore(header["content"], arrays)
        if isinstance(kind, str) and isinstance(content, dict):
            return kind, content
        problem = f"a kind and content that are {type(kind).__name__} and {type(content).__name__}"
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = checks.shown(error)
    raise FormatError(f"{path} is damaged or was not written by onlinehash ({problem}); restore it from a copy.")


def _restore(value: object, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if "$array" in value:
            array = arrays[value["$array"]]
            return array.T if value.get("transposed") else array
        if "$float" in value:
            return float(value["$float"])
        return {k: _restore(v, arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [_restore(v, arrays) for v in value]
    return value
