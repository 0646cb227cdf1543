"""Coordinates in which no direction of the data dominates, kept without ever forming them.

The second moments C of a stream are averaged over its recent rows. In the coordinates u = Px with

    P² = q0 (I - Q D Qᵀ),   q_i = 1 / (e_i + λ μ),   q0 = 1 / (e_rest + λ μ),   D = 1 - q / q0

the k leading directions Q of C (eigenvalues e) are shortened, and all others are left as they are but for a factor:
λ μ, λ times the mean eigenvalue, says how large an eigenvalue must be to be shortened much. P is scaled so that |u|² is
one on average. A step of W measured in u therefore means the same for data of any scale.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg.blas import dsyrk, ssyrk

from onlinehash.io.format import like, real, whole
from onlinehash.learners.smooth_kernels import move, step_sizes
from onlinehash.types import State

#: Leading directions that are kept.
N_DIRECTIONS = 32

#: λ: directions whose variance is below this many times the mean are hardly shortened.
SOFTNESS = 10.0

#: Rows that the average of second moments reaches back.
WINDOW = 20_000

#: Steps of subspace iteration, which begins at the directions found before.
N_ITERATIONS = 3


class Damping:
    """P² of the rows seen lately, in the precision of these rows."""

    def __init__(self, n_inputs: int, rng: np.random.Generator, dtype: DTypeLike = np.float64) -> None:
        self._C = np.zeros((n_inputs, n_inputs), dtype)  # its lower half; the other one is not looked at
        self._n_rows = 0
        self._Q = rng.standard_normal((n_inputs, min(N_DIRECTIONS, n_inputs))).astype(dtype)
        self._D = np.zeros(self._Q.shape[1], dtype)
        self._q0 = 0.0

    @property
    def has_directions(self) -> bool:
        """Whether directions have been found."""
        return self._q0 > 0

    def enter(self, X: np.ndarray) -> None:
        """Add rows to the running average."""
        self._n_rows = min(self._n_rows + len(X), WINDOW)
        n = max(self._n_rows, len(X))
        add_squares = ssyrk if self._C.dtype == np.float32 else dsyrk  # half the work of a product
        self._C = add_squares(1 / n, X.T, beta=1 - len(X) / n, c=self._C.T, overwrite_c=True).T  # BLAS goes by columns

    def find_directions(self) -> None:
        """Take the leading directions of C as it is now."""
        d, k = self._Q.shape
        lower, Q = np.tril(self._C).astype(np.float64), self._Q.astype(np.float64)
        C = lower + np.tril(lower, -1).T
        mean = np.trace(C) / d
        if mean == 0:
            return
        for _ in range(N_ITERATIONS):
            Q = np.linalg.qr(C @ Q)[0]
        e, R = np.linalg.eigh(Q.T @ C @ Q)
        e, self._Q = np.maximum(e, 0.0), (Q @ R).astype(self._Q.dtype)
        rest = max((mean * d - e.sum()) / max(d - k, 1), 0.0)
        q, q0 = 1 / (e + SOFTNESS * mean), 1 / (rest + SOFTNESS * mean)
        self._D = (1 - q / q0).astype(self._D.dtype)
        self._q0 = float(q0 / (e @ q + (d - k) * rest * q0))  # of no precision: products keep theirs

    def along(self, G: np.ndarray) -> np.ndarray:
        """Qᵀ G."""
        return np.asarray(self._Q.T @ G)

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """X Q: of each row, how far it goes along the directions."""
        return np.asarray(X @ self._Q)

    def of_coordinates(self, R: np.ndarray) -> np.ndarray:
        """Q R."""
        return np.asarray(self._Q @ R)

    def shortened(self, squares: np.ndarray, along: np.ndarray) -> np.ndarray:
        """|P g|² where |g|² and Qᵀg are known."""
        left: np.ndarray = np.maximum(self._q0 * (squares - self._D @ (along * along)), 0.0)
        return left

    def step_sizes(
        self, squares: np.ndarray, along: np.ndarray, mean: np.ndarray, keep: float, of_mean: float, eta: float
    ) -> np.ndarray:
        """What `take_back` takes: η / |P g|, of the running mean of |P g|², which `shortened` of these enters here."""
        return step_sizes(squares, self._D @ (along * along), self._q0, keep, mean, of_mean, eta)

    def descend(self, W: np.ndarray, M: np.ndarray, scale: np.ndarray, keep: float) -> None:
        """W = keep (W - P² M scale), in place."""
        damped = self.of_coordinates(self._D[:, None] * self.along(M))
        move(W, M, damped, self._q0, scale.astype(W.dtype), keep)

    def take_back(self, R: np.ndarray, along: np.ndarray, sizes: np.ndarray, keep: float) -> None:
        """R = keep (R + D QᵀM sizes), in place, where `along` is QᵀM.

        With V = keep (V - M sizes), V + Q R moves as W = keep (W - P² M sizes / q0) does, without a product as large as
        W: Qᵀx of each x is then enough.
        """
        R += sizes * (self._D[:, None] * along)
        R *= R.dtype.type(keep)

    def once(self, V: np.ndarray) -> np.ndarray:
        """P V."""
        shrink = 1 - np.sqrt(1 - self._D)
        return np.asarray(math.sqrt(self._q0) * (V - self._Q @ (shrink[:, None] * (self._Q.T @ V))))

    def get_state(self) -> State:
        return {"C": self._C, "n_rows": self._n_rows, "Q": self._Q, "D": self._D, "q0": self._q0}

    def set_state(self, state: State) -> None:
        self._C, self._Q = (like(state[name], getattr(self, f"_{name}"), name) for name in ("C", "Q"))
        self._D = like(state["D"], self._D, "D", high=1)
        self._n_rows, self._q0 = whole(state["n_rows"], "n_rows", 0, WINDOW), real(state["q0"], "q0", 0)
