"""Minimal Loss Hashing (MLH), in its online form.

Mohammad Norouzi, David J. Fleet: *Minimal Loss Hashing for Compact Binary Codes*. Proceedings of the 28th
International Conference on Machine Learning (ICML), 2011.

Readings taken:
- The online form, as *Online Hashing* compares with: one pair at a time, no momentum, no weight decay, each changed
  row of W scaled back to unit length (as the paper has it; the released code took weight decay instead).
- ρ = radius_ratio times r, rounded, and both losses divided by their largest value, as released.
- A code does not depend on the length of a centred vector, but the bound does: points are scaled to unit length, so
  that a projection is a cosine and `loss_scale` and `step` fit data of any scale.
- Ties: equal gains in the order of the bits, equal maxima to the smaller distance; sgn(0) = +1 throughout.

Left out of the released code, because they need batches or know the future: the bold driver of the step, half of
each batch similar (`similar_share=0.5` gives that where there are labels), the pull of each bit's mean to zero (the
centring stands for it) and the re-drawing of bits that are nearly constant.
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.learners.base import Traits
from onlinehash.learners.linear import LinearLearner, unit_columns
from onlinehash.learners.pair_kernels import load_unit_pair, scale_to_unit_length
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import add_row, aligned_zeros, dot_of_rows, row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of
from onlinehash.types import RandomState


class MinimalLossHashing(LinearLearner):
    """Lowers a bound on a hinge loss of code distances, by loss-adjusted inference for each pair.

    Similar pairs should be nearer than ρ bits, dissimilar ones farther. The loss L(m) of a distance m is not smooth,
    but bounded by the structured hinge max_g [L(g) + g·Wx] - max_h h·Wx over the codes of both points. Its maximum
    g, the code that is nearly predicted and most wrong, is found exactly in O(r log r); W moves from g to h = sgn(Wx):

        L(m) = max(0, m - ρ + 1) / (r - ρ + 1)  or  λ max(0, ρ - m + 1) / (ρ + 1)
        g_i, g_j = argmax  c L(|g_i - g_j|) + g_iᵀWx_i + g_jᵀWx_j
        W ← W + η [(h_i - g_i) x_iᵀ + (h_j - g_j) x_jᵀ],  rows of unit length

    Only rows in which g and h differ change. The loss of an update is L of the predicted codes.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    radius_ratio : float, default=0.35
        ρ as a share of r.
    dissimilar_weight : float, default=0.3
        λ, what a dissimilar pair weighs beside a similar one; pairs as they come are mostly dissimilar.
    loss_scale : float, default=3.0
        c, what the loss weighs beside the projections: the larger, the more bits a pair changes.
    step : float, default=0.01
        η; `sample_weight` scales it.
    features, centre, burn_in, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import MinimalLossHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = MinimalLossHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).encode(A)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="pairs", unit="pair")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        radius_ratio: float = 0.35,
        dissimilar_weight: float = 0.3,
        loss_scale: float = 3.0,
        step: float = 0.01,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.radius_ratio = radius_ratio
        self.dissimilar_weight = dissimilar_weight
        self.loss_scale = loss_scale
        self.step = step
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.similar_share = similar_share
        self.reservoir_size = reservoir_size
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {
            "radius_ratio": checks.real(0, 1),
            "dissimilar_weight": checks.real(0),
            "loss_scale": checks.real(0, above=True),
            "step": checks.real(0, above=True),
        }

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(unit_columns(n_inputs, self.n_bits, rng))

    @property
    def _loss_of_distance(self) -> np.ndarray:
        """L(m), m = 0 ... r, of dissimilar (row 0) and of similar pairs (row 1)."""
        r = self.n_bits
        rho, m = round(self.radius_ratio * r), np.arange(r + 1)
        dissimilar = self.dissimilar_weight * np.maximum(0, rho - m + 1) / (rho + 1)
        return np.stack([dissimilar, np.maximum(0, m - rho + 1) / (r - rho + 1)])

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        _learn_pairs(
            self._W,
            aligned_zeros((2, self._n_inputs), self.dtype_),
            A,
            B,
            similar,
            self.step * weights,
            self._loss_of_distance,
            float(self.loss_scale),
            updates.loss,
            updates.step,
            updates.flips,
            updates.n_moved,
        )


@njit(nogil=True, cache=True)
def _learn_pairs(
    W: np.ndarray,
    X: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    eta: np.ndarray,
    L: np.ndarray,
    scale: float,
    loss: np.ndarray,
    step: np.ndarray,
    flips: np.ndarray,
    n_moved: np.ndarray,
) -> None:
    """The step for each pair; X is room for its two points."""
    r = W.shape[0]
    P = np.empty((2, r), W.dtype)
    g = np.empty((2, r), np.int64)
    for t in range(similar.shape[0]):
        load_unit_pair(A, B, t, X)
        row_dots(W, X, 0, 2, P)
        of_distance = L[1 if similar[t] > 0 else 0]
        distance = 0
        for k in range(r):
            distance += (P[0, k] >= 0) != (P[1, k] >= 0)
        loss[t] = of_distance[distance]
        adjusted_codes(P, scale * of_distance, g)
        for k in range(r):
            moved = False
            for side in range(2):
                change = (1 if P[side, k] >= 0 else -1) - g[side, k]
                if change != 0 and eta[t] > 0.0 and dot_of_rows(X, side, side) > 0.0:
                    add_row(W, k, eta[t] * change, X, side)
                    moved = True
            if moved:
                scale_to_unit_length(W, k)
                flips[t, k] = 1
                n_moved[t] += 1
        if n_moved[t] > 0:
            step[t, 0] = eta[t]


@njit(nogil=True, cache=True)
def adjusted_codes(P: np.ndarray, of_distance: np.ndarray, g: np.ndarray) -> None:
    """g = argmax of_distance[|g_i - g_j|] + g_i·P[0] + g_j·P[1], over all pairs of codes.

    In a bit where they are the same, the best two codes give |a + b|; where they differ, |a - b|. Of all pairs at
    distance m the best therefore differ in the m bits that gain most by it.
    """
    r = P.shape[1]
    cost = np.empty(r)  # of a difference
    for k in range(r):
        a, b = np.float64(P[0, k]), np.float64(P[1, k])
        cost[k] = abs(a + b) - abs(a - b)
    order = order_of(cost)
    m, best, total = 0, of_distance[0], 0.0
    for n in range(1, r + 1):
        total -= cost[order[n - 1]]
        if of_distance[n] + total > best:
            m, best = n, of_distance[n] + total
    for n in range(r):
        k = order[n]
        a, b = np.float64(P[0, k]), np.float64(P[1, k])
        if n < m:
            g[0, k] = 1 if a - b >= 0 else -1
            g[1, k] = -g[0, k]
        else:
            g[0, k] = g[1, k] = 1 if a + b >= 0 else -1
