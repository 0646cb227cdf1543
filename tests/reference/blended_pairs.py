"""Blended pair hashing as slowly and plainly as it reads: pairs one by one, P² as a whole matrix, float64.

W₀ is given; that of the package is ITQ's, which has a slow version of its own. Of groups and walks it knows nothing.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

SHARES = (0.0, 0.1, 0.3, 1.0)


class ReferenceBlendedPairs:
    """Learns from `first` W₀ `(d, r)`, found in these points. `learn` takes a chunk at a time."""

    def __init__(self, first: np.ndarray, points: np.ndarray, chunk_size: int) -> None:
        X = np.array([unit(x) for x in points])
        self.W0 = first / np.sqrt(np.mean((X @ first) ** 2))
        self.W, self.chunk_size = self.W0.copy(), chunk_size
        self.C, self.n_rows = X.T @ X / len(X), len(X)
        self.M, self.v = np.zeros_like(first), np.zeros(first.shape[1])
        self.answers: list[list] = []  # kind (False, True, None: other pairs), weight, distance under each share
        self.before = np.empty((0, len(first)))  # points of the chunk before
        self.n_pairs = self.next_look = self.n_since = self.n_chunks = 0
        self.t, self.p, self.p_weight, self.mean_weight = 0.0, 0.5, 2.0, 1.0
        self.n_apart = self.caution = 0.0
        self.losses: list[float] = []

    def learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray) -> None:
        """One chunk of points; fewer pairs than `chunk_size` count by their part."""
        A, B = np.array([unit(a) for a in A]), np.array([unit(b) for b in B])
        X = np.vstack([A, B])
        times = [max(self.pairs_with(a, A, B), self.pairs_with(b, A, B)) for a, b in zip(A, B, strict=True)]
        part = min(sum(1 / math.sqrt(time) for time in times), len(A)) / self.chunk_size
        self.n_apart += sum(1 / time for time in times)
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
            self.caution = max(2 * self.n_apart / self.n_pairs - 1, 0)
            self.ask(A, B, similar, weights, times)
        self.before = X

        learned = list(zip(A, B, similar, weights, strict=True))
        for start in range(0, len(A), 32):
            rows = slice(start, start + 32)
            learned += self.inferred(A[rows], B[rows], similar[rows], weights[rows], self.p)
        G = self.gradient(learned, len(A), self.p)
        self.losses.append(mean_loss(self.W, A, B, similar, weights, self.p))
        self.n_since += len(A)
        self.n_chunks += 1
        if rose(self.losses):
            self.losses, self.n_since = [], 0
        self.step(G, part)

    def gradient(self, learned: list[tuple], n: int, p: float) -> np.ndarray:
        """Of pairs (a, b, similar, weight), of which n were given and a share p is similar."""
        rare, G = math.sqrt((1 - p) / p), np.zeros_like(self.W)
        for a, b, s, w in learned:
            fa, fb = np.tanh(a @ self.W), np.tanh(b @ self.W)
            c = fa @ fb / self.W.shape[1]
            g = -rare / (1 + math.exp(8 * (c - 0.5))) if s else 1 / (1 + math.exp(-8 * (c - 0.1)))
            g *= w / (n * (p * rare + 1 - p))
            G += g * (np.outer(a, fb * (1 - fa**2)) + np.outer(b, fa * (1 - fb**2)))
        return G

    def step(self, G: np.ndarray, part: float) -> None:
        self.t += part
        eta = part * max(0.3, 2.4 / math.sqrt(1 + self.n_since / 1250))
        self.M = 0.8**part * self.M + (1 - 0.8**part) * G
        for k in range(self.W.shape[1]):
            self.v[k] = 0.99**part * self.v[k] + (1 - 0.99**part) * np.linalg.norm(self.P @ G[:, k]) ** 2
            m, length = self.M[:, k] / (1 - 0.8**self.t), math.sqrt(self.v[k] / (1 - 0.99**self.t))
            self.W[:, k] = (self.W[:, k] - eta * self.P2 @ m / length) * (1 - 0.001 * eta)

    @staticmethod
    def inferred(A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, p: float) -> list[tuple]:
        """Pairs of points that nobody paired, but that follow: (a, b, similar, weight)."""
        pairs = [(a.tobytes(), b.tobytes(), bool(s), w) for a, b, s, w in zip(A, B, similar, weights, strict=True) if w]
        points = {x.tobytes(): x for x in [*A, *B]}
        group = {x: {x} for x in points}
        for a, b, s, _ in pairs:
            if s:
                for x in group[a] | group[b]:
                    group[x] = group[a] | group[b]
        apart = {
            (frozenset(group[x]), frozenset(group[y])) for a, b, s, _ in pairs if not s for x, y in [(a, b), (b, a)]
        }
        known = {(x, y) for a, b, _, _ in pairs for x, y in [(a, b), (b, a)]}
        least = {x: min((w for a, b, _, w in pairs if x in (a, b)), default=0) for x in points}
        found = []
        for x, y in combinations(points, 2):
            g, h = frozenset(group[x]), frozenset(group[y])
            if (x, y) in known or (g, g) in apart or (h, h) in apart:
                continue
            if g == h or (g, h) in apart:
                found.append((points[x], points[y], g == h, min(least[x], least[y])))
        share = min(1, len(A) / max(len(found), 1))
        agree, differ = (sum(w for *_, s, w in found if s is kind) for kind in (True, False))
        less = min(1, agree * (1 - p) / p / differ) if differ else 1  # similar ones are at least the share p
        return [(a, b, s, share * w * (1 if s else less)) for a, b, s, w in found]

    @staticmethod
    def pairs_with(x: np.ndarray, A: np.ndarray, B: np.ndarray) -> int:
        """How many pairs have this point, on either side."""
        return sum(bool((a == x).all() or (b == x).all()) for a, b in zip(A, B, strict=True))

    def distance(self, a: np.ndarray, b: np.ndarray, share: float) -> int:
        V = self.W0 + share * (self.W - self.W0)
        return int(np.count_nonzero((a @ V >= 0) != (b @ V >= 0)))

    def ask(
        self,
        A: np.ndarray,
        B: np.ndarray,
        similar: np.ndarray,
        weights: np.ndarray,
        times: list[int],
    ) -> None:
        """Pairs with a point of the chunk before are no question; those that share a point count as one."""
        old = [any((a == x).all() or (b == x).all() for x in self.before) for a, b in zip(A, B, strict=True)]
        asked = [0 if is_old else w / time for is_old, w, time in zip(old, weights, times, strict=True)]
        sooner = (1 - len(A) / self.n_pairs) ** 2
        for answer in self.answers:
            kind = answer[0] is not False  # others fade as similar pairs do
            answer[1] *= min(0.5 ** (sum(w for w, s in zip(asked, similar, strict=True) if s == kind) / 100), sooner)
        n, n_others = len(A), min(len(A) // 2, 16)
        for t in range(n):
            self.answers.append([bool(similar[t]), asked[t], self.distances(A[t], B[t])])
            for k in range(n_others):
                other = B[(t + n // 2 - n_others // 2 + k) % n]
                self.answers.append([None, 1 / n_others, self.distances(A[t], other)])

    def distances(self, a: np.ndarray, b: np.ndarray) -> list[int]:
        return [self.distance(a, b, share) for share in SHARES]

    def evidence(self, answers: list[list]) -> np.ndarray:
        """Of each share: for each similar pair, what part of the similar ones is nearer, and what part of all others,
        the logarithms of these."""
        evidence = np.zeros(len(SHARES))
        for i in range(len(SHARES)):
            kinds = {kind: [(w, d[i]) for of, w, d in answers if of is kind] for kind in (True, False, None)}
            for weight, distance in kinds[True]:
                true, differ, others = (nearer(kinds[kind], distance) for kind in (True, False, None))
                false = others if differ is None else differ if others is None else 0.2 * differ + 0.8 * others
                if false is not None:
                    evidence[i] += weight * math.log((true + 0.01) / (false + 0.01))
        return evidence

    def blend(self) -> float:
        """α."""
        evidence = self.evidence(self.answers)
        n_similar = sum(w for of, w, _ in self.answers if of)
        caution = 2 * max(evidence[0] / (n_similar + 2) - 1.5, 0) * self.caution
        weights = softmax(0.4 * evidence + caution * np.array([1, 0.5, 0, 0]))
        if caution > 0:
            best = (evidence * 0.4 + caution * np.array([1, 0.5, 0, 0])).argmax()
            weights[np.abs(np.arange(len(SHARES)) - best) > 1] = 0
        return float(weights @ SHARES / weights.sum())


def softmax(exponents: np.ndarray) -> np.ndarray:
    weights = np.exp(exponents - exponents.max())
    return weights / weights.sum()


def nearer(pairs: list[tuple[float, int]], distance: int) -> float | None:
    """The part of these pairs that is nearer; those as far count half."""
    total = sum(w for w, _ in pairs)
    return sum(w * ((d < distance) + 0.5 * (d == distance)) for w, d in pairs) / total if total else None


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
