"""Algorithms 1 to 3 of the paper and its multi-model section, as slowly and plainly as they read.

Written from the text, not from the package: no kernels, no reuse of projections, whole matrices x (g - f)ᵀ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Record:
    """What one pair did. Arrays have a row per model; sides are i = 0 and j = 1."""

    R: np.ndarray  # (T,) similarity loss of every model, whether it learns the pair or not
    learns: np.ndarray  # (T,) which models learn the pair
    tau: np.ndarray  # (T,)
    capped: np.ndarray  # (T,) did C cut the step short
    h: np.ndarray  # (T, 2, r) predicted codes
    g: np.ndarray  # (T, 2, r) zero-loss codes; h where a model does not learn
    flips: np.ndarray  # (T, r) (g - f) / 2 of side i plus three times that of side j, in the last round
    loss: float  # R summed over the models that learn
    refined: float  # max_f H(W', f) - G(W') + √R summed over those models, W' the matrix after the pair


class ReferenceOnlineHashing:
    """`W1` is `(T, d, r)`; one model is online hashing, several are multi-model online hashing."""

    def __init__(
        self,
        W1: np.ndarray,
        similar_radius: int = 0,
        dissimilar_ratio: float = 0.4,
        C: float = 0.1,
        n_rounds: int = 1,
    ) -> None:
        self.W = np.array(W1, dtype=np.float64)
        self.alpha = similar_radius
        self.C = C
        self.n_rounds = n_rounds
        b = dissimilar_ratio * self.W.shape[2]
        self.b = float(round(b)) if abs(b - round(b)) < 1e-9 else b

    def step(self, x_i: np.ndarray, x_j: np.ndarray, s: int, weight: float = 1.0) -> Record:
        n_models, _, r = self.W.shape
        x = np.array([x_i, x_j], dtype=np.float64)
        h = np.array([[sgn(project(W, side)) for side in x] for W in self.W])
        R = np.array([self.similarity_loss(hamming(h_i, h_j), s) for h_i, h_j in h])
        learns = R > 0
        if s == 1:  # enough that one model agrees: only the one that is nearest to it learns
            nearest = int(np.argmin(R))
            learns = np.array([m == nearest and R[m] > 0 for m in range(n_models)])
        record = Record(
            R=R,
            learns=learns,
            tau=np.zeros(n_models),
            capped=np.zeros(n_models, bool),
            h=h,
            g=h.copy(),
            flips=np.zeros((n_models, r), int),
            loss=float(sum(R[learns])),
            refined=0.0,
        )
        for m in np.flatnonzero(learns):
            record.g[m] = self.zero_loss_codes(self.W[m], x, h[m], s)
            self._learn(m, x, R[m], self.C * weight, record)
        return record

    def similarity_loss(self, distance: int, s: int) -> float:
        return max(0.0, distance - self.alpha) if s == 1 else max(0.0, self.b - distance)

    def zero_loss_codes(self, W: np.ndarray, x: np.ndarray, h: np.ndarray, s: int) -> np.ndarray:
        """Algorithm 2 (dissimilar) and Algorithm 3 (similar)."""
        distance = hamming(h[0], h[1])
        margins = h * np.array([project(W, side) for side in x])
        if s == 1:
            wrong = [k for k in range(W.shape[1]) if h[0, k] != h[1, k]]
            p0 = distance - self.alpha
        else:
            wrong = [k for k in range(W.shape[1]) if h[0, k] == h[1, k]]
            p0 = math.ceil(self.b - 1e-9) - distance
        g = h.copy()
        for k in sorted(wrong, key=lambda k: (min(margins[0, k], margins[1, k]), k))[:p0]:
            side = 0 if margins[0, k] <= margins[1, k] else 1
            g[side, k] = -h[side, k]
        return g

    def _learn(self, m: int, x: np.ndarray, R: float, C: float, record: Record) -> None:
        """Algorithm 1's update, and the alternation where n_rounds asks for more than one round."""
        start, g = self.W[m].copy(), record.g[m]
        f = record.h[m]
        if square(change(x, g - f)) > 0:  # else the flipped side is the zero vector: skipped
            for _ in range(self.n_rounds):
                f = np.array([sgn(project(self.W[m], side)) for side in x])
                if np.array_equal(f, g):
                    break
                M = change(x, g - f)
                loss = prediction_loss(start, x, f, g, R)
                full = max(0.0, loss) / square(M) if square(M) > 0 else 0.0
                record.tau[m], record.capped[m] = min(C, full), full > C > 0
                self.W[m] = start + record.tau[m] * M
                half = (g - f) // 2
                record.flips[m] = half[0] + 3 * half[1] if record.tau[m] > 0 else 0
        best = np.array([sgn(project(self.W[m], side)) for side in x])
        record.refined += prediction_loss(self.W[m], x, best, g, R)


def project(W: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Wᵀx, every bit's sum in the same order, so that equal columns have equal projections."""
    return (W * x[:, None]).sum(axis=0)


def sgn(values: np.ndarray) -> np.ndarray:
    """sgn(0) = +1."""
    return np.where(values >= 0, 1, -1)


def hamming(a: np.ndarray, b: np.ndarray) -> int:
    return int((a != b).sum())


def change(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """x (g - f)ᵀ, a d x r matrix."""
    return np.outer(x[0], codes[0]) + np.outer(x[1], codes[1])


def square(M: np.ndarray) -> float:
    """|M|²"""
    return float((M**2).sum())


def prediction_loss(W: np.ndarray, x: np.ndarray, f: np.ndarray, g: np.ndarray, R: float) -> float:
    """H(W) - G(W) + √R."""
    H = sum(float(f[side] @ project(W, x[side])) for side in range(2))
    G = sum(float(g[side] @ project(W, x[side])) for side in range(2))
    return H - G + math.sqrt(R)
