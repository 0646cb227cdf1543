"""`ParallelModels`: teaches MMOH with its models on several processes, bit for bit as one process does.

A dissimilar pair moves every model with loss, each on its own; a similar one moves only the model of least loss, and
only about that must the processes agree.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from onlinehash import checks
from onlinehash.distributed.learning.crew import Crew
from onlinehash.distributed.learning.share import Block, Split
from onlinehash.errors import InvalidInput
from onlinehash.learners import multi_model
from onlinehash.learners.undo import undone_if_refused
from onlinehash.learners.update import Updates

#: Fewer pairs are learned by the first process alone, before the others could be told of them.
FEW_PAIRS = 32


class ParallelModels:
    """Processes that learn pairs for a `MultiModelOnlineHashing`.

        with ParallelModels(learner, n_processes=2) as teacher:
            teacher.learn_pairs(A, B, similar)

    After every call the learner is what its own `learn_pairs` would have made of it, to the byte. A call that fails
    leaves it as it was, also where a process was killed.

    Parameters
    ----------
    learner : MultiModelOnlineHashing
        Who learns; it can have learned before, and go on alone afterwards.
    n_processes : int, default=2
        This one and others, at most as many as there are models.
    """

    def __init__(self, learner: multi_model.MultiModelOnlineHashing, n_processes: int = 2) -> None:
        if type(learner) is not multi_model.MultiModelOnlineHashing:
            raise InvalidInput(
                "expected a MultiModelOnlineHashing, whose models can be shared out among processes, got "
                f"{type(learner).__name__}; other learners can be taught by learn_on_shards."
            )
        self.learner = learner
        self.n_processes = n_processes
        self._check_processes()
        self._crew = Crew(n_processes)

    def _check_processes(self) -> None:
        most = checks.integer(1, self.learner.n_models)
        checks.parameters("ParallelModels", {"n_processes": self.n_processes}, {"n_processes": most})

    def learn_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """`learn_pairs` of the learner: what each pair did."""
        return Updates.join(list(self._taught(A, B, similar, sample_weight)))

    def partial_fit_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Self:
        """`partial_fit_pairs` of the learner."""
        for _ in self._taught(A, B, similar, sample_weight):
            pass
        return self

    def _taught(self, *pairs: Any) -> Any:
        self._check_processes()
        self.learner.check_free()
        with undone_if_refused(self.learner, True):
            yield from MultiModelOnlineHashing.of(self.learner, self._crew)._take_pairs(*pairs)

    def close(self) -> None:
        """End the other processes."""
        self._crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class MultiModelOnlineHashing(multi_model.MultiModelOnlineHashing):
    """A learner, its whole `__dict__`, seen as one whose steps a crew takes; messages name it as ever."""

    __slots__ = ("_crew",)
    _crew: Crew

    @classmethod
    def of(cls, learner: multi_model.MultiModelOnlineHashing, crew: Crew) -> Self:
        view = cls.__new__(cls)
        view.__dict__ = learner.__dict__
        view._crew = crew
        return view

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        if self._crew.n_processes == 1 or len(A) < FEW_PAIRS:
            super()._learn(A, B, similar, weights, updates)
            return
        split = Split(self._crew.n_processes, self.n_models, self.n_bits, self._n_inputs, str(self.dtype_))
        self._crew.lay_out(split)
        self._write_board(A=A, B=B, similar=similar, C=self.C * weights)
        centring, medians = self._centring, self._medians
        done = self._crew.learn(
            Block(
                len(A),
                self.similar_radius,
                self._dissimilar_distance,
                self.n_rounds,
                int(centring.count[0]),
                centring.limit,
                self.centre == "median",
                int(medians.count[0]),
            )
        )
        if done.stopped_at >= 0:
            raise InvalidInput(f"expected finite values, got others in pair {done.stopped_at}.")
        centring.total[:], centring.count[:], centring.mean[:] = done.total, done.count, done.mean
        medians.count[:] = done.n_in_medians
        self._read_board(split, updates)

    def _write_board(self, **pairs: np.ndarray) -> None:
        board = self._crew.board
        for name, rows in pairs.items():
            board[name][: len(rows)] = rows
        for name, now in self._state_on_board().items():
            board[name][...] = now
        board["total"][:], board["mean"][:] = self._centring.total, self._centring.mean

    def _read_board(self, split: Split, updates: Updates) -> None:
        board, n = self._crew.board, len(updates)
        for name, now in self._state_on_board().items():
            now[...] = board[name]
        losses = np.empty((n, split.n_models))
        updates.moved[:] = board["moved 0"][:n]
        for p in range(split.n_processes):
            models, columns = split.models(p), split.columns(p)
            losses[:, models] = board[f"losses {p}"][:n]
            updates.step[:, models] = board[f"step {p}"][:n]
            updates.capped[:, models] = board[f"capped {p}"][:n]
            updates.flips[:, columns] = board[f"flips {p}"][:n]
            updates.n_moved += board[f"n_moved {p}"][:n]
        # One model after the other, as one process adds them up: another order rounds otherwise.
        updates.loss[:] = np.add.accumulate(losses, axis=1)[:, -1]

    def _state_on_board(self) -> dict[str, np.ndarray]:
        """What the processes change, each its part."""
        return {"W": self._W, "medians": self._medians.values, "spreads": self._medians.spreads}
