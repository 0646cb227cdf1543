"""The chunk step of mini-batch online hashing: a pass of online hashing, then sweeps of dual coordinate ascent.

W does not move until the chunk is done. What the steps need of it are the projections P of the chunk's points, and a
step of pair n changes those by a multiple of the points' products with x_n: so each step costs as much as its flipped
bits times the points of the chunk, whatever the number of features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onlinehash.learners.online_hashing_kernels import (
    code_distance,
    flip_sides,
    flips_needed,
    infer_flips,
    part_of,
    similarity_loss,
)
from onlinehash.numeric.dots import add_row, dot_of_rows, row_dots
from onlinehash.numeric.kernels import njit

#: The dual is solved when the duality gap is at most this share of its value, and given up after so many sweeps.
TOLERANCE = 1e-3
MOST_SWEEPS = 50


class Constraints(NamedTuple):
    """⟨W, M⟩ ≥ √R - ξ of each pair, M = x (g - h)ᵀ; a pair that asks for nothing has |M|² = 0 here.

    flips `(n, r)`: (g - h) / 2, side i plus three times side j; chosen `(n, r + 1)`: its columns that are not zero,
    n_chosen `(n,)` of them; R, norms (|M|²), caps (C w) and tau `(n,)`.
    """

    flips: np.ndarray
    chosen: np.ndarray
    n_chosen: np.ndarray
    R: np.ndarray
    norms: np.ndarray
    caps: np.ndarray
    tau: np.ndarray


@njit(nogil=True, cache=True)
def learn_chunk(
    W: np.ndarray,
    X: np.ndarray,
    P: np.ndarray,
    K: np.ndarray,
    similar: np.ndarray,
    alpha: int,
    b: float,
    of: Constraints,
) -> tuple[float, float]:
    """Learn the pairs (rows 2n and 2n + 1 of X); returns the dual value and the duality gap.

    P `(r, padded 2n)` and K `(2n, padded 2n)` are room for the projections and the points' products, zeros at first.
    `of` comes with its caps and zeros.
    """
    n, r = similar.shape[0], W.shape[0]
    row_dots(X, W, 0, r, P)
    pair, deltas = np.empty((2, r), W.dtype), np.empty(r)
    dual = 0.0
    for t in range(n):
        for k in range(r):
            pair[0, k], pair[1, k] = P[k, 2 * t], P[k, 2 * t + 1]
        D = code_distance(pair, 0, 1, 0, r)
        of.R[t] = similarity_loss(D, similar[t], alpha, b)
        if of.R[t] == 0.0 or of.caps[t] == 0.0:
            continue
        n_flips = flips_needed(D, similar[t], alpha, b)
        infer_flips(pair, 0, 0, r, similar[t], n_flips, deltas, of.chosen[t])
        squares = dot_of_rows(X, 2 * t, 2 * t), dot_of_rows(X, 2 * t + 1, 2 * t + 1)
        _, of.norms[t] = flip_sides(pair, 0, squares, of.R[t], of.chosen[t, :n_flips], of.flips, t)
        if of.norms[t] == 0.0:  # the flipped side is the zero vector: it teaches nothing
            for k in of.chosen[t, :n_flips]:
                of.flips[t, k] = 0
            continue
        of.n_chosen[t] = n_flips
        row_dots(X, X, 2 * t, 2 * t + 2, K)  # only what its steps will need
        dual += _climb(P, K, of, t)
    gap = _gap(P, of)
    is_alone = np.count_nonzero(of.norms) <= 1  # then its step is the solution, and a gap is but rounding
    for _ in range(MOST_SWEEPS):
        if gap <= TOLERANCE * dual or is_alone:
            break
        for t in range(n):
            if of.norms[t] > 0.0:
                dual += _climb(P, K, of, t)
        gap = _gap(P, of)
    for t in range(n):
        _move(W, t, of.tau[t], of, X)
    return dual, gap


@njit(nogil=True, cache=True)
def _loss(P: np.ndarray, of: Constraints, t: int) -> float:
    """√R - ⟨W, M⟩: the prediction loss of pair t where the projections are P; the slope of the dual in τ."""
    loss = math.sqrt(of.R[t])
    for c in range(of.n_chosen[t]):
        k = of.chosen[t, c]
        for side in range(2):
            loss -= 2.0 * part_of(of.flips[t, k], side) * P[k, 2 * t + side]
    return loss


@njit(nogil=True, cache=True)
def _climb(P: np.ndarray, K: np.ndarray, of: Constraints, t: int) -> float:
    """The τ of pair t that is best for the dual while the others stay; returns by how much the dual grew."""
    loss = _loss(P, of, t)
    tau = min(of.caps[t], max(0.0, of.tau[t] + loss / of.norms[t]))
    change: float = tau - of.tau[t]
    if change == 0.0:
        return 0.0
    of.tau[t] = tau
    _move(P, t, change, of, K)
    grown: float = change * (loss - 0.5 * change * of.norms[t])
    return grown


@njit(nogil=True, cache=True)
def _gap(P: np.ndarray, of: Constraints) -> float:
    """Primal less dual: Σ C w max(0, ℓ) - τ ℓ, ℓ being the prediction losses now."""
    gap = 0.0
    for t in range(of.tau.shape[0]):
        if of.norms[t] > 0.0:
            loss = _loss(P, of, t)
            gap += of.caps[t] * max(0.0, loss) - of.tau[t] * loss
    return gap


@njit(nogil=True, cache=True)
def _move(rows: np.ndarray, t: int, tau: float, of: Constraints, points: np.ndarray) -> None:
    """Add τ M of pair t to W (`points` are the features), or what that adds to P (`points` are the products)."""
    if tau == 0.0:
        return
    for c in range(of.n_chosen[t]):
        k = of.chosen[t, c]
        for side in range(2):
            part = part_of(of.flips[t, k], side)
            if part != 0:
                add_row(rows, k, 2.0 * tau * part, points, 2 * t + side)
