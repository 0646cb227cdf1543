"""The engine of a Dask cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from onlinehash.bulk.engine import PATIENCE, Engine, Failure, attempt, check_address, cut_off, lost
from onlinehash.errors import MissingExtra, ServiceUnavailable

#: Seconds between two looks at what is done; to wait for it would be to wait for ever when the scheduler is gone.
PAUSE = 0.02

P = TypeVar("P")
R = TypeVar("R")


class Dask(Engine):
    """The workers of the scheduler at `host:port`; without an address, processes of this machine, one for each CPU."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._cluster: Any = None
        self._client: Any = None

    def _begin(self) -> None:
        distributed = _distributed()
        if self._address is None:
            self._cluster = distributed.LocalCluster(
                threads_per_worker=1, dashboard_address=None, host="127.0.0.1", silence_logs=logging.CRITICAL
            )
        else:
            check_address(self._address, "a Dask scheduler")
        where = self._cluster or f"tcp://{self._address}"
        try:
            self._client = distributed.Client(where, timeout=PATIENCE, set_as_default=False)
        except OSError as error:
            raise ServiceUnavailable(f"cannot connect to a Dask scheduler at {self._address}: {error}.") from None

    def _outcomes(self, function: Callable[[P], R], partitions: Mapping[int, P]) -> Iterator[tuple[int, R | Failure]]:
        self._check_connection()
        # The function is what a task returns: Dask runs it again if the worker that holds it is lost, while scattered
        # data would be gone.
        sent = self._client.submit(_itself, function, pure=False)
        futures = self._client.map(attempt, list(partitions.values()), function=sent, pure=False)
        numbers = dict(zip(futures, partitions, strict=True))
        del futures  # what is done is forgotten, also by the workers
        done = _distributed().as_completed(list(numbers), self._client.loop, with_results=True, raise_errors=False)
        while numbers:
            for future, result in done.next_batch(block=False):
                yield numbers.pop(future), result if future.status == "finished" else lost(_reason(result))
            self._check_connection()
            time.sleep(PAUSE)

    def _check_connection(self) -> None:
        """A client that has looked for its scheduler in vain closes itself."""
        if self._client.status in ("closing", "closed"):
            raise cut_off("the Dask scheduler")

    def _end(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtra("work on Dask", "distributed", "dask") from None
    return distributed


def _itself(function: object) -> Any:
    return function


def _reason(result: object) -> BaseException:
    """The exception among what Dask tells of a part that has no result."""
    for thing in result if isinstance(result, tuple) else (result,):
        if isinstance(thing, BaseException):
            return thing
    return RuntimeError("its worker or the scheduler was lost")
