"""The python batches of CIFAR-10: pickled dicts of 10,000 images each, read as plain data and never run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from onlinehash.datasets import pickles
from onlinehash.datasets.dataset import Dataset
from onlinehash.datasets.files import size_of
from onlinehash.errors import FormatError
from onlinehash.progress import progress_bar

BATCHES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")

#: A batch has 31 MB; what is far above that is another thing.
MOST_BYTES = 1 << 28

SIDE, CHANNELS = 32, 3


class Batch(NamedTuple):
    """Images (n, 32, 32, 3) of bytes, and their classes."""

    images: np.ndarray
    labels: np.ndarray


def read_batch(path: Path) -> Batch:
    """One file of images and labels."""
    if size_of(path) > MOST_BYTES:
        raise FormatError(where=path, expected=f"a batch of at most {MOST_BYTES:,} bytes", got=f"{size_of(path):,}")
    content = pickles.read(path.read_bytes(), str(path))
    parts = {_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    data, labels = parts.get("data"), parts.get("labels")
    n_pixels = SIDE * SIDE * CHANNELS
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (n_pixels,):
        raise FormatError(
            where=path, expected=f"a matrix data of bytes with {n_pixels} columns", got=f"{sorted(parts)}"
        )
    if not isinstance(labels, list) or len(labels) != len(data) or not all(type(label) is int for label in labels):
        raise FormatError(f"{path}: labels must be a list of {len(data)} whole numbers.")
    # A row is all red, then all green, then all blue pixels.
    images = data.reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return Batch(images, np.array(labels, np.int64))


def read_images(folder: Path) -> Batch:
    """All batches of a folder: 50,000 images to learn from and, after them, 10,000 to test with."""
    batches = []
    with progress_bar(len(BATCHES)) as show:
        for number, name in enumerate(BATCHES):
            show(number, f"reading {name}")
            batches.append(read_batch(folder / name))
    return Batch(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


def as_set(batch: Batch, name: str = "cifar-10") -> Dataset:
    """Images as vectors of their pixels, 0 to 255."""
    return Dataset(name, batch.images.reshape(len(batch.images), -1).astype(np.float32), batch.labels)


def _text(key: object) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)
