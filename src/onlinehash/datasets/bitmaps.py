"""Uncompressed BMP pictures as grey levels: 8 bits with a palette, or 24 bits."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from onlinehash.datasets.files import size_of
from onlinehash.errors import FormatError

HEADERS = struct.Struct("<2sIHHI IiiHHIIiiII")  # of the file, and of the picture

#: How much blue, green and red count in grey (ITU-R BT.601), in the order of the file.
GREY = np.array([0.114, 0.587, 0.299])

MOST_PIXELS = 1 << 26


def read(path: Path) -> np.ndarray:
    """The picture, from top to bottom, as a matrix of bytes."""
    size = size_of(path)
    with open(path, "rb") as file:
        data = file.read(HEADERS.size)
    if size < HEADERS.size or data[:2] != b"BM":
        raise FormatError(f"{path}: expected a BMP picture, which begins with BM, got {data[:2]!r}.")
    _, _, _, _, start, header_bytes, width, height, _, bits, compression, _, _, _, n_colours, _ = HEADERS.unpack(data)
    if header_bytes < 40 or bits not in (8, 24) or compression:
        raise FormatError(f"{path}: expected 8 or 24 bits a pixel, uncompressed, got {bits} and kind {compression}.")
    rows = abs(height)
    if width < 1 or rows < 1 or width * rows > MOST_PIXELS:
        raise FormatError(f"{path}: expected a picture of at most {MOST_PIXELS:,} pixels, got {width} x {rows}.")
    stride = -(-width * bits // 32) * 4
    if start < HEADERS.size or size < start + rows * stride:
        raise FormatError(f"{path} is truncated: expected {start + rows * stride:,} bytes, got {size:,}.")
    lines = np.fromfile(path, np.uint8, rows * stride, offset=start).reshape(rows, stride)
    lines = lines if height < 0 else lines[::-1]  # most are stored from the bottom up
    if bits == 24:
        return _grey(lines[:, : 3 * width].reshape(rows, width, 3))
    n_colours = n_colours or 256
    at = 14 + header_bytes
    if n_colours > 256 or at + 4 * n_colours > start:
        raise FormatError(f"{path}: expected a palette of at most 256 colours before the pixels, got {n_colours}.")
    palette = np.fromfile(path, np.uint8, 4 * n_colours, offset=at).reshape(-1, 4)
    pixels = lines[:, :width]
    if pixels.max() >= n_colours:
        raise FormatError(f"{path}: expected pixels below {n_colours}, the size of the palette, got {pixels.max()}.")
    return _grey(palette[:, :3])[pixels]


def _grey(colours: np.ndarray) -> np.ndarray:
    return np.rint(colours @ GREY).astype(np.uint8)
