"""Grey pictures as PNG, without a library of images."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def written(grey: np.ndarray) -> bytes:
    """The PNG of bytes `(height, width)`: 0 is black, 255 is white."""
    height, width = grey.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    lines = np.insert(grey, 0, 0, axis=1).tobytes()  # each line of a PNG begins with its filter, here none
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
