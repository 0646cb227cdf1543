"""What goes out: JSON with the encoder's version in it, and errors in one form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Send

from onlinehash.errors import OnlineHashError
from onlinehash.learners.encoder import Encoder
from onlinehash.serve import errors

JSON = "application/json"
ENCODER_HEADER = b"onlinehash-encoder"


def answer(
    document: dict[str, Any], encoder: Encoder | None, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON object that says which encoder it rests on."""
    version = None if encoder is None else encoder.version
    document["encoder"] = version
    found = {ENCODER_HEADER.decode(): "none" if version is None else str(version)}
    if headers:
        found |= headers
    return Response(_json(document), status, found, JSON)


def _json(document: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # payloads may hold integers beyond 64 bits and lone surrogates, which only json writes
        return json.dumps(document, default=lambda array: array.tolist()).encode()


async def send_json(send: Send, document: dict[str, Any], version: int) -> None:
    """What `answer` would send, without a Response around it, where every microsecond counts."""
    data = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(data)).encode()),
        (ENCODER_HEADER, str(version).encode()),
    ]
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
