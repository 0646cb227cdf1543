"""MMOH's models on several processes: the bytes of one process."""

from __future__ import annotations

import numpy as np

from onlinehash import MultiModelOnlineHashing, OnlineHashing
from onlinehash.io.files import to_bytes
from onlinehash.parallel import ParallelModels
from tests.support import as_bytes, refused, refused_without_a_trace


def test_bytes_and_updates_are_those_of_one_process():
    """Also where a batch is too small to be worth a word to the other process, and where one is refused."""
    A, B = np.random.default_rng(0).standard_normal((2, 3000, 7))
    similar = A[:, 0] * B[:, 0] > 0
    alone, shared = (MultiModelOnlineHashing(8, n_models=3, random_state=0) for _ in range(2))
    with ParallelModels(shared, n_processes=2) as teacher:
        for rows in (slice(0, 5), slice(5, 2000), slice(2000, 3000)):
            expected = alone.learn_pairs(A[rows], B[rows], similar[rows])
            got = teacher.learn_pairs(A[rows], B[rows], similar[rows])
            assert as_bytes(list(vars(got).values())) == as_bytes(list(vars(expected).values()))
        assert to_bytes(shared) == to_bytes(alone)
        wrong = B.copy()
        wrong[2500, 3] = np.inf
        error = refused_without_a_trace(shared, teacher.learn_pairs, A, wrong, similar)
        assert str(error) == str(refused(alone.learn_pairs, A, wrong, similar))
    alone.partial_fit_pairs(A, B, similar)
    assert to_bytes(shared.partial_fit_pairs(A, B, similar)) == to_bytes(alone)


def test_what_it_cannot_share_out_is_refused():
    assert "OnlineHashing" in str(refused(ParallelModels, OnlineHashing()))
    for n in (0, 5, 1.5):
        assert "n_processes" in str(refused(ParallelModels, MultiModelOnlineHashing(n_models=4), n))
