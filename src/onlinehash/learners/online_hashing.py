"""Online Hashing (OH).

Long-Kai Huang, Qiang Yang, Wei-Shi Zheng: *Online Hashing*. IEEE Transactions on Neural Networks and Learning
Systems, 2017, doi 10.1109/TNNLS.2017.2689242. With `features=RbfAnchors(...)` it is the paper's kernel form.

Readings taken where the paper leaves a choice:
- sgn(0) = +1, as its definition says (public code of others takes -1).
- βr is one number, b, in the loss and in p0 = ⌈b⌉ - D: it is snapped to the integer when within 1e-9 of it, because
  0.55 * 100 is 55.00000000000001 in floating point and would ask for 56 bits.
- Ties in δ go to the lower bit, ties between the sides to side i (the latter is the paper's).
- A pair whose flipped side is the zero vector has |x(g-h)ᵀ|² = 0 and teaches nothing: it is skipped.
- C defaults to 0.1, as the paper's text says; its table says 1. The theorem's condition on C is a *lower* bound
  (C ≥ √R/F²), although the sentence before it calls C an upper bound.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.features.centring import MODES
from onlinehash.learners import online_hashing_kernels as kernels
from onlinehash.learners.hooks import Traits
from onlinehash.learners.linear import LinearLearner
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import aligned_zeros


class PassiveAggressive(LinearLearner):
    """What OH and its form for chunks share: the similarity loss, the cap C on a step, and W¹."""

    similar_radius: int
    dissimilar_ratio: float
    C: float
    init: Any

    def _rules(self) -> dict[str, checks.Rule]:
        return {
            "similar_radius": checks.integer(0, self.n_bits),
            "dissimilar_ratio": checks.real(0, 1, above=True),
            "C": checks.real(0, above=True),
        }

    def _check_parameters(self, rows: np.ndarray) -> None:
        super()._check_parameters(rows)
        n_inputs = rows.shape[1] if self.features is None else getattr(self.features, "n_anchors", None)
        if getattr(self.features, "anchors", None) is not None:
            n_inputs = len(self.features.anchors)
        self._check_init(n_inputs, rows.dtype)
        if self.similar_radius >= self._dissimilar_distance:
            checks.warn(
                f"similar_radius={self.similar_radius} is not below dissimilar_ratio * n_bits = "
                f"{self._dissimilar_distance:g}: some distances are right for similar and dissimilar pairs alike.",
            )

    @property
    def _dissimilar_distance(self) -> float:
        return dissimilar_distance(self.dissimilar_ratio, self.n_bits)

    # ------------------------------------------------------------------ W¹

    def _check_init(self, n_inputs: int | None, dtype: np.dtype) -> np.ndarray | None:
        """A given W¹ as `(n_models, n_inputs, n_bits)`; None where it is to be drawn."""
        if isinstance(self.init, str) and self.init in ("gaussian", "unit"):
            return None
        shape = (*((self._n_models,) if self._per_model else ()), n_inputs or "n_inputs", self.n_bits)
        try:
            with np.errstate(over="ignore"):
                W = np.asarray(self.init, dtype=np.float64).astype(dtype)
            fits = W.ndim == len(shape) and all(
                want in (got, "n_inputs") for want, got in zip(shape, W.shape, strict=True)
            )
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise InvalidParameter(
                f"{type(self).__name__} expects init to be 'gaussian', 'unit' or an array of shape {shape}, got "
                f"{checks.shown(self.init)}."
            )
        W = W.reshape(self._n_models, -1, self.n_bits)
        if not np.isfinite(W).all() or not W.any(axis=1).all():
            raise InvalidParameter(
                f"{type(self).__name__} expects init to be finite and without a zero column in {dtype}, got "
                f"{np.count_nonzero(~W.any(axis=1))} zero columns; a bit without a direction has no margin."
            )
        return W

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        W = self._check_init(n_inputs, self.dtype_)
        if W is None:
            W = rng.standard_normal((self._n_models, n_inputs, self.n_bits))
            if self.init == "unit":
                W /= np.linalg.norm(W, axis=1, keepdims=True)
        self._lay_out(W)


class OnlineHashing(PassiveAggressive):
    """Learns r hash functions `h(x) = sgn(Wᵀx)` from similar and dissimilar pairs, one pair at a time.

    A similar pair should have codes at most α apart, a dissimilar one at least βr. When a pair does not, the codes
    nearest to its own that would be right (g) are inferred by flipping the p0 bits of least margin, and W takes the
    smallest step that prefers g to h, its size capped by C (a passive-aggressive step):

        R = max(0, D - α) or max(0, βr - D)              similarity loss of the codes' distance D
        ℓ(W) = Σ_flipped 2 |w_kᵀx| + √R                  prediction loss
        W ← W + τ x (g - h)ᵀ,  τ = min(C, ℓ / |x(g - h)ᵀ|²)

    Only the p0 flipped columns change, so an index need only re-hash those bits.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    similar_radius : int, default=0
        α: similar pairs may be this many bits apart.
    dissimilar_ratio : float, default=0.4
        β: dissimilar pairs should be at least this share of the bits apart.
    C : float, default=0.1
        The most one pair may move the functions; `sample_weight` scales it.
    n_rounds : int, default=1
        Rounds of the alternation between W and the code it predicts; the paper takes one.
    init : {"gaussian", "unit"} or array of shape (n_inputs, n_bits), default="gaussian"
        W¹: independent normal values, columns of unit length, or your own (n_inputs is the number of features).
    features, centre, burn_in, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.
    """

    traits = Traits(learns_from="pairs", unit="pair")
    _centre_modes = MODES
    _takes_raw_pairs = True

    def __init__(
        self,
        n_bits: int = 64,
        *,
        similar_radius: int = 0,
        dissimilar_ratio: float = 0.4,
        C: float = 0.1,
        n_rounds: int = 1,
        init: Any = "gaussian",
        features: Any = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.similar_radius = similar_radius
        self.dissimilar_ratio = dissimilar_ratio
        self.C = C
        self.n_rounds = n_rounds
        self.init = init
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.similar_share = similar_share
        self.reservoir_size = reservoir_size
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return super()._rules() | {"n_rounds": checks.integer(1)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        super()._begin(n_inputs, rng)
        self._ahead = aligned_zeros((2 * kernels.PAIRS_AHEAD, n_inputs), self.dtype_)  # the kernel's room to work in

    # ------------------------------------------------------------------ learning

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        self._run(A, B, similar, weights, updates, np.zeros(0))

    def _run(
        self,
        A: np.ndarray,
        B: np.ndarray,
        similar: np.ndarray,
        weights: np.ndarray,
        updates: Updates,
        refined: np.ndarray,
    ) -> None:
        centring, medians = self._centring, self._medians
        stopped_at = kernels.learn_pairs(
            self._W,
            self._ahead,
            A,
            B,
            similar,
            self.C * weights,
            *(self._n_models, self.similar_radius, self._dissimilar_distance, self.n_rounds),
            *(centring.total, centring.count, centring.limit, centring.mean),
            *(self.centre == "median", medians.values, medians.spreads, medians.count),
            *(updates.loss, updates.step, updates.capped, updates.flips, updates.n_moved, updates.moved, refined),
        )
        if stopped_at >= 0:
            raise InvalidInput(f"expected finite values, got others in pair {stopped_at}.")

    def refined_loss(self, a: Any, b: Any, similar: Any, sample_weight: float = 1.0) -> float:
        """max_f H(W', f) - G(W') + √R, with W' what learning this pair would make of W. Nothing is learned.

        The paper's refinement of its prediction loss; zero where R is, summed over the models the pair would update.
        """
        rows = np.concatenate([self._check_rows(checks.row(x, name)) for x, name in ((a, "a"), (b, "b"))])
        Z = rows if self._map is None else self._map.map_rows(rows)
        s, w = checks.similarities(similar, 1), checks.weights(sample_weight, 1)
        refined = np.zeros(1)
        trial = copy.deepcopy(self)
        trial._run(Z[:1], Z[1:], s, w, Updates.empty(1, self._n_models, self._n_columns), refined)
        return float(refined[0])


def dissimilar_distance(ratio: float, n_bits: int) -> float:
    """b = βr, an integer where it is one but for rounding."""
    b = ratio * n_bits
    return float(round(b)) if abs(b - round(b)) < 1e-9 else b
