"""Search: by vector, id, code or picture. The hot route: its body is read once and checked once, by the index."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder
from onlinehash.serve import results
from onlinehash.serve.answers import answer
from onlinehash.serve.bodies import shapes
from onlinehash.serve.documents import described
from onlinehash.serve.errors import NotFound, TooLarge, UnsupportedMediaType
from onlinehash.serve.exchange import body_of, parsed
from onlinehash.serve.pictures import MEDIA_TYPES
from onlinehash.serve.service import Service

#: Items times queries up to which a search takes less time than handing it to a thread and back.
MOST_AT_ONCE = 2_000_000


def hot_routes(service: Service) -> list[Route]:
    """Plain routes, without what FastAPI does around each request; `documents` puts them into OpenAPI."""
    index = service.index

    async def search(request: Request) -> Response:
        body, _ = await parsed(request, service, shapes.Query)
        if body.where is None and not body.rerank and not body.payloads:
            query, n = (body.vector, 1) if body.vector is not None else (body.vectors, 0)
            if query is not None and len(index) * (n or len(query)) <= MOST_AT_ONCE:
                hits, encoder = index.searched(query, body.k)
                service.searches += n or len(query)
                return answer(_lists(hits), encoder)
        return await asyncio.to_thread(_search, service, body)

    async def within(request: Request) -> Response:
        body, _ = await parsed(request, service, shapes.Within)
        return await asyncio.to_thread(_within, service, body)

    return [_Named("/v1/search", search, methods=["POST"]), _Named("/v1/within", within, methods=["POST"])]


class _Named(Route):
    """A plain route that says what it is called, as FastAPI's do, to those who count."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, {**found, "route": self}


def routes(service: Service) -> APIRouter:
    """The routes beside the hot ones."""
    router, index = APIRouter(tags=["search"]), service.index

    @router.post("/v1/rerank", **described("Rerank hits", shapes.Rerank, results.Found))
    async def rerank(request: Request) -> Response:
        """The same hits in the order of the distance of query and stored vector."""
        body, _ = await parsed(request, service, shapes.Rerank)
        query = body.vector if body.vector is not None else body.vectors
        if len({type(id) for id in body.ids}) > 1:
            raise InvalidInput("expected ids of one kind, or a list of ids for each vector, got several kinds.")
        ids = np.array(body.ids, object)  # as NumPy would make strings of numbers beside a string
        hits = Hits(ids, np.zeros(ids.shape))
        encoder = index.encoder
        return answer(_lists(await asyncio.to_thread(index.rerank, query, hits, body.k)), encoder)

    @router.post("/v1/search/image", **described("Search by a picture", MEDIA_TYPES, results.FoundByPicture))
    async def by_image(request: Request, k: Annotated[int, Query(ge=0, le=2**63 - 1)] = 10) -> Response:
        """The items whose vectors are near that of a picture: PNG, JPEG or WebP."""
        if service.pictures is None:
            raise NotFound("expected an index that reads pictures, got one that does not; start it with --pictures.")
        if k > service.limits.k:
            raise TooLarge(f"expected k of at most {service.limits.k}, got {k}.")
        data = await body_of(request, service.limits)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in MEDIA_TYPES:
            raise UnsupportedMediaType(f"expected {', '.join(MEDIA_TYPES)}, got {kind[:80]!r}.")

        def find() -> Response:
            assert service.pictures is not None
            vector = service.pictures.vector_of(data)
            hits, encoder = index.searched(vector, k)
            service.searches += 1
            return answer(_lists(hits) | {"vector": vector}, encoder)

        return await asyncio.to_thread(find)

    @router.post("/v1/codes", **described("Get codes", shapes.WantedCodes, results.Encoded))
    async def codes(request: Request) -> Response:
        """The codes of items or of vectors, as hexadecimal text: bit j of a model is bit j % 8 of its byte j // 8."""
        body, _ = await parsed(request, service, shapes.WantedCodes)
        return await asyncio.to_thread(lambda: encoded(service, body.ids, body.vectors))

    return router


def encoded(service: Service, ids: Any, vectors: Any, more: dict[str, Any] | None = None) -> Response:
    """The codes of items, or of vectors."""
    index = service.index
    encoder = index.encoder
    if encoder is None:
        raise NotReady("expected an index with codes, got one that has none yet; add items.")
    rows = index.vectors_of(ids) if ids is not None and len(ids) else vectors
    texts = [] if rows is None else [row.tobytes().hex() for row in encoder.encode(rows).rows()]
    shape = {"n_bits": encoder.n_bits, "n_models": encoder.n_models}
    return answer({"codes": texts, **shape, **(more or {})}, encoder)


def _search(service: Service, body: shapes.Query) -> Response:
    index = service.index
    query, encoder = _asked(service, body), None
    vectors = None if isinstance(query, Codes) else query
    if body.rerank and vectors is None:
        raise InvalidInput("expected vectors or ids to rerank by, got codes.")
    hits, encoder = index.searched(query, body.k, body.where)
    if body.rerank:
        hits = index.rerank(query, hits)
    if body.code is not None:
        hits = Hits(hits.ids[0], hits.distances[0])
    service.searches += 1 if hits.ids.ndim == 1 else len(hits.ids)
    return answer(_lists(hits) | _payloads(service, hits.ids, body.payloads), encoder)


def _within(service: Service, body: shapes.Within) -> Response:
    query = _asked(service, body)
    found, encoder = service.index.found_within(query, body.radius, body.where)
    if body.code is not None:
        (found,) = found
    if isinstance(found, Hits):
        service.searches += 1
        return answer(_lists(found) | _payloads(service, found.ids, body.payloads), encoder)
    service.searches += len(found)
    lists = {"ids": [hits.ids.tolist() for hits in found], "distances": [hits.distances for hits in found]}
    if body.payloads:
        lists["payloads"] = [service.index.payloads_of(ids) for ids in lists["ids"]]
    return answer(lists, encoder)


def _asked(service: Service, body: shapes.Query | shapes.Within) -> Any:
    """What to search for: vectors, or codes."""
    if body.vector is not None or body.vectors is not None:
        return body.vector if body.vector is not None else body.vectors
    if body.id is not None:
        return service.index.vectors_of([body.id])[0]
    if body.ids is not None:
        return service.index.vectors_of(body.ids) if len(body.ids) else np.empty((0, service.n_features))
    return _codes(service.index.encoder, [body.code or ""] if body.codes is None else body.codes)


def _codes(encoder: Encoder | None, texts: list[str]) -> Codes:
    if encoder is None:
        raise NotReady("expected an index with codes to search, got one that never had an item; add some.")
    width = encoder.n_models * -(-encoder.n_bits // 8)
    try:
        rows = [bytes.fromhex(text) for text in texts]
    except ValueError:
        raise InvalidInput("expected codes as hexadecimal text, got something else.") from None
    for row in rows:
        if len(row) != width:
            raise InvalidInput(f"expected codes of {width} bytes, got one of {len(row)}.")
    packed = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    return Codes.from_rows(packed, encoder.n_bits, encoder.n_models).checked()


def _lists(hits: Hits) -> dict[str, Any]:
    ids = hits.ids
    return {"ids": ids if ids.dtype == np.int64 else ids.tolist(), "distances": hits.distances}


def _payloads(service: Service, ids: np.ndarray, wanted: bool) -> dict[str, Any]:
    if not wanted:
        return {}
    rows = ids.tolist()
    of = service.index.payloads_of
    return {"payloads": of(rows) if ids.ndim == 1 else [of(row) for row in rows]}
