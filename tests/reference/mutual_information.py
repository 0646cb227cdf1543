"""Hashing with mutual information, as slowly and plainly as it reads: entropies of soft histograms, bin by bin."""

from __future__ import annotations

import math

import numpy as np


def smooth_code(u: np.ndarray, sharpness: float) -> np.ndarray:
    return 2 / (1 + np.exp(-sharpness * u)) - 1


def entropy(p: np.ndarray) -> float:
    return -sum(value * math.log2(value) for value in p if value > 0)


def triangle(d: float, l: int, width: float) -> float:
    return max(0.0, 1 - abs(d - l * width) / width)


def triangle_slope(d: float, l: int, width: float) -> float:
    return 0.0 if abs(d - l * width) >= width else -math.copysign(1 / width, d - l * width)


class Distances:
    """A point's distances to others, of which some are neighbours, as soft histograms."""

    def __init__(self, phi: np.ndarray, others: np.ndarray, near: np.ndarray, n_bins: int) -> None:
        self.others, self.near, self.n_bins = others, near, n_bins
        self.width = len(phi) / n_bins
        self.d = [(len(phi) - phi @ other) / 2 for other in others]

    def histogram(self, of: np.ndarray) -> np.ndarray:
        rows = [[triangle(self.d[m], l, self.width) for l in range(self.n_bins + 1)] for m in np.flatnonzero(of)]
        return np.mean(rows, axis=0) if rows else np.zeros(self.n_bins + 1)

    def histogram_slopes(self, of: np.ndarray) -> np.ndarray:
        """Of each bin, by each entry of φ: `(n_bins + 1, r)`."""
        out = np.zeros((self.n_bins + 1, self.others.shape[1]))
        for m in np.flatnonzero(of):
            for l in range(self.n_bins + 1):
                out[l] += triangle_slope(self.d[m], l, self.width) * (-0.5) * self.others[m]
        return out / max(1, int(np.count_nonzero(of)))

    def parts(self) -> list[tuple[float, np.ndarray]]:
        """Everybody with weight 1, neighbours and others with their shares, negative: the terms of I."""
        share = float(np.mean(self.near))
        return [(1.0, np.ones(len(self.near), bool)), (-share, self.near), (share - 1, ~self.near)]

    def information(self) -> float:
        return sum(weight * entropy(self.histogram(of)) for weight, of in self.parts())

    def slope(self) -> np.ndarray:
        """dI/dφ."""
        out = np.zeros(self.others.shape[1])
        for weight, of in self.parts():
            p, slopes = self.histogram(of), self.histogram_slopes(of)
            for l in np.flatnonzero(p):
                out -= weight * slopes[l] * (1 / math.log(2) + math.log2(p[l]))
        return out


class ReferenceMutualInformationHashing:
    """`W` is `(d, r)`, changed by `step`."""

    def __init__(
        self, W: np.ndarray, size: int, n_bins: int = 16, sharpness: float = 10, step: float = 1, decay: float = 0
    ) -> None:
        self.W = np.array(W, dtype=np.float64)
        self.size, self.n_bins, self.sharpness, self.eta, self.decay = size, n_bins, sharpness, step, decay
        self.sample: list[tuple[float, np.ndarray, set[int]]] = []
        self.t = 0

    def step(self, x: np.ndarray, labels: set[int], key: float) -> float:
        """Learn a point; what its distances leave unknown."""
        x = x / np.linalg.norm(x)
        loss = 0.0
        if self.sample:
            A = self.sharpness
            phi = smooth_code(self.W.T @ x, A)
            others = np.array([smooth_code(self.W.T @ other, A) for _, other, _ in self.sample])
            near = np.array([bool(labels & theirs) for _, _, theirs in self.sample])
            distances = Distances(phi, others, near, self.n_bins)
            loss = entropy(np.array([near.mean(), 1 - near.mean()])) - distances.information()
            sigma = (phi + 1) / 2
            slope = distances.slope() * 2 * A * sigma * (1 - sigma)
            self.W = self.W + self.eta / (1 + self.decay * self.t) * np.outer(x, slope)
        self.sample = sorted([*self.sample, (key, x, labels)], key=lambda entry: entry[0])[: self.size]
        self.t += 1
        return loss
