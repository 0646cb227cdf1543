"""GIST by its definition: sums over all pixels and frequencies, one filter and one block at a time, in float64."""

from __future__ import annotations

import numpy as np


def transform(picture: np.ndarray, sign: int) -> np.ndarray:
    """A Fourier transform as a product with its matrix, without a scale."""
    n = len(picture)
    matrix = np.exp(sign * 2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    return matrix @ picture @ matrix.T


def cycle(k: int, n: int) -> int:
    """The frequency of the k-th entry of a transform, in cycles an image."""
    return k if k < (n + 1) // 2 else k - n


def filtered(picture: np.ndarray, gain) -> np.ndarray:
    """The picture with each frequency (row, column; cycles an image) times its gain."""
    n = len(picture)
    spectrum = transform(picture, -1)
    for i in range(n):
        for j in range(n):
            spectrum[i, j] *= gain(cycle(i, n), cycle(j, n))
    return transform(spectrum, 1) / n**2


def mirrored(picture: np.ndarray, border: int) -> np.ndarray:
    n = len(picture)
    rows = [-k - 1 if k < 0 else 2 * n - 1 - k if k >= n else k for k in range(-border, n + border)]
    return picture[np.ix_(rows, rows)]


def whitened(colours: list[np.ndarray]) -> list[np.ndarray]:
    def low(u: int, v: int) -> float:
        return np.exp(-(u**2 + v**2) / (4 / np.sqrt(np.log(2))) ** 2)

    details = []
    for colour in colours:
        logs = mirrored(np.log(colour + 1.0), 5)
        details.append(logs - filtered(logs, low).real)
    contrast = np.sqrt(np.abs(filtered((sum(details) / len(details)) ** 2, low)))
    return [(detail / (0.2 + contrast))[5:-5, 5:-5] for detail in details]


def gist(image: np.ndarray) -> np.ndarray:
    """The descriptor of one image, (side, side) or (side, side, 3)."""
    is_grey = image.ndim == 2
    colours = [image] if is_grey else [image[:, :, c] for c in range(3)]
    side = len(image)
    border = min(32, side // 4)
    values = []
    for colour in whitened([c.astype(np.float64) for c in colours]):
        padded = mirrored(colour, border)
        n = len(padded)
        for scale, directions in enumerate((8, 8, 8, 8) if is_grey else (8, 8, 4)):
            for direction in range(directions):

                def gain(u: int, v: int, n=n, scale=scale, directions=directions, direction=direction) -> float:
                    frequency = np.sqrt(u**2 + v**2) / n
                    turned = np.arctan2(u, v) + np.pi / directions * direction
                    turned = turned - 2 * np.pi if turned > np.pi else turned
                    off = frequency / (0.3 / 1.85**scale) - 1
                    return np.exp(-10 * 0.35 * off**2 - 2 * np.pi * (16 * directions**2 / 32**2) * turned**2)

                magnitude = np.abs(filtered(padded, gain))[border : border + side, border : border + side]
                for i in range(4):
                    for j in range(4):
                        rows, columns = (slice(side * k // 4, side * (k + 1) // 4) for k in (i, j))
                        values.append(magnitude[rows, columns].mean())
    return np.array(values)
