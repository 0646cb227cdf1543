"""Supervised discrete hashing as it reads: whole matrices, all points swept together, bit by bit."""

from __future__ import annotations

import numpy as np


class ReferenceSupervisedDiscrete:
    """`lam`, `nu`, `lam_F` as in the paper, the last one absolute; it starts from codes B `(n, r)`."""

    def __init__(
        self, Phi: np.ndarray, classes: np.ndarray, B: np.ndarray, lam: float, nu: float, lam_F: float
    ) -> None:
        self.Phi, self.B = Phi, B.copy()
        self.lam, self.nu, self.lam_F = lam, nu, lam_F
        self.Y = np.array([[float(c == j) for j in range(classes.max() + 1)] for c in classes])
        self.Y -= self.Y.mean(axis=0)
        self.step_G()
        self.step_P()

    def step_G(self) -> None:
        self.G = np.linalg.inv(self.B.T @ self.B + self.lam * np.eye(self.B.shape[1])) @ self.B.T @ self.Y

    def step_P(self) -> None:
        gram = self.Phi.T @ self.Phi
        self.P = np.linalg.inv(gram + self.lam_F * np.eye(len(gram))) @ self.Phi.T @ self.B

    def step_B(self) -> None:
        r = self.B.shape[1]
        Q = self.nu * self.Phi @ self.P + self.Y @ self.G.T
        for _ in range(10):
            before = self.B.copy()
            for k in range(r):
                others = [j for j in range(r) if j != k]
                z = Q[:, k] - self.B[:, others] @ self.G[others] @ self.G[k]
                self.B[:, k] = [1.0 if value >= 0 else -1.0 for value in z]
            if (before == self.B).all():
                break

    def objective(self) -> float:
        return float(
            np.sum((self.Y - self.B @ self.G) ** 2)
            + self.lam * np.sum(self.G**2)
            + self.nu * (np.sum((self.B - self.Phi @ self.P) ** 2) + self.lam_F * np.sum(self.P**2))
        )

    def round(self) -> list[float]:
        """The objective after each of the three steps."""
        values = []
        for step in (self.step_B, self.step_G, self.step_P):
            step()
            values.append(self.objective())
        return values
