"""Learners on shards, made one now and then, as plainly as it can be said: one process, one learner after the other."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np


def learn_on_shards(
    learner: Any,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    n_shards: int,
    every: int,
    together: int,
    combine: Any,
) -> np.ndarray:
    """W `(columns, n_inputs)` after all pairs, the first `together` of them learned by one learner.

    `combine` is np.mean or np.sum, of the changes that the shards made.
    """
    learner = copy.deepcopy(learner)
    start = together
    if start:
        learner.partial_fit_pairs(A[:start], B[:start], similar[:start])
    while start < len(A):
        stop = min(start + n_shards * every, len(A))
        copies = []
        for i in range(n_shards):
            shard = copy.deepcopy(learner)
            for t in range(start + (stop - start) * i // n_shards, start + (stop - start) * (i + 1) // n_shards):
                shard.learn_pair(A[t], B[t], similar[t])
            copies.append(shard)
        took_part = [shard for shard in copies if shard.n_pairs_seen_ > learner.n_pairs_seen_]
        state = learner.get_state()
        W = state["method"]["W"]
        state["method"]["W"] = W + combine([shard.get_state()["method"]["W"] - W for shard in took_part], axis=0)
        learner.set_state(state)
        start = stop
    return learner.get_state()["method"]["W"]
