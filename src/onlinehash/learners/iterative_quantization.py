"""Iterative Quantization (ITQ).

Yunchao Gong, Svetlana Lazebnik: *Iterative Quantization: A Procrustean Approach to Learning Binary Codes*. CVPR 2011.

Readings taken:
- The rotation R has orthonormal rows, one per principal direction kept. With as many directions as bits it is the
  paper's square rotation. Public code asks for no more bits than dimensions; here, where `n_bits` is above the rank of
  the data, the same two steps go on with more columns than rows.
- V is scaled to a mean square of one per bit. No step of the algorithm depends on the scale, and the loss then lies
  between 0 and 2 whatever the data.
- sgn(0) = +1. Points that are all equal have no directions: W is random.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import like
from onlinehash.learners.base import Traits
from onlinehash.learners.batch import BatchLearner, Show
from onlinehash.numeric.tall import ROWS, blocks, inner, signs, times
from onlinehash.types import RandomState, State

#: Hears the number of an iteration and the loss after it.
Tell = Callable[[int, float], None]


class IterativeQuantization(BatchLearner):
    """Rotates the principal directions of all points until the signs lose least; needs no labels.

    Variance along principal directions is uneven, and so would be the worth of their bits. A rotation R spreads it:
    V are the points in r principal directions, B their codes, and the loss falls by two exact steps in turn,

        min |B - V R|²      B = sgn(V R)
                            R = U_A U_Bᵀ  with  Bᵀ V = U_B Σ U_Aᵀ        (orthogonal Procrustes)

        h(x) = sgn(Rᵀ Pᵀ (x - mean))

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code. Beyond the rank of the data, bits share directions.
    n_iterations : int, default=50
        How often the two steps are taken.
    features, random_state
        As for every learner: see `Learner`.

    Attributes
    ----------
    losses_ : array of shape (n_iterations,)
        |B - V R|² per point and bit after each iteration, with V scaled to a mean square of one. It never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import IterativeQuantization
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = IterativeQuantization(n_bits=8, random_state=0)
    >>> learner.fit(X).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="nothing", unit="batch")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_iterations: int = 50,
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_iterations = n_iterations
        self.features = features
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"n_iterations": checks.integer(1, 10_000)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        super()._begin(n_inputs, rng)
        self.losses_ = np.ones(self.n_iterations)

    def _fit(self, X: np.ndarray, classes: np.ndarray | None, rng: np.random.Generator, show: Show) -> np.ndarray:
        def tell(t: int, loss: float) -> None:
            self.losses_[t] = loss
            show((t + 1) / self.n_iterations, f"loss {loss:.4f}")

        show(0.0, "principal directions")
        return rotated_directions(X, self.n_bits, self.n_iterations, rng, tell)

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {"losses": self.losses_}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self.losses_ = like(state["losses"], self.losses_, "losses")


def rotated_directions(
    X: np.ndarray, n_bits: int, n_iterations: int, rng: np.random.Generator, tell: Tell = lambda t, loss: None
) -> np.ndarray:
    """W = P R of centred points, `(n_inputs, n_bits)`; `tell` hears the loss after each iteration."""
    if not X.any():
        return rng.standard_normal((X.shape[1], n_bits))
    X = X / np.abs(X).max()  # so that no square overflows
    P = principal_directions(X, n_bits)
    V = times(X, P)
    V *= np.sqrt(len(V) * n_bits) / np.linalg.norm(V)
    R = np.linalg.qr(rng.standard_normal((n_bits, P.shape[1])))[0].T
    room = np.empty((min(len(V), ROWS), n_bits))  # a block of B, once: fresh memory costs more than the signs

    def codes(rows: np.ndarray) -> np.ndarray:
        B = np.matmul(rows, R, out=room[: len(rows)])
        return signs(B, out=B)

    for t in range(n_iterations):
        VtB = sum(V[rows].T @ codes(V[rows]) for rows in blocks(len(V)))
        U_A, sigma, U_Bt = np.linalg.svd(VtB, full_matrices=False)
        R = U_A @ U_Bt
        # |B|² = |VR|² = n r, and the trace of RᵀVᵀB is the sum of the singular values.
        tell(t, 2 - 2 * sigma.sum() / (len(V) * n_bits))
    W: np.ndarray = P @ R
    return W


def principal_directions(X: np.ndarray, n_bits: int) -> np.ndarray:
    """At most `n_bits` of them, by falling variance; none without variance.

    With fewer points than inputs, the products of points with points are the smaller matrix and have the same
    variances; only the leading eigenvectors are computed, which halves the time again.
    """
    if len(X) >= X.shape[1]:
        variances, directions = np.linalg.eigh(inner(X, X))
        return directions[:, ::-1][:, : min(_rank(variances, X.shape[1]), n_bits)]
    n = len(X)
    variances, combined = scipy.linalg.eigh(inner(X.T, X.T), subset_by_index=[max(n - n_bits, 0), n - 1])
    leading = combined[:, ::-1][:, : _rank(variances, X.shape[1])]
    return np.linalg.qr(times(X.T, leading))[0]


def _rank(variances: np.ndarray, n_inputs: int) -> int:
    """How many of these, the largest last, are above rounding."""
    return int(np.count_nonzero(variances > n_inputs * np.finfo(np.float64).eps * variances[-1]))
