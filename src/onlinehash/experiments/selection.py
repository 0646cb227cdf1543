"""Online Hashing with another choice of the bits that it flips: what the paper's choice is compared with.

A pair with loss asks for p0 flipped bits among those that are wrong. The paper takes those of least margin, a change
over its conference version, and says that this suits the passive-aggressive step. Here the choice is a parameter. The
step is written out in NumPy, pair by pair: slow, and easy to compare with Algorithms 1 to 3 of the paper.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.features.centring import centre_pair
from onlinehash.learners.online_hashing import OnlineHashing, dissimilar_distance, loss_rules
from onlinehash.learners.online_hashing_kernels import flips_needed, similarity_loss
from onlinehash.learners.update import Updates
from onlinehash.types import Init, RandomState

CHOICES = ("least", "random", "most")


class OnlineHashingByChoice(OnlineHashing):
    """OH that flips the wrong bits of least margin, as the paper does, of most margin, or at random.

    Parameters
    ----------
    choice : {"least", "random", "most"}, default="least"
        Which of the wrong bits are flipped.
    n_bits, similar_radius, dissimilar_ratio, C, init, features, random_state
        As for `OnlineHashing`.
    """

    def __init__(
        self,
        n_bits: int = 64,
        *,
        choice: str = "least",
        similar_radius: int = 0,
        dissimilar_ratio: float = 0.4,
        C: float = 0.1,
        init: Init = "gaussian",
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            n_bits,
            similar_radius=similar_radius,
            dissimilar_ratio=dissimilar_ratio,
            C=C,
            init=init,
            features=features,
            random_state=random_state,
        )
        self.choice = choice

    def _rules(self) -> dict[str, checks.Rule]:
        return loss_rules(self.n_bits) | {"choice": checks.one_of(*CHOICES)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        super()._begin(n_inputs, rng)
        self._chooser = rng.spawn(1)[0]

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        W, centring, _ = self.model()
        b = dissimilar_distance(self.dissimilar_ratio, self.n_bits)
        x = np.zeros((2, A.shape[1]), A.dtype)  # the two points of a pair, centred
        mean = centring.mean.astype(A.dtype)
        for t, s in enumerate(similar):
            updates.moved[t] = centre_pair(
                A, B, t, centring.total, centring.count, centring.limit, centring.mean, mean, x, 0
            )
            projected = x @ W[:, : A.shape[1]].T
            differ = np.not_equal(*(projected >= 0))
            distance = int(differ.sum())
            R = similarity_loss(distance, s, self.similar_radius, b)
            if R == 0:
                continue
            wrong = np.flatnonzero(differ == (s > 0))
            n_flips = flips_needed(distance, s, self.similar_radius, b)
            chosen = self._chosen(wrong, np.abs(projected[:, wrong]).min(axis=0), n_flips)
            side = np.abs(projected[:, chosen]).argmin(axis=0)  # each bit flips where that costs least
            margins = projected[side, chosen]
            squares = (x[side].astype(np.float64) ** 2).sum(axis=1)
            loss, norm = 2 * float(np.abs(margins).sum()) + math.sqrt(R), 4 * float(squares.sum())
            updates.loss[t] = R
            if norm == 0:
                continue
            tau = min(self.C * float(weights[t]), loss / norm)
            W[chosen, : A.shape[1]] += tau * np.where(margins >= 0, -2, 2)[:, None] * x[side]  # τ x (g - h)ᵀ
            updates.step[t, 0], updates.capped[t, 0] = tau, tau < loss / norm
            updates.flips[t, chosen] = np.where(margins >= 0, -1, 1) * np.where(side == 0, 1, 3)
            updates.n_moved[t] = len(chosen)

    def _chosen(self, wrong: np.ndarray, margins: np.ndarray, n: int) -> np.ndarray:
        if self.choice == "random":
            return self._chooser.choice(wrong, n, replace=False)
        return wrong[np.argsort(margins if self.choice == "least" else -margins, kind="stable")[:n]]
