"""Frequent directions: the scatter AᵀA of a stream of rows, kept in a matrix B of few rows.

Edo Liberty: *Simple and deterministic matrix sketching*. KDD 2013. Online sketching hashing, its fast form and the
spectral method for streams learn from such a sketch.

The singular vectors come from the smaller Gram matrix (BBᵀ or BᵀB) in float64: an order of magnitude faster than a
singular value decomposition of B. Squaring loses the directions whose variance is under 1e-12 of the greatest, which
are rounding errors of the data anyway.
"""

from __future__ import annotations

import numpy as np

from onlinehash.io.format import like, whole
from onlinehash.types import State

#: A direction with less than this share of the greatest variance is a rounding error.
LEAST_SHARE = 1e-12


class FrequentDirections:
    """B of ℓ = 2 `n_kept` rows with `|AᵀA - BᵀB|₂ <= 2 |A|²_F / ℓ` for the rows A that were inserted.

    Rows fill B. When it is full, its singular values shrink, which leaves half of the rows free:

        B = U Σ Vᵀ,  θ = σ²_{ℓ/2+1},  B ← √max(Σ² - θ, 0) Vᵀ

    Where A has no more than ℓ/2 dimensions θ is zero, and BᵀB = AᵀA.
    """

    def __init__(self, n_kept: int, n_inputs: int) -> None:
        self.rows = np.zeros((2 * n_kept, n_inputs))
        self.used = 0

    def insert(self, A: np.ndarray) -> None:
        """More rows; B shrinks as often as they fill it."""
        start = 0
        while start < len(A):
            some = A[start : start + len(self.rows) - self.used]
            self.rows[self.used : self.used + len(some)] = some
            self.used += len(some)
            start += len(some)
            if self.used == len(self.rows):
                self._shrink()

    def _shrink(self) -> None:
        kept = len(self.rows) // 2
        squares, leading, scale = _decomposed(self.rows, kept)
        theta = squares[kept] if kept < len(squares) else 0.0
        squares = squares[:kept]
        shares = np.divide(squares - theta, squares, out=np.zeros(kept), where=squares > theta)
        self.rows[:kept] = (scale * np.sqrt(shares))[:, None] * leading
        self.rows[kept:] = 0.0
        self.used = kept

    def directions(self, n: int) -> np.ndarray:
        """The n leading right singular vectors of B as columns; fewer where its rank is smaller."""
        squares, leading, _ = _decomposed(self.rows[: self.used], n)
        rank = np.count_nonzero(squares[:n] > LEAST_SHARE * squares[0])
        return np.linalg.qr(leading[:rank].T)[0]  # squaring cost the last of them some digits

    def get_state(self) -> State:
        return {"rows": self.rows, "used": self.used}

    def set_state(self, state: State) -> None:
        used = whole(state["used"], "the rows of a sketch", 0, len(self.rows) - 1)
        self.rows = like(state["rows"], self.rows, "sketch")
        self.used = used


def completed(V: np.ndarray, others: np.ndarray, n: int) -> np.ndarray:
    """V with orthonormal columns added up to n: the part of other directions that V does not span."""
    rest = others - V @ (V.T @ others)
    more = np.linalg.svd(rest, full_matrices=False)[0][:, : n - V.shape[1]]
    return np.linalg.qr(np.hstack([V, more]))[0]


def _decomposed(B: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """All σ² of B / scale in falling order, the first n (or fewer) rows of its ΣVᵀ, and the scale.

    Without it squares of large values would overflow, and those of small ones vanish.
    """
    scale = float(np.abs(B).max()) or 1.0
    unit = B / scale
    if len(B) > B.shape[1]:
        squares, V = np.linalg.eigh(unit.T @ unit)
        squares = np.maximum(squares[::-1], 0.0)
        return squares, np.sqrt(squares[:n])[:, None] * V[:, ::-1][:, :n].T, scale
    squares, U = np.linalg.eigh(unit @ unit.T)
    return np.maximum(squares[::-1], 0.0), U[:, ::-1][:, :n].T @ unit, scale
