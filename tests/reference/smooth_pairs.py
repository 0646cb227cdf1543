"""Smooth pair hashing as slowly and plainly as it reads: P and P² as whole matrices, pairs one by one, float64.

P takes all eigenvectors of C, so this is the package's learner where it keeps as many directions as there are features.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def unit(x: np.ndarray) -> np.ndarray:
    """x at unit length; a zero vector stays."""
    return x / np.linalg.norm(x) if x.any() else x


def damped(C: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """P and P² of second moments C, with its k leading directions shortened; E|Px|² = 1."""
    d = len(C)
    values, vectors = np.linalg.eigh(C)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    softness = 10 * np.trace(C) / d
    rest = values[k:].mean() if k < d else 0.0
    q = 1 / (np.append(values[:k], np.full(d - k, rest)) + softness)
    q /= sum(values[i] * q[i] for i in range(d))
    return vectors @ np.diag(np.sqrt(q)) @ vectors.T, vectors @ np.diag(q) @ vectors.T


def running_mean(values: list[float], rate: float) -> float:
    """The plain mean of the first 1 / rate values; of more, each new one has the weight `rate`."""
    mean = 0.0
    for n, value in enumerate(values, 1):
        weight = max(rate, 1 / n)
        mean = (1 - weight) * mean + weight * value
    return mean


def rose(losses: list[float]) -> bool:
    """Is the loss of late clearly above what it was?"""
    if len(losses) <= 50:
        return False
    squares = [0.0] + [(losses[n] - running_mean(losses[:n], 0.01)) ** 2 for n in range(1, len(losses))]
    clear = 5 * math.sqrt(0.05 * running_mean(squares, 0.01))
    return running_mean(losses, 0.1) - running_mean(losses, 0.01) > clear


def mean_loss(W: np.ndarray, A: Any, B: Any, similar: Any, weights: Any, p: float) -> float:
    """The mean loss of pairs in a stream with this share of similar ones, which weigh more where they are rare."""
    rare = math.sqrt((1 - p) / p)
    total = weight = 0.0
    for a, b, s, w in zip(A, B, similar, weights, strict=True):
        c = np.tanh(a @ W) @ np.tanh(b @ W) / W.shape[1]
        total += w * (rare * softplus(8 * (0.5 - c)) if s else softplus(8 * (c - 0.1))) / 8
        weight += w * (rare if s else 1.0)
    return total / weight


def softplus(z: float) -> float:
    return math.log1p(math.exp(z))


class ReferenceSmoothPairs:
    """`first` is `(d, r)`, drawn from a normal distribution. `learn` takes a chunk at a time."""

    def __init__(self, first: np.ndarray, chunk_size: int, stale_share: float = 0.05) -> None:
        d, r = first.shape
        self.W, self.shown = first.copy(), first.copy()
        self.chunk_size, self.stale_share = chunk_size, stale_share
        self.C, self.n_rows = np.zeros((d, d)), 0
        self.P = self.P2 = np.zeros((d, d))
        self.M, self.v, self.flip_rates = np.zeros((d, r)), np.zeros(r), np.zeros(r)
        self.t = self.n_pairs = self.next_look = self.n_since = self.n_restarts = 0
        self.losses: list[float] = []  # since the last restart
        self.p, self.p_weight = 0.5, 2.0
        self.mean_weight = 1.0

    def learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray) -> None:
        """One chunk of centred points; fewer pairs than `chunk_size` move W by their part."""
        if not any(weights):
            return
        A, B = np.array([unit(a) for a in A]), np.array([unit(b) for b in B])
        X, (d, r) = np.vstack([A, B]), self.W.shape

        rate = max(1e-3, len(A) / min(self.n_pairs + len(A), 20_000))
        self.mean_weight = (1 - rate) * self.mean_weight + rate * np.mean(weights)
        weights = weights / self.mean_weight
        self.p_weight = min(self.p_weight + sum(weights), 20_000)
        self.p += sum(w * (s - self.p) for w, s in zip(weights, similar, strict=True)) / self.p_weight
        if self.n_pairs < 2000 or self.t % 8 == 0:
            self.n_rows = min(self.n_rows + len(X), 20_000)
            self.C = self.C + len(X) / self.n_rows * (sum(np.outer(x, x) for x in X) / len(X) - self.C)
        self.n_pairs += len(A)
        if self.n_pairs >= self.next_look:
            self.P, self.P2 = damped(self.C, d)
            self.next_look = min(2 * self.n_pairs, self.n_pairs + 32_768)
        if self.t == 0:
            self.W = self.P @ self.W
            self.W *= 0.5 / np.sqrt(np.mean((X @ self.W) ** 2))
        self.t += 1
        flips = ((X @ self.W >= 0) != (X @ self.shown >= 0)).mean(axis=0)

        G = np.zeros((d, r))
        rare = math.sqrt((1 - self.p) / self.p)
        for a, b, s, w in zip(A, B, similar, weights, strict=True):
            fa, fb = np.tanh(a @ self.W), np.tanh(b @ self.W)
            c = fa @ fb / r
            g = -rare / (1 + math.exp(8 * (c - 0.5))) if s else 1 / (1 + math.exp(-8 * (c - 0.1)))
            g *= w / (len(A) * (self.p * rare + 1 - self.p))
            G += g * (np.outer(a, fb * (1 - fa**2)) + np.outer(b, fa * (1 - fb**2)))

        self.losses.append(mean_loss(self.W, A, B, similar, weights, self.p))
        self.n_since += len(A)
        if rose(self.losses):
            self.losses, self.n_since = [], 0
            self.n_restarts += 1
        eta = len(A) / self.chunk_size * max(0.3, 2.4 / math.sqrt(1 + self.n_since / 1250))
        self.M = 0.8 * self.M + 0.2 * G
        for k in range(r):
            self.v[k] = 0.99 * self.v[k] + 0.01 * np.linalg.norm(self.P @ G[:, k]) ** 2
            m, length = self.M[:, k] / (1 - 0.8**self.t), math.sqrt(self.v[k] / (1 - 0.99**self.t))
            self.W[:, k] = (self.W[:, k] - eta * self.P2 @ m / length) * (1 - 0.001 * eta)

        for k in range(r):
            self.flip_rates[k] = 0.9 * self.flip_rates[k] + 0.1 * flips[k]
            if self.t == 1 or self.flip_rates[k] > self.stale_share:
                self.publish(k)

    def publish(self, k: int) -> None:
        """From now on codes show bit k as it is learned."""
        self.shown[:, k] = self.W[:, k]
        self.flip_rates[k] = 0.0
