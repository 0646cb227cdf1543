"""Responses: JSON with the encoder's version, and errors in one form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Scope, Send

from onlinehash.errors import OnlineHashError
from onlinehash.learners.encoder import Encoder
from onlinehash.serve import errors

JSON = "application/json"

#: A server that has this extension (`connections`) takes the JSON of a success at once: body -> was it sent?
WHOLE = "onlinehash.whole_answer"


def answer(
    document: dict[str, Any], encoder: Encoder | None, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON response that names the encoder it is based on."""
    document["encoder"] = None if encoder is None else encoder.version
    return Response(_json(document), status, headers, JSON)


def _json(document: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # payloads may hold integers beyond 64 bits and lone surrogates, which only json writes
        return json.dumps(document, default=lambda array: array.tolist()).encode()


async def send_json(scope: Scope, send: Send, document: dict[str, Any]) -> None:
    """Send what `answer` would return, without the overhead of a Response object."""
    data = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    send_whole = scope.get("extensions", {}).get(WHOLE)
    if send_whole is not None and send_whole(data):
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def refusal(error: OnlineHashError) -> Response:
    """An error as JSON."""
    headers = {}
    if isinstance(error, errors.Busy):
        headers["Retry-After"] = str(error.retry_after)
    elif error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif error.http_status == 503:
        headers["Retry-After"] = "1"
    return Response(orjson.dumps(errors.document(error)), error.http_status, headers, JSON)
