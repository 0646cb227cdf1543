"""Supervised Discrete Hashing (SDH).

Fumin Shen, Chunhua Shen, Wei Liu, Heng Tao Shen: *Supervised Discrete Hashing*. CVPR 2015. The paper's form is the
kernel one, `features=RbfAnchors(1000)`; with `features=None` the same steps work on the vectors themselves.

Readings taken, and where this departs from public code:
- The penalty on P is part of the objective (νλ_F|P|²), so that each of the three steps is an exact minimum over its
  part and the objective falls by each of them.
- Nothing is appended to the features: they are centred, and a constant would only move the threshold of a bit
  from where its two sides balance to the mean of its code. Retrieval is as good without
  (docs/reference/learners/supervised-discrete.md).
- Y is centred like the features. The paper's classifier has no constant term, so with plain one-hot Y bits have to
  stand in for it, grow unbalanced and say less: centring gains up to 0.04 mAP (see the same page).
- A bit that is the same for all points is no function of centred features. Its P is 0 and the bit constant, where
  rounding errors would make a random one of it.
- λ_F is relative to the mean square of the features, so that the unit of the data does not matter.
- A bit at exactly 0 becomes +1: public code leaves 0 there, which is no bit.
- The bits of one point do not depend on those of another once G and P are fixed. So each point is swept by itself
  until none of its bits changes (public code sweeps all points until few change), which comes to the same.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import like
from onlinehash.learners.base import Traits
from onlinehash.learners.batch import BatchLearner, Show
from onlinehash.learners.discrete_descent import settle_bits
from onlinehash.numeric.tall import inner, times
from onlinehash.types import RandomState, State

#: Sweeps over the bits of a point in one B step; nearly always it settles in three or four.
MOST_SWEEPS = 10


class SupervisedDiscreteHashing(BatchLearner):
    """Finds codes from which a linear classifier tells the classes, and hash functions that give these codes.

    Y holds the classes (one-hot, less the mean), B the codes, G the classifier, P the hash functions of features Φ.
    Bits stay bits throughout: they are never relaxed to real numbers. Three exact steps in turn lower

        |Y - B G|² + λ |G|² + ν (|B - Φ P|² + λ_F |P|²)

        b_k = sgn(q_k - B' G' g_kᵀ)          bit by bit, Q = Y Gᵀ + ν Φ P; B', G' without bit k
        G   = (Bᵀ B + λ I)⁻¹ Bᵀ Y
        P   = (Φᵀ Φ + λ_F I)⁻¹ Φᵀ B

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    regularization : float, default=1.0
        λ, the penalty on the classifier G.
    penalty : float, default=1e-5
        ν, what a code that the hash functions do not reach costs.
    ridge : float, default=0.01
        λ_F, the penalty on the hash functions P, in units of the mean square of the features.
    n_rounds : int, default=5
        How often the three steps are taken.
    features, random_state
        As for every learner: see `Learner`.

    Attributes
    ----------
    objectives_ : array of shape (n_rounds, 3)
        The objective after the steps for B, G and P of each round. It never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import SupervisedDiscreteHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = SupervisedDiscreteHashing(n_bits=8, random_state=0)
    >>> learner.fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="batch")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        regularization: float = 1.0,
        penalty: float = 1e-5,
        ridge: float = 0.01,
        n_rounds: int = 5,
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.regularization = regularization
        self.penalty = penalty
        self.ridge = ridge
        self.n_rounds = n_rounds
        self.features = features
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {
            "regularization": checks.real(0, above=True),
            "penalty": checks.real(0, above=True),
            "ridge": checks.real(0, above=True),
            "n_rounds": checks.integer(1, 10_000),
        }

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        super()._begin(n_inputs, rng)
        self.objectives_ = np.zeros((self.n_rounds, 3))

    def _fit(self, X: np.ndarray, classes: np.ndarray | None, rng: np.random.Generator, show: Show) -> np.ndarray:
        assert classes is not None
        show(0.0, "products of features")
        if not X.any():
            return rng.standard_normal((X.shape[1], self.n_bits))
        Phi = X / np.abs(X).max()  # so that no square overflows
        PhiPhi = inner(Phi, Phi)
        penalty = self.ridge * np.trace(PhiPhi) / Phi.size * np.eye(len(PhiPhi))
        factor = cho_factor(PhiPhi + penalty)
        B = rng.choice([-1.0, 1.0], (len(Phi), self.n_bits))
        share = np.bincount(classes) / len(classes)  # the mean of one-hot Y

        def products() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            """BᵀB, BᵀY, ΦᵀB."""
            of_class = np.zeros((len(share), self.n_bits))
            np.add.at(of_class, classes, B)
            whole = B.sum(axis=0)
            PhiB = inner(Phi, B)
            PhiB[:, np.abs(whole) == len(B)] = 0.0
            return inner(B, B), of_class.T - np.outer(whole, share), PhiB

        def solve_G() -> np.ndarray:
            return np.linalg.solve(BB + self.regularization * np.eye(self.n_bits), BY)

        def objective() -> float:
            """From the small products alone; |B|² = n r."""
            fit = (
                len(B) * (1 - share @ share)
                - 2 * np.sum(G * BY)
                + np.sum(G * (BB @ G))
                + self.regularization * np.sum(G * G)
            )
            reach = B.size - 2 * np.sum(P * PhiB) + np.sum(P * ((PhiPhi + penalty) @ P))
            return float(fit + self.penalty * reach)

        BB, BY, PhiB = products()
        G = solve_G()
        P: np.ndarray = cho_solve(factor, PhiB)
        for t in range(self.n_rounds):
            Q = self.penalty * times(Phi, P) + (G.T - share @ G.T)[classes]
            settle_bits(B, Q, G @ G.T, MOST_SWEEPS)
            BB, BY, PhiB = products()
            self.objectives_[t, 0] = objective()
            G = solve_G()
            self.objectives_[t, 1] = objective()
            P = cho_solve(factor, PhiB)
            self.objectives_[t, 2] = objective()
            show((t + 1) / self.n_rounds, f"objective {self.objectives_[t, 2]:.4g}")
        return P

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {"objectives": self.objectives_}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self.objectives_ = like(state["objectives"], self.objectives_, "objectives")
