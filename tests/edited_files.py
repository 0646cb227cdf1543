"""Files of the format taken apart and put together again with something changed, as an enemy would."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from onlinehash.io import container, format


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The safetensors header and the bytes of the arrays."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(header: Any, rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + rest


def ours_of(header: dict[str, Any]) -> dict[str, Any]:
    """Our header within that of safetensors."""
    return json.loads(header["__metadata__"]["onlinehash"])


def edit(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any], *, sums: bool = False) -> None:
    """Change the entries of the arrays and our header in place, and compute the sums again if asked."""
    entries, rest = header_of(path.read_bytes())
    ours, metadata = ours_of(entries), entries.pop("__metadata__")
    change(entries, ours)
    if sums:
        with suppress(ValueError, KeyError):  # entries that lie, or no kind or content
            file = BytesIO(with_header(entries, rest))
            arrays = container.read_arrays(file, container.read_header(file), writeable=True)
            ours["checksum"] = format._checksum(ours["kind"], ours["content"], arrays)
        ours["outline"] = format._outline(ours, entries)
    path.write_bytes(with_header({**entries, "__metadata__": metadata | {"onlinehash": json.dumps(ours)}}, rest))
