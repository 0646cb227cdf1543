"""Methods that learn many rows at once: they wait in a buffer until their chunk is full.

Codes are those of finished chunks. Any split of a stream fills the chunks alike, so it gives the same bytes; `flush`
ends a chunk early.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import numpy as np

from onlinehash.learners.buffer import Buffer, Column, Rows
from onlinehash.learners.linear import LinearLearner
from onlinehash.learners.pair_kernels import put_aside, similarity_losses
from onlinehash.learners.update import Update, Updates
from onlinehash.numeric.threads import one_thread
from onlinehash.types import State


class ChunkLearner(LinearLearner):
    """A method fills in `_learn_chunk`, calls `_lay_out_chunk` in `_begin`, and, if it knows the loss of a pair when it
    arrives, `_limits`.

    What a chunk did is told by the pair or point that filled it. A single pair that only waits does not come to
    `_learn`.
    """

    chunk_size: int

    #: Whether all of a chunk is learned with BLAS on one thread; else a method sees to that where it uses BLAS.
    _is_by_blas: ClassVar[bool] = True

    def _learn_chunk(self, chunk: Rows) -> np.ndarray | None:
        """Learn the rows of a chunk (`A, B, similar, weights`, or `X, members`, or `X`): the columns that changed, None
        if there are none.

        Features are centred. There are `chunk_size` rows, fewer after `flush`. BLAS runs on one thread here (unless the
        method does without), so the same rows always give the same result.
        """
        raise NotImplementedError

    def _limits(self) -> tuple[float, float]:
        """Within which distance codes of similar pairs should be, and from which on those of dissimilar ones: what the
        loss of a pair is counted from. As it is here, no pair has any."""
        return math.inf, 0.0

    def _lay_out_chunk(self, n_inputs: int) -> None:
        point = ((n_inputs,), self.dtype_)
        columns: dict[str, dict[str, Column]] = {
            "pairs": {"A": point, "B": point, "similar": ((), np.int8), "weights": ((), np.float64)},
            "labels": {"X": point, "members": ((1,), np.int64)},
            "nothing": {"X": point},
        }
        self._chunk = Buffer(self.chunk_size, columns[self.traits.learns_from])

    @property
    def n_rows_waiting_(self) -> int:
        """Pairs or points that wait for their chunk to fill."""
        return self._chunk.count if hasattr(self, "_chunk") else 0

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        if self.traits.learns_from == "nothing":
            super()._learn(A, B, similar, weights, updates)
            return
        start = 0
        with self._one_thread():  # once for all chunks
            while start < len(A):
                rows = slice(start, min(start + self._chunk.room, len(A)))
                pairs = {"A": A[rows], "B": B[rows], "similar": similar[rows]}
                similarity_losses(self._W, **pairs, limits=self._limits(), losses=updates.loss[rows])
                self._fill(updates, rows.stop - 1, **pairs, weights=weights[rows])
                start = rows.stop

    def _learn_alone(self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray) -> Update:
        """Most pairs only wait for their chunk to fill."""
        if self.traits.learns_from != "pairs" or self._chunk.room < 2 or not self.mean_is_frozen:
            return super()._learn_alone(A, B, s, w)
        X, Y = self._mapped(A, B)
        at, rows = self._chunk.next_row()
        chunk = rows["A"], rows["B"], rows["similar"], rows["weights"]
        loss = put_aside(X, Y, s, w, self._centring.mean, self._W, self._limits(), at, *chunk)
        return self._leave_unchanged(A, B, s, w, loss)

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        start = 0
        while start < len(X):
            rows = slice(start, min(start + self._chunk.room, len(X)))
            self._fill(updates, rows.stop - 1, X=X[rows, : self._n_inputs], members=members[rows])
            start = rows.stop

    def _observe(self, X: np.ndarray, updates: Updates) -> None:
        if self.traits.learns_from != "nothing":
            super()._observe(X, updates)
            return
        start = 0
        while start < len(X):
            rows = slice(start, min(start + self._chunk.room, len(X)))
            self._fill(updates, rows.stop - 1, X=X[rows, : self._n_inputs])
            start = rows.stop

    def _fill(self, updates: Updates, last: int, **rows: np.ndarray) -> None:
        """Put rows that fit into the chunk, and learn it if that fills it; row `last` of `updates` tells of it."""
        self._chunk.put(**rows)
        if not self._chunk.room:
            self._learn_rows(self._chunk.take(), updates, last)

    def _end_chunk(self, updates: Updates) -> None:
        if self._chunk.count:
            self._learn_rows(self._chunk.take(), updates, 0)

    def _learn_rows(self, rows: Rows, updates: Updates, t: int) -> None:
        """Learn the rows of a chunk, and record what they did in row t of `updates`."""
        with self._one_thread():
            changed = self._learn_chunk(rows)
        if changed is not None and (n_moved := np.count_nonzero(changed)):
            updates.flips[t], updates.n_moved[t], updates.step[t] = changed, n_moved, self._step_of_chunk()
        updates.loss[t] += self._loss_of_chunk()

    def _one_thread(self) -> AbstractContextManager[None]:
        return one_thread() if self._is_by_blas else nullcontext()

    def _step_of_chunk(self) -> float:
        """How far the last chunk moved the functions, in the method's own measure; not zero."""
        return 1.0

    def _loss_of_chunk(self) -> float:
        """The loss of the last chunk, for methods that cannot tell the loss of a row when it arrives."""
        return 0.0

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {"chunk": self._chunk.get_state()}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        self._chunk.set_state(state["chunk"], len(self._classes))
