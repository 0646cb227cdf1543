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
import math
import warnings
from typing import Any

import numpy as np
from numba import njit

from onlinehash import checks
from onlinehash.errors import InvalidParameter
from onlinehash.features.centring import track_medians
from onlinehash.learners.base import Learner, Traits
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import one_row, pad_rows, row_dots

#: Pairs projected together before they are learned one by one; what a step changes is projected again.
PAIRS_AHEAD = 2


class OnlineHashing(Learner):
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

    Attributes
    ----------
    projection_ : array of shape (n_inputs, n_bits)
        W (a copy).
    """

    traits = Traits(learns_from="pairs", unit="pair")

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
        return {
            "similar_radius": checks.integer(0, self.n_bits),
            "dissimilar_ratio": checks.real(0, 1, above=True),
            "C": checks.real(0, above=True),
            "n_rounds": checks.integer(1),
        }

    def _check_parameters(self, rows: np.ndarray) -> None:
        super()._check_parameters(rows)
        n_inputs = rows.shape[1] if self.features is None else getattr(self.features, "n_anchors", None)
        self._check_init(n_inputs)
        if self.similar_radius >= self._dissimilar_distance:
            warnings.warn(
                f"similar_radius={self.similar_radius} is not below dissimilar_ratio * n_bits = "
                f"{self._dissimilar_distance:g}: some distances are right for similar and dissimilar pairs alike.",
                stacklevel=5,
            )

    @property
    def _dissimilar_distance(self) -> float:
        """b = βr."""
        b = self.dissimilar_ratio * self.n_bits
        return float(round(b)) if abs(b - round(b)) < 1e-9 else b

    # ------------------------------------------------------------------ W

    def _check_init(self, n_inputs: int | None) -> np.ndarray | None:
        """A given W¹ as `(n_models, n_inputs, n_bits)`; None where it is to be drawn."""
        if isinstance(self.init, str):
            checks.parameters(type(self).__name__, {"init": self.init}, {"init": checks.one_of("gaussian", "unit")})
            return None
        W = np.asarray(self.init, dtype=np.float64)
        shape = (n_inputs if n_inputs is not None else "n_inputs", self.n_bits)
        if self.projection_ndim == 3:
            shape = (self._n_models, *shape)
        if W.shape != shape and not (n_inputs is None and W.ndim == len(shape)):
            raise InvalidParameter(f"expected init to be 'gaussian', 'unit' or an array {shape}, got shape {W.shape}.")
        W = W.reshape(self._n_models, -1, self.n_bits)
        if not np.isfinite(W).all() or not W.any(axis=1).all():
            raise InvalidParameter(
                "expected init with finite values and no zero column (a bit without a direction has no margin)."
            )
        return W

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        W = self._check_init(n_inputs)
        if W is None:
            W = rng.standard_normal((self._n_models, n_inputs, self.n_bits))
            if self.init == "unit":
                W /= np.linalg.norm(W, axis=1, keepdims=True)
        # One row per bit, all models in one matrix: the kernels read rows, and a step rewrites rows.
        self._W = pad_rows(W.transpose(0, 2, 1).reshape(-1, n_inputs).astype(self.dtype_))
        self._n_inputs = n_inputs
        self._medians = np.zeros(len(self._W))
        self._spreads = np.zeros(len(self._W))
        self._median_count = np.zeros(1, np.int64)

    projection_ndim = 2

    @property
    def projection_(self) -> np.ndarray:
        self._check_ready()
        W = self._W[:, : self._n_inputs].reshape(self._n_models, self.n_bits, self._n_inputs).transpose(0, 2, 1)
        return W[0].copy() if self.projection_ndim == 2 else W.copy()

    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        return self._W[:, : self._n_inputs], self._medians

    def _get_method_state(self) -> dict[str, Any]:
        W = np.ascontiguousarray(self._W[:, : self._n_inputs])
        return {"W": W, "medians": self._medians, "spreads": self._spreads, "median_count": self._median_count}

    def _set_method_state(self, state: dict[str, Any]) -> None:
        self._W = pad_rows(state["W"])
        self._medians, self._spreads, self._median_count = (
            np.array(state[name]) for name in ("medians", "spreads", "median_count")
        )

    # ------------------------------------------------------------------ learning

    def _learn(self, X: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        self._run(X, similar, weights, updates, np.zeros(0))

    def _run(
        self, X: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates, refined: np.ndarray
    ) -> None:
        median = self.centre == "median"
        updates.moved |= median
        _learn_pairs(
            self._W,
            X,
            similar,
            float(self.C) * weights,
            self._n_models,
            self.similar_radius,
            self._dissimilar_distance,
            self.n_rounds,
            median,
            self._medians,
            self._spreads,
            self._median_count,
            updates.loss,
            updates.step,
            updates.capped,
            updates.flips,
            refined,
        )

    def _observe(self, X: np.ndarray) -> np.ndarray:
        if self.centre != "median":
            return super()._observe(X)
        projections = np.empty((len(X), len(self._W)), self.dtype_)
        row_dots(self._W, X, 0, len(X), projections)
        for row in projections:
            track_medians(row, self._medians, self._spreads, self._median_count)
        return np.ones(len(X), np.bool_)

    def refined_loss(self, a: Any, b: Any, similar: Any, sample_weight: float = 1.0) -> float:
        """max_f H(W', f) - G(W') + √R, with W' what learning this pair would make of W. Nothing is learned.

        The paper's refinement of its prediction loss; zero where R is, summed over the models the pair would update.
        """
        self._check_ready()
        rows = np.concatenate([checks.vector(x, name, self.dtype_) for x, name in ((a, "a"), (b, "b"))])
        checks.width(rows, self.n_features_in_, type(self).__name__, "a")
        X = self._centring.centre(rows if self._map is None else self._map.map_rows(rows))
        s, w = checks.similarities(similar, 1), checks.weights(sample_weight, 1)
        refined = np.zeros(1)
        trial = copy.copy(self)
        trial._set_method_state(self._get_method_state())
        trial._run(X, s, w, Updates.empty(1, self._n_models, self._n_columns), refined)
        return float(refined[0])


@njit(nogil=True, cache=True)
def _learn_pairs(
    W: np.ndarray,
    X: np.ndarray,
    similar: np.ndarray,
    C: np.ndarray,
    n_models: int,
    alpha: int,
    b: float,
    n_rounds: int,
    median: bool,
    medians: np.ndarray,
    spreads: np.ndarray,
    median_count: np.ndarray,
    loss: np.ndarray,
    step: np.ndarray,
    capped: np.ndarray,
    flips: np.ndarray,
    refined: np.ndarray,
) -> None:
    """Algorithm 1 over pairs (rows 2t and 2t + 1 of X), for one model or several.

    A few pairs are projected at once, because W then passes through the cache once for all of them. A step changes
    few rows of W; those are projected again for the pairs that follow. As every dot product is its own, this is bit
    for bit the loop that projects each pair when its turn comes.
    """
    r = W.shape[0] // n_models
    P = np.empty((2 * PAIRS_AHEAD, W.shape[0]), W.dtype)
    p = np.empty((2, W.shape[0]))
    D = np.empty(n_models, np.int64)
    R = np.empty(n_models)
    deltas, chosen = np.empty(r), np.empty(r, np.int64)
    base = np.empty((r, W.shape[1]), W.dtype)  # rows as they were, where a pair takes several rounds
    for start in range(0, similar.shape[0], PAIRS_AHEAD):
        stop = min(start + PAIRS_AHEAD, similar.shape[0])
        ahead = X[2 * start : 2 * stop]
        row_dots(W, ahead, 0, ahead.shape[0], P)
        for t in range(start, stop):
            s, q = similar[t], 2 * (t - start)
            if median:
                track_medians(P[q], medians, spreads, median_count)
                track_medians(P[q + 1], medians, spreads, median_count)
            for k in range(W.shape[0]):
                p[0, k] = P[q, k] - medians[k]
                p[1, k] = P[q + 1, k] - medians[k]
            for m in range(n_models):
                D[m] = 0
                for k in range(m * r, m * r + r):
                    D[m] += (p[0, k] >= 0) != (p[1, k] >= 0)
                R[m] = similarity_loss(D[m], s, alpha, b)
            nearest = np.argmin(R)
            for m in range(n_models):
                # A similar pair needs one model that agrees: only the nearest to it learns.
                if R[m] == 0 or (s > 0 and m != nearest):
                    continue
                loss[t] += R[m]
                n_flips = D[m] - alpha if s > 0 else math.ceil(b - 1e-9) - D[m]
                rows = slice(m * r, m * r + r)
                infer_flips(p[0, rows], p[1, rows], s, n_flips, deltas, chosen)
                step[t, m], capped[t, m] = _take_step(
                    W[rows],
                    ahead[q : q + 2],
                    p[:, rows],
                    medians[rows],
                    R[m],
                    C[t],
                    n_rounds,
                    chosen[:n_flips],
                    base,
                    flips[t, rows],
                    refined[t : t + 1],
                )
                for k in chosen[:n_flips]:
                    one_row(W, m * r + k, ahead, q + 2, ahead.shape[0], P)


@njit(nogil=True, cache=True)
def similarity_loss(distance: int, s: int, alpha: int, b: float) -> float:
    """R of a pair whose codes are `distance` apart."""
    return max(0.0, float(distance - alpha)) if s > 0 else max(0.0, b - distance)


@njit(nogil=True, cache=True)
def infer_flips(
    p_i: np.ndarray, p_j: np.ndarray, s: int, n_flips: int, deltas: np.ndarray, chosen: np.ndarray
) -> None:
    """Algorithms 2 and 3: the `n_flips` bits of least potential loss among those that are wrong.

    Wrong are the bits that differ in a similar pair, or agree in a dissimilar one; the potential loss of a bit is
    δ_k = min(|w_kᵀx_i|, |w_kᵀx_j|). They come out sorted by (δ, k).
    """
    n = 0
    for k in range(p_i.shape[0]):
        if ((p_i[k] >= 0) != (p_j[k] >= 0)) == (s > 0):
            delta = min(abs(p_i[k]), abs(p_j[k]))
            if n == n_flips:
                if delta >= deltas[n - 1]:
                    continue
                n -= 1
            at = n
            while at > 0 and deltas[at - 1] > delta:
                deltas[at], chosen[at] = deltas[at - 1], chosen[at - 1]
                at -= 1
            deltas[at], chosen[at] = delta, k
            n += 1


@njit(nogil=True, cache=True)
def _take_step(
    W: np.ndarray,
    x: np.ndarray,
    p: np.ndarray,
    medians: np.ndarray,
    R: float,
    C: float,
    n_rounds: int,
    chosen: np.ndarray,
    base: np.ndarray,
    flips: np.ndarray,
    refined: np.ndarray,
) -> tuple[float, bool]:
    """W ← W + τ x (g - f)ᵀ for one model, f = h in the first round; returns τ and whether C cut it short.

    `flips` is filled with (g - f) / 2, side i plus three times side j. Each chosen bit is flipped on the side where
    that costs least; on all other bits g, f and h are the same.
    """
    products = np.empty((2, 2), W.dtype)
    row_dots(x, x, 0, 2, products)  # |x_i|², x_iᵀx_j, |x_j|²
    loss, norm = math.sqrt(R), 0.0
    for k in chosen:
        side = 0 if abs(p[0, k]) <= abs(p[1, k]) else 1
        flips[k] = (1 if side == 0 else 3) * (-1 if p[side, k] >= 0 else 1)
        loss += 2.0 * abs(p[side, k])
        norm += 4.0 * products[side, side]
    if norm == 0.0:
        flips[:] = 0
        return 0.0, False
    tau, capped = min(C, loss / norm), loss / norm > C
    if n_rounds == 1 and refined.shape[0] == 0:
        _move(W, x, tau, chosen, flips)
        return tau, capped

    g = np.empty((2, chosen.shape[0]))
    for c, k in enumerate(chosen):
        base[c] = W[k]
        for side in range(2):
            g[side, c] = (1 if p[side, k] >= 0 else -1) + 2 * _part(flips[k], side)
    _move(W, x, tau, chosen, flips)
    now = np.empty((2, W.shape[0]), W.dtype)
    for _ in range(1, n_rounds):
        if _disagree(W, x, medians, chosen, g, now, flips) == 0:
            break  # f = g: the codes are right already
        loss, norm = math.sqrt(R), 0.0
        for k in chosen:
            i, j = _part(flips[k], 0), _part(flips[k], 1)
            loss -= 2.0 * (i * p[0, k] + j * p[1, k])
            norm += 4.0 * (abs(i) * products[0, 0] + abs(j) * products[1, 1] + 2 * i * j * products[0, 1])
        tau, capped = 0.0, False
        if norm > 0.0:
            tau, capped = min(C, max(0.0, loss) / norm), loss / norm > C
        for c, k in enumerate(chosen):
            W[k] = base[c]
        _move(W, x, tau, chosen, flips)
    if tau == 0.0:
        flips[:] = 0
    if refined.shape[0] > 0:
        _disagree(W, x, medians, chosen, g, now, np.zeros_like(flips))
        refined[0] += math.sqrt(R)
        for c, k in enumerate(chosen):
            for side in range(2):
                value = now[side, k] - medians[k]
                refined[0] += abs(value) - g[side, c] * value
    return tau, capped


@njit(nogil=True, cache=True)
def _part(flip: int, side: int) -> int:
    """(g - f) / 2 of one side, out of the number that holds both."""
    j = 0 if abs(flip) < 2 else (1 if flip > 0 else -1)
    return j if side == 1 else flip - 3 * j


@njit(nogil=True, cache=True)
def _move(W: np.ndarray, x: np.ndarray, tau: float, chosen: np.ndarray, flips: np.ndarray) -> None:
    """w_k ← w_k + τ (x_i (g_i - f_i) + x_j (g_j - f_j)) for the chosen bits."""
    for k in chosen:
        w = W[k]
        for side in range(2):
            part = _part(flips[k], side)
            if part != 0:
                factor = W.dtype.type(2.0 * tau * part)
                row = x[side]
                for i in range(w.shape[0]):
                    w[i] += factor * row[i]


@njit(nogil=True, cache=True)
def _disagree(
    W: np.ndarray,
    x: np.ndarray,
    medians: np.ndarray,
    chosen: np.ndarray,
    g: np.ndarray,
    now: np.ndarray,
    flips: np.ndarray,
) -> int:
    """Project the chosen bits anew; flips = (g - f) / 2 with f their signs; how many bits have f different from g."""
    wrong = 0
    for c, k in enumerate(chosen):
        one_row(W, k, x, 0, 2, now)
        flips[k] = 0
        for side in range(2):
            f = 1 if now[side, k] - medians[k] >= 0 else -1
            flips[k] += (1 if side == 0 else 3) * int((g[side, c] - f) / 2)
        wrong += flips[k] != 0
    return wrong
