"""Blended pair hashing as slowly and plainly as it reads: pairs one by one, P² as a whole matrix, float64.

W₀ is given; that of the package is ITQ's, which has a slow version of its own.
"""

from __future__ import annotations

import math

import numpy as np

from tests.reference.smooth_pairs import damped, mean_loss, rose, unit

SHARES = (0.0, 0.15, 0.3, 0.6, 1.0)


class ReferenceBlendedPairs:
    """Learns from `first` W₀ `(d, r)`, found in these points. `learn` takes a chunk at a time."""

    def __init__(self, first: np.ndarray, points: np.ndarray, chunk_size: int) -> None:
        X = np.array([unit(x) for x in points])
        self.W0 = first * 1.5 / np.sqrt(np.mean((X @ first) ** 2))
        self.W, self.chunk_size = self.W0.copy(), chunk_size
        self.C, self.n_rows = X.T @ X / len(X), len(X)
        self.M, self.v = np.zeros_like(first), np.zeros(first.shape[1])
        self.answers: list[tuple[bool, float, list[int]]] = []  # similar, weight, distance under each share
        self.n_pairs = self.next_look = self.n_since = self.n_chunks = 0
        self.t, self.p, self.p_weight, self.mean_weight = 0.0, 0.5, 2.0, 1.0
        self.losses: list[float] = []

    def learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray) -> None:
        """One chunk of points; fewer pairs than `chunk_size` count by their part."""
        A, B = np.array([unit(a) for a in A]), np.array([unit(b) for b in B])
        X, r, part = np.vstack([A, B]), self.W.shape[1], len(A) / self.chunk_size
        rate = max(1e-3, len(A) / min(self.n_pairs + len(A), 20_000))
        self.mean_weight = (1 - rate) * self.mean_weight + rate * np.mean(weights)
        weights = weights / self.mean_weight
        self.p_weight = min(self.p_weight + sum(weights), 20_000)
        self.p += sum(w * (s - self.p) for w, s in zip(weights, similar, strict=True)) / self.p_weight
        if self.n_pairs < 2000 or self.n_chunks % 16 == 0:
            self.n_rows = min(self.n_rows + len(X), 20_000)
            self.C = self.C + len(X) / self.n_rows * (X.T @ X / len(X) - self.C)
        self.n_pairs += len(A)
        if self.n_pairs >= self.next_look:
            self.P, self.P2 = damped(self.C, len(self.C))
            self.next_look = min(2 * self.n_pairs, self.n_pairs + 32_768)
        if self.n_pairs <= 2000 or self.n_chunks % 4 == 0:
            for a, b, s, w in zip(A, B, similar, weights, strict=True):
                self.answers.append((bool(s), w, [self.distance(a, b, share) for share in SHARES]))

        rare, G = math.sqrt((1 - self.p) / self.p), np.zeros_like(self.W)
        for a, b, s, w in zip(A, B, similar, weights, strict=True):
            fa, fb = np.tanh(a @ self.W), np.tanh(b @ self.W)
            c = fa @ fb / r
            g = -rare / (1 + math.exp(8 * (c - 0.5))) if s else 1 / (1 + math.exp(-8 * (c - 0.1)))
            g *= w / (len(A) * (self.p * rare + 1 - self.p))
            G += g * (np.outer(a, fb * (1 - fa**2)) + np.outer(b, fa * (1 - fb**2)))
        self.losses.append(mean_loss(self.W, A, B, similar, weights, self.p))
        self.n_since += len(A)
        self.n_chunks += 1
        if rose(self.losses):
            self.losses, self.n_since = [], 0

        self.t += part
        eta = part * max(0.3, 2.4 / math.sqrt(1 + self.n_since / 1250))
        self.M = 0.8**part * self.M + (1 - 0.8**part) * G
        for k in range(r):
            self.v[k] = 0.99**part * self.v[k] + (1 - 0.99**part) * np.linalg.norm(self.P @ G[:, k]) ** 2
            m, length = self.M[:, k] / (1 - 0.8**self.t), math.sqrt(self.v[k] / (1 - 0.99**self.t))
            self.W[:, k] = (self.W[:, k] - eta * self.P2 @ m / length) * (1 - 0.001 * eta)

    def distance(self, a: np.ndarray, b: np.ndarray, share: float) -> int:
        V = self.W0 + share * (self.W - self.W0)
        return int(np.count_nonzero((a @ V >= 0) != (b @ V >= 0)))

    def blend(self) -> float:
        """α: every similar pair is compared with every dissimilar one, older ones weighing less."""
        fading, kinds = {True: 1.0, False: 1.0}, {True: [], False: []}  # type: dict[bool, float], dict[bool, list]
        for similar, weight, distances in reversed(self.answers):
            kinds[similar].append((weight, fading[similar], distances))
            fading[similar] *= 0.5 ** (weight / 500)
        n_agree, n_differ = (sum(w * f for w, f, _ in kinds[kind]) for kind in (True, False))
        if not n_agree * n_differ:
            return float(np.mean(SHARES))
        auc = np.zeros(len(SHARES))
        for w, f, near in kinds[True]:
            for v, g, far in kinds[False]:
                for i in range(len(SHARES)):
                    auc[i] += w * f * v * g * ((near[i] < far[i]) + 0.5 * (near[i] == far[i]))
        auc /= n_agree * n_differ
        weights = np.exp(4 * n_agree * n_differ / (n_agree + n_differ) * (auc - auc.max()))
        return float(weights @ SHARES / weights.sum())
