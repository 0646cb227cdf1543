"""How many threads there can be; and BLAS on one, for results that must not depend on how many there are.

A product that two threads share is cut in two, and the pieces round differently than the whole. What is learned must
be the same on every machine, so learners that compute a chunk or a batch by BLAS do it inside `one_thread()`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import NamedTuple

from threadpoolctl import OpenBLASController, ThreadpoolController


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
    """BLAS and LAPACK use one thread inside; to enter again costs nothing.

    Some libraries have a limit for each thread that calls them. The usual one, OpenBLAS with threads of its own, has
    one for the process, which lasts until the last thread has left.
    """
    if getattr(_inside, "already", False):
        yield
        return
    own = _libraries().of_threads
    with own.limit(limits=1, user_api="blas") if own.lib_controllers else nullcontext(), _limit_of_process:
        _inside.already = True
        try:
            yield
        finally:
            _inside.already = False


class _LimitOfProcess:
    """The limit of libraries that have only one, while any thread is inside."""

    def __init__(self) -> None:
        self._n_inside = 0
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_child)

    def _begin_child(self) -> None:
        """No thread but this one is left, neither to give back the lock nor to leave."""
        self._n_inside = int(getattr(_inside, "already", False))
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                _free_control()
                self._limit = _libraries().of_process.limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                _free_control()
                self._limit.restore_original_limits()
                _free_control()


def _free_control() -> None:
    """threadpoolctl 3.8 ignores what all threads but one say of such libraries; let it be this one, then nobody."""
    free = getattr(OpenBLASController, "clear_controlling_thread", None)
    if free is not None:
        free(force=True)


_inside, _limit_of_process = threading.local(), _LimitOfProcess()


class _Libraries(NamedTuple):
    """Those with a limit for each thread, and those with one for the process."""

    of_threads: ThreadpoolController
    of_process: ThreadpoolController


@cache
def _libraries() -> _Libraries:
    """Looking for the libraries takes milliseconds, so it is done once."""
    import scipy.linalg  # noqa: F401  (SciPy brings a BLAS of its own, which must be loaded to be found)

    found = ThreadpoolController().select(user_api="blas")
    one_for_all = found.select(internal_api="openblas").select(threading_layer=["pthreads", "disabled", "unknown"])
    others = found.select(internal_api=["mkl", "blis", "flexiblas"], threading_layer="openmp")  # either of the two
    return _Libraries(others, one_for_all)
