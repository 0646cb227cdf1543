"""The binary of 80 Million Tiny Images: 79,302,017 images of 32 x 32 x 3 bytes, each column by column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from onlinehash.datasets.dataset import Dataset
from onlinehash.datasets.files import as_float32, size_of
from onlinehash.errors import FormatError, InvalidInput

SIDE, CHANNELS = 32, 3
IMAGE_BYTES = SIDE * SIDE * CHANNELS
N_IMAGES = 79_302_017


class TinyImages:
    """Images that stay on the disk until they are asked for: distractors for a search.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import datasets
    >>> np.arange(2 * 3072, dtype=np.uint8).tofile("tiny_images.bin")  # two images in place of 79 million
    >>> tiny = datasets.TinyImages("tiny_images.bin")
    >>> len(tiny), tiny.images([1]).shape
    (2, (1, 32, 32, 3))
    """

    def __init__(self, path: Path | str) -> None:
        path = Path(path)
        size = size_of(path)
        if size == 0 or size % IMAGE_BYTES:
            raise FormatError(where=path, expected=f"images of {IMAGE_BYTES} bytes each", got=f"{size:,} bytes")
        self._bytes = np.memmap(path, np.uint8, "r", shape=(size // IMAGE_BYTES, IMAGE_BYTES))

    def __len__(self) -> int:
        return len(self._bytes)

    def images(self, rows: Sequence[int] | np.ndarray | slice) -> np.ndarray:
        """Some images as (n, 32, 32, 3) bytes: row, column, colour."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows, np.int64)
        if not isinstance(chosen, slice) and chosen.size and not (chosen.min() >= 0 and chosen.max() < len(self)):
            raise InvalidInput(expected=f"rows from 0 to {len(self) - 1}", got=f"{chosen.min()} to {chosen.max()}")
        # The file is Matlab's: the first index, the row, runs fastest, then the column, then the colour.
        turned = self._bytes[chosen].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 3, 2, 1)
        return np.ascontiguousarray(turned)


def read_set(path: Path, rows: int | None = None) -> Dataset:
    """The first images as vectors of their pixels, 0 to 255; all of them would not fit."""
    source = TinyImages(path)
    if rows is None and len(source) == N_IMAGES:
        raise InvalidInput(f"give rows=N: all {N_IMAGES:,} images of {path} would take 974 GB as float32.")
    images = source.images(slice(0, rows))
    return Dataset("tiny-images", as_float32(images.reshape(len(images), -1), path.name))
