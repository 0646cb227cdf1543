"""LEGO-LSH: random projections under a metric that is learned online.

Prateek Jain, Brian Kulis, Inderjit S. Dhillon, Kristen Grauman: *Online Metric Learning and Fast Similarity Search*.
Advances in Neural Information Processing Systems 21, 2008.

Readings taken:
- The metric's factor G (A = GᵀG) is never formed. The hash functions are h_k(x) = sgn(r_kᵀGx), and W = GᵀR follows
  A by a rank-one step of its own, so that A and W are all there is to keep: O(d² + dr) for a pair that teaches.
- Targets: similar pairs should be within u, dissimilar ones beyond l, the 5th and 95th percentile of squared
  distances. In a stream these are the percentiles of the first `calibration` pairs, running until that many were
  seen and frozen afterwards, as the mean of the centring is; learning begins with the second pair.
- The method's η has the dimension of a squared distance to the power -2. Distances are counted in units of their
  median, so that `step` is a number that fits data of any scale.
- The points of a pair that are equal have no distance that a metric could change: such a pair is skipped. So is one
  whose distance is so many units that the step overflows.

No public code of the method was found to be one: a triplet update with clipped eigenvalues that goes by its name is
another method, and needs an eigenvalue decomposition to stay positive definite, which the exact step does by itself.
"""

from __future__ import annotations

import math

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError
from onlinehash.features import Transformer
from onlinehash.io.format import like
from onlinehash.learners.base import Traits
from onlinehash.learners.linear import LinearLearner
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import add_row, aligned_zeros, dot_of_rows, pad_rows, row_dots, some_row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.types import RandomState, State

#: Shares of the squared distances below the target of similar pairs, and above that of dissimilar ones.
TAIL = 0.05

#: Pairs that are multiplied with A at once, before they are learned one by one.
PAIRS_AHEAD = 4

#: Rows of A that a step changes before the pairs ahead are multiplied with them, while they are in the nearest cache.
ROWS_AT_ONCE = 16


class LegoLSH(LinearLearner):
    """Random projections under a Mahalanobis metric that is learned from pairs, one at a time.

    Squared distances d(z) = zᵀAz, z = x_i - x_j, should be at most u for similar pairs and at least l for dissimilar
    ones. A pair that violates its target y moves A to the minimum of LogDet divergence and loss, which has a closed
    form: the distance becomes ȳ, between the old one ŷ and y, and A stays positive definite by itself.

        A ← argmin D_ld(A', A) + η/2 (zᵀA'z - y)²
        ȳ = [ηyŷ - 1 + √((ηyŷ - 1)² + 4ηŷ²)] / (2ηŷ)
        A ← A + (ȳ - ŷ)/ŷ² (Az)(Az)ᵀ
        W ← W + (√(ȳ/ŷ) - 1)/ŷ (Az)(zᵀW)

    W = GᵀR with A = GᵀG and R normal values drawn once. Every step changes all bits. The loss of an update is
    ½(ŷ - y)², distances in units of their median.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    step : float, default=1.0
        η, the weight of a pair against what was learned before; `sample_weight` scales it.
    calibration : int, default=500
        Pairs whose squared distances give the unit and the targets u and l.
    features, centre, burn_in, similar_share, reservoir_size, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LegoLSH
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = LegoLSH(n_bits=8, random_state=0)
    >>> learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).encode(A)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="pairs", unit="pair")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        step: float = 1.0,
        calibration: int = 500,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        similar_share: float | None = None,
        reservoir_size: int = 512,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.step = step
        self.calibration = calibration
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.similar_share = similar_share
        self.reservoir_size = reservoir_size
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"step": checks.real(0, above=True), "calibration": checks.integer(2, 100_000)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(rng.standard_normal((1, n_inputs, self.n_bits)))  # G = I: W = R
        self._A = pad_rows(np.eye(n_inputs))
        self._distances = np.zeros(self.calibration)  # sorted, as far as there are any
        self._n_distances = np.zeros(1, np.int64)

    @property
    def metric_(self) -> np.ndarray:
        """A, `(n_inputs, n_inputs)` (a copy)."""
        self._check_ready()
        return self._A[:, : self._n_inputs].copy()

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        _learn_pairs(
            self._A,
            self._W,
            aligned_zeros((2 * PAIRS_AHEAD + 1, self._n_inputs), np.float64),
            aligned_zeros((2, self._n_inputs), self.dtype_),
            A,
            B,
            similar,
            self.step * weights,
            self._distances,
            self._n_distances,
            updates.loss,
            updates.step,
            updates.flips,
            updates.n_moved,
        )

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {
            "A": np.ascontiguousarray(self._A[:, : self._n_inputs]),
            "distances": self._distances,
            "n_distances": self._n_distances,
        }

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._A = pad_rows(like(state["A"], self._A[:, : self._n_inputs], "A"))
        self._distances = like(state["distances"], self._distances, "distances", 0)
        self._n_distances = like(state["n_distances"], self._n_distances, "n_distances", 0, self.calibration)
        if not (self._distances[: self._n_distances[0]] > 0).all():
            raise FormatError("distances of a calibration are not above 0.")


@njit(nogil=True, cache=True)
def _learn_pairs(
    metric: np.ndarray,
    W: np.ndarray,
    rows: np.ndarray,
    narrow: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    eta: np.ndarray,
    distances: np.ndarray,
    n_distances: np.ndarray,
    loss: np.ndarray,
    step: np.ndarray,
    flips: np.ndarray,
    n_moved: np.ndarray,
) -> None:
    """The step for each pair; `rows` holds z of a few pairs, then Az of each, then the root of what A gains.

    A is too large for the near caches, so reading it is what costs: it is multiplied with the z of a few pairs at
    once, and a step that changes A renews those products in the same pass. As every dot product is its own, they come
    out the same as when each is computed at its turn.
    """
    d, n_pairs, gain = metric.shape[0], similar.shape[0], 2 * PAIRS_AHEAD
    Az = rows[PAIRS_AHEAD:gain]
    P = np.empty((1, W.shape[0]), W.dtype)
    block = np.empty(ROWS_AT_ONCE, np.int64)
    for first in range(0, n_pairs, PAIRS_AHEAD):
        n_ahead = min(PAIRS_AHEAD, n_pairs - first)
        for p in range(n_ahead):
            for i in range(d):
                rows[p, i] = np.float64(A[first + p, i]) - np.float64(B[first + p, i])
        row_dots(metric, rows, 0, n_ahead, Az)
        for p in range(n_ahead):
            t = first + p
            _enter(dot_of_rows(rows, p, p), distances, n_distances)
            n = n_distances[0]
            if n == 0:
                continue
            unit, tail = distances[(n - 1) // 2], int(TAIL * (n - 1))
            y = (distances[tail] if similar[t] > 0 else distances[n - 1 - tail]) / unit
            y_hat = dot_of_rows(rows, p, PAIRS_AHEAD + p) / unit
            if y_hat <= y if similar[t] > 0 else y_hat >= y:
                continue
            loss[t] = 0.5 * (y_hat - y) ** 2
            if y_hat <= 0.0 or eta[t] == 0.0:  # equal points, or no weight
                continue
            y_bar = new_distance(y, y_hat, eta[t])
            # A ← A + (ȳ - ŷ)/ŷ² (Az)(Az)ᵀ: the root of the factor goes to both sides, so that A stays symmetric.
            root = math.sqrt(abs(y_bar - y_hat) / unit) / y_hat
            # A power of two near √unit, which products are computed in units of: exact, and float32 has room for them.
            two = math.ldexp(1.0, math.frexp(unit)[1] // 2)
            alpha = (math.sqrt(y_bar / y_hat) - 1.0) / (y_hat * (unit / two / two))
            if not (root < np.inf and abs(alpha) < np.inf):
                continue
            sign = 1.0 if y_bar > y_hat else -1.0
            for i in range(d):
                rows[gain, i] = root * Az[p, i]
                narrow[0, i] = rows[p, i] / two
                narrow[1, i] = Az[p, i] / two
            for start in range(0, d, ROWS_AT_ONCE):
                stop = min(start + ROWS_AT_ONCE, d)
                for i in range(start, stop):
                    add_row(metric, i, sign * rows[gain, i], rows, gain)
                    block[i - start] = i
                some_row_dots(metric, block[: stop - start], rows, p + 1, n_ahead, Az)
            row_dots(W, narrow, 0, 1, P)
            for k in range(W.shape[0]):
                if P[0, k] != 0.0:
                    add_row(W, k, alpha * P[0, k], narrow, 1)
                    flips[t, k] = 1
                    n_moved[t] += 1
            if n_moved[t] > 0:
                step[t, 0] = eta[t]


@njit(nogil=True, cache=True)
def new_distance(y: float, y_hat: float, eta: float) -> float:
    """ȳ: the positive root of ηŷ ȳ² - (ηyŷ - 1) ȳ - ŷ = 0, in the form that does not cancel."""
    b = eta * y * y_hat - 1.0
    root = math.sqrt(b * b + 4.0 * eta * y_hat * y_hat)
    return (b + root) / (2.0 * eta * y_hat) if b > 0.0 else 2.0 * y_hat / (root - b)


@njit(nogil=True, cache=True)
def _enter(square: float, distances: np.ndarray, n_distances: np.ndarray) -> None:
    """A squared distance takes its place among the sorted ones, unless there are enough; one of zero has no scale."""
    at = n_distances[0]
    if at == distances.shape[0] or not 0.0 < square < np.inf:
        return
    n_distances[0] += 1
    while at > 0 and distances[at - 1] > square:
        distances[at] = distances[at - 1]
        at -= 1
    distances[at] = square
