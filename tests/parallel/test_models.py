"""MMOH's models on several processes: the bytes of one process, and what happens when one is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from onlinehash import MultiModelOnlineHashing, OnlineHashing, RbfAnchors
from onlinehash.io.files import to_bytes
from onlinehash.parallel import ParallelModels
from onlinehash.parallel.crew import Crew
from onlinehash.parallel.models import FEW_PAIRS
from tests.strategies import TEXTURES, points
from tests.support import as_bytes, quietly, refused, refused_without_a_trace, thorough


@contextmanager
def crew_of(n_processes: int) -> Iterator[Crew]:
    """Processes for many cases, because they take longer to start than a case to run."""
    crew = Crew(n_processes)
    try:
        yield crew
    finally:
        crew.close()


def teacher_of(learner: MultiModelOnlineHashing, crew: Crew) -> ParallelModels:
    """One that takes processes that are there."""
    teacher = ParallelModels(learner, n_processes=1)
    teacher.close()
    teacher.n_processes, teacher._crew = crew.n_processes, crew
    return teacher


def case(seed: int) -> tuple[dict, list[tuple[np.ndarray, ...]]]:
    """Parameters and batches of pairs; some batches are too small to be worth a word to other processes."""
    rng = np.random.default_rng(seed)
    d, dtype = int(rng.integers(1, 40)), (np.float32, np.float64)[seed % 2]
    n_bits = int(rng.integers(1, 20))
    params = {
        "n_bits": n_bits,
        "n_models": int(rng.integers(3, 7)),
        "centre": ("burn-in", "running", "median", "none")[seed % 4],
        "burn_in": int(rng.integers(1, 300)),
        "similar_radius": int(rng.integers(0, 2)),
        "dissimilar_ratio": float(rng.choice([0.4, 0.55, 1.0])),
        "C": float(rng.choice([0.01, 0.1, 1.0])),
        "n_rounds": int(rng.choice([1, 1, 3])),
        "features": RbfAnchors(int(rng.integers(2, 30))) if seed % 3 == 0 else None,
        "random_state": seed,
    }
    batches = []
    for n in rng.choice([1, 5, 40, 200, 1500], size=3):
        A, B = (points(rng, TEXTURES[seed % 4], n, d, dtype) for _ in range(2))
        batches.append((A, B, rng.random(n) < rng.choice([0.0, 0.1, 0.5, 1.0]), rng.choice([0.0, 0.5, 1.0], size=n)))
    return params, batches


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("n_processes", [2, 3])
def test_bytes_and_updates_are_those_of_one_process(n_processes):
    moved_by: set[int] = set()
    with crew_of(n_processes) as crew:
        for seed in range(thorough(10, 50)):
            params, batches = case(seed)
            alone, shared = MultiModelOnlineHashing(**params), MultiModelOnlineHashing(**params)
            teacher = teacher_of(shared, crew)
            for batch in batches:
                expected, got = quietly(alone.learn_pairs, *batch), quietly(teacher.learn_pairs, *batch)
                assert as_bytes(list(vars(got).values())) == as_bytes(list(vars(expected).values())), seed
                if len(batch[0]) >= FEW_PAIRS:
                    moved_by |= {int(m) for m in np.nonzero(got.step[batch[2]])[1]}
            assert to_bytes(shared) == to_bytes(alone), seed
            quietly(alone.partial_fit_pairs, *batches[0])
            quietly(shared.partial_fit_pairs, *batches[0])
            assert to_bytes(shared) == to_bytes(alone), f"{seed}, going on alone"
        assert moved_by >= {0, 1, 2, 3}, "the cases do not make processes meet at similar pairs"
        check_that_values_that_are_not_finite_are_refused(crew)


def check_that_values_that_are_not_finite_are_refused(crew: Crew) -> None:
    """As by one process, and the crew goes on."""
    params, _ = case(1)
    A, B = np.random.default_rng(0).standard_normal((2, 6000, 7))
    learner = MultiModelOnlineHashing(**params).partial_fit_pairs(A[:100], B[:100], A[:100, 0] > 0)
    B[5000, 3] = np.inf
    teacher = teacher_of(learner, crew)
    error = refused_without_a_trace(learner, teacher.learn_pairs, A, B, A[:, 0] > 0)
    assert str(error) == str(refused(learner.learn_pairs, A, B, A[:, 0] > 0))
    B[5000, 3] = 0.0
    alone = MultiModelOnlineHashing(**params)
    alone.set_state(learner.get_state())
    teacher.partial_fit_pairs(A, B, A[:, 0] > 0)
    assert to_bytes(learner) == to_bytes(alone.partial_fit_pairs(A, B, A[:, 0] > 0))


def test_what_it_cannot_share_out_is_refused():
    assert "OnlineHashing" in str(refused(ParallelModels, OnlineHashing()))
    for n in (0, 5, 1.5):
        assert "n_processes" in str(refused(ParallelModels, MultiModelOnlineHashing(n_models=4), n))


@pytest.mark.long
def test_a_killed_process_is_one_sentence_and_the_learner_stays():
    A, B = np.random.default_rng(0).standard_normal((2, 20_000, 64)).astype(np.float32)
    similar = np.arange(len(A)) % 2 == 0
    learner = MultiModelOnlineHashing(32, n_models=4, random_state=0).partial_fit_pairs(A[:500], B[:500], similar[:500])
    with ParallelModels(learner, 3) as teacher:
        teacher.partial_fit_pairs(A[:1000], B[:1000], similar[:1000])
        origin = learner.origin
        blocks = iter(range(100))
        learn = teacher._crew._learn

        def kill_one_in_the_third_block(*args):
            if next(blocks) == 2:
                os.kill(teacher._crew._others[1].pid, signal.SIGKILL)
            return learn(*args)

        teacher._crew._learn = kill_one_in_the_third_block
        error = refused_without_a_trace(learner, teacher.learn_pairs, A, B, similar)
        assert "-9" in str(error)
        assert learner.origin is origin
        assert all(process.exitcode is not None for process in teacher._crew._others)
        assert "closed" in str(refused_without_a_trace(learner, teacher.learn_pairs, A, B, similar))
    learner.partial_fit_pairs(A, B, similar)
