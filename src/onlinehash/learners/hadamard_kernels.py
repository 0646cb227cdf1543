"""The kernels of Hadamard hashing: what a point aims at, and the steps of both methods."""

from __future__ import annotations

import numpy as np

from onlinehash.learners.label_kernels import Trace, load_unit_point, move_row, note_move, tanh_and_slope
from onlinehash.numeric.dots import row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.order import order_of


@njit(nogil=True, cache=True)
def find_target(members: np.ndarray, codewords: np.ndarray, salt: int, target: np.ndarray) -> bool:
    """The signs of the sum of a point's codewords, into `target`; False where it has no label.

    Zeros of the sum go to +1 or -1 such that the two are as equal in number as they can be; which goes where (and an
    odd one out) is drawn from the salt and the set of labels, so that the same set always has the same target.
    """
    if members[0] < 0:
        return False
    target[:] = 0.0
    mixed = np.uint64(salt)
    for label in members:
        if label >= 0:
            mixed += _mix(np.uint64(label) + np.uint64(1))
            for k in range(target.shape[0]):
                target[k] += codewords[label, k]
    excess, n_zeros = 0.0, 0.0  # of -1 over +1
    for k in range(target.shape[0]):
        target[k] = np.sign(target[k])
        excess -= target[k]
        n_zeros += target[k] == 0.0
    if n_zeros > 0.0:
        keys = np.empty(target.shape[0], np.uint64)
        for k in range(target.shape[0]):
            keys[k] = _mix(mixed + np.uint64(k))
        odd = np.float64(_mix(~mixed) & np.uint64(1))
        n_positive = min(max((excess + n_zeros + odd) // 2.0, 0.0), n_zeros)
        for k in order_of(keys):
            if target[k] == 0.0:
                target[k] = 1.0 if n_positive > 0.0 else -1.0
                n_positive -= 1.0
    return True


@njit(nogil=True, cache=True)
def _mix(z: np.uint64) -> np.uint64:
    """A number that looks random, from one that does not (the finaliser of SplitMix64)."""
    z = z * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def descend(
    W: np.ndarray, X: np.ndarray, members: np.ndarray, codewords: np.ndarray, salt: int, eta: float, trace: Trace
) -> None:
    """HCOH: a gradient step on |tanh(Wᵀx) - c|² / 2 for each point."""
    x, u, c = np.zeros((1, W.shape[1]), W.dtype), np.empty((1, W.shape[0]), W.dtype), np.empty(W.shape[0])
    for t in range(X.shape[0]):
        if not find_target(members[t], codewords, salt, c) or not load_unit_point(X, t, x):
            continue
        row_dots(W, x, 0, 1, u)
        for k in range(W.shape[0]):
            F, slope = tanh_and_slope(u[0, k])
            trace.loss[t] += 0.5 * (F - c[k]) ** 2
            if move_row(W, k, -eta * (F - c[k]) * slope, x):
                note_move(trace, t, k, eta)


@njit(nogil=True, cache=True)
def match(
    W: np.ndarray,
    late: np.ndarray,
    n_taught: int,
    X: np.ndarray,
    members: np.ndarray,
    codewords: np.ndarray,
    salt: int,
    trace: Trace,
) -> int:
    """HMOH: a perceptron step for each point; returns how many points have taught so far.

    The sum of W over time is n W - late, so that only mistakes cost time: the point after n others adds to W for all
    times but those n. The sum changes in every column where W is not zero.
    """
    x, u, c = np.zeros((1, W.shape[1]), W.dtype), np.empty((1, W.shape[0]), W.dtype), np.empty(W.shape[0])
    adds = np.empty(W.shape[0], np.bool_)
    for k in range(W.shape[0]):
        adds[k] = W[k].any()
    for t in range(X.shape[0]):
        if not find_target(members[t], codewords, salt, c) or not load_unit_point(X, t, x):
            continue
        row_dots(W, x, 0, 1, u)
        for k in range(W.shape[0]):
            if c[k] * u[0, k] <= 0.0:
                trace.loss[t] += 1.0
                move_row(W, k, c[k], x)
                adds[k] = W[k].any()
                factor = n_taught * c[k]
                for i in range(W.shape[1]):
                    late[k, i] += factor * x[0, i]
            if adds[k]:
                note_move(trace, t, k, 1.0)
        n_taught += 1
    return n_taught
