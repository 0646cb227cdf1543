"""Rows taken from blocks in one pass: NumPy would copy them twice, and once more for each step of decoding."""

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
