"""How many threads there can be; and BLAS on one, for results that must not depend on how many there are.

A product that two threads share is cut in two, and the pieces round differently than the whole. What is learned must
be the same on every machine, so learners that compute a chunk or a batch by BLAS do it inside `one_thread()`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_inside = threading.local()


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
    """BLAS and LAPACK use one thread inside; to enter again costs nothing."""
    if getattr(_inside, "already", False):
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        _inside.already = True
        try:
            yield
        finally:
            _inside.already = False


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds, so it is done once."""
    import scipy.linalg  # noqa: F401  (SciPy brings a BLAS of its own, which must be loaded to be found)

    return ThreadpoolController()
