"""`Taught`: what a learner has been taught so far, in a few numbers."""

from __future__ import annotations

from typing import NamedTuple, Self

from onlinehash.learners.base import Learner


class Taught(NamedTuple):
    """How far a learner has come.

    n_pairs : the pairs that it has seen.
    n_ranking : the pairs that the metric behind the order of `find` has learned from.
    n_waiting : the pairs that wait for their chunk to fill.
    n_features : the width of vectors; 0 before the first.
    version : that of its hash functions; -1 before its first rows.
    """

    n_pairs: int = 0
    n_ranking: int = 0
    n_waiting: int = 0
    n_features: int = 0
    version: int = -1

    @classmethod
    def of(cls, learner: Learner) -> Self:
        """What this learner has been taught by now."""
        metric = learner.pair_metric_
        return cls(
            int(getattr(learner, "n_pairs_seen_", 0)),
            0 if metric is None else metric.n_pairs,
            int(getattr(learner, "n_rows_waiting_", 0)) if pairs_at_a_time(learner) > 1 else 0,
            int(getattr(learner, "n_features_in_", 0)),
            int(getattr(learner, "version_", -1)),
        )


def pairs_at_a_time(learner: Learner) -> int:
    """Number of pairs that the learner learns at a time."""
    in_chunks = learner.traits.unit == "chunk" and learner.traits.learns_from == "pairs"
    return int(getattr(learner, "chunk_size", 1)) if in_chunks else 1  # without `get_params`, which takes 40 us
