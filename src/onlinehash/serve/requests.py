"""What a request says: its body, its idempotency key, the id in its path, and who sends it."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from functools import lru_cache
from typing import TypeVar

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.types import Receive, Scope

from onlinehash.errors import InvalidInput, UnknownId
from onlinehash.live.texts import no_embedder
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import Shape
from onlinehash.serve.changes import Retry
from onlinehash.serve.errors import BadRequest, TooLarge
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits

#: Bytes from which a body is parsed in a thread, so that others are answered meanwhile.
LARGE = 1 << 16

#: Bytes from which the parts of a body are joined in a thread: 60 MB take thirty milliseconds.
LARGE_PARTS = 1 << 20

#: Where the scope of a request has its headers as a dictionary, once the middleware has checked them.
HEADERS = "onlinehash.headers"

KEY_HEADER = "Idempotency-Key"
LONGEST_KEY = 128

#: How a reader tells the writer who sent a request that it forwards; trusted only on the writer's private socket.
CLIENT_HEADER = b"onlinehash-client"

S = TypeVar("S", bound=Shape)


def too_large(most: int, got: int) -> TooLarge:
    """A body beyond the limit."""
    return TooLarge(expected=f"a body of at most {most:,} bytes", got=f"{got:,}", hint="send it in parts")


async def body_of(receive: Receive, limits: Limits) -> bytes:
    """The whole body, within the size limit; the connection enforces the time limit."""
    parts: list[bytes] = []
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("the body ended early.")
        parts.append(message.get("body", b""))
        length += len(parts[-1])
        more = message.get("more_body", False)
        if length > limits.body_bytes:
            raise too_large(limits.body_bytes, length)
    if length > LARGE_PARTS:
        return await asyncio.to_thread(b"".join, parts)  # which lets other threads run
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def parsed(request: Request, service: Service, shape: type[S]) -> tuple[S, bytes]:
    """The parsed body, and its bytes."""
    return await asked(shape, request.scope, request.receive, service)


async def asked(shape: type[S], scope: Scope, receive: Receive, service: Service) -> tuple[S, bytes]:
    """The same, for routes without a Request object."""
    limits = service.limits
    data = await body_of(receive, limits)
    kind = scope[HEADERS].get(b"content-type", b"").decode("latin-1")
    query = QueryParams(scope["query_string"]) if scope["query_string"] else {}
    if len(data) < LARGE:
        body = read(shape, kind, data, query, limits)
    else:
        body = await service.parsed(lambda: read(shape, kind, data, query, limits))
    for name, place in body.embedded.items():
        if getattr(body, name) is not None:
            await _embed(body, name, place, service)
    return body, data


async def _embed(body: Shape, name: str, place: str, service: Service) -> None:
    """Put the vectors of a body's texts where it would have had vectors."""
    if getattr(body, place) is not None:
        raise InvalidInput(f"{name} and {place} say the same in two ways; send one of them.")
    if service.embedding is None:
        raise no_embedder(service.index.embedded_by)
    texts = getattr(body, name)
    vectors = await service.embedding.vectors_of([texts] if isinstance(texts, str) else texts)
    setattr(body, place, vectors[0] if isinstance(texts, str) else vectors)


def held(body: Shape, data: bytes) -> int:
    """The bytes that a change holds while it waits: those of its body, and of vectors that were made of its texts."""
    made = [getattr(body, place) for name, place in body.embedded.items() if getattr(body, name) is not None]
    return len(data) + sum(int(vectors.nbytes) for vectors in made)


async def retry_of(request: Request, data: bytes) -> Retry | None:
    """The key and digest that identify a retry of this request, if the client sent a key."""
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return None
    if not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable() and " " not in key):
        raise BadRequest(
            expected=f"an {KEY_HEADER} of 1 to {LONGEST_KEY} visible ASCII characters",
            got=f"{len(key)} characters",
            hint="a random UUID is a good one",
        )
    digest = hashlib.blake2b(digest_size=16)
    kind = request.headers.get("content-type", "")
    for part in (request.method, request.url.path, request.url.query, kind):
        digest.update(part.encode() + b"\0")
    if len(data) < LARGE:
        digest.update(data)
    else:
        await asyncio.to_thread(digest.update, data)  # 60 MB would hold up everybody for a tenth of a second
    return Retry(key, digest.hexdigest())


def id_in_path(text: str, service: Service) -> int | str:
    """The id that a path names: an integer if the index has integers."""
    is_number = text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 20 and str(int(text)) == text
    if is_number and not service.has_text_ids:
        return int(text)
    if len(service.index) and not service.has_text_ids:
        raise UnknownId(f"no item has id {text[:80]!r}; ids here are integers.")
    return text


def client_of(scope: Scope) -> str:
    """The address that limits per client apply to; for IPv6 its network, as one client may use all addresses in it."""
    client = scope.get("client")
    if client is not None:
        return _network(client[0])
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == CLIENT_HEADER), "")


@lru_cache(1024)
def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
