"""How codes lie in memory: blocks of 64 codes in byte planes.

    planes[block, j, lane]  =  byte j of code number 64 * block + lane

A plane is one cache line. A scan reads each line once and compares one byte of 64 codes at a time in the lanes of a
vector register; rewriting one bit column of all codes touches one plane in each block. Every model's code begins at a
byte of its own, so that the planes of a model are contiguous. Padding bits and the lanes after the last code are zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinehash.numeric.kernels import njit

#: Codes in a block: one cache line per plane.
LANES = 64


def planes_per_model(n_bits: int) -> int:
    """Bytes of one model's code."""
    return -(-n_bits // 8)


def places(columns: NDArray[np.int64], n_bits: int) -> NDArray[np.int64]:
    """Where columns lie within a code, as 8 * plane + bit."""
    return columns // n_bits * (8 * planes_per_model(n_bits)) + columns % n_bits


def aligned_planes(n: int, n_planes: int) -> np.ndarray:
    """Zeroed planes for n codes, each plane at the start of a cache line."""
    n_blocks = -(-n // LANES)
    buffer = np.zeros(n_blocks * n_planes * LANES + LANES, np.uint8)
    start = _to_the_next_line(buffer)
    return buffer[start : start + n_blocks * n_planes * LANES].reshape(n_blocks, n_planes, LANES)


@njit(nogil=True, cache=True)
def _to_the_next_line(buffer: np.ndarray) -> int:
    """Bytes from the start of a buffer to that of a cache line; asked here because NumPy takes longer to say it."""
    return -buffer.ctypes.data % LANES


@njit(nogil=True, cache=True)
def put_rows(rows: np.ndarray, planes: np.ndarray, first: int) -> None:
    """Codes given as rows of bytes become the codes first, first + 1, ..."""
    for i in range(rows.shape[0]):
        block, lane = (first + i) // LANES, (first + i) % LANES
        for j in range(rows.shape[1]):
            planes[block, j, lane] = rows[i, j]


@njit(nogil=True, cache=True)
def get_rows(planes: np.ndarray, first: int, rows: np.ndarray) -> None:
    """The codes first, first + 1, ... as rows of bytes."""
    for i in range(rows.shape[0]):
        block, lane = (first + i) // LANES, (first + i) % LANES
        for j in range(planes.shape[1]):
            rows[i, j] = planes[block, j, lane]


@njit(nogil=True, cache=True)
def spread_codes(planes: np.ndarray, n: int) -> np.ndarray:
    """The first n codes, each byte in all lanes, as a scan wants its queries: `(n, n_planes * 64)`."""
    out = np.empty((n, planes.shape[1] * LANES), np.uint8)
    for i in range(n):
        for j in range(planes.shape[1]):
            out[i, j * LANES : (j + 1) * LANES] = planes[i // LANES, j, i % LANES]
    return out


@njit(nogil=True, cache=True)
def copy_codes(source: np.ndarray, first: int, n: int, target: np.ndarray, at: int) -> None:
    """target's codes at, at + 1, ... = source's first, first + 1, ..., n of them."""
    done = 0
    while done < n:
        from_lane, to_lane = (first + done) % LANES, (at + done) % LANES
        run = min(n - done, LANES - from_lane, LANES - to_lane)  # lanes that are contiguous in both
        from_block, to_block = (first + done) // LANES, (at + done) // LANES
        for j in range(source.shape[1]):
            for lane in range(run):
                target[to_block, j, to_lane + lane] = source[from_block, j, from_lane + lane]
        done += run


@njit(nogil=True, cache=True)
def gather_codes(source: np.ndarray, positions: np.ndarray, target: np.ndarray) -> None:
    """target's code i = source's code positions[i]."""
    for i in range(positions.shape[0]):
        block, lane = positions[i] // LANES, positions[i] % LANES
        for j in range(source.shape[1]):
            target[i // LANES, j, i % LANES] = source[block, j, lane]


@njit(nogil=True, cache=True)
def scatter_codes(source: np.ndarray, positions: np.ndarray, target: np.ndarray) -> None:
    """target's code positions[i] = source's code i."""
    for i in range(positions.shape[0]):
        block, lane = positions[i] // LANES, positions[i] % LANES
        for j in range(source.shape[1]):
            target[block, j, lane] = source[i // LANES, j, i % LANES]


@njit(nogil=True, cache=True)
def set_lanes(masks: np.ndarray, positions: np.ndarray) -> None:
    """Set the bits of some positions in masks of 64 lanes."""
    for i in range(positions.shape[0]):
        masks[positions[i] // LANES] |= np.uint64(1) << np.uint64(positions[i] % LANES)


@njit(nogil=True, cache=True)
def clear_lanes(masks: np.ndarray, positions: np.ndarray) -> None:
    """Clear the bits of some positions in masks of 64 lanes."""
    for i in range(positions.shape[0]):
        masks[positions[i] // LANES] &= ~(np.uint64(1) << np.uint64(positions[i] % LANES))


@njit(nogil=True, cache=True)
def column_masks(planes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Some columns of all codes, `(n_places, n_blocks)`: bit `lane` of a mask is that lane's bit at the place."""
    masks = np.zeros((places.shape[0], planes.shape[0]), np.uint64)
    for c in range(places.shape[0]):
        plane, bit = places[c] // 8, places[c] % 8
        for block in range(planes.shape[0]):
            mask = np.uint64(0)
            for lane in range(LANES):
                mask |= np.uint64(planes[block, plane, lane] >> bit & 1) << np.uint64(lane)
            masks[c, block] = mask
    return masks
