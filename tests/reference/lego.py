"""LEGO with the factor G and the random R written out: slow, and all of it visible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Record:
    """What one pair did; distances in units of their median."""

    loss: float
    y_hat: float
    y: float
    y_bar: float  # y_hat where nothing was learned


class ReferenceLego:
    """`R` is `(d, r)`. Keeps the factor G of the metric A = GᵀG; hash functions are the columns of W = GᵀR."""

    def __init__(self, R: np.ndarray, step: float = 1.0, calibration: int = 500) -> None:
        self.R = np.array(R, dtype=np.float64)
        self.G = np.eye(len(R))
        self.step_size = step
        self.calibration = calibration
        self.squares: list[float] = []

    @property
    def A(self) -> np.ndarray:
        return self.G.T @ self.G

    @property
    def W(self) -> np.ndarray:
        return self.G.T @ self.R

    def step(self, a: np.ndarray, b: np.ndarray, s: int, weight: float = 1.0) -> Record:
        z = np.asarray(a, np.float64) - np.asarray(b, np.float64)
        if z @ z > 0 and len(self.squares) < self.calibration:
            self.squares.append(float(z @ z))
        if not self.squares:
            return Record(0.0, 0.0, 0.0, 0.0)
        known = sorted(self.squares)
        tail, unit = int(0.05 * (len(known) - 1)), known[(len(known) - 1) // 2]
        y = (known[tail] if s > 0 else known[-1 - tail]) / unit
        y_hat = float(z @ self.A @ z) / unit
        violated = y_hat > y if s > 0 else y_hat < y
        if not violated:
            return Record(0.0, y_hat, y, y_hat)
        loss, eta = 0.5 * (y_hat - y) ** 2, self.step_size * weight
        if y_hat == 0 or eta == 0:
            return Record(loss, y_hat, y, y_hat)
        # the textbook forms, distances and η with their dimensions
        eta, d_hat, d = eta / unit**2, y_hat * unit, y * unit
        d_bar = (eta * d * d_hat - 1 + np.sqrt((eta * d * d_hat - 1) ** 2 + 4 * eta * d_hat**2)) / (2 * eta * d_hat)
        beta = -eta * (d_bar - d) / (1 + eta * (d_bar - d) * d_hat)
        alpha = (-1 + np.sqrt(1 + beta * d_hat)) / d_hat
        self.G = self.G + alpha * np.outer(self.G @ z, self.A @ z)
        return Record(loss, y_hat, y, d_bar / unit)
