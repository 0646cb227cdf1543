"""Mini-batch online hashing as slowly and plainly as its derivation reads: whole matrices M = x (g - h)ᵀ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from tests.reference.online_hashing import ReferenceOnlineHashing, change, hamming, project, sgn, square


@dataclass
class Chunk:
    """What a chunk did: the constraints ⟨W, M⟩ ≥ √R - ξ with their caps and τ, and W before and after."""

    M: np.ndarray  # (m, d, r)
    R: np.ndarray  # (m,)
    caps: np.ndarray  # (m,)
    tau: np.ndarray  # (m,)
    start: np.ndarray
    end: np.ndarray
    losses: list[float]  # R of every pair on arrival

    def prediction_losses(self, W: np.ndarray) -> np.ndarray:
        """√R - ⟨W, M⟩ of every constraint."""
        return np.array([math.sqrt(R) - (M * W).sum() for M, R in zip(self.M, self.R, strict=True)])

    def dual(self, tau: np.ndarray) -> float:
        """Σ τ ℓ - ½|Σ τ M|², ℓ being the losses where the chunk began."""
        return float(tau @ self.prediction_losses(self.start) - 0.5 * square(np.tensordot(tau, self.M, 1)))

    def primal(self, W: np.ndarray) -> float:
        """½|W - Wᵗ|² + Σ C w ξ, every ξ as small as W allows."""
        return 0.5 * square(W - self.start) + float(self.caps @ np.maximum(0.0, self.prediction_losses(W)))

    def solution(self) -> np.ndarray:
        """The τ that is best for the dual, by a solver of others."""
        ell, flat = self.prediction_losses(self.start), self.M.reshape(len(self.R), -1)
        gram = flat @ flat.T
        found = minimize(
            lambda tau: (0.5 * tau @ gram @ tau - ell @ tau, gram @ tau - ell),
            np.zeros(len(ell)),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, cap) for cap in self.caps],
            options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-10},
        )
        return np.asarray(found.x)


class ReferenceMiniBatch:
    """`W1` is `(d, r)`. The ascent stops where the duality gap is a thousandth of the dual, or after 50 sweeps."""

    def __init__(
        self,
        W1: np.ndarray,
        similar_radius: int = 0,
        dissimilar_ratio: float = 0.4,
        C: float = 0.1,
        balance: float = 0.5,
    ) -> None:
        self.W = np.array(W1, dtype=np.float64)
        self.C = C
        self.balance = balance
        self.rule = ReferenceOnlineHashing(W1[None], similar_radius, dissimilar_ratio, C)

    def learn(self, A: np.ndarray, B: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> Chunk:
        """One chunk."""
        start, W = self.W.copy(), self.W
        losses = [self._loss(start, np.array(pair), s)[1] for *pair, s in zip(A, B, signs, strict=True)]
        Ms, Rs, caps, taus = [], [], [], []
        kinds = sorted({*signs.tolist()})
        factor = {kind: (len(signs) / len(kinds) / (signs == kind).sum()) ** self.balance for kind in kinds}
        weights = [w * factor[int(s)] for w, s in zip(weights, signs, strict=True)]
        for a, b, s, w in zip(A, B, signs, weights, strict=True):
            x = np.array([a, b])
            h, R = self._loss(W, x, s)
            M = change(x, self.rule.zero_loss_codes(W, x, h, s) - h) if R > 0 else np.zeros_like(W)
            if w == 0 or square(M) == 0:
                continue
            tau = min(self.C * w, (math.sqrt(R) - (W * M).sum()) / square(M))
            W = W + tau * M
            for row, value in zip((Ms, Rs, caps, taus), (M, R, self.C * w, tau), strict=True):
                row.append(value)
        chunk = Chunk(np.array(Ms), np.array(Rs), np.array(caps), np.array(taus), start, W, losses)
        for _ in range(50 if Ms else 0):
            dual = chunk.dual(chunk.tau)
            if chunk.primal(chunk.end) - dual <= 1e-3 * dual:
                break
            for n, M in enumerate(chunk.M):
                wish = chunk.tau[n] + (math.sqrt(chunk.R[n]) - (chunk.end * M).sum()) / square(M)
                tau = min(chunk.caps[n], max(0.0, wish))
                chunk.end = chunk.end + (tau - chunk.tau[n]) * M
                chunk.tau[n] = tau
        self.W = chunk.end
        return chunk

    def _loss(self, W: np.ndarray, x: np.ndarray, s: int) -> tuple[np.ndarray, float]:
        """h and R of a pair under W."""
        h = np.array([sgn(project(W, side)) for side in x])
        return h, self.rule.similarity_loss(hamming(h[0], h[1]), s)
