"""One thread that makes all changes, in the order of acceptance, and refuses new ones when too many are waiting."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.settings import Limits

T = TypeVar("T")


class _Waiting(NamedTuple):
    work: Callable[[], Any]
    future: Future[Any]
    n_bytes: int


class Writer:
    """A bounded queue of changes. After `retire` it takes no more, and makes those that it begins in half of the time
    that the service has to stop; the others are refused, so that their clients know that nothing was changed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[_Waiting] = deque()
        self._n_bytes = 0
        self._until = math.inf  # when no change is begun any more
        self._seconds = 0.001  # estimated duration of a change
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="onlinehash-writer", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def closing(self) -> bool:
        """Whether new changes are refused."""
        return self._until < math.inf

    def submit(self, work: Callable[[], T], n_bytes: int = 0) -> Future[T]:
        """Queue a change; `n_bytes` is the memory it holds while it waits."""
        with self._changed:
            if self.closing:
                raise Unavailable("the service is shutting down; retry later.")
            full = len(self._queue) >= self._limits.queue
            if full or (self._queue and self._n_bytes + n_bytes > self._limits.queue_bytes):
                seconds = max(1, math.ceil(len(self._queue) * self._seconds))
                raise Busy(
                    f"too many changes are waiting ({len(self._queue)}, {self._n_bytes:,} bytes); "
                    f"retry after {seconds} s.",
                    retry_after=seconds,
                )
            waiting = _Waiting(work, Future(), n_bytes)
            waiting.future.set_running_or_notify_cancel()  # from now on nobody can cancel it
            self._queue.append(waiting)
            self._n_bytes += n_bytes
            self._changed.notify_all()
        return waiting.future

    def retire(self) -> None:
        """Refuse new changes from now on."""
        with self._changed:
            self._until = min(self._until, time.monotonic() + self._limits.stop_seconds / 2)
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse new changes, and return when all accepted ones are done or refused."""
        self.retire()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self.closing:
                    self._changed.wait()
                if not self._queue:
                    return
                waiting = self._queue[0]
            start = time.perf_counter()
            try:
                if time.monotonic() > self._until:
                    raise Unavailable("the service is shutting down, and the change was not made; retry later.")
                result = waiting.work()
            except BaseException as error:
                waiting.future.set_exception(error)
            else:
                waiting.future.set_result(result)
            with self._changed:
                self._queue.popleft()  # only now: a running change counts too
                self._n_bytes -= waiting.n_bytes
                self._seconds += 0.05 * (time.perf_counter() - start - self._seconds)
