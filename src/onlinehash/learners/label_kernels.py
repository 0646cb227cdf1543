"""What the kernels of methods that learn from labelled points do alike: take a point, and move a hash function."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import dot_of_rows
from onlinehash.numeric.exponential import exp_of_nonpositive
from onlinehash.numeric.kernels import njit


class Trace(NamedTuple):
    """What happened, a row per point: arrays of `Updates`."""

    loss: np.ndarray
    step: np.ndarray
    flips: np.ndarray
    n_moved: np.ndarray


def trace_of(updates: Updates) -> Trace:
    return Trace(updates.loss, updates.step, updates.flips, updates.n_moved)


@njit(nogil=True, cache=True)
def load_unit_point(X: np.ndarray, t: int, x: np.ndarray) -> bool:
    """Row t of X, scaled to unit length, as the one row of x; False for a zero vector, which teaches nothing.

    A code does not depend on the length of a centred vector, so neither should what the vector teaches.
    """
    for i in range(X.shape[1]):
        x[0, i] = X[t, i]
    square = dot_of_rows(x, 0, 0)
    if square == 0.0:
        return False
    scale = 1.0 / math.sqrt(square)
    for i in range(X.shape[1]):
        x[0, i] *= scale
    return True


@njit(nogil=True, cache=True)
def move_row(W: np.ndarray, k: int, by: float, x: np.ndarray) -> bool:
    """W[k] += by * x[0]; did any value change? A step too small for the precision changes none."""
    factor = W.dtype.type(by)
    moved = 0
    for i in range(W.shape[1]):
        old = W[k, i]
        new = old + factor * x[0, i]
        moved |= new != old
        W[k, i] = new
    return moved != 0


@njit(nogil=True, cache=True)
def note_move(trace: Trace, t: int, k: int, step: float) -> None:
    """Point t moved column k (perhaps once more)."""
    if trace.flips[t, k] == 0:
        trace.flips[t, k] = 1
        trace.n_moved[t] += 1
    trace.step[t, 0] = step


@njit(nogil=True, cache=True)
def tanh_and_slope(a: float) -> tuple[float, float]:
    """tanh(a) and its derivative, without loss where it is nearly flat."""
    e = exp_of_nonpositive(-2.0 * abs(a))
    return math.copysign((1.0 - e) / (1.0 + e), a), 4.0 * e / ((1.0 + e) * (1.0 + e))
