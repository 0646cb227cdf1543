"""Search by vector, id, code or picture. These are the hot routes: bodies are parsed once and validated once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, TypeVar, cast

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady, UnknownId
from onlinehash.index.api import Capability, Id
from onlinehash.index.hits import Hits
from onlinehash.learners.encoder import Encoder
from onlinehash.live import filters
from onlinehash.live.queries import n_candidates, sorted_by
from onlinehash.serve import results
from onlinehash.serve.batches import Batches
from onlinehash.serve.bodies import shapes
from onlinehash.serve.epochs import EPOCH
from onlinehash.serve.errors import Busy, NotFound, TooLarge, UnsupportedMediaType
from onlinehash.serve.openapi import described
from onlinehash.serve.pictures import MEDIA_TYPES
from onlinehash.serve.reads import Deadline
from onlinehash.serve.requests import asked, body_of, parsed
from onlinehash.serve.responses import Document, Pieces, answer, send_json
from onlinehash.serve.service import Service

#: Attempts at a search of several steps, while others change the index.
TRIES = 3

#: How many times the limit of hits may be found before they are counted.
HITS_AT_ONCE = 8

#: Numbers of queries, of fields and values of a filter, and of hits to rerank, up to which a search is cheap.
FEW_QUERIES, FEW_FIELDS, FEW_VALUES, FEW_RERANKED = 16, 4, 100, 1000

#: Ids of one request that are few, and how many items are read between two checks of the deadline.
FEW_IDS, ITEMS_AT_ONCE = 256, 1000

#: Items times queries that are compared, queries that are reranked, and queries that find, between two checks of the
#: deadline.
_COMPARED_AT_ONCE, _RERANKED_AT_ONCE, _FOUND_AT_ONCE = 500_000_000, 256, 32

#: In responses whose hits are sorted by the distances of their codes.
_HAMMING: Document = {"ranked_by": {"metric": "hamming"}}

T = TypeVar("T")
R = TypeVar("R")


def hot_routes(service: Service) -> list[Route]:
    """Plain Starlette routes, without the overhead of FastAPI; `openapi` adds them to OpenAPI."""
    return [
        Route("/v1/find", Finds(service), methods=["POST"]),
        Route("/v1/search", Searches(service), methods=["POST"]),
        Route("/v1/within", RadiusSearches(service), methods=["POST"]),
    ]


class Finds:
    """`POST /v1/find`, an ASGI application."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, _ = await asked(shapes.Find, scope, receive, self._service)
        is_expensive = _is_expensive(body) or min(body.k, len(self._service.index)) > FEW_RERANKED
        response = await read(
            self._service, receive, lambda deadline: _find(self._service, body, deadline), is_expensive
        )
        await response(scope, receive, send)


class Searches:
    """`POST /v1/search`, an ASGI application."""

    def __init__(self, service: Service) -> None:
        self._service, self._batches = service, Batches(service.index, service.index.supports(Capability.VIEW))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, _ = await asked(shapes.Query, scope, receive, self._service)
        if body.vector is None or body.where is not None or body.rerank or body.payloads:
            response = await read(
                self._service, receive, lambda deadline: _search(self._service, body, deadline), _is_expensive(body)
            )
            await response(scope, receive, send)
            return
        found = await self._batches.search(body.vector, body.k)
        self._service.searches += 1
        epoch = scope[EPOCH] if found.epoch is None else found.epoch
        document = {"ids": _plain(found.ids), "distances": found.distances, "encoder": found.encoder.version}
        document.update(_HAMMING)
        await send_json(scope, send, document, epoch)


class RadiusSearches:
    """`POST /v1/within`, an ASGI application."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, _ = await asked(shapes.Within, scope, receive, self._service)
        response = await read(
            self._service, receive, lambda deadline: _within(self._service, body, deadline), _is_expensive(body)
        )
        await response(scope, receive, send)


def routes(service: Service) -> APIRouter:
    """All other routes."""
    router, index = APIRouter(tags=["search"]), service.index

    @router.post("/v1/rerank", **described("Rerank hits", shapes.Rerank, results.Found))
    async def rerank(request: Request) -> Response:
        """Sort hits as find would: by their vectors, in the order learned from pairs."""
        body, _ = await parsed(request, service, shapes.Rerank)
        query = cast(np.ndarray, body.vector if body.vector is not None else body.vectors)  # a body has one of both
        if len({type(id) for id in body.ids}) > 1:
            raise InvalidInput(expected="integer ids, string ids, or one list of ids per vector", got="a mixture")
        ids = np.array(body.ids, object)  # as NumPy would make strings of numbers beside a string
        refuse_wide(service, ids.size)
        hits = Hits(ids, np.zeros(ids.shape))
        encoder = index.encoder

        def rank(_: Deadline) -> Response:
            ranked_by = _learned(service)
            return answer(_lists(index.rerank(query, hits, body.k), ranked_by), encoder)

        return await read(service, request.receive, rank, ids.size > FEW_RERANKED)

    @router.post("/v1/search/image", **described("Search by a picture", MEDIA_TYPES, results.FoundByPicture))
    async def by_image(
        request: Request, k: Annotated[int, Query(ge=0, le=2**63 - 1, description="How many items.")] = 10
    ) -> Response:
        """Find the nearest items of a picture: PNG, JPEG or WebP."""
        if service.pictures is None:
            raise NotFound("this index cannot search by picture; start the service with --pictures.")
        if k > service.limits.k:
            raise TooLarge(expected=f"k of at most {service.limits.k}", got=f"{k}")
        data = await body_of(request.receive, service.limits)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in MEDIA_TYPES:
            raise UnsupportedMediaType(expected=f"{', '.join(MEDIA_TYPES)}", got=f"{kind[:80]!r}")

        vector = await asyncio.to_thread(service.pictures.vector_of, data)

        def find(_: Deadline) -> Response:
            ranked_by = _learned(service)
            hits, encoder = index.found(vector, k)
            service.searches += 1
            return answer(_lists(hits, ranked_by) | {"vector": vector}, encoder, epoch=hits.epoch)

        return await read(service, request.receive, find, min(k, len(index)) > FEW_RERANKED)

    @router.post("/v1/codes", **described("Get codes", shapes.WantedCodes, results.Encoded))
    async def codes(request: Request) -> Response:
        """The codes of items or of vectors, as hexadecimal text: bit j of a model is bit j % 8 of its byte j // 8."""
        body, _ = await parsed(request, service, shapes.WantedCodes)
        wanted = body.ids if body.vectors is None else body.vectors
        assert wanted is not None  # a body has one of both

        def encode(deadline: Deadline) -> Response:
            return encoded(service, wanted, deadline)

        return await read(service, request.receive, encode, len(wanted) > FEW_IDS)

    return router


async def read(service: Service, receive: Receive, find: Callable[[Deadline], T], is_expensive: bool) -> T:
    """Call `find` in a thread for reads, with a deadline."""
    return await service.reads.run(lambda deadline: service.read(lambda: find(deadline)), receive, is_expensive)


def _is_expensive(body: shapes.Asked | shapes.Find) -> bool:
    """Whether a search is likely to take long: one for many queries, or with a large filter."""
    codes = None if isinstance(body, shapes.Find) else body.codes
    queries = next((many for many in (body.vectors, body.ids, codes) if many is not None), ())
    where = body.where or {}
    return len(queries) > FEW_QUERIES or len(where) > FEW_FIELDS or filters.exceeds(where.values(), FEW_VALUES)


def undisturbed(find: Callable[[], T]) -> T:
    """Retry a search of two steps if an item found by the first was removed before the second."""
    for _ in range(TRIES):
        with suppress(UnknownId):
            return find()
    return find()


def encoded(
    service: Service, wanted: list[Id] | np.ndarray, deadline: Deadline, more: Document | None = None
) -> Response:
    """The codes of items, or of vectors; a few at a time, as the vectors of many items would fill the memory."""
    index = service.index
    encoder = index.encoder
    if encoder is None:
        raise not_ready(service)
    texts: list[str] = []
    for start in range(0, len(wanted), ITEMS_AT_ONCE):
        deadline.check()
        some = wanted[start : start + ITEMS_AT_ONCE]
        rows = some if np.ndim(some) == 2 else index.vectors_of(some)
        texts += [row.tobytes().hex() for row in encoder.encode(rows).rows()]
    shape = {"n_bits": encoder.n_bits, "n_models": encoder.n_models}
    return answer({"codes": texts, **shape, **(more or {})}, encoder)


def _find(service: Service, body: shapes.Find, deadline: Deadline) -> Response:
    index, where = service.index, _filter(service, body, deadline)
    vectors, ranked_by = _vectors(service, body), _learned(service)
    _refuse_many(service, min(body.k, len(index)) * (1 if np.ndim(vectors) == 1 else len(vectors)))

    def find(some: Any) -> tuple[Hits, Encoder]:
        return index.found(some, body.k, where)

    if np.ndim(vectors) == 1:
        hits, encoder = find(vectors)
    else:
        step = min(HITS_AT_ONCE * service.limits.hits // n_candidates(body.k), _FOUND_AT_ONCE)
        hits, encoder = _in_parts(vectors, step, find, _joined, lambda _: deadline.check())
    service.searches += 1 if hits.ids.ndim == 1 else len(hits.ids)
    lists = _lists(hits, ranked_by) | _payloads(service, hits.ids, body.payloads, deadline)
    return answer(lists, encoder, epoch=hits.epoch)


def _joined(parts: list[Hits]) -> Hits | None:
    """The hits of all queries; None if items were added or removed meanwhile, so that some found fewer than others."""
    if len({hits.ids.shape[1] for hits in parts}) > 1:
        return None
    return Hits(*(np.concatenate(column) for column in zip(*parts, strict=True)), epoch=_oldest(parts))


def _oldest(parts: list[Hits]) -> int | None:
    """The first epoch that hits are of; None where the index does not tell."""
    return min((hits.epoch for hits in parts if hits.epoch is not None), default=None)


def _search(service: Service, body: shapes.Query, deadline: Deadline) -> Response:
    index, where = service.index, _filter(service, body, deadline)
    query = _asked(service, body)
    vectors = None if isinstance(query, Codes) else query
    if body.rerank and vectors is None:
        raise InvalidInput("codes cannot be reranked; send vectors or ids.")
    _refuse_many(
        service, min(body.k, len(index)) * (1 if vectors is not None and np.ndim(vectors) == 1 else len(query))
    )

    def find(some: Any) -> tuple[Hits, Encoder]:
        hits, encoder = index.searched(some, body.k, where)
        return index.rerank(some, hits) if body.rerank else hits, encoder

    ranked_by = _learned(service) if body.rerank else _HAMMING
    if vectors is not None and np.ndim(vectors) == 1:
        hits, encoder = undisturbed(lambda: find(query))
    else:
        step = min(_COMPARED_AT_ONCE // max(len(index), 1), _RERANKED_AT_ONCE if body.rerank else len(query))
        hits, encoder = _in_parts(query, step, find, _joined, lambda _: deadline.check())
    if body.code is not None:
        hits = Hits(hits.ids[0], hits.distances[0], epoch=hits.epoch)
    service.searches += 1 if hits.ids.ndim == 1 else len(hits.ids)
    lists = _lists(hits, ranked_by) | _payloads(service, hits.ids, body.payloads, deadline)
    return answer(lists, encoder, epoch=hits.epoch)


def _within(service: Service, body: shapes.Within, deadline: Deadline) -> Response:
    found, encoder = _found_within(service, _asked(service, body), body, deadline)
    if body.code is not None and isinstance(found, list):
        (found,) = found
    if isinstance(found, Hits):
        service.searches += 1
        lists = _lists(found, _HAMMING) | _payloads(service, found.ids, body.payloads, deadline)
        return answer(lists, encoder, epoch=found.epoch)
    service.searches += len(found)
    ids = [hits.ids.tolist() for hits in found]
    lists = {"ids": ids, "distances": [hits.distances for hits in found], **_HAMMING}
    if body.payloads:
        pieces = Pieces(service.limits.answer_bytes)
        lists["payloads"] = [_payloads_of(service, row, pieces, deadline) for row in ids]
    return answer(lists, encoder, epoch=_oldest(found))


def _found_within(
    service: Service, query: np.ndarray | Codes, body: shapes.Within, deadline: Deadline
) -> tuple[Hits | list[Hits], Encoder]:
    """All hits, from one encoder; a few queries at a time, so that too many are refused before they fill the memory."""
    index, where = service.index, _filter(service, body, deadline)
    if not isinstance(query, Codes) and np.ndim(query) == 1:
        hits, encoder = index.found_within(query, body.radius, where)
        assert isinstance(hits, Hits)  # as it is one query
        _refuse_many(service, len(hits.ids))
        return hits, encoder

    def find(some: Any) -> tuple[list[Hits], Encoder]:
        found, encoder = index.found_within(some, body.radius, where)
        assert isinstance(found, list)
        return found, encoder

    def join(parts: list[list[Hits]]) -> list[Hits]:
        return [hits for some in parts for hits in some]

    def look(parts: list[list[Hits]]) -> None:
        deadline.check()
        _refuse_many(service, sum(len(hits.ids) for hits in join(parts)))

    step = HITS_AT_ONCE * service.limits.hits // max(len(index), 1)
    return _in_parts(query, step, find, join, look)


def _in_parts(
    queries: np.ndarray | Codes,
    step: int,
    find: Callable[[Any], tuple[T, Encoder]],
    join: Callable[[list[T]], R | None],
    look: Callable[[list[T]], None],
) -> tuple[R, Encoder]:
    """The hits of a few queries at a time, from one encoder; if the index changes in between, all start again."""
    step = max(step, 1)
    for _ in range(TRIES):
        found: list[T] = []
        encoders: set[Encoder] = set()
        for start in range(0, max(len(queries), 1), step):
            look(found)
            some, encoder = undisturbed(lambda start=start: find(queries[start : start + step]))  # type: ignore[misc]
            found.append(some)
            encoders.add(encoder)
            if len(encoders) > 1:
                break
        else:
            look(found)
            joined = join(found)
            if joined is not None:
                return joined, encoder
    raise Busy(f"the index was changed {TRIES} times during the request; retry, with fewer queries at once.")


def _filter(service: Service, body: shapes.Asked | shapes.Find, deadline: Deadline) -> Any:
    """The checked filter of a request, which indexes take as they take a mapping."""
    if body.where is None:
        return None
    limits = service.limits
    return filters.checked(body.where, deadline.check, max_fields=limits.filter_fields, max_values=limits.filter_values)


def _refuse_many(service: Service, n: int) -> None:
    if n > service.limits.hits:
        raise TooLarge(f"the answer has {n} hits, more than the limit of {service.limits.hits}; ask for fewer.")


def _asked(service: Service, body: shapes.Asked) -> np.ndarray | Codes:
    """What to search for: vectors, or codes."""
    if body.code is not None or body.codes is not None:
        return _codes(service, [body.code or ""] if body.codes is None else body.codes)
    return _vectors(service, body)


def _vectors(service: Service, body: shapes.Asked | shapes.Find) -> np.ndarray:
    """What to search for: one vector or several, as they were sent or those of items."""
    if body.vector is not None:
        return body.vector
    if body.vectors is not None:
        return body.vectors
    if body.id is not None:
        vector: np.ndarray = service.index.vectors_of([body.id])[0]
        return vector
    if body.ids is None or not len(body.ids):
        return np.empty((0, service.n_features))
    refuse_wide(service, len(body.ids))
    return service.index.vectors_of(body.ids)


def refuse_wide(service: Service, n: int) -> None:
    """Refuse ids of so many items that their vectors, which a few bytes ask for, would fill the memory."""
    most = service.limits.answer_bytes
    n_bytes = n * service.n_features * np.dtype(np.float32).itemsize
    if n_bytes > most:
        raise TooLarge(
            expected=f"items whose vectors take at most {most:,} bytes", got=f"{n} of {n_bytes:,}", hint="name fewer"
        )


def not_ready(service: Service) -> NotReady:
    """The index's own error about missing codes."""
    try:
        service.index.search(np.zeros((1, service.n_features or 1)), 0)
    except NotReady as reason:
        return reason
    return NotReady("the index has only just made its first codes; retry.")


def _codes(service: Service, texts: list[str]) -> Codes:
    encoder = service.index.encoder
    if encoder is None:
        raise not_ready(service)
    width = encoder.n_models * -(-encoder.n_bits // 8)
    try:
        rows = [bytes.fromhex(text) for text in texts]
    except ValueError:
        raise InvalidInput(expected="codes as hexadecimal strings", got="something else") from None
    for row in rows:
        if len(row) != width:
            raise InvalidInput(expected=f"codes of {width} bytes", got=f"one of {len(row)}")
    packed = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    return Codes.from_rows(packed, encoder.n_bits, encoder.n_models).checked()


def _lists(hits: Hits, ranked_by: Document) -> Document:
    return {"ids": _plain(hits.ids), "distances": hits.distances} | ranked_by


def _learned(service: Service) -> Document:
    """In responses whose hits are sorted as by `find`; taken first, because more may be learned meanwhile."""
    return {"ranked_by": sorted_by(service.index.learner.pair_metric_)}


def _plain(ids: np.ndarray) -> object:
    """Ids in a form that orjson takes."""
    return ids if ids.dtype == np.int64 and ids.flags.c_contiguous else ids.tolist()


def _payloads(service: Service, ids: np.ndarray, wanted: bool, deadline: Deadline) -> Document:
    if not wanted:
        return {}
    pieces = Pieces(service.limits.answer_bytes)
    if ids.ndim == 1:
        return {"payloads": _payloads_of(service, ids.tolist(), pieces, deadline)}
    return {"payloads": [_payloads_of(service, row, pieces, deadline) for row in ids.tolist()]}


def _payloads_of(service: Service, ids: list[Id], pieces: Pieces, deadline: Deadline) -> list[object]:
    """The payloads as JSON, a few at a time, as those of many items would fill the memory."""
    found: list[object] = []
    for start in range(0, len(ids), ITEMS_AT_ONCE):
        deadline.check()
        found += [pieces.add(payload) for payload in service.index.payloads_of(ids[start : start + ITEMS_AT_ONCE])]
    return found
