"""BLAS on one thread: some limits belong to the process, and several threads ask for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from onlinehash.numeric import threads
from onlinehash.numeric.threads import one_thread

ROOT = Path(__file__).parents[2]


class Library:
    """A BLAS of four threads, and the part of threadpoolctl that limits it."""

    lib_controllers = (None,)

    def __init__(self) -> None:
        self.n_threads, self.n_calls = 4, 0

    def limit(self, *, limits: int, user_api: str) -> Library:
        assert user_api == "blas"
        self.n_threads, self.n_calls = limits, self.n_calls + 1
        return self

    def restore_original_limits(self) -> None:
        self.n_threads = 4

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.restore_original_limits()


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One with a limit for each thread, of which this sees one only, and one with a limit for the process."""
    libraries = threads._Libraries(Library(), Library())
    monkeypatch.setattr(threads, "_libraries", lambda: libraries)
    return libraries


def test_the_limit_ends_with_the_outermost_block(libraries: Any) -> None:
    with one_thread():
        with one_thread():
            assert [library.n_threads for library in libraries] == [1, 1]
        assert [library.n_threads for library in libraries] == [1, 1]
    assert [(library.n_threads, library.n_calls) for library in libraries] == [(4, 1), (4, 1)]


def test_the_limit_ends_after_an_error(libraries: Any) -> None:
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert [library.n_threads for library in libraries] == [4, 4]


def test_the_limit_of_a_process_lasts_until_the_last_thread_leaves(libraries: Any) -> None:
    second_is_in, first_is_out = threading.Event(), threading.Event()
    seen = []

    def second() -> None:
        with one_thread():
            second_is_in.set()
            assert first_is_out.wait(60)
            seen.append(libraries.of_process.n_threads)

    other = threading.Thread(target=second)
    with one_thread():
        other.start()
        assert second_is_in.wait(60)
    first_is_out.set()
    other.join(60)
    assert seen == [1]
    assert libraries.of_process.n_threads == 4
    assert (libraries.of_threads.n_calls, libraries.of_process.n_calls) == (2, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("block", [threads._limit_of_process._lock, threads._limit_of_process], ids=["lock", "inside"])
def test_a_child_does_not_wait_for_threads_that_it_has_not(libraries: Any, block: AbstractContextManager[Any]) -> None:
    """Another thread held the lock, or was inside, when it was forked."""
    with block:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with one_thread():
                    pass
                code = threads._limit_of_process._n_inside
            finally:
                os._exit(code)  # whatever happens, it must not go on with the tests
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


#: Main and another thread are inside one after the other, then overlapping; then both learn.
PROGRAM = """
import json, sys, threading
import numpy as np
from threadpoolctl import threadpool_info
import onlinehash
from onlinehash.numeric.threads import one_thread
from tests.support import state_bytes

def blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

def elsewhere(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]

def inside():
    with one_thread():
        return blas()

def overlapping():
    is_in, may_leave, seen = threading.Event(), threading.Event(), []
    def other():
        with one_thread():
            is_in.set()
            may_leave.wait(60)
            seen.append(blas())
    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        is_in.wait(60)
    may_leave.set()
    thread.join()
    return seen[0]

def learned(name):
    X = np.random.default_rng(0).standard_normal((600, 80)).astype(np.float32)
    learner = getattr(onlinehash, name)(32, random_state=0)
    return state_bytes(learner.fit(X, X[:, 0] > 0))

with one_thread():
    pass
free = blas()
limits = [inside(), elsewhere(inside), overlapping(), inside(), elsewhere(inside)]
same = {name: learned(name) == elsewhere(lambda: learned(name)) for name in sys.argv[1:]}
print(json.dumps([free, limits, blas(), elsewhere(blas), same]))
"""


def test_every_thread_of_a_process_is_limited_and_learns_the_same() -> None:
    methods = ["IterativeQuantization", "SupervisedDiscreteHashing"]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *methods],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    free, limits, after, after_elsewhere, same = json.loads(ran.stdout)
    assert limits == [[1] * len(free)] * 5
    assert after == free
    assert after_elsewhere == free
    assert same == dict.fromkeys(methods, True)
