"""Photo Tourism patches: bitmaps of 16 x 16 patches, info.txt with the 3-D point each shows, files of matches.

Winder and Brown, Learning Local Image Descriptors, CVPR 2007.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from onlinehash.datasets import gist
from onlinehash.datasets.dataset import Dataset
from onlinehash.datasets.files import size_of
from onlinehash.errors import FormatError, MissingExtra
from onlinehash.progress import progress_bar

SIDE, ACROSS = 64, 16
PER_BITMAP = ACROSS * ACROSS

#: How much red, green and blue count in grey (ITU-R BT.601).
GREY = np.array([0.299, 0.587, 0.114])


class Patches(NamedTuple):
    """Patches (n, 64, 64) of bytes, and the number of the 3-D point that each shows."""

    images: np.ndarray
    points: np.ndarray


class Matches(NamedTuple):
    """Pairs of patches by their rows; similar are those that show one point."""

    first: np.ndarray
    second: np.ndarray
    similar: np.ndarray


def bitmap_path(folder: Path, number: int) -> Path:
    """Where the bitmap of that number is."""
    return folder / f"patches{number:04d}.bmp"


def read_bitmap(path: Path) -> np.ndarray:
    """The grey levels of a bitmap, from top to bottom, as a matrix of bytes."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("reading bitmaps", "pillow", "pictures") from None
    size_of(path)
    side = ACROSS * SIDE
    try:
        with Image.open(path, formats=("BMP",)) as picture:
            if picture.size == (side, side):
                grey: np.ndarray = np.rint(np.asarray(picture.convert("RGB")) @ GREY)
                return grey.astype(np.uint8)
            problem = f"expected {side} x {side} pixels, got {picture.width} x {picture.height}"
    except Exception as error:  # a decoder that is fed nonsense raises whatever comes first
        problem = f"it is not a readable BMP picture ({str(error).partition(' <')[0]})"
    raise FormatError(f"{path}: {problem}.")


def read_points(folder: Path) -> np.ndarray:
    """The first number of each line of info.txt."""
    return _columns(folder / "info.txt", (0,), (1, 2))[:, 0]


def read_patches(folder: Path, rows: int | None = None) -> Patches:
    """The patches of a folder, or its first `rows`; what fills up the last bitmap is left out."""
    points = read_points(folder)[:rows]
    images = np.empty((len(points), SIDE, SIDE), np.uint8)
    with progress_bar(len(points)) as show:
        for start in range(0, len(points), PER_BITMAP):
            path = bitmap_path(folder, start // PER_BITMAP)
            grid = read_bitmap(path).reshape(ACROSS, SIDE, ACROSS, SIDE)
            patches = grid.swapaxes(1, 2).reshape(PER_BITMAP, SIDE, SIDE)
            images[start : start + PER_BITMAP] = patches[: len(points) - start]
            show(start, f"reading {path.name}")
    return Patches(images, points)


def read_matches(path: Path) -> Matches:
    """A file such as m50_100000_100000_0.txt: patch, point and a number of no use, twice, and maybe one more."""
    columns = _columns(path, (0, 1, 3, 4), (6, 7))
    return Matches(columns[:, 0], columns[:, 2], columns[:, 1] == columns[:, 3])


def read_set(folder: Path, name: str, rows: int | None = None) -> Dataset:
    """GIST descriptors (512) of the patches, computed here; the labels are the points."""
    patches = read_patches(folder, rows)
    return Dataset(name, gist.describe(patches.images), patches.points)


def _columns(path: Path, chosen: tuple[int, ...], widths: tuple[int, ...]) -> np.ndarray:
    """Some columns of whole numbers of a text file whose lines have so many."""
    size_of(path)
    values = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        words = line.split()
        try:
            if len(words) not in widths:
                raise ValueError
            values.append([int(words[column]) for column in chosen])
        except ValueError:
            expected = " or ".join(map(str, widths))
            raise FormatError(
                where=f"{path}, line {number}",
                expected=f"{expected} whole numbers",
                got=f"{line[:40].decode('latin1')!r}",
            ) from None
    if not values:
        raise FormatError(f"{path} is empty: expected a line for each patch or pair.")
    return np.array(values, np.int64)
