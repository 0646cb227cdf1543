"""Online supervised hashing, as slowly and plainly as it reads: one label, one bit, one number at a time."""

from __future__ import annotations

import math

import numpy as np


class ReferenceOnlineSupervisedHashing:
    """`W` is `(d, r)`, changed by `step`; codewords are given, one a class."""

    def __init__(self, W: np.ndarray, codewords: np.ndarray, form: str = "hinge", eta: float = 0.1) -> None:
        self.W = np.array(W, dtype=np.float64)
        self.codewords = codewords
        self.form = form
        self.eta = eta

    def step(self, x: np.ndarray, labels: list[int]) -> tuple[float, set[int]]:
        """Learn a point; its loss, and the bits it moved."""
        loss, moved = 0.0, set()
        if not labels or not x.any():
            return loss, moved
        x = x / math.sqrt(sum(value * value for value in x))
        for label in labels:
            c, before = self.codewords[label], self.W.copy()
            s = 0.0
            for k in range(self.W.shape[1]):
                margin = c[k] * sum(before[:, k] * x)
                s += margin
                if self.form == "hinge":
                    weight, cost = (1.0, 1.0 - margin) if margin < 1 else (0.0, 0.0)
                else:
                    weight, cost = (math.exp(-s), math.exp(-s)) if s > 0 else (1.0, 1.0 - s)
                loss += cost
                if weight:
                    self.W[:, k] += self.eta * weight * c[k] * x
                    moved.add(k)
        return loss, moved
