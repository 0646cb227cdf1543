"""Runs calls over HTTP: `Connection` waits for each answer, `AsyncConnection` is awaited."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from onlinehash import __version__
from onlinehash.client.session import Answer, Attempt, Call, Failure
from onlinehash.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    import httpx

#: Connections to all replicas together, and those that are kept open while nobody uses them.
MOST_CONNECTIONS, MOST_IDLE = 256, 64

T = TypeVar("T")


class Connection:
    """Connections to a service that any number of threads may use."""

    def __init__(self, token: str | None = None) -> None:
        self._http: httpx.Client = _httpx().Client(headers=_headers(token), limits=_limits())

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def run(self, call: Call[T]) -> T:
        """The result of a call."""
        _check_open(self._http)
        outcome: Answer | Failure | None = None
        while True:
            try:
                step = call.send(outcome)
            except StopIteration as end:
                found: T = end.value
                return found
            if isinstance(step, Attempt):
                outcome = self._attempt(step)
            else:
                outcome = None
                time.sleep(step.seconds)

    def _attempt(self, attempt: Attempt) -> Answer | Failure:
        httpx, deadline = _httpx(), time.monotonic() + attempt.seconds
        try:
            response = self._http.send(_request(self._http, attempt), stream=True)
            try:
                parts = []
                for part in response.iter_bytes():  # the timeout applies to each part, the deadline to all
                    parts.append(part)
                    if time.monotonic() > deadline:
                        return Failure("")
                return Answer(response.status_code, response.headers, b"".join(parts))
            finally:
                response.close()
        except (httpx.TransportError, httpx.DecodingError) as error:
            return _failure(error)


class AsyncConnection:
    """Connections to a service that any number of tasks of one event loop may use."""

    def __init__(self, token: str | None = None) -> None:
        self._http: httpx.AsyncClient = _httpx().AsyncClient(headers=_headers(token), limits=_limits())

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def run(self, call: Call[T]) -> T:
        """The result of a call."""
        _check_open(self._http)
        outcome: Answer | Failure | None = None
        while True:
            try:
                step = call.send(outcome)
            except StopIteration as end:
                found: T = end.value
                return found
            if isinstance(step, Attempt):
                outcome = await self._attempt(step)
            else:
                outcome = None
                await asyncio.sleep(step.seconds)

    async def _attempt(self, attempt: Attempt) -> Answer | Failure:
        httpx = _httpx()
        try:
            async with asyncio.timeout(attempt.seconds):
                response = await self._http.send(_request(self._http, attempt))
        except TimeoutError:
            return Failure("")
        except (httpx.TransportError, httpx.DecodingError) as error:
            return _failure(error)
        return Answer(response.status_code, response.headers, response.content)


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise MissingExtra("connect", "httpx", "serve") from None
    return httpx


def _headers(token: str | None) -> dict[str, str]:
    headers = {"User-Agent": f"onlinehash/{__version__}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {_checked_token(token)}"
    return headers


def _checked_token(token: str) -> str:
    if not isinstance(token, str) or not token or not all("!" <= letter <= "~" for letter in token):
        raise InvalidInput("the token must be visible ASCII characters without spaces.")
    return token


def _limits() -> httpx.Limits:
    limits: httpx.Limits = _httpx().Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_IDLE)
    return limits


def _check_open(http: httpx.Client | httpx.AsyncClient) -> None:
    if http.is_closed:
        raise InvalidInput("the connection is closed; connect again.")


def _request(http: httpx.Client | httpx.AsyncClient, attempt: Attempt) -> httpx.Request:
    request = attempt.request
    timeout = _httpx().Timeout(attempt.silent_seconds, connect=attempt.connect_seconds, pool=attempt.seconds)
    return http.build_request(
        request.method,
        attempt.url + request.path,
        content=request.content,
        params=request.params or None,
        headers=request.headers,
        timeout=timeout,
    )


def _failure(error: Exception) -> Failure:
    httpx = _httpx()
    is_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    if isinstance(error, httpx.TimeoutException):
        return Failure("", is_sent, not isinstance(error, httpx.PoolTimeout))
    return Failure(f"no answer ({str(error).rstrip('.') or type(error).__name__})", is_sent)
