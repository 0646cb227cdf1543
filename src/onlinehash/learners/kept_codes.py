"""Methods that settle the codes of items once, and from then on learn only how queries are encoded.

The first points of a stream decide the hash functions of items: their mean and their rotated principal directions, as
Iterative Quantization finds them. Everything learned later changes what a query's code is; the codes that an index
holds stay what they are, and nothing is ever computed again for an item.
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features.centring import longest
from onlinehash.io.format import like
from onlinehash.learners.buffer import Buffer, Column, Rows
from onlinehash.learners.encoder import Encoder, signs_of
from onlinehash.learners.iterative_quantization import rotated_directions
from onlinehash.learners.linear import LinearLearner
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import pad_rows
from onlinehash.numeric.signs import canonical_dots
from onlinehash.numeric.threads import one_thread
from onlinehash.types import State

#: Steps of Iterative Quantization, as its authors take.
N_ITERATIONS = 50


class KeptCodesLearner(LinearLearner):
    """`h(x) = sgn(Wᵀ(x - mean))` for items, settled by the first points; a method learns the codes of queries.

    Until `first_points` points have come, or `flush` is called, W is random, and pairs and labels wait with their
    points. A method fills in `_begin_queries`, `_waiting`, `_learn_waiting` and `_query_functions`.
    """

    centre, burn_in = "none", 1
    _keeps_mean = True

    first_points: int

    def _waiting(self) -> dict[str, Column]:
        """What is kept of a point that waits, beside the point: names, with the shape and dtype of a row."""
        raise NotImplementedError

    def _begin_queries(self) -> None:
        """Lay out what the method learns; W and the mean are settled."""
        raise NotImplementedError

    def _learn_waiting(self, rows: Rows, updates: Updates) -> None:
        """Learn what has waited, and write what it did into the one row of `updates`."""
        raise NotImplementedError

    def _query_functions(self) -> tuple[np.ndarray, np.ndarray]:
        """U, a row per sign of a query, on centred features; and V, a row per bit, which takes these signs."""
        raise NotImplementedError

    def _rules(self) -> dict[str, checks.Rule]:
        return {"first_points": checks.integer(2, 10**6)}

    # ------------------------------------------------------------------ the first points

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(rng.standard_normal((1, n_inputs, self.n_bits)))
        self._first: Buffer | None = Buffer(self.first_points, {"X": ((n_inputs,), self.dtype_)} | self._waiting())
        self._items: Encoder | None = None

    @property
    def are_codes_settled(self) -> bool:
        """Whether the codes of items will stay as they are, whatever follows."""
        return self.is_ready and self._first is None

    def _wait_with(self, updates: Updates, X: np.ndarray, **rows: np.ndarray) -> int:
        """Let points wait until there are enough: how many of them did. The last one tells what all of them did."""
        if self._first is None:
            return 0
        n = min(self._first.room, len(X))
        self._first.put(X=X[:n, : self._n_inputs], **{name: row[:n] for name, row in rows.items()})
        if not self._first.room:
            self._settle_codes(updates.view(slice(n - 1, n)))
        return n

    def _observe(self, X: np.ndarray, updates: Updates) -> None:
        nothing = {name: np.zeros((len(X), *shape), dtype) for name, (shape, dtype) in self._waiting().items()}
        self._wait_with(updates, X, **nothing)

    def _end_chunk(self, updates: Updates) -> None:
        if self._first is not None and self._first.count:
            self._settle_codes(updates)

    def _settle_codes(self, updates: Updates) -> None:
        assert self._first is not None
        rows, self._first = self._first.take(), None
        X = rows.X.astype(np.float64)
        self._mean = X.mean(axis=0)
        with one_thread():
            W = rotated_directions(X - self._mean, self.n_bits, N_ITERATIONS, np.random.default_rng([self._seed, 2]))
        self._W = pad_rows(W.T.astype(self.dtype_))
        updates.flips[0], updates.n_moved[0], updates.step[0] = 1, self._n_columns, 1.0
        self._begin_queries()
        self._learn_waiting(rows, updates)

    # ------------------------------------------------------------------ codes

    def _signs(self, X: np.ndarray) -> np.ndarray:
        """The codes that items of these features have, as rows of -1.0 and +1.0, padded."""
        if self._items is None:
            W, thresholds = self._functions()
            self._items = Encoder(W, thresholds, None, self._n_inputs, 1, self._fusion, 0, type(self).__name__)
        rows = np.ascontiguousarray(X[:, : self._n_inputs])
        return pad_rows(signs_of(self._items.codes_of(rows), np.dtype(np.float64)))

    def _query_encoders(self) -> tuple[Encoder, Encoder] | None:
        if self._first is not None:
            return None
        U, V = self._query_functions()
        rest = (1, self._fusion, self.version_, type(self).__name__)
        first = Encoder(U, canonical_dots(U, self._mean), self._map, self.n_features_in_, *rest)
        return first, Encoder(V, np.zeros(len(V)), None, V.shape[1], *rest)

    # ------------------------------------------------------------------ state

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {"first": None if self._first is None else self._first.get_state()}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        if state["first"] is None:
            self._first = None
            self._begin_queries()
        else:
            assert self._first is not None
            self._first.set_state(state["first"])


def within_reach(values: object, expected: np.ndarray, name: str) -> np.ndarray:
    """An array of a state, of this shape and dtype, with values whose squares do not overflow."""
    most = longest(expected.dtype)
    return like(values, expected, name, -most, most)
