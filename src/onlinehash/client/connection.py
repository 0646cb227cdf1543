"""Requests to a service, retried where that is safe; errors in responses are raised as those of the library."""

from __future__ import annotations

import itertools
import json
import random
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from onlinehash import __version__, checks
from onlinehash.client import answers
from onlinehash.errors import InvalidInput, MissingExtra, ServiceUnavailable
from onlinehash.io import format

if TYPE_CHECKING:
    import httpx

MEDIA_TYPE = "application/vnd.onlinehash"
#: Statuses after which a request is retried: too many requests, and a service that starts or stops.
TRY_AGAIN = (429, 503)
#: Seconds before the first retry, and at most before any other, unless the service asks for more.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


#: The value of a query parameter.
Parameter = str | int | float | bool


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: httpx.Headers
    content: bytes


class Connection:
    """A pool of connections to one service; any number of threads may use it."""

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        self.url = _checked_url(url)
        rules = {"timeout": checks.real(0, above=True), "retries": checks.integer(0)}
        checks.parameters("connect", {"timeout": timeout, "retries": retries}, rules)
        self.timeout, self._retries = float(timeout), int(retries)
        headers = {"User-Agent": f"onlinehash/{__version__}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {_checked_token(token)}"
        self._http = _httpx().Client(base_url=self.url, headers=headers)
        try:
            self.about = self.get("/v1/about")
        except BaseException:
            self.close()
            raise

    @property
    def limits(self) -> dict[str, float]:
        """The limits of the service."""
        return dict(self.about.get("limits", {}))

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    # ------------------------------------------------------------------------------------------------ requests

    def get(self, path: str, **query: Parameter) -> dict[str, Any]:
        """The response to a GET request."""
        return self._read(self._send("GET", path, params=query))

    def download(self, path: str, **query: Parameter) -> bytes:
        """The bytes of a file."""
        answer = self._send("GET", path, params=query)
        self._check(answer)
        return answer.content

    def ask(self, path: str, body: Mapping[str, object], n_rows: int = 0, binary: bool = False) -> dict[str, Any]:
        """The response to a request that only reads, with a body of `n_rows` rows; `binary` asks for arrays."""
        headers = {"Accept": MEDIA_TYPE} if binary else {}
        return self._read(self._send("POST", path, content=self._packed(body, n_rows), headers=headers))

    def change(self, method: str, path: str, body: Mapping[str, object], n_rows: int = 0) -> dict[str, Any]:
        """Make a change, once, however often the request has to be sent."""
        content, key = self._packed(body, n_rows), secrets.token_hex(16)
        return self._read(self._send(method, path, content=content, headers={"Idempotency-Key": key}))

    def _packed(self, body: Mapping[str, object], n_rows: int) -> bytes:
        """The bytes of a body, within the limits of the service; one request is one change, so it is never split."""
        limits = self.limits
        most = limits.get("batch", n_rows)
        content = format.to_bytes("body", dict(body)) if n_rows <= most else b""
        room = limits.get("body_bytes", len(content))
        if len(content) > room:
            most = n_rows * room // len(content)
            if most == 0:
                raise InvalidInput(
                    expected=f"a request of at most {room} bytes, which this service takes",
                    got=f"{len(content)}",
                    hint="send less, or start the service with a larger limit",
                )
        if n_rows > most:
            raise InvalidInput(
                expected=f"at most {most} rows at once, which this service takes",
                got=f"{n_rows}",
                hint="make several calls, each of which is done wholly or not at all",
            )
        return content

    def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        params: Mapping[str, Parameter] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """The response to a request that may be retried: it only reads, or it has a key."""
        if self._http.is_closed:
            raise InvalidInput("the connection is closed; connect again.")
        headers = {"Accept": "application/json"} | (headers or {})
        if content is not None:
            headers["Content-Type"] = MEDIA_TYPE
        request = self._http.build_request(method, path, content=content, params=params or None, headers=headers)
        deadline = time.monotonic() + self.timeout
        for attempt in itertools.count():
            answer, problem = self._attempt(request, deadline)
            if answer is not None and answer.status not in TRY_AGAIN:
                return answer
            pause = random.uniform(0.5, 1.0) * min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
            if answer is not None:
                pause = max(pause, answers.seconds_to_wait(answer.headers.get("Retry-After")))
            if attempt >= self._retries or time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
        if answer is not None:
            raise answers.error_of(answer.status, answer.content, self.url)
        raise ServiceUnavailable(f"the service at {self.url} gave {problem}; start it, or check the URL.")

    def _attempt(self, request: httpx.Request, deadline: float) -> tuple[Answer | None, str]:
        """The response, or what went wrong."""
        httpx = _httpx()
        left = max(deadline - time.monotonic(), 0.001)
        request.extensions["timeout"] = httpx.Timeout(left).as_dict()
        try:
            response = self._http.send(request, stream=True)
            try:
                parts = []
                for part in response.iter_bytes():  # the timeout applies to each part, the deadline to all
                    parts.append(part)
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("the response came too slowly")
                return Answer(response.status_code, response.headers, b"".join(parts)), ""
            finally:
                response.close()
        except httpx.TimeoutException:
            return None, f"no answer within {self.timeout:g} seconds"
        except (httpx.TransportError, httpx.DecodingError) as error:
            return None, f"no answer ({str(error).rstrip('.') or type(error).__name__})"

    def _read(self, answer: Answer) -> dict[str, Any]:
        """The content of a response; raises the error in it."""
        self._check(answer)
        if answer.headers.get("Content-Type", "").startswith(MEDIA_TYPE):
            return format.from_bytes(answer.content, f"the answer of {self.url}")[1]
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise answers.foreign(answer.status, self.url)
        return found

    def _check(self, answer: Answer) -> None:
        if not 200 <= answer.status < 300:
            raise answers.error_of(answer.status, answer.content, self.url)

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise MissingExtra("connect", "httpx", "serve") from None
    return httpx


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # the port is not a number, or the IPv6 address is not valid
        good = False
    if not good:
        raise InvalidInput(expected="the URL of a service, such as 'http://127.0.0.1:8000'", got=checks.shown(url))
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(
            expected="a URL of host, port and path only", got="one with more", hint="a token goes into token="
        )
    return url.rstrip("/")


def _checked_token(token: str) -> str:
    if not isinstance(token, str) or not token or not all("!" <= letter <= "~" for letter in token):
        raise InvalidInput("the token must be visible ASCII characters without spaces.")
    return token
