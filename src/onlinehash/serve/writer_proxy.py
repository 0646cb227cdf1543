"""`WriterProxy`: forwards to the writer process what a read-only process cannot answer."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import httpx
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from onlinehash.serve.errors import Forbidden, Unavailable
from onlinehash.serve.middleware import ADDED
from onlinehash.serve.requests import CLIENT_HEADER, body_of, client_of
from onlinehash.serve.settings import Limits

READY = "/v1/ready"

#: POST requests that a reader answers itself, and GET requests that only the writer can answer.
READS = {"/v1/find", "/v1/search", "/v1/within", "/v1/rerank", "/v1/search/image", "/v1/codes", "/v1/items/get"}
OF_THE_WRITER = {"/events", "/v1/teacher", "/v1/compare", "/v1/stats", "/v1/about", READY}

#: Headers that concern one connection, and headers that the reader's own middleware and server add.
_OF_CONNECTIONS = {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"expect"}
_NOT_PASSED_ON = {*_OF_CONNECTIONS, b"date", CLIENT_HEADER, *ADDED}

#: The route of forwarded requests in metrics and logs.
_FORWARDED = SimpleNamespace(path="forwarded")


class WriterProxy:
    """ASGI middleware: requests that only the writer can answer go to the writer's socket.

    A reader that is ready asks whether its writer is, too, as clients send it changes; `is_ready` tells of the reader.
    """

    def __init__(self, app: ASGIApp, socket: str | None, limits: Limits, is_ready: Callable[[], bool]) -> None:
        self._app, self._socket, self._limits, self._is_ready = app, socket, limits, is_ready
        transport = None if socket is None else httpx.AsyncHTTPTransport(uds=socket, limits=httpx.Limits())
        # The writer answers a change when it is on the disk, after all changes that were queued before it.
        self._client = httpx.AsyncClient(
            transport=transport, timeout=httpx.Timeout(limits.body_seconds, read=None), trust_env=False
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with self._client:
                await self._app(scope, receive, send)
            return
        if scope["type"] != "http" or not self._is_for_the_writer(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        if self._socket is None:
            raise Forbidden("this service is read-only; send changes to the one that writes.")
        scope["route"] = _FORWARDED
        answered = await self._answered(Request(scope, receive))
        try:
            response = StreamingResponse(answered.aiter_raw(), answered.status_code)
            response.raw_headers = _passed_on(answered.headers.raw)
            await response(scope, receive, send)
        finally:
            await answered.aclose()  # also if the client disconnects before the first chunk

    def _is_for_the_writer(self, method: str, path: str) -> bool:
        if method not in ("GET", "HEAD", "OPTIONS"):
            return path not in READS
        return self._socket is not None and path in OF_THE_WRITER and (path != READY or self._is_ready())

    async def _answered(self, request: Request) -> httpx.Response:
        # The raw path, because an id in it may contain an encoded question mark.
        target = request.scope["raw_path"] + b"?" * bool(request.scope["query_string"]) + request.scope["query_string"]
        asked = self._client.build_request(
            request.method,
            httpx.URL("http://writer", raw_path=target),
            headers=[*_passed_on(request.headers.raw), (CLIENT_HEADER, client_of(request.scope).encode("latin-1"))],
            content=await body_of(request.receive, self._limits),
        )
        try:
            return await self._client.send(asked, stream=True)
        except httpx.TransportError:
            raise Unavailable("the writer process did not answer; retry with the same Idempotency-Key.") from None


def _passed_on(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _NOT_PASSED_ON]
