"""Refreshes that clients ask for: they share one that is running instead of cancelling it.

A refresh replaces the codes by those of the learner as it was when the refresh began. Whoever asks while one is running
joins it if it began with everything that they need, and otherwise waits for its end and begins another, which those who
came meanwhile join.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from onlinehash.index.api import RefreshJob, VectorIndex
from onlinehash.live.refresher import version_of
from onlinehash.serve.errors import Unavailable
from onlinehash.serve.writer import Writer

#: Seconds between two checks whether a refresh has ended; waiting in threads would take these from other requests.
PAUSE = 0.01


#: How far a learner has come: its version, and the pairs that it has seen, which may have changed nothing.
Stage = tuple[int, int]


class _Running(NamedTuple):
    job: RefreshJob
    stage: Stage  # of the learner when it began


class Refreshes:
    """The refreshes of one service; only the writer's thread begins them."""

    def __init__(self, index: VectorIndex, writer: Writer) -> None:
        self._index, self._writer = index, writer
        self._running: _Running | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def wait(self) -> None:
        """Return when the codes are at least those of the learner as it is now."""
        needed, running = await self._joined()
        while True:
            while running is not None and not running.job.done:
                await asyncio.sleep(PAUSE)
            if running is None:
                return
            if not running.job.wait():
                raise Unavailable("the refresh was cancelled; the codes are as they were.")
            if running.stage >= needed:
                return
            _, running = await self._joined()

    async def begin(self) -> None:
        """Begin a refresh, or queue one after that which is running; return at once."""
        needed, running = await self._joined()
        if running is not None and running.stage < needed:
            task = asyncio.create_task(self._follow())
            self._tasks.add(task)  # an event loop keeps only a weak reference
            task.add_done_callback(self._tasks.discard)

    async def _follow(self) -> None:
        try:
            await self.wait()
        except Exception:  # nobody waits for it, and the next refresh reports what is wrong
            return

    async def _joined(self) -> tuple[Stage, _Running | None]:
        """The learner's stage, and the running refresh; if there is none, a new one."""
        return await asyncio.wrap_future(self._writer.submit(self._join))

    def _join(self) -> tuple[Stage, _Running | None]:
        learner, running = self._index.learner, self._running
        stage = version_of(learner), int(getattr(learner, "n_pairs_seen_", 0))
        if running is None or running.job.done:
            job = self._index.refresh(wait=False)
            running = self._running = None if job is None else _Running(job, stage)
        return stage, running
