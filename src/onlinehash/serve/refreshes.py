"""Refreshes that clients ask for: they share one that is running instead of cancelling it.

A refresh replaces the codes by those of the learner as it was when the refresh began. Whoever asks while one is running
joins it if it began with everything that they need, and otherwise waits for its end and begins another, which those who
came meanwhile join.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

from onlinehash.errors import RefreshCancelled, StorageError
from onlinehash.index.api import RefreshJob, VectorIndex
from onlinehash.live.refresher import version_of
from onlinehash.serve import logs
from onlinehash.serve.changes import DiskHealth
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

    def __init__(self, index: VectorIndex, writer: Writer, disk: DiskHealth) -> None:
        self._index, self._writer, self._disk = index, writer, disk
        self._running: _Running | None = None
        self._watched: RefreshJob | None = None
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
                raise RefreshCancelled(
                    "somebody has cancelled the refresh; ask for another if the codes should follow."
                )
            if running.stage >= needed:
                return
            _, running = await self._joined()

    async def begin(self) -> None:
        """Begin a refresh, or queue one after that which is running; return when other replicas can see it, too."""
        needed, running = await self._joined()
        if running is None:
            return
        if running.stage < needed:
            self._start(self._follow())
        while not running.job.done and not self._index.is_refreshing:
            await asyncio.sleep(PAUSE)

    @property
    def is_running(self) -> bool:
        """Whether a refresh runs, here or in another process, or waits for one to end."""
        return bool(self._tasks) or self._index.is_refreshing

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # an event loop keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    async def _follow(self) -> None:
        try:
            await self.wait()
        except Exception:  # nobody waits for it, and the next refresh reports what is wrong
            return

    async def _watch(self, job: RefreshJob) -> None:
        """Note whether the new codes could be stored; somebody else may wait for them, or nobody."""
        while not job.done:
            await asyncio.sleep(PAUSE)
        try:
            if job.wait():
                self._disk.has_worked()
        except StorageError as error:
            self._disk.has_failed(error)
        except Exception:
            logs.service.exception("a refresh failed")

    async def _joined(self) -> tuple[Stage, _Running | None]:
        """The learner's stage, and the running refresh; if there is none, a new one."""
        stage, running = await asyncio.wrap_future(self._writer.submit(self._join))
        if running is not None and running.job is not self._watched:
            self._watched = running.job
            self._start(self._watch(running.job))
        return stage, running

    def _join(self) -> tuple[Stage, _Running | None]:
        learner, running = self._index.learner, self._running
        stage = version_of(learner), int(getattr(learner, "n_pairs_seen_", 0))
        if running is None or running.job.done:
            try:
                job = self._index.refresh(wait=False)
            except StorageError as error:
                self._disk.has_failed(error)
                raise
            running = self._running = None if job is None else _Running(job, stage)
        return stage, running
