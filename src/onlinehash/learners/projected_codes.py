"""Online hashing with efficient updating of binary codes (OHWEU).

Zhenyu Weng, Yuesheng Zhu: *Online Hashing with Efficient Updating of Binary Codes*. AAAI Conference on Artificial
Intelligence, 2020 (arXiv 1911.12125).

The hash functions of items are fixed. In the paper two projections learn, both into a third binary space in which every
class has a random code: one of the vectors of queries, and one of the items' codes. Whenever the second one changes,
all codes are projected anew, at r² operations each instead of a hash of the vector.

Readings taken, from the authors' released code where the abstract and the introduction leave a choice:
- A label has a random direction; a point aims at the signs of the sum of its labels' directions.
- The step is min(C, 1 - t_k w_kᵀx / |x|²), which is below zero where the projection is beyond |x|²: that is least
  squares with a bound on one side.
- Items are hashed by Iterative Quantization of the first points: 300 in the released code, 1,000 here.

Departures:
- Nothing at all is computed for items: the second projection P goes the other way, from the third space to the items'
  codes. It learns which code items with a query's labels have. That costs 0.05 of mean average precision
  against the paper's search at 64 bits, and nothing at 32 (CIFAR-10, MNIST; `benchmarks/kept_codes.py`).
- A query's own code h(x) counts a little, so that queries have the codes of items until labels come.
- Q and P begin as zeros; the released code draws both at random.
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.learners.base import Traits
from onlinehash.learners.buffer import Column, Rows
from onlinehash.learners.kept_codes import KeptCodesLearner, within_reach
from onlinehash.learners.label_kernels import Trace, load_unit_point, move_row, trace_of
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import aligned_zeros, pad_rows, row_dots
from onlinehash.numeric.kernels import njit
from onlinehash.types import RandomState, State

#: What a query's own code counts, in units of what the projection of an item with its labels comes to.
OWN_SHARE = 0.1


class ProjectedCodesHashing(KeptCodesLearner):
    """Keeps the codes of items, and learns from labels how to carry a query to them.

    The hash functions h of items are those of Iterative Quantization of the first points. A point x of unit length
    with the code b = h(x) and the targets t, the signs of its labels' random directions, moves two projections: Q from
    vectors to targets, and P from targets to codes of items:

        q_k ← q_k + min(C, 1 - t_k q_kᵀx) t_k x
        p_k ← p_k + min(C, 1 - b_k p_kᵀt / r) b_k t

        code of an item: h(x)          code of a query: sgn(P sgn(Qᵀx) + 0.1 r h(x))

    All bits of queries change with every point, and no bit of an item ever does. The loss of a point is the sum of
    max(0, 1 - t_k q_kᵀx).

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    C : float, default=0.1
        The largest step.
    first_points : int, default=1000
        Points that settle the hash functions of items.
    features, random_state
        As for every learner: see `Learner`. The method keeps its own mean, so there is no `centre`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import ProjectedCodesHashing
    >>> X = np.random.default_rng(0).standard_normal((300, 16))
    >>> learner = ProjectedCodesHashing(n_bits=8, first_points=100, random_state=0).observe(X[:100])
    >>> before = learner.encode(X)
    >>> learner.partial_fit(X, X[:, 0] > 0).encode(X) == before
    True
    >>> learner.encode_queries(X) == before
    False
    """

    traits = Traits(learns_from="labels", unit="point", several_labels=True, keeps_codes=True)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        C: float = 0.1,
        first_points: int = 1000,
        features: Transformer | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.C = C
        self.first_points = first_points
        self.features = features
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return super()._rules() | {"C": checks.real(0, above=True)}

    def _waiting(self) -> dict[str, Column]:
        return {"targets": ((self.n_bits,), np.int8)}  # zeros for a point without labels

    def _begin_queries(self) -> None:
        self._Q = np.zeros_like(self._W)
        self._P = aligned_zeros((self.n_bits, self.n_bits), np.float64)

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        targets = self._targets(members)
        n = self._wait_with(updates, X, targets=targets)
        if n < len(X):
            self._learn_points(X[n:], targets[n:], updates.view(slice(n, None)))

    def _targets(self, members: np.ndarray) -> np.ndarray:
        """t: the signs of the sum of the directions of each point's labels."""
        directions = np.zeros((int(members.max()) + 2, self.n_bits))  # the last one is that of no label, -1
        for label in np.unique(members[members >= 0]):
            directions[label] = np.random.default_rng([self._seed, 3, label]).standard_normal(self.n_bits)
        sums = np.zeros((len(members), self.n_bits))
        for column in members.T:
            sums += directions[column]
        targets: np.ndarray = np.sign(sums).astype(np.int8)
        return targets

    def _learn_waiting(self, rows: Rows, updates: Updates) -> None:
        some = rows.targets.any(axis=1)
        done = Updates.empty(int(some.sum()), 1, self.n_bits)
        self._learn_points(rows.X[some], rows.targets[some], done)
        for loss, step in zip(done.loss, done.step, strict=True):  # one after the other, as a loop adds them
            updates.loss[0] += loss
            updates.step[0] = step

    def _learn_points(self, X: np.ndarray, targets: np.ndarray, updates: Updates) -> None:
        Z = pad_rows((X[:, : self._n_inputs] - self._mean).astype(self.dtype_))
        _learn(self._Q, self._P, Z, self._signs(X), targets, float(self.C), trace_of(updates))

    def _query_functions(self) -> tuple[np.ndarray, np.ndarray]:
        U = np.concatenate([self._Q, self._W])[:, : self._n_inputs]
        return U, np.hstack([self._P[:, : self.n_bits], OWN_SHARE * self.n_bits * np.eye(self.n_bits)])

    def _get_method_state(self) -> State:
        state = super()._get_method_state()
        if self._first is None:
            state |= {"Q": self._Q[:, : self._n_inputs].copy(), "P": self._P[:, : self.n_bits].copy()}
        return state

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        if self._first is None:
            self._Q = pad_rows(within_reach(state["Q"], self._Q[:, : self._n_inputs], "Q"))
            self._P = pad_rows(within_reach(state["P"], self._P[:, : self.n_bits], "P"))


@njit(nogil=True, cache=True)
def _learn(
    Q: np.ndarray, P: np.ndarray, Z: np.ndarray, codes: np.ndarray, targets: np.ndarray, C: float, trace: Trace
) -> None:
    """Points one by one: centred features, the codes of items like them, and their targets, zero for no label."""
    r = Q.shape[0]
    x, u = np.zeros((1, Q.shape[1]), Q.dtype), np.empty((1, r), Q.dtype)
    t, v = np.zeros((1, P.shape[1])), np.empty((1, r))
    for n in range(Z.shape[0]):
        if targets[n, 0] == 0 or not load_unit_point(Z, n, x):
            continue
        for k in range(r):
            t[0, k] = targets[n, k]
        row_dots(Q, x, 0, 1, u)
        row_dots(P, t, 0, 1, v)
        moved = False
        for k in range(r):
            b, gap = codes[n, k], 1.0 - t[0, k] * u[0, k]
            trace.loss[n] += max(0.0, gap)
            moved |= move_row(Q, k, min(C, gap) * t[0, k], x)
            moved |= move_row(P, k, min(C, 1.0 - b * v[0, k] / r) * b, t)
        if moved:
            trace.flips[n] = 1
            trace.n_moved[n] = r
            trace.step[n, 0] = C
