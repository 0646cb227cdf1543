"""The errors that only a service can meet, and what it says about any error.

OnlineHashError
├── BadRequest             400  bytes that are not what they say they are: no JSON, cut off, no UTF-8
├── Unauthorized           401  no token, or a wrong one (of onlinehash.errors, as clients raise it too)
├── Forbidden              403  a host or an action that is not allowed here
├── NotFound               404  no such route, or nothing there
├── MethodNotAllowed       405  a route that is not asked in this way
├── RequestTimeout         408  a body that came too slowly
├── KeyReused              409  an idempotency key that came with another request before
├── TooLarge               413  more than the service's limits
├── UnsupportedMediaType   415  a body of a kind that this route does not read
├── Busy                   429  too much at once; `retry_after` says in how many seconds to come back
├── ServerError            500  a fault of ours
└── Unavailable            503  starting or stopping, or a reader whose writer is away
"""

from __future__ import annotations

import re
from typing import Any

from onlinehash.errors import OnlineHashError, Unauthorized

__all__ = [
    "BadRequest",
    "Busy",
    "Forbidden",
    "KeyReused",
    "MethodNotAllowed",
    "NotFound",
    "RequestTimeout",
    "ServerError",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnsupportedMediaType",
    "document",
]


class BadRequest(OnlineHashError, ValueError):
    """Bytes that are not what they say they are. Nothing was changed."""

    http_status = 400


class Forbidden(OnlineHashError):
    """Not allowed here."""

    http_status = 403


class NotFound(OnlineHashError):
    """No such route, or nothing there."""

    http_status = 404


class MethodNotAllowed(OnlineHashError):
    """A route that is not asked in this way."""

    http_status = 405


class RequestTimeout(OnlineHashError):
    """A body that came too slowly. Nothing was changed."""

    http_status = 408


class KeyReused(OnlineHashError):
    """An idempotency key that came with another request before. Nothing was changed."""

    http_status = 409


class TooLarge(OnlineHashError, ValueError):
    """More than the service's limits. Nothing was changed."""

    http_status = 413


class UnsupportedMediaType(OnlineHashError):
    """A body of a kind that this route does not read."""

    http_status = 415


class Busy(OnlineHashError):
    """Too much at once; the same request can be sent again after `retry_after` seconds. Nothing was changed."""

    http_status = 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ServerError(OnlineHashError):
    """A fault of ours."""

    http_status = 500


class Unavailable(OnlineHashError):
    """Starting or stopping, or a reader whose writer is away."""

    http_status = 503


#: How messages say it; the last three are in the words of scikit-learn, whose users look for them.
_SENTENCES = [
    re.compile(r"[Ee]xpect(ed|s) (?P<expected>.*?), got:? ?(?P<got>.*?)(;.*|\.?)$", re.DOTALL),
    re.compile(r"(?P<got>\S+ has \d+ features), but .* is expecting (?P<expected>\d+ features)"),
    re.compile(r"(?P<got>\S+ (contains|has) .*?) in row .*; expected (?P<expected>[^,]*),"),
    re.compile(r"Found (?P<got>.*?) while (?P<expected>.*?) is required"),
]


def fault() -> ServerError:
    """What a client is told of an error that nobody foresaw."""
    return ServerError("internal error; see the service's log.")


def document(error: OnlineHashError) -> dict[str, Any]:
    """The answer's JSON: the error's name and sentence, and what of it was expected and got."""
    message = str(error)
    expected, got = _parts(message)
    return {"error": type(error).__name__, "message": message, "expected": expected, "got": got}


def _parts(message: str) -> tuple[str | None, str | None]:
    """What was expected and what was got, out of the sentences that say so."""
    for pattern in _SENTENCES:
        if found := pattern.search(message):
            return found["expected"], found["got"]
    return None, None
