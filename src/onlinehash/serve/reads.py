"""Reads that may take long: in a few threads of their own, each with a deadline.

Filters and searches for many queries run here, so that they hold up neither the event loop nor the threads of others.
They check their deadline now and then, and end early if the time is over, the client disconnected or the service stops;
so do the statements of a database that they wait for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.types import Receive

from onlinehash.live.stop import stopped_by
from onlinehash.serve.errors import BadRequest, Busy, DeadlineExceeded, Unavailable
from onlinehash.serve.settings import Limits

#: Threads for cheap reads and for expensive ones, so that cheap ones need not wait. Python runs one thread at a time,
#: so every expensive one that is running slows down all others.
CHEAP, EXPENSIVE = 2, 1

#: Seconds that the thread of expensive reads rests at most after one of them, which is as long as that took.
LONGEST_REST = 0.05

T = TypeVar("T")


class Deadline:
    """When a read must end."""

    def __init__(self, seconds: float, stopping: threading.Event) -> None:
        self._seconds, self._until = seconds, time.monotonic() + seconds
        self._stopping, self._is_abandoned = stopping, False

    def abandon(self) -> None:
        """The client will not read the response."""
        self._is_abandoned = True

    def check(self) -> None:
        """Raise if it is time to stop."""
        if self._stopping.is_set():
            raise Unavailable("the service is shutting down; retry later.")
        if self._is_abandoned:
            raise BadRequest("the client disconnected before its response.")
        if time.monotonic() > self._until:
            raise DeadlineExceeded(
                f"the request took longer than {self._seconds:g} s and was stopped; ask for less at once."
            )


class Reads:
    """A bounded queue of reads, for a few threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._n = limits, 0
        self._stopping = threading.Event()
        self._cheap = ThreadPoolExecutor(CHEAP, "onlinehash-read")
        self._expensive = ThreadPoolExecutor(EXPENSIVE, "onlinehash-long-read")

    def __len__(self) -> int:
        return self._n

    async def run(self, find: Callable[[Deadline], T], receive: Receive, is_expensive: bool = False) -> T:
        """The result of a read whose whole body has arrived; an expensive one waits for others of its kind."""
        if self._n >= self._limits.reads:
            raise Busy(f"too many searches are waiting ({self._n}); retry after 1 s.")
        deadline = Deadline(self._limits.request_seconds, self._stopping)

        took = 0.0

        def attempt() -> T:
            nonlocal took
            deadline.check()  # it may have waited for a thread
            begin = time.perf_counter()
            try:
                with stopped_by(deadline.check):
                    return find(deadline)
            finally:
                took = time.perf_counter() - begin

        watch = asyncio.create_task(_watch_client(receive, deadline))
        self._n += 1
        try:
            pool = self._expensive if is_expensive else self._cheap
            found = asyncio.get_running_loop().run_in_executor(pool, attempt)
            if is_expensive:
                self._expensive.submit(lambda: self._rest(took))
            return await found
        finally:
            self._n -= 1
            deadline.abandon()  # if this task was cancelled
            watch.cancel()

    def _rest(self, seconds: float) -> None:
        """Leave the interpreter to others for a while, where more reads wait."""
        if self._n > 1:
            time.sleep(min(seconds, LONGEST_REST))

    def stop(self) -> None:
        """End all reads soon, and refuse others."""
        self._stopping.set()

    def close(self) -> None:
        """Release the threads."""
        self.stop()
        for pool in (self._cheap, self._expensive):
            pool.shutdown(wait=False, cancel_futures=True)


async def _watch_client(receive: Receive, deadline: Deadline) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    deadline.abandon()
