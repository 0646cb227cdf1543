"""Middleware that every request passes before it reaches a route, and every answer on its way out.

It checks host, origin, token, rate and size, adds security headers, counts requests, and writes the access log.
"""

from __future__ import annotations

import hmac
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import parse_qsl, urlsplit

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onlinehash import checks
from onlinehash.errors import OnlineHashError
from onlinehash.serve import errors, logs
from onlinehash.serve.epochs import AT_LEAST_HEADER, EPOCH, wait_for_epoch
from onlinehash.serve.memory import CONSIDERABLE, NO_ROOM, Body, Memory
from onlinehash.serve.metrics import Metrics
from onlinehash.serve.requests import HEADERS, client_of, too_large
from onlinehash.serve.responses import EPOCH_HEADER, RECEIVED, WHOLE, refusal
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Access

#: Paths that need no token: the page itself holds no data, and monitoring must reach the others.
OPEN = ("/", "/v1/health", "/v1/ready", "/favicon.ico")
PAGE = "/page/"
#: The paths whose answers name the epoch they are of.
PATHS = "/v1/"
#: The version of the encoder, in errors and in answers that are not JSON.
ENCODER_HEADER = b"onlinehash-encoder"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
#: What is sent by POST and changes nothing, so that its response may be refused after it was made.
POSTED_READS = frozenset(
    f"/v1/{name}" for name in ("find", "search", "within", "rerank", "search/image", "codes", "compare", "items/get")
)
MOST_CLIENTS = 10_000
#: Headers that security depends on; if one came twice, it would matter which is read.
ONCE = (b"host", b"authorization", b"origin", b"content-length", b"content-type", b"idempotency-key")

_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
#: A proxy may resolve such parts of a path, encoded or not, and then forward a request for another resource.
_DOTS = re.compile(r"[/\\]\.\.?(?:[/\\;]|$)")
#: Only the id of an item may have a slash that is no separator.
_ITEMS, _ENCODED_SLASH = b"/v1/items/", re.compile(rb"%2f", re.IGNORECASE)

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_SAME_ORIGIN = (b"cross-origin-resource-policy", b"same-origin")
_FOR_PAGE = [
    _NO_SNIFFING,
    _SAME_ORIGIN,
    (b"content-security-policy", PAGE_POLICY.encode()),
    (b"cache-control", b"no-cache"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
_FOR_DATA = [
    _NO_SNIFFING,
    _SAME_ORIGIN,
    (b"content-security-policy", DATA_POLICY.encode()),
    (b"cache-control", b"no-store"),
]
#: Responses to other methods are never framed, embedded or cached, and each header costs a search some microseconds.
_FOR_CHANGES = [_NO_SNIFFING]

#: All requests with the token count as one client; no address is called this.
_WITH_TOKEN = "token"

#: The names of the headers that are added here.
ADDED = frozenset(name for name, _ in _FOR_PAGE)


class Middleware:
    """ASGI middleware around the application; it calls hot routes directly, without routing."""

    def __init__(self, app: ASGIApp, hot: list[Route], service: Service, access: Access, metrics: Metrics) -> None:
        self._app, self._hot = app, {route.path: route for route in hot}
        self._plain_targets = {path.encode() for path in self._hot}
        self._service, self._limits, self._metrics = service, service.limits, metrics
        self._token = None if access.token is None else access.token.encode()
        self._hosts = access.known_hosts
        self._rate = RateLimiter(self._limits.rate) if self._limits.rate else None
        self._memory = Memory(self._limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, path, status, whole = time.perf_counter(), scope["path"], 0, False
        is_page = path == "/" or path.startswith(PAGE)
        is_change = scope["method"] not in SAFE_METHODS
        extra = _FOR_CHANGES if is_change else _FOR_PAGE if is_page else _FOR_DATA

        is_read, held, is_dropped = not is_change or path in POSTED_READS, 0, False

        async def send_on(message: Message) -> None:
            nonlocal status, whole, held, is_dropped
            if is_dropped:
                return
            if message["type"] == "http.response.start":
                length = _length(message["headers"])
                if is_read and not self._memory.has_room(length):
                    await refusal(errors.Unavailable(NO_ROOM))(scope, receive, send_on)
                    is_dropped = True
                    return
                held = length
                self._memory.hold(held)
                status = message["status"]
                message["headers"] = [*message["headers"], *extra]
                if path.startswith(PATHS) and not any(name == EPOCH_HEADER for name, _ in message["headers"]):
                    message["headers"].append((EPOCH_HEADER, b"%d" % scope.get(EPOCH, self._service.index.epoch)))
                if status >= 400 or not (is_page or is_change):  # other responses are JSON with the version in it
                    message["headers"].append(self._encoder_header())
            else:
                whole = not message.get("more_body", False)
            await send(message)

        body: Body | None = None
        try:
            length = self._check(scope, path, path in OPEN or is_page)
            if is_change and (body := self._memory.of_request(scope, length)) is not None:
                receive = body.metered(receive)
            route = self._hot.get(path) if scope["method"] == "POST" else None
            if route is None:
                await self._app(scope, receive, send_on)
            else:
                scope["route"] = route
                if AT_LEAST_HEADER in scope[HEADERS]:  # which few ask for, and a coroutine costs a microsecond
                    await wait_for_epoch(scope, self._service)
                else:
                    scope[EPOCH] = self._service.index.epoch
                await route.app(scope, receive, send_on)
                status = status or scope[WHOLE]  # sent in one write, past `send_on`
        except OnlineHashError as error:
            await refusal(error)(scope, receive, send_on)
        except Exception:
            logs.service.exception("a request failed", extra={"fields": {"path": scope_pattern(scope)}})
            if status == 0:
                await refusal(errors.fault())(scope, receive, send_on)
            elif not whole:
                raise  # part of the response is sent; the server closes the connection
        finally:
            if body is not None:
                body.end()
            self._record(scope, status, time.perf_counter() - start)
            if held:
                await self._release(scope, held)

    async def _release(self, scope: Scope, held: int) -> None:
        """The response needs no memory any more, once its client has received it or is gone."""
        received = scope.get("extensions", {}).get(RECEIVED)
        try:
            if held > CONSIDERABLE and received is not None:
                await received()
        finally:
            self._memory.release(held)

    def _encoder_header(self) -> tuple[bytes, bytes]:
        encoder = self._service.index.encoder
        return ENCODER_HEADER, b"none" if encoder is None else str(encoder.version).encode()

    def _check(self, scope: Scope, path: str, is_open: bool) -> int | None:
        """Refuse what is not allowed; returns the length of the body, if it is known."""
        headers = scope[HEADERS] = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):
            _refuse_repeated(scope)
        if scope["query_string"] or scope.get("raw_path") not in self._plain_targets:
            _refuse_ambiguous(scope)
        given_host = headers.get(b"host", b"")
        if self._hosts is not None:
            host = _host(given_host)
            if host not in self._hosts:
                raise errors.Forbidden(
                    f"host {host!r} is not allowed (allowed: {', '.join(sorted(self._hosts))}); add it with "
                    "--allow-host."
                )
        origin = headers.get(b"origin")
        if origin and scope["method"] not in SAFE_METHODS and _origin(origin) != given_host.decode("latin-1"):
            shown = checks.shown(origin.decode("latin-1"))
            raise errors.Forbidden(
                f"requests from {shown} are not allowed; only this service's own page may send them."
            )
        is_known = self._token is not None and self._is_known(headers.get(b"authorization", b""))
        if self._rate is not None and scope["client"] is not None:  # a reader has counted what it forwards
            self._rate.take(_WITH_TOKEN if is_known else client_of(scope))
        if self._token is not None and not is_open and not is_known:
            got = "another" if b"authorization" in headers else "none"
            raise errors.Unauthorized(
                expected="the header Authorization: Bearer TOKEN with this service's token", got=f"{got}"
            )
        given = headers.get(b"content-length", b"")
        length = int(given) if given.isdigit() else 0
        if length > self._limits.body_bytes:
            raise too_large(self._limits.body_bytes, length)
        return None if b"transfer-encoding" in headers else length

    def _is_known(self, authorization: bytes) -> bool:
        scheme, _, given = authorization.partition(b" ")
        assert self._token is not None
        return hmac.compare_digest(given.strip(), self._token) and scheme.lower() == b"bearer"

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        pattern = scope_pattern(scope)
        self._metrics.request(pattern, scope["method"], status, seconds)
        if logs.access.isEnabledFor(logging.INFO):
            client = scope["client"][0] if scope["client"] else None
            fields = {"method": scope["method"], "route": pattern, "status": status, "client": client}
            logs.access.info("request", extra={"fields": fields | {"ms": round(seconds * 1e3, 3)}})


def scope_pattern(scope: Scope) -> str:
    """The pattern of the route, not the path: an id in it may be a person's name."""
    route = scope.get("route")
    return getattr(route, "path", "none")


def _refuse_repeated(scope: Scope) -> None:
    """Refuse a request in which a header that matters was sent twice."""
    names = [name for name, _ in scope["headers"] if name in ONCE]
    if len(names) > len(set(names)):
        twice = max(names, key=names.count).decode().title()
        raise errors.BadRequest(f"the header {twice} was sent more than once; send it once.")


def _refuse_ambiguous(scope: Scope) -> None:
    """Refuse a request for something that a proxy and this service might understand differently."""
    if scope["query_string"]:
        given = [name for name, _ in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)]
        if len(given) > len(set(given)):
            twice = checks.shown(max(given, key=given.count))
            raise errors.BadRequest(f"the query parameter {twice} was sent more than once; send it once.")
    target = scope.get("raw_path", b"").partition(b"?")[0]
    if not target.startswith(b"/") or _DOTS.search(scope["path"]):
        raise errors.BadRequest("the path must begin with / and have no . or .. between slashes; send it resolved.")
    if not target.startswith(_ITEMS) and _ENCODED_SLASH.search(target):
        raise errors.BadRequest("only the id of an item may have an encoded slash; send the path with plain ones.")


def _length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """The length of a response; 0 where it is not known."""
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


@lru_cache(64)
def _host(value: bytes) -> str:
    """A Host header without its port; empty if it is not just a name or address and a port."""
    found = _HOST.fullmatch(value)
    return found[1].strip(b"[]").decode().lower() if found else ""


def _origin(value: bytes) -> str:
    """Host and port of an Origin header."""
    try:
        return urlsplit(value.decode("latin-1")).netloc
    except ValueError:
        return ""


class RateLimiter:
    """A token bucket per client, which holds one second of requests."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(1.0, rate)
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        now: float = time.monotonic()
        saved, at = self._clients.pop(client, (self._most, now))
        saved = min(self._most, saved + (now - at) * self._rate)
        allowed = saved >= 1
        self._clients[client] = (saved - 1 if allowed else saved, now)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        if not allowed:
            raise errors.Busy(
                f"rate limit exceeded ({self._rate:g} requests per second); retry after 1 s.", retry_after=1
            )
