"""What the kernels of several methods that learn from pairs do alike."""

from __future__ import annotations

import math

import numpy as np

from onlinehash.learners.online_hashing_kernels import code_distance, similarity_loss
from onlinehash.numeric.dots import POINTS, dot_of_rows, row_dots
from onlinehash.numeric.kernels import njit


@njit(nogil=True, cache=True)
def load_unit_pair(A: np.ndarray, B: np.ndarray, t: int, X: np.ndarray) -> None:
    """Rows t of A and B, scaled to unit length, as the two (padded) rows of X; a zero vector stays one.

    A code does not depend on the length of a centred vector, so neither should the size of a step.
    """
    for i in range(A.shape[1]):
        X[0, i] = A[t, i]
        X[1, i] = B[t, i]
    for side in range(2):
        square = dot_of_rows(X, side, side)
        scale = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
        for i in range(A.shape[1]):
            X[side, i] *= scale


@njit(nogil=True, cache=True)
def scale_to_unit_length(W: np.ndarray, k: int) -> None:
    """Row k at unit length; a zero row stays one.

    Where all points are zero, learning only ever shrinks a value, until it is too small for a normal number, with
    which a CPU is a hundred times slower: it is made zero before.
    """
    square = dot_of_rows(W, k, k)
    scale = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    for i in range(W.shape[1]):
        value = W[k, i] * scale
        W[k, i] = value if abs(value) > 1e-25 else 0.0


#: Pairs that `similarity_losses` projects together.
_PAIRS = POINTS


@njit(nogil=True, cache=True)
def similarity_losses(
    W: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    limits: tuple[float, float],
    losses: np.ndarray,
) -> None:
    """R of each pair (row t of A with row t of B, not padded) under W; limits: α and b of the loss."""
    alpha, b = limits
    most = min(_PAIRS, similar.shape[0])
    X = np.zeros((most, W.shape[1]), W.dtype)  # rows of one side, padded
    P = np.empty((2 * most, W.shape[0]), W.dtype)
    for start in range(0, similar.shape[0], _PAIRS):
        n = min(_PAIRS, similar.shape[0] - start)
        for side, rows in enumerate((A, B)):
            for t in range(n):
                for i in range(A.shape[1]):
                    X[t, i] = rows[start + t, i]
            row_dots(W, X, 0, n, P[side * most :])
        for t in range(n):
            distance = code_distance(P, t, most + t, 0, W.shape[0])
            losses[start + t] = similarity_loss(distance, similar[start + t], alpha, b)


@njit(nogil=True, cache=True)
def loss_of_pair(
    A: np.ndarray, B: np.ndarray, s: np.ndarray, mean: np.ndarray, W: np.ndarray, limits: tuple[float, float]
) -> float:
    """R of one pair, whose points are not centred yet, as `similarity_losses` has it."""
    X = np.zeros((2, W.shape[1]), W.dtype)
    for i in range(mean.shape[0]):
        rounded = W.dtype.type(mean[i])
        X[0, i], X[1, i] = A[0, i] - rounded, B[0, i] - rounded
    return _loss_of_rows(W, X, s[0], limits)


@njit(nogil=True, cache=True)
def put_aside(
    A: np.ndarray,
    B: np.ndarray,
    s: np.ndarray,
    w: np.ndarray,
    mean: np.ndarray,
    W: np.ndarray,
    limits: tuple[float, float],
    at: int,
    first: np.ndarray,
    second: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
) -> float:
    """One pair becomes row `at` of a chunk (`first`, `second`, `similar`, `weights`), centred; its R."""
    X = np.zeros((2, W.shape[1]), W.dtype)
    for i in range(mean.shape[0]):
        rounded = W.dtype.type(mean[i])
        X[0, i] = first[at, i] = A[0, i] - rounded
        X[1, i] = second[at, i] = B[0, i] - rounded
    similar[at], weights[at] = s[0], w[0]
    return _loss_of_rows(W, X, s[0], limits)


@njit(nogil=True, cache=True)
def _loss_of_rows(W: np.ndarray, X: np.ndarray, s: int, limits: tuple[float, float]) -> float:
    P = np.empty((2, W.shape[0]), W.dtype)
    row_dots(W, X, 0, 2, P)
    return similarity_loss(code_distance(P, 0, 1, 0, W.shape[0]), s, limits[0], limits[1])
