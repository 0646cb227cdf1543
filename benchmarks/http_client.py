"""HTTP by hand: requests written out beforehand, connections that stay open, and a load that costs its sender little.

No client library is used: the sender of a benchmark must not be what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

import uvloop

HOST = "127.0.0.1"
JSON, FORMAT = "application/json", "application/vnd.onlinehash"

#: Seconds between two tries to reach a service that is not there.
PAUSE = 0.1


class Answer(NamedTuple):
    """What came back; the head is in small letters."""

    status: int
    head: bytes
    body: bytes


def request(method: str, path: str, body: bytes = b"", kind: str = JSON, **more: str) -> bytes:
    """The bytes of a request; `more` are headers, with underscores for hyphens."""
    headers = {"Host": HOST, "Content-Length": str(len(body))} | ({"Content-Type": kind} if body else {})
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


class Connection(asyncio.Protocol):
    """Reads one answer at a time, by its Content-Length."""

    transport: Any

    def __init__(self) -> None:
        self._pieces, self._whole = b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._pieces = pieces = self._pieces + data if self._pieces else data
        end = pieces.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        if not self._whole:
            head = pieces[:end].lower()
            self._whole = end + int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        if len(pieces) < self._whole:
            return
        self._pieces, self._whole = b"", 0
        self.answered(Answer(int(pieces[9:12]), pieces[:end].lower(), pieces[end:]))

    def answered(self, answer: Answer) -> None:
        """A whole answer is here."""


class Client(Connection):
    """Asks, and waits for the answer."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port, self._open = port, False
        self._waiting: asyncio.Future[Answer] | None = None
        self.retries = 0

    async def ask(self, data: bytes) -> Answer:
        """One answer; ConnectionError where the service goes away, or is not there."""
        if not self._open:
            await asyncio.get_running_loop().create_connection(lambda: self, HOST, self._port)
            self._open, self._pieces, self._whole = True, b"", 0
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self._waiting

    async def insist(self, data: bytes, seconds: float = 120) -> Answer:
        """`ask` until there is an answer: the same request again, as its key allows."""
        give_up = time.perf_counter() + seconds
        while True:
            try:
                return await self.ask(data)
            except ConnectionError:
                self.retries += 1
                if time.perf_counter() > give_up:
                    raise
                await asyncio.sleep(PAUSE)

    def answered(self, answer: Answer) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the service went away"))

    def close(self) -> None:
        if self._open:
            self.transport.close()


class Flooding(Connection):
    """Sends the next request as soon as the last one was answered, until the load ends."""

    def __init__(self, load: Load, at: int) -> None:
        super().__init__()
        self._load, self._at, self._sent = load, at, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._next()

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._load.requests)
        self._sent = time.perf_counter()
        self.transport.write(self._load.requests[self._at])

    def answered(self, answer: Answer) -> None:
        now = time.perf_counter()
        self._load.note(answer.status, now - self._sent, now)
        if now < self._load.end:
            self._next()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() < self._load.end:
            self._load.lost += 1
            self._load.open(self._at)
        else:
            self._load.ended()


class Load:
    """Some connections at once, for some seconds; the first moments are not counted."""

    def __init__(self, port: int, requests: list[bytes], connections: int, seconds: float) -> None:
        self.port, self.requests, self._running = port, requests, connections
        self.begin = time.perf_counter() + min(0.5, seconds / 4)
        self.end = self.begin + seconds
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.lost = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.get_running_loop().create_future()
        for i in range(connections):
            self.open(i * len(requests) // connections)

    def open(self, at: int) -> None:
        """One more connection, as soon as the service is there."""
        task = asyncio.get_running_loop().create_task(self._open(at))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, at: int) -> None:
        while time.perf_counter() < self.end:
            try:
                await asyncio.get_running_loop().create_connection(lambda: Flooding(self, at), HOST, self.port)
                return
            except ConnectionError:
                await asyncio.sleep(PAUSE)
        self.ended()

    def note(self, status: int, seconds: float, now: float) -> None:
        self.statuses[status] += 1
        if self.begin <= now <= self.end:
            self.latencies.append(seconds)

    def ended(self) -> None:
        self._running -= 1
        if not self._running:
            self._over.set_result(None)

    async def over(self) -> None:
        await self._over


def flood(port: int, requests: list[bytes], connections: int, seconds: float) -> dict[str, Any]:
    """A load, from this process: seconds of each answer, answers by status, connections that were cut.

    `busy` is the share of the time in which this process had a core: near 1, the sender is what was measured.
    """

    async def run() -> Load:
        load = Load(port, requests, connections, seconds)
        await load.over()
        return load

    begin, used = time.perf_counter(), time.process_time()
    load = uvloop.run(run())
    return {
        "rate": len(load.latencies) / seconds,
        "latencies": load.latencies,
        "statuses": dict(load.statuses),
        "lost": load.lost,
        "busy": (time.process_time() - used) / (time.perf_counter() - begin),
    }


class Sender:
    """A process that sends loads, one after the other."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def start(self, port: int, requests: list[bytes], connections: int, seconds: float) -> Future[dict[str, Any]]:
        """Begin; the future has what `flood` gives."""
        return self._pool.submit(flood, port, requests, connections, seconds)

    def flood(self, port: int, requests: list[bytes], connections: int, seconds: float) -> dict[str, Any]:
        """`flood`, from there."""
        return self.start(port, requests, connections, seconds).result()


@contextmanager
def sender() -> Iterator[Sender]:
    """A sender while inside; it is up when this begins."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(time.perf_counter).result()
        yield Sender(pool)
