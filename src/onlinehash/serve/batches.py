"""Queries that arrive together are searched as one batch, which costs little more than a single query.

No query waits for others to arrive. Whatever has arrived once the event loop has read all connections is a batch. On a
large index it is searched in a thread, and queries that arrive meanwhile form the next batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onlinehash.index.api import VectorIndex
from onlinehash.learners.encoder import Encoder

#: Items times queries up to which a search takes less time than handing it to a thread and back.
MOST_AT_ONCE = 2_000_000

#: Queries of one batch.
MOST_QUERIES = 256


class Nearest(NamedTuple):
    """What one query found, and the encoder of the codes it was compared with."""

    ids: np.ndarray
    distances: np.ndarray
    encoder: Encoder
    epoch: int | None  #: None where the index does not tell.


class _Waiting(NamedTuple):
    vector: np.ndarray
    k: int
    future: asyncio.Future[Nearest]


class Batches:
    """Searches for single vectors, batched within one event loop.

    in_memory : bool, default=True
        Search small batches in the loop itself; False for an index that queries a database, which would block the loop.
    """

    def __init__(self, index: VectorIndex, in_memory: bool = True) -> None:
        self._index, self._is_in_memory = index, in_memory
        self._is_quick = False  # until a search has found codes in memory: one before may have to make the first
        self._waiting: list[_Waiting] = []
        self._is_due = False  # a batch is about to be searched, or being searched

    def search(self, vector: np.ndarray, k: int) -> asyncio.Future[Nearest]:
        """The k nearest items of a vector."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Nearest] = loop.create_future()
        self._waiting.append(_Waiting(vector, k, future))
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._take, loop, 0)
        return future

    def _take(self, loop: asyncio.AbstractEventLoop, n_before: int) -> None:
        """Search the waiting queries, once the loop has read all connections."""
        if n_before < len(self._waiting) < MOST_QUERIES:
            loop.call_soon(self._take, loop, len(self._waiting))
            return
        batch, self._waiting = self._waiting[:MOST_QUERIES], self._waiting[MOST_QUERIES:]
        if self._is_quick and len(self._index) * len(batch) <= MOST_AT_ONCE:
            _settle(batch, self._search(batch))
            self._go_on(loop)
        else:
            task = loop.run_in_executor(None, self._search, batch)

            def settle(done: asyncio.Future[list[Nearest | Exception]]) -> None:
                results = done.result()
                self._is_quick = self._is_in_memory and any(isinstance(result, Nearest) for result in results)
                _settle(batch, results)
                self._go_on(loop)

            task.add_done_callback(settle)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_due = bool(self._waiting)
        if self._is_due:
            loop.call_soon(self._take, loop, 0)

    def _search(self, batch: list[_Waiting]) -> list[Nearest | Exception]:
        """The result or the error of each query; an invalid query does not affect the others."""
        vectors = [waiting.vector for waiting in batch]
        if len(batch) > 1 and len({(waiting.k, len(waiting.vector), waiting.vector.dtype) for waiting in batch}) == 1:
            try:
                hits, encoder = self._index.searched(np.concatenate(vectors).reshape(len(batch), -1), batch[0].k)
            except Exception:
                pass  # each query gets its own error below
            else:
                return [Nearest(ids, distances, encoder, hits.epoch) for ids, distances in zip(*hits, strict=True)]
        return [_attempt(lambda w=waiting: self._alone(w)) for waiting in batch]  # type: ignore[misc]

    def _alone(self, waiting: _Waiting) -> Nearest:
        hits, encoder = self._index.searched(waiting.vector, waiting.k)
        return Nearest(hits.ids, hits.distances, encoder, hits.epoch)


def _attempt(search: Callable[[], Nearest]) -> Nearest | Exception:
    try:
        return search()
    except Exception as error:
        return error


def _settle(batch: list[_Waiting], results: list[Nearest | Exception]) -> None:
    for waiting, result in zip(batch, results, strict=True):
        if waiting.future.done():  # the client has disconnected
            continue
        if isinstance(result, Exception):
            waiting.future.set_exception(result)
        else:
            waiting.future.set_result(result)
