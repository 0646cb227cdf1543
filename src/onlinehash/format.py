"""The file format: named arrays and a JSON header in one safetensors file. Nothing in it is ever executed.

The header is one JSON object under the metadata key `onlinehash`:

    {"format": 1, "kind": "learner", "content": {...}, "checksum": "..."}

`content` is any nesting of plain values; an array in it is written as `{"$array": "name"}` and lies in the file under
that name. The checksum covers the header's content and the bytes of every array. docs/file-format.md has the details.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash.errors import FormatError, InvalidInput

FORMAT = 1
KEY = "onlinehash"


def write(path: str | os.PathLike[str], kind: str, content: dict[str, Any]) -> None:
    """Write atomically: a reader sees the old file or the new one, and a crash leaves one of them."""
    from safetensors.numpy import save

    arrays: dict[str, np.ndarray] = {}
    plain = _flatten(content, arrays, "")
    header = {"format": FORMAT, "kind": kind, "content": plain, "checksum": _checksum(kind, plain, arrays)}
    data = save(arrays, {KEY: json.dumps(header)})
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"expected a file's path to write to, got the folder {target}.")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise InvalidInput(f"expected a file that can be written at {target}, got: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """The kind and the content; one clear error for a file that is truncated, foreign, too new or changed."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise InvalidInput(f"expected a file at {path}, got none.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"expected an onlinehash file, but {path} is truncated or of another kind: {error}."
        ) from None
    try:
        header = json.loads(metadata[KEY])
        number, kind, plain, checksum = (header[k] for k in ("format", "kind", "content", "checksum"))
    except (KeyError, TypeError, ValueError):
        raise FormatError(f"expected an onlinehash header in {path}, which is a file of something else.") from None
    if number != FORMAT:
        raise FormatError(
            f"{path} has format {number}, and this version of onlinehash reads format {FORMAT}; upgrade onlinehash."
        )
    if checksum != _checksum(kind, plain, arrays):
        raise FormatError(f"{path} was changed after it was written (its checksum differs); restore it from a copy.")
    try:
        return kind, _restore(plain, arrays)
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path} is incomplete: {error} is missing; restore it from a copy.") from None


def like(value: Any, expected: np.ndarray, name: str) -> np.ndarray:
    """A copy of an array out of a file, if it has the shape and dtype it must have, and finite values."""
    if not isinstance(value, np.ndarray) or value.shape != expected.shape or value.dtype != expected.dtype:
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise FormatError(f"expected {name} to be {expected.dtype} {expected.shape}, got {got}.")
    if not np.isfinite(value).all():
        raise FormatError(f"expected {name} to have finite values, got others.")
    return np.array(value)


def _flatten(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """Plain JSON for any nesting of plain values; arrays are put aside under a name that says where they belong."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise InvalidInput(f"cannot save an array of dtype {value.dtype} ({name}).")
        if value.flags.f_contiguous and not value.flags.c_contiguous:  # products round by the layout of their factors
            arrays[name] = value.T
            return {"$array": name, "transposed": True}
        arrays[name] = np.asarray(value, order="C")
        return {"$array": name}
    if isinstance(value, dict):
        return {str(k): _flatten(v, arrays, f"{name}.{k}" if name else str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_flatten(v, arrays, f"{name}.{i}") for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidInput(f"cannot save {name or 'this'}: expected numbers, text or arrays, got {type(value).__name__}.")


def _restore(value: Any, arrays: dict[str, np.ndarray]) -> Any:
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


def _checksum(kind: str, plain: Any, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps([kind, plain], sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
