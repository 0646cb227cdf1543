"""`learn_on_shards`: several learners, each on its part of the pairs, made one now and then.

A round takes `n_shards * every` pairs: shard i learns the i-th `every` of them, all beginning with the same learner,
and what comes out, made one (see `averaging`), begins the next round. The result depends on the pairs, on `n_shards`,
`every` and `combine`, not on how many processes do the work.

The first pairs are learned by one learner alone, until its feature map has its anchors and its mean is frozen: all
shards need the same.
"""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import OnlineHashError
from onlinehash.learners.online_hashing import OnlineHashing
from onlinehash.parallel.averaging import Combined, check_can_be_combined, combined
from onlinehash.parallel.helpers import live_for_parent
from onlinehash.parallel.shared_arrays import Layout, SharedArrays
from onlinehash.types import State

#: Pairs that one learner takes at a time, until the shards can part.
TOGETHER = 256


def learn_on_shards(
    learner: Combined,
    A: ArrayLike,
    B: ArrayLike,
    similar: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    n_shards: int,
    every: int,
    combine: str = "sum",
    n_processes: int | None = None,
) -> Combined:
    """Teach a learner pairs by several copies of it, which are combined into one now and then.

    Parameters
    ----------
    learner : OnlineHashing or MultiModelOnlineHashing
        The learner to teach.
    A, B, similar, sample_weight
        As in `Learner.partial_fit_pairs`.
    n_shards : int
        Copies that learn side by side.
    every : int
        Pairs that each copy learns before they are combined.
    combine : {"sum", "average"}, default="sum"
        Whether the changes of the copies are added up, or averaged.
    n_processes : int or None, default=None
        Processes that share the work; None takes one for each shard.

    Returns
    -------
    learner

    Raises
    ------
    InvalidInput, InvalidParameter
        If the learner is of another method, or values, shapes or parameters do not fit.
    OnlineHashError
        If one of the processes was killed.

    A call that fails leaves the learner as it was.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> from onlinehash.parallel import learn_on_shards
    >>> A, B = np.random.default_rng(0).standard_normal((2, 2000, 8))
    >>> learner = OnlineHashing(n_bits=8, burn_in=500, random_state=0)
    >>> learn_on_shards(learner, A, B, A[:, 0] * B[:, 0] > 0, n_shards=2, every=100).n_pairs_seen_
    2000
    """
    check_can_be_combined(learner)
    learner.check_free()
    n_processes = n_shards if n_processes is None else n_processes
    given = {"n_shards": n_shards, "every": every, "n_processes": n_processes}
    rules = dict.fromkeys(given, checks.integer(1)) | {"combine": checks.one_of("sum", "average")}
    checks.parameters("learn_on_shards", given | {"combine": combine}, rules)
    first = copy.deepcopy(learner)
    pairs = _checked(first, A, B, similar, sample_weight)
    n_together = _learn_together(first, pairs)
    state = first.get_state()
    if n_together < len(pairs[0]):
        rounds = list(_rounds(n_together, len(pairs[0]), n_shards, every))
        state = _learn_rounds(first, pairs, rounds, combine, min(n_processes, n_shards))
    learner.set_state(state)
    return learner


def _checked(
    learner: Combined, A: ArrayLike, B: ArrayLike, similar: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, ...]:
    """All that a learner would refuse is refused before anything is learned."""
    dtype = getattr(learner, "dtype_", None)
    A, B = checks.vectors(A, "A", dtype), checks.vectors(B, "B", dtype)
    checks.same_length("B", len(B), len(A), "A")
    checks.width(B, A.shape[1], "its partner A", "B")
    if hasattr(learner, "n_features_in_"):
        checks.width(A, learner.n_features_in_, type(learner).__name__, "A")
    if A.dtype != B.dtype:
        A, B = A.astype(np.float64, copy=False), B.astype(np.float64, copy=False)
    return A, B, checks.similarities(similar, len(A)), checks.weights(sample_weight, len(A))


def _learn_together(learner: Combined, pairs: tuple[np.ndarray, ...]) -> int:
    """Teach one learner until shards can part from it; how many pairs that took."""
    start = 0
    while start < len(pairs[0]) and not _can_part(learner):
        rows = slice(start, start + TOGETHER)
        learner.partial_fit_pairs(*(array[rows] for array in pairs))
        start = min(rows.stop, len(pairs[0]))
    return start


def _can_part(learner: Combined) -> bool:
    """Whether features and mean are final; a mean that never is ("running") is pooled."""
    return bool(learner.mean_is_frozen or (learner.is_ready and learner.centre == "running"))


def _rounds(start: int, stop: int, n_shards: int, every: int) -> Iterator[list[slice]]:
    """The rows of each shard, round by round; the last round shares out what is left."""
    while start < stop:
        end = min(start + n_shards * every, stop)
        cuts = start + (end - start) * np.arange(n_shards + 1) // n_shards
        yield [slice(int(a), int(b)) for a, b in pairwise(cuts) if a < b]
        start = end


# ------------------------------------------------------------------ on processes


def _learn_rounds(
    learner: Combined, pairs: tuple[np.ndarray, ...], rounds: list[list[slice]], combine: str, n_processes: int
) -> State:
    """The state after all rounds."""
    most = rounds[0][-1].stop - rounds[0][0].start
    layout = {name: ((most, *array.shape[1:]), str(array.dtype)) for name, array in zip("ABsw", pairs, strict=True)}
    context = multiprocessing.get_context("spawn")
    state = learner.get_state()
    with SharedArrays(layout) as board:
        pool = ProcessPoolExecutor(n_processes, context, _begin, (learner, layout, board.name))
        try:
            for shards in rounds:
                start, stop = shards[0].start, shards[-1].stop
                for name, array in zip("ABsw", pairs, strict=True):
                    board[name][: stop - start] = array[start:stop]
                parts = [pool.submit(_learn, state, rows.start - start, rows.stop - start) for rows in shards]
                state = combined([part.result() for part in parts], state, combine)
        except BrokenProcessPool:
            raise OnlineHashError(
                "one of the processes that learn the shards was killed, possibly for lack of memory; the learner is as "
                "it was before the call: pass the pairs again, perhaps with fewer processes."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
    return state


@dataclass(frozen=True)
class _Worker:
    """What a process keeps between rounds."""

    learner: OnlineHashing
    board: SharedArrays


_worker: _Worker


def _begin(learner: Combined, layout: Layout, name: str) -> None:
    """A process keeps a learner to work with, and sees the pairs of each round."""
    live_for_parent()
    global _worker
    _worker = _Worker(learner, SharedArrays(layout, name))


def _learn(state: State, start: int, stop: int) -> State:
    """One shard of one round."""
    learner, board = _worker.learner, _worker.board
    learner.set_state(state)
    learner.partial_fit_pairs(*(board[name][start:stop] for name in "ABsw"))
    return learner.get_state()
