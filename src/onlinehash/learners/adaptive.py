"""Adaptive Hashing (AdaptHash).

Fatih Cakir, Stan Sclaroff: *Adaptive Hashing for Fast Similarity Search*. IEEE International Conference on Computer
Vision (ICCV), 2015.

Readings taken, from the authors' released code where the paper leaves a choice:
- The bits that learn are the wrong ones of *largest* margin first (Online Hashing takes the smallest).
- Columns of W are kept at unit length, and points are scaled to it (the released code wants them so): a code does not
  depend on the length of a centred vector, and the step then fits data of any scale.
- αr is one number: where it is an integer but for rounding, it is that integer. sgn(0) = +1, ties to the lower bit.

Departures:
- The step is divided by r. The gradient of (f_iᵀf_j - rs)² grows with r: a step of 0.25 in the released form, good at
  32 bits, makes all bits alike at 128. Divided, step times λ below 2 keeps the pull to orthogonality from overshooting
  at any r, even where all columns are one.
- λ is 0.2 instead of 0.01, by measurement: bits that learn the same pairs become alike.

What to know: the method lives by overshooting. Wrong bits are chosen by the projections they have, so on average their
gradient points away from the directions of large variance: with small steps W ends where the data hardly vary.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.learners.base import Traits
from onlinehash.learners.linear import LinearLearner, unit_columns
from onlinehash.learners.online_hashing import dissimilar_distance
from onlinehash.learners.pair_kernels import load_unit_pair, scale_to_unit_length
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import add_row, aligned_zeros, row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of
from onlinehash.types import RandomState


class AdaptiveHashing(LinearLearner):
    """Gradient steps on a smooth inner product of codes, for the bits that are wrong by most, kept orthogonal.

    A similar pair should differ in at most (1 - α)r bits, a dissimilar one in at least αr. One that misses this by ℓ
    lowers (f_iᵀf_j - rs)², f = 2σ(Wᵀx) - 1 the smooth code, s = ±1, in the ⌈ℓ⌉ wrong bits of largest margin; all
    columns are drawn towards orthogonality and scaled back to unit length:

        ℓ = max(0, D - (1 - α)r)  or  max(0, αr - D)
        ∇_k = 2 (f_iᵀf_j - rs) [f_jk f'(w_kᵀx_i) x_i + f_ik f'(w_kᵀx_j) x_j],  f' = 2σ(1 - σ)
        W ← W - η/r [∇ + λ W(WᵀW - I)],  columns of unit length

    Nearly every pair teaches, and every step changes all bits. The loss of an update is ℓ.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    alpha : float, default=0.9
        α, the share of bits that similar pairs should have in common and dissimilar ones should not.
    orthogonality : float, default=0.2
        λ, the weight of ¼|WᵀW - I|²; with 0 only the wrong bits change.
    step : float, default=8.0
        η; `sample_weight` scales it.
    features, centre, burn_in, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import AdaptiveHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = AdaptiveHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).encode(A)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="pairs", unit="pair")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        alpha: float = 0.9,
        orthogonality: float = 0.2,
        step: float = 8.0,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.alpha = alpha
        self.orthogonality = orthogonality
        self.step = step
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.similar_share = similar_share
        self.reservoir_size = reservoir_size
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {
            "alpha": checks.real(0, 1, above=True),
            "orthogonality": checks.real(0),
            "step": checks.real(0, above=True),
        }

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(unit_columns(n_inputs, self.n_bits, rng))

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        _learn_pairs(
            self._W,
            aligned_zeros((self.n_bits, self._n_inputs), self.dtype_),
            aligned_zeros((2, self._n_inputs), self.dtype_),
            A,
            B,
            similar,
            self.step / self.n_bits * weights,
            dissimilar_distance(self.alpha, self.n_bits),
            float(self.orthogonality),
            updates.loss,
            updates.step,
            updates.flips,
            updates.n_moved,
        )


@njit(nogil=True, cache=True)
def _learn_pairs(
    W: np.ndarray,
    V: np.ndarray,
    X: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    eta: np.ndarray,
    b: float,
    orthogonality: float,
    loss: np.ndarray,
    step: np.ndarray,
    flips: np.ndarray,
    n_moved: np.ndarray,
) -> None:
    """The step for each pair; V is room for the new W, X for the pair's two points. b = αr, eta is divided by r."""
    r = W.shape[0]
    P = np.empty((2, r), W.dtype)
    gram = np.empty((r, r), W.dtype)
    factors = np.empty((2, r))
    for t in range(similar.shape[0]):
        load_unit_pair(A, B, t, X)
        row_dots(W, X, 0, 2, P)
        distance = 0
        for k in range(r):
            distance += (P[0, k] >= 0) != (P[1, k] >= 0)
        excess = distance - (r - b) if similar[t] > 0 else b - distance
        if excess <= 0.0:
            continue
        loss[t] = excess
        if eta[t] == 0.0:
            continue
        chosen = wrong_bits(P, similar[t], math.ceil(excess - 1e-9))
        gradient_factors(P, similar[t], factors)
        for k in range(r):
            for i in range(W.shape[1]):
                V[k, i] = W[k, i]
        if orthogonality > 0.0:
            row_dots(W, W, 0, r, gram)
            for k in range(r):
                for j in range(r):
                    add_row(V, k, -eta[t] * orthogonality * (gram[k, j] - (k == j)), W, j)
        for k in chosen:
            for side in range(2):
                add_row(V, k, -eta[t] * factors[side, k], X, side)
        for k in range(r):
            moved = False
            for i in range(W.shape[1]):
                moved |= V[k, i] != W[k, i]
            if not moved:
                continue
            scale_to_unit_length(V, k)
            for i in range(W.shape[1]):
                W[k, i] = V[k, i]
            flips[t, k] = 1
            n_moved[t] += 1
        if n_moved[t] > 0:
            step[t, 0] = eta[t]


@njit(nogil=True, cache=True)
def wrong_bits(P: np.ndarray, s: int, n: int) -> np.ndarray:
    """The n bits of largest margin among those that differ (similar pairs) or are equal (dissimilar ones)."""
    cost = np.empty(P.shape[1])
    for k in range(P.shape[1]):
        is_wrong = ((P[0, k] >= 0) != (P[1, k] >= 0)) == (s > 0)
        cost[k] = -max(abs(P[0, k]), abs(P[1, k])) if is_wrong else 1.0
    return order_of(cost)[:n]


@njit(nogil=True, cache=True)
def gradient_factors(P: np.ndarray, s: int, factors: np.ndarray) -> None:
    """What x_i (row 0) and x_j (row 1) are multiplied with in the gradient of (f_iᵀf_j - rs)², for each bit."""
    r = P.shape[1]
    f = np.empty((2, r))
    error = -float(r * s)
    for k in range(r):
        for side in range(2):
            f[side, k] = math.tanh(0.5 * P[side, k])  # = 2σ - 1, and f' = 2σ(1 - σ) = (1 - f²) / 2
        error += f[0, k] * f[1, k]
    for k in range(r):
        for side in range(2):
            factors[side, k] = 2.0 * error * f[1 - side, k] * 0.5 * (1.0 - f[side, k] ** 2)
