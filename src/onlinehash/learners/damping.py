"""Coordinates in which no direction of the data dominates, kept without ever forming them.

The second moments C of a stream are averaged over its recent rows. In the coordinates u = Px with

    P² = q0 (I - Q D Qᵀ),   q_i = 1 / (e_i + λ μ),   q0 = 1 / (e_rest + λ μ),   D = 1 - q / q0

the k leading directions Q of C (eigenvalues e) are shortened, and all others are left as they are but for a factor:
λ μ, λ times the mean eigenvalue, says how large an eigenvalue must be to be shortened much. P is scaled so that |u|² is
one on average. A step of W measured in u therefore means the same for data of any scale.

Rows are made *wide*: x̃ = (x, Qᵀx). A wide function (v, r) stands for w = v + Q r, as both have the same product with
every row. So do gradients: with g̃ = (g, Qᵀg) and the signs s = (1, ..., 1, -D),

    |P g|² = q0 Σ_i s_i g̃_i²        w - P² g = (v, r) - q0 s g̃

P² takes no product with Q but that of each row.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg.blas import dsyrk, ssyrk

from onlinehash.io.format import like, real, whole
from onlinehash.learners.smooth_kernels import complete, completed_projections, joined
from onlinehash.numeric.dots import aligned_zeros, pad_rows, padded_width
from onlinehash.numeric.threads import one_thread
from onlinehash.types import State

#: Leading directions that are kept.
N_DIRECTIONS = 32

#: λ: directions whose variance is below this many times the mean are hardly shortened.
SOFTNESS = 10.0

#: Rows that the average of second moments reaches back.
WINDOW = 20_000

#: The most wide rows that are kept to be written into.
MOST_KEPT = 1024

#: Steps of subspace iteration, which begins at the directions found before.
N_ITERATIONS = 3


class Damping:
    """P² of the rows seen lately, in the precision of these rows.

    enter(X), find_directions()    rows, and the directions of all of them
    rows(n), complete(X)           wide rows, into which only x is written; then Qᵀx is
    completed_projections(W, X)    `complete`, and the products of these rows with wide functions
    signs, factor                  s and q0
    joined(W)                      functions as they are for x alone
    """

    def __init__(self, n_inputs: int, rng: np.random.Generator, dtype: DTypeLike = np.float64) -> None:
        self._C = np.zeros((n_inputs, n_inputs), dtype)  # its lower half; the other one is not looked at
        self._n_rows = 0
        self._n_inputs, self._start = n_inputs, padded_width(n_inputs)
        self._take(rng.standard_normal((n_inputs, min(N_DIRECTIONS, n_inputs))), np.zeros(min(N_DIRECTIONS, n_inputs)))
        self.factor = 0.0
        self._rows = self.zeros(0)

    def _take(self, Q: np.ndarray, D: np.ndarray) -> None:
        """Directions, a column each, and how much they are shortened."""
        dtype = self._C.dtype
        self._Q = pad_rows(Q.T.astype(dtype))
        self.signs = np.ones(self._start + padded_width(len(D)), dtype)
        self.signs[self._coordinates] = -D.astype(dtype)

    @property
    def _coordinates(self) -> slice:
        """Where a wide row has its Qᵀx."""
        return slice(self._start, self._start + len(self._Q))

    @property
    def has_directions(self) -> bool:
        """Whether directions have been found."""
        return self.factor > 0

    def enter(self, X: np.ndarray) -> None:
        """Add rows to the running average."""
        self._n_rows = min(self._n_rows + len(X), WINDOW)
        n = max(self._n_rows, len(X))
        add_squares = ssyrk if self._C.dtype == np.float32 else dsyrk  # half the work of a product
        with one_thread():  # BLAS goes by columns
            self._C = add_squares(1 / n, X.T, beta=1 - len(X) / n, c=self._C.T, overwrite_c=True).T

    def find_directions(self) -> None:
        """Take the leading directions of C as it is now."""
        d, k = self._n_inputs, len(self._Q)
        lower, Q = np.tril(self._C).astype(np.float64), self._Q[:, :d].T.astype(np.float64)
        C = lower + np.tril(lower, -1).T
        mean = np.trace(C) / d
        if mean == 0:
            return
        with one_thread():
            for _ in range(N_ITERATIONS):
                Q = np.linalg.qr(C @ Q)[0]
            e, R = np.linalg.eigh(Q.T @ C @ Q)
            Q = Q @ R
        e = np.maximum(e, 0.0)
        rest = max((mean * d - e.sum()) / max(d - k, 1), 0.0)
        q, q0 = 1 / (e + SOFTNESS * mean), 1 / (rest + SOFTNESS * mean)
        self._take(Q, 1 - q / q0)
        self.factor = float(q0 / (e @ q + (d - k) * rest * q0))

    def rows(self, n: int) -> np.ndarray:
        """So many wide rows to write into: the same ones at each call, unless they are many, as new memory would take
        longer than to use it."""
        if n > MOST_KEPT:
            return self.zeros(n)
        if len(self._rows) < n:
            self._rows = self.zeros(n)
        return self._rows[:n]

    def zeros(self, n: int) -> np.ndarray:
        """So many wide rows of zeros."""
        return aligned_zeros((n, len(self.signs)), self._C.dtype)

    def widened(self, W: np.ndarray) -> np.ndarray:
        """Functions, a row each, as wide ones."""
        wide = self.zeros(len(W))
        wide[:, : self._n_inputs] = W
        return wide

    def complete(self, X: np.ndarray) -> None:
        """Write Qᵀx into wide rows."""
        complete(X, self._Q, self._start)

    def completed_projections(self, W: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Complete wide rows, and return their products with wide functions."""
        return completed_projections(W, self._Q, self._start, X)

    def joined(self, W: np.ndarray) -> np.ndarray:
        """v + Q r of wide functions, a row each, which is the same in any company."""
        return np.asarray(joined(W, self._Q, self._start)[:, : self._n_inputs])

    def once(self, V: np.ndarray) -> np.ndarray:
        """P v of each row v."""
        Q, D = self._Q[:, : self._n_inputs], -self.signs[self._coordinates]
        return np.asarray(math.sqrt(self.factor) * (V - (V @ Q.T * (1 - np.sqrt(1 - D))) @ Q))

    # ------------------------------------------------------------------ state

    def __getstate__(self) -> State:
        """Copies tell nothing of rows that are gone."""
        return self.__dict__ | {"_rows": self.zeros(0)}

    def parts(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two parts of wide rows, a column each."""
        values, coordinates = W[:, : self._n_inputs], W[:, self._coordinates]
        return np.ascontiguousarray(values.T), np.ascontiguousarray(coordinates.T)

    def of_parts(self, values: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
        """Wide rows with these parts."""
        W = self.widened(values.T)
        W[:, self._coordinates] = coordinates.T
        return W

    def get_state(self) -> State:
        Q, D = np.ascontiguousarray(self._Q[:, : self._n_inputs].T), -self.signs[self._coordinates]
        return {"C": self._C, "n_rows": self._n_rows, "Q": Q, "D": D, "q0": self.factor}

    def set_state(self, state: State) -> None:
        k = len(self._Q)
        self._C = like(state["C"], self._C, "C")
        Q = like(state["Q"], np.empty((self._n_inputs, k), self._C.dtype), "Q")
        self._take(Q, like(state["D"], np.empty(k, self._C.dtype), "D", high=1))
        self._n_rows, self.factor = whole(state["n_rows"], "n_rows", 0, WINDOW), real(state["q0"], "q0", 0)
