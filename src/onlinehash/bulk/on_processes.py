"""The engine of one machine: joblib's processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from onlinehash.bulk.engine import Engine, Failure, attempt, lost

P = TypeVar("P")
R = TypeVar("R")


class Processes(Engine):
    """The given number of processes, or one per CPU; with one, the work runs in this process."""

    def __init__(self, n_workers: int | None = None) -> None:
        self._n_workers = n_workers

    def _outcomes(self, function: Callable[[P], R], partitions: Mapping[int, P]) -> Iterator[tuple[int, R | Failure]]:
        from joblib import Parallel, delayed

        parallel = Parallel(self._n_workers or -1, return_as="generator_unordered", batch_size=1)
        tasks = (delayed(_numbered)(number, partition, function) for number, partition in partitions.items())
        try:
            yield from parallel(tasks)
        except BrokenProcessPool as error:  # a worker was killed, and all were stopped; a new round has new ones
            yield -1, lost(error)

    def _begin(self) -> None:
        """Joblib starts processes when there is work, and keeps them a while for more of it."""

    def _end(self) -> None:
        """Joblib stops them when they have been idle for long, and with this process."""


def _numbered(number: int, partition: P, function: Callable[[P], R]) -> tuple[int, R | Failure]:
    return number, attempt(partition, function)
