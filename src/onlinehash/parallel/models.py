"""`ParallelModels`: teaches MMOH with its models on several processes, bit for bit as one process does.

A dissimilar pair moves every model with loss, each on its own; a similar one moves only the model of least loss, and
only about that must the processes agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.learners.base import LearnPairs
from onlinehash.learners.multi_model import MultiModelOnlineHashing
from onlinehash.learners.online_hashing import Model, dissimilar_distance
from onlinehash.learners.update import Updates
from onlinehash.parallel.crew import Crew
from onlinehash.parallel.share import Block, Split

#: Fewer pairs are learned by the first process alone, before the others could be told of them.
FEW_PAIRS = 32


class ParallelModels:
    """Processes that learn pairs for a `MultiModelOnlineHashing`.

    After every call the learner is what its own `learn_pairs` would have made of it, to the byte. A call that fails
    leaves it as it was, also where a process was killed.

    Parameters
    ----------
    learner : MultiModelOnlineHashing
        The learner to teach; it can have learned before, and go on alone afterwards.
    n_processes : int, default=2
        This process and others, at most as many as there are models.

    Raises
    ------
    InvalidInput
        If the learner is of another method.
    InvalidParameter
        If there are more processes than models.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import MultiModelOnlineHashing
    >>> from onlinehash.parallel import ParallelModels
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 8))
    >>> similar = A[:, 0] * B[:, 0] > 0
    >>> together = MultiModelOnlineHashing(n_bits=8, n_models=2, random_state=0)
    >>> with ParallelModels(together, n_processes=2) as teacher:
    ...     losses = teacher.learn_pairs(A, B, similar).loss
    >>> alone = MultiModelOnlineHashing(n_bits=8, n_models=2, random_state=0).partial_fit_pairs(A, B, similar)
    >>> together.encode(A) == alone.encode(A)
    True
    """

    def __init__(self, learner: MultiModelOnlineHashing, n_processes: int = 2) -> None:
        if type(learner) is not MultiModelOnlineHashing:
            raise InvalidInput(
                expected="a MultiModelOnlineHashing, whose models can be shared out among processes",
                got=type(learner).__name__,
                hint="other learners can be taught by learn_on_shards",
            )
        self.learner = learner
        self.n_processes = n_processes
        self._check_processes()
        self._crew = Crew(n_processes)

    def _check_processes(self) -> None:
        most = checks.integer(1, self.learner.n_models)
        checks.parameters("ParallelModels", {"n_processes": self.n_processes}, {"n_processes": most})

    def learn_pairs(
        self, A: ArrayLike, B: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        """Teach the learner pairs, as its own `learn_pairs` would.

        Parameters
        ----------
        A, B, similar, sample_weight
            As in `Learner.partial_fit_pairs`.

        Returns
        -------
        Updates
            What each pair did.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing is learned then.
        OnlineHashError
            If one of the processes was killed; nothing is learned then.
        """
        return Updates.join(list(self._taught(A, B, similar, sample_weight)))

    def partial_fit_pairs(
        self, A: ArrayLike, B: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Teach the learner pairs, as its own `partial_fit_pairs` would.

        Parameters
        ----------
        A, B, similar, sample_weight
            As in `Learner.partial_fit_pairs`.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput, OnlineHashError
            As in `learn_pairs`.
        """
        for _ in self._taught(A, B, similar, sample_weight):
            pass
        return self

    def _taught(
        self, A: ArrayLike, B: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None
    ) -> Iterator[Updates]:
        self._check_processes()
        self.learner.check_free()
        return self.learner.learn_pairs_by(self._step, A, B, similar, sample_weight)

    def _step(
        self,
        learn: LearnPairs,
        A: np.ndarray,
        B: np.ndarray,
        similar: np.ndarray,
        weights: np.ndarray,
        updates: Updates,
    ) -> None:
        """A block of pairs, each process with its models."""
        learner, crew, model = self.learner, self._crew, self.learner.model()
        if crew.n_processes == 1 or len(A) < FEW_PAIRS:
            learn(A, B, similar, weights, updates)
            return
        split = Split(crew.n_processes, learner.n_models, learner.n_bits, A.shape[1], str(learner.dtype_))
        crew.lay_out(split)
        self._write_board(model, A=A, B=B, similar=similar, C=learner.C * weights)
        centring, medians = model.centring, model.medians
        done = crew.learn(
            Block(
                len(A),
                learner.similar_radius,
                dissimilar_distance(learner.dissimilar_ratio, learner.n_bits),
                learner.n_rounds,
                int(centring.count[0]),
                centring.limit,
                learner.centre == "median",
                int(medians.count[0]),
            )
        )
        if done.stopped_at >= 0:
            raise InvalidInput(expected="finite values", got=f"others in pair {done.stopped_at}")
        centring.total[:], centring.count[:], centring.mean[:] = done.total, done.count, done.mean
        medians.count[:] = done.n_in_medians
        self._read_board(model, split, updates)

    def _write_board(self, model: Model, **pairs: np.ndarray) -> None:
        board = self._crew.board
        for name, rows in pairs.items():
            board[name][: len(rows)] = rows
        for name, array in _changed_by_processes(model).items():
            board[name][...] = array
        board["total"][:], board["mean"][:] = model.centring.total, model.centring.mean

    def _read_board(self, model: Model, split: Split, updates: Updates) -> None:
        board, n = self._crew.board, len(updates)
        for name, array in _changed_by_processes(model).items():
            array[...] = board[name]
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

    def close(self) -> None:
        """End the other processes."""
        self._crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _changed_by_processes(model: Model) -> dict[str, np.ndarray]:
    """What the processes change, each its part, by its name on the board."""
    return {"W": model.W, "medians": model.medians.values, "spreads": model.medians.spreads}
