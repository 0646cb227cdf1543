"""One thread that makes all changes, in the order of acceptance, and refuses new ones when too many are waiting.

No change waits for others to arrive. Whatever has arrived while the changes before it were made may be made together,
which is cheaper where a transaction costs more than what is in it.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.settings import Limits

#: Changes that are made together at most, and the bytes after which no other one joins them: nobody's answer may take
#: long because of others.
MOST_TOGETHER, MOST_BYTES = 256, 1 << 20

T = TypeVar("T")
W = TypeVar("W")

#: Makes several changes; gives the result or the error of each.
Together = Callable[[Sequence[W]], Sequence[T | BaseException]]


class _Waiting(NamedTuple):
    work: Any
    future: Future[Any]
    n_bytes: int
    together: Together[Any, Any]


class Writer:
    """A bounded queue of changes. After `retire` it takes no more, and makes those that it begins in half of the time
    that the service has to stop; the others are refused, so that their clients know that nothing was changed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[_Waiting] = deque()
        self._n_bytes = 0
        self._until = math.inf  # when no change is begun any more
        self._seconds = 0.001  # estimated duration of a change
        self._wakes_soon = False
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
        return self.submit_to(_alone, work, n_bytes)

    def submit_to(self, together: Together[W, T], work: W, n_bytes: int = 0) -> Future[T]:
        """Queue a change for a function that makes several: it gets those that wait for it one behind the other."""
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
            waiting = _Waiting(work, Future(), n_bytes, together)
            waiting.future.set_running_or_notify_cancel()  # from now on nobody can cancel it
            self._queue.append(waiting)
            self._n_bytes += n_bytes
            self._wake_soon()
        return waiting.future

    def _wake_soon(self) -> None:
        """Wake the thread, or let the event loop do so when it has read the requests that are there already.

        Between two of them the loop lets other threads run, so the thread would begin with the first request alone.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._changed.notify_all()
            return
        if not self._wakes_soon:
            self._wakes_soon = True
            loop.call_soon(self._wake)

    def _wake(self) -> None:
        with self._changed:
            self._wakes_soon = False
            self._changed.notify_all()

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
        while self._make_next():
            pass

    def _make_next(self) -> bool:
        """Wait for changes and make them; False if there will be none any more.

        A call for each group, so that the thread keeps nothing of the last one while it waits for the next.
        """
        with self._changed:
            while not self._queue and not self.closing:
                self._changed.wait()
            if not self._queue:
                return False
            group = self._next()
        start = time.perf_counter()
        for waiting, result in zip(group, self._make(group), strict=True):
            if isinstance(result, BaseException):
                waiting.future.set_exception(result)
            else:
                waiting.future.set_result(result)
        with self._changed:
            for _ in group:
                self._n_bytes -= self._queue.popleft().n_bytes  # only now: a running change counts too
            self._seconds += 0.05 * ((time.perf_counter() - start) / len(group) - self._seconds)
        return True

    def _next(self) -> list[_Waiting]:
        """The first change, and those right behind it that are to be made with it."""
        group, n_bytes = list[_Waiting](), 0
        for waiting in self._queue:
            n_bytes += waiting.n_bytes
            joins = waiting.together == self._queue[0].together != _alone
            if group and not (joins and len(group) < MOST_TOGETHER and n_bytes <= MOST_BYTES):
                break
            group.append(waiting)
        return group

    def _make(self, group: list[_Waiting]) -> Sequence[Any]:
        try:
            if time.monotonic() > self._until:
                raise Unavailable("the service is shutting down, and the change was not made; retry later.")
            return group[0].together([waiting.work for waiting in group])
        except BaseException as error:
            return [error] * len(group)


def _alone(works: Sequence[Callable[[], T]]) -> Sequence[T]:
    return [work() for work in works]
