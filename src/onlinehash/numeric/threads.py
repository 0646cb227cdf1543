"""BLAS on one thread, for results that must not depend on how many there are.

A product that two threads share is cut in two, and the pieces round differently than the whole. What is learned must
be the same on every machine, so learners that compute a chunk or a batch by BLAS do it inside `one_thread()`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """BLAS and LAPACK use one thread inside."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds, so it is done once."""
    import scipy.linalg  # noqa: F401  (SciPy brings a BLAS of its own, which must be loaded to be found)

    return ThreadpoolController()
