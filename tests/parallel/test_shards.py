"""Learners on shards: what is refused. That they learn, the examples of docs/how-to/parallel.md show."""

from __future__ import annotations

import numpy as np

from onlinehash.parallel import learn_on_shards
from tests.support import Pairs, make, pairs, refused, refused_without_a_trace


def arrays(stream: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return stream.A, stream.B, stream.similar


def test_what_cannot_be_learned_on_shards_is_refused_before_anything_is_learned():
    A, B, similar = arrays(pairs(600))
    learner = make("OnlineHashing").partial_fit_pairs(A, B, similar)
    wrong = A.copy()
    wrong[500, 2] = np.nan
    for given in ((wrong, B, similar), (A, B[:, :4], similar), (A[:, :4], B[:, :4], similar), (A, B[:500], similar)):
        refused_without_a_trace(learner, lambda given=given: learn_on_shards(learner, *given, n_shards=2, every=9))
    for name in ("n_shards", "every", "n_processes", "combine"):
        numbers = {"n_shards": 2, "every": 9, "n_processes": 1} | {name: 0}
        error = refused_without_a_trace(
            learner, lambda numbers=numbers: learn_on_shards(learner, A, B, similar, **numbers)
        )
        assert name in str(error)
    assert "SmoothPair" in str(
        refused(lambda: learn_on_shards(make("SmoothPairHashing"), A, B, similar, n_shards=2, every=9))
    )
