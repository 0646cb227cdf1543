"""Servers that misbehave as they are told, and clients of either kind that are called alike."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from onlinehash.client.async_remote_index import AsyncRemoteIndex, AsyncRemoteRefresh
from onlinehash.client.connection import AsyncConnection, Connection
from onlinehash.client.session import Call, Session


@dataclass
class Asked:
    """A request that a server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """What a server is to answer; a status of 0 is to hang up without a word."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


Answering = Callable[[Asked], Reply]


class Server(ThreadingHTTPServer):
    """One that ends with its connections: closing it waits for the threads that answer."""

    daemon_threads = False


@contextmanager
def serving(answering: Answering) -> Iterator[str]:
    """A server on loopback that answers as it is told; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60  # of a connection that a client leaves open

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            asked = Asked(self.command, self.path, dict(self.headers), self.rfile.read(length))
            reply = answering(asked)
            if reply.status == 0:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in ({"content-type": "application/json"} | reply.headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def forwarding(url: str, asked: Asked) -> Reply:
    """What a server further on answers."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request(asked.method, asked.path, asked.body or None, asked.headers)
        answer = connection.getresponse()
        dropped = ("content-length", "transfer-encoding", "connection")
        headers = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in dropped}
        return Reply(answer.status, answer.read(), headers)
    finally:
        connection.close()


# ------------------------------------------------------------------ clients


class Service:
    """The requests of a session, over a connection that waits or over one that is awaited."""

    def __init__(self, session: Session, token: str | None = None, kind: str = "sync") -> None:
        self.session, self._runner = session, asyncio.Runner()
        self._connection: Any = Connection(token) if kind == "sync" else AsyncConnection(token)
        try:
            self._run(session.open())
        except BaseException:
            self.__exit__()
            raise

    def _run(self, call: Call[Any]) -> Any:
        return waited(self._runner, self._connection.run(call))

    def get(self, *args: Any, **query: Any) -> Any:
        return self._run(self.session.get(*args, **query))

    def ask(self, *args: Any, **options: Any) -> Any:
        return self._run(self.session.ask(*args, **options))

    def change(self, *args: Any, **options: Any) -> Any:
        return self._run(self.session.change(*args, **options))

    def close(self) -> None:
        waited(self._runner, self._connection.close())

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._runner.close()


class Blocking:
    """An asynchronous index, or a refresh of one, whose calls are waited for: to be compared with other indexes."""

    def __init__(self, runner: asyncio.Runner, inside: AsyncRemoteIndex | AsyncRemoteRefresh) -> None:
        self._runner, self._inside = runner, inside

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inside, name)
        return (
            (lambda *args, **options: self._waited(value(*args, **options))) if callable(value) else self._waited(value)
        )

    def _waited(self, value: Any) -> Any:
        found = waited(self._runner, value)
        return Blocking(self._runner, found) if isinstance(found, AsyncRemoteRefresh) else found

    def __len__(self) -> int:
        return int(self.count())

    def __contains__(self, id: object) -> bool:
        return bool(self.contains(id))

    def __iter__(self) -> Iterator[Any]:
        async def listed() -> list[Any]:
            return [id async for id in self._inside]  # type: ignore[union-attr]

        return iter(self._runner.run(listed()))


def waited(runner: asyncio.Runner, value: Any) -> Any:
    """A value, once it is there."""
    return runner.run(value) if inspect.iscoroutine(value) else value
