"""Server-sent events: any thread sends, every listener receives, and a slow listener delays nobody.

`Activity` collects what changes did between two events, so that a thousand pairs a second make ten events, not a
thousand.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from itertools import chain

import orjson

from onlinehash.learners.update import Updates
from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.settings import Limits

#: Messages that may wait for a listener; when there are more, the oldest is dropped.
BACKLOG = 256
#: Seconds of silence after which a comment is sent, so that proxies keep the connection open.
KEEP_ALIVE_SECONDS = 15.0
#: Losses in one `learned` event: the latest ones.
MOST_LOSSES = 200
#: Calls whose pairs are counted together at most.
MOST_UNCOUNTED = 100


class Events:
    """The listeners of a service, each with a short queue in the event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[asyncio.Queue[bytes | None], str] = {}  # queue -> address of the client

    def open(self) -> None:
        """Accept listeners; called in the event loop that they will run in."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Disconnect all listeners, so that the server can stop; called in the event loop."""
        self._loop = None
        for queue in self._listeners:
            _put(queue, None)

    def __len__(self) -> int:
        return len(self._listeners)

    def send(self, name: str, data: Mapping[str, object]) -> None:
        """Send an event to all listeners; may be called from any thread."""
        loop = self._loop
        if loop is not None and self._listeners:
            message = _message(name, data)
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(self._put_to_all, message)

    def _put_to_all(self, message: bytes) -> None:
        for queue in self._listeners:
            _put(queue, message)

    async def subscribe(self, hello: Mapping[str, object], client: str) -> AsyncGenerator[bytes, None]:
        """All events from now on, after a `hello`; refused if there are too many listeners."""
        if self._loop is None:
            raise Unavailable("the service is shutting down; retry later.")
        most, most_of_one = self._limits.events, self._limits.events_per_client
        if len(self._listeners) >= most:
            raise Busy(f"too many listeners (the limit is {most}); close one, or retry later.", retry_after=10)
        if sum(address == client for address in self._listeners.values()) >= most_of_one:
            raise Busy(f"too many listeners from one address (the limit is {most_of_one}); close one.", retry_after=10)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(BACKLOG)
        queue.put_nowait(_message("hello", hello))
        messages = self._messages(queue, client)
        await anext(messages)  # registers the listener now, before the next one is counted
        return messages

    async def _messages(self, queue: asyncio.Queue[bytes | None], client: str) -> AsyncGenerator[bytes, None]:
        self._listeners[queue] = client
        try:
            yield b""  # to `subscribe` only
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    message = b": still here\n\n"
                if message is None:
                    return
                yield message
        finally:
            self._listeners.pop(queue, None)


def _put(queue: asyncio.Queue[bytes | None], message: bytes | None) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(message)


def _message(name: str, data: Mapping[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY))


class Activity:
    """What changes did: totals, and what no event has told yet. The writer adds to it, the event task takes from it."""

    def __init__(self) -> None:
        self._n_learned = self._n_updated = 0
        self._uncounted: list[Updates] = []
        self._recent, self._lock = RecentActivity(), threading.Lock()

    def items_changed(self) -> None:
        """Items were added, updated or removed."""
        with self._lock:
            self._recent.items_changed = True

    def learned(self, updates: Updates) -> None:
        """Pairs were learned."""
        with self._lock:
            self._uncounted.append(updates)
            if len(self._uncounted) >= MOST_UNCOUNTED:
                self._count()

    def _count(self) -> None:
        """Count what was learned: to count the pairs of many calls takes about as long as to count those of one."""
        if self._uncounted:
            updates, self._uncounted = Updates.join(self._uncounted), []
            n_updated = int(updates.changed().sum())
            self._n_learned += len(updates)
            self._n_updated += n_updated
            self._recent.add(updates, n_updated)

    @property
    def totals(self) -> tuple[int, int]:
        """How many pairs were learned so far, and how many of them changed a hash function."""
        with self._lock:
            self._count()
            return self._n_learned, self._n_updated

    def take(self) -> RecentActivity:
        """Return what happened since the last call."""
        with self._lock:
            self._count()
            recent, self._recent = self._recent, RecentActivity()
        return recent


class RecentActivity:
    """Pairs learned, and whether items changed, since the last event."""

    def __init__(self) -> None:
        self.items_changed = False
        self.n_learned, self._n_updated = 0, 0
        self._losses: list[float] = []
        self._bits: Counter[int] = Counter()

    def add(self, updates: Updates, n_updated: int) -> None:
        """Add pairs, so many of which changed a hash function."""
        self.n_learned += len(updates)
        self._n_updated += n_updated
        self._losses = (self._losses + updates.loss[-MOST_LOSSES:].tolist())[-MOST_LOSSES:]
        self._bits.update(chain.from_iterable(updates.all_bits()[-MOST_LOSSES:]))

    def event(self) -> dict[str, object]:
        """The data of the event `learned`."""
        bits = {str(bit): times for bit, times in sorted(self._bits.items())}
        return {"losses": self._losses, "updated": self._n_updated, "count": self.n_learned, "bits": bits}
