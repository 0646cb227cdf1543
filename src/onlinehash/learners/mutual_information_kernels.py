"""The kernels of mutual-information hashing: the objective with its slope, the neighbours, the sample, the step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onlinehash.learners.label_kernels import Trace, load_unit_point, move_row, note_move, tanh_and_slope
from onlinehash.numeric.dots import row_dots
from onlinehash.numeric.kernels import njit


class Rule(NamedTuple):
    """What the learner was told."""

    n_bins: int
    sharpness: float
    step: float
    decay: float


class Sample(NamedTuple):
    """A uniform sample of the points so far: their keys (2 where there is room), unit rows, and class numbers."""

    keys: np.ndarray
    points: np.ndarray
    members: np.ndarray


@njit(nogil=True, cache=True)
def information(
    u: np.ndarray, P: np.ndarray, near: np.ndarray, n_bins: int, sharpness: float, slope: np.ndarray
) -> tuple[float, float]:
    """I and H: what distances tell about being a neighbour, and all there is to tell, in bits; dI/du into `slope`.

    u are the projections of a point, P those of its company, of which `near` are its neighbours. With q = log2 of a
    histogram of neighbours (or of the others) over that of all, dI/dd = (q[l + 1] - q[l]) / (n Δ) for one of n at
    distance d between the bins l and l + 1: the other terms of the derivative cancel, as each histogram sums to one.
    """
    n, r = P.shape
    phi, phi_slope = np.empty(r), np.empty(r)
    for k in range(r):
        phi[k], phi_slope[k] = tanh_and_slope(0.5 * sharpness * u[k])
    width = r / n_bins
    others, at = np.empty((n, r)), np.empty(n)
    histograms = np.zeros((2, n_bins + 1))  # sums over the others, and over the neighbours
    counts = np.zeros(2)
    for m in range(n):
        product = 0.0
        for k in range(r):
            others[m, k] = tanh_and_slope(0.5 * sharpness * P[m, k])[0]
            product += phi[k] * others[m, k]
        at[m] = min(max(0.5 * (r - product) / width, 0.0), float(n_bins))
        low = min(int(at[m]), n_bins - 1)
        side = np.int64(near[m])
        histograms[side, low] += low + 1 - at[m]
        histograms[side, low + 1] += at[m] - low
        counts[side] += 1.0
    I = H = 0.0
    q = np.zeros((2, n_bins + 1))
    for part in range(2):
        if counts[part] > 0.0:
            H -= counts[part] / n * math.log2(counts[part] / n)
        for l in range(n_bins + 1):
            if histograms[part, l] > 0.0:
                both = histograms[0, l] + histograms[1, l]
                q[part, l] = math.log2(histograms[part, l] / both * (n / counts[part]))
                I += histograms[part, l] / n * q[part, l]
    slope[:] = 0.0
    for m in range(n):
        low = min(int(at[m]), n_bins - 1)
        of = q[np.int64(near[m])]
        by_distance = (of[low + 1] - of[low]) / (n * width)
        for k in range(r):
            slope[k] -= 0.5 * by_distance * others[m, k]
    for k in range(r):
        slope[k] *= 0.5 * sharpness * phi_slope[k]
    return I, H


@njit(nogil=True, cache=True)
def share_a_label(a: np.ndarray, b: np.ndarray) -> bool:
    for label in a:
        for other in b:
            if label == other and label >= 0:
                return True
    return False


@njit(nogil=True, cache=True)
def enter(sample: Sample, key: float, x: np.ndarray, members: np.ndarray) -> None:
    """The points of the smallest keys stay."""
    last = np.argmax(sample.keys)
    if key < sample.keys[last]:
        sample.keys[last] = key
        for i in range(x.shape[1]):
            sample.points[last, i] = x[0, i]
        sample.members[last] = -1
        for j in range(members.shape[0]):
            if members[j] >= 0:
                sample.members[last, j] = members[j]


@njit(nogil=True, cache=True)
def learn(
    W: np.ndarray,
    sample: Sample,
    n_taught: int,
    X: np.ndarray,
    members: np.ndarray,
    keys: np.ndarray,
    rule: Rule,
    trace: Trace,
) -> int:
    """A step uphill for each point, which then may enter the sample; returns how many have taught so far."""
    r, size = W.shape[0], sample.keys.shape[0]
    x, u, P = np.zeros((1, W.shape[1]), W.dtype), np.empty((1, r), W.dtype), np.empty((size, r), W.dtype)
    near, slope = np.empty(size, np.bool_), np.empty(r)
    for t in range(X.shape[0]):
        if members[t, 0] < 0 or not load_unit_point(X, t, x):
            continue
        n = min(n_taught, size)
        if n:
            row_dots(W, x, 0, 1, u)
            row_dots(W, sample.points, 0, n, P)
            for m in range(n):
                near[m] = share_a_label(members[t], sample.members[m])
            I, H = information(u[0], P[:n], near[:n], rule.n_bins, rule.sharpness, slope)
            trace.loss[t] = max(0.0, H - I)
            eta = rule.step / (1.0 + rule.decay * n_taught)
            for k in range(r):
                if slope[k] != 0.0 and move_row(W, k, eta * slope[k], x):
                    note_move(trace, t, k, eta)
        enter(sample, keys[t], x, members[t])
        n_taught += 1
    return n_taught
