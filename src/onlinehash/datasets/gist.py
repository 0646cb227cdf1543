"""GIST descriptors: how much of each scale and orientation there is in each of 4 x 4 blocks of an image.

Oliva and Torralba, Modeling the Shape of the Scene, IJCV 2001. Grey images give 512 numbers (4 scales of 8
orientations), colour images 960 (for each colour 8 + 8 + 4), as in GIST1M. No Python library of it is kept up:
pyleargist no longer builds, and the others are copies of Matlab code that take one image at a time.

An image is whitened (its logarithm less its low frequencies, divided by the local contrast), filtered by Gabor
functions in the Fourier domain with its border mirrored, and the magnitude is averaged over blocks. Images are not
resized, because the filters are in cycles a pixel; descriptors of different sizes should not be compared.

Examples
--------
>>> import numpy as np
>>> from onlinehash.datasets import gist
>>> pictures = np.random.default_rng(0).integers(256, size=(2, 32, 32, 3))
>>> gist.describe(pictures).shape
(2, 960)
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.progress import progress_bar

__all__ = ["describe"]

GREY_ORIENTATIONS = (8, 8, 8, 8)
COLOUR_ORIENTATIONS = (8, 8, 4)
BLOCKS = 4

#: Whitening: frequencies below so many cycles an image are taken out; contrast below this is noise.
LOW_CYCLES, LEAST_CONTRAST, WHITENING_BORDER = 4, 0.2, 5

#: Mirrored pixels around an image while it is filtered, at most.
MOST_BORDER = 32

SMALLEST = 16

#: Bytes of a batch of spectra, which should stay in the cache of a core.
BATCH_BYTES = 1 << 20


def describe(images: np.ndarray, *, jobs: int = 1) -> np.ndarray:
    """The descriptors (n, 512) of grey images (n, side, side), or (n, 960) of colour images (n, side, side, 3).

    Pixels are bytes, or numbers from 0 to 255. A descriptor holds 16 blocks, row by row, for each orientation of each
    scale, the finest scale first; for colour images all of red comes first, then green, then blue. `jobs` threads
    share the work.

    Returns
    -------
    ndarray of shape (n, 512) or (n, 960)

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash.datasets import gist
    >>> gist.describe(np.random.default_rng(0).integers(256, size=(2, 32, 32))).shape
    (2, 512)
    """
    images = _checked(images)
    checks.parameters("describe", {"jobs": jobs}, {"jobs": checks.integer(1)})
    n, side, _, n_colours = images.shape
    orientations = GREY_ORIENTATIONS if n_colours == 1 else COLOUR_ORIENTATIONS
    border = min(MOST_BORDER, side // 4)
    filters, means = gabor_filters(orientations, side + 2 * border), _block_means(side, border)
    described = np.empty((n, n_colours * len(filters) * BLOCKS**2), np.float32)
    size = max(1, BATCH_BYTES // (n_colours * filters[0].size * 8))

    def work(start: int) -> int:
        batch = slice(start, start + size)
        described[batch] = _describe(images[batch], filters, means, border)
        return start

    with progress_bar(n) as show, ThreadPoolExecutor(jobs) as pool:
        starts = range(0, n, size)
        done: Iterable[int] = map(work, starts) if jobs == 1 else pool.map(work, starts)
        for start in done:
            show(start, f"describing {n:,} images")
    return described


@lru_cache(maxsize=4)
def gabor_filters(orientations: tuple[int, ...], side: int) -> np.ndarray:
    """The filters in the Fourier domain, (n_filters, side, side), as an FFT lays out its frequencies.

    A filter is a bump around its frequency, 0.3 cycles a pixel and less by 1.85 for each scale, and its direction.
    """
    frequencies = np.fft.fftfreq(side)
    radius = np.hypot(frequencies[:, None], frequencies[None, :])
    angle = np.arctan2(frequencies[:, None], frequencies[None, :])
    filters = []
    for scale, n_directions in enumerate(orientations):
        off_frequency = radius / (0.3 / 1.85**scale) - 1
        for direction in range(n_directions):
            turned = angle + np.pi * direction / n_directions
            turned = (turned + np.pi) % (2 * np.pi) - np.pi
            filters.append(np.exp(-3.5 * off_frequency**2 - np.pi * n_directions**2 / 32 * turned**2))
    bank = np.array(filters, np.float32)
    bank.setflags(write=False)
    return bank


def whiten(images: np.ndarray) -> np.ndarray:
    """Images (n, side, side, n_colours) without low frequencies and with even contrast."""
    from scipy import fft

    edge = WHITENING_BORDER
    logs = np.log1p(images.astype(np.float32))
    logs = np.pad(logs, ((0, 0), (edge, edge), (edge, edge), (0, 0)), "symmetric")
    side = logs.shape[1]
    cycles = np.fft.fftfreq(side)[:, None] * side, np.fft.rfftfreq(side)[None, :] * side
    low = np.exp(-(cycles[0] ** 2 + cycles[1] ** 2) * np.log(2) / LOW_CYCLES**2).astype(np.float32)

    def smooth(values: np.ndarray) -> np.ndarray:
        spectrum = fft.rfft2(values, axes=(1, 2)) * low[:, :, None]
        return np.asarray(fft.irfft2(spectrum, (side, side), axes=(1, 2)))

    detail = logs - smooth(logs)
    contrast = np.sqrt(np.abs(smooth(detail.mean(axis=3, keepdims=True) ** 2)))
    normalised: np.ndarray = detail / (LEAST_CONTRAST + contrast)
    return normalised[:, edge:-edge, edge:-edge]


def _describe(images: np.ndarray, filters: np.ndarray, means: np.ndarray, border: int) -> np.ndarray:
    from scipy import fft

    white = np.pad(whiten(images), ((0, 0), (border, border), (border, border), (0, 0)), "symmetric")
    spectra = fft.fft2(np.moveaxis(white, 3, 1))  # one for each image and colour
    blocks = np.empty((*spectra.shape[:2], len(filters), BLOCKS, BLOCKS), np.float32)
    for number, one in enumerate(filters):
        magnitudes = np.abs(fft.ifft2(spectra * one, overwrite_x=True))
        blocks[:, :, number] = means @ magnitudes @ means.T
    return blocks.reshape(len(images), -1)


def _block_means(side: int, border: int) -> np.ndarray:
    """The matrix that averages over blocks of rows, and leaves the border out."""
    bounds = np.linspace(0, side, BLOCKS + 1).astype(int)
    means = np.zeros((BLOCKS, side + 2 * border), np.float32)
    for block, (start, stop) in enumerate(pairwise(bounds)):
        means[block, border + start : border + stop] = 1 / (stop - start)
    return means


def _checked(images: np.ndarray) -> np.ndarray:
    """Images of one side, with an axis for colours."""
    images = np.asarray(images)
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)) or len(images) == 0:
        raise InvalidInput(expected="images (n, side, side) or (n, side, side, 3)", got=f"shape {images.shape}")
    if images.shape[1] != images.shape[2] or images.shape[1] < SMALLEST:
        raise InvalidInput(
            expected=f"square images of at least {SMALLEST} pixels per side",
            got=f"{images.shape[1]} x {images.shape[2]}",
            hint="crop or resize them first",
        )
    if images.dtype.kind not in "uif" or (
        images.dtype != np.uint8 and not (np.isfinite(images).all() and images.min() >= 0)
    ):
        raise InvalidInput(expected="pixels from 0 to 255", got=f"{images.dtype} with values below 0 or not finite")
    return images if images.ndim == 4 else images[..., None]
