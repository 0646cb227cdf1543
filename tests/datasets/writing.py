"""Small files in the true formats."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path
from typing import Any, ClassVar

import numpy as np


def write_vecs(path: Path, rows: np.ndarray) -> Path:
    """fvecs, bvecs or ivecs: each row after its dimension."""
    with open(path, "wb") as file:
        for row in rows:
            file.write(struct.pack("<i", len(row)) + row.tobytes())
    return path


def idx_bytes(values: np.ndarray) -> bytes:
    """An array of bytes as idx."""
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


def write_mnist(folder: Path, n_train: int = 6, n_test: int = 3, compressed: bool = True) -> tuple[Any, Any]:
    """Four files as MNIST has them; the images and labels."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (n_train + n_test, 28, 28), np.uint8)
    labels = rng.integers(0, 10, n_train + n_test, np.uint8)
    for part, rows in (("train", slice(0, n_train)), ("t10k", slice(n_train, None))):
        for name, values in (("images-idx3", images[rows]), ("labels-idx1", labels[rows])):
            data = idx_bytes(values)
            path = folder / f"{part}-{name}-ubyte{'.gz' if compressed else ''}"
            path.write_bytes(gzip.compress(data) if compressed else data)
    return images, labels


class Python2Pickler(pickle._Pickler):  # the one in Python, whose ways can be changed
    """Writes what Python 2 wrote: bytes and text are one, with opcodes of their own."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, text: bytes | str) -> None:
        data = text if isinstance(text, bytes) else text.encode("latin1")
        self.write(b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<i", len(data)) + data)
        self.memoize(text)

    dispatch[bytes] = dispatch[str] = save_string


def write_batch(path: Path, images: np.ndarray, labels: list[int], protocol: int = 2) -> Path:
    """A batch of CIFAR-10: protocol 2 as Python 2 wrote it, with the names of NumPy then; others as Python 3 does."""
    content = {
        b"batch_label": b"training batch 1 of 5",
        b"labels": labels,
        b"data": np.ascontiguousarray(images.transpose(0, 3, 1, 2).reshape(len(images), -1)),
        b"filenames": [b"file_%d.png" % k for k in range(len(images))],
    }
    with open(path, "wb") as file:
        if protocol == 2:
            Python2Pickler(file, 2).dump(content)
        else:
            pickle.dump(content, file, protocol=protocol)
    if protocol == 2:
        path.write_bytes(path.read_bytes().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))
    return path


def write_bmp(path: Path, grey: np.ndarray, bits: int = 8, top_down: bool = False) -> Path:
    """A picture of bytes as BMP."""
    height, width = grey.shape
    stride = -(-width * bits // 32) * 4
    lines = np.zeros((height, stride), np.uint8)
    lines[:, : width * bits // 8] = grey if bits == 8 else np.repeat(grey, 3, axis=1)
    palette = b"".join(bytes([k, k, k, 0]) for k in range(256)) if bits == 8 else b""
    start = 54 + len(palette)
    head = struct.pack("<2sIHHI", b"BM", start + lines.size, 0, 0, start)
    info = struct.pack("<IiiHHIIiiII", 40, width, -height if top_down else height, 1, bits, 0, lines.size, 0, 0, 0, 0)
    path.write_bytes(head + info + palette + (lines if top_down else lines[::-1]).tobytes())
    return path


def write_patches(folder: Path, n: int = 300, bits: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Bitmaps of patches and info.txt; the patches and their points."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    patches, points = rng.integers(0, 256, (n, 64, 64), np.uint8), np.sort(rng.integers(0, n // 3, n))
    for number in range(-(-n // 256)):
        picture = np.zeros((1024, 1024), np.uint8)
        for k, patch in enumerate(patches[256 * number : 256 * (number + 1)]):
            row, column = divmod(k, 16)
            picture[64 * row : 64 * (row + 1), 64 * column : 64 * (column + 1)] = patch
        write_bmp(folder / f"patches{number:04d}.bmp", picture, bits)
    (folder / "info.txt").write_text("".join(f"{point} 0\n" for point in points))
    return patches, points


def write_texmex(folder: Path, prefix: str, n: int = 20, d: int = 5) -> dict[str, np.ndarray]:
    """base, learn, query and groundtruth as SIFT1M and GIST1M have them."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    parts = {name: rng.random((m, d), np.float32) for name, m in (("base", n), ("learn", 7), ("query", 3))}
    for name, rows in parts.items():
        write_vecs(folder / f"{prefix}_{name}.fvecs", rows)
    parts["groundtruth"] = rng.integers(0, n, (3, 4)).astype("<i4")
    write_vecs(folder / f"{prefix}_groundtruth.ivecs", parts["groundtruth"])
    return parts
