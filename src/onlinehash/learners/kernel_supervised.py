"""Supervised Hashing with Kernels (KSH).

Wei Liu, Jun Wang, Rongrong Ji, Yu-Gang Jiang, Shih-Fu Chang: *Supervised Hashing with Kernels*. CVPR 2012. The paper's
form is `features=RbfAnchors(300)`; with `features=None` the same steps work on the vectors themselves.

Readings taken, and where this departs from public code:
- S = 2 A - 1 1ᵀ, where A says who is similar: Y Yᵀ with Y one-hot if it comes from classes, else a sparse matrix.
  Neither S nor its residuals are ever formed: a product with one costs O(l (c + r)) from classes, O(l r) and the
  similar pairs otherwise, instead of O(l²), and l may be as large as one likes.
- Kᵀ S_k K is a sum of c + k terms of rank one (from classes), whose top eigenvector is found in their span.
- KᵀK gets a ridge, a millionth of its mean diagonal: it is singular as soon as a feature is constant.
- The accelerated descent starts afresh from the last point where momentum would raise the cost, so no step raises
  it. It ends when a step lowers the cost by less than a thousandth of it; public code's limit of 0.01 l means another
  precision for every l and r. A limit ten times finer doubles the time for -0.004 to +0.010 mAP
  (docs/reference/learners/kernel-supervised.md).
- The projections of a, of the gradient and of the momentum are kept, so a trial step costs no product with K.
- Where a⁰ explains nothing (the bits before have said all that the features can) it is taken as it is: descent
  would end at a = 0, whose signs are rounding errors.
- sgn(0) = +1. Points that are all equal have no directions: W is random.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import like
from onlinehash.learners.base import Traits
from onlinehash.learners.batch import BatchLearner, Show, fit_similarities
from onlinehash.numeric.tall import signs
from onlinehash.types import RandomState, State

RIDGE = 1e-6
MOST_STEPS, MOST_DOUBLINGS = 500, 50
TOLERANCE = 1e-3


class KernelSupervisedHashing(BatchLearner):
    """Learns bit after bit, so that the inner products of codes follow the classes of a sample of points.

    S is +1 for two points of one class (`fit`) or two that are similar (`fit_similarities`), else -1; codes H should
    make H Hᵀ = r S. Bits are learned greedily, each from what the bits before have left over, first by an eigenvector
    and then by descent with a smooth sign:

        S_k = r S - Σ_{j<k} h_j h_jᵀ
        a⁰  = the top eigenvector of  Kᵀ S_k K a = γ Kᵀ K a,  |K a|² = l
        a   = argmin  -φᵀ S_k φ,  φ = 2 / (1 + exp(-K a)) - 1        (Nesterov's descent from a⁰)
        h_k = sgn(K a), or of a⁰ where hᵀ S_k h is larger for it

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    n_samples : int, default=2000
        l: how many of the points are learned from (all where there are fewer), drawn at random.
    features, random_state
        As for every learner: see `Learner`.

    Attributes
    ----------
    objectives_ : array of shape (n_bits,)
        |r S - H Hᵀ|² / |r S|² after each bit; 1 before the first.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import KernelSupervisedHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = KernelSupervisedHashing(n_bits=8, random_state=0)
    >>> learner.fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="batch")

    fit_similarities = fit_similarities

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_samples: int = 2000,
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_samples = n_samples
        self.features = features
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"n_samples": checks.integer(1, 10**9)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        super()._begin(n_inputs, rng)
        self.objectives_ = np.ones(self.n_bits)

    def _fit(
        self, X: np.ndarray, known: np.ndarray | csr_array | None, rng: np.random.Generator, show: Show
    ) -> np.ndarray:
        assert known is not None
        show(0.0, "products of features")
        chosen = np.sort(rng.choice(len(X), min(self.n_samples, len(X)), replace=False))
        K = X[chosen].astype(np.float64)
        if not K.any():
            return rng.standard_normal((X.shape[1], self.n_bits))
        K /= np.abs(K).max()  # so that no square overflows
        K *= np.sqrt(K.size) / np.linalg.norm(K)
        left = (
            SimilarityResidual(known[chosen][:, chosen], self.n_bits)
            if isinstance(known, csr_array)
            else ClassResidual(known[chosen], self.n_bits)
        )
        start = Eigenvectors(K, left)
        W = np.empty((K.shape[1], self.n_bits))
        square = float(self.n_bits * len(K)) ** 2  # |S_k|²
        whole = square
        for k in range(self.n_bits):
            a0 = start.top()
            a = descend(K, a0, left.times)[0]
            codes = [signs(K @ a0), signs(K @ a)]
            explained = [float(h @ left.times(h)) for h in codes]
            better = int(explained[1] > explained[0])
            W[:, k] = (a0, a)[better]
            left.less(codes[better])
            start.less(codes[better])
            square += len(K) ** 2 - 2 * explained[better]
            self.objectives_[k] = square / whole
            show((k + 1) / self.n_bits, f"bit {k + 1}, objective {self.objectives_[k]:.4f}")
        return W

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {"objectives": self.objectives_}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self.objectives_ = like(state["objectives"], self.objectives_, "objectives")


class Residual:
    """S_k = r (2 A - 1 1ᵀ) - H Hᵀ, known by its parts."""

    def __init__(self, n_points: int, n_bits: int) -> None:
        self.H = np.empty((n_bits, n_points))
        self.n_bits, self.k = n_bits, 0

    def of_similar(self, v: np.ndarray) -> np.ndarray:
        """A v."""
        raise NotImplementedError

    def terms(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns t and their weights w: Kᵀ A K = Σ w t tᵀ."""
        raise NotImplementedError

    def times(self, v: np.ndarray) -> np.ndarray:
        """S_k v."""
        H = self.H[: self.k]
        product: np.ndarray = self.n_bits * (2 * self.of_similar(v) - v.sum()) - (H @ v) @ H
        return product

    def less(self, h: np.ndarray) -> None:
        """S_k+1 = S_k - h hᵀ."""
        self.H[self.k] = h
        self.k += 1


class ClassResidual(Residual):
    """A = Y Yᵀ: similar are points of one class."""

    def __init__(self, classes: np.ndarray, n_bits: int) -> None:
        super().__init__(len(classes), n_bits)
        self.classes = np.unique(classes, return_inverse=True)[1]

    def of_similar(self, v: np.ndarray) -> np.ndarray:
        sums: np.ndarray = np.bincount(self.classes, weights=v)[self.classes]
        return sums

    def terms(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums = np.zeros((self.classes.max() + 1, K.shape[1]))
        np.add.at(sums, self.classes, K)
        return sums.T, np.ones(len(sums))


class SimilarityResidual(Residual):
    """A is given."""

    def __init__(self, similar: csr_array, n_bits: int) -> None:
        super().__init__(similar.shape[0], n_bits)
        self.A = similar.astype(np.float64)

    def of_similar(self, v: np.ndarray) -> np.ndarray:
        sums: np.ndarray = self.A @ v
        return sums

    def terms(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights, columns = np.linalg.eigh(K.T @ (self.A @ K))
        return columns, weights


class Eigenvectors:
    """The top generalised eigenvector of (Kᵀ S_k K, Kᵀ K), bit after bit.

    With Kᵀ K = L Lᵀ it is L⁻ᵀ times an eigenvector of F D Fᵀ, where each column of F belongs to a term of rank one and
    D holds their weights: from classes F = L⁻¹ Kᵀ [Y, 1, H], with the weights 2r, -r and -1.
    """

    def __init__(self, K: np.ndarray, left: Residual) -> None:
        self.K = K
        self.L = cholesky(K.T @ K + RIDGE * len(K) * np.eye(K.shape[1]), lower=True)  # len(K) is its mean diagonal
        columns, weights = left.terms(K)
        self.F = solve_triangular(self.L, np.column_stack([columns, K.sum(axis=0)]), lower=True)
        self.D = np.append(2.0 * left.n_bits * weights, -left.n_bits)

    def top(self) -> np.ndarray:
        """a⁰, scaled so that |K a⁰|² = l; its largest entry is positive, lest rounding choose between a⁰ and -a⁰."""
        Q, R = np.linalg.qr(self.F)
        a: np.ndarray = solve_triangular(
            self.L, Q @ np.linalg.eigh((R * self.D) @ R.T)[1][:, -1], lower=True, trans="T"
        )
        a *= np.copysign(1.0, a[np.argmax(np.abs(a))])
        length = np.linalg.norm(self.K @ a)
        return a * np.sqrt(len(self.K)) / length if length > 0 else a  # zero where nothing is left to explain

    def less(self, h: np.ndarray) -> None:
        """S_k+1 = S_k - h hᵀ."""
        self.F = np.column_stack([self.F, solve_triangular(self.L, self.K.T @ h, lower=True)])
        self.D = np.append(self.D, -1.0)


def descend(
    K: np.ndarray, a: np.ndarray, S_times: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, list[float]]:
    """Lower -φᵀ S φ, φ = tanh(K a / 2), by Nesterov's method; where it arrives, and the cost at every step."""

    def cost(p: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        phi = np.tanh(p / 2)
        S_phi = S_times(phi)
        return -float(phi @ S_phi), phi, S_phi

    p = K @ a  # points of the descent and their projections go together: (a, p), (b, q), (gradient, slope)
    a_before, p_before = a, p
    costs = [cost(p)[0]]
    momentum, steepness = 1.0, 0.0
    while costs[-1] < 0 and len(costs) <= MOST_STEPS:  # from a cost above zero it could only shrink a to nothing
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        push = (momentum - 1) / following
        b, q = a + push * (a - a_before), p + push * (p - p_before)
        here, phi, S_phi = cost(q)
        gradient = -((S_phi * (1 - phi * phi)) @ K)
        square, slope = float(gradient @ gradient), K @ gradient
        if square == 0.0:
            break
        steepness = steepness / 1.5 or np.sqrt(square) / np.linalg.norm(b)  # tries a longer step than the last
        for _ in range(MOST_DOUBLINGS):
            there = cost(q - slope / steepness)[0]
            if there <= here - square / (2 * steepness):
                break
            steepness *= 2
        if there >= costs[-1]:
            if push == 0.0:
                break
            momentum = 1.0  # it carried too far: once more from a, without
            continue
        a_before, p_before = a, p
        a, p, momentum = b - gradient / steepness, q - slope / steepness, following
        costs.append(there)
        if costs[-2] - costs[-1] <= TOLERANCE * abs(costs[-1]):
            break
    return a, costs
