"""`LearnerWatch`: keeps a learner that other processes teach, too, up to date, and knows how far codes are behind it.

Both may take a question to a database, which may take long to answer, or not answer at all. So a thread asks, and
everybody else takes what it found last.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from onlinehash.index.api import Behind, VectorIndex
from onlinehash.learners.taught import Taught
from onlinehash.serve import logs

#: Seconds between two looks, and after one that failed.
EVERY, AFTER_FAILURE = 0.1, 1.0
#: Seconds for the thread to end, which may be waiting for a database.
STOP_SECONDS = 1.0

#: What tells that codes may be behind by more or less than before.
Stage = tuple[Taught, int, int]


class LearnerWatch:
    """Looks at the learner of an index in a thread of its own.

    index : the served index.
    changed_bits : counts the hash functions in which the codes are behind; called in the thread.
    """

    def __init__(self, index: VectorIndex, changed_bits: Callable[[], int]) -> None:
        self._index, self._changed_bits = index, changed_bits
        self._stop, self._woken, self._has_failed = threading.Event(), threading.Event(), False
        self._stage: Stage | None = None
        self._lock, self._waiting = threading.Lock(), list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]()
        self._thread = threading.Thread(target=self._run, name="onlinehash-learner", daemon=True)
        #: How far the codes were behind the learner when it last could be asked.
        self.behind = Behind(0, 0)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    async def looked(self, seconds: float) -> None:
        """Wait for a look that begins now, but no longer than so many seconds."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        with self._lock:
            self._waiting.append((loop, done))
        self._woken.set()
        await asyncio.wait({done}, timeout=seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._woken.clear()
            with self._lock:
                waiting, self._waiting = self._waiting, []
            try:
                self._look()
            except Exception as error:
                self._failed(error)
            else:
                self._worked()
            for loop, done in waiting:
                with suppress(RuntimeError):  # the loop has been closed
                    loop.call_soon_threadsafe(_settle, done)
            self._woken.wait(AFTER_FAILURE if self._has_failed else EVERY)

    def _look(self) -> None:
        index = self._index
        _ = index.learner  # which learns what others have taught
        stage = index.taught, index.serial, index.refreshes
        if stage != self._stage:
            self.behind = Behind(self._changed_bits(), index.pairs_behind)
            self._stage = stage

    def _failed(self, error: Exception) -> None:
        if not self._has_failed and not self._stop.is_set():
            reason = {"fields": {"reason": str(error)}}
            logs.service.warning("the learner is not up to date; its last known numbers are told", extra=reason)
        self._has_failed = True

    def _worked(self) -> None:
        if self._has_failed:
            logs.service.info("the learner is up to date again")
        self._has_failed = False


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
