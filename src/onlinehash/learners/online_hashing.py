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
from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.features.centring import centre_pair, is_finite, track_medians
from onlinehash.learners.base import Learner
from onlinehash.learners.hooks import Traits
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import add_row, aligned_zeros, dot_of_rows, pad_rows, row_dots, some_row_dots

#: Pairs projected together before they are learned one by one; what a step changes is projected again.
PAIRS_AHEAD = 4


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
    _looks_at_values = True

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
        if getattr(self.features, "anchors", None) is not None:
            n_inputs = len(self.features.anchors)
        self._check_init(n_inputs)
        if self.similar_radius >= self._dissimilar_distance:
            warnings.warn(
                f"similar_radius={self.similar_radius} is not below dissimilar_ratio * n_bits = "
                f"{self._dissimilar_distance:g}: some distances are right for similar and dissimilar pairs alike.",
                stacklevel=5,
            )

    @property
    def _dissimilar_distance(self) -> float:
        return dissimilar_distance(self.dissimilar_ratio, self.n_bits)

    # ------------------------------------------------------------------ W

    def _check_init(self, n_inputs: int | None) -> np.ndarray | None:
        """A given W¹ as `(n_models, n_inputs, n_bits)`; None where it is to be drawn."""
        if isinstance(self.init, str) and self.init in ("gaussian", "unit"):
            return None
        shape = (
            *((self._n_models,) if self.projection_ndim == 3 else ()),
            n_inputs or "n_inputs",
            self.n_bits,
        )
        try:
            W = np.asarray(self.init, dtype=np.float64)
            fits = len(W.shape) == len(shape) and all(
                want in (got, "n_inputs") for want, got in zip(shape, W.shape, strict=True)
            )
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise InvalidParameter(
                f"{type(self).__name__} expects init to be 'gaussian', 'unit' or an array of shape "
                f"{shape}, got {checks.shown(self.init)}."
            )
        W = W.reshape(self._n_models, -1, self.n_bits)
        if not np.isfinite(W).all() or not W.any(axis=1).all():
            raise InvalidParameter(
                f"{type(self).__name__} expects init to have finite values and no zero column, got "
                f"{np.count_nonzero(~W.any(axis=1))} zero columns; a bit without a direction has no margin."
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
        self._ahead = aligned_zeros((2 * PAIRS_AHEAD, n_inputs), self.dtype_)  # the kernel's room to work in
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
        return {
            "W": W,
            "medians": self._medians,
            "spreads": self._spreads,
            "median_count": self._median_count,
        }

    def _set_method_state(self, state: dict[str, Any]) -> None:
        self._W = pad_rows(state["W"])
        self._medians, self._spreads, self._median_count = (
            np.array(state[name]) for name in ("medians", "spreads", "median_count")
        )

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
        centring = self._centring
        stopped_at = _learn_pairs(
            self._W,
            self._ahead,
            A,
            B,
            similar,
            self.C * weights,
            self._n_models,
            self.similar_radius,
            self._dissimilar_distance,
            self.n_rounds,
            centring.total,
            centring.count,
            centring.limit,
            centring.mean,
            self.centre == "median",
            self._medians,
            self._spreads,
            self._median_count,
            updates.loss,
            updates.step,
            updates.capped,
            updates.flips,
            updates.n_moved,
            updates.moved,
            refined,
        )
        if stopped_at >= 0:
            raise InvalidInput(f"expected finite values, got others in pair {stopped_at}.")

    def _observe(self, X: np.ndarray) -> np.ndarray:
        if self.centre != "median":
            return super()._observe(X)
        projections = np.empty((len(X), len(self._W)), self.dtype_)
        row_dots(self._W, X, 0, len(X), projections)
        for n in range(len(X)):
            track_medians(projections, n, self._medians, self._spreads, self._median_count)
        return np.ones(len(X), np.bool_)

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


@njit(nogil=True, cache=True)
def _learn_pairs(
    W: np.ndarray,
    X: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    C: np.ndarray,
    n_models: int,
    alpha: int,
    b: float,
    n_rounds: int,
    total: np.ndarray,
    count: np.ndarray,
    limit: int,
    mean: np.ndarray,
    median: bool,
    medians: np.ndarray,
    spreads: np.ndarray,
    median_count: np.ndarray,
    loss: np.ndarray,
    step: np.ndarray,
    capped: np.ndarray,
    flips: np.ndarray,
    n_moved: np.ndarray,
    moved: np.ndarray,
    refined: np.ndarray,
) -> int:
    """Algorithm 1 over pairs (row t of A with row t of B), for one model or several.

    A few pairs are centred into X and projected at once, because W then passes through the cache once for all of
    them. A step changes few rows of W; those are projected again for the pairs that follow. As every dot product is
    its own, this is bit for bit the loop that projects each pair when its turn comes. Returns the pair at which a
    value that is not finite stopped it, or -1.
    """
    bound = np.sqrt(np.finfo(W.dtype).max / A.shape[1])
    r = W.shape[0] // n_models
    rounded = mean.astype(W.dtype)
    P = np.empty((2 * PAIRS_AHEAD, W.shape[0]), W.dtype)
    D, R = np.empty(n_models, np.int64), np.empty(n_models)
    deltas, chosen = np.empty(r), np.empty(r + 1, np.int64)
    base = np.empty((r, W.shape[1]), W.dtype)  # rows as they were, where a pair takes several rounds
    for start in range(0, similar.shape[0], PAIRS_AHEAD):
        stop = min(start + PAIRS_AHEAD, similar.shape[0])
        n_rows = 2 * (stop - start)
        for t in range(start, stop):
            if not (is_finite(A, t, bound) and is_finite(B, t, bound)):
                return t
            q = 2 * (t - start)
            moved[t] = centre_pair(A, B, t, total, count, limit, mean, rounded, X, q) or median
        row_dots(W, X, 0, n_rows, P)
        for t in range(start, stop):
            s, q = similar[t], 2 * (t - start)
            if median:
                track_medians(P, q, medians, spreads, median_count)
                track_medians(P, q + 1, medians, spreads, median_count)
                for k in range(W.shape[0]):
                    P[q, k] -= medians[k]
                    P[q + 1, k] -= medians[k]
            nearest = 0
            for m in range(n_models):
                D[m] = _distance(P, q, m * r, r)
                R[m] = similarity_loss(D[m], s, alpha, b)
                if R[m] < R[nearest]:
                    nearest = m
            for m in range(n_models):
                # A similar pair needs one model that agrees: only the nearest to it learns.
                if R[m] == 0 or (s > 0 and m != nearest):
                    continue
                loss[t] += R[m]
                n_flips = D[m] - alpha if s > 0 else math.ceil(b - 1e-9) - D[m]
                infer_flips(P, q, m * r, r, s, n_flips, deltas, chosen)
                flipped = chosen[:n_flips]
                step[t, m], capped[t, m] = _take_step(
                    W, X, q, P, medians, R[m], C[t], n_rounds, flipped, base, flips, t, refined
                )
                for k in flipped:
                    n_moved[t] += flips[t, k] != 0
                some_row_dots(W, flipped, X, q + 2, n_rows, P)
    return -1


def dissimilar_distance(ratio: float, n_bits: int) -> float:
    """b = βr, an integer where it is one but for rounding."""
    b = ratio * n_bits
    return float(round(b)) if abs(b - round(b)) < 1e-9 else b


@njit(nogil=True, cache=True)
def similarity_loss(distance: int, s: int, alpha: int, b: float) -> float:
    """R of a pair whose codes are `distance` apart."""
    return max(0.0, float(distance - alpha)) if s > 0 else max(0.0, b - distance)


@njit(nogil=True, cache=True)
def _distance(P: np.ndarray, q: int, first: int, r: int) -> int:
    """D of the pair whose projections are rows q and q + 1 of P, in one model's r columns."""
    distance = 0
    for k in range(first, first + r):
        distance += (P[q, k] >= 0) != (P[q + 1, k] >= 0)
    return distance


@njit(nogil=True, cache=True)
def infer_flips(
    P: np.ndarray, q: int, first: int, r: int, s: int, n_flips: int, deltas: np.ndarray, chosen: np.ndarray
) -> None:
    """Algorithms 2 and 3: the `n_flips` bits of least potential loss among those that are wrong.

    Wrong are the bits that differ in a similar pair, or agree in a dissimilar one; the potential loss of a bit is
    δ_k = min(|w_kᵀx_i|, |w_kᵀx_j|). Ties go to the lower bit.
    """
    n_wrong = 0
    for k in range(first, first + r):
        chosen[n_wrong] = k  # written over unless the bit is wrong: cheaper than a branch nobody can predict
        n_wrong += ((P[q, k] >= 0) != (P[q + 1, k] >= 0)) == (s > 0)
    if n_wrong == n_flips:  # all of them: nothing to choose (with α = 0, every similar pair)
        return
    n = 0
    for c in range(n_wrong):
        k = chosen[c]
        delta = min(abs(P[q, k]), abs(P[q + 1, k]))
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
    X: np.ndarray,
    q: int,
    P: np.ndarray,
    medians: np.ndarray,
    R: float,
    C: float,
    n_rounds: int,
    chosen: np.ndarray,
    base: np.ndarray,
    flips: np.ndarray,
    t: int,
    refined: np.ndarray,
) -> tuple[float, bool]:
    """W ← W + τ x (g - f)ᵀ for one model, f = h in the first round; returns τ and whether C cut it short.

    The pair's points are rows q and q + 1 of X, their projections those of P. Row t of `flips` is filled with
    (g - f) / 2, side i plus three times side j. Each chosen bit is flipped on the side where that costs least; on all
    other bits g, f and h are the same.
    """
    squares = dot_of_rows(X, q, q), dot_of_rows(X, q + 1, q + 1)  # |x_i|², |x_j|²
    loss, norm = math.sqrt(R), 0.0
    for k in chosen:
        side = 0 if abs(P[q, k]) <= abs(P[q + 1, k]) else 1
        flips[t, k] = (1 if side == 0 else 3) * (-1 if P[q + side, k] >= 0 else 1)
        loss += 2.0 * abs(P[q + side, k])
        norm += 4.0 * squares[side]
    if norm == 0.0 or C == 0.0:  # nothing to move, or no weight to move it: W stays, and the best f is h
        for k in chosen:
            flips[t, k] = 0
        if refined.shape[0] > 0:
            refined[t] += loss
        return 0.0, False
    tau, capped = min(C, loss / norm), loss / norm > C
    if n_rounds > 1 or refined.shape[0] > 0:
        return _take_rounds(W, X, q, P, medians, R, C, n_rounds, chosen, base, flips, t, refined, tau, capped)
    _move(W, X, q, tau, chosen, flips, t)
    return tau, capped


@njit(nogil=True, cache=True)
def _take_rounds(
    W: np.ndarray,
    X: np.ndarray,
    q: int,
    P: np.ndarray,
    medians: np.ndarray,
    R: float,
    C: float,
    n_rounds: int,
    chosen: np.ndarray,
    base: np.ndarray,
    flips: np.ndarray,
    t: int,
    refined: np.ndarray,
    tau: float,
    capped: bool,
) -> tuple[float, bool]:
    """The step and then the paper's alternation: g, √R and the starting W stay, f is what the new W predicts."""
    g = np.empty((2, chosen.shape[0]), np.int64)
    for c, k in enumerate(chosen):
        base[c] = W[k]
        for side in range(2):
            g[side, c] = (1 if P[q + side, k] >= 0 else -1) + 2 * _part(flips[t, k], side)
    _move(W, X, q, tau, chosen, flips, t)
    f = np.empty((2, chosen.shape[0]), np.int64)
    squares = dot_of_rows(X, q, q), dot_of_rows(X, q + 1, q + 1)
    between = dot_of_rows(X, q, q + 1)
    for _ in range(1, n_rounds):
        _predict(W, X, q, medians, chosen, f)
        if np.array_equal(f, g):
            break
        loss, norm = math.sqrt(R), 0.0
        for c, k in enumerate(chosen):
            i, j = (g[0, c] - f[0, c]) // 2, (g[1, c] - f[1, c]) // 2
            flips[t, k] = i + 3 * j
            loss -= 2.0 * (i * P[q, k] + j * P[q + 1, k])
            norm += 4.0 * (abs(i) * squares[0] + abs(j) * squares[1] + 2 * i * j * between)
            W[k] = base[c]
        tau, capped = 0.0, False
        if norm > 0.0:
            tau, capped = min(C, max(0.0, loss) / norm), loss / norm > C
        _move(W, X, q, tau, chosen, flips, t)
    if tau == 0.0:
        for k in chosen:
            flips[t, k] = 0
    if refined.shape[0] > 0:
        now = _predict(W, X, q, medians, chosen, f)
        refined[t] += math.sqrt(R) + (np.abs(now) - g * now).sum()
    return tau, capped


@njit(nogil=True, cache=True)
def _predict(
    W: np.ndarray, X: np.ndarray, q: int, medians: np.ndarray, chosen: np.ndarray, f: np.ndarray
) -> np.ndarray:
    """f = sgn(Wᵀx) on the chosen bits, both sides; returns the projections."""
    projections = np.empty((X.shape[0], W.shape[0]), W.dtype)
    some_row_dots(W, chosen, X, q, q + 2, projections)
    now = np.empty((2, chosen.shape[0]))
    for c, k in enumerate(chosen):
        for side in range(2):
            now[side, c] = projections[q + side, k] - medians[k]
            f[side, c] = 1 if now[side, c] >= 0 else -1
    return now


@njit(nogil=True, cache=True)
def _part(flip: int, side: int) -> int:
    """(g - f) / 2 of one side, out of the number that holds both."""
    j = 0 if abs(flip) < 2 else (1 if flip > 0 else -1)
    return j if side == 1 else flip - 3 * j


@njit(nogil=True, cache=True)
def _move(W: np.ndarray, X: np.ndarray, q: int, tau: float, chosen: np.ndarray, flips: np.ndarray, t: int) -> None:
    """w_k ← w_k + τ (x_i (g_i - f_i) + x_j (g_j - f_j)) for the chosen bits."""
    for k in chosen:
        for side in range(2):
            part = _part(flips[t, k], side)
            if part != 0:
                add_row(W, k, 2.0 * tau * part, X, q + side)
