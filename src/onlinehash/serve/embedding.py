"""Texts of requests become vectors: beside the event loop, many of them at a time.

There is one thread, or as many as the embedder says may call it at once.

Whatever waits is embedded together, as models take many texts in little more time than one. Requests with the fewest
texts left come first, so that a search does not wait for the thousands of texts that somebody else adds, and of several
large ones one is answered while the next is embedded; were all served alike, all would end at once, and the embedder
would wait for the next ones. The request that has waited longest has a part of every batch, however many others come.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import NamedTuple

import numpy as np

from onlinehash.embed.embedder import EmbedderFailed, Embedding
from onlinehash.errors import OnlineHashError
from onlinehash.serve import logs
from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.settings import Limits

#: Texts that are embedded by the first call; later as many as take about so many seconds, between these bounds. Larger
#: batches cost less for a text, and let others wait longer.
BATCH, BATCH_SECONDS, LEAST_BATCH, MOST_BATCH = 128, 0.25, 64, 512
#: Letters of texts that are embedded by one call.
BATCH_LETTERS = 1 << 18

#: The part of a batch that the oldest request has for itself.
PART_OF_OLDEST = 4


@dataclass
class _Job:
    """The texts of one request, of which some have their vectors."""

    texts: list[str]
    future: asyncio.Future[np.ndarray]
    vectors: dict[int, np.ndarray] = field(default_factory=dict)  #: By the number of the first text.
    n_taken: int = 0
    has_failed: bool = False  #: Some of its texts, which the event loop does not know yet.

    @property
    def n_left(self) -> int:
        return len(self.texts) - self.n_taken

    def take(self, n: int, letters: int) -> _Part:
        """The next texts: at most n, and no more letters than that."""
        first, some = self.n_taken, self.texts[self.n_taken : self.n_taken + n]
        ends = np.cumsum([len(text) for text in some])
        some = some[: int(np.searchsorted(ends, letters, side="right"))]
        self.n_taken += len(some)
        return _Part(self, first, some)


class _Part(NamedTuple):
    """Texts of one request that are embedded by one call, and the number of the first among all of the request."""

    job: _Job
    first: int
    texts: list[str]


class EmbeddingQueue:
    """Texts that wait for an embedder, within one event loop.

    A thread takes the next texts by itself: it does not wait for the event loop between two batches, which may have
    much else to do.
    """

    def __init__(self, embedder: Embedding, limits: Limits) -> None:
        self.embedder, self._limits = embedder, limits
        self._lock = threading.Lock()  # of the two below
        self._waiting: list[_Job] = []
        self._n_busy = 0  # threads that take what waits, or are about to
        self._size = BATCH  # of the next batch
        self._n = 0
        self._is_closed = False
        self._n_threads = embedder.calls_at_once
        self._threads = ThreadPoolExecutor(self._n_threads, "onlinehash-embedding")

    def __len__(self) -> int:
        return self._n

    async def vectors_of(self, texts: list[str]) -> np.ndarray:
        """One vector a text."""
        if not texts:
            return self.embedder.encode(texts)
        if self._is_closed:
            raise Unavailable("the service is shutting down; retry later.")
        if self._n and self._n + len(texts) > self._limits.texts:
            raise Busy(f"too many texts wait to be embedded ({self._n}); retry after 1 s.")
        loop = asyncio.get_running_loop()
        job = _Job(texts, loop.create_future())
        self._n += len(texts)
        with self._lock:
            self._waiting.append(job)
            n_more = min(ceil(len(texts) / self._size), self._n_threads - self._n_busy)
            self._n_busy += n_more
        for _ in range(n_more):
            loop.call_soon(self._begin, loop)  # once the loop has read what else has arrived
        try:
            return await job.future
        finally:
            self._n -= len(texts)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let a thread begin. If the system has none to spare and none is at work, all who wait are told."""
        try:
            self._threads.submit(self._run, loop)
        except RuntimeError:
            with self._lock:
                self._n_busy -= 1
                left = [] if self._n_busy else self._waiting
                if left:
                    self._waiting = []
            for job in left:
                if not job.future.done():
                    job.future.set_exception(Unavailable("no thread could be started to embed texts; retry later."))

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: embed whatever waits."""
        while batch := self._next():
            n, begin = sum(len(part.texts) for part in batch), perf_counter()
            found = self._embed([part.texts for part in batch])
            if n >= LEAST_BATCH:
                fitting = BATCH_SECONDS * n / max(perf_counter() - begin, 1e-6)
                self._size = min(max(int(fitting), LEAST_BATCH), MOST_BATCH)
            for part, vectors in zip(batch, found, strict=True):
                part.job.has_failed |= isinstance(vectors, Exception)
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                loop.call_soon_threadsafe(self._settle_all, batch, found)

    def _next(self) -> list[_Part]:
        """The next texts of several requests; none if nothing waits, and then the thread is no longer busy."""
        with self._lock:
            self._waiting = [job for job in self._waiting if not (job.has_failed or job.future.done())]
            self._n_busy -= not self._waiting
            batch = _batch_of(self._waiting, self._size)
            self._waiting = [job for job in self._waiting if job.n_left]
        return batch

    def _settle_all(self, batch: list[_Part], found: list[np.ndarray | Exception]) -> None:
        for part, vectors in zip(batch, found, strict=True):
            self._settle(part, vectors)

    def _settle(self, part: _Part, vectors: np.ndarray | Exception) -> None:
        job = part.job
        if job.future.done():
            return
        if isinstance(vectors, Exception):
            job.future.set_exception(vectors)
            return
        job.vectors[part.first] = vectors
        if sum(map(len, job.vectors.values())) == len(job.texts):
            parts = [job.vectors[first] for first in sorted(job.vectors)]
            job.future.set_result(parts[0] if len(parts) == 1 else np.concatenate(parts))

    def _embed(self, parts: list[list[str]]) -> list[np.ndarray | Exception]:
        """The vectors of each request's texts, or its error; a text that fails does not affect other requests."""
        if len(parts) > 1:
            try:
                X = self.embedder.encode([text for part in parts for text in part])
            except BaseException:
                pass  # each request gets its own error below
            else:
                ends = np.cumsum([len(part) for part in parts])
                return list(np.split(X, ends[:-1]))
        found: list[np.ndarray | Exception] = []
        for part in parts:
            try:
                found.append(self.embedder.encode(part))
            except EmbedderFailed as error:
                logs.service.error(
                    "the embedder failed", exc_info=error.__cause__, extra={"fields": {"embedder": self.embedder.name}}
                )
                found.append(RuntimeError(str(error)))
            except OnlineHashError as error:
                found.append(error)
            except BaseException as error:  # of a model of others, which may raise what no future can carry
                found.append(RuntimeError(f"the embedder {self.embedder.name!r} failed: {error!r}"))
        return found

    def close(self) -> None:
        """Let go of the threads."""
        self._is_closed = True
        with self._lock:
            self._waiting.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _batch_of(jobs: list[_Job], size: int) -> list[_Part]:
    """The next texts of requests, which are given in the order of their coming; one may have two parts of them."""
    if not jobs:
        return []
    most = BATCH_LETTERS // PART_OF_OLDEST
    oldest = jobs[0].take(size // PART_OF_OLDEST, most)
    if not oldest.texts:
        oldest = jobs[0].take(1, sys.maxsize)  # however long that one is
    batch = [oldest]
    n, letters = size - len(oldest.texts), BATCH_LETTERS - min(sum(map(len, oldest.texts)), most)
    for job in sorted(jobs, key=lambda job: job.n_left):
        if n == 0:
            break
        part = job.take(n, letters)
        if part.texts:
            batch.append(part)
        n, letters = n - len(part.texts), letters - sum(map(len, part.texts))
    return batch
