"""BLAS on one thread: some limits belong to the process, and several threads ask for them."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from onlinehash.numeric import threads
from onlinehash.numeric.threads import one_thread


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
def test_a_child_does_not_wait_for_threads_that_it_has_not(libraries: Any) -> None:
    """Another thread held the lock when it was forked."""
    with threads._limit_of_process._lock:
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
