"""Online hashing with similarity learning (OHSL).

Zhenyu Weng, Yuesheng Zhu: *Online Hashing with Similarity Learning*. arXiv 2108.02560, 2021.

What the paper's abstract says is here as it says it: the hash functions are fixed, the similarity of two codes is a
bilinear form aᵀMb, and M is learned online. Its section on how M is learned could not be read, and no code is public.
So the step is a reading:
- Pairs teach, one at a time and passive-aggressively, as in Online Hashing: a similar pair wants aᵀMb / r to be at
  least 1, which it is for equal codes under the first M, the identity; a dissimilar one wants at most 0, which it is
  for codes that have nothing in common.
- M is symmetric, as a pair has no order, and starts as the identity: until pairs come, the similarity is Hamming's.
- Most pairs are dissimilar, so a similar one may take three times the step.
- Searches use the mean of M over all pairs so far: a step undoes some of the last ones, and the mean does not
  (0.05 more mean average precision after 50,000 pairs of CIFAR-10 features, `benchmarks/kept_codes.py`).

Departure: an index ranks by the Hamming distance to sgn(Mᵀa), the code of the query that aᵀMb likes best, instead of by
aᵀMb itself, so that everything that searches codes can search these. That costs 0.04 to 0.07 of mean average
precision.
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.io.format import whole
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Column, Rows
from onlinehash.learners.kept_codes import KeptCodesLearner, within_reach
from onlinehash.learners.label_kernels import Trace, note_move, trace_of
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import pad_rows, row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.types import RandomState, State


class SimilarityLearningHashing(KeptCodesLearner):
    """Keeps the codes of items, and learns from pairs how similar two codes are.

    The hash functions h are those of Iterative Quantization of the first points. A pair with the codes a and b moves a
    symmetric matrix M, the identity to begin with, by what its similarity lacks:

        s = aᵀMb / r,   ℓ = max(0, 1 - s) if similar, max(0, s) if not,   τ = min(c, ℓ),   G = (abᵀ + baᵀ) / 2
        M ← M ± τ r G / |G|²                   so that s moves by τ, up if similar; c is C, or C w for a similar pair

        code of an item: h(x)                  code of a query: sgn(M̄ h(x)),   M̄ the mean of M over all pairs

    All bits of queries change with nearly every pair, and no bit of an item ever does.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    C : float, default=0.1
        The most by which a pair may move its similarity; `sample_weight` scales it.
    similar_weight : float, default=3.0
        w, by which C is multiplied for similar pairs.
    first_points : int, default=1000
        Points that settle the hash functions.
    features, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`. The method keeps its own mean, so there is no `centre`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import SimilarityLearningHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = SimilarityLearningHashing(n_bits=8, first_points=100, random_state=0).observe(A)
    >>> before = learner.encode(A)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).encode(A) == before
    True
    >>> learner.encode_queries(A) == before
    False
    """

    traits = Traits(learns_from="pairs", unit="pair", keeps_codes=True)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        C: float = 0.1,
        similar_weight: float = 3.0,
        first_points: int = 1000,
        features: Transformer | None = None,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.C = C
        self.similar_weight = similar_weight
        self.first_points = first_points
        self.features = features
        self.similar_share = similar_share
        self.reservoir_size = reservoir_size
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return super()._rules() | {
            "C": checks.real(0, above=True),
            "similar_weight": checks.real(0, above=True),
        }

    def _waiting(self) -> dict[str, Column]:
        return {"similar": ((), np.int8), "weights": ((), np.float64)}  # zero unless the row before is its partner

    def _begin_queries(self) -> None:
        self._M, self._mean_M = pad_rows(np.eye(self.n_bits)), pad_rows(np.eye(self.n_bits))
        self._n_learned = np.zeros(1, np.int64)

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        t = 0
        while t < len(A) and self._first is not None:
            if self._first.room < 2:  # the pair itself learns under the functions that it settles
                self._settle_codes(updates.view(slice(t, t + 1)))
                break
            s, w = np.array([0, similar[t]], np.int8), np.array([0.0, weights[t]])
            told = Updates.empty(2, 1, self.n_bits)
            self._wait_with(told, np.stack([A[t], B[t]]), similar=s, weights=w)
            if self._first is None:
                updates.loss[t], updates.step[t] = told.loss[1], told.step[1]
                updates.flips[t], updates.n_moved[t] = told.flips[1], told.n_moved[1]
            t += 1
        if t < len(A):
            self._learn_pairs(A[t:], B[t:], similar[t:], weights[t:], updates.view(slice(t, None)))

    def _learn_waiting(self, rows: Rows, updates: Updates) -> None:
        seconds = np.flatnonzero(rows.similar)
        done = Updates.empty(len(seconds), 1, self.n_bits)
        similar, weights = rows.similar[seconds], rows.weights[seconds]
        self._learn_pairs(rows.X[seconds - 1], rows.X[seconds], similar, weights, done)
        for loss, step in zip(done.loss, done.step, strict=True):  # one after the other, as a loop adds them
            updates.loss[0] += loss
            updates.step[0] = step

    def _learn_pairs(
        self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates
    ) -> None:
        most = self.C * weights * np.where(similar > 0, self.similar_weight, 1.0)
        codes = self._signs(A), self._signs(B)
        _learn(self._M, self._mean_M, self._n_learned, *codes, similar, most, self.n_bits, trace_of(updates))

    def _query_functions(self) -> tuple[np.ndarray, np.ndarray]:
        return self._W[:, : self._n_inputs], self._mean_M[:, : self.n_bits]

    @property
    def similarity_(self) -> np.ndarray:
        """M̄, the matrix of the similarity of two codes (a copy); the identity until pairs are learned."""
        self._check_ready()
        return np.eye(self.n_bits) if self._first is not None else self._mean_M[:, : self.n_bits].copy()

    def _get_method_state(self) -> State:
        state = super()._get_method_state()
        if self._first is None:
            state |= {name: M[:, : self.n_bits].copy() for name, M in (("M", self._M), ("mean_M", self._mean_M))}
            state["n_learned"] = int(self._n_learned[0])
        return state

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        if self._first is None:
            expected = np.eye(self.n_bits)
            self._M = pad_rows(within_reach(state["M"], expected, "M"))
            self._mean_M = pad_rows(within_reach(state["mean_M"], expected, "mean_M"))
            self._n_learned[0] = whole(state["n_learned"], "n_learned")


@njit(nogil=True, cache=True)
def _learn(
    M: np.ndarray,
    mean: np.ndarray,
    n_learned: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    most: np.ndarray,
    r: int,
    trace: Trace,
) -> None:
    """Pairs of codes one by one; `most` is the largest step of each, and one of zero teaches nothing."""
    Mb = np.empty((1, r))
    for t in range(A.shape[0]):
        if most[t] == 0.0:
            continue
        a, b = A[t], B[t]
        row_dots(M, B[t : t + 1], 0, 1, Mb)
        s = common = 0.0
        for k in range(r):
            s += a[k] * Mb[0, k]
            common += a[k] * b[k]
        s /= r
        loss = max(0.0, 1.0 - s) if similar[t] > 0 else max(0.0, s)
        tau = min(most[t], loss)
        factor = similar[t] * tau * r / (r * r + common * common)  # r / |G|², halved as G is
        n_learned[0] += 1
        share = 1.0 / n_learned[0]
        trace.loss[t] += loss
        for k in range(r):
            moved = False
            for j in range(r):
                M[k, j] += factor * (a[k] * b[j] + b[k] * a[j])
                before = mean[k, j]
                mean[k, j] = before + share * (M[k, j] - before)
                moved |= mean[k, j] != before
            if moved:
                note_move(trace, t, k, tau if tau > 0.0 else share)
