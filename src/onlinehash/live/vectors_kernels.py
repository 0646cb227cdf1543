"""Rows of blocks, taken or compared in one pass.

NumPy would copy them twice, once more for each step of decoding, and all of them to compare them. The pages for such
copies take longer than the comparison.
"""

from __future__ import annotations

import numpy as np

from onlinehash.numeric.kernels import njit


@njit(nogil=True, cache=True)
def take_rows(block: np.ndarray, places: np.ndarray, here: np.ndarray, rows: np.ndarray) -> None:
    """Copy the rows of a block at some places to where `here` says that they are asked for."""
    for i in here:
        for j in range(rows.shape[1]):
            rows[i, j] = block[places[i], j]


@njit(nogil=True, cache=True)
def take_rounded(
    block: np.ndarray, places: np.ndarray, here: np.ndarray, step: np.ndarray, centre: np.ndarray, rows: np.ndarray
) -> None:
    """The same of rows that are kept by their distance from the centre, in steps."""
    for i in here:
        for j in range(rows.shape[1]):
            rows[i, j] = np.float32(block[places[i], j]) * step[j] + centre[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})  # a row is summed alike wherever it stands
def compare_rows(
    block: np.ndarray,
    places: np.ndarray,
    here: np.ndarray,
    direction: np.ndarray,
    products: np.ndarray,
    squares: np.ndarray,
) -> None:
    """The products of rows with a direction, and with themselves, in single precision."""
    for i in here:
        product = square = np.float32(0)
        for j in range(len(direction)):
            value = np.float32(block[places[i], j])
            product += value * direction[j]
            square += value * value
        products[i], squares[i] = product, square


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def compare_rounded(
    block: np.ndarray,
    places: np.ndarray,
    here: np.ndarray,
    step: np.ndarray,
    centre: np.ndarray,
    direction: np.ndarray,
    products: np.ndarray,
    squares: np.ndarray,
) -> None:
    """The same of rows that are kept by their distance from the centre, in steps."""
    for i in here:
        product = square = np.float32(0)
        for j in range(len(direction)):
            value = np.float32(block[places[i], j]) * step[j] + centre[j]
            product += value * direction[j]
            square += value * value
        products[i], squares[i] = product, square
