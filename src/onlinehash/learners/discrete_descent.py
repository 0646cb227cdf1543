"""Bits chosen one at a time, each the best while the others stay: how SDH and BSODH find the codes of points."""

from __future__ import annotations

import numpy as np

from onlinehash.numeric.kernels import njit


@njit(nogil=True, cache=True)
def settle_bits(B: np.ndarray, Q: np.ndarray, G: np.ndarray, n_sweeps: int) -> None:
    """b_k <- sgn(q_k - sum over j != k of G_kj b_j), bit by bit, for each row of B, until none changes.

    That lowers bᵀGb - 2qᵀb, G being symmetric, or leaves it; at most `n_sweeps` times over the bits of a row.
    """
    r = B.shape[1]
    reached = np.empty(r)  # G b, kept up as bits change
    for n in range(B.shape[0]):
        for k in range(r):
            total = 0.0
            for j in range(r):
                total += B[n, j] * G[k, j]
            reached[k] = total
        for _ in range(n_sweeps):
            settled = True
            for k in range(r):
                b = 1.0 if Q[n, k] - (reached[k] - B[n, k] * G[k, k]) >= 0.0 else -1.0
                if b != B[n, k]:
                    B[n, k] = b
                    settled = False
                    for j in range(r):
                        reached[j] += 2.0 * b * G[k, j]
            if settled:
                break
