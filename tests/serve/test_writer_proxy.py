"""A reader that hands requests on to its writer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx

from onlinehash.serve.settings import Limits
from onlinehash.serve.writer_proxy import WriterProxy


class Pieces(httpx.AsyncByteStream):
    """An answer of the writer, which may be closed."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"piece"

    async def aclose(self) -> None:
        self.closed = True


class Writer(httpx.AsyncBaseTransport):
    """A writer that answers at once."""

    def __init__(self) -> None:
        self.pieces = Pieces()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=self.pieces)


def forwarded(*messages: dict[str, Any]) -> tuple[list[Any], bool]:
    """What was sent to a client of whom these messages come, and whether the writer's answer was let go of."""
    sent: list[Any] = []
    coming = iter(messages)

    async def receive() -> Any:
        message = next(coming, None)
        return message if message is not None else await asyncio.Future()

    async def send(message: Any) -> None:
        await asyncio.sleep(0)  # as where the client has not taken an earlier answer yet
        sent.append(message)

    async def run() -> bool:
        proxy, writer = WriterProxy(None, "/nowhere", Limits(), lambda: True), Writer()  # type: ignore[arg-type]
        proxy._client = httpx.AsyncClient(transport=writer)
        scope = {"type": "http", "method": "POST", "path": "/v1/items", "raw_path": b"/v1/items", "query_string": b""}
        await proxy(scope | {"headers": [], "asgi": {"spec_version": "2.3"}}, receive, send)
        return writer.pieces.closed

    return sent, asyncio.run(run())


def test_an_answer_comes_through_and_is_let_go_of() -> None:
    sent, closed = forwarded({"type": "http.request", "body": b"{}"})
    assert b"".join(message.get("body", b"") for message in sent) == b"piece"
    assert closed


def test_an_answer_that_nobody_waits_for_is_let_go_of() -> None:
    _, closed = forwarded({"type": "http.request", "body": b"{}"}, {"type": "http.disconnect"})
    assert closed  # else the connection to the writer would stay open for ever
