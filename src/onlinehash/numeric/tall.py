"""Products with tall matrices (many rows, few columns), a block of rows at a time.

The blocks are float64 whatever the matrix is, so that sums over many float32 rows keep their digits and yet no second
copy of all rows is made. Call inside `one_thread()`: these are BLAS products.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ROWS = 4096


def blocks(n: int) -> Iterator[slice]:
    """Slices that cover n rows."""
    return (slice(start, start + ROWS) for start in range(0, n, ROWS))


def inner(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """AᵀB, for matrices of equally many rows."""
    total = np.zeros((A.shape[1], B.shape[1]))
    for rows in blocks(len(A)):
        total += A[rows].T.astype(np.float64) @ B[rows].astype(np.float64)
    return total


def times(A: np.ndarray, W: np.ndarray) -> np.ndarray:
    """AW."""
    out = np.empty((len(A), W.shape[1]))
    for rows in blocks(len(A)):
        np.matmul(A[rows].astype(np.float64), W, out=out[rows])
    return out


def signs(Z: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """sgn(Z) with sgn(0) = +1; `out` may be Z itself."""
    out = np.add(Z, 0.0, out=out)  # -0.0 + 0.0 is +0.0
    return np.asarray(np.copysign(1.0, out, out=out))
