"""The step of Online Hashing as kernels: Algorithms 1 to 3 of the paper, for one model or several.

Rows of W are the bits of all models, one after the other. In `flips` a column holds (g - f) / 2 of both sides of a
pair in one number: side i plus three times side j, each -1, 0 or +1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onlinehash.features.centring import centre_pair, is_finite, track_medians
from onlinehash.learners.lengths import pair_enters
from onlinehash.numeric.dots import add_row, dot_of_rows, row_dots, some_row_dots
from onlinehash.numeric.kernels import njit

#: Pairs projected together before they are learned one by one; what a step changes is projected again.
PAIRS_AHEAD = 4


class Rule(NamedTuple):
    """What the learner was told."""

    n_models: int
    alpha: int
    b: float
    n_rounds: int


class Mean(NamedTuple):
    """The running mean, see `Centring`."""

    total: np.ndarray
    seen: np.ndarray
    limit: int
    mean: np.ndarray


class Thresholds(NamedTuple):
    """Thresholds on centred features, one per row of W: zero unless they follow the medians."""

    follow: bool
    values: np.ndarray
    spreads: np.ndarray
    seen: np.ndarray


class Trace(NamedTuple):
    """What happened, a row per pair: the arrays of `Updates`, and the refined loss where it has a row too."""

    loss: np.ndarray
    step: np.ndarray
    capped: np.ndarray
    flips: np.ndarray
    n_moved: np.ndarray
    moved: np.ndarray
    refined: np.ndarray


@njit(nogil=True, cache=True)
def learn_pairs(
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
    seen: np.ndarray,
    limit: int,
    mean: np.ndarray,
    follow: bool,
    medians: np.ndarray,
    spreads: np.ndarray,
    tracked: np.ndarray,
    loss: np.ndarray,
    step: np.ndarray,
    capped: np.ndarray,
    flips: np.ndarray,
    n_moved: np.ndarray,
    moved: np.ndarray,
    refined: np.ndarray,
    lengths: np.ndarray,
) -> int:
    """Algorithm 1 over pairs (row t of A with row t of B); `lengths`, and what it returns, as of `_learn_pairs`.

    After C come the fields of `Rule`, `Mean`, `Thresholds` and `Trace`, one by one: to hand over the tuples takes as
    long as to learn a pair.
    """
    return _learn_pairs(
        W,
        X,
        A,
        B,
        similar,
        C,
        Rule(n_models, alpha, b, n_rounds),
        Mean(total, seen, limit, mean),
        Thresholds(follow, medians, spreads, tracked),
        Trace(loss, step, capped, flips, n_moved, moved, refined),
        lengths,
    )


@njit(nogil=True, cache=True)
def _learn_pairs(
    W: np.ndarray,
    X: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    C: np.ndarray,
    rule: Rule,
    centre: Mean,
    medians: Thresholds,
    trace: Trace,
    lengths: np.ndarray,
) -> int:
    """Algorithm 1.

    A few pairs are centred into X and projected at once, because W then passes through the cache once for all of
    them. A step changes few rows of W; those are projected again for the pairs that follow. As every dot product is
    its own, this is bit for bit the loop that projects each pair when its turn comes. `lengths` are those that pairs
    have to enter (`pair_enters`), or empty where they have. Returns the pair that stopped it, as it has a value that is
    not finite or could not enter, or -1.
    """
    n_models, alpha, b = rule.n_models, rule.alpha, rule.b
    r = W.shape[0] // n_models
    bound = np.sqrt(np.finfo(W.dtype).max / A.shape[1])
    rounded = centre.mean.astype(W.dtype)
    P = np.empty((2 * PAIRS_AHEAD, W.shape[0]), W.dtype)
    D, R = np.empty(n_models, np.int64), np.empty(n_models)
    deltas, chosen = np.empty(r), np.empty(r + 1, np.int64)
    n_kept = r if rule.n_rounds > 1 or trace.refined.shape[0] > 0 else 0
    base = np.empty((n_kept, W.shape[1]), W.dtype)  # rows as they were, where a pair takes several rounds
    for start in range(0, similar.shape[0], PAIRS_AHEAD):
        stop = min(start + PAIRS_AHEAD, similar.shape[0])
        stopped = False
        for t in range(start, stop):
            if lengths.shape[0] > 0:
                stopped = not pair_enters(A, B, t, lengths)
            else:
                stopped = not (is_finite(A, t, bound) and is_finite(B, t, bound))
            if stopped:
                stop = t
                break
            q = 2 * (t - start)
            moved = centre_pair(A, B, t, centre.total, centre.seen, centre.limit, centre.mean, rounded, X, q)
            trace.moved[t] = moved or medians.follow
        n_rows = 2 * (stop - start)
        row_dots(W, X, 0, n_rows, P)
        for t in range(start, stop):
            s, q = similar[t], 2 * (t - start)
            if medians.follow:
                for row in range(q, q + 2):
                    track_medians(P, row, medians.values, medians.spreads, medians.seen)
                for row in range(q, q + 2):
                    for k in range(W.shape[0]):
                        P[row, k] -= medians.values[k]
            nearest = 0
            for m in range(n_models):
                D[m] = code_distance(P, q, q + 1, m * r, r)
                R[m] = similarity_loss(D[m], s, alpha, b)
                if R[m] < R[nearest]:
                    nearest = m
            for m in range(n_models):
                # A similar pair needs one model that agrees: only the nearest to it learns.
                if R[m] == 0 or (s > 0 and m != nearest):
                    continue
                trace.loss[t] += R[m]
                n_flips = flips_needed(D[m], s, alpha, b)
                infer_flips(P, q, m * r, r, s, n_flips, deltas, chosen)
                flipped = chosen[:n_flips]
                trace.step[t, m], trace.capped[t, m] = _take_step(
                    W, X, q, P, medians.values, R[m], C[t], rule.n_rounds, flipped, base, trace.flips, t, trace.refined
                )
                for k in flipped:
                    trace.n_moved[t] += trace.flips[t, k] != 0
                some_row_dots(W, flipped, X, q + 2, n_rows, P)
        if stopped:
            return int(stop)
    return -1


@njit(nogil=True, cache=True)
def similarity_loss(distance: int, s: int, alpha: float, b: float) -> float:
    """R of a pair whose codes are `distance` apart."""
    return max(0.0, float(distance - alpha)) if s > 0 else max(0.0, b - distance)


@njit(nogil=True, cache=True)
def flips_needed(distance: int, s: int, alpha: int, b: float) -> int:
    """p0: how many bits of a pair with loss must flip."""
    return distance - alpha if s > 0 else math.ceil(b - 1e-9) - distance


@njit(nogil=True, cache=True)
def code_distance(P: np.ndarray, i: int, j: int, first: int, r: int) -> int:
    """D of the pair whose projections are rows i and j of P, in one model's r columns."""
    distance = 0
    for k in range(first, first + r):
        distance += (P[i, k] >= 0) != (P[j, k] >= 0)
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
def flip_sides(
    P: np.ndarray,
    q: int,
    squares: tuple[float, float],
    R: float,
    chosen: np.ndarray,
    flips: np.ndarray,
    t: int,
) -> tuple[float, float]:
    """Fill row t of `flips` with (g - h) / 2, side i plus three times side j; returns ℓ(W) and |x(g - h)ᵀ|².

    Each chosen bit is flipped on the side where that costs least; `squares` are |x_i|² and |x_j|².
    """
    loss, norm = math.sqrt(R), 0.0
    for k in chosen:
        side = 0 if abs(P[q, k]) <= abs(P[q + 1, k]) else 1
        flips[t, k] = (1 if side == 0 else 3) * (-1 if P[q + side, k] >= 0 else 1)
        loss += 2.0 * abs(P[q + side, k])
        norm += 4.0 * squares[side]
    return loss, norm


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
    (g - f) / 2; on all bits that are not chosen g, f and h are the same.
    """
    squares = dot_of_rows(X, q, q), dot_of_rows(X, q + 1, q + 1)
    loss, norm = flip_sides(P, q, squares, R, chosen, flips, t)
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
        _copy_row(W, k, base, c)
        for side in range(2):
            g[side, c] = (1 if P[q + side, k] >= 0 else -1) + 2 * part_of(flips[t, k], side)
    _move(W, X, q, tau, chosen, flips, t)
    f = np.empty((2, chosen.shape[0]), np.int64)
    squares = dot_of_rows(X, q, q), dot_of_rows(X, q + 1, q + 1)
    between = dot_of_rows(X, q, q + 1)
    for _ in range(1, n_rounds):
        _predict(W, X, q, medians, chosen, f)
        n_right = 0
        for c in range(chosen.shape[0]):
            n_right += f[0, c] == g[0, c] and f[1, c] == g[1, c]
        if n_right == chosen.shape[0]:
            break
        loss, norm = math.sqrt(R), 0.0
        for c, k in enumerate(chosen):
            i, j = (g[0, c] - f[0, c]) // 2, (g[1, c] - f[1, c]) // 2
            flips[t, k] = i + 3 * j
            loss -= 2.0 * (i * P[q, k] + j * P[q + 1, k])
            norm += 4.0 * (abs(i) * squares[0] + abs(j) * squares[1] + 2 * i * j * between)
            _copy_row(base, c, W, k)
        tau, capped = 0.0, False
        if norm > 0.0:
            tau, capped = min(C, max(0.0, loss) / norm), loss / norm > C
        _move(W, X, q, tau, chosen, flips, t)
    if tau == 0.0:
        for k in chosen:
            flips[t, k] = 0
    if refined.shape[0] > 0:
        now = _predict(W, X, q, medians, chosen, f)
        refined[t] += math.sqrt(R)
        for c in range(chosen.shape[0]):
            for side in range(2):
                refined[t] += abs(now[side, c]) - g[side, c] * now[side, c]
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
def _copy_row(source: np.ndarray, n: int, target: np.ndarray, m: int) -> None:
    for i in range(source.shape[1]):
        target[m, i] = source[n, i]


@njit(nogil=True, cache=True)
def part_of(flip: int, side: int) -> int:
    """(g - f) / 2 of one side, out of the number that holds both."""
    j = 0 if abs(flip) < 2 else (1 if flip > 0 else -1)
    return j if side == 1 else flip - 3 * j


@njit(nogil=True, cache=True)
def _move(W: np.ndarray, X: np.ndarray, q: int, tau: float, chosen: np.ndarray, flips: np.ndarray, t: int) -> None:
    """w_k ← w_k + τ (x_i (g_i - f_i) + x_j (g_j - f_j)) for the chosen bits."""
    for k in chosen:
        for side in range(2):
            part = part_of(flips[t, k], side)
            if part != 0:
                add_row(W, k, 2.0 * tau * part, X, q + side)
