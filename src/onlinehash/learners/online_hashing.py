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
from typing import NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.arraylike import VectorLike
from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.features import Transformer
from onlinehash.features.centring import MODES, Centring, Medians
from onlinehash.learners import online_hashing_kernels as kernels
from onlinehash.learners.base import LearnPairs, Step, Traits
from onlinehash.learners.linear import LinearLearner
from onlinehash.learners.pair_kernels import loss_of_pair
from onlinehash.learners.update import Update, Updates
from onlinehash.numeric.dots import aligned_zeros
from onlinehash.types import Init, RandomState

#: For the kernel: nothing to refine, no lengths to follow.
NOTHING = np.zeros(0)


class Model(NamedTuple):
    """What a step changes in place: not copies, for those who take steps in a learner's place."""

    W: np.ndarray  # a row per bit, padded for the row kernels
    centring: Centring
    medians: Medians


class OnlineHashing(LinearLearner):
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

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.standard_normal((2, 200, 16))
    >>> similar = A[:, 0] * B[:, 0] > 0
    >>> oh = OnlineHashing(n_bits=16, random_state=0).partial_fit_pairs(A, B, similar)
    >>> oh.projection_.shape
    (16, 16)
    >>> oh.encode(A[:3])
    Codes(n=3, n_bits=16)
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
        init: Init = "gaussian",
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
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
        return loss_rules(self.n_bits) | {"n_rounds": checks.integer(1, 1000)}

    def _check_parameters(self, rows: np.ndarray) -> None:
        super()._check_parameters(rows)
        self._given_init(n_inputs_of(self.features, rows.shape[1]), rows.dtype)
        warn_of_overlap(self.similar_radius, self.dissimilar_ratio, self.n_bits)

    def _given_init(self, n_inputs: int | None, dtype: np.dtype) -> np.ndarray | None:
        n_models = self._n_models if self._per_model else None
        return given_init(type(self).__name__, self.init, n_models, n_inputs, self.n_bits, dtype)

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        W = self._given_init(n_inputs, self.dtype_)
        if W is None:
            W = drawn_init(self.init, (self._n_models, n_inputs, self.n_bits), rng)
        self._lay_out(W)
        self._ahead = aligned_zeros((2 * kernels.PAIRS_AHEAD, n_inputs), self.dtype_)  # the kernel's room to work in

    # ------------------------------------------------------------------ learning

    def model(self) -> Model:
        """The arrays that a step changes in place.

        Returns
        -------
        Model
            Not copies: whoever changes them takes a step in the learner's place (`learn_pairs_by`).
        """
        return Model(self._W, self._centring, self._medians)

    def _learn_alone(self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray) -> Update:
        """Most pairs have no loss, and leave one model with a frozen mean as it is."""
        if not self._per_model and self.centre != "median" and self.mean_is_frozen:
            limits = float(self.similar_radius), dissimilar_distance(self.dissimilar_ratio, self.n_bits)
            if loss_of_pair(*self._mapped(A, B), s, self._centring.mean, self._W, limits) == 0:
                return self._leave_unchanged(A, B, s, w, 0.0)
        return super()._learn_alone(A, B, s, w)

    def _enter_pairs(
        self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray, step: Step | None = None
    ) -> Updates:
        # If nobody else needs rows without outliers, the kernel looks for these: reading all rows twice costs a tenth.
        if step is None and self._map is None and self._metric is None and not self._lengths.is_new:
            return self._pass_pairs(A, B, s, w, self._learn_with_outliers)
        return super()._enter_pairs(A, B, s, w, step)

    def _learn_with_outliers(
        self,
        learn: LearnPairs,
        A: np.ndarray,
        B: np.ndarray,
        similar: np.ndarray,
        weights: np.ndarray,
        updates: Updates,
    ) -> None:
        """Learn pairs that have not entered `_lengths` yet; where the kernel stops, one is scaled down, or refused."""
        start, n = 0, len(A)
        while start < n:
            rest = slice(start, n)
            pairs = A[rest], B[rest], similar[rest], weights[rest], updates.view(rest)
            stopped_at = self._run(*pairs, NOTHING, self._lengths.values)
            if stopped_at < 0:
                return
            start += stopped_at + 1
            one = slice(start - 1, start)
            _, (a, b) = self._without_outliers(A[one], B[one])
            learn(a, b, similar[one], weights[one], updates.view(one))

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        stopped_at = self._run(A, B, similar, weights, updates, NOTHING, NOTHING)
        if stopped_at >= 0:
            raise InvalidInput(expected="finite values", got=f"others in pair {stopped_at}")

    def _run(
        self,
        A: np.ndarray,
        B: np.ndarray,
        similar: np.ndarray,
        weights: np.ndarray,
        updates: Updates,
        refined: np.ndarray,
        lengths: np.ndarray,
    ) -> int:
        W, centring, medians = self.model()
        distance = dissimilar_distance(self.dissimilar_ratio, self.n_bits)
        return kernels.learn_pairs(
            W,
            self._ahead,
            A,
            B,
            similar,
            self.C * weights,
            *(self._n_models, self.similar_radius, distance, self.n_rounds),
            *(centring.total, centring.count, centring.limit, centring.mean),
            *(self.centre == "median", medians.values, medians.spreads, medians.count),
            *(updates.loss, updates.step, updates.capped, updates.flips, updates.n_moved, updates.moved),
            *(refined, lengths),
        )

    def refined_loss(self, a: VectorLike, b: VectorLike, similar: bool | int, sample_weight: float = 1.0) -> float:
        """The paper's refinement of its prediction loss for a pair; nothing is learned.

        It is max_f H(W', f) - G(W') + √R, with W' what learning this pair would make of W: zero where R is, summed over
        the models that the pair would update.

        Parameters
        ----------
        a, b, similar, sample_weight
            As in `learn_pair`.

        Returns
        -------
        float

        Raises
        ------
        InvalidInput
            If values or shapes do not fit.
        NotFitted, NotReady
            As in `snapshot`.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> A, B = np.random.default_rng(0).standard_normal((2, 100, 4))
        >>> learner = OnlineHashing(n_bits=8, random_state=0).observe(A)
        >>> learner.refined_loss(A[0], A[0], True)  # equal vectors are as near as can be: no loss
        0.0
        """
        rows = np.concatenate([self._check_rows(checks.row(x, name)) for x, name in ((a, "a"), (b, "b"))])
        Z = rows if self._map is None else self._map.map_rows(rows)
        s, w = checks.similarities(similar, 1), checks.weights(sample_weight, 1)
        refined = np.zeros(1)
        trial = copy.deepcopy(self)
        trial._run(Z[:1], Z[1:], s, w, Updates.empty(1, self._n_models, self._n_columns), refined, NOTHING)
        return float(refined[0])


# ------------------------------------------------------------------ what OH shares with its form for chunks


def loss_rules(n_bits: int) -> dict[str, checks.Rule]:
    """Rules for the parameters of the similarity loss and of a capped step."""
    return {
        "similar_radius": checks.integer(0, n_bits),
        "dissimilar_ratio": checks.real(0, 1, above=True),
        "C": checks.real(0, above=True),
    }


def warn_of_overlap(similar_radius: int, dissimilar_ratio: float, n_bits: int) -> None:
    """Warn where some distances are right for both kinds of pairs."""
    distance = dissimilar_distance(dissimilar_ratio, n_bits)
    if similar_radius >= distance:
        checks.warn(
            f"similar_radius={similar_radius} is not below dissimilar_ratio * n_bits = {distance:g}: "
            "some distances are right for similar and dissimilar pairs alike.",
        )


def n_inputs_of(features: Transformer | None, n_features: int) -> int | None:
    """How many features a method will hash, where that is known before the feature map is ready."""
    if features is None:
        return n_features
    anchors: np.ndarray | None = getattr(features, "anchors", None)
    if anchors is not None:
        return len(anchors)
    return getattr(features, "n_anchors", None)


def given_init(
    method: str, init: Init, n_models: int | None, n_inputs: int | None, n_bits: int, dtype: np.dtype
) -> np.ndarray | None:
    """A given W¹, checked, as `(n_models, n_inputs, n_bits)`; None where it is to be drawn.

    n_models is None for a method of one model, whose W¹ is given as `(n_inputs, n_bits)`; n_inputs where it is not
    known yet.
    """
    if isinstance(init, str) and init in ("gaussian", "unit"):
        return None
    shape = (*(() if n_models is None else (n_models,)), n_inputs or "n_inputs", n_bits)
    try:
        with np.errstate(over="ignore"):
            W = np.asarray(init, dtype=np.float64).astype(dtype)
        fits = W.ndim == len(shape) and all(want in (got, "n_inputs") for want, got in zip(shape, W.shape, strict=True))
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise InvalidParameter(
            f"{method} expects init to be 'gaussian', 'unit' or an array of shape {shape}, got {checks.shown(init)}."
        )
    W = W.reshape(n_models or 1, -1, n_bits)
    if not np.isfinite(W).all() or not W.any(axis=1).all():
        raise InvalidParameter(
            f"{method} expects init to be finite and without a zero column in {dtype}, got "
            f"{np.count_nonzero(~W.any(axis=1))} zero columns; a bit without a direction has no margin."
        )
    return W


def drawn_init(init: Init, shape: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
    """W¹ of independent normal values, `(n_models, n_inputs, n_bits)`; with "unit", columns of unit length."""
    W = rng.standard_normal(shape)
    if isinstance(init, str) and init == "unit":
        W /= np.linalg.norm(W, axis=1, keepdims=True)
    return W


def dissimilar_distance(ratio: float, n_bits: int) -> float:
    """b = βr, an integer where it is one but for rounding."""
    b = ratio * n_bits
    return float(round(b)) if abs(b - round(b)) < 1e-9 else b
