"""A search shared out to threads, which run side by side because the kernels let go of Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

from onlinehash.numeric.threads import cpu_count

T = TypeVar("T")


def number(n_jobs: int) -> int:
    """How many threads: -1 means one for each CPU that this process may use."""
    return cpu_count() if n_jobs == -1 else n_jobs


def share(work: Callable[[slice], T], n: int, n_jobs: int) -> list[T]:
    """`work` on slices of nearly equal length that cover 0, ..., n - 1, in order."""
    n_threads = min(n, number(n_jobs))
    if n_threads <= 1:
        return [work(slice(0, n))]
    ends = [n * i // n_threads for i in range(n_threads + 1)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, (slice(start, stop) for start, stop in pairwise(ends))))
