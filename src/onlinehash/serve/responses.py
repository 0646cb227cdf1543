"""Responses: JSON with the encoder's version, outcomes of changes, and errors in one form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onlinehash.errors import OnlineHashError
from onlinehash.learners.encoder import Encoder
from onlinehash.serve import errors
from onlinehash.serve.changes import Done
from onlinehash.serve.service import Service

JSON = "application/json"
#: The epoch that an answer was made from or, for changes, one at which the change can be seen.
EPOCH_HEADER = b"onlinehash-epoch"
REPLAYED_HEADER = "Idempotency-Replayed"

#: An ASGI extension of our server (`connections`): sends status, headers and body in one write, past the middleware;
#: returns whether it did, and notes the status in the scope under the same name.
WHOLE = "onlinehash.whole_answer"
#: Bytes of a body that is sent so.
SHORT = 1 << 14
#: Another one: waits until the client has received what was sent, or is gone.
RECEIVED = "onlinehash.received"

#: A JSON object that is sent.
Document: TypeAlias = dict[str, object]

T = TypeVar("T")


def answer(
    document: Document,
    encoder: Encoder | None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    epoch: int | None = None,
) -> Response:
    """A JSON response that names the encoder and, where it is known better than when it arrived, the epoch it is of."""
    document["encoder"] = None if encoder is None else encoder.version
    response = Response(_json(document), status, headers, JSON)
    if epoch is not None:
        response.raw_headers.append((EPOCH_HEADER, b"%d" % epoch))
    return response


class Pieces:
    """Parts of a response whose size is not known before they are made; refused once they are too large together."""

    def __init__(self, most: int) -> None:
        self._most, self._n_bytes = most, 0

    def add(self, part: object) -> orjson.Fragment:
        """The part as JSON, which is put into the response as it is."""
        data = _json(part)
        self._n_bytes += len(data)
        if self._n_bytes > self._most:
            raise errors.TooLarge(f"the response is larger than the limit of {self._most:,} bytes; ask for less.")
        return orjson.Fragment(data)


def _json(document: object) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # payloads may hold integers beyond 64 bits and lone surrogates, which only `json` can write
        return json.dumps(document, default=lambda array: array.tolist()).encode()


async def send_json(scope: Scope, send: Send, document: Document, epoch: int) -> None:
    """Send what `answer` would return, without the overhead of a Response object."""
    data = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    headers.append((EPOCH_HEADER, b"%d" % epoch))
    if not _sent_whole(scope, 200, headers, data):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": data})


class ChangeRoute:
    """A route for small changes, an ASGI application: calls the function of a route without the framework around it."""

    def __init__(self, change: Callable[[Request], Awaitable[Response]]) -> None:
        self._change = change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._change(Request(scope, receive))
        headers, body = response.raw_headers, bytes(response.body)
        # Where the response does not name its epoch, the middleware does.
        if headers[-1][0] != EPOCH_HEADER or not _sent_whole(scope, response.status_code, headers, body):
            await response(scope, receive, send)


def _sent_whole(scope: Scope, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
    send_whole = scope.get("extensions", {}).get(WHOLE)
    return send_whole is not None and len(body) <= SHORT and send_whole(scope, status, headers, body)


async def done(
    future: Future[Done[T]], service: Service, describe: Callable[[T], Document], status: int = 200
) -> Response:
    """The response to a change, once it is made."""
    result = await asyncio.wrap_future(future)  # the writer makes it even if the client leaves
    headers = {REPLAYED_HEADER: "true"} if result.replayed else None
    epoch = service.index.head_epoch  # which the change is part of, even if this process could not follow it yet
    return answer(describe(result.outcome), service.index.encoder, status, headers, epoch)


def refusal(error: OnlineHashError) -> Response:
    """An error as JSON.

    The error loses its traceback. That refers to the frames that parsed the body, and one of those to a future, which
    refers to the error: they would keep the body in memory until the garbage collector finds them.
    """
    error.with_traceback(None)
    headers = {}
    if isinstance(error, errors.Busy):
        headers["Retry-After"] = str(error.retry_after)
    elif error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif error.http_status == 503:
        headers["Retry-After"] = "1"
    return Response(orjson.dumps(errors.document(error)), error.http_status, headers, JSON)
