"""How many threads there can be; and BLAS on one, for results that must not depend on how many there are.

A product that two threads share is cut in two, and the pieces round differently than the whole. What is learned must
be the same on every machine, so learners that compute a chunk or a batch by BLAS do it inside `one_thread()`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def cpu_count() -> int:
    """How many CPUs this process may use: fewer than the machine has where its affinity or its container says so.

    Asked once, as the answer takes as long as a search.
    """
    # Takes a third of a second, and most programs never ask.
    from joblib import cpu_count as count

    return int(count())


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and LAPACK use one thread inside, in the whole process, until the last thread has left."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


class _Limit:
    """The limit on threads of BLAS, while anybody is inside."""

    def __init__(self) -> None:
        self.n_inside = 0
        self._renew_lock()
        if hasattr(os, "register_at_fork"):  # a child has no thread that could give the lock back
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            if self.n_inside == 0:
                self._limited = _controller().limit(limits=1, user_api="blas")
            self.n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self.n_inside -= 1
            if self.n_inside == 0:
                self._limited.restore_original_limits()


_limit = _Limit()


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds, so it is done once."""
    import scipy.linalg  # noqa: F401  (SciPy brings a BLAS of its own, which must be loaded to be found)

    return ThreadpoolController()
