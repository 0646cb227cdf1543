"""The engine of a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from onlinehash.bulk.engine import ATTEMPTS, Engine, Failure, attempt, check_address, cut_off, lost
from onlinehash.errors import MissingExtra, ServiceUnavailable

P = TypeVar("P")
R = TypeVar("R")

#: Parts that are under way at a time, for each CPU of the cluster: Ray looks at all of them whenever it is asked.
PARTS_PER_CPU = 4


class Ray(Engine):
    """The cluster whose Ray client server is at `host:port`; without an address, the one that `ray.init()` finds or
    starts on this machine. Whoever is connected already stays so."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._is_ours = False

    def _begin(self) -> None:
        ray = _ray()
        if ray.is_initialized():
            return
        if self._address is not None:
            check_address(self._address, "a Ray client server")
        where = {} if self._address is None else {"address": f"ray://{self._address}"}
        # The server starts a process for each client, which fails now and then on a busy machine.
        for left in reversed(range(ATTEMPTS)):
            try:
                ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
                break
            except (ConnectionError, RuntimeError, TimeoutError) as error:
                if left == 0:
                    reason = str(error).strip().splitlines()[-1].strip().rstrip(".")  # before it is a traceback
                    where_it_is = self._address or "this machine"
                    raise ServiceUnavailable(f"cannot connect to Ray at {where_it_is}: {reason}.") from None
        self._is_ours = True

    def _outcomes(self, function: Callable[[P], R], partitions: Mapping[int, P]) -> Iterator[tuple[int, R | Failure]]:
        ray = _ray()
        task = ray.remote(attempt)
        under_way: dict[Any, int] = {}
        try:
            sent, left = ray.put(function), iter(partitions.items())
            at_most = PARTS_PER_CPU * max(4, int(ray.cluster_resources().get("CPU", 1)))
            while True:
                while len(under_way) < at_most and (part := next(left, None)) is not None:
                    under_way[task.remote(part[1], sent)] = part[0]
                if not under_way:
                    return
                for done in ray.wait(list(under_way))[0]:
                    yield under_way.pop(done), _outcome(ray.get, done)
        except Exception:
            if ray.is_initialized():
                raise
            raise cut_off("the head of the Ray cluster") from None
        finally:
            if ray.is_initialized():  # or else Ray would start a cluster of its own
                for reference in under_way:
                    ray.cancel(reference)

    def _end(self) -> None:
        if self._is_ours:
            _ray().shutdown()
            self._is_ours = False


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("work on Ray", "ray", "ray") from None
    return ray


def _outcome(get: Callable[[Any], Any], reference: object) -> Any:
    """What the task said, or what became of it: Ray starts it again where a worker was lost, but not for ever."""
    from ray.exceptions import RayError

    try:
        return get(reference)
    except RayError as error:
        return lost(error)
