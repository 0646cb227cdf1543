"""BLAS on one thread: the limit belongs to the process, and several threads ask for it."""

from __future__ import annotations

import os
import threading

import pytest

from onlinehash.numeric import threads
from onlinehash.numeric.threads import one_thread


class Library:
    """A BLAS of four threads."""

    def __init__(self) -> None:
        self.n_threads, self.n_calls = 4, 0

    def limit(self, *, limits: int, user_api: str) -> Library:
        assert user_api == "blas"
        self.n_threads, self.n_calls = limits, self.n_calls + 1
        return self

    def restore_original_limits(self) -> None:
        self.n_threads = 4


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(threads, "_controller", lambda: library)
    return library


def test_the_limit_ends_with_the_outermost_block(library: Library) -> None:
    with one_thread():
        with one_thread():
            assert library.n_threads == 1
        assert library.n_threads == 1
    assert (library.n_threads, library.n_calls) == (4, 1)


def test_the_limit_ends_after_an_error(library: Library) -> None:
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert library.n_threads == 4


def test_the_limit_lasts_until_the_last_thread_leaves(library: Library) -> None:
    second_is_in, first_is_out = threading.Event(), threading.Event()
    seen = []

    def second() -> None:
        with one_thread():
            second_is_in.set()
            assert first_is_out.wait(10)
            seen.append(library.n_threads)

    other = threading.Thread(target=second)
    with one_thread():
        other.start()
        assert second_is_in.wait(10)
    first_is_out.set()
    other.join(10)
    assert seen == [1]
    assert library.n_threads == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_was_forked_while_another_thread_held_the_lock_can_enter(library: Library) -> None:
    with threads._limit._lock:
        child = os.fork()
        if child == 0:  # pragma: no cover
            with one_thread():
                os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
