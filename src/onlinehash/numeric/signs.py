"""Signs of `Z @ W.T - thresholds`, by a BLAS product, under the numeric law.

The product is as fast as the machine multiplies, but its last digits depend on the shape of the call. A projection
farther from its threshold than the product's rounding error has a certain sign; the few that are nearer are decided
by one canonical dot product (fixed order, twice the working precision), so that a row's bits are the same alone, in
any batch, in any order, for any set of columns and with any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Rows multiplied at once: bounds the memory of encoding to this many rows of projections.
BLOCK_ROWS = 4096


@njit(nogil=True, cache=True)
def canonical_dot(w: np.ndarray, x: np.ndarray) -> float:
    """w . x summed in index order with compensated products and sums (Ogita, Rump, Oishi: Dot2)."""
    split = 134217729.0  # 2**27 + 1: cuts a float64 into two halves whose products are exact (Dekker)
    total = 0.0
    lost = 0.0
    for i in range(w.shape[0]):
        a, b = np.float64(w[i]), np.float64(x[i])
        product = a * b
        a_high = a * split - (a * split - a)
        b_high = b * split - (b * split - b)
        a_low, b_low = a - a_high, b - b_high
        product_error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
        new_total = total + product
        bigger = new_total - total
        sum_error = (total - (new_total - bigger)) + (product - bigger)
        total = new_total
        lost += product_error + sum_error
    return total + lost


@njit(nogil=True, cache=True)
def _decide(
    projections: np.ndarray,
    Z: np.ndarray,
    W: np.ndarray,
    thresholds: np.ndarray,
    z_errors: np.ndarray,
    w_norms: np.ndarray,
    underflow: float,
    out: np.ndarray,
) -> None:
    """out = (projections >= thresholds), the doubtful ones decided by the canonical dot product."""
    for n in range(Z.shape[0]):
        for k in range(W.shape[0]):
            gap = np.float64(projections[n, k]) - thresholds[k]
            out[n, k] = gap >= 0.0
            if not abs(gap) > z_errors[n] * w_norms[k] + 1e-15 * abs(thresholds[k]) + underflow:
                out[n, k] = canonical_dot(W[k], Z[n]) >= thresholds[k]


def signs(Z: np.ndarray, W: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Booleans `(n, k)`: is the projection of row n on row k of W at or above the threshold k?

    Z is `(n, d)` and W `(k, d)`, C-contiguous and of one dtype; thresholds are float64.
    """
    # |computed - exact| <= d eps/2 |z| |w| for any order of summation, plus d times the smallest number for products
    # that underflow; the factor 2 covers second-order terms and the rounding of the norms themselves.
    limits = np.finfo(Z.dtype)
    width = Z.shape[1] + 2
    smallest_norm = float(np.sqrt(width * limits.tiny))
    w_norms = np.sqrt(np.einsum("kd,kd->k", W, W, dtype=np.float64))
    out = np.empty((Z.shape[0], W.shape[0]), dtype=np.bool_)
    for start in range(0, Z.shape[0], BLOCK_ROWS):
        block = Z[start : start + BLOCK_ROWS]
        z_norms = np.sqrt(np.einsum("nd,nd->n", block, block)).astype(np.float64) + smallest_norm
        _decide(
            block @ W.T,
            block,
            W,
            thresholds,
            width * float(limits.eps) * z_norms,
            w_norms,
            width * float(limits.smallest_subnormal),
            out[start : start + BLOCK_ROWS],
        )
    return out
