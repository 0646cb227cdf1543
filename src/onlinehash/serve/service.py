"""`Service`: an index shared by many clients: searches at any time, changes one at a time.

Reads go straight to the index. Changes and learning go through one `Writer`; they are counted, sent as events, and
reported to companions (a monitor, rivals, a teacher).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from onlinehash.errors import InvalidInput, NotSupported
from onlinehash.index.api import Capability, VectorIndex
from onlinehash.serve.changes import Changes, Companion, Receipts, ranking_pairs
from onlinehash.serve.disk_health import DiskHealth
from onlinehash.serve.embedding import EmbeddingQueue
from onlinehash.serve.facts import Facts
from onlinehash.serve.follower import Follower
from onlinehash.serve.hub import Hub
from onlinehash.serve.news import News
from onlinehash.serve.reads import Reads
from onlinehash.serve.refreshes import Refreshes
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer

if TYPE_CHECKING:
    from onlinehash.serve.monitor import Monitor
    from onlinehash.serve.pictures import Pictures
    from onlinehash.serve.rivals import Rivals
    from onlinehash.serve.teacher import Teacher

#: How often a reader looks for what its writer changes meanwhile.
TRIES = 3

T = TypeVar("T")


class Service(Changes, Facts):
    """An index with its statistics and companions."""

    def __init__(
        self,
        index: VectorIndex,
        *,
        limits: Limits | None = None,
        label: str | None = None,
        pictures: Pictures | None = None,
        read_only: bool = False,
        demo: bool = False,
    ) -> None:
        for needed in (Capability.LEARNER, *((Capability.RELOAD,) if read_only else ())):
            if not index.supports(needed):
                raise NotSupported(
                    f"a {'read-only ' if read_only else ''}service needs an index that supports {needed.value}, "
                    f"and {type(index).__name__} does not."
                )
        self.index, self.limits, self._receipts = index, limits or Limits(), Receipts(index)
        self.label, self.pictures, self.read_only, self.demo = label, pictures, read_only, demo
        self.hub, self.writer, self.reads = Hub(self.limits), Writer(self.limits), Reads(self.limits)
        self.refreshes, self.disk = Refreshes(index, self.writer), DiskHealth()
        self.embedding = None if index.embedder is None else EmbeddingQueue(index.embedder, self.limits)
        self.monitor: Monitor | None = None
        self.rivals: Rivals | None = None
        self.teacher: Teacher | None = None
        self.started = time.monotonic()
        self.searches = 0
        self.searches_per_second, self._searches_counted = 0.0, 0
        self.follower = Follower(self) if read_only else None
        self.news, self._told = News(), (0, 0)
        self._waiting = ThreadPoolExecutor(1, "onlinehash-waiting")
        self._parsing = ThreadPoolExecutor(1, "onlinehash-parsing")

    @property
    def companions(self) -> list[Companion]:
        """All companions."""
        found: list[Companion | None] = [self.monitor, self.rivals, self.teacher]
        return [companion for companion in found if companion is not None]

    def start(self) -> None:
        """Start everything that runs in the background."""
        for companion in self.companions:
            companion.start()
        if self.follower is not None:
            self.follower.start()

    def stop(self) -> None:
        """Begin to stop: end reads, disconnect listeners, refuse changes. Called in the event loop."""
        self.reads.stop()
        self.hub.close()
        self.writer.retire()

    def close(self) -> None:
        """Finish the accepted changes for which there is time, then close the index."""
        self.reads.close()
        if self.embedding is not None:
            self.embedding.close()
        if self.teacher is not None:
            self.teacher.stop()  # first: it still teaches
        if self.follower is not None:
            self.follower.stop()
        self.writer.close()
        for companion in self.companions:
            companion.stop()
        self.index.close()
        for pool in (self._waiting, self._parsing):
            pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------------------------------------ reading

    def read(self, find: Callable[[], T]) -> T:
        """Call `find`. A reader that lacks recent changes to these items reloads and tries again."""
        for _ in range(TRIES - 1 if self.read_only else 0):
            try:
                return find()
            except InvalidInput:
                self.index.reload()
        return find()

    async def parsed(self, parse: Callable[[], T]) -> T:
        """Parse a large body in a thread: one at a time, as a parser does not let anybody else run meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._parsing, parse)

    async def waited(self, find: Callable[[], T]) -> T:
        """Call `find`, which may wait for a running change, in a thread that searches do not use."""
        return await asyncio.get_running_loop().run_in_executor(self._waiting, find)

    # ------------------------------------------------------------------------------------------------ news

    def tell_news(self) -> None:
        """Send events for what happened since the last call; a task calls this ten times a second."""
        news = self.news.take()
        if news.count:
            counts = {"n_pairs": self.n_pairs, "ranking_pairs": ranking_pairs(self.index.learner)}
            self.hub.tell("learned", news.learned() | counts)
        if news.items:
            self.hub.tell("items", {"n": len(self.index)})
        state = (self.index.refreshes, self.index.serial)
        if state != self._told:
            self._told = state
            self._pass_on("refreshed")
            self.hub.tell("refreshed", self.refreshed())

    def count_searches(self, seconds: float) -> None:
        """Update the search rate, `seconds` after the last update."""
        self.searches_per_second = round((self.searches - self._searches_counted) / seconds, 1)
        self._searches_counted = self.searches
