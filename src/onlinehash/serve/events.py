"""Server-sent events: any thread sends, every listener receives, and slow listeners delay nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import orjson

from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.settings import Limits

#: Messages that may wait for a listener; the oldest is dropped for the next.
BACKLOG = 256
STILL_HERE = 15.0


class Hub:
    """Listeners, each with a short queue in the event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[asyncio.Queue[bytes | None], str] = {}  # and whose they are

    def open(self) -> None:
        """Called in the event loop that listeners will run in."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Disconnect all listeners, so that a server can stop; called in the event loop."""
        self._loop = None
        for queue in self._listeners:
            _put(queue, None)

    def __len__(self) -> int:
        return len(self._listeners)

    def tell(self, name: str, data: dict[str, Any]) -> None:
        """Send an event to all listeners; may be called from any thread."""
        loop = self._loop
        if loop is not None and self._listeners:
            message = _message(name, data)
            with suppress(RuntimeError):  # the loop was closed in this very moment
                loop.call_soon_threadsafe(self._spread, message)

    def _spread(self, message: bytes) -> None:
        for queue in self._listeners:
            _put(queue, message)

    async def listen(self, hello: dict[str, Any], client: str) -> AsyncIterator[bytes]:
        """All events from now on, after a `hello`; refused at once if there are too many listeners."""
        if self._loop is None:
            raise Unavailable("the service is shutting down; retry later.")
        most, most_of_one = self._limits.events, self._limits.events_per_client
        if len(self._listeners) >= most:
            raise Busy(f"too many listeners (the limit is {most}); close one, or retry later.", retry_after=10)
        if sum(of == client for of in self._listeners.values()) >= most_of_one:
            raise Busy(f"too many listeners at one address (the limit is {most_of_one}); close one.", retry_after=10)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(BACKLOG)
        queue.put_nowait(_message("hello", hello))
        messages = self._messages(queue, client)
        await anext(messages)  # which counts it at once, before others are let in
        return messages

    async def _messages(self, queue: asyncio.Queue[bytes | None], client: str) -> AsyncIterator[bytes]:
        self._listeners[queue] = client
        try:
            yield b""  # to `listen` only
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), STILL_HERE)
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


def _message(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY))
