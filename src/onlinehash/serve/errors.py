"""Errors that occur only in a service, and the JSON form of any error.

OnlineHashError
├── BadRequest             400  a body that is not what its content type says: not JSON, truncated, not UTF-8
├── Unauthorized           401  no token, or a wrong one (of onlinehash.errors, as clients raise it too)
├── Forbidden              403  a host, origin or action that is not allowed
├── NotFound               404  no such route or item
├── MethodNotAllowed       405  a method that the route does not take
├── RequestTimeout         408  a body that did not arrive in time
├── KeyReused              409  an idempotency key that was used for another request
├── TooLarge               413  a limit of the service is exceeded
├── UnsupportedMediaType   415  a content type that the route does not read
├── Busy                   429  too many requests; retry after `retry_after` seconds
├── ServerError            500  an internal error
├── Behind                 503  this process has not followed to the epoch that the request demands
├── Unavailable            503  starting or stopping, no memory left for the body, or a reader without its writer
└── DeadlineExceeded       504  the answer took longer than the service allows
"""

from __future__ import annotations

from onlinehash.errors import OnlineHashError, Unauthorized

__all__ = [
    "BadRequest",
    "Behind",
    "Busy",
    "DeadlineExceeded",
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
    """The body is not what its content type says. Nothing was changed."""

    http_status = 400


class Forbidden(OnlineHashError):
    """Not allowed here."""

    http_status = 403


class NotFound(OnlineHashError):
    """No such route or item."""

    http_status = 404


class MethodNotAllowed(OnlineHashError):
    """The route does not take this method."""

    http_status = 405


class RequestTimeout(OnlineHashError):
    """The body did not arrive in time. Nothing was changed."""

    http_status = 408


class KeyReused(OnlineHashError):
    """The idempotency key was used for another request. Nothing was changed."""

    http_status = 409


class TooLarge(OnlineHashError, ValueError):
    """A limit of the service is exceeded. Nothing was changed."""

    http_status = 413


class UnsupportedMediaType(OnlineHashError):
    """The route does not read this content type."""

    http_status = 415


class Busy(OnlineHashError):
    """Too many requests; retry after `retry_after` seconds. Nothing was changed."""

    http_status = 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ServerError(OnlineHashError):
    """An internal error."""

    http_status = 500


class Behind(OnlineHashError):
    """This process has not followed to the epoch that the request demands. Nothing was changed."""

    http_status = 503


class Unavailable(OnlineHashError):
    """Starting or stopping, no memory left for the body, or a reader that cannot reach its writer."""

    http_status = 503


class DeadlineExceeded(OnlineHashError):
    """The answer took longer than the service allows. Nothing was changed."""

    http_status = 504


def fault() -> ServerError:
    """What a client is told about an unexpected error."""
    return ServerError("internal error; see the service's log.")


def document(error: OnlineHashError) -> dict[str, str | None]:
    """The JSON of an error: its name, its message and, where a value was checked, what was expected and got."""
    return {"error": type(error).__name__, "message": str(error), "expected": error.expected, "got": error.got}
